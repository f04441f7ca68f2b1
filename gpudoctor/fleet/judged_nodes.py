"""One node: what is wrong with it, and the facts of it that are compared. Equal machines are judged once."""

from __future__ import annotations

import hashlib
import re
import sys
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import Verdict
from gpudoctor.fleet.documents import Document, FoundThere
from gpudoctor.fleet.facts import compared_values
from gpudoctor.fleet.readers import ComparedFact, computing, main_model, without_container
from gpudoctor.machine import Machine, NvmlDevice, System, Torch
from gpudoctor.machine.board import Board
from gpudoctor.situation import Situation
from gpudoctor.situation.busy_gpus import is_full
from gpudoctor.step import RunStep

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix


_WITHOUT_GPU = ("cpu", "login")
"""Roles of nodes that have no GPU by design, whatever torch they share with others."""


_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
"""Which texts are equal decides, not what a UUID is."""
_TORCH = re.compile(r"torch(\[[\w.,-]+\])?==")
_JOB_NUMBERS = ("RAY_JOB_ID", "SLURM_JOB_ID", "SLURM_JOBID")


class NodeJudgement(Struct, frozen=True):
    """What is wrong with a machine."""

    verdict: Verdict
    findings: tuple[FoundThere, ...]


class Node(Struct, frozen=True):
    """One node of the fleet, without its machine: of ten thousand only this is kept."""

    name: str
    role: str = ""
    verdict: Verdict = "unknown"
    problems: tuple[FoundThere, ...] = ()
    """Its errors and warnings."""
    facts: dict[str, str] = {}
    model: str = ""
    vendor: str = ""
    count: int = 0
    platform: str = ""
    lists_packages: bool = False
    why: str = ""
    machine: bytes = b""
    """The key by which its reader finds the machine again, where a fix installs another torch."""


