"""Values that nobody should pass, pictures in every form, and command lines: what `fuzz` throws at arguments."""

from __future__ import annotations

import array
import decimal
import fractions
import io
import pathlib
import random
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
import PIL.Image

from clquant import runtime
from portability.inputs import photo


class SpiteError(Exception):
    """What an object of the caller's raises when it is used; it may pass through the library."""


class Spiteful:
    """Raises whenever it is used; and cannot say what it is, which must not keep an error from being told."""

    def __repr__(self) -> NoReturn:
        raise ZeroDivisionError("no repr")

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise SpiteError

    __index__ = __float__ = __array__ = __len__ = __iter__ = __fspath__ = __eq__ = __call__ = _refuse
    __hash__ = None  # type: ignore[assignment]


class _Integer(int):
    pass


class _Text(str):
    __slots__ = ()


def _recursive() -> list[Any]:
    own: list[Any] = [1]
    own.append(own)
    return own


def _generator() -> Iterator[int]:
    yield from (1, 2, 3)


_PLAIN: tuple[Any, ...] = (
    *(None, True, False, Ellipsis, NotImplemented, object(), object, int, len, Spiteful()),
    *(0, -1, 1, 2, 3, 4, 5, 7, 8, 16, 255, 256, 257, 1024, 65536, 1 << 31, 1 << 63, 1 << 64, -(1 << 70)),
    *(10**400, 10**5000, _Integer(4), decimal.Decimal("0.5"), fractions.Fraction(1, 3), 3 + 4j),
    *(0.0, -0.0, 0.5, -0.5, 1.0, 2.0, 4.0, 1e9, 1e308, 1e-300, float("nan"), float("inf"), float("-inf")),
    *("", "srgb", "linear", "oklab", "l1", "random", "wu", "splitting", "top-down", "luma", "bits", "spiral"),
    *("portable", "pinwheel", "bayer", "floyd-steinberg", "GIF", "TIFF", "JPEG", "x" * 5000, "\0", "\ud800", "é"),
    *("/", "/nowhere/there.png", "/dev/null", ".", "a.six", _Text("srgb"), pathlib.Path("/"), pathlib.Path("no\0path")),
    *(b"", b"bytes", bytearray(b"CLQT"), memoryview(b"CLVQ"), array.array("B", b"abc"), io.BytesIO(b"P6 1 1 255 abc")),
    *((), (4, 4), (2, 2), (0, 3), (1, 2, 3), (10**30, 2), [], [[]], [[1, 2], [3]], [1, 2, 3], [[1, 2, 3]] * 4, {}),
    *({1}, {"a": 1}, range(3), _recursive(), [None], ["a", "b"], (None, None), (float("nan"), 4), ((4, 4), (4, 4))),
    *([Spiteful()], (Spiteful(), Spiteful()), frozenset({(1, 2, 3)}), slice(3), Exception("an argument")),
    *(np.int64(5), np.uint8(200), np.int8(-3), np.float32(2.5), np.float64("nan"), np.float16(65504), np.bool_(True)),
    *(
        np.str_("srgb"),
        np.bytes_(b"x"),
        np.datetime64("NaT", "D"),
        np.timedelta64(5, "s"),
        np.complex64(1j),
        np.longdouble(0.25),
    ),
    *(np.void(b"abc"), np.array(4), np.array(4.5), np.array(None), np.zeros(0), np.zeros((0, 3)), np.arange(7)),
    *(np.zeros((2, 3), np.uint8), np.full((4, 3), 256), np.full((4, 3), -1), np.full((4, 3), 1 << 63, np.uint64)),
    *(np.zeros((4, 4), np.uint8), np.zeros((3, 4, 3), np.uint8), np.eye(4, dtype=object), np.ma.masked_all((4, 3))),
    *(np.zeros(3, [("a", "u1"), ("b", "f4")]), np.array(["a", "b"]), np.array([np.nan] * 3), np.full((9, 14), np.inf)),
    *(np.array([1 << 70]), np.full((9, 14), -1), np.full((9, 14), 1e300), np.ones((9, 14)), np.ones((9, 14), np.int8)),
    *(np.zeros((1,) * 30, np.uint8), np.array(["2026-11-20"], "M8[D]"), np.frombuffer(b"abcdef", np.uint8)),
)


