"""What is wrong with the network of one node already: variables that match nothing, ports, MTU, limits, GPUDirect."""

from __future__ import annotations

from typing import Any

import pytest

from gpudoctor.finding import Finding, LoadModule, Manual, UnsetVariable
from gpudoctor.machine import (
    Board,
    Interface,
    Machine,
    NvidiaApi,
    NvmlDevice,
    RdmaDevice,
    SettingsFile,
    absent,
    known,
    unknown,
)
from gpudoctor.testing import check_result
from tests.support.machines import amd_machine, change, nvidia_gpu, nvidia_machine, torch, with_stack, with_system
from tests.support.networks import NO_RDMA, efa, infiniband, roce, with_limit, with_network

H100 = nvidia_gpu("NVIDIA H100 80GB HBM3", "sm_90", datacenter=True)
DOCKER = "docker"


def machine(
    *devices: RdmaDevice, interfaces: dict[str, int] | None = None, container: str = "", **parts: Any
) -> Machine:
    """An H100 with these RDMA devices; other words are variables."""
    variables = {name: value for name, value in parts.items() if name.isupper()}
    rest = {name: value for name, value in parts.items() if not name.isupper()}
    own = nvidia_machine(H100, variables=variables, container=container or None, **rest)
    return with_network(own, *devices, interfaces=interfaces)


def only(slug: str, found: Machine) -> Finding:
    (one,) = check_result(slug, found).findings
    return one


def silent(slug: str, found: Machine) -> bool:
    return not check_result(slug, found).findings


# --- NCCL_SOCKET_IFNAME ------------------------------------------------------------------------------

INTERFACES = {"lo": 65536, "eth0": 1500, "bond0": 9000, "bond0.100": 9000, "ib0": 2044}


@pytest.mark.parametrize(
    "value",
    [
        "ens",
        "=eth",
        "ens3,enp",
        "=ETH0",
        " eth0",
        "^lo,eth,bond,ib",
        "=bond0.200",
        "enp24s0np0:1",
        "^=lo,eth0,bond0,bond0.100,ib0",
    ],
)
def test_a_value_that_leaves_no_interface(value: str) -> None:
    found = only("nccl-interface-missing", machine(interfaces=INTERFACES, NCCL_SOCKET_IFNAME=value))
    assert (found.severity, found.saw) == ("warning", f"NCCL_SOCKET_IFNAME={value}")
    assert found.fixes[0].remedies == (
        UnsetVariable("NCCL_SOCKET_IFNAME", why="NCCL then chooses an interface itself"),
    )


@pytest.mark.parametrize(
    "value",
    [
        *("eth", "eth0", "=eth0", "ens,eth", "=eth1,eth0", "^docker", "^=lo", "^ens", "bond0.", "=bond0.100", "ib"),
        *("", "x", "lo", "eth0:1", ",eth0", "eth0,"),  # a single character does not count
    ],
)
def test_a_value_that_leaves_one(value: str) -> None:
    assert silent("nccl-interface-missing", machine(interfaces=INTERFACES, NCCL_SOCKET_IFNAME=value))


def test_a_blank_in_the_list_is_told() -> None:
    found = only("nccl-interface-missing", machine(interfaces=INTERFACES, NCCL_SOCKET_IFNAME="ens3, eth0"))
    assert "takes the blank in it as part of a name" in found.message


def test_gloo_names_interfaces_exactly() -> None:
    assert silent("nccl-interface-missing", machine(interfaces=INTERFACES, GLOO_SOCKET_IFNAME="eth0"))
    assert (
        "Gloo"
        in only("nccl-interface-missing", machine(interfaces=INTERFACES, GLOO_SOCKET_IFNAME="eth"))
        .fixes[0]
        .remedies[0]
        .why
    )  # type: ignore[union-attr]


