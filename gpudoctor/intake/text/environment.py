"""The Python environment that a text tells of, and the errors that were printed in it."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.intake.described import empty_environment
from gpudoctor.intake.described_torch import python_for
from gpudoctor.intake.text.errors import is_harmless
from gpudoctor.intake.text.facts import SILENT, Facts
from gpudoctor.intake.text.lines import Line
from gpudoctor.intake.text.ranking import decided, decided_with
from gpudoctor.intake.text.torch import pasted_torch, source, with_trial
from gpudoctor.late_regex import late
from gpudoctor.machine import ASSUMED, Distribution, ImportTrial, Machine, known, unknown
from gpudoctor.matrix.questions import Matrix
from gpudoctor.situation.frameworks import installed_frameworks

_WHOLE_LIST = 15
"""Packages; the environment of a framework has more."""
_IMPORT_ERROR = late(
    r"(?:ImportError|OSError|ModuleNotFoundError)\b.*(?:/torch/lib/|libtorch|libc10|lib(?:cu|nccl|nv|hsa|amdhip|roc|hip|MIOpen)\w*)"
)
"""An error that `import torch` ends with."""
_MISSING_LIBRARY = "late-library"
"""The row of error patterns for any missing library: the import of torch tells more about torch's own."""


def with_environment(machine: Machine, facts: Facts, matrix: Matrix) -> Machine:
    """The machine with the Python, the torch and the packages that the text names."""
    environment = empty_environment()
    environment = replace(environment, python=known(environment.python.value or "", ASSUMED))
    torch, assumed = pasted_torch(facts, machine, matrix)
    ours = len(machine.gpus)
    if torch is not None:
        torch = with_trial(torch, decided(facts, "available") or decided(facts, "sees no gpu"), ours)
        environment = environment.with_torch(known(torch, torch.source))
        environment = replace(environment, python=known(python_for(torch, matrix, machine.system.platform), ASSUMED))
    elif decided(facts, "torch missing") is None:
        environment = environment.with_torch(unknown(SILENT))
    if python := decided(facts, "python"):
        environment = replace(environment, python=known(python.value, source(python)))
    packages = tuple(
        Distribution(name=name, version=said.value, path=source(said))
        for name, said in sorted(decided_with(facts, "package ").items())
        if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,80}", name) and re.fullmatch(r"\d[\w.+!-]{0,60}", said.value)
    )
    if torch is not None and not any(package.name == "torch" for package in packages):
        packages = (Distribution(name="torch", version=torch.version, path=torch.source), *packages)
    environment = replace(environment, distributions=known(packages, "text"))
    if not _lists_packages(facts):
        # A framework's GPU build is a package of its own: that nobody named it does not make it a CPU build, unless
        # it says so itself.
        rows = [row for line in facts.errors if (row := matrix.errors.cause_seen(line.text, None))]
        on_cpu = {row.framework for row in rows if row.slug == "framework-cpu-only"}
        others = [one for one in installed_frameworks(environment, matrix) if one.name not in on_cpu]
        unsaid = [one for one in others if one.vendor is None and one.row]
        names = {name for one in unsaid if one.row for name in one.row.packages}
        packages = tuple(package for package in packages if package.name not in names)
        environment = replace(environment, distributions=known(packages, "text"))
    return replace(
        machine, environment=known(environment, "text"), assumed=tuple(dict.fromkeys((*machine.assumed, *assumed)))
    )


def _lists_packages(facts: Facts) -> bool:
    """Whether the text holds a whole list of packages, as pip and conda print it."""
    return sum(one.by == "list" and one.what.startswith("package ") for one in facts.said) >= _WHOLE_LIST


def with_errors(machine: Machine, facts: Facts, matrix: Matrix) -> Machine:
    """The machine with its error messages; one that `import torch` ends with is the result of the import."""
    available = decided(facts, "available")
    # Where the GPU or the driver is told, the checks of torch say why.
    torch, bare = machine.torch, not machine.gpus and decided(facts, "driver") is None
    spoken = any(one.what == "available" and one.by in {"program", "prose"} for one in facts.said)
    asked = spoken and torch is not None and bool(torch.cuda or torch.hip)
    missed = available is not None and available.value == "False" and (torch is None or (asked and bare))
    if available and missed and is_harmless(facts.errors, matrix):
        facts.errors.append(Line(available.line, "torch.cuda.is_available() is False"))
    if is_harmless(facts.errors, matrix):
        facts.errors += facts.unexplained
    torch = machine.torch
    told = {line.number for line in facts.log if any(fault.line in line.text for fault in machine.log_faults)}
    facts.errors = [line for line in facts.errors if line.number not in told]
    errors = tuple(dict.fromkeys(line.text for line in facts.errors))
    for line in facts.errors:
        row = matrix.errors.cause_seen(line.text, None)
        exact = row is not None and row.id != _MISSING_LIBRARY
        if torch and not torch.trial.known and not exact and _IMPORT_ERROR.search(line.text):
            trial = known(ImportTrial(ok=False, error=line.text), f"text, line {line.number}")
            environment = machine.examined.with_torch(known(replace(torch, trial=trial), torch.source))
            machine = replace(machine, environment=known(environment, "text"))
            errors = tuple(text for text in errors if text != line.text)
            break
    return replace(machine, errors=errors)