def value(rng: random.Random) -> Any:
    """Any value at all."""
    kind = rng.random()
    if kind < 0.8:
        return rng.choice(_PLAIN)
    if kind < 0.85:
        return _generator()
    if kind < 0.9:
        return rng.choice((int, float, str))(rng.choice((3, 4, 10))) if kind < 0.87 else [rng.choice(_PLAIN)] * 2
    return _array(rng)


_DTYPES = ("u1", "u1", "u1", "?", "u2", ">u2", "i1", "i4", "u8", "f2", "f4", ">f8", "g", "c8", "O", "S1", "U1", "M8[s]")
_MODES = (
    "1",
    "L",
    "P",
    "RGB",
    "RGBA",
    "CMYK",
    "YCbCr",
    "LAB",
    "HSV",
    "I",
    "F",
    "LA",
    "PA",
    "La",
    "RGBX",
    "RGBa",
    "I;16",
)


def _shape(rng: random.Random) -> tuple[int, ...]:
    sizes = (0, 1, 2, 3, 5, 9, 17)
    if rng.random() < 0.2:
        return tuple(rng.choice(sizes) for _ in range(rng.randrange(6)))
    channels = rng.choice(((), (1,), (2,), (3,), (3,), (4,), (5,), (16,), (17,), (0,)))
    return (rng.choice(sizes[1:]), rng.choice(sizes[1:]), *channels)


def _array(rng: random.Random) -> Any:
    shape, kind = _shape(rng), rng.choice(_DTYPES)
    numbers = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 256, shape, np.uint8)
    scaled = numbers / np.float64(255) if np.dtype(kind).kind == "f" and rng.random() < 0.7 else numbers
    made: Any = scaled.astype(kind)
    if made.dtype.kind == "f" and made.size and rng.random() < 0.2:
        made.flat[rng.randrange(made.size)] = rng.choice((np.nan, np.inf, -1, 1.0001))
    form = rng.randrange(8) if made.ndim else 7
    if form == 0:
        return made[::-1]
    if form == 1:
        return made[..., ::-1]
    if form == 2:
        return made[:, ::2] if made.ndim > 1 else made
    if form == 3:
        return np.asfortranarray(made)
    if form == 4:
        made.setflags(write=False)
    return np.broadcast_to(made, made.shape) if form == 5 else made.view(np.ma.MaskedArray) if form == 6 else made


def _on_device(rng: random.Random) -> Any:
    shape = rng.choice(((9, 14), (9, 14, 3), (9, 14, 4), (9, 14, 2), (4,), (9, 14, 3, 1)))
    made = runtime.open_session().new_array(shape, rng.choice((np.uint8, np.uint8, np.uint8, np.uint16, np.float32)))
    made.fill(rng.randrange(256))
    form = rng.randrange(6)
    if form == 0:
        return made[1:]
    if form == 1:
        return made[:, 1:] if len(shape) > 1 else made
    return made.with_queue(None) if form == 2 else made


def _drawn(rng: random.Random) -> Any:
    if rng.random() < 0.1:
        whole = io.BytesIO()
        PIL.Image.fromarray(photo(40, 40)).save(whole, rng.choice(("PNG", "JPEG", "BMP")))
        return PIL.Image.open(io.BytesIO(whole.getvalue()[: rng.randrange(700, 900)]))
    mode = rng.choice(_MODES)
    made = PIL.Image.new(mode, (rng.choice((0, 1, 5, 14)), rng.choice((1, 9))))
    if rng.random() < 0.3:
        made.info["transparency"] = rng.choice((0, b"\0\x80", (1, 2, 3), 300, "none"))
    if rng.random() < 0.2:
        made.info["icc_profile"] = rng.choice((b"", b"nonsense", "text", 3))
    return made


def picture(rng: random.Random) -> Any:
    """A picture in some form: right, odd, or wrong; now and then one of which each pixel is the same byte in memory."""
    if rng.random() < 0.005:
        return np.broadcast_to(rng.choice((np.uint8(1), 0.5)), rng.choice(((1 << 20, 1 << 20), (1 << 16, 1 << 14, 3))))
    makers: tuple[Callable[[random.Random], Any], ...] = (_array, _array, _array, _drawn, _on_device)
    return rng.choice(makers)(rng)


