"""How names, versions and addresses are spelt that can stand in a command as they are."""

from __future__ import annotations

import re

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_VERSION = r"[0-9][A-Za-z0-9.+!_-]*(\.\*)?"
_CLAUSE = r"(==|!=|<=|>=|<|>|~=)[0-9][A-Za-z0-9.+!_-]*(\.\*)?"
_SPECIFIER = f"{_CLAUSE}(,{_CLAUSE})*"
_HOST = r"([A-Za-z0-9._~!$&*+=%:-]+@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_PATH = r"/[A-Za-z0-9._~:/@!$&*+=%-]*"
_QUERY = r"[A-Za-z0-9._~:/?#@!$&*+=%-]*"
_INDEX = rf"(https?://{_HOST}({_PATH})?|file://{_PATH})([?#]{_QUERY})?"


def is_name(text: str) -> bool:
    """A package, module, service or group name that is safe as an argument."""
    return len(text) < 200 and re.fullmatch(_NAME, text) is not None


def is_version(text: str) -> bool:
    """A version, perhaps with a local part or ".*"."""
    return len(text) < 200 and re.fullmatch(_VERSION, text) is not None


def is_specifier(text: str) -> bool:
    """A PEP 440 specifier set without spaces."""
    return len(text) < 200 and re.fullmatch(_SPECIFIER, text) is not None


def is_index(url: str) -> bool:
    """The URL of an index that pip and uv both take: of http, https, or of a folder."""
    return len(url) < 2000 and re.fullmatch(_INDEX, url) is not None
