"""clquant.vq."""
