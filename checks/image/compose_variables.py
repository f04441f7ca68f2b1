"""The variables that a compose file gives to its services."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.compose import Service
from gpudoctor.dockerfile.recipe import Recipe, RecipeService, about_service, change
from gpudoctor.dockerfile.variables import HIDING, NO_GPU, slip_in_devices
from gpudoctor.machine import VISIBILITY

_OF_TOOLKIT = "NVIDIA_VISIBLE_DEVICES"


@check("GPD623", "compose-hides-gpus", "image")
def hides_gpus(recipe: Recipe) -> Verdicts:
    """A visibility variable of a service hides every GPU by mistake.

    ## Why it matters
    CUDA, HIP and ROCr read numbers and UUIDs, and show only the GPUs before the first entry that is neither. `all` is
    a value of NVIDIA_VISIBLE_DEVICES, which the container toolkit reads; in CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES
    and ROCR_VISIBLE_DEVICES it shows no GPU. In a list of compose (`- CUDA_VISIBLE_DEVICES="0"`) the quotes belong to
    the value, with the same effect.

    ## How it is judged
    By the value, in `environment` or a file of `env_file`. An error if the service is given a GPU, else a warning. A
    number counts among the GPUs that the container is given: with one GPU there is only 0, whichever of the host's it
    is. -1, an empty CUDA_VISIBLE_DEVICES and other words that hide the GPUs on purpose are a warning if the service
    is given the GPUs that its image is made for; else they are not reported. So is an empty NVIDIA_VISIBLE_DEVICES,
    void or none, of a Kubernetes container that asks for GPUs: it replaces what the device plugin says.

    ## Fix safety
    Without the variable a program sees the GPUs that the container is given.
    """
    for started in recipe.services:
        service = started.service
        for name in (*VISIBILITY, _OF_TOOLKIT):
            value = service.environment.get(name, "")
            why = "" if name == _OF_TOOLKIT else slip_in_devices(value) or _beyond(service, name, value)
            if why or _contradicts(recipe, started, name):
                sure = why and (service.given_gpus or service.privileged)
                yield about_service(
                    service,
                    severity="error" if sure else "warning",
                    message=f"{service.title} sets {name}={value}, which hides every GPU: {why}."
                    if why
                    else f"{service.title} is given GPUs, and its {f'{name}={value}' if value else f'empty {name}'} "
                    "hides every GPU.",
                    saw=f"{name}={value}",
                    want="not set" if name == _OF_TOOLKIT else "not set, or numbers without quotes",
                    fixes=(
                        change(
                            "Remove the variable",
                            f"{service.place_of_variable(name)}: leave out {name}, or write numbers:",
                            f"    {service.written_variable(name, 0)}",
                        )
                        if name != _OF_TOOLKIT
                        else change("Remove the variable", f"{service.place_of_variable(name)}: leave out {name}"),
                    ),
                    refs=(
                        "pytorch/pytorch torch/cuda/__init__.py, _parse_visible_devices",
                        "ROCm/ROCR-Runtime amd_filter_device.cpp, RvdFilter; ROCm/clr rocdevice.cpp, Device::init",
                    ),
                )


def _contradicts(recipe: Recipe, started: RecipeService, name: str) -> bool:
    """Whether a variable hides on purpose the GPUs that the service is given, and that its image is made for."""
    service, image = started.service, started.image
    if name == _OF_TOOLKIT:  # compose writes its own value over it
        return service.cluster and service.nvidia and service.environment.get(name, "all").strip() in NO_GPU
    vendor = recipe.vendor(image) if image is not None else None
    given = started.given_nvidia if vendor == "nvidia" else service.amd or service.kfd
    if vendor is None or not given or (name != "CUDA_VISIBLE_DEVICES" and vendor != "amd"):
        return False
    value = service.environment.get(name)
    if value is None:
        return False
    if not value.strip():
        return vendor == "nvidia"  # HIP takes an empty one as unset
    return value.strip() in HIDING[name]


def _beyond(service: Service, name: str, value: str) -> str:
    """Why the first number of a visibility variable is that of no GPU of the container; "" where it may be one."""
    count, first = _granted(service), value.split(",", maxsplit=1)[0].strip()
    if (
        count is None
        or (name != "CUDA_VISIBLE_DEVICES" and not service.amd)
        or not re.fullmatch(r"\d{1,3}", first)
        or int(first) < count
    ):
        return ""
    numbers = "whose number is 0" if count == 1 else f"whose numbers are 0 to {count - 1}"
    return f"it is given {count} GPU{'s' * (count > 1)}, {numbers}" if count else ""


def _granted(service: Service) -> int | None:
    """How many GPUs the container sees, if its file says so."""
    if service.privileged or service.open:
        return None
    if not service.by_variable:
        return service.gpu_count
    named = service.environment.get("NVIDIA_VISIBLE_DEVICES", "all").split(",")
    return len(named) if all(re.fullmatch(r"\d{1,3}|(GPU|MIG)-\S+", one.strip()) for one in named) else None
