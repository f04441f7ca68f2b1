"""Base images that their registry removed."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.recipe import Recipe, about_line, change


@check("GPD613", "image-base-removed", "image")
def base_removed(recipe: Recipe) -> Verdicts:
    """Docker Hub does not have the base image.

    ## Why it matters
    NVIDIA deletes the tags of old CUDA releases, and those of updates that a newer one replaces. The build then stops
    at its first line: "manifest unknown", or "not found".

    ## How it is judged
    The matrix has the tags of nvidia/cuda that people asked Docker Hub for in vain. Only names without a registry, or
    with docker.io, are compared: a company's registry may hold a copy. So may the machine that builds. Stages that
    the built one does not need are ignored.

    ## Fix safety
    A later update of the same CUDA release changes nothing for torch. Another CUDA release may need another build of
    what is compiled against it.
    """
    for image in recipe.images:
        for base, line in image.bases:
            found = recipe.matrix.images.removed_image(base)
            if found is None:
                continue
            row, name = found
            place = image.place(line)
            yield about_line(
                image,
                line,
                image.written_from(base),
                severity="error",
                message=f"{base} is not on Docker Hub: the build stops here.",
                saw=base,
                want=name or row.instead,
                fixes=(
                    change(
                        "Use a tag that is there",
                        f"{place}: {image.written_from(name) if name else f'use {row.instead}'}",
                    ),
                ),
                refs=(row.source,),
            )
