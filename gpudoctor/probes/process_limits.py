"""What processes may use here: `ulimit`, the processors, and the limits of the control group (cgroups(7)).

An import that a limit ends looks like a fault of what was being imported.
"""

from __future__ import annotations

import os
import posixpath
import re
import resource

from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import Fact, ProcessLimits, known, unknown
from gpudoctor.probes.mounts import process_files

_ROOT = "/sys/fs/cgroup"
_IPC_LOCK = 1 << 14
_LIMITS = {"Max locked memory": "locked_memory", "Max open files": "open_files"}


def probe_limits(host: Host, *, rdma: bool, in_group: bool, in_namespace: bool) -> Fact[ProcessLimits]:
    """The limits of the examined processes, which may live in a user namespace. Files are read only where RDMA asks
    for the right to lock memory, and where a control group was made for these processes."""
    if not host.live:
        return _recorded_limits(host, in_namespace)
    limits = ProcessLimits(
        locked_memory=_soft(resource.RLIMIT_MEMLOCK),
        open_files=_soft(resource.RLIMIT_NOFILE),
        cpus=len(os.sched_getaffinity(0)),
    )
    if rdma and limits.locked_memory is not None:
        limits = replace(limits, locks_any_memory=not in_namespace and _has_ipc_lock(host))
    if in_group:
        memory = _lowest(host, _own_group(host), "memory", "memory.max", "memory.limit_in_bytes")
        limits = replace(limits, memory=memory)
    return known(limits, "getrlimit")


def process_limits(host: Host) -> ProcessLimits:
    """The limits of this process, which its children inherit."""
    folder = _own_group(host)
    threads = [_soft(resource.RLIMIT_NPROC), _lowest(host, folder, "pids", "pids.max")]
    return ProcessLimits(
        address_space=_soft(resource.RLIMIT_AS),
        processes=min((limit for limit in threads if limit is not None), default=None),
        memory=_lowest(host, folder, "memory", "memory.max", "memory.limit_in_bytes"),
        memory_kills=_memory_kills(host, folder),
    )


def _recorded_limits(host: Host, in_namespace: bool) -> Fact[ProcessLimits]:
    """Those of a process of the recording; the first process of a system is no measure for a job's."""
    path = next((path for path in process_files(host, "limits") if path.startswith("/proc/self/")), "")
    text = host.text(path, 1 << 16) if path else unknown("no process of its own is recorded", "/proc/self/limits")
    if text.value is None:
        return text.unanswered()
    found: dict[str, int | None] = {}
    for line in text.value.splitlines():
        match = re.match(r"(Max [a-z ]+?) {2,}(\d{1,19}|unlimited) ", line)
        if match and match[1] in _LIMITS:
            found[_LIMITS[match[1]]] = None if match[2] == "unlimited" else int(match[2])
    if not found:
        return unknown("no limit can be read in it", text.source)
    exempt = not in_namespace and _has_ipc_lock(host)
    return known(replace(ProcessLimits(locks_any_memory=exempt), **found), text.source)


def _has_ipc_lock(host: Host) -> bool:
    """Whether the kernel applies no limit of locked memory: the capability counts in the first user namespace."""
    status = host.text("/proc/self/status", 1 << 16).value or ""
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", status, re.MULTILINE)
    return capabilities is not None and bool(int(capabilities[1], 16) & _IPC_LOCK)


def _soft(limit: int) -> int | None:
    soft = resource.getrlimit(limit)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _own_group(host: Host) -> dict[str, str]:
    """The process's group by controller; "" is that of the unified hierarchy."""
    groups = {}
    for line in (host.text("/proc/self/cgroup").value or "").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _folders(groups: dict[str, str], controller: str) -> list[str]:
    """The group's folder and those above it; in a container the group's path may not be visible."""
    found = []
    for base, path in (
        (_ROOT, groups.get("")),
        (posixpath.join(_ROOT, "unified"), groups.get("")),
        (posixpath.join(_ROOT, controller), groups.get(controller)),
    ):
        folder = path
        while folder:
            found.append(posixpath.normpath(base + folder))
            folder = "" if folder == "/" else posixpath.dirname(folder)
    return found


def _lowest(host: Host, groups: dict[str, str], controller: str, *names: str) -> int | None:
    """The lowest limit of the group and the groups above it. What is close to 2^63 is no limit."""
    texts = (
        host.text(posixpath.join(folder, name)).value or ""
        for folder in _folders(groups, controller)
        for name in names
    )
    limits = (int(text) for text in texts if text.isdecimal())
    return min((limit for limit in limits if limit < 1 << 60), default=None)


def _memory_kills(host: Host, groups: dict[str, str]) -> int | None:
    for folder in _folders(groups, "memory"):
        for name in ("memory.events", "memory.oom_control"):
            for line in (host.text(posixpath.join(folder, name)).value or "").splitlines():
                key, _, count = line.partition(" ")
                if key == "oom_kill" and count.isdecimal():
                    return int(count)
    return None
