"""Outputs of the drivers' tools in a text: nvidia-smi, rocminfo, rocm-smi, amd-smi. Their own readers read them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from gpudoctor.intake.text.facts import Facts, NamedGpu
from gpudoctor.intake.text.hypothetical import is_hypothetical
from gpudoctor.intake.text.lines import Line, text_of
from gpudoctor.late_regex import late
from gpudoctor.line_search import lines_with
from gpudoctor.machine import NvidiaApi, NvmlDevice, SmiGpu
from gpudoctor.probes.amd_answers import parse_rocminfo
from gpudoctor.probes.amd_smi import parse_smi as parse_amd_smi
from gpudoctor.probes.nvidia_smi import parse_smi
from gpudoctor.probes.nvidia_smi.csv import is_csv

_SMI_HEAD = late(r"\|? ?NVIDIA-SMI [\d.]+|\s*=+NVSMI LOG=+|<nvidia_smi_log|GPU \d{1,2}: .{2,80} \(UUID: GPU-")
_FAILURES = (
    "Failed to initialize NVML", "NVIDIA-SMI has failed", "NVIDIA-SMI couldn", "No devices were found",
    "Unable to determine the device handle", ": GPU is lost", "GPU access blocked by the operating system",
)  # fmt: skip
_SMI_SIGNS = ("NVIDIA-SMI", "NVSMI LOG", "<nvidia_smi_log", "(UUID: GPU-")
"""Texts of which one is in every head, here and below: to find them first is quicker than to match every line."""
_BRANDS = ("NVIDIA ", "GeForce ", "Tesla ", "Quadro ", "TITAN ")
_CSV_SIGNS = ("driver_version", "memory.total", "pci.bus_id", "compute_cap", "Accelerator: ", ", NVIDIA ")
_SMI_LINE = late(
    r"\s{2}|\s?(?:[|+]|$)|<|[A-Z][a-z]{2} [A-Z][a-z]{2} +\d|GPU (?:[0-9A-F]|\d{1,3}: )|Unable to determine|.{2,60} : "
)
_CUT_ROW = late(
    r"\|\s{1,4}(?P<index>\d{1,2})\s{1,3}(?P<name>[A-Z][\w .()/-]{3,40}?)(?:\s{2,}|\.\.\.|\s(?:On|Off"
    r"|N/A)\b|\s*[|]|\s*$)"
)
_LAST_LINE_LIMIT = 12_000
"""Lines of one output that are read: an -q of sixteen GPUs has some 4,000, and more as XML."""
_MOST_DEVICES = 256
_MOST_KEPT = 64
"""Outputs of nvidia-smi whose reading is kept."""

_ROCMINFO_HEAD = late(
    r"\s*(?:ROCk module (?:is|version)|HSA System Attributes|Agent \d+\s*$)|hsa api call failure"
    r"|ROCR: unsupported|Unable to open /dev/kfd"
)
_ROCMINFO_SIGNS = (
    "ROCk module", "HSA System Attributes", "Agent ", "hsa api call failure", "ROCR: unsupported",
    "Unable to open /dev/kfd",
)  # fmt: skip
_AMD_SMI_HEAD = late(r"=+ ?ROCm System Management|=+ ?ROCm Info|={3,} Concise Info|GPU\[\d+\]\s|GPU: \d+$|\| AMD-SMI")
_AMD_JSON_SIGNS = ('"card0"', '"market_name"')
_BRACKETS = {"[": "]", "{": "}"}
_AMD_SMI_ROW = late(r"\d{1,2}\s.{10,200}\d%\s+\d{1,3}%\s*$")
_AMD_SMI_ROCM = late(r"\bROCm version: (?P<version>\d{1,2}\.\d{1,2}(?:\.\d{1,2})?)")
_AMD_SMI_SIGNS = ("ROCm System Management", "ROCm Info", "Concise Info", "GPU[", "GPU: ", "| AMD-SMI")


def read_vendor_tools(lines: tuple[Line, ...], facts: Facts) -> None:
    """What each output of a driver's tool says."""
    text = text_of(lines)
    _nvidia_smi(lines, text, facts)
    _rocminfo(lines, text, facts)
    _amd_smi(lines, text, facts)


