"""The only door to the outside: files, folders, nodes, variables and commands of one machine.

`LiveHost` is the running system; `recorded.RecordedHost` a folder that holds one (`--root`): a mounted image, a
container's /host, a recorded machine. Probes are written against `Host` and cannot tell them apart.
Every answer is a `Fact`: nothing here raises for what a machine looks like.
"""

from gpudoctor.host.base import (
    OUTPUT_LIMIT,
    TEXT_LIMIT,
    CommandResult,
    FileKind,
    FileStat,
    Host,
    InputError,
    Uname,
)
from gpudoctor.host.live import LiveHost

__all__ = [
    "OUTPUT_LIMIT",
    "TEXT_LIMIT",
    "CommandResult",
    "FileKind",
    "FileStat",
    "Host",
    "InputError",
    "LiveHost",
    "Uname",
]
