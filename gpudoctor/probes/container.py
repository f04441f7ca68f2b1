"""The kind of container that this process runs in, if any.

WSL2 and plain virtual machines are no containers; neither is a host that merely has docker installed.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpudoctor.host import Host
from gpudoctor.machine import Fact, absent, known, unknown
from gpudoctor.probes.mounts import Mount, mount_at, process_files, read_mounts

# Variables that a runtime sets for every process of the container. (`CH_RUNNING` is Charliecloud's.)
_VARIABLES = (
    ("APPTAINER_CONTAINER", "apptainer"),
    ("SINGULARITY_CONTAINER", "apptainer"),
    ("SINGULARITY_NAME", "apptainer"),
    ("CH_RUNNING", "charliecloud"),
    ("SHIFTER_RUNTIME", "shifter"),
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ("ECS_CONTAINER_METADATA_URI_V4", "docker"),
)
# Values of the variable `container` (systemd's container interface).
_NAMED = {
    "apptainer": "apptainer", "docker": "docker", "flatpak": "flatpak", "lxc": "lxc", "lxc-libvirt": "lxc",
    "oci": "podman", "podman": "podman", "rkt": "rkt", "singularity": "apptainer",
    "systemd-nspawn": "systemd-nspawn", "zone": "zone",
}  # fmt: skip
_FILES = (
    ("/.singularity.d", "apptainer"),
    ("/var/run/secrets/kubernetes.io/serviceaccount", "kubernetes"),
    ("/run/secrets/kubernetes.io/serviceaccount", "kubernetes"),
    ("/run/.containerenv", "podman"),
    ("/.dockerenv", "docker"),
    ("/.dockerinit", "docker"),
    ("/.flatpak-info", "flatpak"),
)
# Only paths of containerised processes: docker.service and libpod-conmon are processes of the host.
_CGROUPS = (
    (("/kubepods", "/kubelet"), r"/kube(pods|let)[-./]", "kubernetes"),
    (("/lxc", "/lxd"), r"/lxc(\.payload)?[./]|/lxd[./]", "lxc"),
    (("/libpod-",), r"/libpod-[0-9a-f]{12,}", "podman"),
    (("/crio-",), r"/crio-[0-9a-f]{12,}", "kubernetes"),
    (
        ("/docker", "/ecs/", "/actions_job/", "/buildkit/"),
        r"/docker[-/][0-9a-f]{12,}|/(ecs|actions_job|buildkit)/",
        "docker",
    ),
    (("containerd",), r"/cri-containerd[-:]|/containerd/[^/]+/[0-9a-f]{12,}|:cri-containerd:", "containerd"),
)
"""Texts of which one must be there, the pattern (a text alone may be enough), and the container."""
# Where runtimes keep their root file systems: visible in the mount of `/`.
_DOCKER_STORES = ("overlay2", "vfs", "btrfs", "aufs", "devicemapper", "zfs", "image", "buildkit")
_ROOTS = (
    ((*(f"/docker/{store}" for store in _DOCKER_STORES), "/mapper/docker-"), "docker"),
    (("/containers/storage/",), "podman"),
    (("/lxc/", "/lxd/", "/incus/"), "lxc"),
    (("/containerd/", "io.containerd"), "containerd"),
    (("/enroot/",), "enroot"),
    (("/var/lib/machines/",), "systemd-nspawn"),
    (("/apptainer/", "/singularity/"), "apptainer"),
)
_TOLD = (*_VARIABLES, *_FILES, *_ROOTS, *_NAMED.items(), *(row[1:] for row in _CGROUPS))
KINDS = tuple(sorted({kind for _, kind in _TOLD}))
"""The kinds that are told apart."""

_DISK_FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs")
_INIT_CGROUPS = ("/", "/init.scope")


@lru_cache(maxsize=1)
def probe_container(host: Host) -> Fact[str]:
    """docker, podman, kubernetes, lxc, apptainer, systemd-nspawn ...; absent outside containers. Several probes of
    one survey ask this, so the answer is kept for them."""
    for variable, kind in _VARIABLES:
        if host.environ.get(variable):
            return known(kind, f"variable {variable}")
    named = _from_variable(host)
    cgroups = _cgroups(host)
    mounts = read_mounts(host)
    by_cgroup, by_root = _from_cgroups(cgroups), _from_root(mounts)
    if by_cgroup.value == "kubernetes" or (named.known and named.value != "podman"):
        return by_cgroup if by_cgroup.value == "kubernetes" else named
    for path, kind in _FILES:
        if host.exists(path) and not _own_machine(cgroups, mounts):
            return known(kind, path)
    for found in (named, by_cgroup, by_root):
        if found.known:
            return found
    if cgroups or mounts.known:
        return absent("/proc/1/cgroup" if cgroups else mounts.source, "no container's marks")
    if host.missing("/.dockerenv").absent:
        return absent("/", "no container's marks")
    return unknown("neither control groups nor mounts can be read", "/proc/1/cgroup")


def _from_variable(host: Host) -> Fact[str]:
    """The variable `container` of this process or of the first one, or systemd's copy of it."""
    first = host.text("/proc/1/environ").value or ""
    listed = dict(entry.partition("=")[::2] for entry in first.split("\0"))
    for variables, source in ((host.environ, "variable container"), (listed, "/proc/1/environ")):
        kind = _NAMED.get(variables.get("container", ""))
        if kind is not None:
            return known(kind, source)
        if source == "/proc/1/environ" and variables.get("KUBERNETES_SERVICE_HOST"):
            return known("kubernetes", source)
    kind = _NAMED.get(host.text("/run/systemd/container").value or "")
    return absent("variable container") if kind is None else known(kind, "/run/systemd/container")


