"""clquant.runtime."""
