"""Models of indices as .clvq files hold them (docs/clvq-format.md, "The model section")."""

from __future__ import annotations

import numpy as np

from clquant.runtime import FormatError, Session
from clquant.training.blocks import BlockShape
from clquant.vq.coding.codebook_coding import decode_codebook, encode_codebook
from clquant.vq.coding.contexts import BINS, PRESET, Model, pack_curves, unpack_curves
from clquant.vq.coding.learning import MOST_RARE
from clquant.vq.container import clvq_format

_RARITY_SHAPE = BlockShape(1, 1, 1)


def encode_model(session: Session, model: Model) -> tuple[int, bytes]:
    """Return a header's number for a model, and the bytes of its section."""
    if model.rarity.any():
        rarity = encode_codebook(session, model.rarity.reshape(-1, 1), _RARITY_SHAPE)
        return clvq_format.OWN_CURVES_AND_RARITY, pack_curves(model.curves) + rarity
    if np.array_equal(model.curves, PRESET):
        return clvq_format.PRESET_CURVES, b""
    return clvq_format.OWN_CURVES, pack_curves(model.curves)


def decode_model(session: Session, header: clvq_format.Header, data: bytes) -> Model:
    """The model that `encode_model` was given."""
    curves, rarity = PRESET, np.zeros(header.codebook_size, np.uint8)
    if header.model != clvq_format.PRESET_CURVES:
        curves = unpack_curves(data[:BINS])
    if header.model == clvq_format.OWN_CURVES_AND_RARITY:
        rarity = decode_codebook(session, data[BINS:], header.codebook_size, _RARITY_SHAPE).ravel()
    if int(rarity.max()) > MOST_RARE:
        raise FormatError("the rarities of a .clvq file are out of range")
    return Model(curves, rarity)
