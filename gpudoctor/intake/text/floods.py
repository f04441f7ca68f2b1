"""Long texts, mostly logs: the lines that may say something about a GPU, without floods of the same line."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from functools import cache
from itertools import accumulate, compress

from gpudoctor.intake.text.lines import Line

_SHORT = 1 << 16
"""Of a text that is no longer, every line is read."""
_MOST_OF_A_SHAPE = 30
_AROUND = 2
"""Lines beside one that tells something: a heading, an answer."""
_WINDOW = b"\1" * (2 * _AROUND + 1)
_DIGITS = b"0123456789abcdefABCDEF"
_TELLING = (
    "nvidia", "cuda", "nvrm", "torch", "gpu", "radeon", "gfx", "rocm", "hip", "hsa", "sm_", "kfd", "formers",
    "bitsandb",
    "triton", "ptxas", "nccl", "cudnn", "cublas", "driver", "error", "/dev/", "visible_dev", "library_path", "python",
    "docker", "podman", "linux", "vga compat", "3d control", "display control", "windows", "numpy", "vllm", "jax",
    "tensorflow", "onnxrun", "flash", "kernel", "symbol", "os:", "glibc", "wsl", "radeon", "rtx", "gtx", "geforce",
    "inference compute", "alloc_conf", "capabilit", "device", "no module", "export ", "shm", "package", "\\n \\l",
)  # fmt: skip


@cache
def _telling() -> re.Pattern[str]:
    """One pattern for all words, which finds them in one pass; by first letters, since most places fail there."""
    first = {word[0] for word in _TELLING}
    endings = {letter: [re.escape(word[1:]) for word in _TELLING if word[0] == letter] for letter in sorted(first)}
    return re.compile("|".join(f"{re.escape(letter)}(?:{'|'.join(rest)})" for letter, rest in endings.items()))


def is_short(lines: tuple[Line, ...]) -> bool:
    """Whether every line of these is read."""
    return sum(len(line.text) for line in lines) + len(lines) <= _SHORT


def telling_lines(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """The lines that may say something: all of a short text."""
    if is_short(lines):
        return lines
    texts = [line.text for line in lines]
    text = "\n".join(texts).lower()
    starts = _starts(texts)
    if len(text) != starts[-1] - 1:  # a letter whose small form is longer
        starts = _starts([line.lower() for line in texts])
    wanted = bytearray(len(lines) + 2 * _AROUND)
    telling, at = _telling(), 0
    while found := telling.search(text, at):
        place = bisect_right(starts, found.start()) - 1
        wanted[place : place + len(_WINDOW)] = _WINDOW
        at = starts[place + 1]
    return tuple(compress(lines, memoryview(wanted)[_AROUND:]))


def without_floods(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """The first lines of each shape: lines that differ in their numbers only have one."""
    if is_short(lines):
        return lines
    shapes: Counter[bytes] = Counter()
    kept = []
    for line in lines:
        shape = line.text[:200].encode("utf-8", "surrogatepass").translate(None, _DIGITS)
        shapes[shape] += 1
        if shapes[shape] <= _MOST_OF_A_SHAPE:
            kept.append(line)
    return tuple(kept)


def _starts(texts: list[str]) -> list[int]:
    """Where each text begins in all of them joined by line breaks, and where a next one would."""
    return [0, *accumulate(map((1).__add__, map(len, texts)))]
