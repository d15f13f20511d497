"""Quantization of numbers and vectors."""

from clquant.vectors.product import ProductQuantizer
from clquant.vectors.quantizer import VectorQuantizer
from clquant.vectors.residual import ResidualQuantizer
from clquant.vectors.scalar import scalar_codebook

__all__ = ["ProductQuantizer", "ResidualQuantizer", "VectorQuantizer", "scalar_codebook"]
