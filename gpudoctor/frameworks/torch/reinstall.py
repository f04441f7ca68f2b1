"""The fixes that install the same torch, or other packages, again over their damaged files."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.dependencies import TRITONS
from gpudoctor.finding import AnyRemedy, Fix, Manual, ReinstallPackage, by_hand
from gpudoctor.frameworks.torch.installed_build import FROM_AN_INDEX
from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of
from gpudoctor.late_regex import late
from gpudoctor.machine import Distribution, Torch
from gpudoctor.machine.torch import TORCH_AND_COMPANIONS
from gpudoctor.matrix.versions import local_version
from gpudoctor.situation import Situation

_NOT_FOUND = late(r"(lib\w+\.so\S*) ?: cannot open shared object file.{0,60}\(imported by torch\)")


def reinstall_torch(situation: Situation, torch: Torch) -> Fix:
    """The fix that installs the same build again, in the way of its origin."""
    if torch.origin not in FROM_AN_INDEX and torch.origin not in ("nightly", "amd"):
        text = f"Install torch {torch.version} again from its origin (image, conda, distribution, own build)."
        return by_hand("Install torch again", text, "replaces")
    remedy = same_build(situation, torch, "the same version, with all its files")
    return Fix(f"Install torch {torch.version} again", (remedy,))


def with_its_library(text: str) -> tuple[Fix, ...]:
    """What brings back the library of one of NVIDIA's wheels that `import torch` did not find."""
    missing = _NOT_FOUND.search(text)
    wheel = distribution_of(missing[1]) if missing else None
    if missing is None or wheel is None:
        return ()
    how = (
        "Install torch again in one step with its dependencies (`pip install --force-reinstall`, or `uv sync "
        f"--reinstall-package torch`). Of these {wheel} (with -cu12 or -cu13 at its end) brings {missing[1]}."
    )
    return (by_hand(f"Install torch again, with {wheel}", how, "replaces"),)


def reinstall_all(situation: Situation, packages: Iterable[Distribution], why: str) -> tuple[AnyRemedy, ...]:
    """Install the same versions of several packages again, torch first, each from the index that its version
    names."""
    torch, remedies = situation.torch, list[AnyRemedy]()
    for one in sorted(packages, key=lambda one: one.name != "torch"):
        if one.name == "torch" and torch is not None:
            remedies += reinstall_torch(situation, torch).remedies
        elif (index := index_of(situation, one.version, one.name)) is not None:
            remedies.append(ReinstallPackage(one.name, one.version, index_url=index, why=why))
        else:
            text = (
                f"Install {one.name} {one.version} again from where it came from. Where that has no wheel for Python "
                f"{situation.python}, compile it here from its sources."
            )
            remedies.append(Manual(text, why=why, risk="replaces"))
    return tuple(remedies)


_ON_TORCHS_INDEXES = (*TORCH_AND_COMPANIONS, *TRITONS, "xformers", "torchao")


def index_of(situation: Situation, version: str, name: str = "torch") -> str | None:
    """The index that has this version: without a local part it is the package index's own. None: not known. Many
    packages are labelled as torch's builds are (detectron2 0.6+cu118) and lie elsewhere."""
    local = local_version(version)
    if not local:
        return ""
    if name not in _ON_TORCHS_INDEXES:
        return None
    rows = situation.matrix.torch.builds(situation.platform)
    urls = (situation.matrix.torch.index_url(row) for row in rows if row.build == local)
    return next(filter(None, urls), None)


def same_build(situation: Situation, torch: Torch, why: str) -> AnyRemedy:
    """The same build from its origin; the package index names its own builds without the local part."""
    row = situation.build_of(torch)
    if row is None and torch.origin != "nightly":
        row = situation.matrix.torch.kin_of(torch, situation.platform)
    url = situation.matrix.torch.index_url(row) if row else ""
    if not url and torch.origin != "pypi" and (row is None or row.origin != "pypi"):
        return Manual(f"Install torch {torch.version} again from the index that it came from.", risk="replaces")
    version = torch.version if url else torch.release
    return ReinstallPackage("torch", version, index_url=url, why=why)
