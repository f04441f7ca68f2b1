"""Which container: by marks, groups, mounts; hosts and virtual machines are none, whatever lies about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import Fact
from gpudoctor.probes.batch_job import probe_job
from gpudoctor.probes.container import probe_container
from gpudoctor.probes.variables import probe_variables

ID = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
DISK = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n24 27 0:6 / /dev rw - devtmpfs devtmpfs rw\n"
OVERLAY = (
    "1573 1220 0:55 / / rw,relatime master:452 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AAA,"
    "upperdir=/var/lib/docker/overlay2/9f3e/diff,workdir=/var/lib/docker/overlay2/9f3e/work\n"
)
CONTAINERD = (
    "900 800 0:123 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/containerd/"
    "io.containerd.snapshotter.v1.overlayfs/snapshots/41/fs,upperdir=/var/lib/containerd/"
    "io.containerd.snapshotter.v1.overlayfs/snapshots/77/fs\n"
)
LXC = (
    "838 589 253:0 /var/lib/lxc/ny2g2r14hh2-lxc/rootfs / rw,relatime shared:518 - ext4 /dev/mapper/vgroot-lvroot rw\n"
)


def container(root: Path, files: dict[str, str], environ: dict[str, str] | None = None) -> Fact[str]:
    return probe_container(host(root, files, environ))


def host(root: Path, files: dict[str, str], environ: dict[str, str] | None = None) -> RecordedHost:
    for path, content in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            place.symlink_to(content[3:])
        else:
            place.write_text(content)
    (root / "gpudoctor-host.json").write_text(json.dumps({"environ": environ or {}}))
    return RecordedHost(root)


INSIDE = [
    ("docker", {"/.dockerenv": "", "/proc/1/cgroup": f"12:devices:/docker/{ID}\n1:name=systemd:/docker/{ID}\n"}, {}),
    ("docker", {"/.dockerenv": "", "/proc/1/cgroup": "0::/\n", "/proc/1/mountinfo": OVERLAY}, {}),
    ("docker", {"/proc/1/cgroup": f"0::/system.slice/docker-{ID}.scope\n"}, {}),
    ("docker", {"/proc/1/cgroup": "0::/\n", "/proc/1/mountinfo": OVERLAY}, {}),
    ("podman", {"/run/.containerenv": 'engine="podman-5.2.2"', "/proc/1/cgroup": "0::/\n"}, {"container": "podman"}),
    ("podman", {"/proc/1/cgroup": f"0::/machine.slice/libpod-{ID}.scope/container\n"}, {}),
    ("podman", {"/proc/1/environ": "PATH=/bin\0container=oci\0HOSTNAME=efaf1081a57e\0"}, {}),
    ("kubernetes", {"/run/secrets/kubernetes.io/serviceaccount/token": "x", "/.dockerenv": ""}, {}),
    ("kubernetes", {"/proc/1/environ": "TERM=xterm\0KUBERNETES_SERVICE_HOST=172.30.0.1\0"}, {}),
    (
        "kubernetes",
        {"/proc/1/cgroup": f"0::/kubepods.slice/kubepods-besteffort.slice/cri-containerd-{ID}.scope\n"},
        {},
    ),
    ("kubernetes", {"/.dockerenv": "", "/proc/1/cgroup": f"11:devices:/kubepods/burstable/pod1/{ID}\n"}, {}),
    ("kubernetes", {"/proc/1/cgroup": "0::/\n"}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
    ("lxc", {"/proc/1/environ": "\0container=lxc\0"}, {}),
    ("lxc", {"/proc/1/cgroup": "0::/init.scope\n", "/proc/self/mountinfo": LXC}, {}),
    ("lxc", {"/proc/1/cgroup": "12:devices:/lxc.payload.box/init.scope\n"}, {}),
    ("systemd-nspawn", {"/run/systemd/container": "systemd-nspawn\n", "/proc/1/cgroup": "0::/init.scope\n"}, {}),
    ("apptainer", {"/.singularity.d/runscript": "", "/proc/1/cgroup": "0::/init.scope\n"}, {}),
    ("apptainer", {"/proc/1/cgroup": "0::/init.scope\n"}, {"SINGULARITY_NAME": "pytorch.sif"}),
    ("containerd", {"/proc/1/cgroup": "0::/\n", "/proc/1/mountinfo": CONTAINERD}, {}),
    (
        "docker",
        {
            "/.dockerenv": "",
            "/proc/1/cgroup": "0::/\n",
            "/proc/1/mountinfo": f"1 0 253:9 /rootfs / rw - ext4 /dev/mapper/docker-8:1-1-{ID} rw\n",
        },
        {},
    ),
]


@pytest.mark.parametrize(("kind", "files", "environ"), INSIDE)
def test_inside_a_container(tmp_path: Path, kind: str, files: dict[str, str], environ: dict[str, str]) -> None:
    found = container(tmp_path, files, environ)
    assert (found.value, found.state) == (kind, "known") and found.source


INIT = {"/proc/1/cgroup": "0::/init.scope\n"}
GROUP = "/proc/self/cgroup"
TABLE = "/proc/1/mountinfo"
OUTSIDE = [
    # Bare metal; its docker daemon, monitors and other people's containers are processes of the host.
    INIT | {"/etc/docker/daemon.json": "{}", "/run/docker.sock": "", TABLE: DISK},
    INIT | {GROUP: "0::/system.slice/docker.service\n"},
    INIT | {GROUP: f"0::/user.slice/libpod-conmon-{ID}.scope\n"},
    INIT | {GROUP: "0::/system.slice/slurmstepd.scope/job_1320003/step_0\n"},
    INIT | {GROUP: "0::/machine.slice/machine-qemu\\x2d1\\x2dvm.scope\n"},
    # A micro virtual machine made from a container image.
    {"/.dockerenv": "", "/proc/1/cgroup": "9:name=systemd:/\n8:pids:/\n0::/\n", "/proc/self/mountinfo": DISK},
    # btrfs mounts a subvolume of its file system.
    INIT | {"/.dockerenv": "", TABLE: "1 0 0:30 /@ / rw - btrfs /dev/sda2 rw\n"},
    # WSL2 with systemd.
    INIT | {"/run/systemd/container": "wsl\n"},
    # A live medium has an overlay of its own.
    INIT | {TABLE: "1 0 0:9 / / rw - overlay /cow rw,lowerdir=/filesystem.squashfs\n"},
]


@pytest.mark.parametrize("files", OUTSIDE)
def test_outside_of_containers(tmp_path: Path, files: dict[str, str]) -> None:
    assert container(tmp_path, files).absent


def test_a_host_mounted_into_a_container_is_read_by_its_own_first_process(tmp_path: Path) -> None:
    """/proc/self of the mounted procfs leads to gpudoctor's own process, which is in a container."""
    files = {
        "/proc/1/cgroup": "0::/../../../init.scope\n",
        "/proc/1/mountinfo": DISK,
        "/proc/4711/cgroup": f"0::/docker/{ID}\n",
        "/proc/4711/mountinfo": OVERLAY,
        "/proc/self": "-> 4711",
    }
    assert container(tmp_path, files).absent