def test_interfaces_that_are_down_do_not_count_and_unknown_states_do() -> None:
    def with_state(state: str) -> Machine:
        own = machine(NCCL_SOCKET_IFNAME="eth")
        found = known((Interface("lo", 65536, "unknown"), Interface("eth0", 1500, state)), "/sys/class/net")
        return change(own, network=change(own.network, interfaces=found))

    assert "down" in only("nccl-interface-missing", with_state("down")).message
    assert silent("nccl-interface-missing", with_state("unknown"))
    assert silent("nccl-interface-missing", with_state(""))


def test_without_interfaces_or_gpus_nothing_is_said() -> None:
    own = machine(NCCL_SOCKET_IFNAME="ens")
    assert silent("nccl-interface-missing", change(own, network=change(own.network, interfaces=unknown("not read"))))
    assert silent("nccl-interface-missing", change(own, gpus=()))


def test_a_file_of_nccl_counts_where_the_environment_sets_nothing() -> None:
    def filed(**variables: str) -> Machine:
        own = machine(interfaces=INTERFACES, **variables)
        file = SettingsFile("/etc/nccl.conf", {"NCCL_SOCKET_IFNAME": "ens"})
        return change(own, network=change(own.network, settings=(file,)))

    found = only("nccl-interface-missing", filed())
    (remedy,) = found.fixes[0].remedies
    assert "/etc/nccl.conf" in found.message
    assert isinstance(remedy, Manual)
    assert "NCCL_SOCKET_IFNAME=ens" in remedy.text
    assert silent("nccl-interface-missing", filed(NCCL_SOCKET_IFNAME="eth"))


# --- NCCL_IB_HCA -------------------------------------------------------------------------------------

TWO = (infiniband("mlx5_0"), infiniband("mlx5_1"))


@pytest.mark.parametrize("value", ["=mlx5", "mlx5_2", "mlx5_0:2,mlx5_1:2", "=mlx5_2,bnxt_re0", "irdma", " mlx5_0"])
def test_a_list_that_matches_no_port(value: str) -> None:
    found = only("nccl-rdma-device-missing", machine(*TWO, NCCL_IB_HCA=value))
    assert (found.severity, found.fixes[0].title) == ("warning", "Unset NCCL_IB_HCA")


@pytest.mark.parametrize(
    "value",
    [
        "mlx5",
        "mlx5_0",
        "=mlx5_0:1",
        "mlx5_1:1",
        "=mlx5_0::0:0",
        "=mlx5_0:1:0:0,mlx5_1:1:0:1",
        "^mlx5",
        "^=mlx5_1",
        "",
    ],
)
def test_a_list_that_leaves_a_port_or_only_excludes(value: str) -> None:
    assert silent("nccl-rdma-device-missing", machine(*TWO, NCCL_IB_HCA=value))


def test_a_list_for_several_kinds_of_nodes_is_a_note() -> None:
    found = only("nccl-rdma-device-missing", machine(*TWO, NCCL_IB_HCA="mlx5_0,mlx5_1,bnxt_re0"))
    assert (found.severity, "bnxt_re0" in found.message) == ("note", True)


def test_ports_that_are_down_are_no_ports() -> None:
    found = only("nccl-rdma-device-missing", machine(infiniband(state="DOWN"), NCCL_IB_HCA="mlx5_0"))
    assert found.severity == "warning"
    assert "not active" in found.message


def test_no_device_at_all() -> None:
    found = only("nccl-rdma-device-missing", machine(NCCL_IB_HCA="mlx5"))
    assert (found.severity, "there are none here" in found.message) == ("warning", True)
    inside = only("nccl-rdma-device-missing", machine(NCCL_IB_HCA="mlx5", container=DOCKER))
    assert inside.severity == "note"
    hidden = with_network(nvidia_machine(H100, container=DOCKER, variables={"NCCL_IB_HCA": "mlx5"}))
    unseen = change(hidden, network=change(hidden.network, rdma=unknown("no sysfs")))
    assert silent("nccl-rdma-device-missing", unseen)


