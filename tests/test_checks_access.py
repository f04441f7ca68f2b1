"""Containers, jobs, device nodes and visibility variables: GPD201 to GPD213."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpudoctor.finding import AddContainerFlags, JoinGroup, SetVariable, UnsetVariable
from gpudoctor.machine import (
    BatchJob,
    BlockedModule,
    DeviceNode,
    Jetson,
    KfdNode,
    Library,
    LoadPath,
    MigDevice,
    NvidiaApi,
    NvmlDevice,
    User,
    absent,
    known,
    unknown,
)
from tests.support.check_cases import below_torch, first, found, remedies, unanswered
from tests.support.machines import (
    LIB,
    amd_gpu,
    amd_machine,
    change,
    no_gpu_machine,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_stack,
    with_system,
)

EIGHT = tuple(nvidia_gpu("NVIDIA A100-SXM4-80GB", "sm_80", index=n) for n in range(8))
NO_NODES = known((), "/dev")


def node(path: str, opened: str = "ok", mode: int = 0o666, gid: int = 0) -> DeviceNode:
    return DeviceNode(path=path, opened=opened, mode=mode, uid=0, gid=gid)  # type: ignore[arg-type]


def nodes(*paths: str, **parts):
    return known(tuple(node(path, **parts) for path in paths), "/dev")


def granted(*numbers: int):
    return nodes("/dev/nvidiactl", "/dev/nvidia-uvm", *(f"/dev/nvidia{n}" for n in numbers))


def in_job(machine, kind: str = "slurm", gpus: int | None = None):
    return with_system(machine, job=known(BatchJob(kind=kind, gpus=gpus), "SLURM_JOB_ID"))


def cuda(status: int):
    return known(NvidiaApi(status=status), "libcuda")


# --- containers without a GPU ---


def test_a_container_without_the_nodes():
    machine = with_stack(nvidia_machine(container="docker"), nodes=NO_NODES)
    assert below_torch(machine) == [("container-no-gpu", "error")]
    assert first(machine).fixes[0].remedies == (AddContainerFlags("nvidia", why="torch is built for NVIDIA"),)


def test_root_gets_the_missing_nodes_from_libcuda():
    """The driver's README, "How and when are the NVIDIA device files created?": the user-space component makes them.
    Only a start of CUDA tells whether the device cgroup lets it."""
    container = with_stack(nvidia_machine(container="docker"), nodes=NO_NODES)
    root = with_system(container, user=User(uid=0, source="/proc/self/status"))
    assert below_torch(root) == []
    assert [question.matters for question in unanswered(root, "container-no-gpu")] == [True]
    assert below_torch(with_stack(root, cuda=cuda(0))) == []
    assert unanswered(with_stack(root, cuda=cuda(0)), "container-no-gpu") == []
    assert first(with_stack(root, cuda=cuda(100))).slug == "container-no-gpu"
    without_nodes = with_stack(root, nodes=absent("/dev"))
    assert below_torch(without_nodes) == []
    without_library = change(root, load_path=LoadPath(searched=("/lib",), complete=known(True, "load path")))
    assert first(without_library).slug == "container-no-gpu"


@pytest.mark.parametrize("asked", ["all", "0"])
def test_a_gpu_without_the_control_node_is_no_gpu(asked: str):
    """Nothing opens /dev/nvidia0 without /dev/nvidiactl; the libraries may lack as well."""
    machine = nvidia_machine(container="docker", variables={"NVIDIA_VISIBLE_DEVICES": asked})
    for load_path in (machine.load_path, LoadPath(searched=("/lib",), complete=known(True, "load path"))):
        node_alone = change(with_stack(machine, nodes=nodes("/dev/nvidia-uvm", "/dev/nvidia0")), load_path=load_path)
        assert below_torch(node_alone) == [("container-no-gpu", "error")]
        assert first(node_alone).saw == "/dev/nvidia0 without /dev/nvidiactl"


def test_a_container_that_shows_nothing_of_its_host():
    machine = no_gpu_machine(torch=torch(), container="docker", buses=unknown("no /sys/bus/pci"))
    assert [(f.slug, f.confidence) for f in found(machine, "container-no-gpu")] == [("container-no-gpu", "likely")]


def test_a_container_on_a_host_without_gpus_is_told_that_there_is_no_gpu():
    assert below_torch(no_gpu_machine(torch=torch(), container="docker")) == [("no-gpu", "error")]


@pytest.mark.parametrize("patient", [None, torch("2.13.0+cpu")])
def test_a_container_that_needs_no_gpu_gets_a_note(patient):
    machine = with_stack(nvidia_machine(container="docker", torch=patient), nodes=NO_NODES)
    assert below_torch(machine) == [("container-no-gpu", "note")]


@pytest.mark.parametrize("missing", ["kfd", "render_nodes"])
def test_a_container_with_half_of_amds_nodes_is_told_what_is_missing(missing):
    assert below_torch(amd_machine(container="docker", torch=None)) == []
    half = with_stack(amd_machine(container="docker", torch=None), **{missing: absent("/dev")})
    (note,) = found(half, "container-no-gpu")
    assert note.severity == "note" and "without /dev" in note.message
    assert [type(remedy).__name__ for remedy in note.fixes[0].remedies] == ["AddContainerFlags"]
    needed = with_stack(amd_machine(container="docker"), **{missing: absent("/dev")})
    assert below_torch(needed) == [("container-no-gpu", "error")]


def test_one_gpu_of_eight_granted_is_healthy():
    assert below_torch(with_stack(nvidia_machine(*EIGHT, container="docker"), nodes=granted(5))) == []


def test_void_of_cdi_and_operators_is_healthy_where_the_nodes_are():
    machine = nvidia_machine(container="kubernetes", variables={"NVIDIA_VISIBLE_DEVICES": "void"})
    assert below_torch(machine) == []


def test_a_container_in_wsl_has_dxg_and_no_nodes():
    wsl = with_system(nvidia_machine(container="docker"), wsl=known("5.15-microsoft-standard-WSL2", "uname"))
    assert below_torch(with_stack(wsl, nodes=nodes("/dev/dxg"), module=absent("proc"))) == []
    assert first(change(with_stack(wsl, nodes=NO_NODES, module=absent("proc")), gpus=())).slug == "container-no-gpu"


def test_a_container_on_a_jetson():
    orin = nvidia_gpu("Jetson AGX Orin", "sm_87", bdf=None, nodes=(), driver=known("nvgpu", "x"), integrated=True)
    machine = with_system(nvidia_machine(orin, container="docker"), jetson=known(Jetson(l4t="36.4.3"), "/proc"))
    assert below_torch(with_stack(machine, nodes=nodes("/dev/nvhost-gpu", "/dev/nvmap"))) == []
    assert below_torch(with_stack(machine, nodes=unknown("/dev cannot be read"))) == []
    without = with_stack(machine, nodes=nodes("/dev/null"))
    assert below_torch(without) == [("container-no-gpu", "error")]
    assert "`--runtime nvidia` gives" in first(change(without, environment=no_gpu_machine().environment)).message


def test_nodes_without_the_drivers_libraries():
    machine = change(nvidia_machine(container="docker"), load_path=LoadPath((), (LIB,), known(True, "ld.so.cache")))
    assert below_torch(machine) == [("container-no-gpu", "error")]
    graphics = change(machine, variables={"NVIDIA_DRIVER_CAPABILITIES": "graphics,utility"})
    assert first(graphics).fixes[0].remedies[0].wants == "utility"


def test_an_incomplete_load_path_proves_nothing():
    machine = change(nvidia_machine(container="docker"), load_path=LoadPath((), (LIB,), unknown("unreadable")))
    assert below_torch(machine) == []


@pytest.mark.parametrize(
    ("parts", "saw"),
    [
        ({"kfd": absent("/dev"), "render_nodes": NO_NODES}, "no GPU device nodes"),
        ({"render_nodes": NO_NODES}, "/dev/kfd without /dev/dri"),
        ({"kfd": absent("/dev")}, "/dev/dri without /dev/kfd"),
    ],
)
def test_an_amd_container_needs_kfd_and_a_render_node(parts, saw):
    machine = with_stack(amd_machine(container="docker"), **parts)
    assert below_torch(machine) == [("container-no-gpu", "error")]
    assert first(machine).saw == saw
    assert first(machine).fixes[0].remedies[0].wants == "amd"


def test_an_amd_container_with_one_of_two_gpus_is_healthy():
    machine = amd_machine(amd_gpu(), amd_gpu(index=1), container="docker")
    topology = known((KfdNode(node=0), KfdNode(node=1, gfx="gfx1100"), KfdNode(node=2, readable=False)), "kfd")
    one = with_stack(machine, render_nodes=nodes("/dev/dri/renderD128", mode=0o660, gid=992), topology=topology)
    assert below_torch(one) == []


def test_it_is_unknown_what_a_kfd_that_says_nothing_of_its_nodes_lists():
    silent = known((KfdNode(node=0), KfdNode(node=1, readable=False)), "kfd")
    machine = with_stack(amd_machine(torch=torch("2.9.1+rocm6.4")), topology=silent, hsa=unknown("not asked"))
    machine = change(machine, gpus=tuple(change(gpu, kfd_node=None) for gpu in machine.gpus))
    assert [one.matters for one in unanswered(machine, "amd-kfd-missing")] == [True]
    container = with_system(machine, container=known("docker", "/.dockerenv"))
    assert unanswered(container, "amd-kfd-missing") == []  # its nodes decide
    told = with_stack(machine, topology=known((KfdNode(node=0), KfdNode(node=1, gfx="gfx1100")), "kfd"))
    assert unanswered(told, "amd-kfd-missing") == []


def test_a_request_by_name_that_nobody_heard_points_at_the_hosts_toolkit():
    machine = nvidia_machine(container="kubernetes", variables={"NVIDIA_VISIBLE_DEVICES": "GPU-1f2e3d4c"})
    machine = with_stack(machine, nodes=NO_NODES)
    assert below_torch(machine) == [("container-toolkit-missing", "error")]
    assert first(machine).confidence == "likely"


@pytest.mark.parametrize("value", ["all", "void", "none", ""])
def test_what_images_and_cdi_set_is_no_request(value):
    machine = nvidia_machine(container="docker", variables={"NVIDIA_VISIBLE_DEVICES": value})
    assert first(with_stack(machine, nodes=NO_NODES)).slug == "container-no-gpu"


# --- the device cgroup ---


def test_nodes_that_the_device_cgroup_refuses():
    machine = nvidia_machine(container="docker")
    revoked = with_stack(machine, nodes=nodes("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", opened="EPERM"))
    assert below_torch(revoked) == [("container-cgroup-revoked", "error")]
    assert remedies(first(revoked)) == ["AddContainerFlags", "Manual"]


def test_kfd_that_the_device_cgroup_refuses():
    kfd = known(node("/dev/kfd", "EPERM"), "/dev/kfd")
    assert below_torch(with_stack(amd_machine(container="docker"), kfd=kfd)) == [
        ("container-cgroup-revoked", "error")
    ]


def test_refused_gpus_beside_a_granted_one_are_healthy():
    some = known(
        (node("/dev/nvidiactl"), node("/dev/nvidia-uvm"), node("/dev/nvidia0"), node("/dev/nvidia1", "EPERM")), "x"
    )
    assert below_torch(with_stack(nvidia_machine(*EIGHT[:2], container="docker"), nodes=some)) == []


def test_a_refused_shared_node_is_named_and_the_gpus_are_not():
    some = (node("/dev/nvidiactl"), node("/dev/nvidia-uvm", "EPERM"), node("/dev/nvidia0"))
    finding = first(with_stack(nvidia_machine(container="docker"), nodes=known(some, "/dev")))
    assert (finding.slug, finding.saw) == ("container-cgroup-revoked", "EPERM on /dev/nvidia-uvm")


def test_outside_containers_the_device_cgroup_is_not_blamed():
    refused = nodes("/dev/nvidiactl", "/dev/nvidia0", opened="EPERM")
    assert found(with_stack(nvidia_machine(), nodes=refused), "container-cgroup-revoked") == []


# --- libraries baked into an image ---


def baked(version: str, mounted: bool | None, kind: str = "image"):
    library = Library("libcuda.so.1", f"{LIB}/libcuda.so.{version}", version, kind, "ld.so.cache", mounted)  # type: ignore[arg-type]
    path = LoadPath((library,), (LIB,), known(True, "ld.so.cache"))
    machine = change(nvidia_machine(driver="580.95.05", container="docker"), load_path=path)
    return machine if kind == "compat" else with_stack(machine, userland=known(version, library.path))


def test_a_libcuda_of_the_image_that_is_not_the_hosts():
    machine = baked("550.54.15", False)
    assert below_torch(machine) == [("container-libcuda-baked-in", "error")]
    assert "550.54.15" in first(machine).message


def test_a_system_container_takes_the_libraries_of_the_hosts_version():
    machine = with_system(baked("550.54.15", False), container=known("lxc", "/run/systemd/container"))
    (remedy,) = first(machine).fixes[0].remedies
    assert "580.95.05.run --no-kernel-modules" in remedy.text
    assert "image" not in first(machine).message


@pytest.mark.parametrize(
    "machine",
    [
        baked("580.95.05", False),
        baked("590.48.01", False, "compat"),
        with_stack(baked("550.54.15", False), cuda=cuda(0)),
    ],
    ids=["the host's version", "cuda-compat", "a driver that answers"],
)
def test_harmless_libraries_of_an_image(machine):
    assert below_torch(machine) == []


def test_a_mounted_library_of_another_version_is_the_hosts_mismatch():
    assert [slug for slug, _ in below_torch(baked("550.54.15", True, "driver"))] == ["driver-lib-mismatch"]


# --- jobs ---


def test_a_job_that_says_it_has_no_gpu():
    machine = with_stack(in_job(nvidia_machine(*EIGHT), gpus=0), nodes=nodes("/dev/nvidiactl", opened="EPERM"))
    assert below_torch(machine) == [("job-without-gpu", "error")]
    assert "--gres=gpu:1" in first(machine).fixes[0].remedies[0].text


def test_a_job_on_a_machine_without_gpus():
    assert below_torch(in_job(no_gpu_machine(torch=torch()))) == [("job-without-gpu", "error")]


def test_slurms_no_dev_files():
    machine = in_job(nvidia_machine(variables={"CUDA_VISIBLE_DEVICES": "NoDevFiles"}), gpus=0)
    assert below_torch(machine)[0] == ("job-without-gpu", "error")


@pytest.mark.parametrize("kind", ["slurm", "ray"])
def test_a_cpu_task_is_at_most_a_note(kind):
    machine = in_job(nvidia_machine(variables={"CUDA_VISIBLE_DEVICES": ""}), kind, 0)
    assert below_torch(machine) == [("cuda-visible-devices", "note")]
    no_nodes = with_stack(machine, nodes=nodes("/dev/nvidiactl", "/dev/nvidia0", opened="EPERM"))
    assert "error" not in dict(below_torch(no_nodes)).values()


def test_a_job_with_its_gpu_is_healthy():
    some = [node("/dev/nvidiactl"), node("/dev/nvidia-uvm")]
    some += [node(f"/dev/nvidia{n}", "ok" if n == 3 else "EPERM") for n in range(8)]
    machine = in_job(nvidia_machine(*EIGHT, variables={"CUDA_VISIBLE_DEVICES": "0"}), gpus=1)
    assert below_torch(with_stack(machine, nodes=known(tuple(some), "/dev"))) == []


def test_a_second_mask_in_a_job_that_says_nothing_of_gpus_is_the_variables_fault():
    """Slurm's ROCR_VISIBLE_DEVICES leaves one GPU, which HIP counts from 0."""
    gpus = tuple(amd_gpu(index=n, bdf=f"0000:{n + 3:02x}:00.0", kfd_node=n + 1) for n in range(4))
    masks = {"ROCR_VISIBLE_DEVICES": "3", "HIP_VISIBLE_DEVICES": "3"}
    assert below_torch(in_job(amd_machine(*gpus, variables=masks))) == [("cuda-visible-devices", "error")]


