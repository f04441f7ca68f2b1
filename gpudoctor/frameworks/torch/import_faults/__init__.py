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
from gpudoctor.frameworks.torch.import_faults import files, interpreter, modules
from gpudoctor.frameworks.torch.import_faults.case import Case, find_out
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
    row = case.row
    if row is None or row.about != "environment" or (case.torch is None and row.id in _OF_TORCHS_MODULES):
        return None
    meaning = row.meaning[:1].upper() + row.meaning[1:]
    return ImportFault(f"{meaning}.", (by_hand("Follow the workaround", row.workaround),), row.causes)


def _unknown(case: Case) -> ImportFault:
    innermost = case.innermost
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
    interpreter.not_started,
    files.shadowed,
    interpreter.incomplete_python,
    interpreter.warning_as_error,
    modules.backend_extension,
    interpreter.put_first,
    interpreter.illegal_instruction,
    interpreter.static_tls,
    interpreter.out_of_memory,
    interpreter.out_of_threads,
    interpreter.c_library,
    interpreter.variable,
    files.wrong_file,
    files.damaged_torch,
    files.bad_bytecode,
    interpreter.keras_backend,
    modules.numpy_of_another_major,
    files.for_another_torch,
    files.missing_library,
    files.undefined_symbol,
    modules.not_there,
    files.stray_file,
    modules.lacks_module,
    _known_text,
    modules.missing_module,
    modules.requirement_out_of_range,
    modules.another_release,
    interpreter.variable_in_the_error,
    files.file_of_nobody,
    _unknown,
)
