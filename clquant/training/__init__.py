"""Codebooks of blocks and of rows: their training, and the search for the nearest codeword."""