def test_a_job_on_a_machine_whose_driver_is_gone_blames_the_driver():
    gpu = nvidia_gpu(driver=absent("driver"))
    machine = with_stack(nvidia_machine(gpu), module=absent("proc"), modules_loaded=known((), "proc"), nodes=NO_NODES)
    assert below_torch(in_job(machine)) == [("no-driver", "error")]


# --- permissions ---


def test_nvidia_nodes_of_a_group():
    machine = with_stack(
        nvidia_machine(), nodes=nodes("/dev/nvidiactl", "/dev/nvidia0", opened="EACCES", mode=0o660, gid=44)
    )
    machine = with_system(machine, user=User(uid=1000, gids=(1000,)))
    assert below_torch(machine) == [("gpu-device-permission", "error")]
    assert first(machine).fixes[0].remedies == (JoinGroup("video", why="it owns /dev/nvidiactl"),)


def test_nvidia_nodes_of_root_alone_are_opened_not_joined():
    machine = with_stack(nvidia_machine(), nodes=nodes("/dev/nvidiactl", opened="EACCES", mode=0o600, gid=0))
    assert "NVreg_DeviceFileMode" in first(machine).fixes[0].remedies[0].text


def test_one_closed_gpu_of_several_was_not_granted():
    some = known((node("/dev/nvidiactl"), node("/dev/nvidia0"), node("/dev/nvidia1", "EACCES", 0o660)), "/dev")
    assert below_torch(with_stack(nvidia_machine(*EIGHT[:2]), nodes=some)) == []


