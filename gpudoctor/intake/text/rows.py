"""Tools that print each GPU in one line: gpustat, nvitop, nvtop, hashcat, logs of TensorFlow, llama.cpp and kohya_ss.

And nodes of Kubernetes and Slurm, which say how many of one GPU they have, and rocm_agent_enumerator.
"""

from __future__ import annotations

import re

from gpudoctor.intake.text.facts import Facts, NamedGpu
from gpudoctor.intake.text.lines import Line, text_of
from gpudoctor.intake.text.properties import vendor_of
from gpudoctor.late_regex import late
from gpudoctor.line_search import lines_with
from gpudoctor.probes.pci_address import normal_address

_MOST = 64
_ROWS = (
    late(r"\s*\[(?P<index>\d{1,2})\] (?P<name>[^|]{3,60}?)\s*\|.{0,60}?\|\s*\d{1,7}\s*/\s*(?P<mib>\d{3,7}) MB"),
    late(r"\s*│\s+(?P<index>\d{1,3})\s+(?P<name>.{3,60}?)\s+(?:On|Off|N/A)\s+│\s*(?P<bdf>[0-9A-F]{8}:\S{7})"),
    late(r"\s*Device (?P<index>\d{1,2}) \[(?P<name>[^\]]{3,60})\] PCIe"),
    late(
        r".{0,200}device: (?P<index>\d{1,2}), name: (?P<name>[^,]{3,60}), pci bus id: (?P<bdf>[0-9a-fA-F:.]{7,12})"
        r", compute capability: (?P<major>\d{1,2})\.(?P<minor>\d)"
    ),
    late(  # Mesa's list of devices
        r"\s*GPU (?P<index>\d{1,2}): (?P<pci>(?:10de|1002):[0-9a-f]{4}) \"(?P<name>[^\"]{3,80})\" .{1,40} "
        r"(?P<bdf>\S{7,12})$"
    ),
    late(r".{0,80}Torch detected GPU: (?P<name>.{3,60}?) VRAM (?P<mib>\d{3,7})\b"),
    late(r".{0,20}ggml_vulkan: (?P<index>\d{1,2}) = (?P<name>[^(|]{3,60}?)\s*[(|]"),
    late(r"\s*\* Device #(?P<number>\d{1,2}): (?P<name>[^,]{3,60}), \d{1,7}/(?P<mib>\d{3,7}) MB"),
    late(  # the first line of gpustat
        r"\S{1,60}\s+[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\s{1,8}"
        r"(?P<driver>\d{3}\.\d{2,3}(?:\.\d{2})?)\s*$"
    ),
    late(r"\s*device info: (?P<name>.{3,60}?)-(?P<gpus>\d{1,2}), \d{1,2} local devices"),
)
_OF_TORCH = "Torch detected GPU"
_ROW_SIGNS = (" MB", "│", "PCIe", "pci bus id: ", _OF_TORCH, "ggml_vulkan: ", "device info: ", "GPU ", " 20")


def read_rows(lines: tuple[Line, ...], facts: Facts) -> None:
    """The GPUs that these tools list."""
    whole = text_of(lines)
    for place in lines_with(_ROW_SIGNS, whole):
        _row(lines[place], facts)
    _nodes(lines, whole, facts)
    _targets(lines, whole, facts)
    _agents(lines, whole, facts)
    _one_column(lines, whole, facts)


def _row(line: Line, facts: Facts) -> None:
    number, text = line
    found = next((match for row in _ROWS if (match := row.match(text))), None)
    told = {name: value for name, value in found.groupdict().items() if value} if found else {}
    if version := told.get("driver"):
        facts.say("driver", version, number, "program")
    if not vendor_of(told):
        return
    first = int(told["number"]) - 1 if "number" in told else int(told.get("index", 0))
    for index in range(first, first + min(int(told.get("gpus", 1)), _MOST)):
        facts.gpus.append(
            NamedGpu(
                number, "program", name=told["name"].strip(), index=index,
                arch=f"sm_{told['major']}{told['minor']}" if "major" in told else "", pci_id=told.get("pci", ""),
                bdf=normal_address(told.get("bdf", "").lower()) or "",
                memory=int(told["mib"]) << 20 if "mib" in told else None,
            )
        )  # fmt: skip
    if _OF_TORCH in text:
        facts.say("available", "True", number, "program")