# --- nvidia-smi ------------------------------------------------------------------------------------


def _nvidia_smi(lines: tuple[Line, ...], whole: str, facts: Facts) -> None:
    answers: list[tuple[NvidiaApi, int]] = []
    heads = [place for place in lines_with(_SMI_SIGNS, whole) if _SMI_HEAD.match(lines[place].text)]
    for start, block in sorted([*_blocks(lines, heads), *_tables(lines, whole)]):
        text = text_of(block)
        answer = _parsed(text)
        number = lines[start].number
        if answer is None:
            continue
        if answer.devices:
            answer = replace(answer, devices=answer.devices[:_MOST_DEVICES])
        if answer.driver_version or "NVIDIA-SMI" in text:
            facts.tables.append(number)
        if not answer.devices and not answer.message:  # rows that could not be read are no missing GPUs
            answer = replace(answer, devices=None)
        answers.append((answer, number))
        _note_answer(answer, block, len(answers), facts)
    failures = (lines[place] for place in lines_with(_FAILURES, whole))
    failure = next((line for line in failures if not is_hypothetical(line.text)), None)
    if failure and not (answers and answers[-1][1] > failure.number):
        answer = parse_smi(failure.text)
        if answer is not None and (answer.status or answer.devices):
            answers.append((answer, failure.number))
    if answers:
        facts.smi = answers[-1]


@lru_cache(maxsize=_MOST_KEPT)
def _parsed(text: str) -> NvidiaApi | None:
    """A text that tells of several machines is read twice."""
    return parse_smi(text)


def _note_answer(answer: NvidiaApi, block: tuple[Line, ...], place: int, facts: Facts) -> None:
    number = block[0].number
    if answer.driver_version:
        facts.say("driver", answer.driver_version, number, "tool")
    if answer.cuda_version:
        facts.say("driver cuda", answer.cuda_version, number, "tool")
    for device in answer.devices or ():
        line = next((one.number for one in block if device.name and device.name in one.text), number)
        facts.gpus.append(
            NamedGpu(
                line, "tool", name=device.name, index=device.index, bdf=device.bdf, pci_id=device.pci_id or "",
                arch=_arch(device), memory=device.memory, block=place,
            )
        )  # fmt: skip
    if not answer.devices:
        for cut in block:  # a table that was cut off
            if row := _CUT_ROW.match(cut.text):
                facts.gpus.append(
                    NamedGpu(cut.number, "tool", name=row["name"].strip(), index=int(row["index"]), block=place)
                )


def _arch(device: NvmlDevice) -> str:
    return f"sm_{device.capability.replace('.', '')}" if device.capability else ""


# --- AMD's tools -----------------------------------------------------------------------------------


def _rocminfo(lines: tuple[Line, ...], text: str, facts: Facts) -> None:
    places = lines_with(_ROCMINFO_SIGNS, text)
    start = next((place for place in places if _ROCMINFO_HEAD.match(lines[place].text)), None)
    if start is None:
        return
    block = lines[start : start + _LAST_LINE_LIMIT]
    end = next((place for place, line in enumerate(block) if "*** Done ***" in line.text), len(block))
    answer = parse_rocminfo(text_of(block[: end + 1]))
    if answer is None:
        return
    facts.say("for amd", "rocminfo", block[0].number, "tool")
    gpus = any(agent.kind == "gpu" for agent in answer.agents)
    # What a failure means, its message tells more exactly; and of a listing that was cut off the GPUs may be missing.
    if answer.status == 0 and (gpus or end < len(block)):
        facts.hsa = (answer, block[0].number)
    for agent in answer.agents:
        gfx = next(
            (part for part in (*agent.isa, agent.name) if part.startswith("gfx") and "generic" not in part), ""
        )
        if agent.kind != "gpu" or not gfx:
            continue
        line = next((one.number for one in block if gfx.partition(":")[0] in one.text), block[0].number)
        facts.gpus.append(
            NamedGpu(
                line, "tool", name=agent.product, arch=gfx.partition(":")[0], pci_id=agent.pci_id or "",
                bdf=agent.bdf or "", memory=agent.memory, block=1,
            )
        )  # fmt: skip


