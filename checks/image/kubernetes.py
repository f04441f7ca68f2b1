"""How a Kubernetes manifest asks for GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.compose import Service
from gpudoctor.dockerfile.kubernetes import quantity
from gpudoctor.dockerfile.recipe import Recipe, about_service, change


@check("GPD631", "manifest-gpu-request", "image")
def gpu_request(recipe: Recipe) -> Verdicts:
    """A Kubernetes container asks for GPUs in a way that the cluster refuses.

    ## Why it matters
    GPUs are extended resources: they are not shared, and asked for in whole numbers by `limits`. With `requests`
    alone, with a fraction, or with two numbers that differ, the API server refuses the Pod ("Limit must be set for
    non overcommitable resources"). A Deployment or a Job then waits for Pods that never come.

    ## How it is judged
    By `resources` of the container, for names of NVIDIA's and AMD's device plugins. `requests` may be left out. A
    placeholder, such as `{{ .Values.gpus }}`, is no number and is not judged.

    ## Fix safety
    The scheduler reserves what `limits` says.
    """
    for started in recipe.services:
        service = started.service
        for name in sorted({*service.limits, *service.requests}):
            limit, request = service.limits.get(name), service.requests.get(name)
            amounts = [quantity(written) for written in (limit, request) if written is not None]
            number = amounts[0]
            if not re.match(r"(nvidia|amd)\.com/", name) or number is None or None in amounts:
                continue
            fraction = number != number.to_integral_value() or number < 0
            if not fraction and (limit is not None or number == 0) and amounts.count(number) == len(amounts):
                continue
            whole = max(1, ceil(number))
            what = (
                f"{name} under requests alone" if limit is None
                else f"{limit} of {name}" if fraction
                else f"{request} of {name} by requests and {limit} by limits"
            )  # fmt: skip
            yield about_service(
                service,
                severity="error",
                message=f"{service.title} asks for {what}: Kubernetes refuses the Pod.",
                saw="no limits" if limit is None else f"limits {limit}",
                want=f"limits {whole}",
                fixes=(change("Write limits", *_rewritten(service, name, whole)),),
                refs=("Kubernetes: Schedule GPUs; Resource Management, Extended resources",),
            )  # fmt: skip


def _rewritten(service: Service, name: str, whole: int) -> Iterator[str]:
    """The lines that ask for a resource by limits alone, each where it belongs."""
    if name in service.requests:
        yield f"{service.place_of(f'resources.requests.{name}')}: leave out {name}, below requests"
    if name in service.limits:
        yield f"{service.place_of(f'resources.limits.{name}')}: {name}: {whole}"
    else:
        yield from service.adding("resources.limits", "{}", f"{name}: {whole}")
