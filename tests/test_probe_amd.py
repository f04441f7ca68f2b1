"""The AMD stack from files, and rocminfo's text. Values are those that real machines show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import AmdStack, System, known
from gpudoctor.probes.amd_answers import ask_hsa, parse_rocminfo
from gpudoctor.probes.amd_files import gfx_of, probe_amd
from gpudoctor.probes.pci import probe_pci

NODES = "/sys/class/kfd/kfd/topology/nodes"
GIB = 1 << 30

# RX 6700 XT.
NAVI22 = """\
cpu_cores_count 0
simd_count 80
mem_banks_count 1
gfx_target_version 100301
vendor_id 4098
device_id 29663
location_id 768
domain 0
drm_render_minor 128
local_mem_size 0
fw_version 115
unique_id 0
"""
CPU = "cpu_cores_count 24\nsimd_count 0\ngfx_target_version 0\nvendor_id 0\ndevice_id 0\nlocation_id 0\n"


def write(root: Path, path: str, content: str = "") -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)


def stack(root: Path) -> AmdStack:
    host = RecordedHost(root)
    return probe_amd(host, probe_pci(host), System(kernel=known("6.8.0-60-generic", "uname")))


@pytest.mark.parametrize(
    ("number", "gfx"),
    [
        (90000, "gfx900"),
        (90006, "gfx906"),
        (90008, "gfx908"),
        (90010, "gfx90a"),
        (90012, "gfx90c"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (100100, "gfx1010"),
        (100301, "gfx1031"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
        (80003, "gfx803"),
        (0, None),
        (1 << 40, None),
        (100399, None),
    ],
)
def test_target_of_a_version_number(number: int, gfx: str | None) -> None:
    assert gfx_of(number) == gfx


@given(st.integers(6, 99), st.integers(0, 9), st.integers(0, 15))
def test_every_target_number_reads_back(major: int, minor: int, stepping: int) -> None:
    gfx = gfx_of(major * 10000 + minor * 100 + stepping)
    assert gfx == f"gfx{major}{minor}{stepping:x}"


def test_a_gpu_beside_a_processor(tmp_path: Path) -> None:
    write(tmp_path, f"{NODES}/0/properties", CPU)
    write(tmp_path, f"{NODES}/1/properties", NAVI22)
    write(tmp_path, f"{NODES}/1/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {12 * GIB}\nflags 0\n")
    write(tmp_path, f"{NODES}/1/io_links/0/properties", "type 2\nnode_from 1\nnode_to 0\n")
    for link in (1, 2):
        write(tmp_path, f"{NODES}/1/io_links/{link}/properties", f"type 11\nnode_from 1\nnode_to {link + 1}\n")
    cpu, gpu = stack(tmp_path).topology.value or ()
    assert (cpu.gfx, cpu.bdf, cpu.pci_id) == (None, None, None)
    assert (gpu.node, gpu.gfx, gpu.bdf) == (1, "gfx1031", "0000:03:00.0")
    assert (gpu.pci_id, gpu.render_minor, gpu.memory) == ("1002:73df", 128, 12 * GIB)
    assert (gpu.simd_count, gpu.xgmi_links) == (80, 2)


def test_node_numbers_may_have_gaps_and_are_counted_as_numbers(tmp_path: Path) -> None:
    for number in (1, 10, 2):
        write(tmp_path, f"{NODES}/{number}/properties", NAVI22)
    assert [node.node for node in stack(tmp_path).topology.value or ()] == [1, 2, 10]


def test_a_partitioned_gpu_in_another_domain(tmp_path: Path) -> None:
    properties = (
        "simd_count 80\ngfx_target_version 90402\nvendor_id 4098\ndevice_id 29858\nlocation_id 3067\ndomain 1\n"
    )
    write(tmp_path, f"{NODES}/21/properties", properties)
    (node,) = stack(tmp_path).topology.value or ()
    assert (node.gfx, node.bdf, node.pci_id) == ("gfx942", "0001:0b:1f.3", "1002:74a2")


def test_an_old_kernel_tells_no_target(tmp_path: Path) -> None:
    write(tmp_path, f"{NODES}/1/properties", NAVI22.replace("gfx_target_version 100301\n", ""))
    (node,) = stack(tmp_path).topology.value or ()
    assert (node.gfx, node.simd_count, node.bdf) == (None, 80, "0000:03:00.0")


def test_a_node_that_the_cgroup_hides(tmp_path: Path) -> None:
    write(tmp_path, f"{NODES}/0/properties", CPU)
    write(tmp_path, f"{NODES}/1/properties", "")
    nodes = {f"{NODES}/1/properties": {"open": "EPERM"}}
    write(tmp_path, "/gpudoctor-host.json", json.dumps({"nodes": nodes}))
    assert [node.readable for node in stack(tmp_path).topology.value or ()] == [True, False]


@pytest.mark.parametrize("content", ["", "simd_count x\n", "simd_count 99999999999999999999999999\n\0\xff"])
def test_garbage_in_a_node_is_a_node_without_facts(tmp_path: Path, content: str) -> None:
    write(tmp_path, f"{NODES}/1/properties", content)
    (node,) = stack(tmp_path).topology.value or ()
    assert (node.gfx, node.simd_count) == (None, 0)


def test_no_kfd_tree_is_unknown_without_sysfs_and_absent_with_it(tmp_path: Path) -> None:
    assert stack(tmp_path).topology.state == "unknown"
    for folder in ("bus", "class", "devices", "kernel", "module"):
        (tmp_path / "sys" / folder).mkdir(parents=True)
    assert stack(tmp_path).topology.state == "absent"


def test_the_module_of_the_kernel_and_of_dkms(tmp_path: Path) -> None:
    assert stack(tmp_path).module.state == "unknown"
    write(tmp_path, "/proc/modules", "amdgpu 1 0 - Live 0x0\n")
    assert stack(tmp_path).module.value == "in-tree"
    write(tmp_path, "/sys/module/amdgpu/version", "6.12.12\n")
    assert stack(tmp_path).module.value == "6.12.12"


def test_nodes_are_opened_and_others_makers_left_out(tmp_path: Path) -> None:
    for name in ("renderD128", "renderD129", "card0"):
        write(tmp_path, f"/dev/dri/{name}")
    write(tmp_path, "/sys/class/drm/renderD128/device/vendor", "0x10de\n")
    nodes = {"/dev/kfd": {"mode": "0660", "uid": 0, "gid": 109, "open": "EACCES"}}
    write(tmp_path, "/gpudoctor-host.json", json.dumps({"nodes": nodes}))
    found = stack(tmp_path)
    assert [node.path for node in found.render_nodes.value or ()] == ["/dev/dri/renderD129"]
    assert found.kfd.value is not None
    assert (found.kfd.value.opened, found.kfd.value.gid) == ("EACCES", 109)


def test_a_missing_kfd_node(tmp_path: Path) -> None:
    assert stack(tmp_path).kfd.state == "unknown"
    write(tmp_path, "/dev/null")
    assert stack(tmp_path).kfd.state == "absent"


def test_rocm_of_the_system(tmp_path: Path) -> None:
    assert stack(tmp_path).rocm.state == "unknown"
    write(tmp_path, "/opt/rocm-6.4.1/.info/version", "6.4.1-83\n")
    (tmp_path / "opt/rocm").symlink_to("rocm-6.4.1")
    write(tmp_path, "/opt/rocm-7.0.2/.info/version-utils", "7.0.2\n")
    write(tmp_path, "/opt/ollama/lib/rocm/.info/version", "5.7.0\n")
    found = {install.path: install.version for install in stack(tmp_path).rocm.value or ()}
    assert found == {"/opt/rocm": "6.4.1", "/opt/rocm-7.0.2": "7.0.2"}


def test_rocm_of_a_module_system_and_of_the_distribution(tmp_path: Path) -> None:
    write(tmp_path, "/opt/other")
    write(tmp_path, "/appl/rocm/6.2.0/.info/version", "6.2.0-66")
    host = RecordedHost(tmp_path, {"ROCM_PATH": "/appl/rocm/6.2.0"})
    assert [install.version for install in probe_amd(host, probe_pci(host), System()).rocm.value or ()] == ["6.2.0"]
    write(tmp_path, f"{NODES}/1/properties", NAVI22)
    status = "Package: libhsa-runtime64-1\nStatus: install ok installed\nVersion: 5.7.1-2build1\n"
    write(tmp_path, "/var/lib/dpkg/status", status)
    assert [(i.version, i.path) for i in stack(tmp_path).rocm.value or ()] == [("5.7.1", "/usr")]


def test_the_firmware_package_where_there_is_a_gpu(tmp_path: Path) -> None:
    status = "Package: linux-firmware\nStatus: install ok installed\nVersion: 20240318.git3b128b60-0ubuntu2.15\n"
    write(tmp_path, "/var/lib/dpkg/status", status)
    assert stack(tmp_path).firmware_package.state == "unknown"
    write(tmp_path, f"{NODES}/1/properties", NAVI22)
    assert stack(tmp_path).firmware_package.value == "20240318.git3b128b60-0ubuntu2.15"


# --- rocminfo --------------------------------------------------------------------------------------

ROCMINFO = """\
ROCk module is loaded
=====================
HSA System Attributes
=====================
Runtime Version:         1.15
==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD Ryzen 9 9900X 12-Core Processor
  Marketing Name:          AMD Ryzen 9 9900X 12-Core Processor
  Device Type:             CPU
  Chip ID:                 0(0x0)
  BDFID:                   0
  ISA Info:
