"""Questions about public container images."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.matrix.cards import Cards
from gpudoctor.matrix.rows import BaseImage

_HUB = ("docker.io/", "index.docker.io/", "registry-1.docker.io/", "public.ecr.aws/docker/", "mirror.gcr.io/")
_TOLD_BY_THE_TAG = ("cuda", "rocm", "python", "torch", "release")


class ImageQuestions(Cards):
    """What the table of base images answers."""

    def base_image(self, name: str) -> BaseImage | None:
        """What an image holds, by its name and tag; None: not known."""
        plain = name.partition("@")[0]
        hub = next((hub for hub in _HUB if plain.startswith(hub)), "")
        plain = plain.removeprefix(hub).removeprefix("library/")
        for row in self.tables.base_images:
            if found := re.fullmatch(row.image, plain):
                groups = found.groupdict()
                told = {key: value for key, value in groups.items() if key in _TOLD_BY_THE_TAG and value}
                python = told.get("python") or row.python or self._python_of(groups.get("distribution") or "")
                return replace(row, **{**told, "python": python})
        return None

    def _python_of(self, distribution: str) -> str | None:
        rows = self.tables.distributions
        return next((row.python for row in rows if re.fullmatch(row.distribution, distribution)), None)
