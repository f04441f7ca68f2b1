"""Packages with GPU code of their own that were compiled against another torch (GPD446)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding
from gpudoctor.frameworks.torch.compiled_packages import (
    built_for,
    dependent_row,
    has_own_check,
    symbol_evidence,
    tells_its_torch,
    torch_mismatch,
    unloadable,
)
from gpudoctor.machine import Distribution, Extension, Torch
from gpudoctor.situation import Situation
from gpudoctor.situation.extensions import by_package, file_of


@check("GPD446", "extension-torch-mismatch", "packages", framework="torch")
def extension_torch_mismatch(situation: Situation) -> Verdicts:
    """A package was compiled against another torch.

    ## Why it matters
    Its library cannot be loaded: "undefined symbol: _ZN3c10..." at import, or at the first use.

    ## How it is judged
    By the symbols of torch that its libraries need: each must be defined by the installed torch. A package that pins
    this very torch is not read. Of one that is only listed, the version may tell its torch (2.1.2+pt28cu128). torchao
    compares the releases itself: beside another torch it leaves its libraries out, which is a warning.

    ## Fix safety
    Replaces only the package, if a release of it is known that was built for this torch.
    """
    torch = situation.torch
    for package in _compiled_against(situation) if torch else ():
        installed = situation.machine.installed(package)
        if torch is None or installed is None:
            continue
        row, lacking = dependent_row(situation, installed), unloadable(situation, package)
        known = row is not None or tells_its_torch(installed)
        if not lacking and (not known or torch_mismatch(situation, package) is None):
            continue
        from gpudoctor.frameworks.torch.release_for_torch import for_this_torch

        wanted, source = built_for(situation, installed)
        works = row is not None and row.works_without_libraries
        yield Finding(
            severity="warning" if works else "error",
            message=_of_another_torch(installed, torch, lacking, wanted)
            + (" It leaves its libraries out, and works without them." if works else ""),
            saw=f"torch {torch.version}",
            want=f"torch {wanted}" if wanted else f"a torch with {lacking[0].undefined[0]}",
            subject=f"{package} {installed.version}",
            evidence=(
                *symbol_evidence(lacking),
                Evidence.of_torch(torch),
                *((Evidence(f"{package} was built for", f"torch {wanted}", source),) if wanted else ()),
            ),
            fixes=for_this_torch(situation, torch, package, wanted),
        )


def _compiled_against(situation: Situation) -> tuple[str, ...]:
    """Packages whose libraries were read, those whose releases the matrix knows, and listed ones that tell their
    torch, without a check of their own."""
    rows = situation.matrix.tables.torch_dependents
    known = (row.package for row in rows if row.slug == "extension-torch-mismatch")
    listed = (one.name for one in situation.machine.packages if tells_its_torch(one))
    packages = dict.fromkeys((*by_package(situation), *known, *listed))
    return tuple(package for package in packages if not has_own_check(situation, package))


def _of_another_torch(installed: Distribution, torch: Torch, lacking: tuple[Extension, ...], wanted: str) -> str:
    """The sentence with what gives it away: a symbol that is lacking, or else the release that is wanted."""
    name, built = f"{installed.name} {installed.version}", wanted.removeprefix("==")
    if not lacking:
        return f"{name} was built for torch {built}, and torch {torch.version} is installed."
    told = f" It was built for torch {built}." if built else ""
    return (
        f"{name} was compiled against another torch than {torch.version}: {file_of(lacking[0])} needs "
        f"{lacking[0].undefined[0]}, which this torch does not define.{told}"
    )