def test_a_container_that_was_not_given_the_nodes() -> None:
    own = machine(change(infiniband(), node=False), NCCL_IB_HCA="mlx5_0", container=DOCKER)
    found = only("nccl-rdma-device-missing", own)
    assert (found.severity, "/dev/infiniband" in found.message) == ("note", True)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"NCCL_IB_DISABLE": "1"},
        {"NCCL_NET": "Socket"},
        {"NCCL_NET": "AWS Libfabric"},
        {"NCCL_NET_PLUGIN": "fasttrak"},
    ],
)
def test_a_network_that_nccl_does_not_use_itself(elsewhere: dict[str, str]) -> None:
    assert silent("nccl-rdma-device-missing", machine(*TWO, NCCL_IB_HCA="=x", **elsewhere))


def test_on_aws_the_plugin_chooses() -> None:
    assert silent("nccl-rdma-device-missing", machine(efa(), NCCL_IB_HCA="mlx5", FI_PROVIDER="efa"))


# --- NCCL_IB_GID_INDEX -------------------------------------------------------------------------------


def test_an_index_without_a_gid() -> None:
    found = only("nccl-gid-index-wrong", machine(roce(), NCCL_IB_GID_INDEX="5"))
    assert (found.severity, found.fixes[0].title) == ("warning", "Unset NCCL_IB_GID_INDEX")
    assert "index 5 is no GID of mlx5_0" in found.message


def test_an_index_of_roce_v1() -> None:
    assert "RoCE v1" in only("nccl-gid-index-wrong", machine(roce(), NCCL_IB_GID_INDEX="2")).message
    assert silent("nccl-gid-index-wrong", machine(roce(), NCCL_IB_GID_INDEX="2", NCCL_IB_ROCE_VERSION_NUM="1"))
    assert silent("nccl-gid-index-wrong", machine(roce(roce_v2=()), NCCL_IB_GID_INDEX="2"))


def test_an_older_nccl_needs_the_right_index() -> None:
    own = machine(roce(), NCCL_IB_GID_INDEX="5", packages={"nvidia-nccl-cu12": "2.20.5"})
    found = only("nccl-gid-index-wrong", own)
    (remedy,) = found.fixes[0].remedies
    assert isinstance(remedy, Manual)
    assert "show_gids" in remedy.text
    assert found.want == "a GID of RoCE v2: 1, 3"
    old = machine(roce(), NCCL_IB_GID_INDEX="5", torch=torch("2.4.1+cu121"))
    assert isinstance(only("nccl-gid-index-wrong", old).fixes[0].remedies[0], Manual)


@pytest.mark.parametrize("value", ["3", "1", "-1", "", "auto"])
def test_an_index_that_works_or_says_nothing(value: str) -> None:
    assert silent("nccl-gid-index-wrong", machine(roce(), NCCL_IB_GID_INDEX=value))


def test_infiniband_unread_tables_and_excluded_ports_are_not_judged() -> None:
    assert silent("nccl-gid-index-wrong", machine(infiniband(), NCCL_IB_GID_INDEX="3"))
    assert silent("nccl-gid-index-wrong", machine(roce(roce_v1=(), roce_v2=()), NCCL_IB_GID_INDEX="3"))
    storage = roce("mlx5_9", roce_v1=(0,), roce_v2=(1,))
    assert silent("nccl-gid-index-wrong", machine(roce(), storage, NCCL_IB_GID_INDEX="3", NCCL_IB_HCA="=mlx5_0"))
    assert not silent("nccl-gid-index-wrong", machine(roce(), storage, NCCL_IB_GID_INDEX="3"))


# --- ports and MTU -----------------------------------------------------------------------------------


def rail(count: int, **last: Any) -> tuple[RdmaDevice, ...]:
    return (*(infiniband(f"mlx5_{place}") for place in range(count - 1)), infiniband(f"mlx5_{count - 1}", **last))


def test_a_port_that_a_variable_names_is_down() -> None:
    own = machine(*rail(4, state="DOWN", physical="Polling"), NCCL_IB_HCA="=mlx5_0,mlx5_1,mlx5_2,mlx5_3")
    found = only("rdma-port-down", own)
    assert (found.severity, found.subject) == ("warning", "RDMA port mlx5_3")


