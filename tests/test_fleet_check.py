"""`gpudoctor fleet check`: one document for every node, whatever the node does."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpudoctor.fleet.engines import ENGINES
from gpudoctor.fleet.engines.order import Answer, Order, node_names
from gpudoctor.fleet.frames import Frames, frames
from gpudoctor.fleet.gather import documents
from gpudoctor.fleet.node import lines_of_check, run_check
from tests.support.in_process import gpudoctor
from tests.support.made_fleet import MadeFleet, told

REPORT = {
    "schema": 1, "verdict": "ok", "exit_code": 0, "machine": {}, "findings": [], "not_judged": [],
}  # fmt: skip


def raw(**changed: Any) -> bytes:
    return json.dumps({**REPORT, **changed}).encode()


# --- names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["-w", "$(id)", "n1;id", "a b'", "../n1", "n1\nn2;", "`id`", "n[1-2]$x", ".n1"])
def test_a_hostile_name_starts_nothing(name: str) -> None:
    for engine in ENGINES:
        done = gpudoctor("fleet", "check", "--on", engine, f"--nodes={name}", "--dry-run", "--image", "i")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), engine


def test_names_are_expanded() -> None:
    assert node_names("gpu[01-03,10],login-a") == ("gpu01", "gpu02", "gpu03", "gpu10", "login-a")


# --- what would be started ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "begins"),
    [("slurm", "srun --nodelist=n1,n2 "), ("mpi", "mpiexec -n 2 "), ("ssh", "clush "), ("ray", "# a Ray task"),
     ("torchrun", "# on every node:\ntorchrun ")],
)  # fmt: skip
def test_a_dry_run_prints_the_command(engine: str, begins: str) -> None:
    requirement = "gpu.memory>=70GiB; shm>=8GiB"
    done = gpudoctor(
        "fleet", "check", "--on", engine, "--nodes", "n[1-2]", "--dry-run", "--", "--require", requirement
    )
    assert done.returncode == 0 and done.stdout.startswith(begins)
    # Quoted once for the local shell, and for clush once more: a remote shell reads it, too.
    assert f"'{requirement}'" in done.stdout.replace("'\"'\"'", "'")


@pytest.mark.parametrize(
    "words", [("--format", "json"), ("--level", "static"), ("--nonsense",), ("--report-file", "/tmp/x"), ("word",)]
)
def test_options_that_are_none_of_a_node_are_refused(words: tuple[str, ...]) -> None:
    done = gpudoctor("fleet", "check", "--on", "ssh", "--nodes", "n1", "--dry-run", "--", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("engine", "needed"),
    [("ssh", "--nodes"), ("slurm", "--nodes"), ("kubernetes", "--image"), ("torchrun", "torchrun")],
)
def test_what_an_engine_needs_is_said(engine: str, needed: str) -> None:
    done = gpudoctor("fleet", "check", "--on", engine)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and needed in done.stderr


# --- one node -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exec sleep 100", "no answer within 1 s"),
        ("kill -SEGV $$", "SIGSEGV"),
        ("echo 'gpudoctor: libcuda is odd' >&2; exit 70", "gpudoctor itself failed: libcuda is odd"),
        ("echo 'gpudoctor: no such option' >&2; exit 2", "exit code 2: no such option"),
        ("echo Hello", "no report of gpudoctor"),
        ('echo \'{"schema": 1, "verdict": "ok"}\'', "no report of gpudoctor"),
        ("cat report-of-another", "the name of another node: n9"),
        ("yes", "more than 64 MiB"),
    ],
)
def test_a_node_without_a_report_is_unknown(
    script: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("report-of-another").write_bytes(raw(node="n9"))
    document = run_check("n3", ["sh", "-c", script], 1.0 if "sleep" in script else 60.0, os.environ)
    assert why in document.pop("failure")
    assert document == {"schema": 1, "node": "n3", "verdict": "unknown", "exit_code": 3}


def test_a_report_gets_the_name_of_its_node() -> None:
    arrived = Frames()
    for line in lines_of_check(("--level", "static"), 60.0, {**os.environ, "SLURMD_NODENAME": "gpu07"}):
        assert len(line) < 700
        arrived.line(line)
    (answer,) = arrived.answers({})
    assert answer.claimed == "gpu07" and answer.document is not None
    assert json.loads(answer.document)["node"] == "gpu07"


# --- what arrives ---------------------------------------------------------------------------------------


def test_lines_survive_an_engine() -> None:
    """Prefixes, other programs' lines, the lines of several nodes mixed and out of order."""
    sent = {node: raw(node=node, machine={"text": os.urandom(4000).hex()}) for node in ("n1", "n2")}
    lines = [(number, line) for number, node in enumerate(sent) for line in frames(node, sent[node])]
    arrived = Frames(r"^(\d+): ")
    for number, line in sorted(lines, key=lambda row: row[1][-9:]):
        arrived.line("module load cuda: done")
        arrived.line(f"{number}: {line}\r")
    assert {answer.claimed: answer.document for answer in arrived.answers({})} == sent