def _cgroups(host: Host) -> dict[str, tuple[str, ...]]:
    """Control groups of the first process and of this one, by the file that says so.

    Seen from inside another group they begin with "/..".
    """
    found: dict[str, tuple[str, ...]] = {}
    for path in ("/proc/1/cgroup", *process_files(host, "cgroup")):
        text = host.text(path).value
        if text:
            paths = (line.split(":", 2)[2] for line in text.splitlines() if line.count(":") >= 2)
            found[path] = tuple(_from_inside(path) for path in paths)
    return found


def _from_inside(group: str) -> str:
    while group.startswith("/../"):
        group = group[3:]
    return "/" + group.removeprefix("/")


def _from_cgroups(cgroups: dict[str, tuple[str, ...]]) -> Fact[str]:
    for path, groups in cgroups.items():
        named = [group + "/" for group in groups if group != "/"]
        for parts, pattern, kind in _CGROUPS:
            if any(re.search(pattern, group) for group in named if any(part in group for part in parts)):
                return known(kind, path)
    return absent("/proc/1/cgroup")


def _from_root(mounts: Fact[tuple[Mount, ...]]) -> Fact[str]:
    root = mount_at(mounts.value or (), "/")
    if root is None:
        return absent(mounts.source)
    layers = [option for option in root.options if option.startswith(("lowerdir", "upperdir"))]
    text = " ".join((root.root, root.source, *layers))
    kind = next((kind for parts, kind in _ROOTS if any(part in text for part in parts)), None)
    return absent(mounts.source) if kind is None else known(kind, mounts.source)


def _own_machine(cgroups: dict[str, tuple[str, ...]], mounts: Fact[tuple[Mount, ...]]) -> bool:
    """Whether this is certainly a machine of its own, so that a marker file must be left over. Micro virtual machines
    start from container images, markers included. Their `/` is a disk, and their first process is in no group."""
    root = mount_at(mounts.value or (), "/")
    if root is None or root.kind not in _DISK_FILE_SYSTEMS or _from_root(mounts).known:
        return False
    whole = root.root == "/" or root.kind == "btrfs"
    first = cgroups.get("/proc/1/cgroup", ())
    return whole and root.source.startswith("/dev/") and bool(first) and all(g in _INIT_CGROUPS for g in first)
