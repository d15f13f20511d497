"""Palette files, GIF and sixel: readers and writers."""
