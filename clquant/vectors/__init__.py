"""Quantization of numbers and vectors."""

from clquant.vectors.scalar import scalar_codebook

__all__ = ["scalar_codebook"]
