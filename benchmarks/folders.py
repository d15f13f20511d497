"""A folder of PNGs through the command: in one process, with more jobs, on a cluster. `python -m benchmarks folders`.

128 pictures of 1.6 Mpx without grain, each command in a process of its own whose start counts, in turn.
"""

from __future__ import annotations

import filecmp
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import PIL.Image

from benchmarks import harness
from benchmarks.harness import Options, Table
from clquant.color.formats import parallel

COUNT, SHAPE = 128, (1024, 1600)
QUICK_COUNT, QUICK_SHAPE = 4, (48, 64)
WAYS = ("--jobs 1", "", "--jobs 8", "--jobs 24", "--cluster local")
COLUMNS = {
    "way": "clquant palette FOLDER -k 256 --dither none",
    "x": "files",
    "seconds": "s",
    "rate": "files/s",
    "same": "same files",
}


def write_pictures(folder: pathlib.Path, count: int, shape: tuple[int, int]) -> None:
    """Write smooth pictures, which differ in where they begin."""
    small = harness.synthetic_photo(shape[0] // 8, shape[1] // 8)
    size = (shape[1], shape[0])
    base = np.asarray(PIL.Image.fromarray(small).resize(size, PIL.Image.Resampling.BICUBIC))

    def write(number: int) -> None:
        rolled = np.roll(base, (7 * number, 11 * number), (0, 1))
        PIL.Image.fromarray(rolled).save(folder / f"{number:04}.png", compress_level=1)

    folder.mkdir()
    parallel.in_threads(write, count)


def command_seconds(options: Options, way: str, given: pathlib.Path, out: pathlib.Path) -> float:
    """Seconds of the command, its start and end included."""
    shutil.rmtree(out, ignore_errors=True)
    device = options.device or "0"
    chosen = [f"{way}:{device}"] if way.startswith("--cluster") else [way, "--device", device]
    words = " ".join(chosen).split()
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "clquant", "palette", given, "-k", "256", "--dither", "none", "-o", out, "-q", *words],
        check=True,
    )
    return time.perf_counter() - begin


def run(options: Options) -> Iterator[Table]:
    """One table: a row per way, the best of some turns."""
    count = QUICK_COUNT if options.quick else max(round(COUNT * options.scale), 1)
    note = f"Best of the timed calls, on {parallel.cores()} cores."
    table = Table("A folder of pictures", COLUMNS, note=note)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        write_pictures(place / "in", count, QUICK_SHAPE if options.quick else SHAPE)
        command_seconds(options, WAYS[0], place / "in", place / "0")  # compiles
        taken: dict[int, list[float]] = {number: [] for number in range(len(WAYS))}
        for _ in range(min(options.repeat, 2)):
            for number, way in enumerate(WAYS):
                if not options.is_over:
                    taken[number].append(command_seconds(options, way, place / "in", place / str(number)))
                    harness.tell(f"{way or 'default'}: {taken[number][-1]:.2f} s")
        names = sorted(os.listdir(place / "0"))
        for number, times in taken.items():
            if times:
                equal = filecmp.cmpfiles(place / "0", place / str(number), names, shallow=False)[0] == names
                same = "yes" if equal else "no"
                way = WAYS[number] or "default"
                table.add(way=way, x=count, seconds=min(times), rate=count / min(times), same=same)
    yield table


if __name__ == "__main__":
    harness.main(run)
