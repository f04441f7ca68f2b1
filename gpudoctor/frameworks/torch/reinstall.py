"""The fix that installs the same torch again over its damaged files."""

from __future__ import annotations

from gpudoctor.finding import (
    AnyRemedy,
    Fix,
    Manual,
    ReinstallPackage,
)
from gpudoctor.frameworks.torch.gpu_coverage import FROM_AN_INDEX
from gpudoctor.machine import Torch
from gpudoctor.situation import Situation


def installed_again(situation: Situation, torch: Torch) -> Fix:
    """The same build once more, installed in the way of its origin."""
    if torch.origin not in FROM_AN_INDEX and torch.origin not in ("nightly", "amd"):
        text = f"Install torch {torch.version} again from its origin (image, conda, distribution, own build)."
        return Fix("Install torch again", (Manual(text, risk="replaces"),))
    remedy = _same_build(situation, torch, "the same version, with all its files")
    return Fix(f"Install torch {torch.version} again", (remedy,))


def _same_build(situation: Situation, torch: Torch, why: str) -> AnyRemedy:
    """The same build from its origin; the package index names its own builds without the local part."""
    row = situation.matrix.build_of(torch, situation.platform)
    if row is None and torch.origin != "nightly":
        row = situation.matrix.kin_of(torch, situation.platform)
    url = situation.matrix.index_url(row) if row else ""
    if not url and torch.origin != "pypi" and (row is None or row.origin != "pypi"):
        return Manual(f"Install torch {torch.version} again from the index that it came from.", risk="replaces")
    version = torch.version if url else torch.version.partition("+")[0]
    return ReinstallPackage("torch", version, index_url=url, why=why)
