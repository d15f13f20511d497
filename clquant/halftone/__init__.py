"""clquant.halftone."""
