"""A real Slurm on this machine: one controller and three nodes, each a slurmd of its own. Needs root."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sysconfig
import time
from contextlib import ExitStack, closing
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "srun", "sinfo", "scontrol")
CONFIGURATION = """
ClusterName=gpudoctor
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmctldParameters=enable_configless
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/%n.log
{more}
{nodes}
PartitionName=all Nodes=n[0-2] Default=YES MaxTime=10 State=UP OverSubscribe=YES
"""


def why_not() -> str:
    """Why Slurm cannot be started here; "" if it can."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"{missing[0]} of Slurm is not installed"
    return "" if os.geteuid() == 0 else "slurmd needs root"


class Slurm:
    """A running cluster; a context. `environ` is for its commands."""

    def __init__(self, folder: Path, more: str = "") -> None:
        """`more`: further lines of slurm.conf."""
        self._folder, self._stack = folder, ExitStack()
        (folder / "state").mkdir(parents=True)
        ports = _free_ports(4)
        host = socket.gethostname().partition(".")[0]
        nodes = "\n".join(
            f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1 + number]} CPUs=1 State=UNKNOWN"
            for number in range(3)
        )
        text = CONFIGURATION.format(host=host, ports=ports, folder=folder, nodes=nodes, more=more)
        (folder / "slurm.conf").write_text(text)
        outside = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        scripts = sysconfig.get_path("scripts")
        outside["PATH"] = f"{scripts}:{outside['PATH']}"
        self.environ = {**outside, "SLURM_CONF": str(folder / "slurm.conf")}

    def __enter__(self) -> Slurm:
        conf = str(self._folder / "slurm.conf")
        self._start("slurmctld", "-D", "-f", conf)
        for node in ("n0", "n1", "n2"):
            (self._folder / f"spool-{node}").mkdir()
            self._start("slurmd", "-D", "-f", conf, "-N", node)
        self.wait_until_idle()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, *argv: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """A command of a user of the cluster."""
        return subprocess.run(
            argv, env=self.environ, capture_output=True, text=True, check=False, timeout=seconds, cwd=self._folder
        )

    def states(self) -> dict[str, str]:
        """The state of each node."""
        rows = self.run("sinfo", "--Node", "--noheader", "--format=%N %T").stdout.split("\n")
        return dict(sorted(row.split() for row in rows if row))

    def wait_until_idle(self) -> None:
        """Until every node is."""
        deadline = time.monotonic() + 60
        while list(self.states().values()) != ["idle"] * 3:
            assert time.monotonic() < deadline, (self._folder / "ctld.log").read_text()[-2000:]
            time.sleep(0.2)

    def drained(self) -> dict[str, str]:
        """The nodes that are drained, with the reasons."""
        rows = self.run("sinfo", "--Node", "--noheader", "--states=drain", "--format=%N|%E").stdout.splitlines()
        return dict(row.strip().split("|", 1) for row in rows)

    def _start(self, *argv: str) -> None:
        with (self._folder / f"{argv[0]}.out").open("ab") as out:
            daemon = subprocess.Popen(
                argv, env=self.environ, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._stack.callback(_end, daemon)


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(10)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
