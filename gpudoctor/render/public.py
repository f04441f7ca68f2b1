"""A report as plain data, without what is private unless that is asked for."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from gpudoctor.intake.snapshot import machine_public, map_texts, pseudonyms, public_text, users_in
from gpudoctor.machine import Machine
from gpudoctor.plain_text import without_passwords
from gpudoctor.report import Report


def report_data(report: Report, *, private: bool) -> dict[str, Any]:
    """The report as built-in types, in the order of its contract."""
    data: dict[str, Any] = msgspec.to_builtins(report)
    if private:
        return data
    home, stand_in = os.path.expanduser("~"), pseudonyms(report.machine)
    named = public_text(home, stand_in, users_in(data, home))

    def clean(text: str) -> str:
        return without_passwords(named(text))

    public = {key: map_texts(value, clean) for key, value in data.items() if key != "machine"}
    machine = machine_public(data["machine"], stand_in, home)
    return {key: machine if key == "machine" else public[key] for key in data}


def shareable(report: Report, *, private: bool) -> Report:
    """The report without what is private, unless that is asked for."""
    return report if private else msgspec.convert(report_data(report, private=False), Report)


def machine_data(machine: Machine, *, private: bool) -> dict[str, Any]:
    """A machine as built-in types."""
    data: dict[str, Any] = msgspec.to_builtins(machine)
    return data if private else machine_public(data, pseudonyms(machine), os.path.expanduser("~"))


def to_json(data: dict[str, Any]) -> str:
    """JSON text, indented, ending in a line break. Bytes of names that are no UTF-8 become "?"."""
    try:
        text = msgspec.json.encode(data)
    except UnicodeEncodeError:
        text = msgspec.json.encode(map_texts(data, lambda text: text.encode("utf-8", "replace").decode()))
    return msgspec.json.format(text, indent=2).decode() + "\n"
