"""PyTorch: which GPUs its builds have code for, which build a machine should have, what is wrong with its files."""

from __future__ import annotations

from collections.abc import Callable

from gpudoctor import check as checks
from gpudoctor.finding import Layer
from gpudoctor.situation import Situation

NAME = "torch"


def check(
    id: str, slug: str, layer: Layer, needs: Callable[[Situation], bool] = checks.always
) -> Callable[[Callable[[Situation], checks.Verdicts]], checks.Check[Situation]]:
    """Make a function a check whose findings are about torch."""
    return checks.check(id, slug, layer, needs, framework=NAME)
