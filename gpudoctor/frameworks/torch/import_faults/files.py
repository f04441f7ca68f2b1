"""Reasons of a failed import that lie in a file: another one in its place, damaged, missing, of another build."""

from __future__ import annotations

import posixpath
import re
import shlex

from gpudoctor.finding import Fix, ReinstallPackage, RemovePackage, ReplacePackage, by_hand, unset
from gpudoctor.frameworks.torch.companions import of_this_torch
from gpudoctor.frameworks.torch.file_faults import DAMAGED, REQUIREMENTS, UNLINKED, ImportFault, named, of_file
from gpudoctor.frameworks.torch.import_faults.case import CRASHES, Case, find_out
from gpudoctor.frameworks.torch.installed_build import FROM_AN_INDEX
from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of, family_of
from gpudoctor.frameworks.torch.pinned_packages import missing_pins, wrong_pins
from gpudoctor.frameworks.torch.reinstall import reinstall_torch
from gpudoctor.frameworks.torch.unmet_dependencies import explains
from gpudoctor.machine import NOT_STARTED, WORKING_FOLDER, ImportTrial, ShadowingModule, SuspectFile
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.situation import Situation

_SHADOWED = "module-shadowed"
_INTERRUPTED = "torch-install-interrupted"
_LACKS_LIBRARY = r"([\w.+-]+\.so[\w.]*): cannot open shared object file"
_OF_TORCH = r"lib(?:torch|c10|caffe2|shm)(?:_\w+)?\.so"
_OF_ANOTHER_TORCH = (
    r"undefined symbol|operator torch(?:vision|audio)::\w+ does not exist|different CUDA versions|"
    r"lib(?:torch|c10)\w*\.so: cannot open"
)
_DENIED = re.compile(r"Permission denied|Read-only file system")


def shadowed(case: Case) -> ImportFault | None:
    """A file or folder has the name of a module, and Python finds it first."""
    shadow = blamed_shadow(case.situation, case.trial)
    if shadow is None:
        return None
    text = f"Rename or remove {shadow.path}, so that Python imports {shadow.hides}."
    return ImportFault("", (by_hand(f"Rename {shadow.path}", text),), (_SHADOWED,))


def blamed_shadow(situation: Situation, trial: ImportTrial) -> ShadowingModule | None:
    """The module in place of another one that a failed import points at."""
    shadows = situation.environment.shadows if not trial.ok else ()
    return next((one for one in shadows if one.via != WORKING_FOLDER and _blames(trial, one)), None)


def _blames(trial: ImportTrial, shadow: ShadowingModule) -> bool:
    text, name = f"{trial.root}\n{trial.error}", re.escape(shadow.name)
    inside = any(file == shadow.path or file.startswith(f"{shadow.path}/") for file in trial.files)
    named = rf"(?:module|from) '{name}[.']|'{name}' is not a package"
    return inside or shadow.path in text or re.search(named, text) is not None or _keeps_from_starting(trial, shadow)


def _keeps_from_starting(trial: ImportTrial, shadow: ShadowingModule) -> bool:
    """Whether Python itself failed in its own code, of which it loads a part from elsewhere."""
    own = (
        trial.error.startswith(NOT_STARTED)
        and re.search(r"\b(?:Attribute|Import|Name|Syntax|Type)Error\b", trial.error) is not None
    )
    return shadow.standard and own and not any(file.problem == "ends-python" for file in trial.suspects)


def wrong_file(case: Case) -> ImportFault | None:
    """One of the files that the failure points at cannot be what it should be."""
    path = case.situation.variable("PYTHONPATH") or ""
    for suspect in (*case.trial.suspects, *(case.torch.unloadable if case.torch else ())):
        foreign = suspect.problem in ("other-python", "other-processor")
        if foreign and any(suspect.path.startswith(f"{one.rstrip('/')}/") for one in path.split(":") if one):
            why = f"{suspect.path} is for {suspect.detail}, and PYTHONPATH makes this Python import it."
            fix = unset("PYTHONPATH", "it leads to packages of another Python")
            return ImportFault(why, (fix,), ("torch-shadowed",))
        fault = of_file(case.situation, suspect)
        if fault is not None:
            return fault
    return None


