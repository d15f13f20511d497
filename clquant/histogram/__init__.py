"""Counting a picture's colours on the device."""
