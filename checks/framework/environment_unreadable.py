"""Whether this user may read the examined environment (GPD417)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, by_hand
from gpudoctor.frameworks.torch import check
from gpudoctor.situation import Situation


@check("GPD417", "environment-unreadable", "framework")
def environment_unreadable(situation: Situation) -> Verdicts:
    """This user may not read the packages of the examined environment.

    ## Why it matters
    Python finds no package in a folder that it may not list: `import torch` says that there is no torch.

    ## How it is judged
    The user that gpudoctor runs as may not list a folder of the environment that holds installed packages, and no
    other folder has a torch. Folders outside of the environment, such as the site folder of another user, are no
    fault.

    ## Fix safety
    Rights are given by a person. Running as the owner of the environment changes nothing.
    """
    environment = situation.environment
    if environment is None or environment.torch.state != "denied":
        return
    folder = environment.torch.source
    if not environment.prefix or not folder.startswith(f"{environment.prefix.rstrip('/')}/"):
        return
    text = f"Give this user the right to read {folder} and what is below it, or run as the owner of the environment."
    yield Finding(
        severity="error",
        message=f"This user may not list {folder}: Python finds no torch there.",
        saw=f"{folder}: {environment.torch.why}",
        want="a folder that this user may read",
        subject="Python environment",
        evidence=(Evidence.of("environment.torch", environment.torch),),
        fixes=(by_hand("Give this user access", text),),
        supersedes=("torch-missing", "no-gpu"),
    )
