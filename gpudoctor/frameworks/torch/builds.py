"""Which torch build a machine should have: what the present one supports, the available ones, and the fixes.

The modules that only a problem needs are imported on first use, since most machines have none. Checks therefore call
`builds.replacements(...)`; what a healthy machine also needs is imported from `coverage`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpudoctor.frameworks.torch.candidates import Choice, RejectedCandidate, candidates
    from gpudoctor.frameworks.torch.gpus_to_serve import gpus_to_serve
    from gpudoctor.frameworks.torch.nearest_build import fix_by
    from gpudoctor.frameworks.torch.replacements import for_each_kind, replacements, without_fault, without_issue

__all__ = [
    "Choice", "RejectedCandidate", "candidates", "fix_by", "for_each_kind", "gpus_to_serve", "replacements",
    "without_fault", "without_issue",
]  # fmt: skip

_HOMES = {
    "candidates": ("Choice", "RejectedCandidate", "candidates"),
    "gpus_to_serve": ("gpus_to_serve",),
    "nearest_build": ("fix_by",),
    "replacements": ("for_each_kind", "replacements", "without_fault", "without_issue"),
}
"""The modules, with what is taken from them."""


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"gpudoctor.frameworks.torch.{home}"), name)
