"""VQCodec beside faiss, SciPy, scikit-learn and NumPy: time, codebooks, rate. `python -m benchmarks.vq`."""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import pyopencl.array

from benchmarks import harness
from benchmarks.harness import Options, Picture, Table
from clquant import VQCodec, quality, runtime
from clquant.training.blocks import BlockShape
from clquant.training.search import VARIANTS

FAISS = harness.peer("faiss")
SCIPY = harness.peer("scipy.cluster.vq")
SKLEARN = harness.peer("sklearn.cluster")
SHAPE = BlockShape(4, 4, 1)
OURS = "clquant VQCodec"
CONVERGED = 300
KINDS = ((64, (4, 4)), (256, (4, 4)), (1024, (4, 4)), (4096, (4, 4)), (256, (2, 2)), (512, (8, 8)), (256, (3, 5)))
Blocks = npt.NDArray[np.uint8]


def gray(picture: Picture) -> Picture:
    """Luma; a picture that is gray already keeps its values."""
    return np.asarray(PIL.Image.fromarray(picture).convert("L"))


def rows(picture: Picture) -> Blocks:
    """The picture's 4x4 blocks in raster order; edge blocks repeat the last row and column."""
    height, width = picture.shape
    whole = np.pad(picture, ((0, -height % SHAPE.rows), (0, -width % SHAPE.columns)), mode="edge")
    split = whole.reshape(whole.shape[0] // SHAPE.rows, SHAPE.rows, -1, SHAPE.columns)
    return np.ascontiguousarray(split.transpose(0, 2, 1, 3)).reshape(-1, SHAPE.components)


def codec_of(picture: Picture, size: int, queue: runtime.CommandQueue) -> VQCodec:
    """A codec whose codewords are blocks of the picture: training has no part in search times."""
    blocks = rows(picture)
    chosen = np.random.default_rng(0).choice(len(blocks), size, replace=len(blocks) < size)
    codec = VQCodec(size, queue=queue)
    codec.codebook_ = blocks[chosen].reshape(size, 4, 4)
    return codec


def searchers(codec: VQCodec, picture: Picture) -> dict[str, Callable[[], Any]]:
    """The peers' exact searches, from blocks in memory as floats to indices."""
    floats = rows(picture).astype(np.float32)
    codewords = codec.codebook_.reshape(len(codec.codebook_), 16).astype(np.float32)
    calls: dict[str, Callable[[], Any]] = {}
    if FAISS is not None:
        index = FAISS.IndexFlatL2(16)
        index.add(codewords)
        calls["faiss IndexFlatL2"] = partial(index.search, floats, 1)
    if SCIPY is not None:
        calls["SciPy vq"] = partial(SCIPY.vq, floats, codewords, check_finite=False)
    return calls


def encoding(options: Options, picture: Picture, side: int, size: int) -> Table:
    """One size of picture and codebook: every form of our kernel, and the peers."""
    sized = harness.to_size(picture, side, side)
    queue = options.queue()
    codec = codec_of(sized, size, queue)
    on_device = pyopencl.array.to_device(queue, sized)
    columns = {"method": "method", "ms": "end to end, ms", "kernel_ms": "kernel, ms"}
    note = "End to end: host array to host indices. Peers are given their blocks as floats already."
    table = Table(f"Encode {side}x{side} gray, 4x4 blocks, N = {size}", columns, note=note)
    timing = harness.time_call(partial(codec.encode, sized), options.repeat, budget_s=10)
    kernel = harness.kernel_ms(partial(codec.encode, on_device), options.repeat)
    table.add(method=OURS, ms=timing.median_ms, kernel_ms=kernel)
    for variant in VARIANTS:
        if variant.admits(runtime.open_session(queue).limits):
            with runtime.force_variant(variant.name):
                table.add(
                    method=f"its form {variant.name!r}",
                    kernel_ms=harness.kernel_ms(partial(codec.encode, on_device), options.repeat),
                )
    if side <= 2048:
        for name, call in searchers(codec, sized).items():
            table.add(method=name, ms=harness.time_call(call, options.repeat, budget_s=10).median_ms)
    return table


def decoding(options: Options, picture: Picture, side: int) -> Table:
    """Index table to picture, beside NumPy's fancy indexing."""
    sized = harness.to_size(picture, side, side)
    queue = options.queue()
    codec = codec_of(sized, 1024, queue)
    indices = codec.encode(sized)
    on_device = pyopencl.array.to_device(queue, np.asarray(indices))
    columns = {"method": "method", "ms": "end to end, ms", "kernel_ms": "kernel, ms", "gbps": "GB/s in the kernel"}
    table = Table(
        f"Decode {side}x{side} gray, 4x4 blocks, N = 1024", columns, note="GB/s: indices read, pixels written."
    )

    def by_numpy() -> Picture:
        blocks = codec.codebook_[indices]
        return blocks.transpose(0, 2, 1, 3).reshape(side // 4 * 4, side // 4 * 4)

    timing = harness.time_call(partial(codec.decode, indices), options.repeat)
    with runtime.profile() as profile:
        codec.decode(on_device)
    kernel = profile.by_name()["vq_decode"]
    moved = side * side * (1 + 1 / 8)
    table.add(method=OURS, ms=timing.median_ms, kernel_ms=kernel, gbps=moved / kernel / 1e6)
    table.add(method="NumPy codebook[indices]", ms=harness.time_call(by_numpy, options.repeat).median_ms)
    return table


def trainers(queue: runtime.CommandQueue) -> dict[str, Callable[[Picture, int], float]]:
    """Ways to a codebook; each gives the mean squared error of the picture coded by it."""

    def ours(picture: Picture, size: int, **parameters: Any) -> float:
        return VQCodec(size, queue=queue, **parameters).fit(picture).mse_

    def by_faiss(picture: Picture, size: int) -> float:
        data = rows(picture).astype(np.float32)
        kmeans = FAISS.Kmeans(16, size, niter=CONVERGED, seed=0, max_points_per_centroid=1 << 24)
        kmeans.cp.min_points_per_centroid = 1
        kmeans.train(data)
        return float(kmeans.index.search(data, 1)[0].sum(dtype=np.float64)) / data.size

    def by_sklearn(picture: Picture, size: int) -> float:
        data = rows(picture).astype(np.float32)
        found = SKLEARN.KMeans(size, n_init=1, random_state=0, max_iter=CONVERGED, tol=0).fit(data)
        return float(found.inertia_) / data.size

    calls: dict[str, Callable[[Picture, int], float]] = {
        OURS: ours,
        f"{OURS}, refine=0": partial(ours, refine=0),
        f"{OURS}, splitting, refine=0": partial(ours, refine=0, init="splitting"),
    }
    if FAISS is not None:
        calls["faiss Kmeans, converged"] = by_faiss
    if SKLEARN is not None:
        calls["scikit-learn KMeans, converged"] = by_sklearn
    return calls


def codebooks(options: Options, pictures: Mapping[str, Picture], size: int) -> Table:
    """Mean squared error of codebooks, one trained on each picture. Ours are whole numbers, the peers' are floats."""
    columns = {"method": "method", "mse": "mean MSE", "ms": "time for all, ms"}
    note = "One codebook a picture, coded with it. Our codewords are uint8; the peers' are left as floats."
    table = Table(f"Codebooks of {size}, {len(pictures)} gray pictures, 4x4 blocks", columns, note=note)
    for method, call in trainers(options.queue()).items():
        errors: list[float] = []
        timing = harness.time_call(lambda call=call, errors=errors: errors.extend(_each(call, pictures, size)), 1, 0)
        table.add(method=method, mse=float(np.mean(errors[-len(pictures) :])), ms=timing.median_ms)
    return table


def _each(call: Callable[[Picture, int], float], pictures: Mapping[str, Picture], size: int) -> list[float]:
    return [call(picture, size) for picture in pictures.values()]


def rates(options: Options, pictures: Mapping[str, Picture], sizes: tuple[int, ...]) -> Table:
    """Bits a pixel and PSNR as codebooks grow: indices alone, in .clvq files, and with side match."""
    columns = {
        "picture": "picture",
        "size": "N",
        "psnr": "PSNR, dB",
        "bits": "log2 N / 16",
        "plain": ".clvq, bits a pixel",
        "matched": "side match, bits a pixel",
        "matched_psnr": "its PSNR, dB",
        "codebook": "codebook, bits a pixel",
    }
    note = (
        "The codebook is trained on the picture; its own bits are in the last column. "
        "Side match: state_size=64, tolerance=10."
    )
    table = Table("Rate and quality, 4x4 blocks", columns, note=note)
    for name, picture in pictures.items():
        for size in sizes:
            codec = VQCodec(size, queue=options.queue()).fit(picture)
            with_book = codec.compress(picture)
            plain = codec.compress(picture, embed_codebook=False)
            matched = codec.set_params(state_size=64, tolerance=10.0).compress(picture, embed_codebook=False)
            bits = {key: 8 * len(data) / picture.size for key, data in (("plain", plain), ("matched", matched))}
            table.add(
                picture=name,
                size=size,
                psnr=quality.psnr(picture, codec.decompress(plain)),
                matched_psnr=quality.psnr(picture, codec.decompress(matched)),
                bits=np.log2(size) / 16,
                codebook=8 * (len(with_book) - len(plain)) / picture.size,
                **bits,
            )
    return table


def index_sizes(
    options: Options, pictures: Mapping[str, Picture], kinds: tuple[tuple[int, tuple[int, int]], ...]
) -> Table:
    """Files without codebook beside their index tables in zlib (level 9) and LZMA (preset 9), the shorter of both."""
    columns = {
        "size": "N",
        "block": "block",
        "tables": "tables",
        "bits": "bits an index",
        "general": "zlib or LZMA, bits an index",
        "mean": "mean ratio",
        "worst": "worst ratio",
    }
    note = (
        "Codebooks are trained on their pictures (refine=4). Ratios: bytes of a .clvq file over those of the shorter."
    )
    table = Table("Index tables in .clvq files beside general compression", columns, note=note)
    for size, block in kinds:
        found = []
        for picture in pictures.values():
            codec = VQCodec(size, block, refine=4, queue=options.queue()).fit(picture)
            indices = np.asarray(codec.encode(picture))
            raw = indices.tobytes()
            general = min(len(zlib.compress(raw, 9)), len(lzma.compress(raw, lzma.FORMAT_ALONE, preset=9)))
            found.append((len(codec.compress(picture, embed_codebook=False)), general, indices.size))
        ours, theirs, indices_of = np.array(found, np.float64).T
        table.add(
            size=size,
            block=f"{block[0]}x{block[1]}",
            tables=len(found),
            bits=float(np.mean(8 * ours / indices_of)),
            general=float(np.mean(8 * theirs / indices_of)),
            mean=float(np.mean(ours / theirs)),
            worst=float(np.max(ours / theirs)),
        )
    return table


def of_at_most(picture: Picture, form: str, nbytes: int) -> bytes | None:
    """The file of the highest quality of Pillow's JPEG (4:2:0, optimized) or WebP (method 6) within so many bytes."""
    options: dict[str, Any] = {"optimize": True} if form == "JPEG" else {"method": 6}
    low, best = 1, None
    high = 95
    while low <= high:
        middle = (low + high) // 2
        file = io.BytesIO()
        PIL.Image.fromarray(picture).save(file, form, quality=middle, **options)
        if file.tell() <= nbytes:
            best, low = file.getvalue(), middle + 1
        else:
            high = middle - 1
    return best


def beside_transforms(options: Options, pictures: Mapping[str, Picture], sizes: tuple[int, ...]) -> Table:
    """What JPEG and WebP make of as many bytes, for codebooks in the file and for one that all files share.

    The shared codebook is learned from every second picture, and the others are coded by it.
    """
    columns = {
        "codebook": "codebook",
        "size": "N",
        "bits": "bits a pixel",
        "psnr": "PSNR, dB",
        "jpeg": "less that of JPEG, dB",
        "webp": "less that of WebP, dB",
    }
    names = list(pictures)
    table = Table("VQ beside JPEG and WebP of at most as many bytes, means", columns)
    for size in sizes:
        shared = VQCodec(size, queue=options.queue()).fit([pictures[name] for name in names[::2]])
        for kind, chosen in (("in the file", names), ("shared", names[1::2] or names)):
            found = []
            for name in chosen:
                picture = pictures[name]
                own = kind == "in the file"
                codec = VQCodec(size, queue=options.queue()).fit(picture) if own else shared
                data = codec.compress(picture, embed_codebook=own)
                ours = quality.psnr(picture, codec.decompress(data))
                rivals = [of_at_most(picture, form, len(data)) for form in ("JPEG", "WEBP")]
                if None not in rivals:
                    theirs = [quality.psnr(picture, decoded(each, picture)) for each in rivals if each is not None]
                    pixels = picture.shape[0] * picture.shape[1]
                    found.append((8 * len(data) / pixels, ours, *(ours - each for each in theirs)))
            if found:
                bits, psnr, jpeg, webp = (float(n) for n in np.mean(found, axis=0))
                table.add(codebook=kind, size=size, bits=bits, psnr=psnr, jpeg=jpeg, webp=webp)
    return table


def decoded(data: bytes, picture: Picture) -> Picture:
    """The picture of a file, with the channels of another one."""
    return np.asarray(PIL.Image.open(io.BytesIO(data)).convert("L" if picture.ndim == 2 else "RGB"))


def run(options: Options) -> Iterator[Table]:
    """All tables of this topic."""
    pictures = {name: gray(picture) for name, picture in harness.pictures(options).items()}
    first = next(iter(pictures.values()))
    for side in options.sizes(512, 2048, 8192):
        for size in (1024,) if options.quick or side > 512 else (128, 256, 512, 1024):
            yield encoding(options, first, side, size)
        yield decoding(options, first, side)
    for size in (64,) if options.quick else (256, 1024):
        yield codebooks(options, pictures, size)
    sizes = (64,) if options.quick else (64, 256, 1024)
    yield rates(options, pictures, (64,) if options.quick else (128, 256, 512, 1024))
    yield index_sizes(options, pictures, KINDS[:1] if options.quick else KINDS)
    yield beside_transforms(options, pictures, sizes)
    yield beside_transforms(options, harness.pictures(options), sizes)


if __name__ == "__main__":
    harness.main(run)
