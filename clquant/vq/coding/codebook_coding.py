"""Codebooks as .clvq files hold them: residuals of a prediction, coded by rANS (docs/clvq-format.md, "Codebook")."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from clquant.runtime import FormatError, Session
from clquant.training.blocks import BlockShape, Codebook
from clquant.vq.coding.streams import join_streams, sent_streams, spread

CODED, RAW = 1, 0
_FILE = "vq/coding/codebook_coding.cl"
_CLASSES = 24  # 2 * CLASSES in cl/vq/coding/codebook_coding.cl
_SCALES = 16
_RUN_COMPONENTS = 1 << 11  # of a run of codewords, which one state codes
_COUNT, _STATE = np.dtype("<u2"), np.dtype("<u4")


@functools.lru_cache(maxsize=1)
def scale_tables() -> npt.NDArray[np.uint16]:
    """Cumulative frequencies of residuals modulo 256 for every scale, shape (16, 257)."""
    # Scale s is a Cauchy distribution: a residual r weighs 2^(20 + s) / (2^s + 16 r^2), rounded down, and 1 more.
    signed = [r - 256 if r > 127 else r for r in range(256)]
    weights = [[((1 << 20) << s) // ((1 << s) + 16 * r * r) + 1 for r in signed] for s in range(_SCALES)]
    return np.array([spread(each) for each in weights], np.uint16)


def run_length(size: int, shape: BlockShape) -> int:
    """Codewords of a run; the last may have fewer."""
    runs = -(-size * shape.components // _RUN_COMPONENTS)
    return -(-size // runs)


def longest(size: int, shape: BlockShape) -> int:
    """Most bytes that a codebook takes."""
    return 1 + size * shape.components


def shortest(size: int, shape: BlockShape) -> int:
    """Fewer bytes than any codebook takes, so that decoding one costs in proportion to its bytes."""
    # The likeliest residual has 27,167 of 2^15 frequencies, so that a word of 16 bits lasts for at most 63 components:
    # from 2^32, x -> 0.829 x + 4643 comes below 2^16 in as many steps. A run of n components has 6 bytes beside these.
    return 1 + size * shape.components // 32


def encode_codebook(session: Session, codebook: Codebook, shape: BlockShape) -> bytes:
    """The shorter of a codebook's coded and its raw bytes."""
    size, components = codebook.shape
    raw = bytes([RAW]) + codebook.tobytes()
    run = run_length(size, shape)
    runs = -(-size // run)
    with session.scope() as scope:
        program = session.program(_FILE, **shape.sides)
        source, residuals = scope.copy_of(codebook), scope.empty(2 * codebook.size)
        sizes = {"size": np.uint32(size), "run": np.uint32(run)}
        kernel = program.kernel("vq_codebook_residuals")
        group = session.work_group_size(kernel, 64)
        session.launch(kernel, codebook.size, group, codebook=source, **sizes, residuals=residuals)
        scales = _scales(session.download(residuals, codebook.size, np.uint16))
        words, states, counts = (scope.empty(n) for n in (2 * runs * run * components, 4 * runs, 4 * runs))
        tables = {"tables": scope.copy_of(scale_tables()), "scales": scope.copy_of(scales)}
        made = {"words": words, "states": states, "counts": counts}
        kernel = program.kernel("vq_codebook_encode")
        session.launch(kernel, runs, 1, residuals=residuals, **sizes, count=np.uint32(runs), **tables, **made)
        count = session.download(counts, runs, np.uint32)
        streams = join_streams(session, scope, words, count, run * components)
        head = (scales[0::2] | scales[1::2] << 4).tobytes() + count.astype(_COUNT).tobytes()
        head += session.download(states, runs, np.uint32).astype(_STATE).tobytes()
    coded = bytes([CODED]) + head + b"".join(stream.astype("<u2").tobytes() for stream in streams)
    return min(raw, coded, key=len)


def decode_codebook(session: Session, data: bytes, size: int, shape: BlockShape) -> Codebook:
    """The codebook that `encode_codebook` was given, shape (N, K)."""
    components = shape.components
    if data[:1] == bytes([RAW]):
        if len(data) != 1 + size * components:
            raise FormatError("a .clvq file's codebook has the wrong length")
        raw: Codebook = np.frombuffer(data, np.uint8, offset=1).reshape(size, components).copy()
        return raw
    run = run_length(size, shape)
    runs = -(-size // run)
    head = 1 + _CLASSES // 2 + runs * (_COUNT.itemsize + _STATE.itemsize)
    if data[:1] != bytes([CODED]) or len(data) < head:
        raise FormatError("a .clvq file's codebook is not coded in a known way")
    packed = np.frombuffer(data, np.uint8, _CLASSES // 2, 1)
    scales = np.stack([packed & 15, packed >> 4], -1).ravel()
    counts = np.frombuffer(data, _COUNT, runs, 1 + _CLASSES // 2).astype(np.int64)
    states = np.frombuffer(data, _STATE, runs, head - runs * _STATE.itemsize)
    if len(data) != head + 2 * int(counts.sum()):
        raise FormatError("a .clvq file's codebook has the wrong length")
    words = np.split(np.frombuffer(data, "<u2", offset=head).astype(np.uint16), np.cumsum(counts)[:-1])
    with session.scope() as scope:
        tables = {"tables": scope.copy_of(scale_tables()), "scales": scope.copy_of(scales)}
        sizes = {"size": np.uint32(size), "run": np.uint32(run), "count": np.uint32(runs)}
        made = {"codebook": scope.empty(size * components), "wrong": scope.zeros(4)}
        kernel = session.program(_FILE, **shape.sides).kernel("vq_codebook_decode")
        session.launch(kernel, runs, 1, **sent_streams(scope, words, states), **sizes, **tables, **made)
        decoded = session.download(made["codebook"], (size, components), np.uint8)
        if session.download(made["wrong"], 1, np.uint32)[0]:
            raise FormatError("a .clvq file's codebook does not end where its words do")
        return decoded


def _scales(residuals: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint8]:
    """The table of each class under which its residuals take the fewest bits, the first on ties."""
    counts = np.bincount(residuals, minlength=256 * _CLASSES).reshape(_CLASSES, 256)
    best: npt.NDArray[np.uint8] = (counts @ _costs().T).argmin(1).astype(np.uint8)
    return best


@functools.lru_cache(maxsize=1)
def _costs() -> npt.NDArray[np.int64]:
    """Sixteenths of a bit that each residual takes by each table, shape (16, 256)."""
    frequencies = np.diff(scale_tables().astype(np.int64), axis=1)
    return np.array([[15 * 16 - (int(f) ** 16).bit_length() + 1 for f in row] for row in frequencies])