def good_picture(rng: random.Random) -> Any:
    """A picture that every engine takes."""
    return photo(9, 14, rng.choice((1, 3, 3, 4)), seed=rng.randrange(3))


_OPTIONS = {
    "palette": "-o -k --psnr --mse --use --method --sample-factor --sequential --space --weights --fixed --shared "
    "--seed --order --save-palette --dither --strength --animate --show --device -q --json --sharpness --serpentine "
    "--color-format --alpha --stats --max-bytes --effort --lvgl --compression --memory --resume --icc --name",
    "halftone": "-o --gray --block --scan --weights --levels --palette --space --noise --linear --seed --device -q "
    "--refine --dpi --inches --compression --icc --json",
    "tileset": "-o --name --json --palettes -k --tile-size --shared-color --color-format --space --shared --dither "
    "--map --seed --device -q",
    "animate": "-o -k --use --fps --size --start --end --dither --space --palettes "
    "--plays --save-palette --device -q --json",
    "tiles": "-o -k --use --dither --space --seed --save-palette --tms --keep-empty --memory --json --device -q",
    "panel": "-o --panel --dither --device -q --json",
    "quadtree": "-o -t --criterion --weights --min-size --max-depth --outline --gif --save "
    "--max-pixels --json --device -q",
    "compare": "-o -k --dither --crop --seed --device -q",
    "vq train": "-o -n --block --init --refine --gray --seed --device -q",
    "vq encode": "-o -n --block --init --refine --gray --seed --codebook --embed --side-match --tolerance --device -q",
    "vq decode": "-o --codebook --max-pixels --json --device -q",
    "vq info": "--help",
    "devices": "-q --help",
}
_FLAGS = (
    "--sequential",
    "--shared",
    "--show",
    "-q",
    "--gray",
    "--linear",
    "--outline",
    "--gif",
    "--embed",
    "--help",
    "--json",
    "--serpentine",
    "--stats",
    "--resume",
    "--icc",
    "--tms",
    "--keep-empty",
)
_WORDS = (
    *("picture.png", "other.gif", "colors.hex", "damaged.png", "empty.png", ".", "none.png", "new.png", "no/x.png"),
    *(
        "x.gif",
        "x.six",
        "x.clvq",
        "x.clqt",
        "x.json",
        "x.gpl",
        "x.act",
        "x.c",
        "x.bin",
        "x.tif",
        "x.zarr",
        "x.mbtiles",
        "rgb565",
        "lz4",
        "64MB",
        "dithered",
        "out/",
        "/dev/null",
        "/proc/x.png",
    ),
    *("0", "1", "2", "3", "4", "7", "8", "-1", "0.5", "1e9", "nan", "inf", "99999999999999999999", "4x4", "0x0", "2x"),
    *("oklab", "linear", "kmeans", "neuquant", "bayer", "blue-noise", "pinwheel", "floyd-steinberg", "red", "#ff0000"),
    *("ff0000,00ff00", "luma", "popularity", "spiral", "top-down", "range", "constant", "splitting", "tone-dependent"),
    *("", " ", "=", "--", "--nonsense", "\udcff", "é", "x" * 300, "*", "\0", "a=b", "-k", "-o", "cpu"),
)


def command_line(rng: random.Random) -> list[str]:
    """Words for the `clquant` command; most ask for something that can be done."""
    name = rng.choice(sorted(_OPTIONS))
    words = name.split()
    if rng.random() < 0.05:
        words[rng.randrange(len(words))] = rng.choice(_WORDS)
    for _ in range(rng.randrange(4)):
        option = rng.choice(_OPTIONS[name].split())
        words.append(option)
        if option not in _FLAGS:
            words.append(rng.choice(_WORDS))
    words += [
        rng.choice(("picture.png", "picture.png", rng.choice(_WORDS))) for _ in range(rng.choice((1, 1, 1, 2, 0)))
    ]
    return words