def test_a_line_behind_another_nodes_unfinished_line_belongs_to_its_node() -> None:
    """mpiexec passes on what comes, and looks for no line breaks."""
    arrived = Frames(r"\[(\d+)\] ?")
    for line in frames("n2", raw(node="n2")):
        arrived.line(f"[6] rubbish[2] {line}")
    assert [answer.node for answer in arrived.answers({"2": "n2", "6": "n6"})] == ["n2"]


def test_a_report_that_lost_a_line_is_none() -> None:
    arrived = Frames()
    for line in list(frames("n1", raw(machine={"text": os.urandom(4000).hex()})))[1:]:
        arrived.line(line)
    (answer,) = arrived.answers({})
    assert answer.document is None and "incomplete" in answer.failure


@pytest.mark.parametrize(
    "line", ["gpudoctor-node n1 1/1 bm9uc2Vuc2U=", "gpudoctor-node n1 1/1 x", "gpudoctor-node n1 2/1 eA=="]
)
def test_forged_lines_are_no_report(line: str) -> None:
    arrived = Frames()
    arrived.line(line)
    (document,) = documents(["n1"], arrived.answers({}))
    assert document["verdict"] == "unknown"


def test_two_nodes_with_one_name_are_unknown() -> None:
    answers = [Answer(claimed="n1", document=raw(node="n1")), Answer(claimed="n1", document=raw(node="n1"))]
    first, second = documents(["n1", "n2"], answers)
    assert "2 nodes answered" in first["failure"] and "no answer" in second["failure"]


def test_a_node_may_know_itself_by_another_name() -> None:
    """An ssh alias, and a name with a domain: neither is a lie."""
    alias = Answer(node="gpu1", claimed="node-17.example", document=raw(node="node-17.example"))
    whole = Answer(claimed="gpu2.example", document=raw(node="gpu2.example"))
    assert [(row["node"], row["verdict"]) for row in documents(["gpu1", "gpu2"], [alias, whole])] == [
        ("gpu1", "ok"),
        ("gpu2", "ok"),
    ]


def test_the_name_of_another_asked_node_is_a_lie() -> None:
    lie = Answer(node="n2", claimed="n1", document=raw(node="n1"))
    honest = Answer(node="n1", claimed="n1", document=raw(node="n1"))
    good, bad = documents(["n1", "n2"], [honest, lie])
    assert good["verdict"] == "ok" and "another node: n1" in bad["failure"]


def test_documents_are_kept_in_an_empty_folder_only(tmp_path: Path) -> None:
    (tmp_path / "n1.json").write_bytes(raw())
    done = gpudoctor("fleet", "check", "--on", "ssh", "--nodes", "n1", "--keep", str(tmp_path))
    assert done.returncode == 2 and "not empty" in done.stderr


# --- engines that are here ------------------------------------------------------------------------------

WAYS = ("good", "good", "good", "differs", "broken", "dies", "rubbish", "lies", "silent")


def check(on: str, fleet: MadeFleet, *more: str, program: str = "program", **variables: str) -> Any:
    words = ("--on", on, "--nodes", f"n[0-{len(fleet.nodes) - 1}]", "--program", str(fleet.folder / program))
    started = time.monotonic()
    done = gpudoctor(
        "fleet", "check", *words, "--level", "static", "--format", "json", "--timeout", "60", *more, **variables
    )
    assert time.monotonic() - started < 75
    return told(done)


def assert_each_is_told(verdicts: dict[str, str], why: dict[str, str], code: int) -> None:
    assert [verdicts[f"n{number}"] for number in range(5)] == ["ok", "ok", "ok", "warning", "error"]
    assert {node for node, verdict in verdicts.items() if verdict == "unknown"} == {"n5", "n6", "n7", "n8"}
    assert "another node: n0" in why["n7"] and code == 1


def test_clush_brings_each_node_to_account(tmp_path: Path) -> None:
    if shutil.which("clush") is None:
        pytest.skip("clush of ClusterShell is not installed")
    fleet = MadeFleet(tmp_path / "fleet", *WAYS)
    assert_each_is_told(*check("ssh", fleet, "--engine-arg=-R", "--engine-arg=exec", program="program-%h"))


def test_mpiexec_brings_each_node_to_account(tmp_path: Path) -> None:
    if shutil.which("mpiexec.hydra") is None:
        pytest.skip("mpiexec of MPICH is not installed")
    fleet = MadeFleet(tmp_path / "fleet", *WAYS)
    assert_each_is_told(*check("mpi", fleet, "--engine-arg=-launcher", "--engine-arg=fork"))


