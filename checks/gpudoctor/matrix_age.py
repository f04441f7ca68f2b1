"""A torch that is newer than the matrix (GPD903)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, by_hand
from gpudoctor.frameworks.torch import check
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation


@check("GPD903", "matrix-older-than-torch", "gpudoctor")
def matrix_older_than_torch(situation: Situation) -> Verdicts:
    """The installed torch is newer than what this gpudoctor knows.

    ## Why it matters
    gpudoctor reads the libraries of that release to see what it was built for; its pairs and pins are unknown.

    ## How it is judged
    By the newest release in the compatibility matrix.

    ## Fix safety
    Updating gpudoctor changes nothing in the examined environment.
    """
    torch = situation.torch
    if torch is None:
        return
    release, newest = figures(torch.release)[:2], figures(situation.matrix.torch.newest_torch())[:2]
    if not release or release <= newest:
        return
    yield Finding(
        severity="note",
        message=f"torch {torch.version} is newer than the newest release that this gpudoctor knows "
        f"({situation.matrix.torch.newest_torch()}).",
        saw=torch.version,
        want=f"at most {situation.matrix.torch.newest_torch()}",
        subject=f"torch {torch.version}",
        evidence=(Evidence("matrix.version", situation.matrix.tables.version, "compat_matrix"),),
        fixes=(by_hand("Update gpudoctor", "Update gpudoctor to a version whose matrix knows this torch."),),
    )
