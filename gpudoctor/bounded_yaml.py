"""YAML of strangers: its value, or one line that says which bound the text is over, and where.

The events of the parser come first: nesting and the number of values, aliases followed, are bounded there, before
anything recursive runs.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

DEPTH = 32
VALUES = 50_000
TEXT = 16 << 20
"""Values of a file and their characters, aliases followed."""
DIGITS = 18
"""The most digits of a whole number. A longer one stays a text, or is refused where a document is plain. Shorter ones
are quick to read, to print, and to find as a key."""

_TOO_DEEP = f"nested more than {DEPTH} deep"
_SCALARS = ("binary", "bool", "float", "int", "null", "timestamp")


class YamlError(Exception):
    """A text that is not used: `line` is where, None where that is not known."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem[:200])
        self.line = line


class YamlDocument(NamedTuple):
    """What a text says, and the nodes that say it: these know their lines."""

    value: Any
    node: Any
    size: int
    """Values in it, aliases followed; 0 where it was trusted."""


def read_yaml(text: str, *, plain: bool = False, trusted: bool = False, values: int = VALUES) -> YamlDocument:
    """The one document of a text of at most so many `values`. `plain` refuses anchors and tags, behind which values
    hide; `trusted` looks for no bounds in a file of our own. Raises YamlError."""
    import yaml

    try:
        size = 0 if trusted else _look_through(text, plain, values)
        loader = _loader(plain)(text)
        try:
            node = loader.get_single_node()
            return YamlDocument(loader.construct_document(node) if node is not None else None, node, size)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(_said(str(error.problem or error.context)), mark.line + 1 if mark else None) from None
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError(f"not valid YAML: {(str(error) or repr(error)).splitlines()[0]}") from None


def _said(problem: str) -> str:
    """The parser's words. From PyYAML 6.0.4 on it has a bound of its own, far above ours, and meets it before the
    events tell the depth."""
    return _TOO_DEEP if "maximum nesting depth" in problem else f"not valid YAML: {problem}"


class _Size(NamedTuple):
    """How large a value is, with all that is in it."""

    values: float
    text: int = 0
    height: int = 0


class _Tally:
    """Counts what comes, and knows how much of it each anchor stands for."""

    def __init__(self) -> None:
        self.values, self.text = 0.0, 0
        self._anchors: dict[str, _Size] = {}
        self._opened: list[tuple[str | None, float, int]] = []
        self._heights = [0]

    def begin(self, anchor: str | None) -> int:
        """A collection begins. The depth of what is added last is the answer of each of these."""
        self._opened.append((anchor, self.values, self.text))
        self._heights.append(0)
        if anchor:
            self._anchors[anchor] = _Size(float("inf"))  # an alias to it within it goes round in a circle
        self.values += 1
        return len(self._opened)

    def end(self) -> int:
        """The last collection ends."""
        anchor, values, text = self._opened.pop()
        size = _Size(self.values - values, self.text - text, self._heights.pop() + 1)
        if anchor:
            self._anchors[anchor] = size
        return self._inside(size)

    def scalar(self, anchor: str | None, length: int) -> int:
        """A value without others in it."""
        self.values, self.text = self.values + 1, self.text + length
        if anchor:
            self._anchors[anchor] = _Size(1, length)
        return len(self._opened)

    def alias(self, anchor: str) -> int:
        """All that an anchor stands for, once more."""
        size = self._anchors.get(anchor, _Size(1))
        self.values, self.text = self.values + size.values, self.text + size.text
        return self._inside(size)

    def _inside(self, size: _Size) -> int:
        self._heights[-1] = max(self._heights[-1], size.height)
        return len(self._opened) + size.height


def _look_through(text: str, plain: bool, most: int) -> int:
    """Count the values, and refuse what would cost more than its length, before anything is built from it."""
    import yaml

    if found := re.search(r"^%TAG", text, re.MULTILINE):  # the parser compares each with all the others
        raise YamlError("tags of one's own (%TAG) are not used here", text.count("\n", 0, found.start()) + 1)
    seen = _Tally()
    event: Any
    for event in yaml.parse(text, Loader=_base()):
        line = event.start_mark.line + 1
        if plain and getattr(event, "anchor", None):
            raise YamlError("anchors and aliases are not used here: write the row out", line)
        if plain and getattr(event, "tag", None):
            raise YamlError(f"tags such as {event.tag[:40]} are not used here", line)
        depth = 0
        if isinstance(event, yaml.ScalarEvent):
            depth = seen.scalar(event.anchor, len(event.value))
        elif isinstance(event, yaml.CollectionStartEvent):
            depth = seen.begin(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth = seen.end()
        elif isinstance(event, yaml.AliasEvent):
            depth = seen.alias(event.anchor or "")
        if seen.values > most or seen.text > TEXT:
            raise YamlError(
                f"too large: more than {most:,} values or {TEXT >> 20} MiB of text, aliases followed", line
            )
        if depth > DEPTH:
            raise YamlError(_TOO_DEEP, line)
    return int(seen.values)


def _base() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def _loader(plain: bool) -> Any:
    """A loader whose errors have a line. Tags of compose (!reset, !override) stand for nothing."""
    import yaml

    class Loader(_base()):  # type: ignore[misc]
        pass

    def refused(node: Any, problem: str) -> Exception:
        error: Exception = yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return error

    def checked(construct: Any) -> Any:
        def constructed(loader: Any, node: Any) -> Any:
            if node.tag.endswith(":int") and isinstance(node.value, str) and len(node.value) > DIGITS:
                if plain:
                    raise refused(node, f"a number of more than {DIGITS} digits")
                return node.value
            try:
                return construct(loader, node)
            except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError):
                problem = f"{str(node.value)[:40]!r} is no {node.tag.rpartition(':')[2]}"
                raise refused(node, problem) from None

        return constructed

    for name in _SCALARS:
        tag = f"tag:yaml.org,2002:{name}"
        Loader.add_constructor(tag, checked(Loader.yaml_constructors[tag]))
    Loader.add_multi_constructor("!", lambda loader, suffix, node: None)
    return Loader
