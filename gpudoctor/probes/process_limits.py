"""What processes may use here: `ulimit`, and the limits of the control group (cgroups(7)).

An import that a limit ends looks like a fault of what was being imported.
"""

from __future__ import annotations

import posixpath
import resource

from gpudoctor.host import Host
from gpudoctor.machine import ProcessLimits

_ROOT = "/sys/fs/cgroup"


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


def _folders(host: Host, groups: dict[str, str], controller: str) -> list[str]:
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
        for folder in _folders(host, groups, controller)
        for name in names
    )
    limits = (int(text) for text in texts if text.isdecimal())
    return min((limit for limit in limits if limit < 1 << 60), default=None)


def _memory_kills(host: Host, groups: dict[str, str]) -> int | None:
    for folder in _folders(host, groups, "memory"):
        for name in ("memory.events", "memory.oom_control"):
            for line in (host.text(posixpath.join(folder, name)).value or "").splitlines():
                key, _, count = line.partition(" ")
                if key == "oom_kill" and count.isdecimal():
                    return int(count)
    return None
