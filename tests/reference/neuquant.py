"""NeuQuant, slow and plain: Dekker's sequential map, and the mini-batch map with its refinement.

Sequential: A. H. Dekker, "Kohonen neural networks for optimal colour quantization", Network: Computation in Neural
Systems 5 (1994), and the integer program published with it. All on points: colours as non-negative integers.
"""

from __future__ import annotations

import math

import numpy as np

PRIMES = (499, 491, 487, 503)


def truncated(a, b):
    """Division that rounds toward zero, as C has it."""
    return np.sign(a) * (np.abs(a) // b)


def gray_network(colors, dims):
    """The first network: gray, evenly spaced, in 1/16."""
    return np.repeat((np.arange(colors, dtype=np.int64) << 12)[:, None] // colors, dims, axis=1)


def sequential(points, colors=256, sample_factor=1, network=None):
    """The network, (colors, dims) rounded to whole coordinates and capped at 255, in its own order.

    A point with a negative coordinate is passed over.
    """
    points = np.asarray(points, np.int64)
    n = len(points)
    net = gray_network(colors, points.shape[1]) if network is None else network.astype(np.int64)
    frequency = np.full(colors, 65536 // colors, np.int64)
    bias = np.zeros(colors, np.int64)
    samples = max(n // sample_factor, 1)
    per_cycle = max(samples // 100, 1)
    step = next((p for p in PRIMES if n % p), 503)
    alpha, radius = 1024, (colors // 8) * 64
    for s in range(samples):
        reach = radius >> 6 if radius >> 6 > 1 else 0
        x = points[s * step % n] << 4
        if x[0] >= 0:
            distance = np.abs(net - x).sum(axis=1)
            nearest = np.argmin(distance)
            winner = np.argmin(distance - (bias >> 12))
            share = frequency >> 10
            frequency -= share
            bias += share << 10
            frequency[nearest] += 64
            bias[nearest] -= 65536
            net[winner] -= truncated(alpha * (net[winner] - x), 1024)
            for i in range(max(winner - reach + 1, 0), min(winner + reach, colors)):
                if i != winner:
                    d = i - winner
                    pull = alpha * (((reach * reach - d * d) * 256) // (reach * reach))
                    net[i] -= truncated(pull * (net[i] - x), 262144)
        if (s + 1) % per_cycle == 0:
            alpha -= alpha // (30 + (sample_factor - 1) // 3)
            radius -= radius // 30
    return np.minimum((net + 8) >> 4, 255)


def half_up(value):
    return math.floor(value + 0.5)


def steps(colors, sample_factor=1):
    """The mini-batch map's 64 steps: how many points, and the pull -ln(1 - a(d)) of each distance in 1/4096."""
    for t in range(64):
        p = t / 64
        batch = max(math.floor(round(max(4 * colors, 256) * 16**p / sample_factor, 9)), 1)
        alpha = 0.2**p
        radius = (colors / 4) ** (1 - p / 0.6) if p < 0.6 else 0
        a = [alpha] + [alpha * (1 - (d / radius) ** 2) for d in range(1, math.ceil(round(radius, 9)))]
        yield batch, [half_up(-math.log(1 - min(x, 0.98)) * 4096) for x in a]


def sample(n, count):
    """Which of n pixels the map sees, in order."""
    return [((s * 2654435769) % 2**32) * n // 2**32 for s in range(count)]


def seen(nodes, shift):
    """Nodes with 12 fraction bits as a search sees them, rounded half up to `shift` fraction bits."""
    return (nodes + (1 << (11 - shift))) >> (12 - shift)


def winners(points, network, metric="l2", bias=0):
    """The nearest node of every point, the lowest index among equals."""
    d = points[:, None, :] - network[None, :, :]
    distance = (d * d).sum(axis=2) if metric == "l2" else np.abs(d).sum(axis=2)
    return np.argmin(distance - bias, axis=1), np.argmin(distance, axis=1)


def decayed(weight):
    """1 - exp(-weight / 4096) in 1/65536, through two rounded exponentials."""
    if weight >= 16 << 12:
        return 65536
    coarse = half_up(math.exp(-(weight >> 8) / 16) * 65536)
    fine = half_up(math.exp(-(weight & 255) / 4096) * 65536)
    return 65536 - (coarse * fine >> 16)


def batch_map(points, nodes, shift, sample_factor=1, metric="l2", conscience=False):
    """Nodes (K, dims) with 12 fraction bits, trained on the points in order; a negative point is passed over."""
    colors = len(nodes)
    bias = np.zeros(colors, np.int64)
    start = 0
    for batch, pull in steps(colors, sample_factor):
        x = points[start : start + batch]
        start += batch
        x = x[x[:, 0] >= 0]
        won, plain = winners(x << shift, seen(nodes, shift), metric, bias)
        counts = np.bincount(won, minlength=colors)
        sums = np.stack([np.bincount(won, x[:, c], colors).astype(np.int64) for c in range(x.shape[1])], axis=1)
        if conscience:
            owed = batch - colors * np.bincount(plain, minlength=colors)
            bias = truncated(owed << (10 + shift), colors * batch)
        moved = nodes.copy()
        for i in range(colors):
            near = [j for j in range(colors) if abs(i - j) < len(pull)]
            weight = sum(pull[abs(i - j)] * int(counts[j]) for j in near)
            if weight:
                drawn = sum(pull[abs(i - j)] * sums[j] for j in near)
                moved[i] += ((drawn << 12) // weight - nodes[i]) * decayed(weight) + 32768 >> 16
        nodes = moved
    return nodes


def refined_points(points, pixels, coordinates, colors, sample_factor, steps):
    """What a refinement of `steps` steps works on: points, what each counts, and how many steps it takes.

    Up to 16384 distinct colours each count as often as they stand, and four times the steps are taken; else samples of
    the points, but for those that are passed over (negative). `coordinates` gives the points of (n, C) `pixels`.
    """
    distinct, weights = np.unique(pixels, axis=0, return_counts=True)
    if len(distinct) <= 16384:
        return coordinates(distinct).astype(np.int64), weights, 4 * steps
    most = 512 * max(colors, 256) // sample_factor
    some = points if len(points) <= most else points[sample(len(points), most)]
    some = some[some[:, 0] >= 0]
    return some, np.ones(len(some), np.int64), steps


def starts(colors, coordinates):
    """What few nodes are refined from besides the trained network: other diagonals of the cube, and all at 0."""
    ramp = (2 * np.arange(colors) + 1) * 128 // colors
    for channel in range(3):
        shades = np.stack([255 - ramp if c == channel else ramp for c in range(3)], axis=1).astype(np.uint8)
        yield coordinates(shades).astype(np.int64) << 12
    yield np.zeros_like(coordinates(shades), np.int64)


def refinement(points, pixels, coordinates, nodes, sample_factor, steps, shift, extent, pinned=0):
    """All steps of the refinement, of at most 8 nodes from several starts if colours are few; the best result."""
    some, weights, count = refined_points(points, pixels, coordinates, len(nodes), sample_factor, steps)
    begun = [nodes]
    if len(nodes) - pinned <= 8 and count > steps:
        begun += [np.concatenate([nodes[:pinned], start]) for start in starts(len(nodes) - pinned, coordinates)]
    results = []
    for network in begun:
        error = 0
        for step in range(count):
            network, error = refine(some, weights, network, shift, extent, step < count - 1, pinned)
        results.append((error, network))
    return min(results, key=lambda result: result[0])[1]


def refine(points, weights, nodes, shift, extent, moves, pinned=0):
    """One Lloyd step over the weighted points, with nodes of little use moved to where the error is.

    The first `pinned` nodes win points and stay where they are. The squared error of the points that they were assigned
    to before they moved is the second result: about their mean, of a pinned node about the node.
    """
    colors = len(nodes)
    won, _ = winners(points << shift, seen(nodes, shift))
    members = [(points[won == i], weights[won == i][:, None]) for i in range(colors)]
    counts = [int(w.sum()) for _, w in members]
    sums = [[int(v) for v in (w * m).sum(axis=0)] for m, w in members]
    errors = [_errors(*members[i], sums[i], counts[i], nodes[i] >> 12 if i < pinned else None) for i in range(colors)]

    def centre(total, count):
        return [((v << (shift + 1)) + count) // (2 * count) for v in total]

    kept = [list(seen(node, shift)) for node in nodes]
    centres = [centre(sums[i], counts[i]) if counts[i] and i >= pinned else kept[i] for i in range(colors)]
    placed = [list(c) for c in centres]
    if moves:
        _move(errors, counts, sums, centres, placed, centre, shift, extent, pinned)
    placed[:pinned] = kept[:pinned]
    return np.array(placed, np.int64) << (12 - shift), sum(map(sum, errors))


def _errors(points, weights, sums, count, place):
    """The squared error of weighted points along each axis, about a place or else their mean."""
    squares = [int(v) for v in (weights * points**2).sum(axis=0)]
    if count == 0:
        return [0 for _ in squares]
    if place is None:
        return [square - total**2 // count for square, total in zip(squares, sums, strict=True)]
    about = zip(squares, sums, map(int, place), strict=True)
    return [square - 2 * p * total + count * p * p for square, total, p in about]


def _move(errors, counts, sums, centres, placed, centre, shift, extent, pinned):
    colors = len(centres)

    def apart(i, j):
        return sum((int(a) - int(b)) ** 2 for a, b in zip(centres[i], centres[j], strict=True))

    used = [i for i in range(colors) if counts[i] or i < pinned]
    partner = [min((j for j in used if j != i), key=lambda j: (apart(i, j), j), default=-1) for i in range(colors)]
    gain = [max(e) for e in errors]
    cost = [math.inf] * colors
    for i in range(colors):
        j = partner[i]
        if i < pinned:
            continue
        if counts[i] == 0:
            cost[i] = 0
        elif 0 <= j < pinned:
            cost[i] = apart(i, j) * counts[i] >> 2 * shift
        elif j >= 0 and partner[j] == i and (counts[i], i) < (counts[j], j):
            joined = (counts[i] * counts[j] << 8) // (counts[i] + counts[j])
            cost[i] = apart(i, j) * joined >> (8 + 2 * shift)
    leaving = sorted(range(colors), key=lambda i: (cost[i], i))
    split = sorted(range(colors), key=lambda i: (-gain[i], i))
    pairs = []
    for i, j in zip(leaving, split, strict=True):
        parts = [x for pair in pairs for x in pair]
        if cost[i] == math.inf or gain[j] == 0 or 4 * cost[i] >= 5 * gain[j] or i == j or i in parts or j in parts:
            break
        pairs.append((i, j))
    for i, _ in pairs:
        j = partner[i]
        if counts[i] and j >= pinned:
            placed[j] = centre([a + b for a, b in zip(sums[i], sums[j], strict=True)], counts[i] + counts[j])
    for i, j in pairs:
        axis = errors[j].index(gain[j])
        deviation = max(math.isqrt((gain[j] << (2 * shift)) // counts[j]), 1)
        middle = centre(sums[j], counts[j])
        placed[i], placed[j] = list(middle), list(middle)
        if j < pinned:
            continue
        placed[i][axis] = min(middle[axis] + deviation, extent[axis] << shift)
        placed[j][axis] = max(middle[axis] - deviation, 0)
