"""Dithering by search beside libimagequant: `python -m benchmarks.search_dithers --images FOLDER`.

Four figures of each picture, as shares of libimagequant's, dithered at its level 1, with its own palette: the visual
error of luma, CIEDE2000 after a blur, S-CIELAB, and the speck error, none of which the search minimizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import PIL.Image

from benchmarks import harness
from benchmarks.harness import Options, Table
from benchmarks.palette_peers import IMAGEQUANT
from clquant import KMeansPalette, PinwheelHalftoner, SearchDither, SpatialPalette, quality, runtime
from clquant.color.space_tables import linear_table

Picture = npt.NDArray[np.uint8]
Float = npt.NDArray[np.float64]
# Pixels of a side at most: libimagequant and S-CIELAB take long.
SIDE = 384
# Figures below it count as it: some pictures have no specks.
LEAST = 0.001
PER_DEGREE = 300 * 9.5 * np.pi / 180

_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.119192, 0.9503041]]
)
_TO_OPPONENT = np.array([[0.279, 0.72, -0.107], [-0.449, 0.29, -0.077], [0.086, -0.59, 0.501]])
# Weights and spreads in degrees of the Gaussians of each channel's filter.
_FILTERS = (
    ((0.921, 0.0283), (0.105, 0.133), (-0.108, 4.336)),
    ((0.531, 0.0392), (0.330, 0.494)),
    ((0.488, 0.0536), (0.371, 0.386)),
)


def scielab(original: Picture, result: Picture) -> float:
    """Mean S-CIELAB difference of pictures of 300 dpi at 9.5 inches.

    X. Zhang, B. A. Wandell, "A spatial extension of CIELAB for digital color-image reproduction", Journal of the SID 5,
    1997, with the published filters, and plain distances in L*a*b*.
    """
    height, width = original.shape[:2]
    squared = np.fft.fftfreq(height)[:, None] ** 2 + np.fft.rfftfreq(width)[None, :] ** 2
    seen = []
    for picture in (original, result):
        light = linear_table(1 << 20)[picture] / (1 << 20)
        channels = light @ _TO_XYZ.T @ _TO_OPPONENT.T
        filtered = np.empty_like(channels)
        for c, gaussians in enumerate(_FILTERS):
            shares = sum(w * np.exp(-squared * (np.pi * s * PER_DEGREE) ** 2) for w, s in gaussians)
            response = np.fft.rfft2(channels[..., c]) * shares / sum(w for w, _ in gaussians)
            filtered[..., c] = np.fft.irfft2(response, s=(height, width))
        seen.append(_lab(filtered @ np.linalg.inv(_TO_OPPONENT).T))
    return float(np.sqrt(((seen[0] - seen[1]) ** 2).sum(axis=-1)).mean())


def _lab(xyz: Float) -> Float:
    ratio = np.maximum(xyz, 0) / _TO_XYZ.sum(axis=1)
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])], axis=-1)


def figures(original: Picture, result: Picture) -> tuple[float, float, float, float]:
    """Visual error, CIEDE2000 after a blur of 1.5 pixels, S-CIELAB, speck error."""
    blurred = quality.blurred_color_difference(original, result)
    return (
        quality.visual_error(original, result),
        blurred,
        scielab(original, result),
        quality.speck_error(original, result),
    )


def libimagequant(picture: Picture, colors: int) -> Picture:
    """Dithered, with its own palette."""
    assert IMAGEQUANT is not None
    made = IMAGEQUANT.quantize_pil_image(PIL.Image.fromarray(picture), dithering_level=1.0, max_colors=colors)
    return np.asarray(made.convert("RGB"))


def methods(picture: Picture, colors: int, queue: runtime.CommandQueue) -> dict[str, Callable[[], Picture]]:
    """Calls without arguments that give the picture in so many colours."""
    image = PIL.Image.fromarray(picture)
    means = KMeansPalette(colors, queue=queue).fit(picture)
    spatial = SpatialPalette(colors, queue=queue).fit(picture)
    calls: dict[str, Callable[[], Picture]] = {
        "Pillow, median cut, Floyd-Steinberg": lambda: np.asarray(image.quantize(colors).convert("RGB")),
        **{
            f"k-means, {name!r}": partial(means.transform, picture, name)
            for name in ("floyd-steinberg", "stucki", "atkinson", "blue-noise", "leaky", "search")
        },
        "k-means, SearchDither(sharpness=1)": partial(means.transform, picture, SearchDither(sharpness=1.0)),
        "SpatialPalette, 'floyd-steinberg'": partial(spatial.transform, picture, "floyd-steinberg"),
        "SpatialPalette, 'leaky'": partial(spatial.transform, picture, "leaky"),
        "SpatialPalette, 'search'": partial(spatial.transform, picture),
    }
    return calls


def geometric_means(ratios: list[list[float]]) -> list[float]:
    """Of each column."""
    return [float(mean) for mean in np.exp(np.log(np.maximum(ratios, 1e-12)).mean(axis=0))]


def against_libimagequant(pictures: list[Picture], colors: int, queue: runtime.CommandQueue) -> Table:
    """Geometric means over pictures of each method's figures over libimagequant's."""
    ratios: dict[str, list[list[float]]] = {}
    for picture in pictures:
        base = figures(picture, libimagequant(picture, colors))
        for name, call in methods(picture, colors, queue).items():
            found = figures(picture, call())
            ratios.setdefault(name, []).append(
                [max(a, LEAST) / max(b, LEAST) for a, b in zip(found, base, strict=True)]
            )
    columns = {
        "method": "method",
        "visual": "visual error",
        "blurred": "blurred CIEDE2000",
        "scielab": "S-CIELAB",
        "specks": "speck error",
    }
    columns["worst"] = "worst blurred CIEDE2000"
    table = Table(f"{colors} colours, over libimagequant's, {len(pictures)} pictures", columns)
    for name, rows in ratios.items():
        visual, blurred, seen, specks = geometric_means(rows)
        worst = max(row[1] for row in rows)
        table.add(method=name, visual=visual, blurred=blurred, scielab=seen, specks=specks, worst=worst)
    return table


def halftones(pictures: list[Picture], queue: runtime.CommandQueue) -> Table:
    """Geometric means of gray halftones' visual errors over Pillow's, at two distances."""
    table = Table("Gray halftones, over Pillow's", {"passes": "refine", "near": "at 9.5 inches", "far": "at 19 inches"})
    halftoner = PinwheelHalftoner(queue=queue)
    for passes in range(4):
        rows = []
        for picture in pictures:
            gray = np.asarray(PIL.Image.fromarray(picture).convert("L"))
            base = np.asarray(PIL.Image.fromarray(gray).convert("1").convert("L"))
            made = halftoner.transform(gray, refine=passes)
            errors = [[quality.visual_error(gray, m, inches=i) for m in (made, base)] for i in (9.5, 19.0)]
            rows.append([ours / theirs for ours, theirs in errors])
        near, far = geometric_means(rows)
        table.add(passes=str(passes), near=near, far=far)
    return table


def run(options: Options) -> Iterator[Table]:
    """The tables of all numbers of colours, then of halftones."""
    queue = options.queue()
    found = list(harness.pictures(options, 1 if options.quick else None).values())
    pictures = [np.ascontiguousarray(_middle(picture)) for picture in found]
    if IMAGEQUANT is not None:
        for colors in (16,) if options.quick else (8, 16, 32, 64):
            yield against_libimagequant(pictures, colors, queue)
    yield halftones(pictures, queue)


def _middle(picture: Picture) -> Picture:
    top, left = (max(0, (side - SIDE) // 2) for side in picture.shape[:2])
    return picture[top : top + SIDE, left : left + SIDE]


if __name__ == "__main__":
    harness.main(run)
