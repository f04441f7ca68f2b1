"""How a compose file starts its images."""

from __future__ import annotations

import json
import re

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.compose import Service
from gpudoctor.dockerfile.recipe import Recipe, RecipeService, about_service, change
from gpudoctor.finding import Finding, NotJudged
from gpudoctor.machine import PLATFORMS, VISIBILITY, Vendor

_NODES = ("/dev/kfd", "/dev/dri")
_NUMBER = re.compile(
    r"(?:gpus|deploy\.resources\.reservations\.devices)\.\d+\.(count|device_ids)"
    r"|resources\.(?:limits|requests)\.((?:nvidia|amd)\.com/gpu)"
)
"""The keys that say how many GPUs a service is given."""
_HIDING = ("NVIDIA_VISIBLE_DEVICES", *VISIBILITY)
_POD_SHM = ("and in the volumes of the pod:", "  - {name: shm, emptyDir: {medium: Memory}}")
_DEVELOPMENT: dict[Vendor, tuple[str, ...]] = {
    "nvidia": ("--gpus", "all"),
    "amd": ("--device=/dev/kfd", "--device=/dev/dri"),
}
"""What a devcontainer.json says in place of these lines."""


@check("GPD620", "compose-no-device", "image")
def no_device(recipe: Recipe) -> Verdicts:
    """A service runs an image for GPUs but is given no GPU.

    ## Why it matters
    Without a reservation (NVIDIA) or the device nodes (AMD) a container has no GPU, whatever its image contains.

    ## How it is judged
    The service's image is known to be for CUDA or ROCm, by its name or by its Dockerfile; the package index's own
    torch alone does not tell that. Nothing is reported if another service with the same image has the device (this
    one may migrate a database), or if the service is scaled to none, is privileged, extends another service, gets the
    device from another compose file in the folder, or is called a CPU service. It is a warning, because an engine may
    give GPUs to every container; an error if GPUs are described, or if one of AMD's two devices is given. A container
    of a Kubernetes manifest that asks for no GPU is always a warning: a cluster may have other ways to give it one.
    So is one that mounts the device nodes of its host and is not privileged: it sees them, and may not open them.
    `runtime: nvidia` alone gives the GPUs that NVIDIA_VISIBLE_DEVICES names: that must be set by the service or its
    image, and not to none or void. ROCm opens render nodes: /dev/dri/card0 is none.
    A preflight that requires GPUs (`--require "gpu>=2"`) tells that a service needs them, and how many, whatever its
    image is made for.

    ## Fix safety
    The lines give the container the host's GPUs. The host needs nvidia-container-toolkit or the amdgpu driver, a
    cluster the vendor's device plugin.
    """
    given = {(vendor, source) for one in recipe.services for vendor in _vendors(one) for source in _sources(one)}
    for started in recipe.services:
        vendor = _vendor(recipe, started)
        service = started.service
        if service.refused:
            continue  # compose-reservation-refused reports it
        if refused := _refused(recipe, started):
            yield refused
            continue
        if (
            vendor is None
            or _optional(started)
            or service.scaled_to_none
            or _given(started, vendor)
            or _for_cpus(recipe, started)
        ):
            continue
        if any((vendor, source) in given for source in _sources(started)):
            continue
        own = started.image.facts.vendor if started.image else None
        if _made_for_others(recipe, started) or (own not in (None, vendor) and _given(started, own)):
            continue  # compose-other-vendor or image-torch-other-vendor reports it
        if service.open:
            yield NotJudged(f"whether {service.title[0].lower()}{service.title[1:]} is given a GPU: {service.open}")
            continue
        if service.cluster and service.devices:
            yield _without_permission(service, vendor)
            continue
        what = PLATFORMS[vendor]
        missing = "/dev/kfd" if vendor == "amd" and service.render else "/dev/dri" if service.kfd else "a GPU"
        if missing == "/dev/dri" and any(node.startswith(missing) for node in service.devices):
            missing = "a render node, such as /dev/dri/renderD128"
        named = service.environment.get("NVIDIA_VISIBLE_DEVICES")
        why = f", which is {'not set' if named is None else named or 'empty'}"
        why = f": its runtime gives those that NVIDIA_VISIBLE_DEVICES names{why}" if service.by_variable else ""
        yield about_service(
            service,
            severity="error" if (recipe.gpus and not service.cluster) or missing != "a GPU" else "warning",
            confidence="likely",
            message=f"{service.title} runs an image for {what} but is not given {missing}{why}.",
            saw=f"devices without {missing}"
            if missing != "a GPU"
            else "no device lines"
            if not why
            else "no NVIDIA_VISIBLE_DEVICES"
            if named is None
            else f"NVIDIA_VISIBLE_DEVICES={named}",
            want=_wanted(service, vendor),
            fixes=(change(f"Give the {service.kind} a GPU", *_giving(service, vendor)),),
        )


