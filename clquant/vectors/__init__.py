"""Quantization of numbers and vectors."""

from clquant.vectors.quantizer import VectorQuantizer
from clquant.vectors.scalar import scalar_codebook

__all__ = ["VectorQuantizer", "scalar_codebook"]
