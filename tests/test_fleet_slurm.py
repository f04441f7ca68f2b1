"""A real Slurm: `gpudoctor fleet check --on slurm`, and the scripts of examples/slurm."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.made_fleet import MadeFleet, told
from tests.support.slurm import Slurm, why_not

EXAMPLES = Path(__file__).parents[1] / "examples"
# The stub stands for a gpudoctor that judges the node: bad where a file with the node's name says so.
PROLOG = """#!/bin/sh
export GPUDOCTOR={folder}/bin/gpudoctor-$SLURMD_NODENAME
printf '#!/bin/sh\\necho "GPU 0 has fallen off the bus"\\nexit %s\\n' $(cat {folder}/$SLURMD_NODENAME) >$GPUDOCTOR
chmod +x $GPUDOCTOR
exec {examples}/slurm/prolog.sh
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slurm")


@pytest.fixture(scope="module")
def slurm(folder: Path) -> Iterator[Slurm]:
    if why := why_not():
        pytest.skip(why)
    (folder / "bin").mkdir()
    for node in ("n0", "n1", "n2"):
        (folder / node).write_text("0")
    (folder / "prolog").write_text(PROLOG.format(folder=folder, examples=EXAMPLES))
    (folder / "prolog").chmod(0o755)
    with Slurm(folder / "cluster", f"Prolog={folder}/prolog\nPrologFlags=Alloc") as cluster:
        yield cluster


def check(slurm: Slurm, fleet: MadeFleet, *more: str) -> subprocess.CompletedProcess[str]:
    words = ("--on", "slurm", "--nodes", "n[0-2]", "--program", str(fleet.program), "--level", "static")
    return slurm.run("gpudoctor", "fleet", "check", *words, "--format", "json", "--timeout", "60", *more)


@pytest.fixture(autouse=True)
def idle(slurm: Slurm) -> None:
    """Every node is good and idle again."""
    slurm.run("scontrol", "update", "nodename=n[0-2]", "state=resume")
    slurm.wait_until_idle()


def test_each_node_answers(slurm: Slurm, tmp_path: Path) -> None:
    verdicts, why, code = told(check(slurm, MadeFleet(tmp_path / "fleet", "good", "broken", "dies")))
    assert (verdicts, code) == ({"n0": "ok", "n1": "error", "n2": "unknown"}, 1), why
    assert "task 2: Killed" in why["n2"]


def test_a_hang_ends_with_the_time_and_leaves_no_job(slurm: Slurm, tmp_path: Path) -> None:
    fleet = MadeFleet(tmp_path / "fleet", "silent", "silent", "hangs")
    verdicts, why, code = told(check(slurm, fleet, "--timeout", "8"))
    assert set(verdicts.values()) == {"unknown"} and code == 3
    assert why["n2"] == "no answer within 8 s"
    slurm.wait_until_idle()


def test_two_nodes_with_one_name_accuse_neither(slurm: Slurm, tmp_path: Path) -> None:
    verdicts, why, code = told(check(slurm, MadeFleet(tmp_path / "fleet", "lies", "good", "rubbish")))
    assert (verdicts, code) == ({"n0": "unknown", "n1": "unknown", "n2": "unknown"}, 3)
    assert "answered with this name" in why["n1"]


def test_the_prolog_drains_exactly_the_bad_node_and_the_others_are_asked(
    slurm: Slurm, folder: Path, tmp_path: Path
) -> None:
    (folder / "n2").write_text("1")
    verdicts, why, code = told(check(slurm, MadeFleet(tmp_path / "fleet", "good", "good", "good")))
    (folder / "n2").write_text("0")
    assert (verdicts, code) == ({"n0": "ok", "n1": "ok", "n2": "unknown"}, 3)
    assert "Prolog error" in why["n2"]
    assert slurm.drained() == {"n2": "Prolog error"}


def test_a_fault_of_gpudoctor_itself_drains_nothing(slurm: Slurm, folder: Path, tmp_path: Path) -> None:
    (folder / "n2").write_text("70")
    done = slurm.run("srun", "-N3", "true")
    (folder / "n2").write_text("0")
    assert (done.returncode, slurm.drained()) == (0, {})


def test_a_node_that_slurm_gives_to_nobody_is_a_row(slurm: Slurm, tmp_path: Path) -> None:
    slurm.run("scontrol", "update", "nodename=n1", "state=drain", "reason=new fan")
    verdicts, why, _ = told(check(slurm, MadeFleet(tmp_path / "fleet", "good", "good", "good")))
    assert verdicts == {"n0": "ok", "n1": "unknown", "n2": "ok"} and "new fan" in why["n1"]


def test_inside_a_job_its_nodes_are_asked(slurm: Slurm, tmp_path: Path) -> None:
    fleet = MadeFleet(tmp_path / "fleet", "good", "good", "good")
    words = ("gpudoctor", "fleet", "check", "--on", "slurm", "--program", str(fleet.program), "--level", "static")
    verdicts, _, code = told(slurm.run("salloc", "-w", "n[0-1]", *words, "--format", "json"))
    assert (verdicts, code) == ({"n0": "ok", "n1": "ok"}, 0)


@pytest.mark.parametrize("bad", [False, True])
def test_the_health_check_drains_a_bad_node(slurm: Slurm, bad: bool, tmp_path: Path) -> None:
    prolog = tmp_path / "prolog"
    prolog.write_text(
        '#!/bin/sh\necho "gpudoctor: exit 1: Xid 79; it\'s lost" >&2; exit 1\n' if bad else "#!/bin/sh\n"
    )
    prolog.chmod(0o755)
    words = ("env", f"GPUDOCTOR_PROLOG={prolog}", "SLURMD_NODENAME=n1")
    assert slurm.run(*words, str(EXAMPLES / "slurm" / "health-check.sh")).returncode == 0
    assert slurm.drained() == ({"n1": "gpudoctor: exit 1: Xid 79; it s lost"} if bad else {})


def test_the_health_check_keeps_a_persons_reason(slurm: Slurm, tmp_path: Path) -> None:
    slurm.run("scontrol", "update", "nodename=n1", "state=drain", "reason=new fan")
    prolog = tmp_path / "prolog"
    prolog.write_text("#!/bin/sh\nexit 1\n")
    prolog.chmod(0o755)
    slurm.run("env", f"GPUDOCTOR_PROLOG={prolog}", "SLURMD_NODENAME=n1", str(EXAMPLES / "slurm" / "health-check.sh"))
    assert slurm.drained() == {"n1": "new fan"}


def test_the_epilog_judges_as_the_prolog_does(slurm: Slurm, tmp_path: Path) -> None:
    prolog = tmp_path / "prolog"
    prolog.write_text("#!/bin/sh\nexit 1\n")
    prolog.chmod(0o755)
    assert slurm.run("env", f"GPUDOCTOR_PROLOG={prolog}", str(EXAMPLES / "slurm" / "epilog.sh")).returncode == 1