def _refused(recipe: Recipe, started: RecipeService) -> Finding | None:
    """A service whose preflight requires more GPUs than it is given."""
    service, needed = started.service, recipe.needed_gpus(started)
    if needed is None or service.open or service.privileged or service.scaled_to_none or service.render:
        return None
    few = service.gpu_count is not None and service.gpu_count < needed.count
    if service.given_gpus and not few:
        return None
    given = f"{service.gpu_count}" if few else "no GPU"
    vendor = _vendor(recipe, started) or ("amd" if service.amd else "nvidia")
    lines = _counting(service, needed.count) if few else _giving(service, vendor, needed.count)
    return about_service(
        service,
        severity="error" if few or (recipe.gpus and not service.cluster) else "warning",
        confidence="likely",
        message=f"The preflight of {service.title[0].lower()}{service.title[1:]} requires {needed.requirement}, and "
        f"it is given {given}: the program is not started (exit code 121).",
        saw=given,
        want=needed.requirement,
        fixes=(change(f"Give the {service.kind} what it requires", *lines),),
    )


def _wanted(service: Service, vendor: Vendor) -> str:
    """What a service without a GPU needs, on one line."""
    if service.development:
        return _run_args(service, *_DEVELOPMENT[vendor])
    if service.cluster:
        return f"{vendor}.com/gpu: 1 in its limits"
    if service.by_variable:
        return "NVIDIA_VISIBLE_DEVICES=all"
    return " and ".join(_NODES) if vendor == "amd" else "a reservation of GPUs"


def _giving(service: Service, vendor: Vendor, count: int = 1) -> tuple[str, ...]:
    """The lines of a fix that gives a service GPUs."""
    if service.development:
        return service.below, _run_args(service, *_DEVELOPMENT[vendor])
    if service.cluster:
        return service.adding("resources.limits", "{}", f"{vendor}.com/gpu: {count}")
    if service.by_variable and vendor == "nvidia":
        return service.giving("NVIDIA_VISIBLE_DEVICES", "all")
    if vendor == "amd":
        missing = [node for node, given in zip(_NODES, (service.kfd, service.render), strict=True) if not given]
        return service.adding("devices", "[]", *missing)
    return service.adding(
        "deploy.resources.reservations.devices", "[]", "{driver: nvidia, count: all, capabilities: [gpu]}"
    )


def _counting(service: Service, count: int) -> tuple[str, ...]:
    """The lines of a fix that gives a service more GPUs than it has: where their number is written."""
    written = [
        (name[1] or name[2], key.line) for path, key in service.keys.items() if (name := _NUMBER.fullmatch(path))
    ]
    if not written or (len(written) > 1 and not service.cluster):
        return (f"{service.place}: {count} GPUs, all reservations of {service.name} together",)
    return tuple(
        f"{service.file}:{line}: {f'{count} GPUs in device_ids' if name == 'device_ids' else f'{name}: {count}'}"
        for name, line in written
    )


def _without_permission(service: Service, vendor: Vendor) -> Finding:
    node = service.devices[0]
    return about_service(
        service,
        severity="warning",
        confidence="likely",
        message=f"{service.title} mounts {node} of the host and is not privileged: it sees the node, and opening it "
        'fails with "Operation not permitted".',
        saw=f"hostPath {node}",
        want=_wanted(service, vendor),
        fixes=(
            change("Ask the device plugin for a GPU", *_giving(service, vendor), "in place of the hostPath volumes"),
            change("Make it privileged", *service.adding("securityContext", "{}", "privileged: true")),
        ),
    )