def test_one_of_many_that_is_down_is_a_note_and_spare_ports_are_none() -> None:
    assert only("rdma-port-down", machine(*rail(8, state="DOWN", physical="Polling"))).severity == "note"
    assert silent("rdma-port-down", machine(*rail(8, state="DOWN", physical="Disabled")))
    spare = (*rail(8), infiniband("mlx5_8", state="DOWN"), infiniband("mlx5_9", state="DOWN"))
    assert silent("rdma-port-down", machine(*spare)), "a DGX has storage ports without cables"
    assert silent("rdma-port-down", machine(*spare, NCCL_IB_HCA="mlx5")), "a prefix names no port"
    other = change(infiniband("mlx5_8", state="DOWN"), board="MT_0000000884")
    assert silent("rdma-port-down", machine(*rail(8), other))


def test_a_port_without_a_subnet_manager() -> None:
    assert only("rdma-port-down", machine(infiniband(state="INIT"))).severity == "warning"
    assert only("rdma-port-down", machine(infiniband(), infiniband("mlx5_1", state="INIT"))).severity == "note"
    assert silent("rdma-port-down", machine(roce(state="INIT")))


ROCE = tuple(roce(f"mlx5_{place}") for place in range(4))


def mtus(*values: int) -> dict[str, int]:
    return {f"eth_mlx5_{place}": value for place, value in enumerate(values)}


def test_one_mtu_differs() -> None:
    listed = machine(*ROCE, interfaces=mtus(9000, 9000, 1500, 9000), NCCL_IB_HCA="=mlx5_0,mlx5_1,mlx5_2")
    found = only("rdma-mtu-differs", listed)
    assert (found.severity, found.subject) == ("warning", "RDMA port mlx5_2")
    assert only("rdma-mtu-differs", machine(*ROCE, interfaces=mtus(9000, 9000, 1500, 9000))).severity == "note"


def test_mtus_that_may_differ() -> None:
    assert silent("rdma-mtu-differs", machine(*ROCE, interfaces=mtus(9000, 9000, 9000, 9000)))
    assert silent("rdma-mtu-differs", machine(*ROCE, interfaces=mtus(9000, 9000, 1500, 1500))), "two networks"
    assert silent("rdma-mtu-differs", machine(*ROCE, interfaces=mtus(9000, 9000, 9000))), "one is not seen"
    slow = roce("mlx5_4", rate="25 Gb/sec (1X EDR)")
    assert silent("rdma-mtu-differs", machine(*ROCE, slow, interfaces=mtus(9000, 9000, 9000, 9000, 1500)))
    assert silent("rdma-mtu-differs", machine(*TWO, interfaces={"ib0": 2044, "ib1": 4092}))


# --- limits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [64 << 10, 8 << 20, 64 << 20])
def test_the_default_limits_are_too_small_for_infiniband(limit: int) -> None:
    found = only("rdma-memlock-small", with_limit(machine(infiniband()), limit))
    assert found.severity == "warning"
    inside = only("rdma-memlock-small", with_limit(machine(infiniband(), container=DOCKER), limit))
    assert "--ulimit memlock=-1" in inside.fixes[0].remedies[0].text  # type: ignore[union-attr]


def test_efa_needs_it_too_and_roce_alone_is_a_note() -> None:
    assert only("rdma-memlock-small", with_limit(machine(efa()), 8 << 20)).severity == "warning"
    assert only("rdma-memlock-small", with_limit(machine(roce()), 8 << 20)).severity == "note"
    assert only("rdma-memlock-small", with_limit(machine(roce(), NCCL_IB_HCA="mlx5"), 8 << 20)).severity == "warning"


def test_a_mistaken_list_of_devices_hides_no_other_problem() -> None:
    own = without_peermem(
        machine(infiniband(), NCCL_IB_HCA="=mlx5_7", NCCL_NET_GDR_LEVEL="PHB", flavour="proprietary")
    )
    assert not silent("rdma-memlock-small", with_limit(own, 8 << 20))
    assert not silent("gpudirect-unavailable", own)
    chosen = machine(infiniband(), NCCL_IB_HCA="^mlx5")
    assert silent("rdma-memlock-small", with_limit(chosen, 8 << 20)), "a list that excludes is a choice"