class Reader:
    """Makes nodes of documents; keeps what it found for machines that it has met."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self.facts: dict[str, ComparedFact] = {}
        """Every compared fact that some node had, by name."""
        self._judged: dict[bytes, NodeJudgement] = {}
        self._torches: dict[str, Torch] = {}
        self._machines: dict[bytes, Machine] = {}
        """Nodes for which another torch is a fix; the nodes beside them decide which one."""

    def node(self, document: Document) -> Node:
        machine = document.machine
        if machine is None:
            return Node(document.name, document.role, why=document.failure or "the document is empty")
        key = b""
        if document.findings is None:
            key = _key(machine)
            found = self._judge(machine, key)
        else:
            found = NodeJudgement(document.verdict or "unknown", document.findings)
        if document.role in _WITHOUT_GPU and not machine.gpus and machine.buses.known:
            found = _without_gpu(found)
        facts = {}
        for fact, value in compared_values(machine):
            self.facts.setdefault(fact.name, fact)
            facts[fact.name] = sys.intern(value)
        if machine.torch:
            self._torches.setdefault(machine.torch.version, machine.torch)
        another = any(map(_may_install_torch, found.findings))
        if another:
            key = key or _key(machine)
            self._machines.setdefault(key, machine)
        model = main_model(machine)
        listed = machine.examined.distributions.value
        return Node(
            name=document.name,
            role=document.role,
            verdict=found.verdict,
            problems=tuple(one for one in found.findings if one.severity != "note"),
            facts=facts,
            model=sys.intern(model),
            vendor=next((gpu.vendor for gpu in machine.gpus if gpu.name == model), ""),
            count=len(computing(machine)),
            platform=machine.system.platform,
            lists_packages=bool(listed),
            machine=key if another else b"",
        )

    def _judge(self, machine: Machine, key: bytes) -> NodeJudgement:
        """Judge a machine. Two machines that differ only in what no check reads get one answer."""
        if key not in self._judged:
            self._judged[key] = judge_machine(machine, self.matrix)
        return self._judged[key]

    def with_fixes_for(self, node: Node, torch: str) -> Node:
        """The node with the fixes that fit nodes beside it, on which this torch works."""
        peer = self._torches.get(torch)
        if not node.machine or peer is None:
            return node
        key = node.machine + torch.encode()
        if key not in self._judged:
            self._judged[key] = judge_machine(self._machines[node.machine], self.matrix, peer)
        fixes = {(one.id, one.message): one.fixes for one in self._judged[key].findings}
        problems = (replace(one, fixes=fixes.get((one.id, one.message), one.fixes)) for one in node.problems)
        return replace(node, problems=tuple(problems))


def _key(machine: Machine) -> bytes:
    """Equal for machines that get one answer."""
    names: dict[bytes, bytes] = {}
    written = _UUID.sub(
        lambda found: names.setdefault(found[0], b"%d" % len(names)), msgspec.json.encode(coarse(machine))
    )
    return hashlib.blake2b(written, digest_size=16).digest()


def _may_install_torch(found: FoundThere) -> bool:
    """Whether one of its fixes installs some torch."""
    runs = (step for fix in found.fixes for step in fix.steps if isinstance(step, RunStep))
    return found.severity != "note" and any(_TORCH.match(word) for step in runs for word in step.argv)


def _without_gpu(found: NodeJudgement) -> NodeJudgement:
    """The same for a node that should have no GPU."""
    findings = tuple(one for one in found.findings if one.slug != "no-gpu")
    if len(findings) == len(found.findings):
        return found
    severities = {one.severity for one in findings}
    return NodeJudgement(
        "error" if "error" in severities else "warning" if "warning" in severities else "ok", findings
    )


def coarse(machine: Machine) -> Machine:
    """The machine without what changes from minute to minute, or differs between equal nodes by its nature."""
    memory = machine.system.memory
    if memory.value:
        memory = replace(memory, value=memory.value >> 30)
    nvml = machine.nvidia.nvml
    if nvml.value and nvml.value.devices:
        devices = tuple(map(_coarse_device, nvml.value.devices))
        nvml = replace(nvml, value=replace(nvml.value, devices=devices))
    limits = machine.system.limits
    if limits.value and limits.value.memory_kills:
        limits = replace(limits, value=replace(limits.value, memory_kills=1))
    numbered = {name: "1" for name in _JOB_NUMBERS if machine.variables.get(name)}
    interfaces = machine.network.interfaces
    if interfaces.value:
        named = (replace(one, name=without_container(one.name)) for one in interfaces.value)
        interfaces = replace(interfaces, value=tuple(dict.fromkeys(named)))
    return replace(
        machine,
        system=replace(machine.system, memory=memory, limits=limits, clock=System().clock),
        nvidia=replace(machine.nvidia, nvml=nvml),
        gpus=tuple(replace(gpu, nvml=_coarse_device(gpu.nvml)) if gpu.nvml else gpu for gpu in machine.gpus),
        network=replace(machine.network, interfaces=interfaces),
        variables={**machine.variables, **numbered},
    )


def _coarse_device(device: NvmlDevice) -> NvmlDevice:
    """Whether its memory is full and whether an exclusive GPU is in use decide, not how much and by how many; of its
    board the links, not what it does at this moment."""
    used = device.memory if is_full(device) else 0
    busy = device.processes and device.compute_mode == "exclusive"
    board = Board(links=device.board.links, links_up=device.board.links_up)
    return replace(device, memory_used=used, processes=int(bool(busy)), board=board)


def judge_machine(machine: Machine, matrix: Matrix, peer_torch: Torch | None = None) -> NodeJudgement:
    """What the checks say of a machine, with the steps of the fixes. `peer_torch` works on the nodes beside it."""
    from gpudoctor.engine import judge
    from gpudoctor.planner.plan import fixes_for
    from gpudoctor.suites import machine_checks

    judgement = judge(machine, matrix, machine_checks(), peer_torch=peer_torch)
    situation = Situation(machine, matrix, peer_torch=peer_torch)
    return NodeJudgement(
        judgement.verdict,
        tuple(
            FoundThere(one.id, one.slug, one.severity, one.message, fixes_for(one, situation) if one.fixes else ())
            for one in judgement.findings
        ),
    )