def _run_args(service: Service, *words: str) -> str:
    """The runArgs of a devcontainer.json with more options: it has this key once."""
    given = {f"--device={device}" for device in service.devices}
    every = (*service.run_args, *(word for word in words if word not in given))
    return f'"runArgs": {json.dumps(every, ensure_ascii=False)}'


def _shm(service: Service) -> tuple[str, ...]:
    """The lines of a fix that gives a service more shared memory."""
    if service.cluster:
        return (*service.adding("volumeMounts", "[]", "{name: shm, mountPath: /dev/shm}"), *_POD_SHM)
    if service.development:
        return service.below, _run_args(service, "--shm-size=8gb")
    return service.below, "    shm_size: 8gb"


@check("GPD621", "compose-device-access", "image")
def device_access(recipe: Recipe) -> Verdicts:
    """A ROCm service's user is not in the groups of the device nodes.

    ## Why it matters
    /dev/kfd and /dev/dri/render* belong to the groups render and video. Users other than root must be members.

    ## How it is judged
    The check reads `user:` of the service or the image's last USER, and `group_add`. A user's own group counts if it
    may be the group of the nodes: a name, or a number below 1000. Of a Kubernetes container `runAsUser`, `runAsGroup`
    and `supplementalGroups` count. It is a note where a device plugin brings the nodes: they may be open to the user.

    ## Fix safety
    The number of the group render differs between hosts: `stat -c %g /dev/kfd` prints it.
    """
    for started in recipe.services:
        service, image = started.service, started.image
        user = service.user or (image.user if image else "")
        if _vendor(recipe, started) != "amd" or not service.kfd or service.groups:
            continue
        if service.privileged and not service.cluster:
            continue
        if service.cluster and not (service.privileged or service.amd):
            continue  # compose-no-device reports it
        name, _, group = user.partition(":")
        if name in ("", "root", "0") or "$" in user or _may_own_a_device(group):
            continue
        yield about_service(
            service,
            severity="note" if service.amd and service.cluster else "warning",
            confidence="likely",
            message=f"{service.title} runs as {user}, who is in no group that may open /dev/kfd.",
            saw="no supplementalGroups" if service.cluster else "no group_add",
            want="the groups of /dev/kfd and /dev/dri/renderD128",
            fixes=(
                change(
                    "Add the groups of the device nodes",
                    *(
                        (service.below, "    securityContext of the pod: {supplementalGroups: [GID of /dev/kfd]}")
                        if service.cluster
                        else service.adding("group_add", "[]", "video", '"GID of /dev/kfd"')
                    ),
                    "with the host's number: stat -c %g /dev/kfd",
                ),
            ),
        )


def _may_own_a_device(group: str) -> bool:
    """Whether a user's own group may be the group of the device nodes; groups from 1000 on are those of people."""
    return group != "" and not (group.isdecimal() and len(group.lstrip("0")) > 3)


@check("GPD622", "compose-small-shm", "image")
def small_shm(recipe: Recipe) -> Verdicts:
    """A service with torch and a GPU has only 64 MiB of shared memory.

    ## Why it matters
    DataLoader workers and NCCL share memory through /dev/shm. With 64 MiB they fail with a bus error.

    ## How it is judged
    The service has a torch and a GPU, but neither shm_size, ipc nor a mount over /dev/shm. It is a note, because
    inference does not need them.

    ## Fix safety
    shm_size is a limit, not a reservation.
    """
    for started in recipe.services:
        service, image = started.service, started.image
        vendor = _vendor(recipe, started)
        if vendor is None or image is None or recipe.torch(image) is None or service.shared_memory or service.open:
            continue
        if _given(started, vendor):
            yield about_service(
                service,
                severity="note",
                message=f"{service.title} has 64 MiB of shared memory: DataLoader workers and NCCL need more.",
                saw="no volume at /dev/shm" if service.cluster else "no shm_size, no ipc",
                want="a volume in memory at /dev/shm" if service.cluster else "shm_size: 8gb, or ipc: host",
                fixes=(change(f"Give the {service.kind} more shared memory", *_shm(service)),),
            )


