"""Decode sixel pictures with libsixel's `sixel2png` and compare: `python -m tests.sixel_by_libsixel`.

Not a test of the suite, since the program is not on every machine; `.ci/run` runs it where it is.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import PIL.Image

from clquant import IndexedImage, KMeansPalette
from clquant.palette import engine
from clquant.palette.sixel import shown_palette
from tests.conftest import SAMPLE


def same(image: IndexedImage, folder: pathlib.Path) -> bool:
    """Whether libsixel shows the colours that we say it does."""
    (folder / "a.six").write_bytes(image.to_sixel())
    subprocess.run(["sixel2png", "-i", folder / "a.six", "-o", folder / "a.png"], check=True)
    with PIL.Image.open(folder / "a.png") as shown:
        pixels = np.asarray(shown.convert("RGB"))
    return np.array_equal(pixels, shown_palette(image.palette).colors[image.host_indices()])


def main() -> int:
    """The exit status."""
    with PIL.Image.open(SAMPLE) as picture:
        sample = np.asarray(picture.convert("RGB"))
    palette = shown_palette(KMeansPalette(256).fit(sample).palette_)
    images = [engine.quantize(sample, palette)]
    rng = np.random.default_rng(1)
    for _ in range(40):
        count, (height, width) = int(rng.integers(1, 257)), rng.integers(1, 40, 2)
        images.append(IndexedImage(rng.integers(0, count, (height, width)), rng.integers(0, 256, (count, 3))))
    with tempfile.TemporaryDirectory() as folder:
        wrong = sum(not same(image, pathlib.Path(folder)) for image in images)
    print(f"{len(images) - wrong} of {len(images)} sixel pictures decode exactly")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
