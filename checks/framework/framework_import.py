"""Whether frameworks beside torch, and what is compiled for torch, can be imported (GPD480)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.dependencies import closure
from gpudoctor.finding import Finding, NotJudged
from gpudoctor.frameworks.import_finding import failed_import
from gpudoctor.frameworks.torch.file_faults import FRAMEWORK_DAMAGED, REQUIREMENTS, ImportFault
from gpudoctor.frameworks.torch.import_faults import explain_other
from gpudoctor.frameworks.torch.unmet_dependencies import unmet
from gpudoctor.machine import ImportTrial, ModuleImport
from gpudoctor.situation import Situation

_TWICE = "package-installed-twice"
_OF_THE_DRIVER = r"(lib(?:cuda|nvcuvid|nvoptix|nvidia-[\w-]+)\.so[\w.]*): cannot open shared object file"


@check("GPD480", "framework-import-fails", "framework")
def framework_import_fails(situation: Situation) -> Verdicts:
    """A framework, or what is compiled for torch, cannot be imported.

    ## Why it matters
    Nothing that uses it runs, on the GPU or on the CPU.

    ## How it is judged
    `check` imports each installed framework (JAX, TensorFlow, ONNX Runtime ...), torchvision and torchaudio in a
    child of the examined interpreter, as it does with torch. The error names a library, a module or a file, and the
    RECORD of the installed packages tells whose it is. What tells nothing is unknown. At level static nothing is
    imported. A library of the driver that is missing is told by the checks of the driver.

    ## Fix safety
    Depends on the reason, which the message names. A package with damaged files is installed again in its version;
    torch and the other packages stay as they are.
    """
    environment = situation.environment
    if environment.start_faults:  # environment-broken tells the reason
        return
    for one in environment.frameworks.imports:
        trial = one.trial.value
        if trial is None:
            yield NotJudged(why=one.trial.why, matters=True)
        elif not trial.ok and (library := re.search(_OF_THE_DRIVER, f"{trial.root}\n{trial.error}")):
            yield NotJudged(why=f"import {one.module} needs the driver's {library[1]}", matters=False)
        elif not trial.ok:
            yield _failed(situation, one, trial)


def _failed(situation: Situation, one: ModuleImport, trial: ImportTrial) -> Finding:
    fault = explain_other(situation, one, trial)
    return failed_import(
        one.module,
        trial,
        one.trial.source,
        fault,
        subject=f"{one.package} {one.version}",
        framework=one.framework,
        possible_causes=tuple(dict.fromkeys(_causes(situation, one, trial, fault))),
    )


def _causes(situation: Situation, one: ModuleImport, trial: ImportTrial, fault: ImportFault) -> Iterator[str]:
    """Of the causes that the reason may have, those that are about the files which the error points at. Where it
    points at none, what is wrong with the package itself or with one that it requires."""
    owners = {file.owner for file in trial.suspects if file.problem}
    packages = situation.machine.packages
    about = {
        REQUIREMENTS: {each.name for each in unmet(situation) if each.severity == "error"},
        FRAMEWORK_DAMAGED: {each.name for each in packages if each.lost},
        _TWICE: {each.name for each in packages if each.twins},
    }
    yield from (slug for slug in fault.causes if not owners or not owners.isdisjoint(about.get(slug, owners)))
    if not owners:
        needed = {each.what.name for each in closure((one.package,), situation.machine.installed, situation.markers)}
        yield from (slug for slug, names in about.items() if not names.isdisjoint({one.package, *needed}))
