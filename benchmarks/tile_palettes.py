"""`python -m benchmarks.tile_palettes --images FOLDER`: palettes per tile beside those of clustered tiles."""

from __future__ import annotations

import argparse
import pathlib
import statistics
import time
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image

from clquant import KMeansPalette, TilePalettes

# Width and height of the screen, side of a tile, palettes, colours of each.
SCREENS = {
    "8 of 16, 8x8, 256x224": ((256, 224), 8, 8, 16),
    "8 of 4, 8x8, 160x144": ((160, 144), 8, 8, 4),
    "4 of 16, 8x8, 320x224": ((320, 224), 8, 4, 16),
    "4 of 4, 16x16, 256x240": ((256, 240), 16, 4, 4),
}


def simple_error(image: npt.NDArray[np.uint8], side: int, palettes: int, colors: int) -> float:
    """The squared error of k-means of tiles' means, then of the pixels of each cluster."""
    height, width = image.shape[0] // side, image.shape[1] // side
    tiles = image.reshape(height, side, width, side, 3).swapaxes(1, 2).reshape(height * width, -1, 3)
    means = tiles.mean(axis=1).round().astype(np.uint8)[None]
    label = KMeansPalette(palettes).fit(means).predict(means)[0]
    groups = [np.ascontiguousarray(tiles[label == number].reshape(1, -1, 3)) for number in range(palettes)]
    return sum(KMeansPalette(colors).fit(group).inertia_ for group in groups if group.size)


def main(arguments: list[str] | None = None) -> None:
    """Print a row for each screen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", required=True, nargs="+", help="folders of pictures")
    paths: list[Any] = sorted(
        p for folder in parser.parse_args(arguments).images for p in pathlib.Path(folder).glob("*.png")
    )
    for name, (size, side, palettes, colors) in SCREENS.items():
        ratios, seconds = [], []
        for path in paths:
            with PIL.Image.open(path) as opened:
                image = np.asarray(opened.convert("RGB").resize(size, PIL.Image.Resampling.LANCZOS))
            begin = time.perf_counter()
            found = TilePalettes(palettes, colors, tile_size=side).fit(image).inertia_
            seconds.append(time.perf_counter() - begin)
            ratios.append(found / simple_error(image, side, palettes, colors))
        mean = statistics.geometric_mean(ratios)
        print(
            f"{name}: {mean:.3f} ({min(ratios):.2f} to {max(ratios):.2f}), {statistics.median(seconds):.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
