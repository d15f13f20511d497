"""Palettes by NeuQuant, Dekker's self-organizing map."""

from clquant.neuquant.engine import NeuQuantCL

__all__ = ["NeuQuantCL"]
