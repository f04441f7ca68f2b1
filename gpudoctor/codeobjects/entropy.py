"""The entropy codes of Zstandard (RFC 8878, chapter 4): streams of bits read backwards, and FSE tables."""

from __future__ import annotations

from functools import lru_cache

from gpudoctor.codeobjects.bounded import NotReadable

Table = list[tuple[int, int, int]]
"""An FSE decoding table: for each state its symbol, the bits to read, and the base of the next state."""


class BackwardBits:
    """A bit stream that is read from its last byte, whose highest set bit marks the end; zeros precede its start."""

    def __init__(self, data: bytes) -> None:
        if not data or not data[-1]:
            raise NotReadable("malformed: damaged zstd data")
        self._data = data
        self.left = len(data) * 8 - (9 - data[-1].bit_length())

    def read(self, count: int) -> int:
        """The next `count` bits as a number."""
        if not count:
            return 0
        high = self.left
        low = self.left = high - count
        if low >= 0:
            return int.from_bytes(self._data[low >> 3 : high + 7 >> 3], "little") >> (low & 7) & (1 << count) - 1
        if high <= 0:
            return 0
        return (int.from_bytes(self._data[: high + 7 >> 3], "little") & (1 << high) - 1) << -low


def read_distribution(data: bytes, accuracy_limit: int, symbols: int) -> tuple[tuple[int, ...], int, int]:
    """A transmitted FSE distribution: its probabilities (-1: less than one), accuracy, and length in bytes."""
    stream = int.from_bytes(data[:512], "little")
    accuracy = (stream & 15) + 5
    if accuracy > accuracy_limit:
        raise NotReadable("malformed: damaged zstd data")
    at, left = 4, 1 << accuracy
    counts: list[int] = []
    while left > 0 and len(counts) < symbols:
        width = (left + 1).bit_length()
        value = stream >> at & (1 << width) - 1
        short = (1 << width) - 1 - (left + 1)  # this many values need one bit less
        if value & (1 << width - 1) - 1 < short:
            value &= (1 << width - 1) - 1
            at += width - 1
        else:
            if value >= 1 << width - 1:
                value -= short
            at += width
        count = value - 1
        counts.append(count)
        left -= abs(count)
        if not count:
            while len(counts) < symbols:
                repeat = stream >> at & 3
                at += 2
                counts += [0] * repeat
                if repeat < 3:
                    break
    if left or len(counts) > symbols or at > 8 * len(data):
        raise NotReadable("malformed: damaged zstd data")
    return tuple(counts), accuracy, (at + 7) // 8


@lru_cache(maxsize=64)
def fse_table(counts: tuple[int, ...], accuracy: int) -> Table:
    """The decoding table of a distribution."""
    size = 1 << accuracy
    symbols = [0] * size
    high = size - 1
    for symbol, count in enumerate(counts):
        if count == -1:
            symbols[high] = symbol
            high -= 1
    step, at = (size >> 1) + (size >> 3) + 3, 0
    for symbol, count in enumerate(counts):
        for _ in range(count):
            symbols[at] = symbol
            at = at + step & size - 1
            while at > high:
                at = at + step & size - 1
    states = [1 if count == -1 else count for count in counts]
    table = []
    for symbol in symbols:
        state = states[symbol]
        states[symbol] += 1
        bits = accuracy + 1 - state.bit_length()
        table.append((symbol, bits, (state << bits) - size))
    return table


def huffman_weights(data: bytes) -> list[int]:
    """Huffman weights that were compressed with FSE: two states take turns until the stream ends."""
    distribution, accuracy, used = read_distribution(data, 6, 13)
    table = fse_table(distribution, accuracy)
    bits = BackwardBits(data[used:])
    states = [bits.read(accuracy), bits.read(accuracy)]
    weights: list[int] = []
    turn = 0
    while len(weights) < 255:
        symbol, width, base = table[states[turn]]
        weights.append(symbol)
        if bits.left < width:
            weights.append(table[states[1 - turn]][0])
            return weights
        states[turn] = base + bits.read(width)
        turn = 1 - turn
    raise NotReadable("malformed: damaged zstd data")
