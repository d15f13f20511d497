"""GIF's LZW with loss, symbol by symbol; and its decoder."""

from __future__ import annotations

import numpy as np

MOST_CODES = 4096
MOST_BITS = 12


def square(difference):
    return sum(weight * int(part) ** 2 for weight, part in zip((2, 4, 1), difference, strict=True))


def packed(wanted, other, colors, near, code_bits, most):
    """Codes of the strings that symbols make, as bytes, the lowest bit first.

    wanted, other : symbols and ones that stand for the same colour; near : of each symbol, those that may take its
    place, nearest first, up to the symbol itself. Of the symbols that continue a string the one is taken that is
    nearest to the pixel's colour and three quarters of what the pixels before it lack, within a bound.
    """
    clear = 1 << code_bits
    width, known, codes = code_bits + 1, {}, [(clear, code_bits + 1)]
    code, lacking = wanted[0], [0, 0, 0]
    for symbol, same in zip(wanted[1:], other[1:], strict=True):
        choices = [(symbol, lacking), (same, lacking)][: 1 if (code, symbol) in known else 2]
        for substitute in near[symbol]:
            if substitute == symbol:
                break
            differences = zip(lacking, colors[symbol], colors[substitute], strict=True)
            error = [left + int(own) - int(its) for left, own, its in differences]
            if square(error) <= most:
                choices.append((substitute, error))
        choices = [choice for choice in choices if (code, choice[0]) in known]
        following, left = min(choices, key=lambda choice: square(choice[1]), default=(None, lacking))
        lacking = [int(part * 3 / 4) for part in left]
        if following is not None:
            code = known[code, following]
            continue
        codes.append((code, width))
        number = clear + 2 + len(known)
        if number == MOST_CODES:
            codes.append((clear, width))
            width, known = code_bits + 1, {}
        else:
            known[code, symbol] = number
            width += number == 1 << width and width < MOST_BITS
        code = symbol
    codes.append((code, width))
    width += clear + 2 + len(known) == 1 << width and width < MOST_BITS
    codes.append((clear + 1, width))
    bits = np.concatenate([(code >> np.arange(width)) & 1 for code, width in codes]).astype(np.uint8)
    return np.packbits(bits, bitorder="little").tobytes()
