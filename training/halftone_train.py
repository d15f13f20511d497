"""Trains the pinwheel halftoner's thresholds and weights: `python -m training.halftone_train --block 32`.

For each tone 1..127 (the others mirror them) a random search over the table's entries of that tone: change some,
halftone a patch, keep the change if the error that an eye would see has shrunk. The patch's upper half is flat; its
lower half is a slow ramp three tones to each side, so that neighbours stay compatible. Tones seven apart share no
patch, so all of them are tried in one picture. First every seventh tone is searched, then every third; the others are
interpolated, because tables that jump from tone to tone gain on flat patches what they lose on pictures.

The eye is Nasanen's contrast sensitivity at 300 dpi and 9.5 inches, the error its mean square, as in Li and Allebach's
"Tone-dependent error diffusion" (they searched on patches too).

The search is seeded and the halftoner's bits do not depend on the device, but the error is measured with floating-point
transforms: another NumPy may break near-ties otherwise and end at other, equally good tables.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time
from typing import Any

import numpy as np

from clquant.halftone import PinwheelHalftoner
from clquant.halftone.pinwheel.paths import FLOYD_STEINBERG, SCANS
from clquant.halftone.tables import SETS, SHIPPED, UNITS, WeightTables


def _torch() -> Any:
    """PyTorch where it is installed and sees a GPU: its transforms make training several times as fast."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


TORCH = _torch()
REACH = 3  # tones to each side that a patch has
TONES = np.arange(1, 128)
SLOPE = 0.55
ZERO_WEIGHT = 56  # weights are relative; 56 at 0 degrees makes Floyd and Steinberg's 7 : 1 : 5 : 3 whole with room
STEP = np.array([96.0, 3.2, 6.0, 4.8, 6.0])  # threshold in 1/16 gray, weights at 45, 90, 135 and 180 degrees
DPI, INCHES = 300.0, 9.5
SHIPPED_PATH = pathlib.Path(__file__).parent.parent / "clquant" / "halftone" / SHIPPED


def eye(size: int) -> np.ndarray:
    """Nasanen's contrast sensitivity, 1 at frequency 0, on the rfft2 grid of a square."""
    per_degree = DPI * INCHES * np.pi / 180.0
    fy, fx = np.fft.fftfreq(size)[:, None] * per_degree, np.fft.rfftfreq(size)[None, :] * per_degree
    return np.exp(-np.hypot(fy, fx) / (0.525 * np.log(11.0) + 3.91)).astype(np.float32)


