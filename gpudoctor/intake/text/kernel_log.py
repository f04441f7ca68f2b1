"""Lines of a kernel log in a text, and the GPUs that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest

from msgspec.structs import replace

from gpudoctor.intake.text.facts import Facts, NamedGpu
from gpudoctor.intake.text.hypothetical import is_hypothetical
from gpudoctor.intake.text.lines import LONGEST_SENTENCE, Line, text_of
from gpudoctor.late_regex import late
from gpudoctor.machine import KernelLog
from gpudoctor.matrix.questions import Matrix
from gpudoctor.probes.kernel_log import log_of_text
from gpudoctor.probes.log_lines import seconds_of
from gpudoctor.probes.pci_address import normal_address
from gpudoctor.probes.virtual_machine import named_hypervisor

_STAMPED = late(
    r"(?:<\d{1,3}>|[a-z]{3,8} {0,3}:[a-z]{4,8} {0,3}: ?)?\[ {0,8}\+?"
    r"\d{1,8}\.\d{3,9}\]|\[[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d\]"
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]"
)
_SYSLOG = late(
    r"[^\W_][\w.]{1,8}\s+\d{1,2} \d\d:\d\d:\d\d(?:\.\d+)? [\w.-]+ kernel: "
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,16} [\w.-]+ kernel: "
)
_BARE = late(
    r"\s{0,80}(?:\[ {0,6}\d{1,8}\.\d{1,2}\] )?(?:kernel: )?"
    r"(?:NVRM: |nvidia(?:-\w+)? [0-9a-f]{4}:|amdgpu [0-9a-f]{4}:|kfd kfd: |amdgpu: |\[drm"
    r"|modprobe: ERROR: could not insert '(?:nvidia|amd)\w*': (?:Key was rejected|Required key)"
    r"|nvidia: |nvidia-(?:modeset|drm|uvm): |nouveau (?=[0-9a-f]{4}:)|nouveau: |NVRM\()"
)
"""Of a line without stamp, or with a shortened one: what only a GPU's kernel driver begins with. journalctl and dmesg
indent the further lines of a message by the width of its stamp."""
_PCI_NAMED = late(
    r"(?:pci (?P<bdf>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d): \[(?P<id>(?:10de"
    r"|1002):[0-9a-f]{4})\] type \w+ class 0x(?:0300|0302|0380|1200))|\(PCI ID: "
    r"(?P<refused>10de:[0-9a-f]{4})\)|(?:skipped|added) device (?P<kfd>1002:[0-9a-f]{4})"
    r"|modesetting \([\w ]+ 0x1002:0x(?P<drm>[0-9A-Fa-f]{4})"
)
_MODULE = late(
    r"NVRM(?:: loading| version:) {1,3}NVIDIA UNIX (?P<open>Open Kernel Module|\S+ Kernel Module)"
    r"(?: for \S{1,20})? {1,4}(?P<version>\d{3}\.\d{2,3}(?:\.\d{1,2})?)"
)


_STARTED = late(r"\[drm\] Initialized (?:amdgpu|nvidia-drm) |kfd kfd: (?:amdgpu: )?added device 1002:")
_FIRST_SECONDS = 10.0
"""In these the drivers start: where a log goes on with one of them, a boot has begun."""
_BOOTED = late(r"\bLinux version (?P<kernel>\d{1,2}\.\d{1,3}\.\d{1,4}\S{0,80}) \(")
_FIRMWARE = late(r"\b(?:Hardware name|DMI): (?P<names>.{3,120})")
_QUOTED = late(
    r"[\"'`(:] ?(?P<line>(?:NVRM|nvidia-modeset|kfd kfd|amdgpu [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d): .*"
    r"|amdgpu: probe of \S+ failed with error -\d+)"
)
"""A line of the log within a sentence."""
_OF_AMDGPU = late(
    r"(?<!\w)\*ERROR\* (?:MES |PSP |ring [a-z]\w*[\d.]* timeout).{0,200}"
    r"|(?<!radeon )(?<!\.\d: )(?<!\w)Fatal error during GPU init(?!\w).{0,100}"
)
"""Where a person names a line of amdgpu by what it says, as titles do."""
_DROPPED = late(r"NVRM: The NVIDIA (?P<name>.{4,80}?) GPU (?:\(PCI ID: \S+\) )?installed")
_REFUSES = late(
    r"NVRM:\s+(?:.{0,120}?[Tt]he )?(?:NVIDIA )?(?P<version>\d{3}\.\d{2,3}(?:\.\d{1,2})?)"
    r"(?: NVIDIA driver will ignore| driver release)"
)


_XID = late(
    r"(?i)(?<![A-Za-z0-9_(])xids?(?: (?:errors?|codes?|messages?|events?))?[ :#=(`*]{1,4}"
    r"(?P<all>\d{1,3}(?:(?:, | ?/ ?| and | or |, and )\d{1,3})*)(?!\d|\.\d|:|%)"
)
_NO_XID = late(r"(?i)(?:\b(?:no|not|never|without|neither|nor|instead of)\b|n't\b)[^.;!?]{0,40}$")
_MOST_XIDS = 6


def is_log_line(text: str) -> bool:
    """Whether the kernel wrote the line."""
    return bool(
        ("]" in text and _STAMPED.match(text)) or ("kernel: " in text and _SYSLOG.match(text)) or _BARE.match(text)
    )


def read_kernel_log(lines: Iterable[Line], facts: Facts) -> None:
    """The lines of a kernel log, and the GPUs and the driver that they name."""
    seen: set[str] = set()
    for line in filter(None, map(_of_kernel, lines)):
        facts.log.append(line)
        if found := _PCI_NAMED.search(line.text):
            pci = (found["id"] or found["refused"] or found["kfd"] or f"1002:{found['drm']}").lower()
            bdf = normal_address(found["bdf"]) or "" if found["bdf"] else ""
            if (key := bdf or pci) not in seen:
                seen.add(key)
                facts.gpus.append(NamedGpu(line.number, "tool", pci_id=pci, bdf=bdf, block=0))
        if (firmware := _FIRMWARE.search(line.text)) and (hypervisor := named_hypervisor(firmware["names"])):
            facts.say("hypervisor", hypervisor, line.number, "tool")
        if _STARTED.search(line.text):
            facts.say("gpu started", line.text, line.number, "tool")
        _dropped(line, facts)
        read_module(line, facts)
        read_boot(line, facts)


def _of_kernel(line: Line) -> Line | None:
    """The line, or the part of a sentence, that the kernel wrote."""
    if is_log_line(line.text):
        return line
    if quoted := _QUOTED.search(line.text):
        return Line(line.number, quoted["line"])
    if (shortened := _OF_AMDGPU.search(line.text)) and not is_hypothetical(line.text):
        return Line(line.number, f"amdgpu: {shortened[0]}")
    return None


def _dropped(line: Line, facts: Facts) -> None:
    """The GPU that a driver says it no longer supports, and the driver that refuses a GPU."""
    if "NVRM" not in line.text:
        return
    if found := _DROPPED.search(line.text):
        name = re.sub(r"^NVIDIA (?=NVIDIA )", "", found["name"])
        facts.gpus.append(NamedGpu(line.number, "tool", name=name))
    if refuses := _REFUSES.search(line.text):
        facts.say("driver", refuses["version"], line.number, "tool")


def read_module(line: Line, facts: Facts) -> None:
    """The driver that the kernel has loaded, as its log and /proc/driver/nvidia/version tell."""
    if "NVIDIA UNIX" in line.text and (module := _MODULE.search(line.text)):
        facts.say("driver", module["version"], line.number, "tool")
        flavour = "open" if module["open"].startswith("Open") else "proprietary"
        facts.say(f"flavour {module['version']}", flavour, line.number, "tool")


def read_boot(line: Line, facts: Facts) -> None:
    """The kernel, as the first line of its log and /proc/version tell."""
    if "Linux version" in line.text and (booted := _BOOTED.search(line.text)):
        facts.say("kernel", booted["kernel"], line.number, "tool")


def read_xids(lines: Iterable[Line], facts: Facts) -> None:
    """The errors of NVIDIA's driver that sentences name by their numbers, where no line of the log has them."""
    if any(" Xid (" in line.text for line in facts.log):
        return
    named: dict[str, Line] = {}
    for line in lines:
        text = line.text[:LONGEST_SENTENCE]
        found = [*_XID.finditer(text)] if "id" in text or "ID" in text else []
        if found and not is_hypothetical(text):
            said = (one["all"] for one in found if not _NO_XID.search(text[: one.start()]))
            named |= {xid: Line(line.number, f"NVRM: Xid: {xid}") for all in said for xid in re.findall(r"\d+", all)}
    if len(named) <= _MOST_XIDS:  # else it is a list of what there is
        facts.xids += named.values()


def logged(facts: Facts, matrix: Matrix) -> KernelLog:
    """The faults in the log of a text."""
    lines = facts.log + facts.xids
    source = f"text, line {lines[0].number}" if lines else "text"
    logs = [log_of_text(text_of(piece), matrix.tables.log_patterns, source) for piece in _pieces(lines)]
    faults = (fault for log in logs for fault in log.faults)
    named = {line.text for line in facts.xids}
    return KernelLog(
        faults=tuple(replace(one, line=f"Xid {one.xid}") if one.line in named else one for one in faults),
        source=source,
    )


def _pieces(log: list[Line]) -> list[list[Line]]:
    """The log in the pieces that a person cites, with other words between them: one that begins earlier than the last
    one ended may be of the same boot, if it does not begin one."""
    pieces: list[list[Line]] = [[]]
    for line, following in zip_longest(log, log[1:]):
        pieces[-1].append(line)
        if following is None or following.number == line.number + 1:
            continue
        seconds, later = seconds_of(line.text), seconds_of(following.text)
        if seconds and later and _FIRST_SECONDS < later < seconds:
            pieces.append([])
    return pieces