def closed_kfd(gid: int = 992, mode: int = 0o660, container: str | None = None, groups: tuple[int, ...] = (1000,)):
    machine = amd_machine(container=container)
    kfd = known(node("/dev/kfd", "EACCES", mode, gid), "/dev/kfd")
    render = nodes("/dev/dri/renderD128", opened="EACCES", mode=mode, gid=gid)
    return with_system(with_stack(machine, kfd=kfd, render_nodes=render), user=User(uid=1000, gids=groups))


def test_the_group_to_join_is_the_one_that_owns_kfd():
    assert below_torch(closed_kfd()) == [("amd-device-permission", "error")]
    assert [r.group for r in first(closed_kfd()).fixes[0].remedies] == ["render"]
    assert [r.group for r in first(closed_kfd(gid=44)).fixes[0].remedies] == ["video"]


def test_in_a_container_the_groups_number_counts():
    finding = first(closed_kfd(gid=109, container="docker"))
    assert finding.slug == "amd-device-permission"
    assert finding.fixes[0].remedies[0].group_id == 109


def test_a_rootless_container_does_not_know_the_hosts_number():
    (flags,) = first(closed_kfd(gid=65534, container="podman")).fixes[0].remedies
    assert flags == AddContainerFlags("amd", why="the group that owns /dev/kfd")


