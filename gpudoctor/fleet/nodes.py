"""One node: what is wrong with it, and the facts of it that are compared. Equal machines are judged once."""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import Verdict
from gpudoctor.fleet.documents import Document, FoundThere
from gpudoctor.fleet.facts import ComparedFact, compared, computing, main_model
from gpudoctor.machine import Machine, NvmlDevice, System
from gpudoctor.machine.board import Board

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix


_NEARLY_FULL = 90
"""Per cent of a GPU's memory; what is beyond is told apart exactly."""


class Judged(Struct, frozen=True):
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


class Reader:
    """Makes nodes of documents; keeps what it found for machines that it has met."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self.facts: dict[str, ComparedFact] = {}
        """Every compared fact that some node had, by name."""
        self._judged: dict[bytes, Judged] = {}

    def node(self, document: Document) -> Node:
        """The node of one document."""
        machine = document.machine
        if machine is None:
            return Node(document.name, document.role, why=document.failure or "the document is empty")
        found = (
            Judged(document.verdict or "unknown", document.findings)
            if document.findings is not None
            else self._judge(machine)
        )
        facts = {}
        for fact, value in compared(machine):
            self.facts.setdefault(fact.name, fact)
            facts[fact.name] = sys.intern(value)
        model = main_model(machine)
        listed = machine.environment.value.distributions.value if machine.environment.value else None
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
        )

    def _judge(self, machine: Machine) -> Judged:
        """By the engine. Two machines that are equal but for what no check decides by get one answer."""
        key = hashlib.blake2b(msgspec.json.encode(coarse(machine)), digest_size=16).digest()
        if key not in self._judged:
            self._judged[key] = judge_machine(machine, self.matrix)
        return self._judged[key]


def coarse(machine: Machine) -> Machine:
    """The machine without what changes from minute to minute, or differs by a little between equal nodes."""
    memory = machine.system.memory
    if memory.value:
        memory = replace(memory, value=memory.value >> 30)
    nvml = machine.nvidia.nvml
    if nvml.value and nvml.value.devices:
        devices = tuple(map(_coarse_device, nvml.value.devices))
        nvml = replace(nvml, value=replace(nvml.value, devices=devices))
    return replace(
        machine,
        system=replace(machine.system, memory=memory, clock=System().clock),
        nvidia=replace(machine.nvidia, nvml=nvml),
        gpus=tuple(replace(gpu, nvml=_coarse_device(gpu.nvml)) if gpu.nvml else gpu for gpu in machine.gpus),
    )


def _coarse_device(device: NvmlDevice) -> NvmlDevice:
    """Whether its memory is full and whether it is used decide, not how much and by how many; of its board the links,
    not what it does at this moment."""
    used = device.memory_used
    if used is not None and device.memory:
        used = used * 100 // device.memory
        used = used if used > _NEARLY_FULL else 0
    busy = None if device.processes is None else min(device.processes, 1)
    board = Board(links=device.board.links, links_up=device.board.links_up)
    return replace(device, memory_used=used, processes=busy, board=board)


def judge_machine(machine: Machine, matrix: Matrix) -> Judged:
    """What the checks say of a machine, with the steps of the fixes."""
    from gpudoctor.engine import judge
    from gpudoctor.planner.plan import fixes_for
    from gpudoctor.situation import Situation
    from gpudoctor.suites import machine_checks

    judgement = judge(machine, matrix, machine_checks())
    situation = Situation(machine, matrix)
    return Judged(
        judgement.verdict,
        tuple(
            FoundThere(one.id, one.slug, one.severity, one.message, fixes_for(one, situation) if one.fixes else ())
            for one in judgement.findings
        ),
    )
