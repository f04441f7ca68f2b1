"""Whose a file is, by the RECORD of each installed distribution, and whether it can be loaded.

RECORD is the list of files that installers keep (the "Recording installed projects" specification). Reading all of
them takes tens of milliseconds: this is for what has failed already.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dependencies import normalised
from gpudoctor.host import Host
from gpudoctor.machine import EMPTY, Distribution, FileProblem, SuspectFile
from gpudoctor.probes.distributions import metadata_head

_RECORD_LIMIT = 16 << 20
_HASH_LIMIT = 4 << 30
_HEAD = 4 << 10
_MOST_OF_A_NAME = 4
_MACHINES = {3: "i386", 40: "32-bit ARM", 62: "x86_64", 183: "aarch64", 21: "ppc64le", 22: "s390x", 243: "riscv64"}
"""e_machine of the ELF specification."""
_RUNS_ALSO = {"x86_64": "i386", "aarch64": "32-bit ARM"}
"""Programs for an older processor that a kernel starts, too."""
_EMULATORS = "/proc/sys/fs/binfmt_misc"
_STANDARD = r"/lib(?:64)?/python\d+\.\d+t?/(?!(?:site|dist)-packages/)"
_EXTENSION = r"\.cpython-(\d)(\d+)(t?)-[^/]*\.so$"


class Program(Struct, frozen=True):
    """What an interpreter is made for."""

    machine: str
    """Its processor; empty if it is no ELF file."""
    musl: bool = False
    """Whether musl loads it (Alpine Linux), and not glibc."""


class Owners:
    """The installed distributions as the owners of files."""

    def __init__(
        self, host: Host, distributions: tuple[Distribution, ...], python: str | None, interpreter: str
    ) -> None:
        self._host = host
        self._distributions = distributions
        self._python, self._interpreter = python, interpreter
        self._records: dict[str, bytes] = {}

    def of_file(self, path: str) -> SuspectFile:
        """A file with its owner, and what is wrong with it."""
        path = posixpath.normpath(path)
        for place in self._places(path):
            if found := self._recorded(place):
                return found
        problem, detail = self._unusable(path)
        standard = re.search(_STANDARD, path) is not None
        return SuspectFile(path=path, standard=standard, problem=problem, detail=detail)

    def of_library(self, name: str) -> tuple[SuspectFile, ...]:
        """The files of a library's name that distributions brought."""
        return self._matching(rb"(?:[^,\n]*/)?" + re.escape(name.encode()))

    def of_module(self, module: str) -> tuple[SuspectFile, ...]:
        """The files of a module that distributions brought, in the order of their names."""
        base = re.escape(module.replace(".", "/").encode())
        return self._matching(base + rb"(?:\.py|/__init__\.py|(?:\.[\w-]+)?\.so)")

    def required(self, module: str, by: str) -> SuspectFile | None:
        """The distribution for a module, if the owner of the file `by` requires one of that name."""
        owner = next((one for one in self._distributions if one.name == self.of_file(by).owner), None)
        lines = metadata_head(self._host, owner.path).get("Requires-Dist", []) if owner else []
        for line in lines:
            match = re.match(r"([A-Za-z0-9._-]+)\s*(?:\[[^]]*\])?\s*\(?([^;)]*)\)?\s*(;.*)?$", line)
            if match and normalised(match[1]) == normalised(module) and "extra" not in (match[3] or ""):
                specifier = match[2].replace(" ", "")
                return SuspectFile(path="", owner=normalised(match[1]), problem="not-installed", detail=specifier)
        return None

    # --- records -----------------------------------------------------------------------------------------

    def _places(self, path: str) -> list[tuple[Distribution, str]]:
        """Distributions in whose folder the file lies, that of its top-level name first."""
        inside = []
        for one in self._distributions:
            site = posixpath.dirname(one.path) + "/"
            if one.path.endswith("-info") and path.startswith(site):
                inside.append((one, path[len(site) :]))
        inside.sort(key=lambda pair: normalised(pair[1].partition("/")[0].removesuffix(".py")) != pair[0].name)
        return inside

    def _recorded(self, place: tuple[Distribution, str]) -> SuspectFile | None:
        distribution, name = place
        line = re.search(rb"\n" + re.escape(name.encode()) + rb",([^,\n]*),(\d*)", self._record(distribution))
        return self._suspect(distribution, name, line[1].decode(), line[2].decode()) if line else None

    def _matching(self, pattern: bytes) -> tuple[SuspectFile, ...]:
        return tuple(suspect for _, suspect in zip(range(_MOST_OF_A_NAME), self._search(pattern), strict=False))

    def _search(self, pattern: bytes) -> Iterator[SuspectFile]:
        for one in self._distributions:
            for name, digest, size in re.findall(rb"\n(" + pattern + rb"),([^,\n]*),(\d*)", self._record(one)):
                yield self._suspect(one, name.decode("utf-8", "replace"), digest.decode(), size.decode())

    def _record(self, distribution: Distribution) -> bytes:
        """The text with a line break before it, so that each line begins with one."""
        path = distribution.path
        if path not in self._records:
            inside = path.endswith(".dist-info")
            content = self._host.data(posixpath.join(path, "RECORD"), _RECORD_LIMIT).value if inside else None
            self._records[path] = b"\n" + (content or b"").replace(b"\r\n", b"\n")
        return self._records[path]

    def _suspect(self, distribution: Distribution, name: str, digest: str, size: str) -> SuspectFile:
        path = posixpath.join(posixpath.dirname(distribution.path), name)
        suspect = SuspectFile(path=path, owner=distribution.name, version=distribution.version)
        problem, detail = self._unusable(path)
        if not problem and self._is_changed(path, digest, size):
            problem, detail = "changed", "" if self._host.data(path, 1).value else EMPTY
        return replace(suspect, problem=problem, detail=detail)

    # --- the file itself ---------------------------------------------------------------------------------

    def _unusable(self, path: str) -> tuple[FileProblem, str]:
        return unusable(self._host, path, self._python, self._interpreter)

    def _is_changed(self, path: str, digest: str, size: str) -> bool:
        found = self._host.stat(path).value
        if found is None or (size and found.size != int(size)):
            return found is not None
        import base64  # only what has failed is hashed
        import hashlib

        algorithm, _, expected = digest.partition("=")
        if algorithm != "sha256" or found.size > _HASH_LIMIT:
            return False
        handle = self._host.open_binary(path)
        if handle is None:
            return False
        total = hashlib.sha256()
        with handle:
            while block := handle.read(1 << 20):
                total.update(block)
        return base64.urlsafe_b64encode(total.digest()).rstrip(b"=").decode() != expected


