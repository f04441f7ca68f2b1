"""The first bytes of a Zstandard frame, decompressed in pure Python (RFC 8878).

HIP compilers compress their bundles with zstd, which the standard library can read only since Python 3.14. The list
of targets is in the first kilobytes. So this decodes a frame's blocks only as far as asked, without checksums and
dictionaries: that takes a millisecond, while decompressing the whole frame would take seconds.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from gpudoctor.codeobjects.bounded import Bounded, NotReadable
from gpudoctor.codeobjects.entropy import BackwardBits, Table, fse_table, huffman_weights, read_distribution

MAGIC = 0xFD2FB528
_BLOCK_LIMIT = 128 << 10
_MOST_BLOCKS = 64
_HUFFMAN_BITS = 11

# Base value and number of extra bits of each literal-length and match-length code (RFC 8878, 3.1.1.3.2.1.1).
_LENGTHS = [(n, 0) for n in range(16)] + [
    (16, 1), (18, 1), (20, 1), (22, 1), (24, 2), (28, 2), (32, 3), (40, 3), (48, 4), (64, 6), (128, 7), (256, 8),
    (512, 9), (1024, 10), (2048, 11), (4096, 12), (8192, 13), (16384, 14), (32768, 15), (65536, 16),
]  # fmt: skip
_MATCHES = [(n + 3, 0) for n in range(32)] + [
    (35, 1), (37, 1), (39, 1), (41, 1), (43, 2), (47, 2), (51, 3), (59, 3), (67, 4), (83, 4), (99, 5), (131, 7),
    (259, 8), (515, 9), (1027, 10), (2051, 11), (4099, 12), (8195, 13), (16387, 14), (32771, 15), (65539, 16),
]  # fmt: skip


class _Kind(NamedTuple):
    """One of the three codes of a sequence: its default distribution, and limits on a transmitted one."""

    default: tuple[int, ...]
    default_accuracy: int
    accuracy_limit: int
    symbols: int


_LITERAL_LENGTH = _Kind(
    (4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1),
    6, 9, 36,
)  # fmt: skip
_OFFSET = _Kind((1, 1, 1, 1, 1, 1, 2, 2, 2, *(1,) * 15, -1, -1, -1, -1, -1), 5, 8, 32)
_MATCH_LENGTH = _Kind((1, 4, 3, 2, 2, 2, 2, 2, 2, *(1,) * 37, *(-1,) * 7), 6, 9, 53)


def first_bytes(file: Bounded, start: int, end: int, wanted: int) -> bytes:
    """At most `wanted` bytes of the content of the frame from `start` to `end` of the file."""
    try:
        return _Frame(file, start, end, wanted).content()
    except (IndexError, struct.error):
        raise NotReadable("malformed: damaged zstd data") from None


class _Frame:
    """The state that a frame's blocks pass on: Huffman and FSE tables, and the last three offsets."""

    def __init__(self, file: Bounded, start: int, end: int, wanted: int) -> None:
        self._file = file
        self._at = start
        self._end = end
        self._wanted = wanted
        self._out = bytearray()
        self._huffman: list[tuple[int, int]] = []
        self._huffman_bits = 0
        self._tables: dict[_Kind, Table] = {}
        self._offsets = [1, 4, 8]

    def content(self) -> bytes:
        self._skip_header()
        for _ in range(_MOST_BLOCKS):
            header = int.from_bytes(self._take(3), "little")
            last, kind, size = header & 1, header >> 1 & 3, header >> 3
            if size > _BLOCK_LIMIT:
                raise NotReadable("absurd size: a zstd block of more than 128 KiB")
            if kind == 0:
                self._out += self._take(size)
            elif kind == 1:
                self._out += self._take(1) * size
            elif kind == 2:
                self._block(self._take(size))
            else:
                raise NotReadable("malformed: a reserved kind of zstd block")
            if last or len(self._out) >= self._wanted:
                break
        return bytes(self._out[: self._wanted])

    def _take(self, length: int) -> bytes:
        if self._at + length > self._end:
            raise NotReadable("truncated: a zstd frame that is cut short")
        data = self._file.read(self._at, length)
        self._at += length
        return data

    def _skip_header(self) -> None:
        magic, descriptor = struct.unpack("<IB", self._take(5))
        if magic != MAGIC:
            raise NotReadable("malformed: not a zstd frame")
        single = descriptor >> 5 & 1
        dictionary = (0, 1, 2, 4)[descriptor & 3]
        size = (single, 2, 4, 8)[descriptor >> 6]
        self._take((0 if single else 1) + dictionary + size)

    # --- one compressed block: literals, then sequences ---

    def _block(self, data: bytes) -> None:
        literals, at = self._literals(data)
        count, at = _sequence_count(data, at)
        if not count:
            self._out += literals
            return
        modes = data[at]
        at += 1
        tables = []
        for shift, kind in ((6, _LITERAL_LENGTH), (4, _OFFSET), (2, _MATCH_LENGTH)):
            table, at = self._sequence_table(data, at, modes >> shift & 3, kind)
            tables.append(table)
        used = self._run_sequences(BackwardBits(data[at:]), tables, count, literals)
        self._out += literals[used:]

    def _literals(self, data: bytes) -> tuple[bytes, int]:
        """The block's literals, as many as may be needed, and where its sequences start."""
        kind, form = data[0] & 3, data[0] >> 2 & 3
        if kind < 2:
            length = 1 if not form & 1 else 2 if form == 1 else 3
            size = int.from_bytes(data[:length], "little") >> (3 if length == 1 else 4)
            if kind == 0:
                return data[length : length + size], length + size
            return data[length : length + 1] * min(size, _BLOCK_LIMIT), length + 1
        length, bits = ((3, 10), (3, 10), (4, 14), (5, 18))[form]
        header = int.from_bytes(data[:length], "little")
        size, packed = header >> 4 & (1 << bits) - 1, header >> 4 + bits
        if len(data) < length + packed:
            raise NotReadable("malformed: damaged zstd data")
        body = data[length : length + packed]
        if kind == 2:
            body = body[self._read_huffman(body) :]
        if not self._huffman:
            raise NotReadable("malformed: damaged zstd data")
        return self._huffman_decode(body, size, streams=1 if form == 0 else 4), length + packed

    def _sequence_table(self, data: bytes, at: int, mode: int, kind: _Kind) -> tuple[Table, int]:
        if mode == 0:
            table = fse_table(kind.default, kind.default_accuracy)
        elif mode == 1:
            table = [(data[at], 0, 0)]
            at += 1
        elif mode == 2:
            distribution, accuracy, used = read_distribution(data[at:], kind.accuracy_limit, kind.symbols)
            table = fse_table(distribution, accuracy)
            at += used
        else:
            table = self._tables.get(kind, [])
        if not table:
            raise NotReadable("malformed: damaged zstd data")
        self._tables[kind] = table
        return table, at

    def _run_sequences(self, bits: BackwardBits, tables: list[Table], count: int, literals: bytes) -> int:
        """Copy literals and matches until enough is written; returns how many literals that took."""
        lengths, offsets, matches = tables
        read, out, used = bits.read, self._out, 0
        length_state, offset_state, match_state = (read(len(table).bit_length() - 1) for table in tables)
        for left in range(count, 0, -1):
            offset_code, offset_bits, offset_base = offsets[offset_state]
            match_code, match_bits, match_base = matches[match_state]
            length_code, length_bits, length_base = lengths[length_state]
            if offset_code > 31:
                raise NotReadable("malformed: damaged zstd data")
            value = (1 << offset_code) + read(offset_code)
            base, extra = _MATCHES[match_code]
            match = base + read(extra)
            base, extra = _LENGTHS[length_code]
            length = base + read(extra)
            if left > 1:
                length_state = length_base + read(length_bits)
                match_state = match_base + read(match_bits)
                offset_state = offset_base + read(offset_bits)
            out += literals[used : used + length]
            used += length
            if len(out) >= self._wanted:
                break  # the literals that follow may not even be decoded
            self._copy(self._offset(value, length), match)
        return used

    def _offset(self, value: int, length: int) -> int:
        """The distance for an offset value: a new one, or one of the last three."""
        recent = self._offsets
        if value > 3:
            self._offsets = [value - 3, recent[0], recent[1]]
            return value - 3
        index = value - 1 + (length == 0)
        distance = recent[0] - 1 if index == 3 else recent[index]
        if index:
            self._offsets = [distance, recent[0], recent[2] if index == 1 else recent[1]]
        return distance

    def _copy(self, distance: int, length: int) -> None:
        out = self._out
        if not 0 < distance <= len(out):
            raise NotReadable("malformed: damaged zstd data")
        length = min(length, self._wanted)
        start = len(out) - distance
        piece = out[start : start + length]
        out += (piece * (length // len(piece) + 1))[:length]

    # --- Huffman ---

    def _read_huffman(self, data: bytes) -> int:
        """Build the table of literals from its description; returns the description's length."""
        size = data[0]
        if size < 128:
            weights, used = huffman_weights(data[1 : 1 + size]), 1 + size
        else:
            count = size - 127
            packed = data[1 : 1 + (count + 1) // 2]
            weights = [nibble for byte in packed for nibble in (byte >> 4, byte & 15)][:count]
            used = 1 + len(packed)
        total = sum(1 << weight - 1 for weight in weights if weight)
        bits = total.bit_length()
        rest = (1 << bits) - total
        if not total or bits > _HUFFMAN_BITS or rest & rest - 1 or max(weights) > bits:
            raise NotReadable("malformed: damaged zstd data")
        weights.append(rest.bit_length())
        table: list[tuple[int, int]] = []
        for weight in range(1, bits + 1):
            for symbol, own in enumerate(weights):
                if own == weight:
                    table += [(symbol, bits + 1 - weight)] * (1 << weight - 1)
        self._huffman, self._huffman_bits = table, bits
        return used

    def _huffman_decode(self, data: bytes, size: int, streams: int) -> bytes:
        if streams == 1:
            return self._huffman_stream(data, min(size, self._wanted))
        sizes = struct.unpack_from("<HHH", data)
        each, at, out = (size + 3) // 4, 6, b""
        for index in range(4):
            wanted = min(each if index < 3 else size - 3 * each, self._wanted - len(out))
            if wanted <= 0:
                break
            end = at + sizes[index] if index < 3 else len(data)
            out += self._huffman_stream(data[at:end], wanted)
            at = end
        return out

    def _huffman_stream(self, data: bytes, size: int) -> bytes:
        bits, table, width = BackwardBits(data), self._huffman, self._huffman_bits
        mask, out = (1 << width) - 1, bytearray()
        window, filled = 0, 0
        for _ in range(size):
            if filled < width:
                window = window << 48 | bits.read(48)
                filled += 48
            symbol, length = table[window >> filled - width & mask]
            out.append(symbol)
            filled -= length
            window &= (1 << filled) - 1
        return bytes(out)


def _sequence_count(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 128:
        return first, at + 1
    if first < 255:
        return (first - 128 << 8) + data[at + 1], at + 2
    return data[at + 1] + (data[at + 2] << 8) + 0x7F00, at + 3