_NODE = late(
    r".{0,40}?(?:nvidia\.com/gpu\.product=|amd\.com/gpu\.product-name=|\bGres=gpu:|=gres[:/]gpu:)(?P<name>[A-Za-z][\w.-]{1,60})"
    r"(?:[:=](?P<gpus>\d{1,2}))?"
    r"|(?:\S{1,80}\s{1,40}){2,8}gpu:(?P<listed>[a-z]\w{1,40}):(?P<each>\d{1,2})(?:\(\S{1,40}\))?$"
)
_NODE_SIGNS = ("nvidia.com/gpu.product=", "amd.com/gpu.product-name=", "Gres=gpu:", "gres:gpu:", "gres/gpu:", " gpu:")
_NODE_HAS = late(r"\s*(?:nvidia\.com/gpu\.count=|(?:nvidia|amd)\.com/gpu:\s{1,20})(?P<gpus>\d{1,2})\s*$")
_PARTITION = late(r"-(?:SHARED|MIG-.*)$")
_MOST_OF_A_NODE = 120


def _nodes(lines: tuple[Line, ...], whole: str, facts: Facts) -> None:
    """Nodes of Kubernetes and Slurm: their labels name a GPU, and how many of it they have."""
    for block, place in enumerate(lines_with(_NODE_SIGNS, whole), start=1):
        if not (found := _NODE.match(lines[place].text)):
            continue
        near = lines[max(0, place - 10) : place + _MOST_OF_A_NODE]
        count = (
            found["gpus"]
            or found["each"]
            or next((has["gpus"] for line in near if (has := _NODE_HAS.match(line.text))), "1")
        )
        name = re.sub(r"[-_]", " ", _PARTITION.sub("", found["name"] or found["listed"]))
        for index in range(min(int(count), _MOST)):
            facts.gpus.append(NamedGpu(lines[place].number, "report", name=name, index=index, block=block))


_TARGET = late(r"\s*(?P<gfx>gfx[0-9a-f]{3,4})(?::\S{1,30})?\s*$")
_LISTS_TARGETS = late(r"\b(?:rocm_agent_enumerator|amdgpu-arch|offload-arch)\b|^\s*gfx000\s*$")


def _targets(lines: tuple[Line, ...], whole: str, facts: Facts) -> None:
    """What rocm_agent_enumerator prints: a target for each GPU, and gfx000 for the processor."""
    end = 0
    for place in lines_with(("rocm_agent_enumerator", "amdgpu-arch", "offload-arch", "gfx000"), whole):
        if place < end or not _LISTS_TARGETS.search(lines[place].text):
            continue
        end = place + 1
        while end < len(lines) and (found := _TARGET.match(lines[end].text)):
            if found["gfx"] != "gfx000":
                index = end - place
                facts.gpus.append(NamedGpu(lines[end].number, "program", arch=found["gfx"], index=index))
            end += 1


_AGENT = late(r"\s*Name:\s{1,40}(?P<gfx>gfx(?!000)[0-9a-f]{3,4})$")


def _agents(lines: tuple[Line, ...], whole: str, facts: Facts) -> None:
    """The GPUs of `rocminfo | grep gfx`: a line for each, without the headings of the whole."""
    if any(gpu.by == "tool" for gpu in facts.gpus):
        return
    found = (match for place in lines_with(("Name: ",), whole) if (match := _numbered(lines[place])))
    for index, (number, gfx) in enumerate(found):
        facts.gpus.append(NamedGpu(number, "tool", arch=gfx, index=index))


def _numbered(line: Line) -> tuple[int, str] | None:
    agent = _AGENT.match(line.text)
    return (line.number, agent["gfx"]) if agent else None


_ASKED_NAMES = late(r"--query-gpu=(?:gpu_)?name(?:\s|$)")
_BRANDED = late(r"(?:NVIDIA|GeForce|Tesla|Quadro|TITAN) [\w .()/-]{1,60}$")


def _one_column(lines: tuple[Line, ...], whole: str, facts: Facts) -> None:
    """What nvidia-smi answers where it was asked for names only: one in each line, below a heading or without."""
    for place in lines_with(("--query-gpu=",), whole):
        if not _ASKED_NAMES.search(lines[place].text):
            continue
        answers = lines[place + 1 : place + 2 + _MOST]
        names = [line for line in answers[:1] if line.text != "name"] + list(answers[1:])
        for index, line in enumerate(names):
            if not _BRANDED.match(line.text):
                break
            facts.gpus.append(NamedGpu(line.number, "tool", name=line.text, index=index))