def test_in_a_container_nodes_of_root_alone_are_opened_on_the_host():
    closed = nodes("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", opened="EACCES", mode=0o600, gid=0)
    machine = with_stack(nvidia_machine(container="docker"), nodes=closed)
    text = first(machine).fixes[0].remedies[0].text
    assert text.startswith("On the host") and "NVreg_DeviceFileMode" in text


def test_amd_nodes_that_were_mounted_without_rights_are_handed_out_as_devices():
    machine = amd_machine(container="docker")
    kfd = known(node("/dev/kfd", "EPERM", 0o660, 109), "/dev/kfd")
    (flags,) = first(with_stack(machine, kfd=kfd)).fixes[0].remedies
    assert (flags.wants, flags.group_id) == ("amd", 109)


def test_a_group_without_a_name_is_told_by_its_number():
    assert "109" in first(closed_kfd(gid=109)).fixes[0].remedies[0].text


def test_a_member_of_the_group_is_kept_out_by_a_security_module():
    assert "SELinux" in first(closed_kfd(groups=(992,))).fixes[0].remedies[0].text
    assert "SELinux" in first(closed_kfd(mode=0o666)).fixes[0].remedies[0].text


def test_closed_render_nodes_alone_are_enough():
    render = nodes("/dev/dri/renderD128", opened="EACCES", mode=0o660, gid=992)
    machine = with_system(with_stack(amd_machine(), render_nodes=render), user=User(uid=1000, gids=(1000,)))
    assert below_torch(machine) == [("amd-device-permission", "error")]