def seen_errors(patches: np.ndarray, halftones: np.ndarray) -> np.ndarray:
    """Mean squared seen error of each patch, in gray levels squared (by Parseval, half a spectrum)."""
    size = patches.shape[1]
    weights = eye(size) ** 2
    weights[:, 1 : (size + 1) // 2] *= 2
    errors = halftones.astype(np.float32) - patches.astype(np.float32)
    if TORCH is not None:
        spectrum = TORCH.fft.rfft2(TORCH.from_numpy(errors).cuda())
        power = spectrum.real**2 + spectrum.imag**2
        return (power * TORCH.from_numpy(weights).cuda()).sum(dim=(1, 2)).cpu().numpy().astype(np.float64) / size**4
    power = np.abs(np.fft.rfft2(errors)) ** 2
    return (power * weights).sum(axis=(1, 2), dtype=np.float64) / size**4


def patch(tone: int, size: int) -> np.ndarray:
    """Flat above, below it a ramp over the tones around."""
    made = np.full((size, size), tone, np.uint8)
    made[size // 2 :] = np.rint(np.linspace(max(tone - REACH, 0), tone + REACH, size)).astype(np.uint8)
    return made


def start() -> np.ndarray:
    """(128, sets, 5) float: thresholds sloped with the tone, Floyd and Steinberg's weights, by tone."""
    made = np.empty((128, len(SETS), 5))
    made[:, :, 0] = (UNITS * SLOPE * (np.arange(128) - 127.5))[:, None]
    made[:, :, 1:] = [FLOYD_STEINBERG[a] * ZERO_WEIGHT / 7 for a in (45, 90, 135, 180)]
    return made


def as_tables(state: np.ndarray, amplitude: int) -> WeightTables:
    """What the halftoner takes: rounded, with the upper tones mirroring the lower."""
    half = 2040 + np.rint(state[:, :, 0]).astype(np.int64).T
    weights = np.rint(state[:, :, 1:]).astype(np.int64).transpose(1, 0, 2)
    weights = np.concatenate([np.full((*weights.shape[:2], 1), ZERO_WEIGHT), weights], axis=2)
    threshold = np.clip(np.concatenate([half, 4080 - half[:, ::-1]], axis=1), 0, 4080)
    return WeightTables(
        threshold=threshold.astype(np.int16),
        spread=np.zeros((len(SETS), 256), np.int16),
        weights=np.concatenate([weights, weights[:, ::-1]], axis=1).astype(np.uint8),
        start=amplitude,
    )


def proposal(state: np.ndarray, tones: np.ndarray, scale: float, rng: np.random.Generator) -> np.ndarray:
    """The state with entries of some tones changed; a fifth of the tones start from a neighbour's entries."""
    made = state.copy()
    beside = np.clip(tones + rng.choice([-1, 1], tones.size), 1, 127)
    borrowed = rng.random(tones.size) < 0.2
    made[tones[borrowed]] = state[beside[borrowed]]
    made[tones[borrowed], :, 0] += UNITS * SLOPE * (tones - beside)[borrowed, None]
    chosen = rng.random((tones.size, len(SETS), 5)) < 0.3
    made[tones] += chosen * rng.normal(size=chosen.shape) * STEP * scale
    made[:, :, 1:] = np.clip(made[:, :, 1:], 0, 112)
    made[:, :, 0] = np.clip(made[:, :, 0], -2040, 1000)
    return made


def measure(state: np.ndarray, tones: np.ndarray, options: argparse.Namespace, seed: int) -> np.ndarray:
    """Seen error of each tone's patch; the patches are halftoned as one picture."""
    patches = np.stack([patch(int(t), options.size) for t in tones])
    engine = PinwheelHalftoner(
        options.block, scan=options.scan, weights=as_tables(state, options.start), random_state=seed
    )
    halftones = np.asarray(engine.transform(patches.reshape(-1, options.size, 1)))
    return seen_errors(patches, halftones.reshape(patches.shape))


def between_knots(state: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """The state with every tone's entries interpolated from those of the knots."""
    made = state.copy()
    for place in np.ndindex(state.shape[1:]):
        made[(slice(None), *place)] = np.interp(np.arange(128), knots, state[(knots, *place)])
    return made


def around(state: np.ndarray, tones: np.ndarray) -> np.ndarray:
    """The state with the entries of some tones spread over their patches, thresholds along the slope."""
    made = state.copy()
    for away in range(-REACH, REACH + 1):
        there = np.clip(tones + away, 0, 127)
        made[there] = state[tones]
        made[there, :, 0] += (UNITS * SLOPE * (there - tones))[:, None]
    return made


def search(state: np.ndarray, stride: int, sweeps: int, scale: float, options: argparse.Namespace) -> np.ndarray:
    """The state after sweeps over every `stride`-th tone, the others between them; says how far it is now and then."""
    rng = np.random.default_rng([options.seed, stride])
    knots = TONES[::stride]
    apart = -(-(2 * REACH + 1) // stride)
    groups = [knots[first::apart] for first in range(apart)]
    least = [measure(around(state, tones), tones, options, options.seed) for tones in groups]
    began = time.monotonic()
    for sweep in range(sweeps):
        for tones, error in zip(groups, least, strict=True):
            tried = proposal(state, tones, scale if 2 * sweep < sweeps else scale / 2, rng)
            found = measure(around(tried, tones), tones, options, options.seed)
            better = found < error
            state[tones[better]] = tried[tones[better]]
            error[better] = found[better]
            state = between_knots(state, knots)
        if (sweep + 1) % 50 == 0:
            error = measure(state, TONES, options, options.seed + 1).mean()
            took = time.monotonic() - began
            print(
                f"stride {stride}, sweep {sweep + 1}: seen error {error:.3f} on a fresh seed, {took:.0f} s", flush=True
            )
    return state


def train(options: argparse.Namespace) -> np.ndarray:
    """Few knots first, then many."""
    state = start()
    for number, stage in enumerate(options.stages):
        stride, sweeps = (int(part) for part in stage.split(":"))
        state = search(state, stride, sweeps, 1.0 if number == 0 else 0.7, options)
    return state


def main(arguments: list[str] | None = None) -> int:
    """Train one scan and block size and put it into the table file, beside those that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--scan", choices=SCANS, default="spiral")
    parser.add_argument(
        "--stages",
        nargs="+",
        default=["7:300", "3:300"],
        metavar="STRIDE:SWEEPS",
        help="search every STRIDE-th tone SWEEPS times; the others lie between (STRIDE divides 126)",
    )
    parser.add_argument("--size", type=int, default=512, help="side of a patch; a multiple of twice the block size")
    parser.add_argument("--start", type=int, default=64, help="amplitude of the start error in gray levels")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=SHIPPED_PATH)
    options = parser.parse_args(arguments)
    options.start = min(max(options.start, 0), 127)
    first = measure(start(), TONES, options, options.seed + 1).mean()
    state = train(options)
    last = measure(state, TONES, options, options.seed + 1).mean()
    tables = as_tables(state, options.start)
    arrays: dict[str, np.ndarray] = {}
    if options.output.exists():
        with np.load(options.output, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    told = json.loads(str(arrays["provenance"])) if "provenance" in arrays else {}
    stem = f"{options.scan}_{options.block}"
    told[stem] = {
        "program": "training/halftone_train.py",
        "arguments": {k: v for k, v in vars(options).items() if k != "output"},
        "objective": "mean squared error through Nasanen's visual model, 300 dpi, 9.5 inches, patches of tones 1..127",
        "seen_error": {"sloped threshold, Floyd-Steinberg weights": round(first, 4), "trained": round(last, 4)},
        "transforms": f"torch {TORCH.__version__}" if TORCH is not None else f"numpy {np.__version__}",
    }
    arrays[f"{stem}_threshold"] = tables.threshold
    arrays[f"{stem}_weights"] = tables.weights
    arrays[f"{stem}_start"] = np.array(tables.start, np.int32)
    arrays["provenance"] = np.array(json.dumps(told, sort_keys=True))
    np.savez_compressed(options.output, **arrays)
    print(f"{stem}: seen error {first:.3f} -> {last:.3f}; wrote {options.output.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
