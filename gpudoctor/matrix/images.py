"""Questions about public container images and distributions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.machine import Os

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import BaseImage, Distribution, DistributionKin, RemovedImage, RemovedPackage, Tables

_HUB = ("docker.io/", "index.docker.io/", "registry-1.docker.io/", "public.ecr.aws/docker/", "mirror.gcr.io/")
_TOLD_BY_THE_TAG = ("cuda", "rocm", "python", "torch", "release")


class ImageQuestions:
    """Questions that the tables of base images and distributions answer."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def base_image(self, name: str) -> BaseImage | None:
        """The content of an image, by its name and tag; None: unknown."""
        plain = name.partition("@")[0]
        hub = next((hub for hub in _HUB if plain.startswith(hub)), "")
        plain = plain.removeprefix(hub).removeprefix("library/")
        for row in self.tables.base_images:
            if found := re.fullmatch(row.pattern, plain):
                groups = found.groupdict()
                told = {key: value for key, value in groups.items() if key in _TOLD_BY_THE_TAG and value}
                cuda = told.get("cuda") or row.cuda or self.ngc_cuda(told.get("release", ""))
                brought, own = told.get("python") or row.python, self._distribution(groups.get("distribution") or "")
                python, managed = (own.python, own.managed) if own and not brought else (brought, False)
                prefix = row.prefix or ("/usr" if own and not brought else "")
                of_python = {"python": python, "prefix": prefix, "managed": managed}
                return replace(row, **{**told, "cuda": cuda, **of_python, "cudnn": _cudnn(groups, row)})
        return None

    def removed_image(self, name: str) -> tuple[RemovedImage, str] | None:
        """The row of an image that Docker Hub does not have, and the name of the nearest one that it has ("" if there
        is none)."""
        plain = name.partition("@")[0].removeprefix("docker.io/")
        for row in self.tables.removed_images:
            if found := re.fullmatch(row.pattern, plain):
                return row, plain.replace(found["version"], row.version, 1) if row.version else ""
        return None

    def removed_package(self, package: str, channel: str) -> RemovedPackage | None:
        """The row of a package that an index ("") or a channel of conda has no longer."""
        rows = self.tables.removed_packages
        return next((row for row in rows if (row.package, row.channel) == (package, channel)), None)

    def ngc_cuda(self, image: str) -> str | None:
        """The CUDA of NVIDIA's PyTorch image of that release ("25.10"); None: unknown."""
        return next((row.cuda for row in self.tables.ngc_images if row.release == image), None)

    def libc_of(self, os: Os) -> str | None:
        """C library of a distribution's release, "glibc 2.31" or "musl"; None: unknown."""
        row = self._distribution(self._release(os))
        return row.libc if row else None

    def releases(self, os: Os) -> tuple[str, ...]:
        """How rows name this release, and the one whose packages it uses: ("linuxmint-22.1", "ubuntu-24.04")."""
        own = self._release(os)
        kinds = [kind for kind in ("ubuntu", "debian") if kind in (os.id, *os.like)]
        names = (own, *(f"{kind}-{os.codename}" for kind in kinds if os.codename))
        bases = [row.base for name in names if (row := self._distribution(name)) and row.base]
        kin = self._kin(os)
        if kin is not None and kin.base:
            bases.append(kin.base.replace("{version}", own.removeprefix(os.id).lstrip("-")).rstrip("-"))
        elif kin is None and not bases:
            bases += [
                kind if kind == "arch" else f"{kind}-{os.version}" for kind in ("rhel", "arch") if kind in os.like
            ]
        return tuple(dict.fromkeys((own, *bases[:1])))

    def _release(self, os: Os) -> str:
        """ "ubuntu-22.04", of a point release, too."""
        kin = self._kin(os)
        version = ".".join(os.version.split(".")[: kin.figures]) if kin else os.version
        return f"{os.id}-{version}" if version else os.id

    def _kin(self, os: Os) -> DistributionKin | None:
        return next((row for row in self.tables.distribution_kin if row.id == os.id), None)

    def distribution_named(self, name: str) -> DistributionKin | None:
        """The distribution of a name as people write it: "Rocky Linux", "pop!_os", "opensuse leap"."""
        wanted = _plain(name)
        for row in self.tables.distribution_kin:
            if wanted in map(_plain, (row.id, *row.names)):
                return row
        return None

    def distributions_near(self, name: str) -> tuple[str, ...]:
        """Ids that resemble a name so much that it is a slip."""
        from difflib import get_close_matches

        return tuple(get_close_matches(_plain(name), (row.id for row in self.tables.distribution_kin), 3, 0.8))

    def _distribution(self, name: str) -> Distribution | None:
        rows = self.tables.distributions if name else ()
        return next((row for row in rows if re.fullmatch(row.distribution, name)), None)


def _cudnn(groups: dict[str, str | None], row: BaseImage) -> str | None:
    """cuDNN's major release: of the tag's number, or the row's for a tag without one."""
    if "cudnn" not in groups:
        return row.cudnn
    tag = groups["cudnn"]
    return tag.strip("cudn-") or row.cudnn if tag else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]|linux$", "", name.lower().replace("gnu/linux", "linux").strip())