@check("GPD625", "compose-other-vendor", "image")
def other_vendor(recipe: Recipe) -> Verdicts:
    """A service is given GPUs of the vendor that its image is not made for.

    ## Why it matters
    An image for CUDA has no code for the GPU behind /dev/kfd, an image for ROCm none for an NVIDIA GPU. The program
    stops, or computes on the CPU.

    ## How it is judged
    The service names only AMD's devices or only NVIDIA's, and its image is known to be for the other vendor, by its
    name or by the torch that its Dockerfile installs. A privileged service, and one that another file may give a GPU,
    is not reported. A torch for the other vendor than the base image is what `image-torch-other-vendor` reports.

    ## Fix safety
    Another image takes nothing from the host.
    """
    for started in recipe.services:
        service, image = started.service, started.image
        if image is None or not _made_for_others(recipe, started):
            continue
        of_nvidia = _vendor(recipe, started) == "nvidia"
        made, wanted, given = ("CUDA", "ROCm", "AMD") if of_nvidia else ("ROCm", "CUDA", "NVIDIA")
        name = (service.image if service.context is None else "") or "its image"
        yield about_service(
            service,
            severity="error",
            confidence="likely",
            message=f"{service.title} is given {given} GPUs, and {name} is made for {made}: it cannot use them.",
            saw=f"an image for {made}",
            want=f"an image for {wanted}",
            fixes=(change("Use another image", f"{service.place}: an image of {service.name} for {wanted}"),),
        )


def _for_cpus(recipe: Recipe, started: RecipeService) -> bool:
    """Whether the service may run on CPUs: its names or variables say so, or nothing but the package index's torch,
    which is a CUDA build, is for a GPU."""
    image = started.image
    held = recipe.torch(image) if image else None
    made_for = image.facts.vendor if image else None
    of_index = made_for is None and held is not None and held.source == "package index"
    return of_index or _named_for_cpus(started)


def _optional(started: RecipeService) -> bool:
    """Whether the image is of a program that often runs without a GPU."""
    return started.image is not None and started.image.facts.cpu


def _named_for_cpus(started: RecipeService) -> bool:
    """Whether names or variables of the service say that it runs on CPUs."""
    service, image = started.service, started.image
    names = (service.name, service.image or "", service.dockerfile, service.target, image.name if image else "")
    if any(re.search(r"(^|[^a-z])cpu([^a-z]|$)", name, re.IGNORECASE) for name in names):
        return True
    # The runtime asks for a GPU: the variable that it reads then says no purpose.
    hiding = VISIBILITY if service.by_variable else _HIDING
    values = service.environment.items()
    return any(
        value.strip().lower() == "cpu" or (name in hiding and value.strip() in ("", "-1")) for name, value in values
    )


def _made_for_others(recipe: Recipe, started: RecipeService) -> bool:
    """Whether the service is given the GPUs of one vendor alone, and its image is for the other."""
    service, image, vendor = started.service, started.image, _vendor(recipe, started)
    amd = service.amd or service.kfd
    if image is None or vendor is None or service.privileged or service.open or amd == service.nvidia:
        return False
    return image.facts.vendor in (None, vendor) and amd is not (vendor == "amd") and not _named_for_cpus(started)


def _vendor(recipe: Recipe, started: RecipeService) -> Vendor | None:
    return recipe.vendor(started.image) if started.image is not None else None


def _given(started: RecipeService, vendor: Vendor) -> bool:
    service = started.service
    nodes = service.kfd and service.render and not service.cluster  # a cluster's container may not open these
    return service.privileged or (started.given_nvidia if vendor == "nvidia" else service.amd or nodes)


def _vendors(started: RecipeService) -> tuple[Vendor, ...]:
    """The vendors whose GPUs a service is given."""
    vendors: tuple[Vendor, ...] = ("nvidia", "amd")
    return tuple(vendor for vendor in vendors if _given(started, vendor))


def _sources(started: RecipeService) -> tuple[tuple[str, ...], ...]:
    """What identifies the image of a service: its name, or the folder that it is built in."""
    service = started.service
    by_name = ((service.image,),) if service.image is not None else ()
    by_folder = ((service.context, service.dockerfile),) if service.context is not None else ()
    return (*by_name, *by_folder)