def test_a_node_that_opens_needs_no_group():
    assert below_torch(with_system(amd_machine(), user=User(uid=1000, gids=(1000,)))) == []


def test_a_closed_kfd_beside_open_render_nodes_is_named_alone():
    machine = with_stack(closed_kfd(), render_nodes=nodes("/dev/dri/renderD128", mode=0o666))
    finding = first(machine)
    assert finding.slug == "amd-device-permission"
    assert len(finding.evidence) == 1
    assert "mode 0660" in finding.saw


def test_a_cuda_build_on_a_box_whose_only_open_gpu_is_amds_is_told_of_the_closed_one():
    closed = nodes("/dev/nvidiactl", "/dev/nvidia0", opened="EACCES", mode=0o660, gid=44)
    both = change(nvidia_machine(), gpus=(nvidia_gpu(), amd_gpu()), amd=amd_machine().amd)
    machine = change(both, nvidia=change(both.nvidia, nodes=closed))
    assert [slug for slug, _ in below_torch(machine)] == ["gpu-device-permission"]


def test_closed_amd_graphics_beside_a_cuda_gpu_are_silent():
    igpu = amd_gpu("AMD Radeon Graphics", "gfx1036", integrated=True)
    amd = closed_kfd().amd
    assert below_torch(change(nvidia_machine(), gpus=(nvidia_gpu(), igpu), amd=amd)) == []


# --- missing nodes ---


def test_amdgpu_without_kfd():
    machine = with_stack(
        amd_machine(amd_gpu(kfd_node=None)), kfd=absent("/dev/kfd"), topology=absent("/sys/class/kfd")
    )
    assert below_torch(machine) == [("amd-kfd-missing", "error")]


def test_kfd_with_a_node_in_the_kernel_and_none_in_dev():
    machine = with_stack(amd_machine(), kfd=absent("/dev/kfd"))
    assert below_torch(machine) == [("amd-kfd-missing", "error")]
    assert "udevadm" in first(machine).fixes[0].remedies[0].text


def test_a_container_without_kfd_is_not_a_kernel_without_it():
    machine = with_stack(amd_machine(container="podman"), kfd=absent("/dev/kfd"))
    assert below_torch(machine) == [("container-no-gpu", "error")]


