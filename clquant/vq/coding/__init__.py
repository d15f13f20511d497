"""Index tables and codebooks as words of rANS, by the contexts of their neighbours."""
