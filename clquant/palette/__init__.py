"""clquant.palette."""
