"""Variables that keep a framework from the GPU, or make it fail (GPD464)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, UnsetVariable
from gpudoctor.machine import Vendor
from gpudoctor.matrix.versions import package_matches
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import FrameworkVariable


@check("GPD464", "framework-variable", "framework")
def framework_variable(situation: Situation) -> Verdicts:
    """A variable keeps a framework from the GPU, or makes it fail.

    ## Why it matters
    JAX_PLATFORMS, XLA_FLAGS, PYTORCH_ALLOC_CONF and the like stay in shells, images and job scripts after the day
    they were needed. A value that a newer release does not know ends some of them with SIGABRT.

    ## How it is judged
    The matrix names values and what they do. A value that keeps a GPU build on the CPU is a warning, because somebody
    may have chosen it; one that makes the framework stop is an error. Without a usable GPU only what makes any build
    stop is reported, and nothing in a CPU build for a value that asks for the CPU. A compiler that CC or CXX names is
    looked for on PATH, and a folder for compiled kernels must be one that this user can make.

    ## Fix safety
    Unsets the variable. Whoever set it must take it out of the place where it is set.
    """
    for row in situation.matrix.tables.framework_variables:
        for name in row.variables:
            value = situation.variable(name)
            one = _installed(situation, row.framework) if value is not None else None
            if one is None or value is None or not re.fullmatch(row.pattern, value):
                continue
            if _counts(situation, row, value, one):
                yield _finding(row, name, value, one)


def _finding(row: FrameworkVariable, name: str, value: str, one: _Installed) -> Finding:
    return Finding(
        severity=row.severity,
        message=f"{name}={value}: {row.meaning}.",
        saw=f"{name}={value}",
        want=f"{name} unset",
        subject=name,
        framework=row.framework,
        evidence=(Evidence(name, value, "environment"), Evidence(row.framework, one.version, one.source)),
        fixes=(Fix(f"Unset {name}", (UnsetVariable(name, why=f"{one.title} chooses itself"),)),),
        refs=(row.source,),
        supersedes=("torch-import-fails",) if row.framework == "torch" else ("framework-import-fails",),
    )


class _Installed(Struct, frozen=True):
    """An installed framework, torch or another one."""

    title: str
    version: str
    vendor: Vendor | None
    source: str


def _installed(situation: Situation, name: str) -> _Installed | None:
    torch = situation.torch
    if name == "torch":
        return _Installed("torch", torch.version, situation.built_for, torch.source) if torch else None
    one = next((one for one in situation.others if one.name == name), None)
    return _Installed(one.title, one.version, one.vendor, one.source) if one else None


def _counts(situation: Situation, row: FrameworkVariable, value: str, one: _Installed) -> bool:
    """Whether a value is wrong for what is installed."""
    if row.version is not None and not package_matches(row.version, one.version):
        return False
    beside = situation.machine.installed(row.package) if row.package else None
    if row.package and (beside is None or not package_matches(row.package_version or "", beside.version)):
        return False
    if row.without and any(re.fullmatch(row.without, one.name) for one in situation.machine.packages):
        return False
    system = situation.machine.system
    lacking = {"program": system.missing_compilers, "folder": system.closed_folders}
    if row.names and value not in lacking[row.names]:
        return False
    if row.builds == "any":
        return True
    if row.builds == "cpu":
        return one.vendor is None
    if row.unless is not None and row.unless == one.vendor:
        return False
    return bool(situation.usable) and not (row.unless is None and one.vendor is None)
