"""How fast a device reads and adds at random places, and how long a read takes that the next one waits for."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from benchmarks.measure.timing import rate_of_rounds, time_call
from clquant.runtime.errors import DeviceError
from clquant.runtime.session import Session

FILE = str(pathlib.Path(__file__).with_name("access.cl"))
# Words of a table that the fastest cache holds, and of local memory; of one that is a palette's answer for every
# colour, at a byte each; of one that counts every colour.
SMALL, LARGE, BINS = 1 << 12, 1 << 22, 1 << 24
_CHAIN = 1 << 12
_TARGET_MS = 10.0
_MOST_ROUNDS = 1 << 16
_CHECKED_ROUNDS = 8
_MULTIPLIER, _INCREMENT = 1664525, 1013904223

Words = npt.NDArray[np.uint32]
# Runs a kernel for a number of rounds on buffers, and waits.
Launch = Callable[..., None]


def access_rates(session: Session) -> dict[str, float]:
    """The fields of `benchmarks.measure.DeviceRates` that are about single words.

    Parameters
    ----------
    session : Session
        On an in-order queue.

    Raises
    ------
    DeviceMemoryError, DeviceError
        If the device fails, or computes a wrong value.
    """
    limits = session.limits
    large, bins = (min(words, _power_of_two(limits.max_alloc // 16)) for words in (LARGE, BINS))
    local = min(SMALL, _power_of_two(limits.local_memory // 8))
    return {
        "small_reads_g": _read_rate(session, "measure_reads", SMALL),
        "large_reads_g": _read_rate(session, "measure_reads", large),
        "local_reads_g": _read_rate(session, "measure_local_reads", local),
        "large_adds_g": _add_rate(session, "measure_adds", bins),
        "local_adds_g": _add_rate(session, "measure_local_adds", local),
        "large_wait_ns": _wait_ns(session, "measure_chain", large),
        "local_wait_ns": _wait_ns(session, "measure_local_chain", local),
    }


def _power_of_two(most: int) -> int:
    return 1 << max(most.bit_length() - 1, 0)


def _shift(words: int) -> np.uint32:
    """What is left of 32 bits shifted so far is a place among that many words."""
    shift: np.uint32 = np.uint32(33 - words.bit_length())
    return shift


def _rate(launch: Callable[[int], None], a_round: int) -> float:
    """10^9 accesses a second, of `a_round` in each round of a launch that is waited for."""
    return rate_of_rounds(launch, a_round, (_CHECKED_ROUNDS, _MOST_ROUNDS), _TARGET_MS)


def _launcher(session: Session, name: str, words: int) -> tuple[int, Launch]:
    """Work-items, enough to hide all waiting, and a call that runs a kernel with them for some rounds."""
    kernel = session.program(FILE, LOCAL_WORDS=words if "local" in name else 1).kernel(name)
    is_cpu = session.limits.is_cpu
    group = session.work_group_size(kernel, 16 if is_cpu else 256)
    items = session.limits.compute_units * (64 if is_cpu else 4096) // group * group

    def launch(rounds: int, *buffers: cl.Buffer) -> None:
        session.launch(kernel, items, group, *buffers, _shift(words), np.uint32(rounds))
        session.finish()

    return items, launch


def _read_rate(session: Session, name: str, words: int) -> float:
    items, launch = _launcher(session, name, words)
    content = np.arange(words, dtype=np.uint32) * np.uint32(2654435769)
    with session.scope() as scope:
        out, table = scope.empty(4 * items), scope.copy_of(content)
        launch(_CHECKED_ROUNDS, out, table)
        got = session.download(out, items, np.uint32)
        first = _firsts(items)
        expected = np.zeros(items, np.uint32)
        for x in (first, first ^ np.uint32(0x5BD1E995), first * np.uint32(3) + np.uint32(7)):
            expected += _walk(x, words, content)
        expected += _walk(first * np.uint32(5) + np.uint32(11), words, content)
        check_values(session, name, got, expected)
        return _rate(lambda rounds: launch(rounds, out, table), 4 * items)


def _add_rate(session: Session, name: str, words: int) -> float:
    items, launch = _launcher(session, name, words)
    with session.scope() as scope:
        bins = scope.zeros(4 * words)
        launch(_CHECKED_ROUNDS, bins)
        places, x = [], _firsts(items)
        for _ in range(_CHECKED_ROUNDS):
            x = _next(x)
            places.append(x >> _shift(words))
        expected = np.bincount(np.concatenate(places), minlength=words)
        check_values(session, name, session.download(bins, words, np.uint32), expected.astype(np.uint32))
        return _rate(lambda rounds: launch(rounds, bins), items)


def _wait_ns(session: Session, name: str, words: int) -> float:
    """Of a chain through all places: one congruential sequence visits each of a power of two of them once."""
    kernel = session.program(FILE, LOCAL_WORDS=words if "local" in name else 1).kernel(name)
    table = _next(np.arange(words, dtype=np.uint32)) & np.uint32(words - 1)
    at = 0
    for _ in range(_CHAIN):
        at = int(table[at])
    with session.scope() as scope:
        out, there = scope.empty(4), scope.copy_of(table)

        def launch(rounds: int) -> None:
            session.launch(kernel, 1, 1, out, there, np.uint32(rounds))
            session.finish()

        launch(_CHAIN)
        check_values(session, name, session.download(out, 1, np.uint32), np.array([at], np.uint32))
        # What a launch costs, and filling local memory, is the same for both and drops out.
        short, long = (time_call(lambda: launch(n), 5, warmup=1).best_ms for n in (_CHAIN, 5 * _CHAIN))  # noqa: B023
    return max(long - short, 1e-6) / (4 * _CHAIN) * 1e6


def _next(x: Words) -> Words:
    following: Words = x * np.uint32(_MULTIPLIER) + np.uint32(_INCREMENT)
    return following


def _firsts(items: int) -> Words:
    first: Words = np.arange(items, dtype=np.uint32) * np.uint32(747796405) + np.uint32(1)
    return first


def _walk(x: Words, words: int, content: Words) -> Words:
    """Sums of what one sequence of every work-item reads in the rounds that are checked."""
    total = np.zeros(len(x), np.uint32)
    for _ in range(_CHECKED_ROUNDS):
        x = _next(x)
        total += content[x >> _shift(words)]
    return total


def check_values(session: Session, name: str, got: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    """Refuse to call fast what is wrong.

    Parameters
    ----------
    session : Session
    name : str
        Of the kernel.
    got, expected : ndarray

    Raises
    ------
    DeviceError
        If they differ.
    """
    if not np.array_equal(got, expected):
        raise DeviceError(f"{session.device.name.strip()} computes wrong values in {name}")
