"""The pictures of docs/neuquant.md: `python -m benchmarks.neuquant_pictures docs/images`."""

from __future__ import annotations

import argparse
import pathlib

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from benchmarks.harness import Options, Picture, pictures
from benchmarks.palette_peers import pillow_median_cut
from clquant import KMeansPalette, NeuQuantCL

CAPTION = 18
CUT = (slice(200, 350), slice(310, 650))


def dusk(height: int = 150, width: int = 340) -> Picture:
    """A sky after sunset: soft gradients everywhere, where bands are seen first."""
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    glow = np.exp(-3 * (1 - y) - 2 * (x - 0.3) ** 2)
    night = np.stack([25 + 40 * y, 40 + 70 * y, 95 + 85 * y], axis=2)
    return np.clip(night + glow[..., None] * np.array([190, 75, -60]), 0, 255).astype(np.uint8)


def panels(picture: Picture, colors: int) -> dict[str, Picture]:
    """The picture itself and in the palettes of four methods."""
    sequential = NeuQuantCL(colors, mode="sequential")
    return {
        f"original; {colors} colours by": picture,
        "median cut": pillow_median_cut(picture, colors),
        "KMeansPalette": KMeansPalette(colors).fit(picture).transform(picture),
        "NeuQuantCL, sequential": sequential.fit(picture).transform(picture),
        "NeuQuantCL": NeuQuantCL(colors).fit(picture).transform(picture),
    }


def captioned(cut: Picture, text: str) -> Picture:
    """A cut with a line of text above it."""
    image = PIL.Image.new("RGB", (cut.shape[1] + 4, cut.shape[0] + CAPTION + 4), (255, 255, 255))
    image.paste(PIL.Image.fromarray(cut), (2, CAPTION + 2))
    PIL.ImageDraw.Draw(image).text((4, 3), text, (0, 0, 0), PIL.ImageFont.load_default(13))
    return np.asarray(image)


def sheet(made: dict[str, Picture], cut: tuple[slice, slice]) -> PIL.Image.Image:
    """The same cut of all panels, two in a row, the original alone in the first."""
    cuts = [captioned(picture[cut], label) for label, picture in made.items()]
    cuts.insert(1, np.full_like(cuts[0], 255))
    return PIL.Image.fromarray(np.concatenate([np.concatenate(cuts[i : i + 2], axis=1) for i in range(0, 6, 2)]))


def main(folder: pathlib.Path) -> None:
    """Write them all."""
    colours = sheet(panels(pictures(Options())["sample"], 64), CUT)
    colours.save(folder / "neuquant_colours.png", optimize=True)
    banding = sheet(panels(dusk(), 20), (slice(None), slice(None)))
    banding.save(folder / "neuquant_banding.png", optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="where the pictures go")
    main(parser.parse_args().folder)
