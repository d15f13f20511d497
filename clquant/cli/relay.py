"""Inputs done by other processes, one at a time: what they say is told as if it had been done here."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from clquant.cli import batch, common
from clquant.cli.inputs import Source
from clquant.runtime import ClquantError

# Options whose values may name files; workers may be in other folders.
_FILES = ("use", "weights", "fixed", "codebook", "palette", "save_palette")

Told = tuple[str, bool, dict[str, Any]]
Result = list[Told] | ClquantError
"""What was said about an input: of each line its text, whether it is a table, and its record; or why it failed."""
Pair = tuple[Source, str | None]
"""An input, and where its result goes."""


@contextlib.contextmanager
def folders(pairs: Sequence[Pair]) -> Iterator[None]:
    """The folders that results go to are there in the block; those that were made for it and stay empty go with it."""
    made: list[str] = []
    for folder in sorted({os.path.dirname(os.path.abspath(str(target))) for _, target in pairs}):
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for each in reversed(missing):
            os.makedirs(each, exist_ok=True)
            made.append(each)
    try:
        yield
    finally:
        for each in reversed(made):
            with contextlib.suppress(OSError):  # it has results
                os.rmdir(each)


def tell(args: argparse.Namespace, pairs: Sequence[Pair], results: Iterable[tuple[int, Result]]) -> int:
    """Say what workers said, in the order of the inputs."""
    found: dict[int, Result] = {}
    told = 0
    failed: list[tuple[Source, ClquantError]] = []
    with common.progress_bar(args, "pictures") as progress:
        for number, result in results:
            found[number] = result
            progress(len(found), len(pairs))
            while told in found:
                source, target = pairs[told]
                _report(args, source, str(target), found[told], failed)
                if failed and failed[-1][0] is source and len(pairs) > 1:
                    batch.complain(*failed[-1])
                told += 1
    if failed and len(pairs) == 1:
        raise failed[0][1]
    return batch.report_failures(args, len(pairs), failed)


def _report(
    args: argparse.Namespace,
    source: Source,
    target: str,
    result: Result,
    failed: list[tuple[Source, ClquantError]],
) -> None:
    """Say what a worker has said, with names as they were given here."""
    if isinstance(result, ClquantError):
        failed.append((source, result))
        return
    for text, is_table, record in result:
        if not record:
            common.note(args, text)
            continue
        own = text.replace(os.path.abspath(target), target)
        if own.startswith(source.relative.name):
            own = f"{source.relative}{own[len(source.relative.name) :]}"
        common.say(args, own, is_table=is_table, **{**record, "input": source.path, "output": target})


def portable(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments for workers: files by their whole paths, nothing shared out again."""
    made = {name: value for name, value in vars(args).items() if name not in ("records", "run")}
    for name in _FILES:
        value = made.get(name)
        if isinstance(value, str) and (name == "save_palette" or os.path.exists(value)):
            made[name] = os.path.abspath(value)
    is_told = common.is_reported(args)
    return made | {"cluster": None, "jobs": 1, "name": None, "force": True, "no_clobber": False, "quiet": not is_told}


def one(given: dict[str, Any], path: str, target: str) -> Result:
    """What a worker does: the command on one input. What it says is kept."""
    args = argparse.Namespace(**given | {"inputs": [path], "output": target, "told": []})
    run_command: Callable[[argparse.Namespace], int] = importlib.import_module(
        f"clquant.cli.commands.{args.command}"
    ).run
    try:
        run_command(args)
    except ClquantError as error:
        return error
    told: list[Told] = args.told
    return told
