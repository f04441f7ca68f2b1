"""Reservations of devices that compose does not take."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.recipe import Recipe, about_service, change

_MESSAGES = {
    "no capabilities": "reserves a device without `capabilities`",
    "count and device_ids": "names both `count` and `device_ids`, which exclude each other",
}
_FIXES = {
    "no capabilities": ("Name the capability", "        capabilities: [gpu]"),
    "count and device_ids": ("Leave out one of them", "leave out count, or device_ids"),
}


@check("GPD632", "compose-reservation-refused", "image")
def reservation_refused(recipe: Recipe) -> Verdicts:
    """A service reserves devices in a form that compose refuses.

    ## Why it matters
    Compose stops before it starts any service.

    ## How it is judged
    Every entry of `deploy.resources.reservations.devices` must have `capabilities`. `count` and `device_ids` exclude
    each other, also below `gpus`.

    ## Fix safety
    `capabilities: [gpu]` is what `gpus: all` means, too.
    """
    for started in recipe.services:
        service = started.service
        if service.refused:
            title, line = _FIXES[service.refused]
            yield about_service(
                service,
                severity="error",
                message=f"{service.title} {_MESSAGES[service.refused]}: compose refuses the file.",
                saw=service.refused,
                want="one of them" if "and" in service.refused else "capabilities: [gpu]",
                fixes=(change(title, f"{service.place}: in the devices of {service.name}:", line),),
                refs=("Compose Deploy Specification: devices",),
            )