def test_limits_that_are_enough_or_do_not_count() -> None:
    ib = machine(infiniband())
    assert silent("rdma-memlock-small", with_limit(ib, None))
    assert silent("rdma-memlock-small", with_limit(ib, 1 << 30))
    assert silent("rdma-memlock-small", with_limit(ib, 8 << 20, locks_any_memory=True)), "Kubernetes with IPC_LOCK"
    assert silent("rdma-memlock-small", with_limit(machine(), 8 << 20))
    assert silent("rdma-memlock-small", with_limit(machine(infiniband(state="DOWN")), 8 << 20))
    assert silent("rdma-memlock-small", with_limit(machine(change(infiniband(), node=False)), 64 << 10))
    assert silent("rdma-memlock-small", with_limit(machine(infiniband(), NCCL_IB_DISABLE="1"), 8 << 20))
    assert silent("rdma-memlock-small", ib), "limits that nobody read"


# --- GPUDirect ---------------------------------------------------------------------------------------


def without_peermem(own: Machine, *modules: str, dma_buf: bool | None = None) -> Machine:
    device = NvmlDevice(index=0, dma_buf=dma_buf)
    cuda = unknown("not asked") if dma_buf is None else known(NvidiaApi(status=0, devices=(device,)), "libcuda.so.1")
    return with_stack(own, gpudirect_modules=known(modules, "/proc/modules"), cuda=cuda)


def test_gpudirect_is_asked_for_and_cannot_be_had() -> None:
    own = machine(infiniband(), NCCL_NET_GDR_LEVEL="PHB", flavour="proprietary")
    found = only("gpudirect-unavailable", without_peermem(own))
    assert (found.severity, found.fixes[0].remedies[0]) == (
        "warning",
        LoadModule("nvidia_peermem", why="it gives RDMA devices the GPUs' memory"),
    )
    told = machine(infiniband(), NCCL_NET_GDR_READ="1")
    assert only("gpudirect-unavailable", without_peermem(told, dma_buf=False)).severity == "warning"
    off = machine(infiniband(), NCCL_NET_GDR_LEVEL="SYS", NCCL_DMABUF_ENABLE="0")
    assert only("gpudirect-unavailable", without_peermem(off, dma_buf=True)).severity == "warning"


def test_nobody_asks_for_it() -> None:
    own = machine(infiniband(), flavour="proprietary")
    assert only("gpudirect-unavailable", without_peermem(own)).severity == "note"
    workstation = with_network(nvidia_machine(flavour="proprietary"), roce())
    assert silent("gpudirect-unavailable", without_peermem(workstation))
    never = machine(infiniband(), NCCL_NET_GDR_LEVEL="LOC", flavour="proprietary")
    assert only("gpudirect-unavailable", without_peermem(never)).severity == "note"


def test_gpudirect_that_works_or_is_not_known() -> None:
    asks = {"NCCL_NET_GDR_LEVEL": "PHB", "flavour": "proprietary"}
    assert silent("gpudirect-unavailable", without_peermem(machine(infiniband(), **asks), "nvidia_peermem"))
    assert silent("gpudirect-unavailable", without_peermem(machine(infiniband(), **asks), "nv_peer_mem"))
    assert not silent("gpudirect-unavailable", without_peermem(machine(infiniband(), **asks), "gdrdrv"))
    assert silent("gpudirect-unavailable", without_peermem(machine(infiniband(), **asks), dma_buf=True))
    assert silent("gpudirect-unavailable", without_peermem(machine(infiniband(), NCCL_NET_GDR_LEVEL="PHB")))
    assert silent("gpudirect-unavailable", without_peermem(machine(efa(), **asks)))
    assert silent("gpudirect-unavailable", without_peermem(machine(**asks)))
    assert silent("gpudirect-unavailable", machine(infiniband(), **asks)), "modules that nobody read"
    amd = with_network(amd_machine(variables={"NCCL_NET_GDR_LEVEL": "PHB"}), infiniband())
    assert silent("gpudirect-unavailable", amd)


