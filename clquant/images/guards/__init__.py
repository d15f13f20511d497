"""Bounds on the work and memory that a file may cost its decoder, checked before decoding."""
