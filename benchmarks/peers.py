"""Every engine beside all peers that are installed, on one picture: time and quality. `python -m benchmarks peers`."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import harness, methods
from benchmarks.harness import Method, Options, Picture, Table
from clquant import quality

COLUMNS = {
    "method": "method",
    "ms": "end to end, ms",
    "kernel_ms": "kernels, ms",
    "mse": "MSE",
    "psnr": "PSNR, dB",
    "seen": "visual error",
}
QUALITY_PIXELS = 1 << 22  # larger pictures are timed alone
NOTE = (
    "End to end: from an array in the host's memory to a result there. Visual error: what is left after an eye's blur."
)


def compared(options: Options, title: str, picture: Picture, found: list[Method]) -> Table:
    """One job, every method: a row each."""
    table = Table(title, COLUMNS, note=NOTE)
    for method in found:
        if options.quick and method.name.startswith(methods.SLOW):
            continue
        ms, result = options.method_ms(method)
        if ms is None:
            table.add(method=f"{method.name}: {'no time left' if options.is_over else 'failed'}")
            continue
        kernels = method.kernel_ms() if method.kernel_ms is not None else None
        cells: dict[str, float] = {}
        if method.shown is not None and picture.size <= 3 * QUALITY_PIXELS and not options.is_over:
            result = method.shown(result)
            original = picture if result.ndim == 3 else methods.gray(picture)
            cells = {"mse": quality.mse(original, result), "psnr": quality.psnr(original, result)}
            cells["seen"] = quality.visual_error(original, result)
        table.add(method=method.name, ms=ms, kernel_ms=kernels, **cells)
    return table


def missing_table() -> Table:
    """The peers that are not there: nothing is compared with them."""
    table = Table("Peers", {"name": "name", "there": "installed"})
    absent = methods.missing()
    for name in methods.PEERS:
        table.add(name=name, there="no" if name in absent else "yes")
    return table


def run(options: Options) -> Iterator[Table]:
    """A photo of 1920x1080, or as wide as `--largest` (480 with --quick), and squares for quadtrees."""
    yield missing_table()
    first = next(iter(harness.pictures(options).values()))
    width = min(480 if options.quick else 1920, options.largest)
    height = width * 9 // 16
    photo, queue = harness.photo_of_size(first, height, width), options.queue()
    name = f"{width}x{height}"
    yield compared(options, f"Learn 256 colours and map, {name}", photo, methods.palettes(photo, 256, queue))
    yield compared(options, f"Map to 256 given colours, {name}", photo, methods.mapping(photo, 256, queue))
    yield compared(options, f"Map to 16 given colours, {name}", photo, methods.mapping(photo, 16, queue))
    yield compared(options, f"VQ encode, gray, 4x4, N = 1024, {name}", photo, methods.vq(photo, 1024, queue))
    yield compared(options, f"Halftone, gray, two levels, {name}", photo, methods.halftones(photo, 32, queue))
    side = 256 if options.quick else 1024
    square = harness.photo_of_size(first, side, side)
    yield compared(options, f"Quadtree, {side}x{side}", square, methods.quadtrees(square, methods.THRESHOLD, queue))


if __name__ == "__main__":
    harness.main(run)
