"""The entropy coder of .clvq files, straight from docs/clvq-format.md: contexts, frequencies, rANS, codebooks, and the
choice of codewords that side match makes on these contexts."""

from __future__ import annotations

import math

import numpy as np

TOTAL = 1 << 15
LOW = 1 << 16
NONE = 170


def lin(v):
    """The weight of a logarithm in eighths of a bit."""
    return ((8 | v & 7) << (v >> 3)) >> 3


def log(n):
    """The logarithm of a whole number from 1 on, in eighths of a bit, rounded down between powers of two."""
    e = n.bit_length() - 1
    return 8 * e + ((n >> (e - 3) if e >= 3 else n << (3 - e)) & 7)


def thresholds(components):
    """The least distance of each bin from 1 on: bin b begins at n (2^(b/2) - 1)."""
    return [math.isqrt(components**2 * 2**b - 1) + 1 - components for b in range(1, 32)]


def room(pixels):
    """Entries that tables may have."""
    return (1 << 18) + 64 * pixels


def halved(order, sides, bucket, smallest):
    """An order cut in two by the component that varies most, each half likewise, down to parts of `smallest`."""
    if len(order) <= smallest:
        return order
    values = sides[order]
    spread_of = len(order) * (values**2).sum(0) - values.sum(0) ** 2
    order = order[np.argsort(values[:, int(np.argmax(spread_of))], kind="stable")]
    unit = bucket if len(order) > bucket else smallest
    middle = (-(-len(order) // unit) + 1) // 2 * unit
    return np.concatenate([halved(part, sides, bucket, smallest) for part in (order[:middle], order[middle:])])


def side_values(own, others, curve, shift):
    """Values of every codeword's side, given the side of the neighbour's group, and a last row for no neighbour."""
    count = -(-len(own) >> shift)
    values = np.full((count + 1, len(own)), NONE, np.int64)
    bounds = thresholds(own.shape[1])
    for g in range(count):
        members = others[g << shift : (g + 1) << shift]
        mean = (2 * members.sum(0) + len(members)) // (2 * len(members))
        distance = ((own - mean) ** 2).sum(1)
        values[g] = np.asarray(curve)[np.searchsorted(bounds, distance, side="right")]
    return values


class Contexts:
    """Values of codewords and of buckets by the neighbours above and to the left, in coding order."""

    def __init__(self, codebook, curves, pixels, rarity=None):
        size = self.size = len(codebook)
        self.bucket = 1 << (max(size - 1, 1).bit_length() + 1) // 2
        self.shift = next(s for s in range(17) if -(-size >> s) * size <= min(1 << 24, room(pixels)))
        groups = -(-size >> self.shift)
        self.by_pairs = (groups + 1) ** 2 * size <= min(1 << 25, room(pixels))
        book = codebook.reshape(*codebook.shape[:3], -1).astype(np.int64)
        edges = [e.reshape(size, -1) for e in (book[:, 0], book[:, :, 0], book[:, -1], book[:, :, -1])]
        smallest = min(self.bucket, 1 << self.shift) if self.shift else self.bucket
        every = np.arange(size)
        self.order = (
            every
            if self.by_pairs
            else halved(every, np.concatenate([e[:, :: -(-e.shape[1] // 12)] for e in edges], 1), self.bucket, smallest)
        )
        top, left, bottom, right = (edge[self.order] for edge in edges)
        rare = np.zeros(size, np.int64) if rarity is None else 4 * np.asarray(rarity, np.int64)
        above = side_values(top, bottom, curves[0], self.shift)
        beside = side_values(left, right, curves[1], self.shift)
        self.members = [np.maximum(above - rare, 0), beside]
        self.buckets = [self._buckets(above, rare, True), self._buckets(beside, rare, False)]

    def _buckets(self, values, rare, is_above):
        made = np.zeros((len(values), -(-self.size // self.bucket)), np.int64)
        for g, b in np.ndindex(made.shape):
            part = slice(b * self.bucket, (b + 1) * self.bucket)
            off = 32 + rare[part]
            weights = [lin(max(int(v), 0)) for v in values[g, part] - off]
            highest = [lin(max(int(v), 0)) for v in 211 - off]
            if is_above:
                made[g, b] = log(max(sum(weights) // len(weights), 1)) + 32
            else:
                made[g, b] = 211 + log(sum(weights)) - log(sum(highest))
        return made

    def bounds(self, above, left, bucket=None):
        """Cumulative frequencies of the buckets, or of the codewords of one; None stands for no neighbour."""
        a, b = (-1 if n is None else n >> self.shift for n in (above, left))
        tables = self.buckets if bucket is None and not self.by_pairs else self.members
        part = slice(None) if bucket is None else slice(bucket * self.bucket, (bucket + 1) * self.bucket)
        both = zip(tables[0][a, part].tolist(), tables[1][b, part].tolist(), strict=True)
        weights = [lin(max(0, x + y - 255)) for x, y in both]
        if bucket is None and self.by_pairs:
            weights = [sum(weights[at : at + self.bucket]) for at in range(0, self.size, self.bucket)]
        return spread(weights)


def chosen(image_blocks, table, codebook, contexts, state, tolerance):
    """Kim, "Side match and overlap match vector quantizers for images", on these contexts: the likeliest codeword
    whose squared error is larger by less than `tolerance`, if it is among the `state` likeliest; of a band in coding
    order."""
    table, words = table.copy(), codebook.reshape(len(codebook), -1).astype(np.int64)[contexts.order]
    for (row, column), nearest in np.ndenumerate(table):
        above, left = _neighbours(table, row, column)
        a, b = (-1 if n is None else n >> contexts.shift for n in (above, left))
        likely = contexts.members[0][a] + contexts.members[1][b]
        errors = ((words - image_blocks[row * table.shape[1] + column]) ** 2).sum(1)
        allowed = [j for j in range(len(words)) if errors[j] < errors[nearest] + tolerance or j == nearest]
        best = min(allowed, key=lambda j: (-likely[j], errors[j], j))
        if sum(likely[j] > likely[best] or (likely[j] == likely[best] and j < best) for j in range(len(words))) < state:
            table[row, column] = best
    return table


def spread(weights):
    """Cumulative frequencies, one more than weights: from 0 to TOTAL, each weight's at least 1."""
    top = sum(weights).bit_length() - 1
    scaled = lambda c: c >> (top - 15) if top >= 15 else c << (15 - top)  # noqa: E731
    ratio = ((TOTAL - len(weights)) << 16) // scaled(sum(weights))
    cumulative = np.cumsum([0, *weights[:-1]]).tolist()
    return [(scaled(c) * ratio >> 16) + i for i, c in enumerate(cumulative)] + [TOTAL]


def put(state, words, begin, end):
    """Encode a symbol of the frequencies begin .. end, backwards; gives the new state."""
    frequency = end - begin
    if state >> 17 >= frequency:
        words.append(state & 0xFFFF)
        state >>= 16
    return (state // frequency << 15) + state % frequency + begin


def get(state, words, bounds):
    """Decode a symbol; `words` is an iterator. Gives it and the new state."""
    slot = state & (TOTAL - 1)
    symbol = int(np.searchsorted(bounds, slot, side="right")) - 1
    state = (bounds[symbol + 1] - bounds[symbol]) * (state >> 15) + slot - bounds[symbol]
    return symbol, state << 16 | next(words) if state < LOW else state


def places(rows, columns, lanes):
    """The blocks of each step of a band, as (lane, row, column), lanes ascending."""
    stride = max(columns, lanes)
    for step in range((rows - 1) // lanes * stride + (rows - 1) % lanes + columns):
        yield [
            (lane, (step - lane) // stride * lanes + lane, (step - lane) % stride)
            for lane in range(lanes)
            if step >= lane and (step - lane) // stride * lanes + lane < rows and (step - lane) % stride < columns
        ]


def _neighbours(table, row, column):
    return (int(table[row - 1, column]) if row else None), (int(table[row, column - 1]) if column else None)


def encode_band(table, contexts, lanes):
    """(states, words) of a band's index table."""
    states, words = [LOW] * lanes, []
    for step in reversed(list(places(*table.shape, lanes))):
        for level in (1, 0):
            for lane, row, column in reversed(step):
                index = int(table[row, column])
                near = _neighbours(table, row, column)
                bucket, member = divmod(index, contexts.bucket)
                bounds = contexts.bounds(*near, bucket if level else None)
                symbol = member if level else bucket
                states[lane] = put(states[lane], words, bounds[symbol], bounds[symbol + 1])
    return states, words[::-1]


def decode_band(states, words, shape, contexts, lanes):
    """The index table that `encode_band` was given."""
    table, states, source = np.zeros(shape, np.int64), list(states), iter(words)
    for step in places(*shape, lanes):
        for level in (0, 1):
            for lane, row, column in step:
                near = _neighbours(table, row, column)
                bucket = table[row, column] // contexts.bucket if level else None
                symbol, states[lane] = get(states[lane], source, contexts.bounds(*near, bucket))
                table[row, column] = table[row, column] + symbol if level else symbol * contexts.bucket
    assert next(source, None) is None
    assert states == [LOW] * lanes
    return table


def scale_tables():
    """Cumulative frequencies of residuals 0..255 (signed, modulo 256) for the 16 scales of codebooks."""
    signed = [v - 256 if v > 127 else v for v in range(256)]
    return [spread([((1 << 20) << s) // ((1 << s) + 16 * v * v) + 1 for v in signed]) for s in range(16)]


def prediction(word, previous, y, x, c):
    """(prediction, class) of a component of a codeword from those before it."""
    at = lambda yy, xx, cc: int(word[yy, xx, cc])  # noqa: E731

    def plane(cc):
        if y and x:
            left, up, corner = at(y, x - 1, cc), at(y - 1, x, cc), at(y - 1, x - 1, cc)
            activity = abs(left - corner) + abs(up - corner)
            return min(max(left + up - corner, min(left, up)), max(left, up)), activity
        if y:
            return at(y - 1, 0, cc), 2 * abs(at(y - 1, min(1, word.shape[1] - 1), cc) - at(y - 1, 0, cc))
        if x:
            return at(0, x - 1, cc), 2 * abs(at(0, x - 1, cc) - at(0, x - 2, cc)) if x > 1 else 20
        return previous, 40

    guess, activity = plane(c)
    if c:
        error = at(y, x, c - 1) - plane(c - 1)[0]
        guess, activity = min(max(guess + error, 0), 255), abs(error) + activity // 2
    kind = min(11, ((activity + 1) ** 2).bit_length() - 1)
    return guess, kind + 12 * (c > 0)


def code_codeword(word, previous):
    """(classes, residuals) of a codeword's components in order."""
    out = []
    for y, x, c in np.ndindex(word.shape):
        guess, kind = prediction(word, previous, y, x, c)
        out.append((kind, (int(word[y, x, c]) - guess) % 256))
    return out
