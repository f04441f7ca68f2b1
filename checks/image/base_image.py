"""The name of the base image."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.recipe import Recipe, change, line_of
from gpudoctor.finding import Finding


@check("GPD613", "image-base-removed", "image")
def base_removed(recipe: Recipe) -> Verdicts:
    """Docker Hub does not have the base image.

    ## Why it matters
    NVIDIA deletes the tags of old CUDA releases, and those of updates that a newer one replaces. The build then stops
    at its first line: "manifest unknown", or "not found".

    ## How it is judged
    The matrix has the tags of nvidia/cuda that people asked Docker Hub for in vain. Only names without a registry, or
    with docker.io, are compared: a company's registry may hold a copy. So may the machine that builds.

    ## Fix safety
    A later update of the same CUDA release changes nothing for torch. Another CUDA release may need another build of
    what is compiled against it.
    """
    for image in recipe.images:
        found = recipe.matrix.removed_image(image.base) if image.base else None
        if found is None:
            continue
        row, name = found
        place = image.place(image.base_line)
        yield Finding(
            severity="error",
            confidence="likely",
            message=f"{image.base} is not on Docker Hub: the build stops here.",
            saw=image.base or "",
            want=name or row.instead,
            subject=place,
            evidence=(line_of(image, image.base_line, f"FROM {image.base}"),),
            fixes=(change("Use a tag that is there", f"{place}: FROM {name or row.instead}"),),
            refs=(row.source,),
        )
