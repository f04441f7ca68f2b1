"""What a check is: a pure function over what it judges, with its id, its slug, its layer and its explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import Finding, Layer, NotJudged

J = TypeVar("J")
"""What a check judges: a `Situation`, or the recipe of an image."""

Verdicts = Iterable[Finding | NotJudged]
Need = Callable[[J], bool]
"""Whether a subject has what a check looks at first."""


def always(subject: Any) -> bool:
    """The need of a check that has something to say of everything."""
    return True


class Check(Struct, Generic[J], frozen=True):
    """One check. The docstring of its function is what `gpudoctor explain` prints."""

    id: str
    slug: str
    layer: Layer
    function: Callable[[J], Verdicts]
    needs: Need[J] = always
    framework: str | None = None
    """The framework that its findings are about."""

    @property
    def title(self) -> str:
        """First line of the docstring: what is wrong."""
        return self.explanation.splitlines()[0]

    @property
    def explanation(self) -> str:
        """The whole docstring, cleaned: what, why it matters, how it is judged, how safe the fix is."""
        from inspect import getdoc  # imports half of the standard library

        return getdoc(self.function) or ""

    def run(self, subject: J) -> tuple[tuple[Finding, ...], tuple[NotJudged, ...]]:
        """Findings and unanswered questions, stamped with this check's id, and its slug where they name none."""
        findings: list[Finding] = []
        open_questions: list[NotJudged] = []
        for verdict in self.function(subject):
            if isinstance(verdict, Finding):
                findings.append(self._stamped(verdict))
            else:
                open_questions.append(replace(verdict, id=self.id, slug=self.slug, layer=self.layer))
        return tuple(findings), tuple(open_questions)

    def _stamped(self, finding: Finding) -> Finding:
        return replace(
            finding,
            id=self.id,
            slug=finding.slug or self.slug,
            layer=self.layer,
            framework=finding.framework or self.framework,
            devices=finding.devices or ((finding.device,) if finding.device else ()),
        )


def check(
    id: str, slug: str, layer: Layer, needs: Need[J] = always, framework: str | None = None
) -> Callable[[Callable[[J], Verdicts]], Check[J]]:
    """Make a function a check: `@check("GPD123", "driver-lib-mismatch", "driver")`.

    A check of torch takes `check` from `gpudoctor.frameworks.torch`, which says the framework.
    """
    return lambda function: Check(id=id, slug=slug, layer=layer, function=function, needs=needs, framework=framework)
