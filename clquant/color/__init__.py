"""Palettes, indexed pictures, their order and colour spaces."""
