"""What a container must be started with, as the lines of the tool that starts it."""

from __future__ import annotations

from gpudoctor.finding import AddContainerFlags
from gpudoctor.fix.place import Place
from gpudoctor.fix.steps import ManualStep, Step

_NVIDIA = {
    "docker": "docker run --gpus all{join} ...",
    "podman": "podman run --device nvidia.com/gpu=all{join} ...   (after nvidia-ctk cdi generate on the host)",
    "compose": (
        "compose: deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}"
    ),
    "kubernetes": "Kubernetes: resources: {limits: {nvidia.com/gpu: 1}}",
    "apptainer": "apptainer exec --nv ...",
    "lxc": "lxc config device add CONTAINER gpu gpu   (and nvidia.runtime=true)",
}
_AMD = {
    "docker": "docker run --device /dev/kfd --device /dev/dri {groups} ...",
    "podman": "podman run --device /dev/kfd --device /dev/dri --group-add keep-groups ...",
    "compose": "compose: devices: [/dev/kfd, /dev/dri], group_add: [{number}]",
    "kubernetes": "Kubernetes: resources: {limits: {amd.com/gpu: 1}}",
    "apptainer": "apptainer exec --rocm ...",
    "lxc": "lxc config device add CONTAINER gpu gpu   (and /dev/kfd as a unix-char device)",
}
_SHM = {
    "docker": "docker run --ipc=host ...   or   --shm-size=8g",
    "podman": "podman run --ipc=host ...   or   --shm-size=8g",
    "compose": "compose: shm_size: 8gb   or   ipc: host",
    "kubernetes": "Kubernetes: an emptyDir volume with medium: Memory, mounted at /dev/shm",
}
_UTILITY = {
    "docker": "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",
    "podman": "podman run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",
    "compose": "compose: environment: {NVIDIA_DRIVER_CAPABILITIES: 'compute,utility'}",
    "kubernetes": "Kubernetes: env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: 'compute,utility'}]",
}
_TOOLS = {"singularity": "apptainer", "k8s": "kubernetes", "cri-o": "kubernetes", "containerd": "kubernetes"}


def add_flags(place: Place, remedy: AddContainerFlags) -> tuple[Step, ...]:
    """The lines for the kind of container that this is; for all kinds where that is not known."""
    if remedy.wants == "recreate":
        text = "Start the container again: remove this one and create it anew from its image."
        return (ManualStep(text=text, why=remedy.why),)
    lines = {"nvidia": _NVIDIA, "amd": _AMD, "shm": _SHM, "utility": _UTILITY}[remedy.wants]
    kind = _TOOLS.get(place.container, place.container)
    chosen = [kind] if kind in lines else list(lines)
    if kind in ("docker", "podman"):
        chosen.append("compose")
    number = str(remedy.group_id) if remedy.group_id is not None else "NUMBER-OF-THE-HOSTS-RENDER-GROUP"
    groups = f"--group-add video --group-add {number}"
    join = f" --group-add {number}" if remedy.group_id is not None else ""
    filled = (("{groups}", groups), ("{number}", number), ("{join}", join))
    shown = "\n".join(_filled(lines[name], filled) for name in chosen)
    return (ManualStep(text=f"Start the container again with:\n{shown}", why=remedy.why),)


def _filled(line: str, values: tuple[tuple[str, str], ...]) -> str:
    """Not str.format: the lines hold braces of their own."""
    for name, value in values:
        line = line.replace(name, value)
    return line
