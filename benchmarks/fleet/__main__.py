"""The commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import fleet
from benchmarks.fleet import courses, fleets, pages, scale

COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "scale": lambda words: scale.table([int(word) for word in words] or [100, 1000, 10_000]),
    "fleets": lambda words: fleets.table(int(words[0]) if words else 200),
    "courses": lambda words: courses.table(int(words[0]) if words else 700),
    "pages": lambda words: pages.write(Path(words[0])),
}


def main(words: list[str]) -> int:
    """Run one of them."""
    if not words or words[0] not in COMMANDS:
        print(fleet.__doc__, file=sys.stderr)
        return 2
    COMMANDS[words[0]](words[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
