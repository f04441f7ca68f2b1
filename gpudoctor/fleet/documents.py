"""The documents of a fleet, one after the other: snapshots and reports as files, folders, JSON lines or a stream."""

from __future__ import annotations

import os
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec
from msgspec import Struct

from gpudoctor.finding import Severity, Verdict
from gpudoctor.host import InputError
from gpudoctor.host.input_file import reason_of
from gpudoctor.intake.snapshot import SNAPSHOT_LIMIT, machine_of_document, read_content
from gpudoctor.machine import Machine
from gpudoctor.step import PlannedFix

STDIN = "-"
_SUFFIXES = (".json", ".jsonl", ".ndjson")


class FoundThere(Struct, frozen=True):
    """A finding of a node's own report."""

    id: str
    slug: str
    severity: Severity
    message: str = ""
    fixes: tuple[PlannedFix, ...] = ()


class _Question(Struct, frozen=True):
    why: str = ""
    matters: bool = False


class _Head(Struct, frozen=True):
    """What tells one kind of document from another."""

    node: str = ""
    role: str = ""
    failure: str = ""
    verdict: Verdict | None = None
    findings: tuple[FoundThere, ...] | None = None
    not_judged: tuple[_Question, ...] = ()


class Document(Struct, frozen=True):
    """What is there of one node: its machine, its own findings if it is a report, or why there is nothing."""

    name: str
    role: str = ""
    machine: Machine | None = None
    findings: tuple[FoundThere, ...] | None = None
    verdict: Verdict | None = None
    failure: str = ""


def documents(paths: Iterable[str]) -> Iterator[Document]:
    """Every document of these files and folders; one that cannot be read says why. Raises InputError for a path that
    is not there."""
    for path in paths:
        if path == STDIN:
            yield from _lines("stdin", sys.stdin.buffer)
        elif os.path.isdir(path):
            yield from _folder(path)
        else:
            yield from _file(path)


def _folder(path: str) -> Iterator[Document]:
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason_of(error)}") from None
    chosen = [name for name in names if name.endswith(_SUFFIXES) and not name.startswith(".")]
    if not chosen:
        raise InputError(f"{path}: no file of it ends in .json or .jsonl")
    for name in chosen:
        try:
            yield from _file(os.path.join(path, name))
        except InputError as error:
            yield Document(_stem(name), failure=str(error))


def _file(path: str) -> Iterator[Document]:
    if path.endswith(_SUFFIXES[1:]):
        try:
            with open(path, "rb") as stream:
                yield from _lines(path, stream)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {reason_of(error)}") from None
        return
    yield document(read_content(path), _stem(os.path.basename(path)))


def _stem(name: str) -> str:
    return os.path.splitext(name)[0]


def _lines(where: str, stream: BinaryIO) -> Iterator[Document]:
    """JSON lines, or indented documents one after the other, named by their first lines."""
    name = _stem(os.path.basename(where))
    for number, content in _contents(stream):
        yield document(content, f"{name}:{number}")


def _contents(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Each document with the number of its first line. An indented one begins and ends with a brace on its own."""
    begun, started = bytearray(), 0
    for number, line in enumerate(iter(lambda: stream.readline(SNAPSHOT_LIMIT), b""), 1):
        if not begun and line.strip() != b"{":
            if line.strip():
                yield number, line
            continue
        started = started if begun else number
        begun += line
        if line.rstrip() == b"}" or len(begun) > SNAPSHOT_LIMIT:
            yield started, bytes(begun)
            begun.clear()
    if begun:
        yield started, bytes(begun)


def document(content: bytes, name: str) -> Document:
    """One document; `name` is the node's if the document names none."""
    content = content.removeprefix(BOM_UTF8)
    if not content.strip():
        return Document(name, failure="the document is empty")
    try:
        head = msgspec.json.decode(content, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Document(name, failure=f"not a document of gpudoctor: {error}")
    name = head.node or name
    if head.failure:
        return Document(name, head.role, failure=head.failure)
    try:
        machine = machine_of_document(name, content)
    except InputError as error:
        return Document(name, head.role, failure=str(error).removeprefix(f"{name}: "))
    if head.findings is None:
        return Document(name, head.role, machine)
    return Document(name, head.role, machine, head.findings, head.verdict or "unknown")