def test_uvm_missing_in_a_container():
    machine = with_stack(nvidia_machine(container="docker"), nodes=nodes("/dev/nvidiactl", "/dev/nvidia0"))
    assert below_torch(machine) == [("nvidia-uvm-missing", "error")]
    assert remedies(first(machine)) == ["Manual", "AddContainerFlags"]


@pytest.mark.parametrize(
    ("loaded", "why"), [((), "is not loaded"), (("nvidia", "nvidia_uvm"), "number is not that of the loaded module")]
)
def test_a_uvm_node_that_leads_nowhere_in_a_container(loaded, why):
    """After a restart of the host the module may have another number than the node that a container kept."""
    stale = nodes("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
    stale = known((*stale.value[:2], replace(stale.value[2], opened="ENXIO")), "/dev")
    machine = with_stack(nvidia_machine(container="lxc"), nodes=stale, modules_loaded=known(loaded, "/proc/modules"))
    assert why in first(machine).message
    assert remedies(first(machine)) == ["Manual", "AddContainerFlags"]


def test_uvm_before_its_first_use_on_bare_metal_is_silent():
    bare = nodes("/dev/nvidiactl", "/dev/nvidia0")
    assert below_torch(with_stack(nvidia_machine(), nodes=bare)) == []
    assert below_torch(with_stack(nvidia_machine(), nodes=NO_NODES)) == []
    assert below_torch(with_stack(nvidia_machine(container="apptainer"), nodes=bare)) == []


def test_uvm_missing_on_bare_metal_where_cuda_fails_for_it():
    machine = with_stack(nvidia_machine(), nodes=nodes("/dev/nvidiactl", "/dev/nvidia0"), cuda=cuda(999))
    assert below_torch(machine) == [("nvidia-uvm-missing", "error")]
    assert remedies(first(machine)) == ["LoadModule"]


@pytest.mark.parametrize(("text", "slugs"), [("install nvidia_uvm /bin/false", 1), ("blacklist nvidia_uvm", 0)])
def test_a_rule_that_really_keeps_uvm_from_loading(text, slugs):
    rule = known((BlockedModule("nvidia_uvm", text, "/etc/modprobe.d/x.conf"),), "/etc")
    machine = with_stack(nvidia_machine(), nodes=nodes("/dev/nvidiactl", "/dev/nvidia0"), blocked=rule)
    assert len(found(machine, "nvidia-uvm-missing")) == slugs


# --- visibility variables ---


@pytest.mark.parametrize(
    ("value", "slugs"),
    [
        ("", [("cuda-visible-devices", "error")]),
        ("-1", [("cuda-visible-devices", "error")]),
        ("8", [("cuda-visible-devices", "error")]),
        ("0,8", [("cuda-visible-devices", "error")]),
        ("0", []),
        ("3,1", []),
        ("0,1,-1,2", []),
        ("0,", []),
        ("GPU-1f2e3d4c-0000", []),
        ("0,0", [("cuda-visible-devices", "error")]),  # CUDA: a GPU named twice hides them all
        ("1,00,0", [("cuda-visible-devices", "error")]),
        ("0 1", []),  # CUDA reads the number that an entry begins with
        ("2;3", []),
        ("'0'", [("cuda-visible-devices", "error")]),
    ],
)
def test_cuda_visible_devices_against_eight_gpus(value, slugs):
    assert below_torch(nvidia_machine(*EIGHT, variables={"CUDA_VISIBLE_DEVICES": value})) == slugs


@pytest.mark.parametrize("order", ["", "BOGUS", "pci_bus_id", "PCI_BUS_ID ", "0"])
def test_an_order_that_cuda_does_not_know_keeps_it_from_starting(order):
    # cuInit of driver 580.159.04 on an H100 answers 101 to each of them.
    finding = first(nvidia_machine(variables={"CUDA_DEVICE_ORDER": order}))
    assert (finding.slug, finding.severity) == ("cuda-visible-devices", "error")
    assert finding.fixes[0].remedies[0] == UnsetVariable("CUDA_DEVICE_ORDER", why="then the fastest GPU is first")


@pytest.mark.parametrize("order", ["PCI_BUS_ID", "FASTEST_FIRST"])
def test_the_orders_of_cuda_are_no_fault_and_rocm_reads_no_such_variable(order):
    assert below_torch(nvidia_machine(variables={"CUDA_DEVICE_ORDER": order})) == []
    assert below_torch(amd_machine(variables={"CUDA_DEVICE_ORDER": "BOGUS"})) == []


def test_the_message_names_the_entry_that_is_wrong():
    far = first(nvidia_machine(*EIGHT, variables={"CUDA_VISIBLE_DEVICES": "0,8"})).message
    assert "names 8" in far
    assert "only 1 of them can be seen" in far
    assert "every GPU" in first(nvidia_machine(variables={"CUDA_VISIBLE_DEVICES": "2"})).message


def test_an_index_too_far_is_unset_and_a_partly_right_list_is_mended():
    far = first(nvidia_machine(variables={"CUDA_VISIBLE_DEVICES": "2"}))
    partly = first(nvidia_machine(*EIGHT, variables={"CUDA_VISIBLE_DEVICES": "0,8"}))
    assert isinstance(far.fixes[0].remedies[0], UnsetVariable)
    assert partly.fixes[0].remedies[0] == SetVariable(
        "CUDA_VISIBLE_DEVICES", "0", why="names only existing GPUs, each once"
    )


@pytest.mark.parametrize(("value", "kept"), [('"0,1"', "0,1"), ("'7'", "7"), ('0,"1"', "0,1")])
def test_quotation_marks_in_the_value_are_named_and_taken_out(value, kept):
    """As `- CUDA_VISIBLE_DEVICES="0,1"` in a list of a compose file gives them."""
    quoted = first(nvidia_machine(*EIGHT, variables={"CUDA_VISIBLE_DEVICES": value}))
    assert "quotation marks" in quoted.message
    assert quoted.fixes[0].remedies[0].value == kept


def test_a_gpu_named_twice_is_named_once():
    twice = first(nvidia_machine(*EIGHT, variables={"CUDA_VISIBLE_DEVICES": "0,1,1"}))
    assert "names 1 twice" in twice.message
    assert isinstance(twice.fixes[0].remedies[0], SetVariable)
    assert twice.fixes[0].remedies[0].value == "0,1"


def test_hip_shows_a_gpu_that_is_named_twice():
    assert below_torch(amd_machine(variables={"HIP_VISIBLE_DEVICES": "0,0"})) == []


def test_a_uuid_that_no_gpu_has():
    gpu = nvidia_gpu(uuid="GPU-aaaa1111")
    assert below_torch(nvidia_machine(gpu, variables={"CUDA_VISIBLE_DEVICES": "GPU-bbbb"}))[0][1] == "error"
    assert below_torch(nvidia_machine(gpu, variables={"CUDA_VISIBLE_DEVICES": "GPU-aaaa"})) == []


@pytest.mark.parametrize(
    ("variables", "slugs"),
    [
        ({"ROCR_VISIBLE_DEVICES": ""}, [("cuda-visible-devices", "error")]),
        ({"HIP_VISIBLE_DEVICES": "1"}, [("cuda-visible-devices", "error")]),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, [("cuda-visible-devices", "error")]),
        ({"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"}, []),
        ({"CUDA_VISIBLE_DEVICES": ""}, [("cuda-visible-devices", "note")]),
        ({"HIP_VISIBLE_DEVICES": ""}, [("cuda-visible-devices", "note")]),
    ],
)
def test_hip_and_rocr_read_them_in_their_own_way(variables, slugs):
    assert below_torch(amd_machine(variables=variables)) == slugs


