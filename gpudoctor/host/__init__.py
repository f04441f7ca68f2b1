"""The only access to the outside: files, folders, nodes, variables and commands of one machine.

`LiveHost` is the running system; `recorded.RecordedHost` is a folder that holds one (`--root`): a mounted image, a
container's /host, a recorded machine. Probes use only `Host` and cannot tell them apart.
Every answer is a `Fact`: nothing here raises because of the state of a machine.
"""

from gpudoctor.host.base import CommandResult, FileStat, Host, Uname
from gpudoctor.host.input_file import InputError
from gpudoctor.host.live import LiveHost

__all__ = ["CommandResult", "FileStat", "Host", "InputError", "LiveHost", "Uname"]
