"""Why an import failed, as far as the files that it points at can tell.

An error names a library, a module or a file. Their owner is what has to be repaired, and it is rarely torch.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from msgspec.structs import replace

from gpudoctor.dependencies import normalised
from gpudoctor.host import Host
from gpudoctor.machine import NOT_STARTED, ImportTrial, ProcessLimits, PythonEnvironment, SuspectFile
from gpudoctor.probes.file_owner import Owners

_MOST_FILES = 12
_START_FILE_LIMIT = 256 << 10
_SOURCE_LIMIT = 4 << 20
_START_SECONDS = 5.0
_TOLD = "gpudoctor reads "
_START_FILES = f"""
import os, signal, site, sys
signal.alarm({_START_SECONDS:.0f})
for folder in sys.argv[1:]:
    sys.path.append(folder)
    for name in sorted(os.listdir(folder)):
        if name.endswith(".pth"):
            print("\\n{_TOLD}" + os.path.join(folder, name), flush=True)
            site.addpackage(folder, name, set())
"""
_LIBRARY_PATH = r"(/[^:'\"\n]+?\.so(?:\.\d+)*)\b"
_LIBRARY_NAME = r"(?<![\w./-])([\w.+-]+\.so[\w.]*)"
UNCOMPILED = r"null bytes|(?m:^)EOFError|marshal data|bad magic number"
"""Errors of a file that Python could not turn into a module; they name no file."""
_NO_MODULE = r"No module named '([\w.]+)'"
_LACKING_MODULE = r"(?:module|cannot import name '\w+' from) '([\w.]+)'"
"""What a file that was cut short no longer says, others miss: the error comes from their lines."""


_LACKING_NAME = r"cannot import name '(\w+)' from '([\w.]+)'|module '([\w.]+)' has no attribute '(\w+)'"
_UNCHECKED = b"\x01\0\0\0"
"""The flags of a compiled file that Python never compares with its source (PEP 552)."""


def with_suspects(
    host: Host, environment: PythonEnvironment, trial: ImportTrial, before: ProcessLimits, after: ProcessLimits
) -> ImportTrial:
    """A failed trial with the files that it points at, and the limits that it ran under."""
    owners = Owners(host, environment.packages, environment.python.value, environment.interpreter)
    ends = _ending_start_file(host, environment, trial)
    closed, stale = _closed_folders(host, environment, trial), _stale_files(host, environment, owners, trial)
    suspects = (*ends, *closed, *stale, *_suspects(owners, trial), *_remainders(host, environment, trial))
    found = {suspect.path or suspect.owner: suspect for suspect in suspects}
    outside = _Outside(host, environment.site_packages)
    ordered = sorted(map(outside.placed, found.values()), key=lambda suspect: not suspect.problem)
    kills = None
    if before.memory_kills is not None and after.memory_kills is not None:
        kills = after.memory_kills - before.memory_kills
    return replace(trial, suspects=tuple(ordered), limits=replace(after, memory_kills=kills))


def _ending_start_file(host: Host, environment: PythonEnvironment, trial: ImportTrial) -> Iterator[SuspectFile]:
    """The .pth file in which a Python that does not start ends, or waits: each is run once more, after its name was
    told."""
    if not trial.error.startswith(NOT_STARTED) or not host.live:
        return
    argv = (environment.interpreter, "-B", "-S", "-c", _START_FILES, *environment.site_packages)
    answer = host.run(argv, 2 * _START_SECONDS).value
    told = re.findall(rf"(?m)^{_TOLD}(/.*)$", answer.stdout) if answer else []
    if answer and answer.rc and told:
        yield SuspectFile(path=told[-1], problem="ends-python")


def _stale_files(
    host: Host, environment: PythonEnvironment, owners: Owners, trial: ImportTrial
) -> Iterator[SuspectFile]:
    """Compiled files without a name that their source has, and that Python does not compare with it."""
    tag = (environment.python.value or "").replace(".", "").rstrip("t")
    for taken, taken_from, module, attribute in re.findall(_LACKING_NAME, f"{trial.root}\n{trial.error}"):
        for source in owners.of_module(taken_from or module):
            folder, name = posixpath.split(source.path)
            cached = posixpath.join(folder, "__pycache__", f"{name.removesuffix('.py')}.cpython-{tag}.pyc")
            if (host.data(cached, 8).value or b"")[4:] == _UNCHECKED and not source.problem:
                text = host.text(source.path, _SOURCE_LIMIT).value or ""
                if re.search(rf"\b{taken or attribute}\b", text):
                    yield SuspectFile(path=cached, owner=source.owner, version=source.version, problem="stale")


def _closed_folders(host: Host, environment: PythonEnvironment, trial: ImportTrial) -> Iterator[SuspectFile]:
    """Packages that this user may not look into: Python takes them for empty folders."""
    for module in trial.empty:
        for site in environment.site_packages:
            folder = posixpath.join(site, module)
            if host.names(folder).state == "denied":
                yield SuspectFile(path=folder, problem="unreadable")


def _remainders(host: Host, environment: PythonEnvironment, trial: ImportTrial) -> Iterator[SuspectFile]:
    """Folders of packages that are not installed, of which the error says that they lack something."""
    for module in trial.empty:
        if f"'{module}'" in trial.error and environment.distribution(normalised(module)) is None:
            folders = (posixpath.join(site, module) for site in environment.site_packages)
            yield from (SuspectFile(path=one, problem="remainder") for one in folders if host.names(one).known)


class _Outside:
    """Finds what makes Python look into a folder outside of the environment."""

    def __init__(self, host: Host, site_packages: tuple[str, ...]) -> None:
        self._host, self._site_packages = host, site_packages
        self._texts: dict[str, str] | None = None

    def placed(self, suspect: SuspectFile) -> SuspectFile:
        """The file with the start file that names its folder."""
        inside = (suspect.path.startswith(f"{folder}/") for folder in self._site_packages)
        if not suspect.path.startswith("/") or suspect.standard or any(inside):
            return suspect
        folder, texts = posixpath.dirname(suspect.path), self._start_files()
        while folder not in ("/", ""):
            named = re.compile(rf"{re.escape(folder)}/?(?![\w./-])")
            if found := next((path for path, text in texts.items() if named.search(text)), None):
                return replace(suspect, put_first=found, import_folder=folder)
            folder = posixpath.dirname(folder)
        return suspect

    def _start_files(self) -> dict[str, str]:
        if self._texts is None:
            paths = [
                posixpath.join(folder, name)
                for folder in self._site_packages
                for name in self._host.names(folder).value or ()
                if name.endswith(".pth") or name in ("sitecustomize.py", "usercustomize.py")
            ]
            self._texts = {path: self._host.text(path, _START_FILE_LIMIT).value or "" for path in sorted(paths)}
        return self._texts


def _suspects(owners: Owners, trial: ImportTrial) -> Iterator[SuspectFile]:
    text = f"{trial.root}\n{trial.error}"
    for path in re.findall(_LIBRARY_PATH, text):
        yield owners.of_file(path)
    for name in re.findall(_LIBRARY_NAME, text):
        yield from owners.of_library(name)
    for module in re.findall(_LACKING_MODULE, text):
        yield from (file for file in owners.of_module(module) if file.problem)
    if trial.module and re.search(UNCOMPILED, text):
        yield from owners.of_module(trial.module)
    for module in re.findall(_NO_MODULE, text):
        yield from _of_missing_module(owners, module, trial)
    for module in trial.empty:
        yield from _of_missing_module(owners, module, trial)
    files = (*((trial.loading,) if trial.loading.startswith("/") else ()), *trial.files)
    for path in files[:_MOST_FILES]:
        if path.startswith("/"):
            yield owners.of_file(path)
        if path.endswith(".pyc"):  # Python takes it only where its source is gone
            yield owners.of_file(path[:-1])


def _of_missing_module(owners: Owners, module: str, trial: ImportTrial) -> Iterator[SuspectFile]:
    """What a distribution brought for it, else what a distribution requires for it."""
    brought = owners.of_module(module) or owners.of_module(module.partition(".")[0])
    yield from brought
    if not brought:
        asking = (owners.required(module.partition(".")[0], by) for by in trial.files)
        required = next((suspect for suspect in asking if suspect), None)
        if required is not None:
            yield required