def test_hip_counts_within_what_rocr_left():
    gpus = tuple(amd_gpu(index=n) for n in range(2))
    finding = first(amd_machine(*gpus, variables={"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}))
    assert "the only GPU that ROCR_VISIBLE_DEVICES=1 leaves is number 0" in finding.message
    assert finding.subject == "HIP_VISIBLE_DEVICES"


def test_without_a_gpu_build_a_variable_is_at_most_a_note():
    assert below_torch(nvidia_machine(torch=None, variables={"CUDA_VISIBLE_DEVICES": ""})) == [
        ("cuda-visible-devices", "note")
    ]


def test_the_container_runtimes_variable_hides_nothing_by_itself():
    assert below_torch(nvidia_machine(variables={"NVIDIA_VISIBLE_DEVICES": "none"})) == []


# --- MIG, busy GPUs, shared memory ---


def mig_gpu(*slices: str, index: int = 0):
    devices = tuple(MigDevice(profile="1g.10gb", uuid=uuid) for uuid in slices)
    return nvidia_gpu(
        "NVIDIA A100-SXM4-80GB", "sm_80", index=index, nvml=NvmlDevice(index=index, mig=True, mig_devices=devices)
    )


@pytest.mark.parametrize("gpu", ["slices", "bare"])
def test_with_mig_an_empty_variable_is_what_hides_the_gpu(gpu):
    divided = mig_gpu("MIG-aaaa", "MIG-bbbb") if gpu == "slices" else mig_gpu()
    for value in ("", "-1"):
        machine = nvidia_machine(divided, variables={"CUDA_VISIBLE_DEVICES": value})
        assert below_torch(machine) == [("cuda-visible-devices", "error")]
    for value in ("0", "MIG-bbbb"):
        machine = nvidia_machine(mig_gpu("MIG-aaaa", "MIG-bbbb"), variables={"CUDA_VISIBLE_DEVICES": value})
        assert below_torch(machine) == []


@pytest.mark.parametrize("value", ["1", "MIG-", "none"])
def test_with_mig_a_value_that_names_nothing_is_what_hides_the_gpu(value):
    machine = nvidia_machine(mig_gpu("MIG-aaaa", "MIG-bbbb"), variables={"CUDA_VISIBLE_DEVICES": value})
    assert first(machine).slug == "cuda-visible-devices"


def test_mig_without_a_slice():
    assert below_torch(nvidia_machine(mig_gpu())) == [("mig-confusion", "error")]
    assert below_torch(nvidia_machine(mig_gpu(), EIGHT[1])) == [("mig-confusion", "note")]


def test_a_mode_that_waits_for_a_reset_is_a_note_and_the_old_one_counts():
    states = [NvmlDevice(index=n, mig=False, mig_pending=True) for n in (0, 1)]
    waiting = [nvidia_gpu("NVIDIA A100-SXM4-80GB", "sm_80", index=n, nvml=state) for n, state in enumerate(states)]
    assert below_torch(nvidia_machine(*waiting)) == [("mig-confusion", "note")]
    assert "--gpu-reset -i 0,1" in first(nvidia_machine(*waiting)).fixes[0].remedies[0].text
    left = nvidia_gpu("NVIDIA A100-SXM4-80GB", "sm_80", nvml=NvmlDevice(index=0, mig=True, mig_pending=False))
    assert [fix.title for fix in first(nvidia_machine(left)).fixes] == ["Reset the GPU", "Create slices"]


def test_slices_are_healthy():
    assert below_torch(nvidia_machine(mig_gpu("MIG-aaaa"))) == []
    assert below_torch(nvidia_machine(mig_gpu("MIG-aaaa", "MIG-bbbb"))) == [("mig-confusion", "note")]
    chosen = nvidia_machine(mig_gpu("MIG-aaaa", "MIG-bbbb"), variables={"CUDA_VISIBLE_DEVICES": "MIG-bbbb"})
    assert below_torch(chosen) == []


def test_a_slice_that_is_not_there():
    machine = nvidia_machine(mig_gpu("MIG-aaaa"), variables={"CUDA_VISIBLE_DEVICES": "MIG-cccc"})
    assert below_torch(machine) == [("mig-confusion", "error")]


@pytest.mark.parametrize(
    "state",
    [
        {"compute_mode": "exclusive", "processes": 1},
        {"memory": 100, "memory_used": 99},
    ],
)
def test_a_busy_gpu_is_not_judged_and_no_fault(state):
    machine = nvidia_machine(nvidia_gpu(nvml=NvmlDevice(index=0, **state)))
    assert below_torch(machine) == []
    assert [question.matters for question in unanswered(machine, "gpu-busy-or-exclusive")] == [False]


@pytest.mark.parametrize(
    "state",
    [
        {"compute_mode": "exclusive", "processes": 0},
        {"compute_mode": "default", "processes": 3},
        {"memory": 100, "memory_used": 50},
    ],
)
def test_a_gpu_with_room_is_judged(state):
    machine = nvidia_machine(nvidia_gpu(nvml=NvmlDevice(index=0, **state)))
    assert unanswered(machine, "gpu-busy-or-exclusive") == []


def test_a_gpu_that_takes_no_program_is_a_fault_unless_another_does():
    closed = nvidia_gpu(nvml=NvmlDevice(index=0, compute_mode="prohibited"))
    assert below_torch(nvidia_machine(closed)) == [("compute-mode-prohibited", "error")]
    assert unanswered(nvidia_machine(closed), "gpu-busy-or-exclusive") == []
    assert below_torch(nvidia_machine(closed, nvidia_gpu(index=1))) == [("compute-mode-prohibited", "note")]


def test_a_gpu_of_unified_memory_is_not_full():
    machine = nvidia_machine(nvidia_gpu(nvml=NvmlDevice(index=0, memory=None, memory_used=None)))
    assert unanswered(machine, "gpu-busy-or-exclusive") == []


@pytest.mark.parametrize(
    ("container", "size", "slugs"),
    [
        ("docker", 64 << 20, [("shm-small", "warning")]),
        ("docker", 8 << 30, []),
        (None, 64 << 20, []),
    ],
)
def test_shared_memory_of_containers(container, size, slugs):
    assert below_torch(with_system(nvidia_machine(container=container), shm=known(size, "/dev/shm"))) == slugs
