"""What a project asks for in its files: `gpudoctor.toml`, or `[tool.gpudoctor]` of pyproject.toml."""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec
from msgspec import Struct

from gpudoctor.host import InputError

_LIMIT = 1 << 20


class Settings(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Keys of the file; what is not given there is None or empty. `ignore` maps an id to a reason."""

    require: tuple[str, ...] = ()
    ignore: dict[str, str] = {}
    select: tuple[str, ...] = ()
    level: str | None = None
    fail_on: str | None = None
    wait: float | None = None


def project_settings(folder: str) -> Settings:
    """The settings of a folder: gpudoctor.toml goes before pyproject.toml. Raises InputError with file and place."""
    for name in ("gpudoctor.toml", "pyproject.toml"):
        path = os.path.join(folder, name)
        data = _table(path, name)
        if data is not None:
            try:
                return msgspec.convert(data, type=Settings)
            except msgspec.ValidationError as error:
                raise InputError(f"{path}: {error}") from None
    return Settings()


def _table(path: str, name: str) -> Any:
    """The table for gpudoctor; None where the file has none, or is not there."""
    try:
        with open(path, "rb") as file:
            content = file.read(_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if name == "pyproject.toml":  # somebody else's file
            return None
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    if name == "pyproject.toml" and b"gpudoctor" not in content:
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: no valid TOML: {error}") from None
    tool = data.get("tool") if name == "pyproject.toml" else None
    return data if tool is None and name == "gpudoctor.toml" else (tool or {}).get("gpudoctor")
