"""What libcuda makes when it starts: modules and device nodes that are missing before, and for whom it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudoctor.finding import Manual
from gpudoctor.machine import Fact, InstalledModule, Level, NvidiaApi, absent, known, unknown
from gpudoctor.testing import change, check_result, nvidia_gpu, nvidia_machine
from tests.support.hosts import Host, first_fix

NODES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm")
HELPER = "/usr/bin/nvidia-modprobe"


def system(path: Path, *, root: bool = False, helper: bool = False) -> Host:
    host = Host(path).ubuntu().torch("2.9.1+cu128").file("/usr/bin/env", b"\x7fELF")
    if root:
        host.json["user"] = {"uid": 0, "gids": [0]}
    return host.file(HELPER, b"\x7fELF") if helper else host


def gpu_host(path: Path, *, missing: tuple[str, ...] = (), **options: bool) -> Host:
    host = system(path, **options).nvidia_gpu("2684").nvidia_driver("580.95.05")
    for node in missing:
        host.json["nodes"].pop(node)
        host.remove(node)
    return host


@pytest.mark.parametrize("missing", [NODES, NODES[2:]])
def test_nodes_that_nothing_makes_for_this_user_are_an_error(tmp_path, missing):
    report = gpu_host(tmp_path, missing=missing).check()
    assert [(f["slug"], f["severity"]) for f in report["findings"]] == [("nvidia-uvm-missing", "error")]
    assert "nvidia-modprobe" in first_fix(report)


def test_a_helper_without_its_rights_is_not_told_to_be_installed():
    machine = nvidia_machine(nvidia_gpu())
    nodes = known(tuple(node for node in machine.nvidia.nodes.value or () if node.path not in NODES), "/dev")
    nvidia = change(machine.nvidia, nodes=nodes, modprobe=known(False, HELPER))
    (found,) = check_result("nvidia-uvm-missing", change(machine, nvidia=nvidia)).findings
    assert "has lost its rights" in found.message
    (remedy,) = found.fixes[0].remedies
    assert isinstance(remedy, Manual) and f"chmod u+s {HELPER}" in remedy.text


@pytest.mark.parametrize("missing", [NODES, NODES[2:]])
@pytest.mark.parametrize("who", ["root", "helper"])
def test_nodes_that_the_first_program_makes_are_no_fault(tmp_path, missing, who):
    report = gpu_host(tmp_path, missing=missing, **{who: True}).check()
    assert (report["verdict"], report["findings"]) == ("ok", [])


def test_without_any_need_for_it_nobody_misses_the_helper(tmp_path):
    assert gpu_host(tmp_path).check()["findings"] == []


@pytest.mark.parametrize("torch", ["2.9.1+cu128", None])
def test_nobody_misses_it_where_a_virtual_machine_has_the_gpu(tmp_path, torch):
    host = Host(tmp_path).ubuntu().file("/usr/bin/env", b"\x7fELF").nvidia_gpu("2684", driver="vfio-pci")
    host.nvidia_driver("580.95.05")
    for node in NODES[1:]:
        host.json["nodes"].pop(node)
        host.remove(node)
    report = (host.torch(torch) if torch else host).check()
    assert "nvidia-uvm-missing" not in [f["slug"] for f in report["findings"]]
    assert report["exit_code"] == (1 if torch else 0)


def test_nobody_misses_it_where_another_vendors_gpu_does_the_work(tmp_path):
    host = Host(tmp_path).ubuntu().file("/usr/bin/env", b"\x7fELF").torch("2.9.1+rocm6.4")
    host.nvidia_gpu("1f82").nvidia_driver("580.95.05").amd_gpu("744c", 110000, "0000:08:00.0")
    host.json["nodes"].pop("/dev/nvidia-uvm")
    report = host.remove("/dev/nvidia-uvm").check()
    assert report["verdict"] == "ok"


def test_a_recording_without_programs_does_not_tell_whether_it_is_there(tmp_path):
    assert gpu_host(tmp_path, missing=NODES).remove("/usr/bin/env").check()["findings"] == []


def unloaded(path: Path, **options: bool) -> Host:
    host = system(path, **options).nvidia_gpu("2684", driver=None).nvidia_libraries("580.95.05")
    return host.file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"version=580.95.05\0")


@pytest.mark.parametrize("who", ["root", "helper"])
def test_a_module_that_the_first_program_loads_is_not_judged_by_files(tmp_path, who):
    report = unloaded(tmp_path, **{who: True}).check()
    assert (report["verdict"], report["exit_code"], report["findings"]) == ("unknown", 3, [])
    assert any(question["matters"] and "loads it" in question["why"] for question in report["not_judged"])


@pytest.mark.parametrize(
    ("level", "cuda", "userland"),
    [
        ("driver", absent("libcuda.so.1"), known("580.95.05", "load path")),
        ("driver", unknown("cuInit: gave no answer"), known("580.95.05", "load path")),
        ("static", unknown("not probed"), absent("load path")),
    ],
)
def test_a_module_that_cuda_did_not_load_or_cannot_is_an_error(
    level: Level, cuda: Fact[NvidiaApi], userland: Fact[str]
):
    machine = nvidia_machine(nvidia_gpu(driver=absent("/sys"), nodes=()))
    file = InstalledModule("nvidia", machine.system.kernel.value or "", "/lib/modules/nvidia.ko", "580.95.05")
    nvidia = change(
        machine.nvidia,
        module=absent("/proc/modules"),
        modules_loaded=known((), "/proc/modules"),
        modules_installed=known((file,), "/lib/modules"),
        modprobe=known(True, HELPER),
        cuda=unknown("not probed"),
    )
    machine = change(machine, nvidia=nvidia, level="static")
    assert check_result("no-driver", machine).findings == ()
    asked = change(machine, nvidia=change(nvidia, cuda=cuda, userland=userland), level=level)
    (found,) = check_result("no-driver", asked).findings
    assert (found.severity, found.fixes[0].title) == ("error", "Load the kernel module")


@pytest.mark.parametrize("required", ["gpu>=1", "sm>=8.0", "p2p", "same-model", "gpu.memory>=8GiB"])
@pytest.mark.parametrize(("helper", "verdict"), [(True, "unknown"), (False, "error")])
def test_what_is_required_of_a_gpu_is_as_open_as_its_module(tmp_path, required, helper, verdict):
    report = unloaded(tmp_path, helper=helper).check("--require", required)
    assert report["verdict"] == verdict
    assert [f["slug"] for f in report["findings"]] == ([] if helper else ["no-driver"])


def test_a_module_that_nothing_loads_is_an_error(tmp_path):
    report = unloaded(tmp_path).check()
    assert [(f["slug"], f["severity"]) for f in report["findings"]] == [("no-driver", "error")]
    assert first_fix(report) == "modprobe nvidia"


def test_a_rule_against_the_module_counts_all_the_same(tmp_path):
    report = unloaded(tmp_path, helper=True).file("/etc/modprobe.d/no.conf", "install nvidia /bin/false\n").check()
    assert report["findings"][0]["slug"] == "module-blacklisted" and report["verdict"] == "error"


@pytest.mark.parametrize(("helper", "verdict"), [(True, "unknown"), (False, "error")])
def test_a_plain_blacklist_stops_no_program_that_loads_the_module_by_its_name(tmp_path, helper, verdict):
    report = unloaded(tmp_path, helper=helper).file("/etc/modprobe.d/no.conf", "blacklist nvidia\n").check()
    assert report["verdict"] == verdict
    assert [f["slug"] for f in report["findings"]] == ([] if helper else ["module-blacklisted"])


@pytest.mark.parametrize(
    ("ids", "verdict"), [("0 1000 1\n1 100000 65536\n", "error"), ("0 0 4294967295\n", "unknown")]
)
def test_the_root_of_a_rootless_container_makes_no_nodes(tmp_path, ids, verdict):
    host = gpu_host(tmp_path, root=True, missing=NODES).docker().file("/proc/self/uid_map", ids)
    table = host.path("/proc/self/mountinfo").read_text()
    for number, library in enumerate(("libcuda", "libnvidia-ml")):
        place = f"{host.lib}/{library}.so.580.95.05"
        table += f"60{number} 500 259:2 {place} {place} ro - ext4 /dev/nvme0n1p2 ro\n"
    host.file("/proc/self/mountinfo", table)
    report = host.check()
    assert report["verdict"] == verdict
    assert [f["slug"] for f in report["findings"] if f["severity"] == "error"] == (
        ["container-no-gpu"] if verdict == "error" else []
    )


def test_a_driver_version_that_only_the_module_tells(tmp_path):
    """The banner in /proc cannot be read: the update without a reboot is seen all the same."""
    host = Host(tmp_path).ubuntu().nvidia_gpu("2684").nvidia_driver("570.133.07", libraries="580.95.05")
    report = host.file("/proc/driver/nvidia/version", "NVRM version: ?\n").torch("2.9.1+cu128").check()
    assert report["findings"][0]["slug"] == "driver-lib-mismatch" and report["verdict"] == "error"
    report = host.file("/sys/module/nvidia/version", "?\n").check()
    assert (report["verdict"], report["findings"]) == ("unknown", [])


@pytest.mark.parametrize(("torch", "hip", "slugs"), [("rocm6.4", None, []), ("rocm7.14", "7.14.0", ["error"])])
def test_the_driver_of_rocm_6_3_is_known_by_its_number(tmp_path, torch, hip, slugs):
    host = Host(tmp_path).ubuntu("22.04").amd_gpu("74a1", 90402, revision="0x00")
    host.file("/sys/module/amdgpu/version", "6.10.5\n").torch(f"2.14.1+{torch}", hip=hip)
    found = [f["severity"] for f in host.check()["findings"] if f["slug"] == "rocm-version-mismatch"]
    assert found == slugs
