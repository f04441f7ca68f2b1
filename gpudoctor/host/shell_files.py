"""What a recording keeps of the files that a shell or conda reads when it starts: people keep passwords in them."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

_OF_SHELLS = re.compile(
    r"^/etc/(environment|profile|bash\.bashrc|bashrc|profile\.d/.*)$"
    r"|/(\.(profile|bash_profile|bashrc|zshenv|zprofile|zshrc|envrc)|config\.fish|bin/activate|activate\.d/.*)$"
)
_OF_CONDA = "/conda-meta/state"


def settings_alone(path: str, content: bytes, names: Collection[str]) -> bytes:
    """The content of such a file with nothing but what sets one of these variables, each on its own line; that of
    another file as it is."""
    if path.endswith(_OF_CONDA):
        return _of_conda(content, names)
    if not _OF_SHELLS.search(path):
        return content
    one = b"|".join(re.escape(name.encode()) for name in sorted(names)) or b"(?!)"
    value = rb"(?:\"[^\"]*\"|'[^']*'|[^\s;&#]*)"
    sets = re.compile(rb"(?<![^\s;&])(?:(?:%b)=%b|set\s+-\w+\s+(?:%b)\s+%b)" % (one, value, one, value))
    lines = (b"" if line.lstrip().startswith(b"#") else line for line in content.split(b"\n"))
    return b"\n".join(b"; ".join(sets.findall(line)) for line in lines)


def _of_conda(content: bytes, names: Collection[str]) -> bytes:
    try:
        found = msgspec.json.decode(content, type=dict[str, dict[str, str]]).get("env_vars", {})
    except (msgspec.DecodeError, RecursionError):
        return b"{}"
    return msgspec.json.encode({"env_vars": {name: found[name] for name in found if name in names}})
