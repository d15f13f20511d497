"""Dithers by name, and ordered dithering."""
