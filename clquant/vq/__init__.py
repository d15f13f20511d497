"""The vector-quantization image codec: LBG codebooks, exact search, side match, the .clvq container."""

from clquant.vq.codec import VQCodec
from clquant.vq.container.chunks import register_codebook
from clquant.vq.container.info import ClvqInfo, clvq_info

__all__ = ["ClvqInfo", "VQCodec", "clvq_info", "register_codebook"]