*******
Agent 2
*******
  Name:                    gfx1201
  Marketing Name:          AMD Radeon Graphics
  Vendor Name:             AMD
  Device Type:             GPU
  Cache Info:
    L1:                      32(0x20) KB
  Chip ID:                 30032(0x7550)
  BDFID:                   768
  Packet Processor uCode:: 58
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx1201
      Fast f16:                TRUE
    ISA 2
      Name:                    amdgcn-amd-amdhsa--gfx12-generic
*** Done ***
"""


def test_agents_of_rocminfo() -> None:
    api = parse_rocminfo(ROCMINFO)
    assert api is not None
    cpu, gpu = api.agents
    assert (cpu.kind, cpu.isa, cpu.bdf, cpu.pci_id) == ("cpu", (), None, None)
    assert (gpu.kind, gpu.name, gpu.isa) == ("gpu", "gfx1201", ("gfx1201", "gfx12-generic"))
    assert (gpu.bdf, gpu.pci_id, gpu.product) == ("0000:03:00.0", "1002:7550", "AMD Radeon Graphics")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("ROCk module is loaded\nUnable to open /dev/kfd read-write: Permission denied\n", 0x1000),
        ("ROCk module is NOT loaded, possibly no GPU devices\n", 0x1000),
        (
            "Unable to open /dev/kfd read-write: Cannot allocate memory\n"
            "Call returned HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate",
            0x1008,
        ),
    ],
)
def test_refusals_of_rocminfo(text: str, status: int) -> None:
    api = parse_rocminfo(text)
    assert api is not None
    assert (api.status, api.agents) == (status, ())
    assert api.message


@given(st.text(max_size=200), st.integers(0, 900))
def test_no_text_breaks_the_rocminfo_reader(noise: str, cut: int) -> None:
    for text in (ROCMINFO[:cut] + noise, noise + ROCMINFO[cut:]):
        api = parse_rocminfo(text)
        gpus = [agent for agent in api.agents if agent.kind == "gpu"] if api else []
        assert [gpu.pci_id for gpu in gpus] in ([], [None], ["1002:7550"])


def test_recorded_rocminfo_is_read(tmp_path: Path) -> None:
    assert ask_hsa(RecordedHost(tmp_path), load_path=_nothing()).state == "unknown"
    write(tmp_path, "/gpudoctor-host.json", json.dumps({"commands": {"rocminfo": {"stdout": ROCMINFO}}}))
    api = ask_hsa(RecordedHost(tmp_path), load_path=_nothing()).value
    assert api is not None
    assert len(api.agents) == 2


def _nothing():  # type: ignore[no-untyped-def]
    from gpudoctor.machine import LoadPath

    return LoadPath()
