"""RDMA devices, interfaces and NCCL's files, read from recorded machines; nothing private is kept."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from gpudoctor.host import LiveHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import Interface, Network, RdmaDevice, RdmaPort
from gpudoctor.probes.network import probe_network
from gpudoctor.probes.variables import probe_variables
from tests.support.hosts import Host

IB, NET = "/sys/class/infiniband", "/sys/class/net"
GUID, GID = "5c25:7303:00f2:1ab0", "fe80:0000:0000:0000:5e25:73ff:fef2:1ab0"


def device(
    host: Host, name: str, link_layer: str, *, board: str = "", driver: str = "mlx5_core", **port: str
) -> Host:
    """A device as the kernel lists it; the values are those of real adapters."""
    folder = f"{IB}/{name}"
    host.file(f"{folder}/fw_ver", port.pop("firmware", "28.41.1000") + "\n")
    if board:
        host.file(f"{folder}/board_id", board + "\n")
    host.file(f"{folder}/node_guid", GUID + "\n").file(f"{folder}/node_desc", "node17 HCA-1\n")
    host.file(f"{folder}/device/uevent", f"DRIVER={driver}\nPCI_ID=15B3:1021\nPCI_SLOT_NAME=0000:18:00.0\n")
    active = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}
    files = {**active, "link_layer": link_layer, **port}
    for file, value in files.items():
        host.file(f"{folder}/ports/1/{file}", value + "\n")
    number = len(list(host.path(IB).iterdir())) - 1
    host.file(f"/sys/class/infiniband_verbs/uverbs{number}/ibdev", name + "\n")
    return host.file(f"/dev/infiniband/uverbs{number}")


def gids(host: Host, name: str, *kinds: str, interface: str = "enp24s0np0") -> Host:
    """The first entries of a GID table; an empty one is a file that cannot be read, or holds nothing."""
    for index, kind in enumerate(kinds):
        port = f"{IB}/{name}/ports/1"
        host.file(f"{port}/gids/{index}", GID + "\n").file(f"{port}/gid_attrs/types/{index}", f"{kind}\n")
        host.file(f"{port}/gid_attrs/ndevs/{index}", interface + "\n")
    return host


def read(host: Host) -> Network:
    host.file("/gpudoctor-host.json", json.dumps(host.json))
    return probe_network(RecordedHost(str(host.root)))


def devices(host: Host) -> tuple[RdmaDevice, ...]:
    return read(host).rdma.value or ()


def test_an_infiniband_adapter_of_a_dgx(tmp_path: Path) -> None:
    host = device(Host(tmp_path).ubuntu(), "mlx5_0", "InfiniBand", board="MT_0000000838")
    gids(host, "mlx5_0", "IB/RoCE v1")
    port = RdmaPort(number=1, state="ACTIVE", physical="LinkUp", rate="400 Gb/sec (4X NDR)", link_layer="InfiniBand")
    assert devices(host) == (
        RdmaDevice(
            name="mlx5_0", driver="mlx5_core", bdf="0000:18:00.0", board="MT_0000000838", firmware="28.41.1000",
            node=True, ports=(port,),
        ),
    )  # fmt: skip


def test_the_gid_table_of_roce_by_kind_and_the_interface(tmp_path: Path) -> None:
    host = device(Host(tmp_path).ubuntu(), "mlx5_bond_0", "Ethernet", board="MT_0000000884")
    gids(host, "mlx5_bond_0", "IB/RoCE v1", "RoCE v2", "IB/RoCE v1", "RoCE v2", "", "RoCE v2", interface="bond0")
    host.file(f"{NET}/bond0/mtu", "9000\n").file(f"{NET}/bond0/operstate", "up\n")
    network = read(host)
    (one,) = network.rdma.value or ()
    assert (one.ports[0].roce_v1, one.ports[0].roce_v2) == ((0, 2), (1, 3, 5))
    assert one.ports[0].interface == "bond0"
    assert network.interfaces.value == (Interface("bond0", 9000, "up"),)


def test_an_index_far_up_in_the_table_is_read_if_a_variable_names_it(tmp_path: Path) -> None:
    host = device(Host(tmp_path).ubuntu(), "mlx5_0", "Ethernet")
    gids(host, "mlx5_0", "IB/RoCE v1", "RoCE v2").file(f"{IB}/mlx5_0/ports/1/gid_attrs/types/101", "RoCE v2\n")
    assert devices(host)[0].ports[0].roce_v2 == (1,)
    host.environ(HOME="/root").file("/root/.nccl.conf", "NCCL_IB_GID_INDEX=101\n")
    host.file("/etc/nccl.conf", "NCCL_IB_GID_INDEX=102\n")
    assert devices(host)[0].ports[0].roce_v2 == (1, 101)
    assert devices(host.environ(NCCL_IB_GID_INDEX="1"))[0].ports[0].roce_v2 == (1,)


def test_efa_and_omni_path(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu()
    device(host, "rdmap0s6", "Unknown", driver="efa", firmware="0.0.0.0", rate="100 Gb/sec (4X EDR)")
    board = "HPE 100Gb 1-port OP101 QSFP28 x16 PCIe Gen3 with Intel Omni-Path Adapter"
    device(host, "hfi1_0", "InfiniBand", driver="hfi1", firmware="1.27.0", board=board)
    omni_path, efa = devices(host)
    assert (omni_path.name, omni_path.board, omni_path.is_efa) == ("hfi1_0", board, False)
    assert (efa.is_efa, efa.ports[0].link_layer, efa.ports[0].roce_v2) == (True, "Unknown", ())


def test_a_container_without_the_nodes_and_a_port_that_waits(tmp_path: Path) -> None:
    host = device(Host(tmp_path).ubuntu(), "mlx5_0", "InfiniBand", state="2: INIT")
    host.path("/dev/infiniband/uverbs0").unlink()
    (one,) = devices(host)
    assert (one.node, one.ports[0].state, one.ports[0].active) == (False, "INIT", False)


def test_a_machine_without_rdma_and_a_recording_without_sysfs(tmp_path: Path) -> None:
    assert read(Host(tmp_path / "a").ubuntu()).rdma.absent
    bare = Host(tmp_path / "b")
    bare.file("/etc/os-release", "ID=ubuntu\n")
    assert read(bare).rdma.state == "unknown"


def test_interfaces_are_read_only_where_something_asks_for_them(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu().file(f"{NET}/ens3/mtu", "1500\n").file(f"{NET}/ens3/operstate", "up\n")
    host.file(f"{NET}/bonding_masters", "\n").file(f"{NET}/veth01/mtu", "1450\n")
    assert not read(host).interfaces.known
    asked = read(host.environ(NCCL_SOCKET_IFNAME="ens"))
    assert asked.interfaces.value == (Interface("ens3", 1500, "up"), Interface("veth01"))


def test_the_files_of_nccl_in_the_order_that_counts(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu().environ(HOME="/home/someone")
    host.file(
        "/etc/nccl.conf", "# a comment\nNCCL_IB_HCA==mlx5_0\nNCCL_DEBUG=WARN\nPATH=/x\nNCCL_COMM_ID=10.0.0.1:9\n"
    )
    host.file("/home/someone/.nccl.conf", "NCCL_IB_HCA=mlx5_1\n")
    own, system = read(host).settings
    assert (own.path, own.values) == ("/home/someone/.nccl.conf", {"NCCL_IB_HCA": "mlx5_1"})
    assert (system.path, system.values) == ("/etc/nccl.conf", {"NCCL_IB_HCA": "=mlx5_0", "NCCL_DEBUG": "WARN"})
    (only,) = read(host.environ(NCCL_CONF_FILE="/etc/nccl.conf")).settings[:1]
    assert only.path == "/etc/nccl.conf"


def test_no_guid_gid_address_or_host_name_reaches_the_record(tmp_path: Path) -> None:
    host = device(Host(tmp_path).ubuntu(), "mlx5_0", "Ethernet", board="MT_0000000838")
    gids(host, "mlx5_0", "IB/RoCE v1", "RoCE v2")
    host.file(f"{NET}/enp24s0np0/address", "5c:25:73:f2:1a:b0\n").file(f"{NET}/enp24s0np0/mtu", "9000\n")
    host.environ(NCCL_IB_HCA="=mlx5_0:1:0:0", NCCL_COMM_ID="10.1.2.3:4444", UCX_TCP_BRIDGE="192.168.7.1/24")
    host.environ(NCCL_HOSTID="node17", FI_EFA_SECRET_KEY="s3cr3t", FI_PROVIDER="efa", NCCL_RAS_ADDR="[fe80::1]:9")
    host.nvidia_gpu("2330").nvidia_driver("580.82.07")
    for words in ((), ("--private",)):
        machine = host.check(*words)["machine"]
        text = json.dumps(machine)
        for private in ("5c25", "5c:25", "fef2", "node17", "10.1.2.3", "192.168.7", "s3cr3t", "fe80"):
            assert private not in text, private
        assert machine["variables"] == {"FI_PROVIDER": "efa", "NCCL_IB_HCA": "=mlx5_0:1:0:0"}
        assert machine["network"]["rdma"]["value"][0]["firmware"] == "28.41.1000"


def test_a_list_of_devices_with_rails_is_no_address(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu().environ(NCCL_IB_HCA="=mlx5_0::0:0,mlx5_1:1:0:1", UCX_NET_DEVICES="mlx5_0:1")
    host.file("/gpudoctor-host.json", json.dumps(host.json))
    assert set(probe_variables(RecordedHost(str(tmp_path)))) == {"NCCL_IB_HCA", "UCX_NET_DEVICES"}


@pytest.mark.skipif(not Path(NET, "lo").exists(), reason="the interfaces of this system are not seen")
def test_the_interfaces_of_the_running_system() -> None:
    found = probe_network(LiveHost({"NCCL_SOCKET_IFNAME": "lo"})).interfaces.value or ()
    assert [one.mtu for one in found if one.name == "lo"] == [int(Path(NET, "lo/mtu").read_text())]


GARBAGE = (
    b"",
    b"\0" * 64,
    b"\xff\xfe\x00",
    b"-1\n",
    b"99999999999999999999\n",
    b":\n",
    b"4: \n",
    b"\x1b[31m\n",
    b"a" * 9000,
)


@pytest.mark.parametrize("seed", range(12))
def test_no_content_of_these_files_ends_the_run(tmp_path: Path, seed: int) -> None:
    host = Host(tmp_path).ubuntu().nvidia_gpu("2330").nvidia_driver("580.82.07").environ(NCCL_IB_GID_INDEX="3")
    for name in ("mlx5_0", "mlx5_1"):
        gids(device(host, name, "Ethernet", board="MT_0000000838"), name, "IB/RoCE v1", "RoCE v2", "", "RoCE v2")
    host.file(f"{NET}/enp24s0np0/mtu", "9000\n").file(f"{NET}/enp24s0np0/operstate", "up\n")
    host.file("/etc/nccl.conf", "NCCL_DEBUG=WARN\n").file(
        "/proc/self/limits", "Max locked memory  8388608  1  bytes\n"
    )
    host.file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
    chance = random.Random(seed)
    trees = ("sys/class/infiniband", "sys/class/infiniband_verbs", "sys/class/net", "sys/devices", "etc/nccl.conf")
    files = [file for tree in trees for file in sorted(host.path(tree).rglob("*")) or [host.path(tree)]]
    for file in files:
        if file.is_file() and chance.random() < 0.4:
            if chance.random() < 0.2:
                file.unlink()
                file.mkdir()
            else:
                file.write_bytes(chance.choice(GARBAGE))
    report = host.check()
    assert [row for row in report["not_judged"] if row["id"] in ("GPD901", "GPD902")] == []
