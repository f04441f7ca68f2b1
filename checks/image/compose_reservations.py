"""Devices that compose, or the engine behind it, does not take."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.compose import Service
from gpudoctor.dockerfile.recipe import Recipe, about_service, change
from gpudoctor.finding import Fix

_MESSAGES = {
    "misplaced": "has a key that compose does not know: {path}",
    "no capabilities": "reserves a device without `capabilities`",
    "count and device_ids": "names both `count` and `device_ids`, which exclude each other",
}
_WANTED = {
    "misplaced": "deploy.resources.reservations.devices",
    "no capabilities": "capabilities: [gpu]",
    "count and device_ids": "one of them",
}


@check("GPD632", "compose-reservation-refused", "image")
def reservation_refused(recipe: Recipe) -> Verdicts:
    """A service reserves devices in a form that compose refuses.

    ## Why it matters
    Compose stops before it starts any service.

    ## How it is judged
    Every entry of `deploy.resources.reservations.devices` must have `capabilities`. `count` and `device_ids` exclude
    each other, also below `gpus`. Below `deploy` there is no key `gpus` or `runtime`, and `devices` stands below
    `resources.reservations` alone.

    ## Fix safety
    `capabilities: [gpu]` is what `gpus: all` means, too.
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
            }[why]
            yield about_service(
                service,
                at=at,
                severity="error",
                message=f"{service.title} {_MESSAGES[why].format(path=at)}: compose refuses the file.",
                saw=at if why == "misplaced" else why,
                want="deploy.resources" if _is_part(at) else _WANTED[why],
                fixes=(fix,),
                refs=("Compose Deploy Specification: devices",),
            )


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
