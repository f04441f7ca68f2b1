"""JSON, and all else that is written as data: without what is private unless it is asked for, never with a secret."""

from __future__ import annotations

import os
import re
from typing import Any

import msgspec

from gpudoctor.machine import Machine
from gpudoctor.plain_text import without_workflow_commands
from gpudoctor.privacy import Clean, map_texts, pseudonyms, public_machine, public_text, users_in, without_secrets
from gpudoctor.report import Report


def report_data(report: Report, *, private: bool) -> dict[str, Any]:
    """The report as built-in types, in the order of its contract."""
    data: dict[str, Any] = msgspec.to_builtins(report)
    if private:
        return data
    clean = _clean(data, report.machine)
    return {
        key: public_machine(value, clean) if key == "machine" else map_texts(value, clean)
        for key, value in data.items()
    }


def shareable(report: Report, *, private: bool) -> Report:
    """The report as all forms but JSON show it."""
    return msgspec.convert(map_texts(report_data(report, private=private), without_secrets), Report)


def machine_data(machine: Machine, *, private: bool) -> dict[str, Any]:
    """A machine as built-in types."""
    data: dict[str, Any] = msgspec.to_builtins(machine)
    return data if private else public_machine(data, _clean(data, machine))


def _clean(data: dict[str, Any], machine: Machine) -> Clean:
    home = os.path.expanduser("~")
    return public_text(home, pseudonyms(machine), users_in(data, home))


# --- JSON ------------------------------------------------------------------------------------------


def to_json(data: Any) -> str:
    """JSON text, indented, ending in a line break."""
    return _readable(msgspec.json.format(_encode(data), indent=2).decode()) + "\n"


def json_line(data: Any) -> str:
    """JSON text on one line."""
    return _readable(_encode(data).decode())


def _encode(data: Any) -> bytes:
    """Without secrets. Bytes of names that are no UTF-8 become "?"."""
    public = map_texts(msgspec.to_builtins(data), without_secrets)
    try:
        return msgspec.json.encode(public)
    except UnicodeEncodeError:
        return msgspec.json.encode(map_texts(public, lambda text: text.encode("utf-8", "replace").decode()))


def _readable(text: str) -> str:
    """What a terminal or a CI takes for a command, and what a person does not see, is written as its number."""
    text = without_workflow_commands(text, "\\u00")
    return text if text.isascii() and "\x7f" not in text else re.sub(r"[^\n -~]", _escape, text)


def _escape(match: re.Match[str]) -> str:
    if match[0].isprintable():
        return match[0]
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
