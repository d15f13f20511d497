"""Thirty made pictures that are no photographs: flat colours, ramps, text pages, noise, icons, and mixtures.

All are made from seeded numbers, so every run sees the same ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFilter
import PIL.ImageFont

from benchmarks.harness import Picture, synthetic_photo

Color = tuple[int, int, int]
Number = npt.NDArray[np.floating] | float


def _flat(colors: int, seed: int, skew: float, block: int, height: int = 384, width: int = 384) -> Picture:
    """Blocks of random colours, the i-th as frequent as 1 / i^skew."""
    rng = np.random.default_rng(seed)
    palette = rng.integers(0, 256, (colors, 3), dtype=np.uint8)
    shares = 1 / np.arange(1, colors + 1) ** skew
    chosen = rng.choice(colors, (height // block, width // block), p=shares / shares.sum())
    return np.ascontiguousarray(palette[chosen].repeat(block, axis=0).repeat(block, axis=1))


def _dots(count: int, side: int, height: int = 1080, width: int = 1920) -> Picture:
    """A plain page with small dots of random colours."""
    rng = np.random.default_rng(count)
    page = np.full((height, width, 3), (200, 210, 220), np.uint8)
    for _ in range(count):
        y, x = rng.integers(0, height - side), rng.integers(0, width - side)
        page[y : y + side, x : x + side] = rng.integers(0, 256, 3)
    return page


def _levels(red: Number, green: Number, blue: Number, height: int = 256, width: int = 512) -> Picture:
    planes = [np.broadcast_to(np.asarray(plane, np.float64), (height, width)) for plane in (red, green, blue)]
    return np.clip(np.rint(np.stack(planes, axis=2)), 0, 255).astype(np.uint8)


def _ramps() -> dict[str, Picture]:
    along = np.linspace(0, 255, 512)[None, :]
    down = np.arange(256.0)[:, None]
    hue, value = np.broadcast_to(along, (256, 512)), np.broadcast_to(down, (256, 512))
    full = np.full((256, 512), 255.0)

    def hsv(*planes: npt.NDArray[np.floating]) -> Picture:
        return np.asarray(PIL.Image.fromarray(_levels(*planes), "HSV").convert("RGB"))

    y, x = np.mgrid[0:400, 0:400]
    radius = np.hypot(y - 200, x - 200)
    return {
        "red ramp": _levels(along, 0, down // 64),
        "red by green": _levels(along, down, 0),
        "dark blue ramp": _levels(0, down / 8, along),
        "cyan ramp": _levels(down / 16, along, along),
        "hue by value": hsv(hue, full, value),
        "hue by saturation": hsv(hue, value, full),
        "radial": _levels(255 - radius, 200 - 0.7 * radius, 120 + 0.3 * radius, 400, 400),
        "mesh": _mesh(),
    }


def _mesh() -> Picture:
    corners = np.random.default_rng(12).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    return np.asarray(PIL.Image.fromarray(corners).resize((512, 512), PIL.Image.Resampling.BICUBIC))


def _noises() -> dict[str, Picture]:
    rng = np.random.default_rng(7)
    shape = (256, 512)
    gray = rng.normal(128, 25, shape)
    y, x = np.mgrid[0:256, 0:512]
    grain = rng.normal(0, 1.2, (3, *shape))
    stars = np.full((300, 300, 3), (12, 14, 18), np.uint8)
    stars[rng.integers(0, 300, 900), rng.integers(0, 300, 900)] = rng.integers(40, 256, (900, 3))
    return {
        "uniform noise": rng.integers(0, 256, (384, 384, 3), dtype=np.uint8),
        "normal noise": _levels(*rng.normal(128, 20, (3, *shape))),
        "red noise": _levels(rng.normal(128, 30, shape), rng.normal(20, 2, shape), rng.normal(30, 2, shape)),
        "grayish noise": _levels(gray + rng.normal(0, 1, shape), gray, gray),
        "grainy sky": _levels(90 + 0.35 * y + grain[0], 140 + 0.3 * y + grain[1], 220 + 0.05 * x + grain[2]),
        "stars": stars,
    }


def _text(ink: Color, paper: Color, seed: int, colourful: bool) -> Picture:
    """A page of words in anti-aliased type; a third of the lines in other colours if colourful."""
    rng = np.random.default_rng(seed)
    page = PIL.Image.new("RGB", (800, 1000), paper)
    draw, font = PIL.ImageDraw.Draw(page), PIL.ImageFont.load_default(14)
    for y in range(20, 970, 20):
        words = ("".join(chr(97 + c) for c in rng.integers(0, 26, rng.integers(2, 9))) for _ in range(16))
        other = colourful and rng.random() < 0.3
        color = tuple(int(c) for c in rng.integers(0, 200, 3)) if other else ink
        draw.text((30, y), " ".join(words)[:95], color, font)
    return np.asarray(page)


def _pages() -> dict[str, Picture]:
    scan = _text((0, 0, 0), (255, 255, 255), 4, True) + np.random.default_rng(4).normal(0, 3, (1000, 800, 3))
    article = _text((0, 0, 0), (255, 255, 255), 5, True).copy()
    article[300:556, 200:584] = synthetic_photo(256, 384)
    screen = np.full((600, 800, 3), 245, np.uint8)
    screen[:40] = np.linspace(60, 90, 40).astype(np.uint8)[:, None, None]
    fade = np.linspace(0, 1, 600)
    screen[100:500, 100:700] = _levels(20 + 235 * fade, 80 + 20 * fade, 200 - 180 * fade, 400, 600)
    cartoon = PIL.Image.fromarray(synthetic_photo(512, 768, 2)).quantize(24).convert("RGB")
    return {
        "black text": _text((0, 0, 0), (255, 254, 250), 1, False),
        "text and links": _text((10, 20, 120), (255, 255, 255), 2, True),
        "light on dark text": _text((220, 220, 210), (30, 30, 40), 3, True),
        "scanned text": np.clip(scan, 0, 255).astype(np.uint8),
        "text and photo": article,
        "window": screen,
        "cartoon": np.asarray(cartoon.filter(PIL.ImageFilter.GaussianBlur(0.7))),
    }


def _icons(seed: int, side: int, number: int) -> Picture:
    """Rows of icons: four random shapes each, reduced from four times the size."""
    rng = np.random.default_rng(seed)
    large = 4 * side
    sheet = PIL.Image.new("RGB", (large * number, large * number), (255, 255, 255))
    draw = PIL.ImageDraw.Draw(sheet)
    for left in range(0, large * number, large):
        for top in range(0, large * number, large):
            for _ in range(4):
                (x0, x1), (y0, y1) = (sorted(int(v) for v in rng.integers(8, large - 8, 2)) for _ in range(2))
                shape = draw.ellipse if rng.random() < 0.5 else draw.rectangle
                color = tuple(int(c) for c in rng.integers(0, 256, 3))
                shape((left + x0, top + y0, left + x1 + 1, top + y1 + 1), fill=color)
    return np.asarray(sheet.resize((side * number, side * number), PIL.Image.Resampling.LANCZOS))


def kinds() -> dict[str, Picture]:
    """The thirty pictures by name."""
    flat: dict[str, Callable[[], Picture]] = {
        "300 flat colours": lambda: _flat(300, 1, 0, 4),
        "400 flat, few frequent": lambda: _flat(400, 3, 1.2, 2),
        "1000 flat colours": lambda: _flat(1000, 4, 0.3, 2),
        "2000 flat at 2 Mpx": lambda: _flat(2000, 5, 1.5, 2, 1080, 1920),
        "2000 pixels on a page": lambda: _dots(2000, 1),
        "icons": lambda: _icons(1, 64, 6),
        "one icon": lambda: _icons(2, 96, 1),
        "small icon": lambda: _icons(3, 48, 2),
        "many icons": lambda: _icons(4, 32, 12),
    }
    return {**{name: make() for name, make in flat.items()}, **_ramps(), **_noises(), **_pages()}