def unusable(host: Host, path: str, python: str | None, interpreter: str) -> tuple[FileProblem, str]:
    """What keeps any file from being read, or a library from being loaded by this interpreter; and what it is for."""
    found = host.stat(path)
    if found.absent:
        return "missing", ""
    if found.state == "denied":
        return "unreadable", ""
    if found.value is None or found.value.kind != "file":
        return "", ""
    if host.data(path, 1).state == "denied":
        return "unreadable", ""
    if ".so" not in posixpath.basename(path):
        return "", ""
    if host.refuses_execution(path):
        return "noexec", ""
    made_for, program = extension_python(path), program_of(host, host.resolve(interpreter) or "")
    if made_for and python and made_for != python:
        return "other-python", f"Python {made_for}"
    if made_for and program.machine and (system := _other_system(path, program)):
        return "other-python", f"Python {made_for} {system}"
    other = machine_of(host, path)
    return ("other-processor", other) if program.machine and other and program.machine != other else ("", "")


def _other_system(path: str, program: Program) -> str:
    """The system or C library in the name of an extension module, if it is not this one's."""
    if path.endswith("-darwin.so"):
        return "on macOS"
    library = re.search(r"-linux-(gnu|musl)\w*\.so$", path)
    if library is None or (library[1] == "musl") == program.musl:
        return ""
    return "with musl" if library[1] == "musl" else "with glibc"


def extension_python(path: str) -> str:
    """The Python that an extension module was made for, by its name: "3.11"; empty: any, or not told."""
    tag = re.search(_EXTENSION, path)
    return f"{tag[1]}.{tag[2]}{tag[3]}" if tag else ""


def machine_of(host: Host, path: str) -> str:
    """The processor that an ELF file is for; empty if it is none."""
    return _machine(host.data(path, 20).value or b"")


def program_of(host: Host, path: str) -> Program:
    """What an interpreter is made for. The path of its loader stands behind the program headers."""
    head = host.data(path, _HEAD).value or b""
    return Program(machine=_machine(head), musl=b"/ld-musl-" in head)


def _machine(head: bytes) -> str:
    number = int.from_bytes(head[18:20], "little") if head[:4] == b"\x7fELF" and len(head) >= 20 else None
    return "" if number is None else _MACHINES.get(number, f"ELF machine {number}")


def foreign_processor(host: Host, machine: str) -> str:
    """The processor that an interpreter is for, if this system has another one and no emulator for it."""
    uname = host.uname().value
    if not machine or uname is None or machine in (uname.machine, _RUNS_ALSO.get(uname.machine)):
        return ""
    if uname.machine not in _MACHINES.values():
        return ""  # "i686", "armv7l": a name of another kind
    return "" if any(name.startswith("qemu-") for name in host.names(_EMULATORS).value or ()) else machine
