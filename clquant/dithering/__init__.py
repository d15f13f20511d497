"""Dithers by name: ordered ones, and error diffusion."""