def _amd_smi(lines: tuple[Line, ...], text: str, facts: Facts) -> None:
    _amd_json(lines, text, facts)
    places = lines_with(_AMD_SMI_SIGNS, text)
    start = next((place for place in places if _AMD_SMI_HEAD.match(lines[place].text)), None)
    if start is None:
        return
    block = lines[start : start + _LAST_LINE_LIMIT]
    end = next((place for place, line in enumerate(block) if "End of ROCm SMI Log" in line.text), len(block))
    found = parse_amd_smi(text_of(block[: end + 1]))
    if "System Management" in block[0].text:
        facts.say("for amd", block[0].text, block[0].number, "tool")
    if rocm := next(filter(None, (_AMD_SMI_ROCM.search(line.text) for line in block[:3])), None):
        facts.say("rocm", rocm["version"], block[0].number, "tool")
    if row := next((line for line in block[:end] if _AMD_SMI_ROW.match(line.text)), None):
        facts.say("gpu started", row.text, row.number, "tool")
    _note_amd(found, block[0].number, facts)


def _amd_json(lines: tuple[Line, ...], text: str, facts: Facts) -> None:
    """What rocm-smi and amd-smi print with --json: a line, or all from a bracket to the one that ends it."""
    sign = next(lines_with(_AMD_JSON_SIGNS, text), None)
    if sign is None:
        return
    start = next((place for place in range(sign, -1, -1) if lines[place].text[:1] in _BRACKETS), sign)
    bracket = _BRACKETS.get(lines[start].text[:1], "")
    end = next((place for place in range(sign, len(lines)) if lines[place].text == bracket), len(lines) - 1)
    end = start if lines[start].text.endswith(bracket) else end
    _note_amd(parse_amd_smi(text_of(lines[start : end + 1][:_LAST_LINE_LIMIT])), lines[start].number, facts)


def _note_amd(found: tuple[SmiGpu, ...], number: int, facts: Facts) -> None:
    if found:
        facts.amd_smi = found, number
        facts.say("for amd", "rocm-smi", number, "tool")
    for place, gpu in enumerate(found):
        if gpu.product or gpu.gfx or gpu.pci_id:
            facts.gpus.append(
                NamedGpu(
                    number, "tool", name=gpu.product, arch=gpu.gfx or "", pci_id=gpu.pci_id or "",
                    bdf=gpu.bdf or "", index=place, memory=gpu.memory, block=2,
                )
            )  # fmt: skip


# --- blocks ----------------------------------------------------------------------------------------


def _tables(lines: tuple[Line, ...], whole: str) -> Iterator[tuple[int, tuple[Line, ...]]]:
    """Answers of nvidia-smi as comma-separated values."""
    end = 0
    begun = (place for place, line in enumerate(lines) if line.text.startswith(_BRANDS))
    for start in sorted({*lines_with(_CSV_SIGNS, whole), *begun}):
        if start < end or not is_csv(lines[start].text):
            continue
        end = start + 1
        while end < len(lines) and end - start < _LAST_LINE_LIMIT and "," in lines[end].text:
            end += 1
        yield start, lines[start:end]


def _blocks(lines: tuple[Line, ...], heads: list[int]) -> Iterator[tuple[int, tuple[Line, ...]]]:
    """Outputs of nvidia-smi: from each head to the last line that belongs to it."""
    end, others = 0, frozenset(heads)
    for head in heads:
        if head < end:
            continue
        end = head + 1
        while end < len(lines) and end - head < _LAST_LINE_LIMIT and _SMI_LINE.match(lines[end].text):
            if end > head + 2 and end in others and not lines[end].text.startswith("GPU "):
                break
            end += 1
        yield head, lines[head:end]
