"""What `dkms status` says: for which kernels the driver's module was built."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from msgspec.structs import replace

from gpudoctor.intake.described_log import without_module
from gpudoctor.intake.text.facts import Facts, Statement
from gpudoctor.intake.text.lines import Line
from gpudoctor.intake.text.ranking import decided, decided_with
from gpudoctor.late_regex import late
from gpudoctor.machine import DkmsModule, DkmsStatus, Machine, Vendor, absent, known, unknown
from gpudoctor.matrix.questions import Matrix

_TREE = late(
    r"\s{0,8}(?:[^\n:]{0,20}dkms status\W{1,6})?"
    r"(?P<name>nvidia(?:-open|-srv|-current(?:-open)?)?|amdgpu(?:-dkms)?)(?:/|, )"
    r"(?P<version>\d[\w.:+~-]{1,40})"
    r"(?:, (?P<kernel>\d{1,2}\.\d{1,3}\.\d{1,3}\S{0,80}), \w{3,10})?: (?P<status>added|built|installed|broken)\b"
)
_CAUSES = ("nvidia-dkms-kernel-mismatch", "amd-dkms-kernel-mismatch", "amd-kfd-missing", "no-driver")
"""Causes of messages that a driver which is not loaded brings about."""
_WHY = "DKMS did not build the module for the running kernel"


def is_tree(text: str) -> bool:
    """Whether it is a line of `dkms status`, which names kernels other than the running one, too."""
    return _TREE.match(text) is not None


def read_dkms(lines: Iterable[Line], facts: Facts) -> None:
    """The modules of the GPUs' drivers that DKMS knows."""
    for number, text in lines:
        if ": " in text and (tree := _TREE.match(text)):
            facts.say(f"dkms {tree['name']} {tree['version']} {tree['kernel'] or ''}", tree["status"], number, "tool")


def with_trees(machine: Machine, facts: Facts, matrix: Matrix) -> Machine:
    """The machine with its DKMS trees. A driver whose module none of them has built for the running kernel does not
    work where a program says that it finds none."""
    trees = [_tree(name, said) for name, said in decided_with(facts, "dkms ").items()]
    nvidia = tuple(tree for tree in trees if tree.name.startswith("nvidia"))
    amd = tuple(tree for tree in trees if tree not in nvidia)
    if nvidia:
        machine = replace(machine, nvidia=replace(machine.nvidia, dkms=known(nvidia, nvidia[0].source)))
        if (
            _is_unbuilt(nvidia, facts)
            and not decided(facts, "module nvidia")
            and _finds_none(facts, "nvidia", matrix)
        ):
            machine = without_module(machine, nvidia[0].source, _WHY, ())
    if amd:
        stack = replace(machine.amd, dkms=known(amd, amd[0].source))
        if _is_unbuilt(amd, facts) and _finds_none(facts, "amd", matrix):
            stack = replace(stack, kfd=absent(amd[0].source, _WHY), topology=unknown(_WHY))
            gpus = (replace(gpu, kfd_node=None) if gpu.vendor == "amd" else gpu for gpu in machine.gpus)
            machine = replace(machine, gpus=tuple(gpus))
        machine = replace(machine, amd=stack)
    return machine


def _is_unbuilt(trees: tuple[DkmsModule, ...], facts: Facts) -> bool:
    kernel = decided(facts, "kernel")
    return kernel is not None and not any(
        tree.kernel == kernel.value and tree.status == "installed" for tree in trees
    )


def _finds_none(facts: Facts, vendor: Vendor, matrix: Matrix) -> bool:
    if (facts.smi and facts.smi[0].devices) or (facts.hsa and facts.hsa[0].lists_gpu):
        return False  # the driver's own tool lists them
    available = decided(facts, "available")
    rows = (matrix.errors.cause_seen(line.text, vendor) for line in facts.errors)
    causes = {slug for row in rows if row for slug in row.causes}
    return not causes.isdisjoint(_CAUSES) or bool(available and available.value == "False")


def _tree(described: str, said: Statement) -> DkmsModule:
    name, version, kernel = described.split(" ")
    return DkmsModule(name, version, kernel, cast("DkmsStatus", said.value), f"text, line {said.line}")
