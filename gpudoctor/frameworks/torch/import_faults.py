"""From a failed import, of torch or of another framework, to its reason and its fix.

The error names a file, and the file has an owner: that one is repaired. torch is installed again only where its own
files are wrong. Limits, mounts and rights are nobody's files. What tells nothing is said to be unknown, with the step
that would decide.

Holds no checks itself.
"""

from __future__ import annotations

import posixpath
import re
import shlex
import sys
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dependencies import normalised
from gpudoctor.finding import Fix, Manual, RemovePackage, ReplacePackage, SetVariable, UnsetVariable
from gpudoctor.frameworks.torch.c_library import cannot_load
from gpudoctor.frameworks.torch.file_faults import (
    CREATE_AGAIN,
    DAMAGED,
    REQUIREMENTS,
    UNLINKED,
    ImportFault,
    by_hand,
    named,
    of_file,
)
from gpudoctor.frameworks.torch.installed_build import better_torch
from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of, family_of
from gpudoctor.frameworks.torch.reinstall import all_again, installed_again
from gpudoctor.frameworks.torch.required_packages import missing_pins, out_of_range, wrong_pins
from gpudoctor.machine import (
    NOT_STARTED,
    WORKING_FOLDER,
    Distribution,
    ImportTrial,
    ModuleImport,
    ShadowingModule,
    SuspectFile,
    Torch,
)
from gpudoctor.matrix.versions import figures, public_version
from gpudoctor.situation import Situation
from gpudoctor.situation.import_order import from_pythonpath

SHADOWED, VARIABLE = "module-shadowed", "framework-variable"

