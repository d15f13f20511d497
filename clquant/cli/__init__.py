"""clquant.cli."""
