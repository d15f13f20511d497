"""From pixels to the nearest palette entries."""
