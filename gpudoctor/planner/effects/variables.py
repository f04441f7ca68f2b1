"""What setting or unsetting a variable makes of a machine."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from gpudoctor.finding import SetVariable, VariableRemedy
from gpudoctor.frameworks.torch.torch_by_version import torch_of_build
from gpudoctor.machine import Machine, PythonEnvironment, Torch, known, unknown
from gpudoctor.matrix.versions import local_version
from gpudoctor.situation import Situation
from gpudoctor.situation.import_order import NO_USER_SITE, found_in, user_site_ahead

_OF_THE_LOADER = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_OF_PYTHON = {"PYTHONPATH": "PYTHONPATH", NO_USER_SITE: "user site"}
"""Where Python looks by each variable of its own, as machines name it."""
_ASKED_THROUGH = {"cuda": "libcuda.so.1", "nvml": "libnvidia-ml.so.1"}
"""The libraries through which the NVIDIA driver is asked whether it starts."""
_OF_THE_IMPORT = (*_OF_THE_LOADER, *_OF_PYTHON)


def machine_after(situation: Situation, remedy: VariableRemedy) -> Machine:
    """The machine as a process with that variable finds it."""
    machine = situation.machine
    variables = {name: value for name, value in machine.variables.items() if name != remedy.name}
    folders: tuple[str, ...] = ()
    if isinstance(remedy, SetVariable):
        variables[remedy.name] = remedy.value
        folders = tuple(posixpath.normpath(entry) for entry in remedy.value.split(":") if entry)
    machine = replace(machine, variables=variables)
    if remedy.name.endswith("_VISIBLE_DEVICES"):
        machine = replace(machine, nvidia=replace(machine.nvidia, cuda=unknown("asked under other variables")))
    environment = machine.environment.value
    stays = _stays(_OF_PYTHON.get(remedy.name, remedy.name), folders)
    if environment is not None:
        before = (posixpath.normpath(one) for one in (situation.variable(remedy.name) or "").split(":") if one)
        gone = tuple(one for one in before if one not in (*folders, *environment.site_packages))
        if remedy.name == NO_USER_SITE and (user := user_site_ahead(environment)):
            left = tuple(folder for folder in environment.site_packages if folder != user)
            environment, gone = replace(environment, site_packages=left), (user,)
        if remedy.name == "PYTHONHOME":
            starts = tuple(fault for fault in environment.start_faults if fault.kind != "no-library")
            environment = replace(environment, start_faults=starts)
        environment = imported_anew(_search_folders(environment, remedy.name, stays, gone))
        environment = _with_cxx_runtime(environment, situation.variable(remedy.name) or "", stays, remedy.name)
        machine = machine.with_environment(environment)
    path = machine.load_path
    found = tuple(one for one in path.found if stays(one.via, one.path))
    if remedy.name == "LD_LIBRARY_PATH":
        beside = (one for one in path.beside if posixpath.dirname(one.path) in folders)
        found = (*(replace(one, via=remedy.name) for one in beside), *found)
    after = replace(path, found=found)
    answers: dict[str, Any] = {
        api: unknown(f"asked through another {library}")
        for api, library in _ASKED_THROUGH.items()
        if after.first(library) != path.first(library)
    }
    return replace(machine, load_path=after, nvidia=replace(machine.nvidia, **answers))


def _stays(name: str, folders: tuple[str, ...]) -> Callable[[str, str], bool]:
    """Whether a file that a variable leads to is still found when the variable holds only these folders. Python looks
    below them, the loader in them alone."""
    below = name in _OF_PYTHON.values()

    def stays(via: str, path: str) -> bool:
        inside = (path.startswith(f"{folder}/") if below else posixpath.dirname(path) == folder for folder in folders)
        return via != name or path in folders or any(inside)

    return stays


def _search_folders(
    environment: PythonEnvironment, name: str, stays: Callable[[str, str], bool], gone: tuple[str, ...]
) -> PythonEnvironment:
    """The environment, with other folders searched before its own; `gone` are those that are searched no more."""
    if name not in _OF_THE_IMPORT:
        return environment
    if name in _OF_PYTHON:
        environment = replace(
            environment, shadows=tuple(one for one in environment.shadows if stays(one.via, one.path))
        )
        listed = environment.distributions
        if listed.value:  # what stood behind the packages of those folders is not known
            left = tuple(one for one in listed.value if not found_in(gone, one.path, environment.site_packages))
            environment = replace(environment, distributions=replace(listed, value=left))
        torch = environment.torch.value
        if torch and (copies := tuple(copy for copy in torch.copies if stays(copy.via, copy.path))):
            torch = replace(_first_of(torch, copies[0].version), copies=copies)
            environment = environment.with_torch(known(torch, torch.source))
        return environment
    lost = {one.path for one in environment.libraries.found if not stays(one.via, one.path)}
    found = tuple(one for one in environment.libraries.found if one.path not in lost)
    others = tuple(
        replace(one, overruled=tuple(library for library in one.overruled if stays(library.via, library.path)))
        for one in environment.frameworks.others
    )
    return replace(
        environment,
        frameworks=replace(environment.frameworks, others=others),
        libraries=replace(environment.libraries, found=found),
        missing_symbols=tuple(one for one in environment.missing_symbols if one.path not in lost),
    )


def _with_cxx_runtime(
    environment: PythonEnvironment, before: str, stays: Callable[[str, str], bool], name: str
) -> PythonEnvironment:
    """Another libstdc++ is loaded where the loader's variable had named it, or its folder."""
    path = environment.libstdcxx_path
    named = re.split("[ :]", before)
    of_variable = name in _OF_THE_LOADER and (path in named or posixpath.dirname(path) in named)
    if not of_variable or stays(name, path):
        return environment
    return replace(environment, libstdcxx=unknown("found in other folders"), libstdcxx_path="")


def _first_of(torch: Torch, version: str | None) -> Torch:
    """The torch that is imported once this version comes first."""
    if version is None or version == torch.version:
        return torch
    return torch_of_build(version, "unknown", torch.source, local_version(version))


def imported_anew(environment: PythonEnvironment) -> PythonEnvironment:
    """The environment, its frameworks not imported yet: an import before the change says nothing after it."""
    frameworks = environment.frameworks
    if frameworks.imports:
        environment = replace(environment, frameworks=replace(frameworks, imports=()))
    torch = environment.torch.value
    if torch is None or not torch.trial.known:
        return environment
    return environment.with_torch_facts(trial=unknown("not imported since the change"))
