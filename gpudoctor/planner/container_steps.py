"""The options that a container needs, as lines for the tool that starts it."""

from __future__ import annotations

from gpudoctor.finding import AddContainerFlags
from gpudoctor.planner.place import Place
from gpudoctor.step import ManualStep, Step

# {groups}, {group_add} and {in_pod} name the group that owns the nodes; they are empty if none is needed.
_IN_KUBERNETES = "Kubernetes, in the container:  resources: {limits: {%s: 1}}{in_pod}"
_NVIDIA = {
    "docker": "docker run --gpus all{groups} ...",
    "podman": "podman run --device nvidia.com/gpu=all{groups} ...\n"
    "  (the host needs: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml)",
    "compose": "compose, in the service:\n  deploy: {resources: {reservations: {devices:\n"
    "    [{driver: nvidia, count: all, capabilities: [gpu]}]}}}{group_add}",
    "podman-compose": "compose, in the service:  devices: [nvidia.com/gpu=all]{group_add}",
    "kubernetes": _IN_KUBERNETES % "nvidia.com/gpu",
    "apptainer": "apptainer exec --nv ...",
    "lxc": "Proxmox, on the host:  pct set ID --dev0 /dev/nvidia0 --dev1 /dev/nvidiactl --dev2 /dev/nvidia-uvm\n"
    "LXD, Incus:  lxc config device add CONTAINER gpu gpu   (and nvidia.runtime=true)",
    "systemd-nspawn": "systemd-nspawn --bind=/dev/nvidia0 --bind=/dev/nvidiactl --bind=/dev/nvidia-uvm ...\n"
    "  (its service also needs DeviceAllow='/dev/nvidia0 rw', and so on for each node)",
}
_JETSON = _NVIDIA | {
    "docker": "docker run --runtime nvidia{groups} ...",
    "compose": "compose, in the service:  runtime: nvidia{group_add}",
    "kubernetes": "Kubernetes, in the Pod:  runtimeClassName: nvidia{in_pod}",
}
"""Only NVIDIA's own runtime mounts the driver's files of Jetson Linux; `--gpus` does so from JetPack 7 on."""
_AMD = {
    "docker": "docker run --device /dev/kfd --device /dev/dri{groups} ...",
    "podman": "podman run --device /dev/kfd --device /dev/dri{groups} ...",
    "distrobox": "distrobox create --additional-flags "
    "'--device /dev/kfd --device /dev/dri --group-add keep-groups' ...",
    "compose": "compose, in the service:  devices: [/dev/kfd, /dev/dri]{group_add}",
    "kubernetes": _IN_KUBERNETES % "amd.com/gpu",
    "apptainer": "apptainer exec --rocm ...",
    "lxc": "Proxmox, on the host:  pct set ID --dev0 /dev/kfd,gid=GID --dev1 /dev/dri/renderD128,gid=GID\n"
    "  (GID is the number of the group render in the container)\n"
    "LXD, Incus:  lxc config device add CONTAINER gpu gpu   (and /dev/kfd as a unix-char device)",
    "systemd-nspawn": "systemd-nspawn --bind=/dev/kfd --bind=/dev/dri ...\n"
    "  (its service also needs DeviceAllow='/dev/kfd rw' and DeviceAllow='char-drm rw')",
}
_SHM = {
    "docker": "docker run --ipc=host ...\nOr set a size in its place, with --shm-size=8g.",
    "podman": "podman run --ipc=host ...\nOr set a size in its place, with --shm-size=8g.",
    "compose": "compose, in the service:  shm_size: 8gb   or   ipc: host",
    "kubernetes": "Kubernetes: an emptyDir volume with medium: Memory, mounted at /dev/shm",
}
_UTILITY = {
    "docker": "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",
    "podman": "podman run --device nvidia.com/gpu=all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",
    "compose": "compose, in the service:  environment: {NVIDIA_DRIVER_CAPABILITIES: 'compute,utility'}",
    "kubernetes": "Kubernetes, in the container:  "
    "env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: 'compute,utility'}]",
}
_AGAIN = {
    "docker": "docker rm -f CONTAINER\nThen the same docker run as before.",
    "podman": "podman rm -f CONTAINER\nThen the same podman run as before.",
    "compose": "docker compose up -d --force-recreate SERVICE",
    "kubernetes": "kubectl delete pod POD\nIts controller makes a new one.",
}
_RESTART = {
    "lxc": "Proxmox, on the host:  pct reboot ID\nLXD, Incus:  lxc restart CONTAINER",
    "systemd-nspawn": "machinectl reboot CONTAINER",
}
"""System containers keep what is in them, and get their devices and mounts at each start."""
_TOOLS = {"singularity": "apptainer", "k8s": "kubernetes", "cri-o": "kubernetes", "containerd": "kubernetes"}
_SELDOM = ("podman-compose", "distrobox", "systemd-nspawn")
"""Not shown where the kind of container is unknown."""
_ENGINES = ("docker", "podman")
"""Tools of the command line; people also start such containers from compose files and Pods."""


def add_flags(place: Place, remedy: AddContainerFlags) -> tuple[Step, ...]:
    """The lines for this kind of container; for all kinds if it is unknown."""
    again = remedy.wants == "recreate"
    if again and place.container in _RESTART:
        return (ManualStep(text=f"Restart the container:\n{_RESTART[place.container]}", why=remedy.why),)
    nvidia = _JETSON if place.jetson else _NVIDIA
    lines = {"nvidia": nvidia, "amd": _AMD, "shm": _SHM, "utility": _UTILITY, "recreate": _AGAIN}[remedy.wants]
    shown = "\n".join(
        _fill(lines[name], remedy) for name in _chosen(lines, _TOOLS.get(place.container, place.container))
    )
    text = f"On its host, start the container again with:\n{shown}"
    if again:
        text = (
            "Remove this container and create it again from its image: a restart, or more flags, does not help.\n"
            + shown
        )
    return (ManualStep(text=text, why=remedy.why),)


def _chosen(lines: dict[str, str], kind: str) -> list[str]:
    if kind not in lines:
        return [name for name in lines if name not in _SELDOM]
    if kind not in _ENGINES:
        return [kind]
    compose = "podman-compose" if f"{kind}-compose" in lines else "compose"
    return [kind, compose, "kubernetes"]


def _fill(line: str, remedy: AddContainerFlags) -> str:
    """Not str.format: the lines hold braces of their own."""
    for name, value in _groups(remedy, podman=line.startswith("podman")).items():
        line = line.replace(name, value)
    return line


def _groups(remedy: AddContainerFlags, *, podman: bool) -> dict[str, str]:
    """The owning group by its number: names are the image's, numbers the host's."""
    number = remedy.group_id
    if number is not None:
        return {
            "{groups}": f" --group-add {number}",
            "{group_add}": f'\n  group_add: ["{number}"]',
            "{in_pod}": f"\n  in the Pod:  securityContext: {{supplementalGroups: [{number}]}}",
        }
    if remedy.wants != "amd":
        return {"{groups}": "", "{group_add}": "", "{in_pod}": ""}
    host = "$(stat -c %g /dev/kfd)"
    return {
        "{groups}": " --group-add keep-groups" if podman else f" --group-add {host}",
        "{group_add}": f'\n  group_add: ["NUMBER"]   (as the host says: {host[2:-1]})',
        "{in_pod}": "\n  in the Pod, for users other than root:  securityContext: {supplementalGroups: [NUMBER]}",
    }
