"""Whole recorded machines of which a GPU is required: the healthy ones pass, and what is missing is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hosts import Host, slugs
from tests.test_hosts_healthy import SETUPS, arch_of_gpu, one_gpu_of_eight_granted

WITHOUT_A_GPU = {
    "prime select integrated",
    "vfio host",
    "slurm cpu task",
    "ray cpu task",
    "distribution torch for cpu without a gpu",
    "no gpu and no torch",
    "no gpu and a cpu build",
}
"""Healthy as they are, and nothing for a job that needs a GPU."""


@pytest.mark.parametrize("name", SETUPS)
def test_a_healthy_machine_passes_where_it_has_a_gpu(name: str, tmp_path: Path) -> None:
    report = SETUPS[name](Host(tmp_path, arch=arch_of_gpu(name))).check("--require", "gpu>=1")
    assert (report["verdict"], report["exit_code"]) == (("error", 1) if name in WITHOUT_A_GPU else ("ok", 0))


@pytest.mark.parametrize("name", ["ngc image", "kubernetes operator with cdi", "one gpu of eight granted"])
def test_the_same_container_without_the_uvm_node_does_not_pass(name: str, tmp_path: Path) -> None:
    host = SETUPS[name](Host(tmp_path))
    host.json["nodes"].pop("/dev/nvidia-uvm")
    host.remove("/dev/nvidia-uvm")
    report = host.check("--require", "gpu>=1")
    assert slugs(report, "error")[0] == "nvidia-uvm-missing"
    assert "/dev/nvidia-uvm" in report["findings"][0]["message"]


def test_the_gpus_that_were_not_granted_do_not_count(tmp_path: Path) -> None:
    report = one_gpu_of_eight_granted(Host(tmp_path)).check("--require", "gpu==8")
    assert slugs(report, "error") == ["requirement-not-met"]
