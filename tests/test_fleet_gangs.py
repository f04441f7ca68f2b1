"""`gpudoctor fleet check` on a real Ray cluster, and inside a real torchrun; skipped without these."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.made_fleet import MadeFleet, told

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def ray_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, MadeFleet, list[Any]]]:
    utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
    fleet = MadeFleet(tmp_path_factory.mktemp("ray") / "fleet", "good", "dies", "hangs")
    cluster, nodes = utils.Cluster(), []
    with pytest.MonkeyPatch.context() as patch:
        # One GPU is visible on the node. Ray takes it from a task that asks for none; the check must see it.
        patch.setenv("CUDA_VISIBLE_DEVICES", "0")
        for node in fleet.nodes:
            patch.setenv("GPUDOCTOR_TEST_NODE", node)
            nodes.append(cluster.add_node(num_cpus=1, node_name=node))
    yield cluster, fleet, nodes
    cluster.shutdown()


def by_ray(cluster: Any, fleet: MadeFleet, *more: str) -> tuple[dict[str, str], dict[str, str], int]:
    words = ("--on", "ray", "--engine-arg", cluster.address, "--program", str(fleet.program), "--level", "static")
    command = [sys.executable, "-m", "gpudoctor", "fleet", "check", *words, "--format", "json", "--timeout", "30"]
    return told(subprocess.run([*command, *more], capture_output=True, text=True, check=False, timeout=120))


def test_ray_brings_each_node_to_account(ray_fleet: tuple[Any, MadeFleet, list[Any]], tmp_path: Path) -> None:
    cluster, fleet, nodes = ray_fleet
    verdicts, why, code = by_ray(cluster, fleet, "--keep", str(tmp_path / "kept"))
    assert (verdicts, code) == ({"n0": "ok", "n1": "unknown", "n2": "unknown"}, 3)
    assert "exit code -9" in why["n1"] and "no answer within 30 s" in why["n2"]
    kept = json.loads((tmp_path / "kept" / "n0.json").read_text())
    assert '"CUDA_VISIBLE_DEVICES":"0"' in json.dumps(kept["machine"], separators=(",", ":"))
    cluster.remove_node(nodes[2], allow_graceful=False)
    deadline = time.monotonic() + 60
    while "Ray lost the node" not in by_ray(cluster, fleet, "--nodes", "n2", "--timeout", "5")[1]["n2"]:
        assert time.monotonic() < deadline


def test_torchrun_brings_each_node_to_account() -> None:
    python = os.environ.get("GPUDOCTOR_TEST_PYTHON")
    if not python:
        pytest.skip("GPUDOCTOR_TEST_PYTHON names no Python with torch")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    path = os.pathsep.join((str(REPOSITORY), *(entry for entry in sys.path if entry.endswith("-packages"))))
    described = {"GPUDOCTOR_GPU": "H100", "GPUDOCTOR_DRIVER": "580.82.07", "GPUDOCTOR_TORCH": "2.9.1+cu128"}
    agents = []
    for node, torch in {"n0": "2.9.1+cu128", "n1": "2.9.1+cpu"}.items():
        argv = [python, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
        argv += ["--rdzv-backend", "c10d", "--rdzv-endpoint", place, "-m", "gpudoctor", "fleet", "check"]
        argv += ["--on", "torchrun", "--level", "static", "--format", "json", "--fail-on", "never"]
        environ = {**os.environ, **described, "GPUDOCTOR_TORCH": torch, "NODE_NAME": node, "PYTHONPATH": path}
        agents.append(subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    printed = [agent.communicate(timeout=240) for agent in agents]
    # One process of four tells: the first rank of the first node.
    (report,) = [json.loads(out) for out, _ in printed if out]
    assert {node["name"]: "GPD405" in node["problems"] for node in report["nodes"]} == {"n0": False, "n1": True}