def damaged_torch(case: Case) -> ImportFault | None:
    """Damaged files of torch explain an error that names one of them or a module of torch, and a crash."""
    if case.torch is None or not case.torch.damaged:
        return None
    damaged = {posixpath.basename(file.path) for file in case.torch.damaged}
    libraries = re.findall(r"[\w.+-]+\.so\b[\w.]*", case.text)
    modules = re.findall(r"(?:module(?: named)?|from) '([\w.]+)'", case.text)
    if case.trial.signal:
        explained = case.trial.signal in CRASHES
    elif libraries:
        explained = not damaged.isdisjoint(libraries)
    else:
        explained = any(name.partition(".")[0] == "torch" for name in modules)
    causes = (DAMAGED, UNLINKED)
    return ImportFault("", (reinstall_torch(case.situation, case.torch),), causes) if explained else None


def for_another_torch(case: Case) -> ImportFault | None:
    """What is compiled for one torch fails with another in the loader, or where it registers its operators. Beside a
    torch that can be imported it lacks none of NVIDIA's libraries but those of another CUDA."""
    situation = case.situation
    if case.torch or case.module not in COMPANIONS:
        return None
    lacks = re.search(_LACKS_LIBRARY, case.text)
    works = situation.torch_trial is None or situation.torch_imported
    other_cuda = lacks is not None and distribution_of(lacks[1]) is not None and works
    if not other_cuda and not re.search(_OF_ANOTHER_TORCH, case.text):
        return None
    why = f"This {case.module} was built for another torch."
    if case.package is not None and case.package.is_of_sources:
        why = f"This {case.module} was compiled here for another torch, or not at all ({case.package.direct_url})."
    return ImportFault(why, (_of_this_torch(case),), (f"{case.module}-mismatch",))


def _of_this_torch(case: Case) -> Fix:
    torch = case.situation.torch
    paired = of_this_torch(case.situation, case.module)
    if torch is None or torch.origin not in FROM_AN_INDEX or paired is None:
        text = f"Install the {case.module} that was built for this torch, from the index that torch came from."
        return by_hand(f"Install the {case.module} of this torch", text, "replaces")
    version, index = paired
    title, why = f"Install {case.module} {version}", f"it was built for torch {torch.version}"
    if case.package is not None and case.package.installer == "conda":
        away = RemovePackage(case.module, why="conda installed it for a torch of its own")
        public, _, local = version.partition("+")
        return Fix(title, (away, ReplacePackage(case.module, f"=={public}", index_url=index, local=local, why=why)))
    return Fix(title, (ReinstallPackage(case.module, version, index_url=index, why=why),))


def missing_library(case: Case) -> ImportFault | None:
    """The loader does not find a library: one of torch, of NVIDIA's packages, or of nobody."""
    name = re.search(_LACKS_LIBRARY, case.text)
    if name is None:
        return None
    why = f"The loader cannot find the library {name[1]}."
    if case.torch is not None and re.match(_OF_TORCH, name[1]):
        why = f"{name[1]} is a part of torch, and is not there."
        return ImportFault(why, (reinstall_torch(case.situation, case.torch),), (DAMAGED, _INTERRUPTED))
    pins = missing_pins(case.situation, case.torch, (name[1],)) if case.torch else None
    if case.torch is not None and pins is None and distribution_of(name[1]):
        pins = wrong_pins(case.situation, case.torch)  # the library of another release has another name
        causes = ("cudnn-mismatch",) if family_of(name[1]) == family_of("libcudnn.so") else ()
        if pins:
            why = f"{why} The installed NVIDIA packages are not those that torch requires."
            return ImportFault(why, (pins,), (*causes, REQUIREMENTS))
    if pins:
        return ImportFault(why, (pins,), (REQUIREMENTS,))
    if distribution_of(name[1]) and explains(case.situation, (name[1],)):
        return ImportFault(why, (), (REQUIREMENTS,))
    if brought := next((one for one in case.trial.suspects if one.owner and one.path.endswith(f"/{name[1]}")), None):
        return _not_looked_for(case, brought)
    text = (
        f"Install the package that has {name[1]}: no installed Python package brings it "
        f"(`apt-file search {name[1]}` or `dnf provides '*/{name[1]}'` names it)."
    )
    return ImportFault(why, (by_hand(f"Install {name[1]}", text),))


