"""One wild call or command line at a time: good arguments of which some are replaced, and what may come of it."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import random
import sys
import tempfile
from typing import Any

import numpy as np

import clquant
from clquant.cli import EXIT_FAILED, EXIT_USAGE
from clquant.cli import main as command
from portability import wild
from portability.call import shown
from portability.calls import TABLE, calls


def _is_much(value: Any) -> bool:
    return isinstance(value, int) and 20 < value <= 1000


# What errors may call arguments of several functions.
_ALSO: dict[str, tuple[str, ...]] = {
    "image": ("picture", "device array"),
    "images": ("image", "device array"),
    "frames": ("images", "device array"),
    "original": ("pictures", "device array"),
    "result": ("pictures", "device array"),
    "palette": ("indices",),
    "path": ("cannot read", "cannot write"),
}


def wild_call(rng: random.Random) -> str | None:
    """One call with one to three arguments replaced; a single wrong one must be named by the error."""
    call = rng.choice(calls())
    given = {name: good(rng) for name, good in call.arguments.items()}
    replaced = rng.sample(sorted(given), min(len(given), rng.choice((1, 1, 1, 2, 3))))
    for name in replaced:
        a_picture = name in ("image", "images", "original", "result") and rng.random() < 0.7
        given[name] = wild.picture(rng) if a_picture else wild.value(rng)
        if name in ("n_init", "swap_rounds") and _is_much(given[name]):  # so much work was asked for
            given[name] = 20
        if name == "refine" and isinstance(given[name], int) and given[name] > 20:  # 1000 take too long
            given[name] = 20
        if name == "progress" and callable(given[name]):  # then its errors are its own
            given[name] = "no callback"
    about = f"{call.name}({', '.join(f'{name}={shown(given[name])}' for name in replaced)})"
    try:
        result = call.function(**given)
    except clquant.ClquantError as refusal:
        also = {**_ALSO, **call.aliases}
        names = {name for one in replaced for name in (one, *also.get(one, ()))}
        paths = [str(given[one]) for one in replaced if isinstance(given[one], str | pathlib.Path)]
        if not any(name in str(refusal) for name in names) and not any(repr(path) in str(refusal) for path in paths):
            return f"{about}: the error names none of them: {refusal}"
        return None
    except wild.SpiteError:
        return None
    except Exception as wrong:
        return f"{about}: {type(wrong).__name__}: {str(wrong)[:200]}"
    problem = call.check(result, given)
    return f"{about}: {problem}" if problem else None


_FILES = {
    "picture.png": clquant.IndexedImage(np.arange(126).reshape(9, 14) % 4, TABLE).to_bytes("PNG"),
    "other.gif": clquant.IndexedImage(np.arange(126).reshape(9, 14) % 3, TABLE[:3, :3]).to_bytes("GIF"),
    "colors.hex": b"000000\nffffff\n804020\n",
    "damaged.png": b"\x89PNG\r\n\x1a\n" + bytes(40),
    "empty.png": b"",
}


def _stream(errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", errors)


def wild_command(rng: random.Random) -> str | None:
    """One command line, run in this process: success, exit code 1 and what of several failed, or 2 and one sentence."""
    here, out, err = pathlib.Path.cwd(), sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file, content in _FILES.items():
            (folder / file).write_bytes(content)
        words = wild.command_line(rng)
        os.chdir(folder)
        sys.stdout, sys.stderr = _stream("strict"), _stream("backslashreplace")
        try:
            status = command(words)
        except SystemExit as end:  # how argparse ends after --help and after a wrong option
            status = end.code if isinstance(end.code, int) else -1
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.flush()
            said = sys.stderr.buffer.getvalue()[-300:]  # type: ignore[attr-defined]
            sys.stdout, sys.stderr = out, err
            os.chdir(here)
        left = [path.name for path in folder.rglob("*.part")]
    some_failed = status == EXIT_FAILED and b"inputs failed" in said
    if status not in (0, EXIT_USAGE) and not some_failed:
        return f"{words}: exit code {status}: {said!r}"
    return f"{words}: left {left}" if left else None
