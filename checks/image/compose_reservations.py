"""Reservations of devices that compose does not take."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.recipe import Recipe, about_service, change

_MESSAGES = {
    "no capabilities": "reserves a device without `capabilities`",
    "count and device_ids": "names both `count` and `device_ids`, which exclude each other",
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
            named = service.refused == "no capabilities"
            fix = (
                change("Name the capability", *service.adding(service.refused_at, "{}", "capabilities: [gpu]"))
                if named
                else change("Leave out one of them", f"{service.place_of(service.refused_at)}: count, or device_ids")
            )
            yield about_service(
                service,
                at=service.refused_at,
                severity="error",
                message=f"{service.title} {_MESSAGES[service.refused]}: compose refuses the file.",
                saw=service.refused,
                want="capabilities: [gpu]" if named else "one of them",
                fixes=(fix,),
                refs=("Compose Deploy Specification: devices",),
            )
