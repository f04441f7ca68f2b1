"""What `dkms status` says: for which kernels the driver's module was built."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from gpudoctor.intake.described_log import without_module
from gpudoctor.intake.text.facts import Facts, Said
from gpudoctor.intake.text.lines import Line
from gpudoctor.intake.text.ranking import decided, decided_with
from gpudoctor.machine import DkmsModule, known

if TYPE_CHECKING:
    from gpudoctor.machine import Machine
    from gpudoctor.matrix.questions import Matrix

_TREE = re.compile(
    r"\s{0,8}(?P<name>nvidia(?:-open|-srv|-current(?:-open)?)?|amdgpu(?:-dkms)?)(?:/|, )"
    r"(?P<version>\d[\w.:+~-]{1,40})"
    r"(?:, (?P<kernel>\d{1,2}\.\d{1,3}\.\d{1,3}\S{0,80}), \w{3,10})?: (?P<status>added|built|installed|broken)\b"
)
_CAUSE = "nvidia-dkms-kernel-mismatch"
_STATUSES: dict[str, Literal["added", "built", "installed", "broken"]] = {
    "added": "added",
    "built": "built",
    "installed": "installed",
    "broken": "broken",
}


def is_tree(text: str) -> bool:
    """Whether it is a line of `dkms status`, which names kernels other than the running one, too."""
    return _TREE.match(text) is not None


def read_dkms(lines: Iterable[Line], facts: Facts) -> None:
    """The modules of the GPUs' drivers that DKMS knows."""
    for number, text in lines:
        if ": " in text and (tree := _TREE.match(text)):
            facts.say(f"dkms {tree['name']} {tree['version']} {tree['kernel'] or ''}", tree["status"], number, "tool")


def with_trees(machine: Machine, facts: Facts, matrix: Matrix) -> Machine:
    """The machine with its DKMS trees. NVIDIA's module is not loaded where none of them is built for the running
    kernel and a program says that it finds no driver."""
    trees = tuple(_tree(name, said) for name, said in decided_with(facts, "dkms ").items())
    if not trees:
        return machine
    own = tuple(tree for tree in trees if tree.name.startswith("nvidia"))
    others = tuple(tree for tree in trees if tree not in own)
    if others:
        machine = replace(machine, amd=replace(machine.amd, dkms=known(others, others[0].source)))
    if not own:
        return machine
    machine = replace(machine, nvidia=replace(machine.nvidia, dkms=known(own, own[0].source)))
    kernel = decided(facts, "kernel")
    built = kernel is None or any(tree.kernel == kernel.value and tree.status == "installed" for tree in own)
    if built or decided(facts, "module nvidia") or not _finds_no_driver(facts, matrix):
        return machine
    return without_module(machine, own[0].source, "DKMS did not build the module for the running kernel", ())


def _tree(described: str, said: Said) -> DkmsModule:
    name, version, kernel = described.split(" ")
    status = _STATUSES[said.value]
    return DkmsModule(name=name, version=version, kernel=kernel, status=status, source=f"text, line {said.line}")


def _finds_no_driver(facts: Facts, matrix: Matrix) -> bool:
    rows = (matrix.cause_seen(line.text, "nvidia") for line in facts.errors)
    return any(row is not None and _CAUSE in (row.slug, *row.also) for row in rows)
