"""A machine in a file that a person names: a snapshot, a report, or any text that somebody pasted.

Its content tells which it is.
"""

from __future__ import annotations

import os
import re

from gpudoctor.host import InputError
from gpudoctor.host.input_file import STDIN
from gpudoctor.intake.snapshot import is_document, machine_of_document, read_content
from gpudoctor.machine import Machine, SubjectKind
from gpudoctor.matrix.questions import Matrix

_HEAD = 4096
_PACKED = (b"\x1f\x8b", b"\xfd7zXZ", b"BZh")
_ARCHIVES = (b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
"""zstd and zip."""


def read_machine(path: str, matrix: Matrix) -> tuple[Machine, SubjectKind]:
    """The machine, and what kind of document it is from; "-" is stdin. Raises InputError."""
    name = "stdin" if path == "-" else path
    if os.path.isdir(path):
        raise InputError(f"{path}: a folder; `gpudoctor check --root {path}` reads a sosreport or a recorded machine")
    content = read_content(STDIN if path == "-" else path)
    if is_document(content):
        return machine_of_document(name, content), "snapshot"
    if content.startswith(_PACKED) or content[257:262] == b"ustar":
        content = _unpacked(name, content)
    _check_text(name, content)
    from gpudoctor.intake.text.reading import read_text

    return read_text(content, matrix), "text"


def _unpacked(name: str, content: bytes) -> bytes:
    """The text in a packed file, such as nvidia-bug-report.log.gz or a sosreport. Raises InputError."""
    from gpudoctor.intake.archive import DamagedError, packed_text

    try:
        return packed_text(content)
    except DamagedError:
        raise InputError(f"{name}: cannot be unpacked: damaged from its beginning") from None


def _check_text(name: str, content: bytes) -> None:
    """Raise InputError for what nobody can read."""
    if not content.strip():
        raise InputError(f"{name}: empty; give a snapshot, a report or the text of a bug report")
    if content.startswith(_ARCHIVES):
        raise InputError(f"{name}: an archive; unpack it, then `gpudoctor check --root FOLDER` reads a sosreport")
    utf_16 = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    head = content[:_HEAD].decode("utf-16" if utf_16 else "utf-8", "replace")
    odd = sum(not (char.isprintable() or char in "\n\r\t\x1b\b") or char == "\ufffd" for char in head)
    if odd > len(head) / 8 or not re.search(r"[^\W\d_]{2}", head):
        raise InputError(f"{name}: neither a snapshot nor a text")
