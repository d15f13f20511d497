"""Presets for common e-paper panels, each with the source of its colours."""

# "Measured" colours are photographs' values of real panels; those called estimates were not measured by their source.

from __future__ import annotations

from clquant import params
from clquant.color.palette import Palette
from clquant.targets.panel.panel import Panel

_OPEN_DISPLAY = "OpenDisplay's epaper-dithering"
_BLACK, _WHITE, _RED, _YELLOW = "#000", "#fff", "#f00", "#ff0"
_GREEN, _BLUE, _ORANGE = "#0f0", "#00f", "#ff8000"


def _grays(levels: int) -> list[tuple[int, int, int]]:
    return [(255 * i // (levels - 1),) * 3 for i in range(levels)]


_ALL = (
    Panel(
        "mono",
        Palette([(5, 5, 5), (220, 220, 220)], device=[_BLACK, _WHITE], codes=[0, 1]),
        bits=1,
        gamut=0.0,
        source=f"estimate of {_OPEN_DISPLAY} for a 4.26-inch panel; 1 bit, 1 is white",
        size=(800, 480),
    ),
    *(
        Panel(
            f"gray{levels}",
            Palette([(5 + 215 * i // (levels - 1),) * 3 for i in range(levels)], device=_grays(levels)),
            bits=bits,
            gamut=0.0,
            source=f"even steps between the black and white of mono, not measured; {bits} bits, {levels - 1} is white",
        )
        for levels, bits in ((4, 2), (16, 4))
    ),
    Panel(
        "bwr",
        Palette([(5, 5, 5), (200, 200, 200), (120, 15, 5)], device=[_BLACK, _WHITE, _RED]),
        bits=0,
        gamut=0.6,
        source=f"estimate of {_OPEN_DISPLAY} for black-white-red labels; two planes, 0 is ink",
    ),
    Panel(
        "bwy",
        Palette([(5, 5, 5), (200, 200, 200), (200, 180, 0)], device=[_BLACK, _WHITE, _YELLOW]),
        bits=0,
        gamut=0.6,
        source=f"estimate of {_OPEN_DISPLAY} for black-white-yellow labels; two planes, 0 is ink",
    ),
    Panel(
        "bwry",
        Palette([(10, 7, 14), (173, 178, 174), (172, 128, 0), (85, 24, 14)], device=[_BLACK, _WHITE, _YELLOW, _RED]),
        bits=2,
        gamut=0.6,
        source=f"measured by {_OPEN_DISPLAY} on a 3.97-inch panel (EP397YR); codes of 2 bits in this order",
        size=(800, 480),
    ),
    Panel(
        "spectra6",
        Palette(
            [(26, 13, 35), (185, 202, 205), (202, 184, 0), (121, 9, 0), (0, 69, 139), (40, 82, 57)],
            device=[_BLACK, _WHITE, _YELLOW, _RED, _BLUE, _GREEN],
            codes=[0, 1, 2, 3, 5, 6],
        ),
        bits=4,
        gamut=0.9,
        source=f"E Ink Spectra 6, measured by {_OPEN_DISPLAY} on a 7.3-inch panel; codes of 4 bits as Waveshare's",
        size=(800, 480),
    ),
    Panel(
        "acep7",
        Palette(
            [(25, 30, 33), (241, 241, 241), (83, 164, 40), (49, 49, 143), (210, 14, 19), (243, 207, 17), (184, 94, 28)],
            device=[_BLACK, _WHITE, _GREEN, _BLUE, _RED, _YELLOW, _ORANGE],
        ),
        bits=4,
        gamut=0.9,
        source="E Ink Gallery (ACeP), 7 colours, calibrated by epdoptimize; codes of 4 bits as Waveshare's",
        size=(800, 480),
    ),
)

PANELS = {one.name: one for one in _ALL}


def panel(name: str) -> Panel:
    """A preset by its name.

    Parameters
    ----------
    name : str
        One of `PANELS`, such as ``"spectra6"``; ``clquant panel --panel list`` prints them all.

    Returns
    -------
    Panel

    Raises
    ------
    InvalidArgument
        If there is no such preset.
    """
    return PANELS[params.choice("name", name, PANELS)]
