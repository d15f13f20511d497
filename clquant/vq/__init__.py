"""The vector-quantization image codec: LBG codebooks, exact search, the .clvq container."""

from clquant.vq.codec import VQCodec

__all__ = ["VQCodec"]
