"""Whether an install or uninstall of torch was interrupted (GPD433)."""

from __future__ import annotations

import posixpath
import shlex

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, Fix, ReinstallPackage, by_hand
from gpudoctor.frameworks.torch import builds, check
from gpudoctor.frameworks.torch.installed_build import FROM_AN_INDEX, better_torch, gpus_meant
from gpudoctor.frameworks.torch.reinstall import index_of, reinstall_torch
from gpudoctor.machine import Torch, TorchCopy
from gpudoctor.matrix.versions import public_version
from gpudoctor.situation import Situation

_LEFT = {
    "dist-info without files": "its record is there, its files are gone",
    "editable without its folder": "it was installed from a folder of sources, which has no torch any more",
    "interrupted uninstall": "an uninstall or upgrade was interrupted and left only this",
    "conda record": "conda installed it, its files are gone",
    "left-over files": "only a part of its files is left, so `import torch` gives an empty module",
}
_LACKS = {
    "RECORD": "pip can neither update nor remove it",
    "METADATA": "pip does not see it, and programs that ask for its version fail",
}


@check("GPD433", "torch-install-interrupted", "framework")
def torch_install_interrupted(situation: Situation) -> Verdicts:
    """An install or uninstall of torch was interrupted.

    ## Why it matters
    What is left is no torch, or one that pip cannot update: "Cannot uninstall torch, RECORD file not found". A folder
    torch without its first file even imports, as an empty module.

    ## How it is judged
    It is an error if a record without files (a wheel's or conda's), an editable install without its sources, a folder
    ~orch or a part of the files is all that is left of torch. It is a warning if torch is there, and its .dist-info
    lacks RECORD or METADATA or is gone; an error if its import failed, too. RECORD is the last file that an installer
    writes, so without one files may be missing. Builds of conda, a distribution, an image or one's own keep other
    records.

    ## Fix safety
    Installs the same version again, in a way that needs no RECORD.
    """
    torch, remains = situation.torch, situation.environment.torch_remains
    record = situation.machine.installed("torch")
    if record is not None and record.unlinked:
        return
    if torch is None:
        if remains:
            yield _remains(situation, remains)
        return
    if torch.origin not in FROM_AN_INDEX or any(copy.via == "editable" for copy in torch.copies[:1]):
        return
    if record is not None and record.lacks:
        folder, lacks = record.path, record.lacks[0]
        yield _unfinished(situation, torch, folder, f"{posixpath.basename(folder)} has no {lacks}", _LACKS[lacks])
    elif record is None and _is_a_wheels(situation, torch):
        folder = posixpath.dirname(torch.path)
        yield _unfinished(situation, torch, folder, f"{folder} has no .dist-info of it", _LACKS["METADATA"])


def _is_a_wheels(situation: Situation, torch: Torch) -> bool:
    """Whether files without a record are those of a known wheel, in a folder that installers write to."""
    ours = posixpath.dirname(torch.path) in situation.environment.site_packages
    known = situation.build_of(torch) or situation.matrix.torch.kin_of(torch, situation.platform)
    return ours and bool(situation.machine.packages) and known is not None and "+" in torch.version


def _remains(situation: Situation, remains: tuple[TorchCopy, ...]) -> Finding:
    record = situation.machine.installed("torch")
    first = next((trace for trace in remains if trace.version), remains[0])
    named = record.version if record else _as_its_index_names_it(situation, first)
    version = f" {named}" if named else ""
    return Finding(
        severity="error",
        message=f"There is only a remainder of torch{version}, {first.path}: {_LEFT[first.via]}.",
        saw=", ".join(trace.path for trace in remains),
        want="a whole torch, or none",
        subject="Python environment",
        evidence=tuple(map(Evidence.of_copy, remains)),
        fixes=_by_conda(situation, first) if first.via == "conda record" else _new_torch(situation, named),
        supersedes=("torch-missing",),
    )


def _by_conda(situation: Situation, record: TorchCopy) -> tuple[Fix, ...]:
    tool, prefix = situation.environment.conda_tool, situation.environment.prefix
    name, version, build = posixpath.basename(record.path).rsplit("-", 2)
    text = shlex.join((tool, "install", "-p", prefix, "--force-reinstall", f"{name}={version}"))
    again = by_hand(f"Let {tool} install its torch {version} again", text, "replaces")
    better = better_torch(situation) if situation.usable else ()
    return (*better, again) if better and build.startswith("cpu") else (again, *better)


def _as_its_index_names_it(situation: Situation, trace: TorchCopy) -> str:
    """The version that the remains state; "" if none. Files say "2.9.1+cu128" also of the package index's own
    build."""
    version = trace.version or ""
    rows = situation.matrix.torch.builds(situation.platform)
    own = any(row.origin == "pypi" and f"{row.version}+{row.build}" == version for row in rows)
    return public_version(version) if own and not trace.path.endswith(".dist-info") else version


def _new_torch(situation: Situation, version: str) -> tuple[Fix, ...]:
    """Fixes that install the version again that the remains name, in that build or in a better one."""
    keep = Torch(version) if version else None
    better = builds.replacements(situation, gpus_meant(situation), keep=keep) if situation.usable else ()
    if version and (index := index_of(situation, version)) is not None:
        remedy = ReinstallPackage("torch", version, index_url=index, why="all its files, and a record of them")
        return (Fix(f"Install torch {version} again", (remedy,)), *better)
    return better or (by_hand("Install torch", "Install torch into this environment again.", "replaces"),)


def _unfinished(situation: Situation, torch: Torch, folder: str, what: str, effect: str) -> Finding:
    trial = torch.trial.value
    failed = trial is not None and not trial.ok
    return Finding(
        severity="error" if failed else "warning",
        message=f"The install of torch {torch.version} was interrupted, or its record was deleted: {what}. "
        f"{effect[0].upper()}{effect[1:]}.",
        saw=what,
        want="a .dist-info with METADATA and RECORD",
        subject=f"torch {torch.version}",
        confidence="certain" if failed or (trial and trial.ok) else "likely",
        evidence=(Evidence("torch.record", what, folder),),
        fixes=(reinstall_torch(situation, torch),),
        supersedes=("torch-install-damaged", "torch-import-fails") if failed else (),
    )