def _not_looked_for(case: Case, library: SuspectFile) -> ImportFault:
    """A library that a package brought, whole: what needs it does not say any more where it lies."""
    why = f"{library.path}, of {named(library)}, is there, and the loader does not look into its folder."
    libraries = [file for file in (case.torch.damaged if case.torch else ()) if ".so" in file.path]
    if case.torch is not None and libraries:
        why += f" {libraries[0].path} is not the file that was installed, and its search path (RPATH) may be lost."
        return ImportFault(why, (reinstall_torch(case.situation, case.torch),))
    folder = posixpath.dirname(library.path)
    text = f"Install what needs it again: its search path (RPATH) was changed. Or let the loader look into {folder}."
    return ImportFault(why, (by_hand(f"Let the loader find {posixpath.basename(library.path)}", text),))


def undefined_symbol(case: Case) -> ImportFault | None:
    """Two libraries do not go together, and no variable is to blame."""
    if "undefined symbol" not in case.text:
        return None
    row = case.row
    pins = wrong_pins(case.situation, case.torch) if case.torch else None
    if row is not None and row.slug == "torch-import-fails" and pins is None:
        return None  # the matrix knows which two libraries
    causes = (REQUIREMENTS, *(row.causes if row else ()))
    why = "Two libraries are not of the same release."
    return ImportFault(why, (pins or find_out(case),), causes)


def bad_bytecode(case: Case) -> ImportFault | None:
    """A compiled file in a __pycache__ that is cut short; its source is as installed."""
    python = case.situation.python
    module = case.trial.module.replace(".", "/")
    ends = (f"/{module}.py", f"/{module}/__init__.py")
    source = next((file for file in case.trial.suspects if file.path.endswith(ends) and not file.problem), None)
    if source is None or not python or re.search(r"(?m:^)EOFError|marshal data", case.text) is None:
        return None
    folder, name = posixpath.split(source.path)
    cached = f"{folder}/__pycache__/{name[:-3]}.cpython-{python.replace('.', '').rstrip('t')}.pyc"
    text = f"Remove the file; Python makes it anew: rm {shlex.quote(cached)}"
    return ImportFault(f"The compiled file {cached} is damaged.", (by_hand("Remove the compiled file", text),))


def stray_file(case: Case) -> ImportFault | None:
    """A file in the folder of a package that no release of it brought: Python takes it in place of another module."""
    record = case.package or (case.situation.machine.installed("torch") if case.torch else None)
    if record is None or not case.path or not record.path.endswith(".dist-info") or "RECORD" in record.lacks:
        return None
    named = (file for file in case.trial.suspects if file.path in case.trial.files[:1] or file.path in case.text)
    stray = next((file for file in named if file.path.startswith(f"{case.path}/") and not file.owner), None)
    if stray is None or stray.problem:
        return None
    why = f"{stray.path} is no file of {record.name} {record.version}, and Python takes it for a part of it."
    text = f"Remove it: rm {shlex.quote(stray.path)}"
    return ImportFault(why, (by_hand(f"Remove {stray.path}", text, "replaces"),))


def file_of_nobody(case: Case) -> ImportFault | None:
    """The innermost file of the error that is not Python's own: no package brought it."""
    innermost = case.innermost
    own = case.path and innermost is not None and innermost.path.startswith(f"{case.path}/")
    if innermost is None or innermost.owner or own or case.trial.signal:
        return None
    if not innermost.path.endswith(".py") and (denied := _DENIED.search(case.text)):
        why = f"This user may not write to {innermost.path} ({denied[0]})."
        text = f"Let it write there, or lead {case.module} to another folder: export HOME=FOLDER"
        return ImportFault(why, (by_hand("Give this user a home folder that it can write to", text),))
    text = f"Repair, rename or remove {innermost.path}: it runs whenever {case.module} is imported here."
    why = f"The error comes from {innermost.path}, which no installed package brought."
    return ImportFault(why, (by_hand(f"Repair {innermost.path}", text),))
