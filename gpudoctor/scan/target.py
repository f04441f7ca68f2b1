"""What a person names for a scan: a library, a wheel, a folder, an environment, a distribution."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.codeobjects.bounded_file import NotReadable
from gpudoctor.host import Host, InputError
from gpudoctor.host.input_file import reason_of
from gpudoctor.host.open_file import closing
from gpudoctor.scan import environment
from gpudoctor.scan.library import Library, Progress, libraries
from gpudoctor.scan.places import Files, Wheel, below, is_zip

_NOT_CODE = ("not an ELF file", "an empty file")
_INTERPRETER = r"python[\d.]*"
_WHEEL_NAME = r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl$"


class ScanResult(Struct, frozen=True):
    """One named thing, and the libraries in it."""

    label: str
    kind: Literal["library", "wheel", "folder", "distribution", "environment"]
    libraries: tuple[Library, ...]


def scan(given: Sequence[str], host: Host, python: str | None, progress: Progress | None = None) -> list[ScanResult]:
    """Scan everything that was named, or else the environment of `python` or the active one. Raises InputError for
    anything that cannot be scanned."""
    if not given:
        return [_scan_environment(environment.active(host, python), "active environment", progress)]
    found = [_scan_one(text, host, python, progress) for text in given]
    if len(found) == 1:
        return found
    return [_with_wheel_names(scanned) for scanned in found]


def _with_wheel_names(scanned: ScanResult) -> ScanResult:
    """With several wheels, each library's path starts with its wheel's."""
    if scanned.kind != "wheel":
        return scanned
    own = tuple(replace(library, path=f"{scanned.label}/{library.path}") for library in scanned.libraries)
    return replace(scanned, libraries=own)


def _scan_one(text: str, host: Host, python: str | None, progress: Progress | None) -> ScanResult:
    if not text or "\0" in text:
        raise InputError("name a library, a wheel, a folder or an installed distribution")
    path = os.path.abspath(os.path.expanduser(text))
    if os.path.isfile(path) and re.fullmatch(_INTERPRETER, os.path.basename(path)):
        return _scan_environment(environment.active(host, path), text, progress)
    if os.path.isfile(path):
        try:
            return _scan_file(text, path, progress)
        except OSError as error:
            raise InputError(f"{text}: cannot be read: {reason_of(error)}") from None
    if os.path.isdir(path):
        _check_listable(text, path)
        found = environment.environment_in(host, path)
        if found is not None:
            return _scan_environment(found, text, progress)
    if "/" not in text:
        distribution = environment.active(host, python).distribution(text) if _is_name(text) else None
        if distribution is not None:
            owner = environment.title(distribution)
            read = libraries(Files(environment.files_of(distribution)), progress)
            return ScanResult(owner, "distribution", tuple(replace(library, owner=owner) for library in read))
    if os.path.isdir(path):
        return ScanResult(text, "folder", tuple(libraries(Files(below(path)), progress)))
    if os.path.lexists(path):
        raise InputError(f"{text}: neither a file nor a folder")
    what = "no such file or folder" if "/" in text else "no such file or folder, and no installed distribution"
    raise InputError(f"{text}: {what}")


def _check_listable(text: str, folder: str) -> None:
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise InputError(f"{text}: {reason_of(error)}") from None


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}", text) is not None


def _scan_file(text: str, path: str, progress: Progress | None) -> ScanResult:
    with open_file(text, path) as descriptor:
        if is_zip(descriptor):
            try:
                wheel = Wheel(descriptor)
            except NotReadable as error:
                raise InputError(f"{text}: {error.reason}") from None
            named = re.match(_WHEEL_NAME, os.path.basename(path))
            owner = f"{named['name'].replace('_', '-')} {named['version']}" if named else os.path.basename(path)
            read = tuple(replace(library, owner=owner) for library in libraries(wheel, progress))
            return ScanResult(text, "wheel", read)
    code = Files().code(path)
    if code is None or code.reason in _NOT_CODE:
        raise InputError(f"{text}: {code.reason if code else 'text'}; name a library, a wheel or a folder")
    return ScanResult(text, "library", (Library(path=text, code=code),))


def open_file(text: str, path: str) -> AbstractContextManager[int]:
    """A file that a person named, open for `pread`. Raises InputError if it cannot be opened."""
    try:
        return closing(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        raise InputError(f"{text}: {reason_of(error)}") from None


def _scan_environment(found: environment.Environment, label: str, progress: Progress | None) -> ScanResult:
    paths = (path for folder in found.folders for path in below(folder))
    read = libraries(Files(dict.fromkeys(paths)), progress)
    return ScanResult(label, "environment", tuple(environment.with_owners(read, found.distributions)))
