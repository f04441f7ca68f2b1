"""From a failed import, of torch or of another framework, to its reason and its fix.

The error names a file, and the file has an owner: that one is repaired. torch is installed again only where its own
files are wrong. Limits, mounts and rights are nobody's files. What tells nothing is said to be unknown, with the step
that would decide.

Holds no checks itself.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from msgspec.structs import replace

from gpudoctor.finding import by_hand
from gpudoctor.frameworks.torch.file_faults import ImportFault, named
from gpudoctor.frameworks.torch.import_faults.case import Case, find_out
from gpudoctor.frameworks.torch.import_faults.files import (
    bad_bytecode,
    damaged_torch,
    file_of_nobody,
    for_another_torch,
    missing_library,
    shadowed,
    stray_file,
    undefined_symbol,
    wrong_file,
)
from gpudoctor.frameworks.torch.import_faults.interpreter import (
    c_library,
    illegal_instruction,
    incomplete_python,
    keras_backend,
    not_started,
    out_of_memory,
    out_of_threads,
    put_first,
    static_tls,
    variable,
    variable_in_the_error,
    warning_as_error,
)
from gpudoctor.frameworks.torch.import_faults.modules import (
    another_release,
    backend_extension,
    lacks_module,
    missing_module,
    not_there,
    numpy_of_another_major,
    requirement_out_of_range,
)
from gpudoctor.machine import ImportTrial, ModuleImport, Torch
from gpudoctor.situation import Situation

_OF_TORCHS_MODULES = ("torch-module-missing", "module-missing")
"""Rows of the matrix that speak of modules which torch needs."""


def explain(situation: Situation, torch: Torch, trial: ImportTrial) -> ImportFault:
    """The first rule that knows the failure answers."""
    return _explained(Case(situation, trial, "torch", torch.path, torch))


def explain_other(situation: Situation, module: ModuleImport, trial: ImportTrial) -> ImportFault:
    """The same for a module beside torch."""
    installed = situation.machine.installed(module.package)
    site = posixpath.dirname(installed.path) if installed and installed.path else ""
    path = posixpath.join(site, module.module.replace(".", "/")) if site else ""
    return _explained(Case(situation, trial, module.module, path, package=installed))


def _explained(case: Case) -> ImportFault:
    fault = next(fault for rule in _RULES if (fault := rule(case)) is not None)
    trial = case.trial
    for path in {file.path for file in trial.suspects if file.path and file.path in trial.error}:
        fault = replace(fault, why=fault.why.replace(path, posixpath.basename(path)))
    return fault


def _known_text(case: Case) -> ImportFault | None:
    """A text that the matrix knows."""
    row = case.situation.matrix.errors.cause_of(case.text, case.situation.built_for)
    if row is None or row.about != "environment" or (case.torch is None and row.id in _OF_TORCHS_MODULES):
        return None
    meaning = row.meaning[:1].upper() + row.meaning[1:]
    return ImportFault(f"{meaning}.", (by_hand("Follow the workaround", row.workaround),), (row.slug, *row.also))


def _unknown(case: Case) -> ImportFault:
    innermost = next((file for file in case.trial.suspects if not file.standard and file.path), None)
    loading = case.trial.loading
    lost = bool(case.trial.signal or case.trial.hung)
    if loading and lost:
        owner = next(
            (f" of {named(file)}" for file in case.trial.suspects if file.path == loading and file.owner), ""
        )
        why = f"It was loading {loading}{owner}; why that fails is not known."
    elif innermost is not None and innermost.owner not in ("", case.module.partition(".")[0]):
        text = f"Update or remove {innermost.owner}: the error comes from its code, and its files are as installed."
        why = f"The error comes from {innermost.path} of {named(innermost)}."
        return ImportFault(why, (by_hand(f"Update or remove {innermost.owner}", text),))
    elif innermost is not None:
        owner = f" of {named(innermost)}" if innermost.owner else ""
        why = f"The last line that ran was in {innermost.path}{owner}; why it fails is not known."
    else:
        why = "Why is not known."
    return ImportFault(why, (find_out(case),))


_RULES: tuple[Callable[[Case], ImportFault | None], ...] = (
    not_started,
    shadowed,
    incomplete_python,
    warning_as_error,
    backend_extension,
    put_first,
    illegal_instruction,
    static_tls,
    out_of_memory,
    out_of_threads,
    c_library,
    variable,
    wrong_file,
    damaged_torch,
    bad_bytecode,
    keras_backend,
    numpy_of_another_major,
    for_another_torch,
    missing_library,
    undefined_symbol,
    not_there,
    stray_file,
    lacks_module,
    _known_text,
    missing_module,
    requirement_out_of_range,
    another_release,
    variable_in_the_error,
    file_of_nobody,
    _unknown,
)