def test_marks_of_gpudoctors_own_container_do_not_count_below_a_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("container", "podman")
    assert container(tmp_path, {"/proc/1/cgroup": "0::/init.scope\n"}).absent


def test_without_groups_and_mounts_nothing_is_known(tmp_path: Path) -> None:
    assert (
        container(tmp_path, {"/etc/os-release": "ID=debian\n", "/proc/cpuinfo": "processor : 0\n"}).state == "unknown"
    )


# --- batch jobs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "kind", "gpus"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1", "SLURM_STEP_GPUS": "1"}, "slurm", 1),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1,4-6"}, "slurm", 5),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_ON_NODE": "2"}, "slurm", 2),
        ({"SLURM_JOB_ID": "7", "SLURM_GPUS_PER_NODE": "a100:4"}, "slurm", 4),
        ({"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "CUDA_VISIBLE_DEVICES": ""}, "slurm", 0),
        ({"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "CUDA_VISIBLE_DEVICES": "NoDevFiles"}, "slurm", 0),
        ({"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"}, "slurm", None),
        # The shell that salloc leaves on the login machine.
        ({"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": ""}, "slurm", None),
        # A person hides the GPU that the job was given.
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "3", "CUDA_VISIBLE_DEVICES": ""}, "slurm", 1),
        ({"RAY_JOB_ID": "01000000", "CUDA_VISIBLE_DEVICES": ""}, "ray", 0),
        ({"RAY_JOB_ID": "01000000", "SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "0"}, "ray", 1),
        ({"FLUX_JOB_ID": "f1", "CUDA_VISIBLE_DEVICES": "-1"}, "flux", 0),
        ({"LSB_JOBID": "99", "CUDA_VISIBLE_DEVICES": "0,1"}, "lsf", 2),
        ({"PBS_JOBID": "99.pbs"}, "pbs", None),
        ({"_CONDOR_SCRATCH_DIR": "/x", "_CONDOR_AssignedGPUs": "GPU-c4a646d7,GPU-6a96bd13"}, "htcondor", 2),
        ({"_CONDOR_SCRATCH_DIR": "/x", "CUDA_VISIBLE_DEVICES": "10000"}, "htcondor", 0),
        ({"SGE_TASK_ID": "undefined", "SGE_HGR_gpu": "gpu0 gpu1"}, "sge", 2),
    ],
)
def test_batch_jobs_and_the_gpus_they_were_given(
    tmp_path: Path, environ: dict[str, str], kind: str, gpus: int | None
) -> None:
    job = probe_job(host(tmp_path, {}, environ)).value
    assert job is not None and (job.kind, job.gpus) == (kind, gpus)


def test_pbs_counts_the_lines_of_its_gpu_file(tmp_path: Path) -> None:
    files = {"/var/spool/pbs/aux/99gpu": "node1-gpu0\nnode1-gpu3\n"}
    job = probe_job(host(tmp_path, files, {"PBS_JOBID": "99", "PBS_GPUFILE": "/var/spool/pbs/aux/99gpu"})).value
    assert job is not None and job.gpus == 2


def test_no_batch_job(tmp_path: Path) -> None:
    assert probe_job(host(tmp_path, {}, {"HOME": "/root"})).absent
    assert probe_job(host(tmp_path, {}, {})).state == "unknown"


# --- variables ---------------------------------------------------------------------------------------


def test_only_variables_that_matter_are_kept_and_no_secret_or_name(tmp_path: Path) -> None:
    environ = {
        "CUDA_VISIBLE_DEVICES": "",
        "HSA_OVERRIDE_GFX_VERSION_1": "10.3.0",
        "PYTORCH_HIP_ALLOC_CONF": "expandable_segments:True",
        "LD_LIBRARY_PATH": "/a::/b",
        "ROCBLAS_TENSILE_LIBPATH": "/x",
        "NVIDIA_API_KEY": "secret",
        "TORCH_HUB_TOKEN": "secret",
        "NCCL_PASSWORD": "secret",
        "CUDA_SECRET_THING": "secret",
        "AWS_ACCESS_KEY_ID": "secret",
        "HOME": "/home/someone",
        "HOSTNAME": "machine",
        "SLURMD_NODENAME": "node7",
        "PATH": "/bin",
    }
    assert probe_variables(host(tmp_path, {}, environ)) == {
        "CUDA_VISIBLE_DEVICES": "",
        "HSA_OVERRIDE_GFX_VERSION_1": "10.3.0",
        "LD_LIBRARY_PATH": "/a::/b",
        "PYTORCH_HIP_ALLOC_CONF": "expandable_segments:True",
        "ROCBLAS_TENSILE_LIBPATH": "/x",
    }
