"""The processor: its architecture and its flags."""

from __future__ import annotations

import re

from gpudoctor.host import Host
from gpudoctor.machine import Fact, absent, known, unknown

CPUINFO = "/proc/cpuinfo"
# Only the first processor's lines: with hundreds of them the file has megabytes.
_FIRST_PROCESSOR = 1 << 16
_ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
_ANY_PROGRAM = ("/bin/sh", "/usr/bin/env", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")


def read_arch(host: Host) -> Fact[str]:
    """As `uname -m` prints it. For a system that is not running, its programs tell."""
    uname = host.uname()
    if uname.value is not None:
        return known(uname.value.machine, uname.source)
    stated = host.text("/proc/sys/kernel/arch")
    if stated.value:
        return stated
    text = host.text(CPUINFO, _FIRST_PROCESSOR).value or ""
    if re.search(r"^flags\s*:.*\blm\b", text, re.MULTILINE):
        return known("x86_64", CPUINFO)
    if re.search(r"^CPU architecture\s*:\s*(8|AArch64)", text, re.MULTILINE):
        return known("aarch64", CPUINFO)
    for program in _ANY_PROGRAM:
        head = host.data(program, 20).value or b""
        if head[:4] == b"\x7fELF" and len(head) == 20:
            machine = _ELF_MACHINES.get(int.from_bytes(head[18:20], "little"))
            if machine is not None:
                return known(machine, program)
    return unknown("neither uname nor a program tells", uname.source)


def read_cpu_flags(host: Host) -> Fact[tuple[str, ...]]:
    """Of the first processor: `flags` on x86, `Features` on Arm."""
    text = host.text(CPUINFO, _FIRST_PROCESSOR)
    if text.value is None:
        return text.unanswered()
    lines = (line.partition(":") for line in text.value.splitlines() if line.startswith(("flags", "Features")))
    flags = next((value for name, colon, value in lines if colon and name.strip() in ("flags", "Features")), None)
    return absent(CPUINFO, "no line of flags") if flags is None else known(tuple(flags.split()), CPUINFO)
