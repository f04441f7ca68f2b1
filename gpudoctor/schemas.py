"""The stored JSON Schemas of what commands print: `schemas/` of a checkout, inside the package when installed."""

from __future__ import annotations

import os

from gpudoctor.host import InputError

_PACKAGE = os.path.dirname(os.path.realpath(__file__))
_REPORTS = ("check", "whatif", "smoke", "preflight", "dockerfile")
"""Commands that print the report."""


def schema_text(command: str) -> str:
    """The schema of what a command prints. Raises InputError where there is none."""
    folder = schema_folder()
    names = sorted(file.removesuffix(".json") for file in os.listdir(folder))
    name = "report" if command in _REPORTS else command
    if name not in names:
        raise InputError(f"there is no schema {command!r}: choose from {', '.join((*names, *_REPORTS))}")
    with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as file:
        return file.read()


def schema_folder() -> str:
    """Where they lie."""
    checkout = os.path.join(os.path.dirname(_PACKAGE), "schemas")
    is_checkout = os.path.isfile(os.path.join(os.path.dirname(_PACKAGE), "compat_matrix.yaml"))
    return checkout if is_checkout else os.path.join(_PACKAGE, "schemas")
