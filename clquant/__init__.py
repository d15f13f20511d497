"""Image quantization on any OpenCL device, with the same bits on every machine."""

__version__ = "0.1.0"
