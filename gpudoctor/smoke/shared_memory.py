"""Files that children leave in /dev/shm: a killed process does not remove its shared memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress

FOLDER = "/dev/shm"


class SharedMemory:
    """Distinguishes the files of one child and its descendants from all others, and removes them."""

    def __init__(self) -> None:
        self._before = _names()
        self._looked_at = self._before
        self._theirs: set[str] = set()
        self._numbers: set[int] = set()

    @property
    def grown(self) -> bool:
        """Whether there are files that `note` has not seen."""
        return bool(_names() - self._looked_at)

    def note(self, numbers: Iterable[int]) -> None:
        """Record the files that these processes hold; files that others made meanwhile do not count."""
        new = _names() - self._before
        self._looked_at = self._looked_at | new
        for number in numbers:
            self._numbers.add(number)
            if new:
                self._theirs |= _held(number) & new

    def remove(self) -> None:
        """Remove the files that these processes held, and those with their number in the name."""
        carrying = re.compile(rf"(?:^|[_.-])(?:{'|'.join(map(str, self._numbers)) or 'none'})(?:[_.-]|$)")
        new = _names() - self._before
        for name in (self._theirs & new) | set(filter(carrying.search, new)):
            with suppress(OSError):
                os.unlink(f"{FOLDER}/{name}")


def _names() -> set[str]:
    with suppress(OSError):
        return set(os.listdir(FOLDER))
    return set()


def _held(number: int) -> set[str]:
    """Names of the files that a process has open or mapped."""
    paths: set[str] = set()
    with suppress(OSError), open(f"/proc/{number}/maps", errors="surrogateescape") as maps:
        paths.update(line.rstrip("\n").partition(FOLDER)[2] for line in maps if FOLDER in line)
    with suppress(OSError):
        for descriptor in os.listdir(f"/proc/{number}/fd"):
            with suppress(OSError):
                paths.add(os.readlink(f"/proc/{number}/fd/{descriptor}").partition(FOLDER)[2])
    return {path[1:] for path in paths if path.startswith("/")}
