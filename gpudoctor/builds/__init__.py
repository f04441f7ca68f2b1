"""Which torch build a machine should have: what the present one carries, what else could be had, the ways out."""

from gpudoctor.builds.cards import cards_to_serve
from gpudoctor.builds.carried import Carried, carries, natively, override_in_force, toolkit_knows
from gpudoctor.builds.choice import Choice, Rejected, candidates, platform_of, python_of
from gpudoctor.builds.drivers import cuda_driver, driver_verdict, runs_some_build
from gpudoctor.builds.ways import replacements

__all__ = [
    "Carried",
    "Choice",
    "Rejected",
    "candidates",
    "cards_to_serve",
    "carries",
    "cuda_driver",
    "driver_verdict",
    "natively",
    "override_in_force",
    "platform_of",
    "python_of",
    "replacements",
    "runs_some_build",
    "toolkit_knows",
]
