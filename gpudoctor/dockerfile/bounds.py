"""Limits far above any real recipe. A file over a limit is refused in one line that names the limit, because a few
lines of a stranger must not cost minutes or all memory."""

from __future__ import annotations


class BoundError(Exception):
    """The input exceeds a bound; the text says which one."""


class Bound:
    """How much there may be of something, and how much of that is left."""

    def __init__(self, most: int, of: str) -> None:
        self._left, self._text = most, f"more than {most:,} {of}"

    def spend(self, amount: int = 1) -> None:
        """Use up some of the bound. Raises BoundError if too little is left."""
        self._left -= amount
        if self._left < 0:
            raise BoundError(self._text)


class Bounds:
    """The bounds of one recipe: a Dockerfile, or a compose file with everything that its services are built from."""

    def __init__(self) -> None:
        self.instructions = Bound(10_000, "instructions")
        self.words = Bound(60_000, "words in instructions")
        self.commands = Bound(5_000, "commands in RUN instructions")
        self.torches = Bound(200, "commands that install torch")
        self.expanded = Bound(1 << 20, "characters from expanded variables")
        self.requirements = Bound(10_000, "lines of requirements files")
        self.places = Bound(10_000, "places where a file of the build may lie")
        self.values = Bound(60_000, "values in compose files")
        self.text = Bound(4 << 20, "characters in all its files")
        self.locks = Bound(100, "lock files")


PATH = 4096
"""Longest path that Linux accepts, in characters."""


def path(text: str) -> str:
    """The text, if it can be a path. Raises BoundError."""
    if len(text) > PATH:
        raise BoundError(f"a path of more than {PATH:,} characters")
    return text