# --- links between the GPUs --------------------------------------------------------------------------


def linked(*up: int | None, switches: int = 0, **device: Any) -> Machine:
    gpus = []
    for place, count in enumerate(up):
        nvml = NvmlDevice(index=place, board=Board(links=18, links_up=count), **device)
        gpus.append(
            change(H100, index=place, bdf=f"0000:{place:02x}:00.0", nodes=(f"/dev/nvidia{place}",), nvml=nvml)
        )
    own = nvidia_machine(*gpus)
    return with_stack(own, fabric=change(own.nvidia.fabric, switches=known(switches, "/sys/bus/pci/devices")))


def test_nvlinks_that_are_down() -> None:
    found = only("nvlink-down", linked(18, 18, 17, 18))
    assert (found.severity, found.device and found.device.index) == ("warning", 2)
    assert only("nvlink-down", linked(*[18] * 7, 0, switches=4)).severity == "warning"


@pytest.mark.parametrize(
    "healthy",
    [
        linked(18, 18, 18),
        linked(12, 12, 0, 0),  # bridges between some of them
        linked(4, 4, 4, 0),
        linked(18, 17),  # two accuse nobody
        linked(18, 18, 17, 17),
        linked(None, None, None),
        linked(18, 18, 18, 0, switches=4, mig=True),
    ],
)
def test_nvlinks_as_they_may_be(healthy: Machine) -> None:
    assert silent("nvlink-down", healthy)


def test_acs_is_a_note_for_gpus_that_talk_over_pcie() -> None:
    def bridged(own: Machine, **system: Any) -> Machine:
        return with_system(own, acs=known(("0000:00:01.0",), "/sys/bus/pci/devices"), **system)

    two = nvidia_machine(nvidia_gpu(), nvidia_gpu(index=1, bdf="0000:02:00.0", nodes=("/dev/nvidia1",)))
    assert only("pcie-acs-redirects", bridged(two)).severity == "note"
    assert silent("pcie-acs-redirects", bridged(nvidia_machine()))
    assert silent("pcie-acs-redirects", bridged(linked(18, 18)))
    assert not silent("pcie-acs-redirects", bridged(with_network(linked(18, 18), infiniband())))
    assert silent("pcie-acs-redirects", bridged(two, virtual_machine=known("kvm", "dmi")))
    apart = (NvmlDevice(index=0, peers=()), NvmlDevice(index=1, peers=()))
    cuda = known(NvidiaApi(status=0, devices=apart), "libcuda.so.1")
    assert silent("pcie-acs-redirects", with_stack(bridged(two), cuda=cuda)), "GeForce GPUs do not reach each other"
    assert silent("pcie-acs-redirects", with_system(two, acs=known((), "/sys/bus/pci/devices")))


def test_rccl_reads_its_own_file() -> None:
    file = SettingsFile("/etc/rccl.conf", {"NCCL_SOCKET_IFNAME": "ens"})
    for own, said in ((amd_machine(), True), (nvidia_machine(H100), False)):
        network = with_network(own, interfaces=INTERFACES)
        filed = change(network, network=change(network.network, settings=(file,)))
        assert silent("nccl-interface-missing", filed) is not said


def test_a_healthy_node_has_nothing_of_this() -> None:
    assert NO_RDMA.absent
    slugs = (
        *("nccl-interface-missing", "nccl-rdma-device-missing", "nccl-gid-index-wrong", "rdma-port-down"),
        *("rdma-mtu-differs", "rdma-memlock-small", "gpudirect-unavailable", "nvlink-down", "pcie-acs-redirects"),
    )
    healthy = with_limit(without_peermem(machine(*rail(8), NCCL_SOCKET_IFNAME="eth"), "nvidia_peermem"), None)
    bare = with_system(nvidia_machine(H100), acs=absent("/sys"))
    assert all(silent(slug, own) for slug in slugs for own in (healthy, bare, nvidia_machine(), amd_machine()))
