"""The NVIDIA driver's own answers: NVML and libcuda in one timed child, nvidia-smi last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from gpudoctor.host import Host
from gpudoctor.machine import Fact, NvidiaApi, NvmlDevice, absent, known, unknown
from gpudoctor.probes.nvidia_smi import parse_smi

if TYPE_CHECKING:
    from gpudoctor.probes.driver_child import ChildRun

_LIBRARY = {"nvml": "libnvidia-ml.so.1", "cuda": "libcuda.so.1"}
_SMI_SECONDS = 15.0
_RECORDED = (("nvidia-smi", "-q", "-x"), ("nvidia-smi", "-q"), ("nvidia-smi",), ("nvidia-smi", "-L"))

Answers = tuple[Fact[NvidiaApi], Fact[NvidiaApi], Fact[NvidiaApi]]
"""NVML, libcuda, nvidia-smi."""


class _Line(Struct, frozen=True):
    """One line of the child (see children/nvml.py and libcuda.py)."""

    doing: str = ""
    missing: str = ""
    why: str = ""
    nvml: NvidiaApi | None = None
    cuda: NvidiaApi | None = None


def ask_nvidia(host: Host, seconds: float = 20.0) -> Answers:
    """Ask the driver; each child has `seconds`. On a recorded host nothing runs: only its nvidia-smi output is read.
    If NVML crashes or hangs before libcuda is asked, a second child asks libcuda alone."""
    if not host.live:
        nothing = unknown("libraries of a recording are not opened")
        return nothing, nothing, _recorded_smi(host)
    lines, run = _ask(("nvml", "cuda"), host, seconds)
    nvml, cuda = _answer("nvml", lines, run.failure), _answer("cuda", lines, run.failure)
    silent = _hung(run)
    if nvml.value is not None and nvml.value.status == 0 and nvml.value.devices is not None:
        return nvml, cuda, unknown("not asked: NVML answered")
    if run.failure and run.gone and not _reached(lines, "cuda"):
        lines, run = _ask(("cuda",), host, seconds)
        cuda = _answer("cuda", lines, run.failure)
    if silent or _hung(run):
        return nvml, cuda, unknown("not asked: the driver does not answer")
    return nvml, cuda, _parse(host.run(("nvidia-smi", "-q"), _SMI_SECONDS))


def _ask(interfaces: tuple[str, ...], host: Host, seconds: float) -> tuple[list[_Line], ChildRun]:
    from gpudoctor.probes.driver_child import run_child

    run = run_child(interfaces, seconds, host.environ)
    return run.answers(_Line), run


def _hung(run: ChildRun) -> bool:
    return not run.gone or run.failure.startswith("gave no answer")


def _reached(lines: list[_Line], api: str) -> bool:
    return any(line.doing == f"loading {_LIBRARY[api]}" for line in lines)


def _answer(api: str, lines: list[_Line], failure: str) -> Fact[NvidiaApi]:
    """The last answer of one interface; if there is none, the step at which the child ended."""
    library = _LIBRARY[api]
    answers = [answer for line in lines if (answer := getattr(line, api)) is not None]
    if answers:
        last: NvidiaApi = answers[-1]
        if failure and last.status == 0 and last.devices is None:
            last = msgspec.structs.replace(last, message=f"{_step(lines)}: {failure}")
        return known(last, last.library or library)
    for line in lines:
        if line.missing == api:
            gone = line.why.startswith(library) and "No such file" in line.why
            return absent(library, line.why) if gone else unknown(line.why, library)
    return unknown(f"{_step(lines)}: {failure}" if failure else "the driver's child said nothing of it", library)


def _step(lines: list[_Line]) -> str:
    steps = [line.doing for line in lines if line.doing]
    return steps[-1] if steps else "starting"


def _recorded_smi(host: Host) -> Fact[NvidiaApi]:
    """The fullest of the recorded answers; only the list (-L) has the names of MIG slices."""
    facts = [_parse(host.run(argv, _SMI_SECONDS)) for argv in _RECORDED]
    answers = [fact for fact in facts if fact.value is not None]
    if not answers:
        return facts[0]
    best = max(answers, key=_fullness)
    assert best.value is not None
    names = {d.index: d for fact in answers if fact.value for d in fact.value.devices or () if not d.bdf}
    devices = best.value.devices and tuple(
        _with_name(device, names.get(device.index)) for device in best.value.devices
    )
    return known(msgspec.structs.replace(best.value, devices=devices), best.source)


def _with_name(device: NvmlDevice, listed: NvmlDevice | None) -> NvmlDevice:
    if listed is None or (device.uuid and listed.uuid != device.uuid):
        return device
    slices = listed.mig_devices or device.mig_devices
    return msgspec.structs.replace(device, uuid=listed.uuid, mig_devices=slices, mig=listed.mig or device.mig)


def _fullness(fact: Fact[NvidiaApi]) -> tuple[int, int]:
    """The long forms give PCI ids, the table and the list do not."""
    devices = (fact.value.devices if fact.value else None) or ()
    return sum(device.pci_id is not None for device in devices), len(devices)


def _parse(result: Fact[Any]) -> Fact[NvidiaApi]:
    if result.value is None:
        return result.unanswered()
    api = parse_smi(result.value.stdout, result.value.stderr)
    if api is None:
        return unknown("nothing in its output is nvidia-smi's", result.source)
    return known(api, result.source)
