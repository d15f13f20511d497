"""How time grows with size, with colours and codewords, with the number of pictures. `python -m benchmarks growth`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks import harness, methods
from benchmarks.harness import Options, Picture, Table
from benchmarks.palette_peers import methods as palette_makers
from clquant import KMeansPalette, NeuQuantCL

SIDES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
COLORS = (2, 4, 16, 64, 256, 1024, 4096)
CODEWORDS = (64, 256, 1024, 4096, 16384)
COUNTS = (1, 10, 100, 1000, 10_000)
ICON, ICON_COLORS = 64, 16
# A method that took so long is not run on what is larger, and these are left out (see benchmarks/peers.py).
SLOW_MS = 2500
LEFT_OUT = (*methods.SLOW, "clquant blue noise", "clquant pinwheel, palette")
JOBS: dict[str, tuple[methods.Job, int]] = {
    "Learn 256 colours and map": (methods.palettes, 256),
    "Map to 256 given colours": (methods.mapping, 256),
    "VQ encode, gray, 4x4, N = 1024": (methods.vq, 1024),
    "Halftone, gray, two levels": (methods.halftones, 32),
    "Quadtree": (methods.quadtrees, methods.THRESHOLD),
}


def grown(
    options: Options, title: str, axis: str, job: methods.Job, cases: Sequence[tuple[int, Picture, int]]
) -> Table:
    """One job over several cases (x, picture, number): a row a method and case."""
    columns = {"x": axis, "method": "method", "ms": "end to end, ms", "kernel_ms": "kernels, ms"}
    table = Table(title, columns)
    queue = options.queue()
    last: dict[str, tuple[int, float]] = {}
    for x, picture, number in cases:
        if options.is_over:
            table.note = f"The time budget ended before {x}."
            break
        for method in job(picture, number, queue):
            before = last.get(method.name)
            if method.name.startswith(LEFT_OUT) or (before is not None and before[1] > SLOW_MS):
                continue
            ms, _ = options.method_ms(method, 1.0)
            if ms is None:
                continue
            kernels = method.kernel_ms() if method.kernel_ms is not None and not options.is_over else None
            table.add(x=x, method=method.name, ms=ms, kernel_ms=kernels)
            last[method.name] = x, ms
    return table


def by_size(options: Options, photo: Picture) -> Iterator[Table]:
    """Squares of 64 to 16384 pixels per side, as `--largest` admits."""
    pictures = {side: harness.photo_of_size(photo, side, side) for side in options.sizes(*SIDES)}
    for title, (job, number) in JOBS.items():
        cases = [(side, picture, number) for side, picture in pictures.items()]
        yield grown(options, f"{title}: by size", "pixels a side", job, cases)


def by_number(options: Options, photo: Picture) -> Iterator[Table]:
    """Colours of a palette and codewords, on one square."""
    side = options.sizes(256, 1024)[-1]
    square = harness.photo_of_size(photo, side, side)
    colors = COLORS[:4] if options.quick else COLORS
    words = CODEWORDS[:3] if options.quick else CODEWORDS
    for title, axis, job, numbers in (
        ("Learn a palette and map", "colours", methods.palettes, colors),
        ("Map to a given palette", "colours", methods.mapping, colors),
        ("VQ encode, gray, 4x4", "codewords", methods.vq, words),
    ):
        cases = [(number, square, number) for number in numbers]
        yield grown(options, f"{title}, {side}x{side}: by number", axis, job, cases)


def by_count(options: Options, photo: Picture) -> Table:
    """Palettes of 16 colours for many icons: all at once, and by a loop over each peer."""
    columns = {"x": "pictures", "method": "method", "ms": "end to end, ms", "each_us": "a picture, us"}
    title = f"{ICON_COLORS} colours for pictures of {ICON}x{ICON}: by their number"
    note = "The peers map the pixels as well; they cannot learn alone."
    table = Table(title, columns, note=note)
    queue = options.queue()
    icons = harness.batch_of(photo, 200, ICON)
    kmeans, neuquant = KMeansPalette(ICON_COLORS, queue=queue), NeuQuantCL(ICON_COLORS, queue=queue)
    slow: set[str] = set()
    for count in COUNTS[:3] if options.quick else COUNTS:
        many = (icons * (count // len(icons) + 1))[:count]
        calls = {"clquant k-means, fit_many": partial(kmeans.fit_many, many)}
        calls["clquant NeuQuant, fit_many"] = partial(neuquant.fit_many, many)
        for name, make in palette_makers(slow=False)[0].items():
            calls[f"{name}, in a loop"] = lambda make=make, many=many: [make(icon, ICON_COLORS) for icon in many]
        for name, call in calls.items():
            ms = None if name in slow else options.median_ms(call, 2.0)
            if ms is None:
                continue
            table.add(x=count, method=name, ms=ms, each_us=1e3 * ms / count)
            if ms > SLOW_MS:
                slow.add(name)
    return table


def run(options: Options) -> Iterator[Table]:
    """All of them; a time budget cuts the end."""
    photo = next(iter(harness.pictures(options).values()))
    yield from by_size(options, photo)
    yield from by_number(options, photo)
    yield by_count(options, photo)


if __name__ == "__main__":
    harness.main(run)
