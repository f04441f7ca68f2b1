"""Names of nodes, folded as cluster tools write them: "gpu[01-03,17]"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from gpudoctor.host import InputError

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>\d{1,9})(?P<rest>\D*)$", re.DOTALL)
_PATTERN = re.compile(r"[^\s,\[\]]*(?:\[[\d,-]+\][^\s,\[\]]*)*")
_MOST = 100_000


def stem(name: str) -> str:
    """The name without its last number: nodes of one kind are numbered."""
    found = _NUMBERED.match(name)
    return f"{found['stem']}{found['rest']}" if found else name


def short(name: str) -> str:
    """The name without its domain; an address has none."""
    first, _, rest = name.partition(".")
    return name if first.isdigit() and rest else first


def natural(name: str) -> tuple[object, ...]:
    """A key that sorts gpu2 before gpu10."""
    return tuple((int(part), part) if part.isdecimal() else (0, part) for part in re.split(r"(\d{1,9})", name))


def folded(names: Iterable[str]) -> str:
    """All names, those that only differ in their last number together."""
    series: dict[tuple[str, str, int], list[int]] = {}
    alone: list[str] = []
    for name in sorted(set(names), key=natural):
        found = _NUMBERED.match(name)
        if found is None:
            alone.append(name)
            continue
        width = len(found["number"]) if found["number"].startswith("0") else 0
        series.setdefault((found["stem"], found["rest"], width), []).append(int(found["number"]))
    merged = _with_padding(series)
    parts = [_one_series(*key, numbers) for key, numbers in merged.items()]
    return ",".join((*alone, *parts))


def _with_padding(series: dict[tuple[str, str, int], list[int]]) -> dict[tuple[str, str, int], list[int]]:
    """ "gpu09" and "gpu10" are of one series: numbers as long as the padded ones join them."""
    merged = {key: list(numbers) for key, numbers in series.items() if key[2]}
    for (start, rest, width), numbers in series.items():
        for number in numbers if not width else ():
            key = (start, rest, len(str(number)))
            merged.setdefault(key if key in merged else (start, rest, 0), []).append(number)
    return merged


def _one_series(start: str, rest: str, width: int, numbers: list[int]) -> str:
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    told = ",".join(
        f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}" for first, last in ranges
    )
    return f"{start}{told}{rest}" if len(numbers) == 1 else f"{start}[{told}]{rest}"


def expanded(pattern: str) -> tuple[str, ...]:
    """The names of "gpu[01-64],login1" and "rack[1-4]n[01-32]". Raises InputError."""
    found = (name for part in _parts(pattern) if part for name in _expand(part, pattern))
    names = tuple(dict.fromkeys(islice(found, _MOST + 1)))
    if len(names) > _MOST:
        raise InputError(f"{pattern[:60]!r}: more than {_MOST} nodes")
    if not names:
        raise InputError(f"{pattern!r}: no name of a node; give names such as gpu[01-64]")
    return names


def _parts(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        found = _PATTERN.match(pattern, at)
        if found is None or (not found[0] and pattern[at] not in ", \n\t"):
            raise InputError(f"{pattern!r}: not names of nodes; give names such as gpu[01-64]")
        yield found[0]
        at = max(found.end(), at + 1) if not found[0] else found.end()


def _expand(part: str, pattern: str) -> Iterator[str]:
    start, bracket, rest = part.partition("[")
    if not bracket:
        yield part
        return
    inner, _, rest = rest.partition("]")
    for item in inner.split(","):
        first, dash, last = item.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or int(last or first) - int(first) >= _MOST:
            raise InputError(f"{pattern!r}: {item!r} is no range of numbers; give names such as gpu[01-64]")
        for number in range(int(first), int(last or first) + 1):
            for following in _expand(rest, pattern):
                yield f"{start}{number:0{len(first)}d}{following}"
