"""The visibility model: which GPUs faults may be judged on."""

from __future__ import annotations

import pytest

from gpudoctor.machine import DeviceNode, KfdNode, NvmlDevice, absent, known
from gpudoctor.situation.usable_gpus import standings, usable_count
from gpudoctor.situation.visibility import select
from tests.support.machines import amd_gpu, amd_machine, change, nvidia_gpu, nvidia_machine, with_stack

FOUR = tuple(nvidia_gpu(index=n) for n in range(4))


def usable(machine):
    return [standing.gpu.index for standing in standings(machine) if standing.usable]


def test_healthy_gpus_are_usable():
    assert usable(nvidia_machine(*FOUR)) == [0, 1, 2, 3]
    assert usable(amd_machine(amd_gpu(), amd_gpu(index=1))) == [0, 1]


@pytest.mark.parametrize("driver", ["vfio-pci", "nouveau", "nova_core"])
def test_a_gpu_that_another_kernel_driver_holds_is_not_usable(driver):
    held = nvidia_gpu(index=1, driver=known(driver, "driver"))
    assert usable(nvidia_machine(nvidia_gpu(), held)) == [0]


def test_a_container_sees_the_whole_bus_but_uses_only_granted_gpus():
    machine = nvidia_machine(*FOUR, container="docker")
    granted = [DeviceNode(path=p, opened="ok") for p in ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia2")]
    assert usable(with_stack(machine, nodes=known(tuple(granted), "/dev"))) == [2]


def test_a_container_without_any_gpu_node_has_no_usable_gpu():
    machine = nvidia_machine(*FOUR, container="docker")
    assert usable(with_stack(machine, nodes=absent("/dev"))) == []


def test_nodes_not_made_yet_on_bare_metal_take_no_gpu_away():
    assert usable(with_stack(nvidia_machine(*FOUR), nodes=known((), "/dev"))) == [0, 1, 2, 3]


def test_a_refused_control_node_makes_every_gpu_unusable():
    nodes = (DeviceNode(path="/dev/nvidiactl", opened="EPERM"), DeviceNode(path="/dev/nvidia0", opened="ok"))
    assert usable(with_stack(nvidia_machine(), nodes=known(nodes, "/dev"))) == []


def test_a_hidden_kfd_node_is_a_gpu_that_was_not_granted():
    machine = amd_machine(amd_gpu(), amd_gpu(index=1), container="docker")
    nodes = (KfdNode(node=0), KfdNode(node=1, gfx="gfx1100"), KfdNode(node=2, readable=False))
    assert usable(with_stack(machine, topology=known(nodes, "kfd"))) == [0]


def test_what_nvml_lists_is_granted_and_bound_even_if_files_do_not_tell():
    gpu = nvidia_gpu(driver=absent("driver"), nvml=NvmlDevice(index=0))
    assert usable(nvidia_machine(gpu)) == [0]


@pytest.mark.parametrize(
    ("value", "left"),
    [("", []), ("-1", []), ("NoDevFiles", []), ("1,3", [1, 3]), ("0,9,1", [0]), ("3", [3]), ("0, 2", [0, 2])],
)
def test_cuda_visible_devices_ends_at_the_first_entry_that_names_no_gpu(value, left):
    assert usable(nvidia_machine(*FOUR, variables={"CUDA_VISIBLE_DEVICES": value})) == left


@pytest.mark.parametrize("name", ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
def test_hip_takes_an_empty_variable_for_unset(name):
    assert usable(amd_machine(variables={name: ""})) == [0]


def test_rocr_takes_an_empty_variable_for_no_gpu():
    assert usable(amd_machine(variables={"ROCR_VISIBLE_DEVICES": ""})) == []


def test_in_a_job_indexes_count_the_gpus_that_its_device_cgroup_lets_open():
    nodes = [DeviceNode(path="/dev/nvidiactl", opened="ok")]
    nodes += [DeviceNode(path=f"/dev/nvidia{n}", opened="ok" if n == 3 else "EPERM") for n in range(4)]
    job = nvidia_machine(*FOUR, variables={"CUDA_VISIBLE_DEVICES": "0"})
    assert usable(with_stack(job, nodes=known(tuple(nodes), "/dev"))) == [3]


def test_hip_counts_within_what_rocr_left():
    gpus = tuple(amd_gpu(index=n) for n in range(3))
    assert usable(amd_machine(*gpus, variables={"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"})) == [2]


def test_hip_visible_devices_goes_before_the_cuda_name():
    gpus = tuple(amd_gpu(index=n) for n in range(2))
    both = {"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}
    assert usable(amd_machine(*gpus, variables=both)) == [1]


def test_an_index_among_different_gpus_is_uncertain_unless_cuda_counts_by_bus():
    gpus = (nvidia_gpu("A", "sm_86"), nvidia_gpu("B", "sm_61", index=1))
    chosen = {"CUDA_VISIBLE_DEVICES": "0"}
    assert [s.selected for s in standings(nvidia_machine(*gpus, variables=chosen))] == ["unknown", "unknown"]
    by_bus = {**chosen, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert [s.selected for s in standings(nvidia_machine(*gpus, variables=by_bus))] == ["yes", "no"]


def test_a_uuid_selects_its_gpu_and_an_unknown_one_selects_none():
    gpus = tuple(change(nvidia_gpu(index=n), uuid=f"GPU-{n}aaa-bbbb") for n in range(2))
    assert [gpu.index for gpu in select("GPU-1aaa", gpus).gpus] == [1]
    assert select("GPU-9", gpus).invalid == ("GPU-9",)


def test_uuids_that_are_not_known_leave_the_selection_open():
    machine = nvidia_machine(*FOUR, variables={"CUDA_VISIBLE_DEVICES": "GPU-12ab"})
    assert usable(machine) == [0, 1, 2, 3]


def shared_out(opened: list[str], *, vendor: str = "nvidia", **variables: str):
    """A container with nodes of which none is known to be a certain GPU's; the bus shows four GPUs."""
    if vendor == "nvidia":
        gpus = tuple(change(gpu, nodes=()) for gpu in FOUR)
        nodes = tuple(DeviceNode(path=f"/dev/nvidia{n}", opened=answer) for n, answer in enumerate(opened))
        control = DeviceNode(path="/dev/nvidiactl", opened="ok")
        machine = nvidia_machine(*gpus, container="docker", variables=variables)
        return with_stack(machine, nodes=known((control, *nodes), "/dev"))
    gpus = tuple(change(amd_gpu(index=n), nodes=()) for n in range(4))
    nodes = tuple(DeviceNode(path=f"/dev/dri/renderD{128 + n}", opened=answer) for n, answer in enumerate(opened))
    machine = amd_machine(*gpus, container="docker", variables=variables)
    return with_stack(machine, render_nodes=known(nodes, "/dev/dri"))


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
@pytest.mark.parametrize(
    ("opened", "count"),
    [
        (["ok"], 1),
        (["ok"] * 3, 3),
        (["ok"] * 4, 4),
        (["ok"] * 5, 4),
        (["ok", "EPERM", "ok", "EACCES"], 2),
        (["EPERM"] * 4, 0),
        (["ok", "ENOENT"], 1),
        ([], 0),
    ],
)
def test_no_more_gpus_count_than_nodes_open(vendor: str, opened: list[str], count: int):
    assert usable_count(shared_out(opened, vendor=vendor)) == count


@pytest.mark.parametrize(("value", "count"), [("0", 1), ("0,1", 2), ("0,1,2", 2), ("3", 0), ("", 0), ("1,0", 2)])
def test_a_variable_chooses_among_the_gpus_of_the_nodes(value: str, count: int):
    assert usable_count(shared_out(["ok", "ok"], CUDA_VISIBLE_DEVICES=value)) == count


@pytest.mark.parametrize(("value", "count"), [("GPU-12ab", 1), ("GPU-12ab,GPU-34cd", 2), ("1,1", 0), ("0,9", 1)])
def test_a_variable_chooses_no_more_gpus_than_it_has_entries(value: str, count: int):
    assert usable_count(nvidia_machine(*FOUR, variables={"CUDA_VISIBLE_DEVICES": value})) == count


H100 = "GPU-22bbc255-3abd-c0fb-c666-55caff3b3a4b"


# What the driver answered to each value: 580.159.04 on a machine with one H100, 26 November 2026.
@pytest.mark.parametrize(
    "value",
    [
        *(
            "0,",
            "0,,0",
            "0,1",
            "00",
            "+0",
            "-0",
            "0.5",
            "0a",
            "0 1",
            "0;1",
            "0:1",
            "\t0",
            "0\n",
            "0x0",
            "0x1",
            "0,-1",
        ),
        *("0-7", "0..1", H100, H100[:5], H100[:8], H100 + "x", H100 + ",1", "GPU-" + H100[4:].upper()),
    ],
)
def test_values_with_which_cuda_shows_the_one_gpu(value: str):
    assert select(value, (nvidia_gpu(uuid=H100),)).gpus


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            " ",
            ",",
            ",0",
            "1,0",
            "0,0",
            "0,00",
            "a0",
            "'0'",
            '"0"',
            "1",
            "-1",
            "99999999999999999999",
            "NoDevFiles",
        ),
        *(
            "none",
            "all",
            "cuda:0",
            "[0]",
            "{0}",
            "GPU-",
            "GPU",
            "gpu" + H100[3:],
            f"{H100},{H100}",
            " " + H100,
            "$GPU",
        ),
        "\u06f0",
    ],
)
def test_values_with_which_cuda_shows_no_gpu(value: str):
    assert not select(value, (nvidia_gpu(uuid=H100),)).gpus