INTERRUPTED = "torch-install-interrupted"
_OF_TORCH = r"lib(?:torch|c10|caffe2|shm)(?:_\w+)?\.so"
_COMPILED_FOR_TORCH = ("torchvision", "torchaudio")
_OF_ANOTHER_TORCH = (
    r"undefined symbol|operator torch(?:vision|audio)::\w+ does not exist|different CUDA versions|"
    r"lib(?:torch|c10)\w*\.so: cannot open"
)
_OF_TORCHS_MODULES = ("torch-module-missing", "module-missing")
"""Rows of the matrix that speak of modules which torch needs."""
_OFTEN_NAMED = ("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "ROCM_HOME", "VIRTUAL_ENV")
"""Messages advise to set these; that they are set is no fault."""
_NO_MEMORY = r"MemoryError|[Cc]annot allocate memory|std::bad_alloc"
_NO_THREADS = (
    r"can't start new thread|[Tt]hread creation failed|pthread_create failed|Resource temporarily unavailable"
)
_CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGTRAP")
_LARGE = 64 << 30
"""A limit of the address space above this keeps no torch from being imported."""


class _Case(Struct, frozen=True):
    situation: Situation
    trial: ImportTrial
    module: str
    """What was imported: "torch", "jax"."""
    path: str
    """Its folder."""
    torch: Torch | None = None
    """If torch itself was imported."""
    package: Distribution | None = None
    """If another module was: what brings it."""

    @property
    def text(self) -> str:
        """The first error, then those that followed from it."""
        return f"{self.trial.root}\n{self.trial.error}".strip()


def explain(situation: Situation, torch: Torch, trial: ImportTrial) -> ImportFault:
    """The first rule that knows the failure answers."""
    return _explained(_Case(situation, trial, "torch", torch.path, torch))


def explain_other(situation: Situation, module: ModuleImport, trial: ImportTrial) -> ImportFault:
    """The same for a module beside torch."""
    installed = situation.machine.installed(module.package)
    site = posixpath.dirname(installed.path) if installed and installed.path else ""
    path = posixpath.join(site, module.module.replace(".", "/")) if site else ""
    return _explained(_Case(situation, trial, module.module, path, package=installed))


def _explained(case: _Case) -> ImportFault:
    fault = next(fault for rule in _RULES if (fault := rule(case)) is not None)
    trial = case.trial
    for path in {file.path for file in trial.suspects if file.path and file.path in trial.error}:
        fault = replace(fault, why=fault.why.replace(path, posixpath.basename(path)))
    return fault


# --- rules, in their order ---------------------------------------------------------------------------------


def _not_started(case: _Case) -> ImportFault | None:
    error = case.trial.error
    if not error.startswith(NOT_STARTED):
        return None
    if case.situation.variable("PYTHONHOME"):
        why = "PYTHONHOME makes this Python look for its standard library elsewhere."
        unset = UnsetVariable("PYTHONHOME", why="each Python finds its own standard library")
        return ImportFault(why, (Fix("Unset PYTHONHOME", (unset,)),))
    if "Permission denied" in error:
        text = "Give this user the right to execute the interpreter, or run as the user that owns the environment."
        return ImportFault("This user may not execute the interpreter.", (by_hand("Give this user access", text),))
    if "Exec format error" in error:
        text = "Create the environment again with a Python for this processor, and install its packages again."
        why = "The interpreter is not a program for this processor."
        return ImportFault(why, (by_hand("Use a Python for this processor", text, replaces=True),))
    if "leads to no Python" in error:
        return ImportFault("", (CREATE_AGAIN,))
    if ends := next((file.path for file in case.trial.suspects if file.problem == "ends-python"), ""):
        text = f"Repair, rename or remove {ends}: Python runs it whenever it starts here."
        does = "does not come to its end" if case.trial.hung else "ends it"
        return ImportFault(f"{ends} {does}.", (by_hand(f"Repair {posixpath.basename(ends)}", text),))
    if case.trial.files or case.trial.hung:
        return None
    interpreter = shlex.quote(case.situation.environment.interpreter if case.situation.environment else "python3")
    text = (
        f"Run `{interpreter} -E -S -c 0`. If that fails, create the environment again; else a variable, a .pth file "
        f"or a sitecustomize.py ends it, and the last lines of `{interpreter} -v -c 0` name it."
    )
    return ImportFault("", (by_hand("Find out whether the interpreter starts", text),))


def _shadowed(case: _Case) -> ImportFault | None:
    shadow = blamed_shadow(case.situation, case.trial)
    if shadow is None:
        return None
    text = f"Rename or remove {shadow.path}, so that Python imports {shadow.hides}."
    return ImportFault("", (by_hand(f"Rename {shadow.path}", text),), (SHADOWED,))


def blamed_shadow(situation: Situation, trial: ImportTrial) -> ShadowingModule | None:
    """The module in place of another one that a failed import points at."""
    environment = situation.environment
    shadows = (environment.shadows if environment else ()) if not trial.ok else ()
    return next((one for one in shadows if one.via != WORKING_FOLDER and _blames(trial, one)), None)


def _blames(trial: ImportTrial, shadow: ShadowingModule) -> bool:
    text, name = f"{trial.root}\n{trial.error}", re.escape(shadow.name)
    inside = any(file == shadow.path or file.startswith(f"{shadow.path}/") for file in trial.files)
    named = rf"(?:module|from) '{name}[.']|'{name}' is not a package"
    return inside or shadow.path in text or re.search(named, text) is not None


def _incomplete_python(case: _Case) -> ImportFault | None:
    """A module of the standard library is not there: no package brings it."""
    module = re.search(r"No module named '([\w.]+)'", case.text)
    top = module[1].partition(".")[0] if module else ""
    python, tables = case.situation.python or "", case.situation.matrix.tables
    removed = next((row.python for row in tables.removed_modules if top in row.modules), "")
    if removed and figures(python.removesuffix("t")) >= figures(removed):
        why = f"Python {removed} removed {top} from its standard library, and this is Python {python}."
        text = f"Update the package that imports {top}, or use a Python before {removed}."
        if top == "distutils":
            text += " setuptools brings a distutils of its own: `pip install setuptools`."
        return ImportFault(why, (by_hand(f"Update what imports {top}", text),), (REQUIREMENTS,))
    row = next((row for row in tables.optional_modules if top in row.modules), None)
    if row is None and top not in sys.stdlib_module_names:
        return None
    text = f"Use a Python that has {top} (the distribution's whole Python, or `uv python install {python}`)"
    if row:
        text += (
            f"; or install the headers of {row.id} ({row.debian} on Debian and Ubuntu, {row.fedora} on Fedora and "
            "RHEL) and compile this Python again"
        )
    reason = f": it was probably compiled without the headers of {row.id}" if row else ""
    why = f"{top} belongs to Python's standard library, and this Python is without it{reason}. No package brings it."
    step = Manual(f"{text}.", risk="replaces", elsewhere=True)
    return ImportFault(why, (Fix("Use a complete Python", (step,)),))


def _put_first(case: _Case) -> ImportFault | None:
    """A file outside of the environment, which a variable or a start file puts before its packages."""
    files = [file for file in case.trial.suspects if not file.standard and file.path]
    innermost = next((file for file in files if file.problem or file.path in case.trial.files[:1]), None)
    first = next((file for file in files if file.path in case.text), innermost or (files[0] if files else None))
    if first is None:
        return None
    if from_pythonpath(case.situation, first.path) and not from_pythonpath(case.situation, case.path):
        why = f"PYTHONPATH puts {first.path} before the packages of this environment."
        unset = UnsetVariable("PYTHONPATH", why="it leads to other packages than the installed ones")
        return ImportFault(why, (Fix("Unset PYTHONPATH", (unset,)),), (REQUIREMENTS, "torch-shadowed"))
    folder = posixpath.dirname(first.path)
    if first.put_first and not case.path.startswith(f"{folder}/"):
        text = f"Take {folder} out of {first.put_first}, or remove that file, if nothing else needs it."
        why = f"{first.put_first} makes Python look into {folder}, where it finds {first.path}."
        return ImportFault(why, (by_hand(f"Take the folder out of {posixpath.basename(first.put_first)}", text),))
    return None


def _illegal_instruction(case: _Case) -> ImportFault | None:
    if case.trial.signal != "SIGILL":
        return None
    flags = case.situation.machine.system.cpu_flags.value
    lacking = " This processor has no AVX2." if flags and "avx2" not in flags else ""
    build = "an older processor-neutral build of torch (conda-forge's)" if case.torch else "an older build"
    text = (
        f"Use {build}, or a machine whose processor has AVX2; in a virtual machine pass the host's processor through "
        "(cpu host-passthrough)."
    )
    why = f"The build uses an instruction that this processor does not know.{lacking}"
    return ImportFault(why, (by_hand("Use a processor with AVX2, or another build", text),))


def _static_tls(case: _Case) -> ImportFault | None:
    if "static TLS" not in case.text:
        return None
    text = (
        f"Import {case.module} before other libraries, or start with LD_PRELOAD set to the library that the error "
        "names."
    )
    why = "The process has no room left for thread-local data of this library."
    return ImportFault(why, (by_hand(f"Import {case.module} first", text),))


def _out_of_memory(case: _Case) -> ImportFault | None:
    limits = case.trial.limits
    space = limits.address_space
    narrow = space is not None and space < _LARGE
    said = re.search(_NO_MEMORY, case.text) is not None
    if narrow and space is not None and (said or case.trial.signal in _CRASHES or "map segment" in case.text):
        text = "Run `ulimit -v unlimited` before the program, or remove the limit where it is set (limits.conf, job)."
        why = f"`ulimit -v` limits the address space to {_size(space)}, and {case.module} reserves more."
        return ImportFault(why, (by_hand("Lift the limit of the address space", text),))
    if case.trial.signal != "SIGKILL" and not said:
        return None
    limit = f" ({_size(limits.memory)})" if limits.memory else ""
    if limits.memory_kills:
        why = f"The kernel killed the process: the memory of its control group{limit} ran out."
    elif said:
        why = f"Memory ran out{limit}."
    else:
        why = f"Something killed the process. Linux does so where memory runs out{limit}."
    text = (
        "Give the container or job more memory (docker --memory, resources.limits.memory, Slurm --mem). "
        "`dmesg | grep -i 'killed process'` shows what the kernel killed."
    )
    return ImportFault(why, (by_hand("Give the process more memory", text),))


def _out_of_threads(case: _Case) -> ImportFault | None:
    if re.search(_NO_THREADS, case.text) is None:
        return None
    limit = case.trial.limits.processes
    text = "Raise the limit (`ulimit -u`, docker --pids-limit, the pod's pids limit), or set OMP_NUM_THREADS=1."
    allowed = f" ({limit})" if limit else ""
    why = f"The process may start no more threads: the limit of this user or container{allowed} is reached."
    return ImportFault(why, (by_hand("Raise the limit of processes", text),))


def _c_library(case: _Case) -> ImportFault | None:
    if case.torch and cannot_load(case.situation, case.torch):
        fixes = better_torch(case.situation)[:1] or (_find_out(case),)
        return ImportFault("This torch is built for another C library than this system has.", fixes)
    if re.search(r"version .GLIBC_[\d.]+. not found", case.text) is None:
        return None
    text = "This library needs a newer C library: update the distribution, or use a container with a newer one."
    return ImportFault("A library is built for a newer C library.", (by_hand("Use a newer distribution", text),))


def _variable(case: _Case) -> ImportFault | None:
    """Libraries of another version that a variable puts first."""
    if "undefined symbol" not in case.text:
        return None
    row = case.situation.matrix.cause_of(case.text, case.situation.built_for)
    causes = (row.slug, *row.also) if row else ()
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
        if case.situation.variable(name):
            why = f"A library of another version is loaded, perhaps through {name}."
            unset = UnsetVariable(name, why="libraries of other versions lie there")
            return ImportFault(why, (Fix(f"Unset {name}", (unset,)),), causes)
    return None


def _wrong_file(case: _Case) -> ImportFault | None:
    """One of the files that the failure points at cannot be what it should be."""
    path = case.situation.variable("PYTHONPATH") or ""
    for suspect in (*case.trial.suspects, *(case.torch.unloadable if case.torch else ())):
        foreign = suspect.problem in ("other-python", "other-processor")
        if foreign and any(suspect.path.startswith(f"{one.rstrip('/')}/") for one in path.split(":") if one):
            why = f"{suspect.path} is for {suspect.detail}, and PYTHONPATH makes this Python import it."
            unset = UnsetVariable("PYTHONPATH", why="it leads to packages of another Python")
            return ImportFault(why, (Fix("Unset PYTHONPATH", (unset,)),), ("torch-shadowed",))
        fault = of_file(case.situation, suspect)
        if fault is not None:
            return fault
    return None


def _damaged_torch(case: _Case) -> ImportFault | None:
    """Damaged files of torch explain an error that names one of them or a module of torch, and a crash."""
    if case.torch is None or not case.torch.damaged:
        return None
    damaged = {posixpath.basename(file.path) for file in case.torch.damaged}
    libraries = re.findall(r"[\w.+-]+\.so\b[\w.]*", case.text)
    modules = re.findall(r"(?:module(?: named)?|from) '([\w.]+)'", case.text)
    if case.trial.signal:
        explained = case.trial.signal in _CRASHES
    elif libraries:
        explained = not damaged.isdisjoint(libraries)
    else:
        explained = any(name.partition(".")[0] == "torch" for name in modules)
    causes = (DAMAGED, UNLINKED)
    return ImportFault("", (installed_again(case.situation, case.torch),), causes) if explained else None


def _for_another_torch(case: _Case) -> ImportFault | None:
    """What is compiled for one torch fails with another in the loader, or where it registers its operators."""
    if case.torch or case.module not in _COMPILED_FOR_TORCH or not re.search(_OF_ANOTHER_TORCH, case.text):
        return None
    text = f"Install the {case.module} that was built for this torch, from the index that torch came from."
    fix = by_hand(f"Install the {case.module} of this torch", text, replaces=True)
    return ImportFault(f"This {case.module} was built for another torch.", (fix,), (f"{case.module}-mismatch",))


def _missing_library(case: _Case) -> ImportFault | None:
    name = re.search(r"([\w.+-]+\.so[\w.]*): cannot open shared object file", case.text)
    if name is None:
        return None
    why = f"The loader cannot find the library {name[1]}."
    if case.torch is not None and re.match(_OF_TORCH, name[1]):
        why = f"{name[1]} is a part of torch, and is not there."
        return ImportFault(why, (installed_again(case.situation, case.torch),), (DAMAGED, INTERRUPTED))
    pins = missing_pins(case.situation, case.torch, (name[1],)) if case.torch else None
    if case.torch is not None and pins is None and distribution_of(name[1]):
        pins = wrong_pins(case.situation, case.torch)  # the library of another release has another name
        causes = ("cudnn-mismatch",) if family_of(name[1]) == family_of("libcudnn.so") else ()
        if pins:
            why = f"{why} The installed NVIDIA packages are not those that torch requires."
            return ImportFault(why, (pins,), (*causes, REQUIREMENTS))
    if pins:
        return ImportFault(why, (pins,), (REQUIREMENTS,))
    if brought := next((one for one in case.trial.suspects if one.owner and one.path.endswith(f"/{name[1]}")), None):
        return _not_looked_for(case, brought)
    text = (
        f"Install the package that has {name[1]}: no installed Python package brings it "
        f"(`apt-file search {name[1]}` or `dnf provides '*/{name[1]}'` names it)."
    )
    return ImportFault(why, (by_hand(f"Install {name[1]}", text),))


def _not_looked_for(case: _Case, library: SuspectFile) -> ImportFault:
    """A library that a package brought, whole: what needs it does not say any more where it lies."""
    why = f"{library.path}, of {named(library)}, is there, and the loader does not look into its folder."
    libraries = [file for file in (case.torch.damaged if case.torch else ()) if ".so" in file.path]
    if case.torch is not None and libraries:
        why += f" {libraries[0].path} is not the file that was installed, and its search path (RPATH) may be lost."
        return ImportFault(why, (installed_again(case.situation, case.torch),))
    folder = posixpath.dirname(library.path)
    text = f"Install what needs it again: its search path (RPATH) was changed. Or let the loader look into {folder}."
    return ImportFault(why, (by_hand(f"Let the loader find {posixpath.basename(library.path)}", text),))


def _undefined_symbol(case: _Case) -> ImportFault | None:
    if "undefined symbol" not in case.text:
        return None
    row = case.situation.matrix.cause_of(case.text, case.situation.built_for)
    causes = (REQUIREMENTS, *((row.slug, *row.also) if row else ()))
    why = "Two libraries are not of the same release."
    pins = wrong_pins(case.situation, case.torch) if case.torch else None
    return ImportFault(why, (pins or _find_out(case),), causes)


def _warning_as_error(case: _Case) -> ImportFault | None:
    """PYTHONWARNINGS=error makes an error of each warning."""
    warned = re.search(r"^(?:[\w.]+\.)?\w*Warning:", case.text, flags=re.M)
    if warned is None or not re.search(r"\be(?:rror|rro|rr|r)?\b", case.situation.variable("PYTHONWARNINGS") or ""):
        return None
    unset = UnsetVariable("PYTHONWARNINGS", why="a warning is then no error")
    return ImportFault("PYTHONWARNINGS makes an error of a warning.", (Fix("Unset PYTHONWARNINGS", (unset,)),))


def _backend_extension(case: _Case) -> ImportFault | None:
    """A package that torch loads of itself, by its entry point, and that fails."""
    failed = re.search(r"Failed to load the backend extension: ([\w.-]+?)\.(?:\s|$)", case.text)
    if failed is None:
        return None
    installed = case.situation.machine.installed(normalised(failed[1]))
    whose = f"{installed.name} {installed.version}" if installed else failed[1]
    without = SetVariable("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", why=f"torch then does not load {failed[1]} of itself")
    keep = Fix(f"Keep torch from loading {failed[1]}", (without,))
    why = f"torch loads {whose} whenever it is imported, and that fails."
    if installed is None:
        return ImportFault(why, (keep,))
    remove = RemovePackage(installed.name, why="torch cannot be imported with it")
    return ImportFault(why, (Fix(f"Uninstall {installed.name}", (remove,)), keep))


def _bad_bytecode(case: _Case) -> ImportFault | None:
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


def _known_text(case: _Case) -> ImportFault | None:
    """A text that the matrix knows."""
    row = case.situation.matrix.cause_of(case.text, case.situation.built_for)
    if row is None or row.about != "environment" or (case.torch is None and row.id in _OF_TORCHS_MODULES):
        return None
    meaning = row.meaning[:1].upper() + row.meaning[1:]
    return ImportFault(f"{meaning}.", (by_hand("Follow the workaround", row.workaround),), (row.slug, *row.also))


def _not_there(case: _Case) -> ImportFault | None:
    """A package has its record, and Python does not find its module."""
    name = case.module.partition(".")[0]
    if case.package is None or re.search(rf"No module named '{re.escape(name)}'", case.text) is None:
        return None
    package = case.package
    if package.direct_url.startswith("file:"):
        folder = package.direct_url.removeprefix("file://")
        release = f"{package.name}=={public_version(package.version)}"
        text = f"Restore {folder}, or install a release: pip install --force-reinstall --no-deps {release}"
        why = f"{package.name} {package.version} was installed from {folder}, and its modules are not found there."
        return ImportFault(why, (by_hand("Restore the folder that it was installed from", text, replaces=True),))
    why = f"{package.name} {package.version} is recorded as installed, and its modules are not there."
    again = all_again(case.situation, (package,), "its modules are not there")
    return ImportFault(why, (Fix(f"Install {package.name} {package.version} again", again),))


def _stray_file(case: _Case) -> ImportFault | None:
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
    return ImportFault(why, (by_hand(f"Remove {stray.path}", text, replaces=True),))


def _lacks_module(case: _Case) -> ImportFault | None:
    """A package that is whole and has no module of that name: it is of another release than is asked for."""
    module = re.search(r"No module named '(([\w]+)\.[\w.]+)'", case.text)
    folder = f"/{module[2]}/" if module else ""
    holder = next((file for file in case.trial.suspects if file.owner and folder and folder in file.path), None)
    if module is None or holder is None or holder.problem or holder.owner == case.module.partition(".")[0]:
        return None
    brought = module[1].replace(".", "/")
    if any(file.owner and f"/{brought}" in file.path for file in case.trial.suspects):
        return None  # it is there: something stands before it
    if case.torch and out_of_range(case.situation, holder.owner):
        return None
    why = f"The installed {named(holder)} has no module {module[1]}: it is another release, or incomplete."
    text = f"Install another release of {holder.owner}: `pip index versions {holder.owner}` lists them."
    return ImportFault(why, (by_hand(f"Install another release of {holder.owner}", text),), (REQUIREMENTS,))


def _missing_module(case: _Case) -> ImportFault | None:
    module = re.search(r"No module named '([\w.]+)'", case.text)
    if module is None:
        return None
    top, _, inner = module[1].partition(".")
    parent = case.trial.files[0] if inner and case.trial.files else ""
    brought = next((file.owner for file in case.trial.suspects if file.owner and f"/{top}/{inner}" in file.path), "")
    if brought and parent.endswith(f"/{module[1].rpartition('.')[0].replace('.', '/')}/__init__.py"):
        why = f"Python takes {parent} for {top}, and that has no {inner}: {brought} brings it."
        return ImportFault(why, (by_hand(f"Rename {parent}", f"Rename or remove {parent}."),))
    asking = next((file for file in case.trial.suspects if not file.standard), None)
    by = f" {asking.path} imports it." if asking and asking.owner != case.module.partition(".")[0] else ""
    text = f"Install the package that has the module {top}, or remove what imports it."
    why = f"No installed package has the module {top}.{by}"
    causes = () if asking is not None and not asking.owner else (REQUIREMENTS,)
    return ImportFault(why, (by_hand(f"Install the module {top}", text),), causes)


def _numpy_of_another_major(case: _Case) -> ImportFault | None:
    """A module that was compiled with NumPy 1 finds nothing where NumPy 2 has its interface."""
    numpy = case.situation.machine.installed("numpy")
    if numpy is None or case.torch is not None or "_ARRAY_API not found" not in case.text:
        return None
    why = f"{case.module} was compiled for NumPy 1, and NumPy {numpy.version} is installed."
    older = ReplacePackage("numpy", "<2", why=f"{case.module} was compiled for NumPy 1")
    return ImportFault(why, (Fix("Install a NumPy before 2", (older,)),))


def _another_release(case: _Case) -> ImportFault | None:
    """A package that lacks a name, and is whole: it is of another release than the one that asks needs."""
    lacking = re.search(r"(?:cannot import name '\w+' from|module) '([\w.]+)'", case.text)
    if lacking is None or lacking[1].partition(".")[0] == case.module.partition(".")[0]:
        return None
    top = lacking[1].partition(".")[0].replace("_", "-").lower()
    suspect = next((file for file in case.trial.suspects if file.owner == top), None)
    if suspect is None:
        return None
    why = f"The installed {named(suspect)} lacks what {_asking(case, suspect)} needs of it."
    text = f"Install another release of {suspect.owner}: `pip index versions {suspect.owner}` lists them."
    return ImportFault(why, (by_hand(f"Install another release of {suspect.owner}", text),), (REQUIREMENTS,))


def _out_of_range(case: _Case) -> ImportFault | None:
    """A package that the error passed through is of a release that torch does not want."""
    for suspect in case.trial.suspects if case.torch else ():
        specifier = out_of_range(case.situation, suspect.owner) if suspect.owner else ""
        if specifier and case.torch:
            why = (
                f"torch {case.torch.version} requires {suspect.owner}{specifier}, and {suspect.version} is installed."
            )
            replacement = ReplacePackage(suspect.owner, specifier, why="torch requires it")
            return ImportFault(why, (Fix(f"Install {suspect.owner}{specifier}", (replacement,)),), (REQUIREMENTS,))
    return None


def _asking(case: _Case, lacking: SuspectFile) -> str:
    others = (file for file in case.trial.suspects if file.owner and file.owner != lacking.owner)
    version = case.torch.version if case.torch else ""
    return named(next(others, SuspectFile(path="", owner=case.module, version=version)))


def _keras_backend(case: _Case) -> ImportFault | None:
    """Keras takes the package that computes for it from a variable, else from a file in the user's home folder."""
    asked = re.search(r"Unable to import backend : (\S+)", case.text)
    if asked is None:
        return None
    if case.situation.variable("KERAS_BACKEND") == asked[1]:
        why = f"KERAS_BACKEND={asked[1]} names no backend of this Keras."
        unset = UnsetVariable("KERAS_BACKEND", why="Keras then takes its own")
        return ImportFault(why, (Fix("Unset KERAS_BACKEND", (unset,)),), (VARIABLE,))
    why = f"A settings file names {asked[1]}, which is no backend of this Keras."
    text = (
        'In ~/.keras/keras.json (or that of KERAS_HOME) set "backend" to tensorflow, jax or torch, or remove the '
        "file."
    )
    return ImportFault(why, (by_hand("Correct keras.json", text),))


def _variable_in_the_error(case: _Case) -> ImportFault | None:
    """The error speaks of a variable, and it is set."""
    name = next((name for name in case.trial.named if name not in _OFTEN_NAMED), None)
    if name is None:
        return None
    unset = UnsetVariable(name, why="the error names it")
    why = f"The error names the variable {name}, which is set here."
    return ImportFault(why, (Fix(f"Unset {name}", (unset,)),), (VARIABLE,))


def _file_of_nobody(case: _Case) -> ImportFault | None:
    """The innermost file of the error that is not Python's own: no package brought it."""
    innermost = next((file for file in case.trial.suspects if not file.standard and file.path), None)
    own = case.path and innermost is not None and innermost.path.startswith(f"{case.path}/")
    if innermost is None or innermost.owner or own or case.trial.signal:
        return None
    text = f"Repair, rename or remove {innermost.path}: it runs whenever {case.module} is imported here."
    why = f"The error comes from {innermost.path}, which no installed package brought."
    return ImportFault(why, (by_hand(f"Repair {innermost.path}", text),))


def _unknown(case: _Case) -> ImportFault:
    innermost = next((file for file in case.trial.suspects if not file.standard and file.path), None)
    loading = case.trial.loading
    lost = bool(case.trial.signal or case.trial.hung)
    if loading and lost:
        owner = next(
            (f" of {named(file)}" for file in case.trial.suspects if file.path == loading and file.owner), ""
        )
        why = f"It was loading {loading}{owner}; why that fails is not known."
    elif innermost is not None and innermost.owner not in ("", case.module.partition(".")[0]):
        text = f"Update or remove {innermost.owner}: the error comes from its code, and its files are as installed."
        why = f"The error comes from {innermost.path} of {named(innermost)}."
        return ImportFault(why, (by_hand(f"Update or remove {innermost.owner}", text),))
    elif innermost is not None:
        owner = f" of {named(innermost)}" if innermost.owner else ""
        why = f"The last line that ran was in {innermost.path}{owner}; why it fails is not known."
    else:
        why = "Why is not known."
    return ImportFault(why, (_find_out(case),))


_RULES: tuple[Callable[[_Case], ImportFault | None], ...] = (
    _not_started,
    _shadowed,
    _incomplete_python,
    _warning_as_error,
    _backend_extension,
    _put_first,
    _illegal_instruction,
    _static_tls,
    _out_of_memory,
    _out_of_threads,
    _c_library,
    _variable,
    _wrong_file,
    _damaged_torch,
    _bad_bytecode,
    _keras_backend,
    _numpy_of_another_major,
    _for_another_torch,
    _missing_library,
    _undefined_symbol,
    _not_there,
    _stray_file,
    _lacks_module,
    _known_text,
    _missing_module,
    _out_of_range,
    _another_release,
    _variable_in_the_error,
    _file_of_nobody,
    _unknown,
)


# --- fixes -----------------------------------------------------------------------------------------------


def _find_out(case: _Case) -> Fix:
    environment = case.situation.environment
    interpreter = shlex.quote((environment.interpreter if environment else "") or "python3")
    if case.trial.hung:
        text = f"Run `{interpreter} -X importtime -c 'import {case.module}'`: the last lines name what came before."
    else:
        text = (
            f"Run `{interpreter} -v -c 'import {case.module}'`: the last lines before the error name the file that "
            "fails."
        )
    return by_hand("Find the file that fails", text)


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.0f} MiB"
