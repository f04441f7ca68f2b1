"""The variables that a compose file gives to its services."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.recipe import Recipe, about_service, change
from gpudoctor.dockerfile.variables import VISIBLE, slip_in_devices


@check("GPD623", "compose-hides-gpus", "image")
def hides_gpus(recipe: Recipe) -> Verdicts:
    """A visibility variable of a service hides every GPU by mistake.

    ## Why it matters
    CUDA, HIP and ROCr read numbers and UUIDs, and show only the GPUs before the first entry that is neither. `all` is
    a value of NVIDIA_VISIBLE_DEVICES, which the container toolkit reads; in CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES
    and ROCR_VISIBLE_DEVICES it shows no GPU. In a list of compose (`- CUDA_VISIBLE_DEVICES="0"`) the quotes belong to
    the value, with the same effect.

    ## How it is judged
    By the value alone, in `environment` or a file of `env_file`. An empty value, -1 and other words that hide the
    GPUs on purpose are not reported. An error if the service is given a GPU, else a warning.

    ## Fix safety
    Without the variable a program sees the GPUs that the container is given.
    """
    for started in recipe.services:
        service = started.service
        for name in VISIBLE:
            value = service.environment.get(name, "")
            if why := slip_in_devices(value):
                yield about_service(
                    service,
                    severity="error" if service.given_gpus or service.privileged else "warning",
                    message=f"{service.title} sets {name}={value}, which hides every GPU: {why}.",
                    saw=f"{name}={value}",
                    want="not set, or numbers without quotes",
                    fixes=(
                        change(
                            "Remove the variable",
                            f"{service.place_of_variable(name)}: leave out {name}, or write numbers:",
                            f"    {service.written_variable(name, 0)}",
                        ),
                    ),
                    refs=(
                        "pytorch/pytorch torch/cuda/__init__.py, _parse_visible_devices",
                        "ROCm/ROCR-Runtime amd_filter_device.cpp, RvdFilter; ROCm/clr rocdevice.cpp, Device::init",
                    ),
                )
