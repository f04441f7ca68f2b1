"""Which torch build a machine should have: what the present one carries, what else could be had, the ways out.

What only a finding needs is imported when it is first asked for: most machines are well. Checks therefore say
`builds.replacements(...)`; what a healthy machine needs too is imported from `builds.carried` and `builds.drivers`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpudoctor.builds.cards import cards_to_serve as cards_to_serve
    from gpudoctor.builds.choice import Choice as Choice
    from gpudoctor.builds.choice import Rejected as Rejected
    from gpudoctor.builds.choice import candidates as candidates
    from gpudoctor.builds.choice import platform_of as platform_of
    from gpudoctor.builds.choice import python_of as python_of
    from gpudoctor.builds.nearest import way_to as way_to
    from gpudoctor.builds.no_one_driver import apart as apart
    from gpudoctor.builds.no_one_driver import called_driver as called_driver
    from gpudoctor.builds.no_one_driver import choose_cards as choose_cards
    from gpudoctor.builds.no_one_driver import taken as taken
    from gpudoctor.builds.ways import replacements as replacements

_HOMES = {
    "cards_to_serve": "cards",
    "Choice": "choice",
    "Rejected": "choice",
    "candidates": "choice",
    "platform_of": "choice",
    "python_of": "choice",
    "way_to": "nearest",
    "apart": "no_one_driver",
    "called_driver": "no_one_driver",
    "choose_cards": "no_one_driver",
    "taken": "no_one_driver",
    "replacements": "ways",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
