"""Reasons of a failed import that lie in a package: absent, of another release, or one that loads itself."""

from __future__ import annotations

import re

from gpudoctor.dependencies import normalised
from gpudoctor.finding import Fix, RemovePackage, ReplacePackage, SetVariable, by_hand
from gpudoctor.frameworks.torch.file_faults import REQUIREMENTS, ImportFault, named
from gpudoctor.frameworks.torch.import_faults.case import Case
from gpudoctor.frameworks.torch.pinned_packages import out_of_range
from gpudoctor.frameworks.torch.reinstall import reinstall_all
from gpudoctor.machine import SuspectFile
from gpudoctor.matrix.versions import public_version


def backend_extension(case: Case) -> ImportFault | None:
    """A package that torch loads of itself, by its entry point, and that fails."""
    failed = re.search(r"Failed to load the backend extension: ([\w.-]+?)\.(?:\s|$)", case.text)
    if failed is None:
        return None
    installed = case.situation.machine.installed(normalised(failed[1]))
    whose = f"{installed.name} {installed.version}" if installed else failed[1]
    without = SetVariable("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", why=f"torch then does not load {failed[1]} of itself")
    keep = Fix(f"Keep torch from loading {failed[1]}", (without,))
    why = f"torch loads {whose} whenever it is imported, and that fails."
    if installed is None:
        return ImportFault(why, (keep,))
    remove = RemovePackage(installed.name, why="torch cannot be imported with it")
    return ImportFault(why, (Fix(f"Uninstall {installed.name}", (remove,)), keep))


def not_there(case: Case) -> ImportFault | None:
    """A package has its record, and Python does not find its module."""
    name = case.module.partition(".")[0]
    if case.package is None or re.search(rf"No module named '{re.escape(name)}'", case.text) is None:
        return None
    package = case.package
    if package.is_of_sources:
        folder = package.direct_url.removeprefix("file://")
        release = f"{package.name}=={public_version(package.version)}"
        text = f"Restore {folder}, or install a release: pip install --force-reinstall --no-deps {release}"
        why = f"{package.name} {package.version} was installed from {folder}, and its modules are not found there."
        return ImportFault(why, (by_hand("Restore the folder that it was installed from", text, "replaces"),))
    why = f"{package.name} {package.version} is recorded as installed, and its modules are not there."
    again = reinstall_all(case.situation, (package,), "its modules are not there")
    return ImportFault(why, (Fix(f"Install {package.name} {package.version} again", again),))


def lacks_module(case: Case) -> ImportFault | None:
    """A package that is whole and has no module of that name: it is of another release than is asked for."""
    module = re.search(r"No module named '(([\w]+)\.[\w.]+)'", case.text)
    folder = f"/{module[2]}/" if module else ""
    holder = next((file for file in case.trial.suspects if file.owner and folder and folder in file.path), None)
    if module is None or holder is None or holder.problem or holder.owner == case.module.partition(".")[0]:
        return None
    brought = module[1].replace(".", "/")
    if any(file.owner and f"/{brought}" in file.path for file in case.trial.suspects):
        return None  # it is there: something stands before it
    if case.torch and out_of_range(case.situation, holder.owner):
        return None
    why = f"The installed {named(holder)} has no module {module[1]}: it is another release, or incomplete."
    text = f"Install another release of {holder.owner}: `pip index versions {holder.owner}` lists them."
    return ImportFault(why, (by_hand(f"Install another release of {holder.owner}", text),), (REQUIREMENTS,))


def missing_module(case: Case) -> ImportFault | None:
    """No installed package has the module."""
    module = re.search(r"No module named '([\w.]+)'", case.text)
    if module is None:
        return None
    top, _, inner = module[1].partition(".")
    parent = case.trial.files[0] if inner and case.trial.files else ""
    brought = next((file.owner for file in case.trial.suspects if file.owner and f"/{top}/{inner}" in file.path), "")
    if brought and parent.endswith(f"/{module[1].rpartition('.')[0].replace('.', '/')}/__init__.py"):
        why = f"Python takes {parent} for {top}, and that has no {inner}: {brought} brings it."
        return ImportFault(why, (by_hand(f"Rename {parent}", f"Rename or remove {parent}."),))
    asking = next((file for file in case.trial.suspects if not file.standard), None)
    by = f" {asking.path} imports it." if asking and asking.owner != case.module.partition(".")[0] else ""
    text = f"Install the package that has the module {top}, or remove what imports it."
    why = f"No installed package has the module {top}.{by}"
    causes = () if asking is not None and not asking.owner else (REQUIREMENTS,)
    return ImportFault(why, (by_hand(f"Install the module {top}", text),), causes)


def numpy_of_another_major(case: Case) -> ImportFault | None:
    """A module that was compiled with NumPy 1 finds nothing where NumPy 2 has its interface."""
    numpy = case.situation.machine.installed("numpy")
    if numpy is None or case.torch is not None or "_ARRAY_API not found" not in case.text:
        return None
    why = f"{case.module} was compiled for NumPy 1, and NumPy {numpy.version} is installed."
    older = ReplacePackage("numpy", "<2", why=f"{case.module} was compiled for NumPy 1")
    return ImportFault(why, (Fix("Install a NumPy before 2", (older,)),))


def another_release(case: Case) -> ImportFault | None:
    """A package that lacks a name, and is whole: it is of another release than the one that asks needs."""
    lacking = re.search(r"(?:cannot import name '\w+' from|module) '([\w.]+)'", case.text)
    if lacking is None or lacking[1].partition(".")[0] == case.module.partition(".")[0]:
        return None
    top = lacking[1].partition(".")[0].replace("_", "-").lower()
    suspect = next((file for file in case.trial.suspects if file.owner == top), None)
    if suspect is None:
        return None
    why = f"The installed {named(suspect)} lacks what {_asking(case, suspect)} needs of it."
    text = f"Install another release of {suspect.owner}: `pip index versions {suspect.owner}` lists them."
    return ImportFault(why, (by_hand(f"Install another release of {suspect.owner}", text),), (REQUIREMENTS,))


def requirement_out_of_range(case: Case) -> ImportFault | None:
    """A package that the error passed through is of a release that torch does not want."""
    for suspect in case.trial.suspects if case.torch else ():
        specifier = out_of_range(case.situation, suspect.owner) if suspect.owner else ""
        if specifier and case.torch:
            why = (
                f"torch {case.torch.version} requires {suspect.owner}{specifier}, and {suspect.version} is installed."
            )
            replacement = ReplacePackage(suspect.owner, specifier, why="torch requires it")
            return ImportFault(why, (Fix(f"Install {suspect.owner}{specifier}", (replacement,)),), (REQUIREMENTS,))
    return None


def _asking(case: Case, lacking: SuspectFile) -> str:
    others = (file for file in case.trial.suspects if file.owner and file.owner != lacking.owner)
    version = case.torch.version if case.torch else ""
    return named(next(others, SuspectFile(path="", owner=case.module, version=version)))