def test_a_node_that_hangs_ends_with_the_time(tmp_path: Path) -> None:
    if shutil.which("clush") is None:
        pytest.skip("clush of ClusterShell is not installed")
    fleet = MadeFleet(tmp_path / "fleet", "silent", "hangs")
    words = ("--engine-arg=-R", "--engine-arg=exec", "--timeout", "4")
    verdicts, why, code = check("ssh", fleet, *words, program="program-%h")
    assert verdicts == {"n0": "unknown", "n1": "unknown"} and code == 3
    assert why["n1"] == "no answer within 4 s"


# --- Kubernetes, without a cluster ------------------------------------------------------------------------

KUBECTL = """#!/bin/sh
# Answers as kubectl does for a Job whose pods a and b ran on n0 and n1; the pod of n2 got no node.
echo "$@" >>{folder}/calls
case "$1" in
get) cat {folder}/pods.json ;;
logs) for pod in a b; do sed "s|^|[pod/$pod/gpudoctor] |" {folder}/$pod.log; done ;;
esac
"""


def order(**given: Any) -> Order:
    return Order(**{"image": "registry.example/gpudoctor:1", "resources": ("nvidia.com/gpu=8",), **given})


@pytest.mark.parametrize("nodes", [(), ("--nodes", "gpu[01-03]")])
def test_the_manifests_meet_their_schema(nodes: tuple[str, ...]) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate has the schemas")
    words = ("--image", "registry.example/gpudoctor:1", "--resource", "nvidia.com/gpu=8", "--selector", "pool=train")
    done = gpudoctor("fleet", "check", "--on", "kubernetes", *words, *nodes, "--dry-run")
    made = yaml.safe_load(done.stdout)
    assert made["kind"] == ("Job" if nodes else "DaemonSet")
    validate.validate(made, "1.33", strict=True)


def test_a_job_has_a_pod_on_each_node() -> None:
    from gpudoctor.fleet.engines.kubernetes_manifest import manifest

    job = manifest(order(nodes=("n1", "n2")), "fleet")["spec"]
    assert (job["completions"], job["parallelism"], job["completionMode"]) == (2, 2, "Indexed")
    affinity = job["template"]["spec"]["affinity"]
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["n1"], ["n2"]]
    (apart,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["labelSelector"]["matchLabels"] == job["template"]["metadata"]["labels"]


def test_a_wrong_resource_is_refused() -> None:
    words = ("--image", "i", "--resource", "nvidia.com/gpu: 8", "--dry-run")
    assert gpudoctor("fleet", "check", "--on", "kubernetes", *words).returncode == 2


def test_pods_are_read_and_removed(tmp_path: Path) -> None:
    def pod(name: str, node: str, state: dict[str, Any]) -> dict[str, Any]:
        status = {"containerStatuses": [{"name": "gpudoctor", "state": state}]}
        pending = {"conditions": [{"type": "PodScheduled", "message": "0/3 nodes: Insufficient nvidia.com/gpu"}]}
        return {
            "metadata": {"name": name},
            "spec": {"nodeName": node} if node else {},
            "status": status if node else pending,
        }

    pods = [pod("a", "n0", {"terminated": {}}), pod("b", "n1", {"terminated": {}}), pod("c", "", {})]
    (tmp_path / "pods.json").write_text(json.dumps({"items": pods}))
    described = {**os.environ, "GPUDOCTOR_GPU": "H100", "GPUDOCTOR_DRIVER": "580.82.07"}
    described.update(GPUDOCTOR_TORCH="2.9.1+cu128", GPUDOCTOR_PYTHON_VERSION="3.12", NODE_NAME="n0")
    (tmp_path / "a.log").write_text("\n".join(lines_of_check(("--level", "static"), 60.0, described)) + "\n")
    (tmp_path / "b.log").write_text("exec: gpudoctor: not found\n")
    (tmp_path / "kubectl").write_text(KUBECTL.format(folder=tmp_path))
    (tmp_path / "kubectl").chmod(0o755)
    done = gpudoctor(
        *("fleet", "check", "--on", "kubernetes", "--nodes", "n[0-2]", "--image", "i", "--format", "json"),
        *("--timeout", "5"),
        PATH=f"{tmp_path}:{os.environ['PATH']}",
    )
    verdicts, why, code = told(done)
    assert (verdicts, code) == ({"n0": "ok", "n1": "unknown", "n2": "unknown"}, 3)
    assert "not found" in why["n1"] and "Insufficient nvidia.com/gpu" in why["n2"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0].startswith("apply") and calls[-1].startswith("delete --wait=false")


# --- any other engine -------------------------------------------------------------------------------------


def test_what_any_engine_printed_is_read_from_stdin(tmp_path: Path) -> None:
    import subprocess

    lines = "\n".join(lines_of_check(("--level", "static"), 60.0, {**os.environ, "NODE_NAME": "n1"}))
    words = ("fleet", "check", "--on", "stdin", "--nodes", "n1,n2", "--format", "json")
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", *words],
        input=f"n1: {lines}\n", capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    verdicts, why, code = told(done)
    assert verdicts["n1"] != "unknown" and why == {"n2": "no answer came from it"} and code == 3
