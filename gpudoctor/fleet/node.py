"""One node of a fleet: checks itself in a child, and has a document whatever happens."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from gpudoctor.finding import Verdict
from gpudoctor.fleet.frames import frames
from gpudoctor.fleet.launch import by_line, launch
from gpudoctor.host import InputError
from gpudoctor.host.bound_child import signal_name

SCHEMA = 1
UNKNOWN = 3
OWN_FAULT = 70
_NAMED_BY = ("SLURMD_NODENAME", "NODE_NAME")
"""Variables in which an engine tells a node its name."""


class _Failure(Struct):
    """A document that says itself why there is no report."""

    failure: str
    node: str = ""


class _Report(Struct):
    """What a report has at least. All else is read by whoever compares the nodes."""

    schema: Literal[1]
    verdict: Verdict
    exit_code: int
    machine: dict[str, Any]
    findings: list[dict[str, Any]]
    not_judged: list[dict[str, Any]]
    node: str = ""


def node_name(environ: Mapping[str, str]) -> str:
    """The name of this node: the engine's, else the host's."""
    return next((environ[name] for name in _NAMED_BY if environ.get(name)), os.uname().nodename)


def lines_of_check(check: Sequence[str], seconds: float, environ: Mapping[str, str]) -> Iterator[str]:
    """Check this node, with these options; its document as the lines that travel."""
    node = node_name(environ)
    argv = (sys.executable, "-m", "gpudoctor", "check", "--format", "json", *check)
    yield from frames(node, msgspec.json.encode(run_check(node, argv, seconds, environ)))


def failure(node: str, what: str) -> dict[str, Any]:
    """The document of a node that gave no report."""
    return {"schema": SCHEMA, "node": node, "verdict": "unknown", "exit_code": UNKNOWN, "failure": what}


def document_of(node: str, raw: bytes, alias: str = "") -> dict[str, Any]:
    """A report as the document of a node; a failure where it is no report, or another node's. `alias`: the name
    that the node has for itself."""
    try:
        head = _head(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return failure(node, f"what it printed is no report of gpudoctor: {error}")
    if head.node not in ("", node, alias):
        return failure(node, f"answered with the name of another node: {head.node[:253]}")
    if isinstance(head, _Failure):
        return failure(node, head.failure)
    return {**msgspec.json.decode(raw), "node": node}


def _head(raw: bytes) -> _Failure | _Report:
    try:
        return msgspec.json.decode(raw, type=_Failure)
    except msgspec.ValidationError:
        return msgspec.json.decode(raw, type=_Report)


def run_check(node: str, argv: Sequence[str], seconds: float, environ: Mapping[str, str]) -> dict[str, Any]:
    """Run a check that prints JSON; the document of this node."""
    printed, words = bytearray(), deque[str](maxlen=1)
    tell = by_line(lambda line: words.append(line) if line.strip() else None)

    def heard(stream: str, data: bytes) -> None:
        if stream == "stderr":
            tell(stream, data)
        else:
            printed.extend(data)
            if len(printed) > _MOST:
                raise _BabbleError

    try:
        code = launch(argv, seconds, heard, environ)
    except InputError as error:
        return failure(node, str(error))
    except _BabbleError:
        return failure(node, f"gpudoctor check printed more than {_MOST >> 20} MiB")
    last = words[0].strip().removeprefix("gpudoctor: ")[:300] if words else ""
    if code is None:
        return failure(node, f"gpudoctor check gave no answer within {seconds:g} s")
    if code < 0:
        return failure(node, f"gpudoctor check was ended by {signal_name(-code)}{_after_colon(last)}")
    if code == OWN_FAULT:
        return failure(node, f"gpudoctor itself failed{_after_colon(last)}")
    if code not in (0, 1, UNKNOWN):
        return failure(node, f"gpudoctor check ended with exit code {code}{_after_colon(last)}")
    return document_of(node, bytes(printed))


_MOST = 64 << 20


class _BabbleError(Exception):
    """A check prints endlessly."""


def _after_colon(words: str) -> str:
    return f": {words}" if words else ""
