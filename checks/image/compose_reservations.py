"""Devices that compose, or the engine behind it, does not take."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.compose import Service
from gpudoctor.dockerfile.recipe import Recipe, about_service, change
from gpudoctor.finding import Fix

_MESSAGES = {
    "misplaced": "has a key that compose does not know: {path}: compose refuses the file.",
    "no capabilities": "reserves a device without `capabilities`: compose refuses the file.",
    "count and device_ids": "has both `count` and `device_ids`, which exclude each other: compose refuses the file.",
    "unknown to the engine": "reserves a device by a driver, or with capabilities, that Docker does not know: it is "
    'not started ("could not select device driver").',
}
_WANTED = {
    "misplaced": "deploy.resources.reservations.devices",
    "no capabilities": "capabilities: [gpu]",
    "count and device_ids": "one of them",
    "unknown to the engine": "driver: nvidia, or AMD's device nodes; capabilities: [gpu]",
}


@check("GPD632", "compose-reservation-refused", "image")
def reservation_refused(recipe: Recipe) -> Verdicts:
    """A service reserves devices in a form that compose or the engine refuses.

    ## Why it matters
    Compose stops before it starts any service, or the engine does not start this one.

    ## How it is judged
    Every entry of `deploy.resources.reservations.devices` must have `capabilities`. `count` and `device_ids` exclude
    each other, also below `gpus`. Below `deploy` there is no key `gpus` or `runtime`, and `devices` stands below
    `resources.reservations` alone. Docker has the drivers nvidia, amd and cdi, and each knows a few capabilities: a
    driver `rocm` and a capability `tpu` exist nowhere. A driver or capability from a variable is not judged.

    ## Fix safety
    `capabilities: [gpu]` is what `gpus: all` means, too. AMD's device nodes need nothing but the amdgpu driver.
    """
    for started in recipe.services:
        service = started.service
        if service.refused:
            why, at = service.refused, service.refused_at
            place = service.place_of(at)
            fix = {
                "no capabilities": change("Name the capability", *service.adding(at, "{}", "capabilities: [gpu]")),
                "count and device_ids": change("Leave out one of them", f"{place}: count, or device_ids"),
                "misplaced": _moved(service, at),
                "unknown to the engine": _known(service, at),
            }[why]
            yield about_service(
                service,
                at=at,
                severity="error",
                message=f"{service.title} {_MESSAGES[why].format(path=at)}",
                saw=at if why in ("misplaced", "unknown to the engine") else why,
                want="deploy.resources" if _is_part(at) else _WANTED[why],
                fixes=(fix,),
                refs=("Compose Deploy Specification: devices", "moby/moby daemon/devices.go, createDevicesConfig"),
            )


def _known(service: Service, at: str) -> Fix:
    """A reservation that the engine knows, or AMD's device nodes in its place."""
    place = service.place_of(at)
    if service.amd and not service.nvidia:
        nodes = service.adding("devices", "[]", "/dev/kfd", "/dev/dri")
        return change("Give it AMD's device nodes", f"{place}: leave out this device", *nodes)
    return change("Name what Docker knows", f"{place}: driver: nvidia, capabilities: [gpu]")


def _is_part(at: str) -> bool:
    """Whether a path is that of limits or reservations without `resources`."""
    return at in ("deploy.limits", "deploy.reservations")


def _moved(service: Service, at: str) -> Fix:
    """What compose takes in place of a key that it does not know there."""
    key, right = at.rpartition(".")[2], _WANTED["misplaced"]
    if _is_part(at):
        return change("Write it where compose takes it", f"{service.place_of(at)}: move {key} below deploy.resources")
    lines = [f"{service.place_of(at)}: leave out {key}"]
    if not service.given_gpus:
        lines += service.adding(right, "[]", "{driver: nvidia, count: all, capabilities: [gpu]}")
    return change("Reserve the GPUs where compose takes it", *lines)


@check("GPD657", "compose-without-libcuda", "image")
def without_libcuda(recipe: Recipe) -> Verdicts:
    """A service is given NVIDIA GPUs without the libraries that compute.

    ## Why it matters
    nvidia-smi works in the container, and every program that computes finds no libcuda.so.1.

    ## How it is judged
    A reservation that names libraries of the driver (`capabilities: [gpu, utility]`, `video`) mounts those alone,
    whatever NVIDIA_DRIVER_CAPABILITIES says; without such names that variable of the service decides. One of
    them must be `compute`, or `all` in the variable. Only services whose image is known to be for CUDA are judged.

    ## Fix safety
    More libraries of the host's driver are mounted, nothing else changes.
    """
    for started in recipe.services:
        service, image = started.service, started.image
        reserved = service.driver_libraries
        libraries = reserved or service.environment.get("NVIDIA_DRIVER_CAPABILITIES", "")
        named = {name.strip() for name in libraries.split(",")} - {""}
        if not named or {"compute", "all"} & named or "$" in libraries or image is None or service.refused:
            continue
        if recipe.vendor(image) != "nvidia" or not started.given_nvidia:
            continue
        wanted = ", ".join(("gpu", *sorted({"compute", "utility", *named})))
        at = next((path for path in service.keys if path.endswith(".capabilities")), "") if reserved else ""
        yield about_service(
            service,
            at=at,
            severity="error",
            message=f"{service.title} is given GPUs with the libraries for {' and '.join(sorted(named))} alone: "
            "libcuda.so.1 is not mounted, and nothing computes on them.",
            saw=", ".join(sorted(named)),
            want="compute",
            fixes=(
                change(
                    "Add compute",
                    *(
                        (f"{service.place_of(at)}: capabilities: [{wanted}]",)
                        if reserved
                        else service.giving("NVIDIA_DRIVER_CAPABILITIES", f"compute,{libraries}")
                    ),
                ),
            ),
            refs=("docker/compose#8583", "mudler/LocalAI#11973"),
        )


@check("GPD624", "compose-device-misnamed", "image")
def device_misnamed(recipe: Recipe) -> Verdicts:
    """A service asks for a device node that no host has.

    ## Why it matters
    The engine refuses to start the container: "error gathering device information".

    ## How it is judged
    The kernel names the render nodes renderD128, renderD129 and so on. A name without the D, as some documents print
    it, is no node.

    ## Fix safety
    `ls /dev/dri` lists the nodes of the host.
    """
    for started in recipe.services:
        service = started.service
        for device in service.devices:
            if found := re.fullmatch(r"/dev/dri/render(\d+)", device):
                right = f"/dev/dri/renderD{found[1]}"
                at = next((path for path in service.keys if path.startswith(f"devices.{device}")), "")
                yield about_service(
                    service,
                    at=at,
                    severity="error",
                    message=f"{service.title} asks for {device}: no host has a node of that name.",
                    saw=device,
                    want=right,
                    fixes=(
                        change(f"Write {right}", f"{service.place_of(at)}: {right} in the devices of {service.name}"),
                    ),
                )
