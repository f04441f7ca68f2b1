"""TOML of strangers: its table, or one line that says why there is none."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

SIZE, PARTS = 256 << 10, 16
"""Characters of a file and parts of a dotted key: what the latter cost grows with the square of their number."""

_PART = r"(?:[\w-]+|\"[^\"\n]*\"|'[^'\n]*')[ \t]*\.[ \t]*"


class TomlError(ValueError):
    """A text that is no TOML, or that is over a bound."""


def read_toml(text: str) -> dict[str, Any]:
    """The table of a text. Raises TomlError, whatever the text is."""
    if len(text) > SIZE:
        raise TomlError(f"larger than {SIZE >> 10} KiB")
    if long_key := re.search(rf"(?<![\w.\"'-])(?:{_PART}){{{PARTS}}}", text):
        line = text.count("\n", 0, long_key.start()) + 1
        raise TomlError(f"a key of more than {PARTS} parts (at line {line})")
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        return dict(toml.loads(text))
    except RecursionError:
        raise TomlError("nested too deep") from None
    except toml.TOMLDecodeError as error:
        raise TomlError(str(error)[:200]) from None
    except ValueError:
        raise TomlError("a number of thousands of digits") from None
