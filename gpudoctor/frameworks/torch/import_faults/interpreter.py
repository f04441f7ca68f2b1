"""Reasons of a failed import that lie in the interpreter, its variables, or the limits of the process."""

from __future__ import annotations

import posixpath
import re
import shlex
import sys
from collections.abc import Iterable

from gpudoctor.finding import Fix, Manual, UnsetVariable, by_hand, unset
from gpudoctor.frameworks.torch.c_library import cannot_load
from gpudoctor.frameworks.torch.file_faults import CREATE_AGAIN, REQUIREMENTS, ImportFault
from gpudoctor.frameworks.torch.import_faults.case import CRASHES, Case, find_out
from gpudoctor.frameworks.torch.installed_build import better_torch
from gpudoctor.machine import NOT_STARTED, SuspectFile
from gpudoctor.matrix.versions import figures
from gpudoctor.situation.import_order import remedy_for_path, remedy_title

_VARIABLE = "framework-variable"
_OFTEN_NAMED = ("LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "ROCM_HOME", "VIRTUAL_ENV")
"""Messages advise to set these; that they are set is no fault."""
_NO_MEMORY = r"MemoryError|[Cc]annot allocate memory|std::bad_alloc"
_NO_THREADS = (
    r"can't start new thread|[Tt]hread creation failed|pthread_create failed|Resource temporarily unavailable"
)
_LARGE = 64 << 30
"""A limit of the address space above this keeps no torch from being imported."""


def not_started(case: Case) -> ImportFault | None:
    """The interpreter itself does not start, or ends before the import."""
    error = case.trial.error
    if not error.startswith(NOT_STARTED):
        return None
    if case.situation.variable("PYTHONHOME"):
        why = "PYTHONHOME makes this Python look for its standard library elsewhere."
        return ImportFault(why, (unset("PYTHONHOME", "each Python finds its own standard library"),))
    named = re.search(r"(?<![\w/.$-])PYTHON[A-Z0-9_]+\b(?!/)", error)  # no folder, and no advice to set one
    if refused := named[0] if named else "PYTHONIOENCODING" if "init_stdio_encoding" in error else "":
        fix = unset(refused, "Python then starts with what it takes by itself")
        return ImportFault(f"Python refuses the value of {refused}.", (fix,))
    if "Permission denied" in error:
        python = shlex.quote(case.situation.environment.interpreter or "bin/python")
        text = f"Give this user the right to execute it (chmod a+x {python}), or run as the owner of the environment."
        return ImportFault("This user may not execute the interpreter.", (by_hand("Give this user access", text),))
    if "Exec format error" in error:
        text = "Create the environment again with a Python for this processor, and install its packages again."
        why = "The interpreter is not a program for this processor."
        return ImportFault(why, (by_hand("Use a Python for this processor", text, "replaces"),))
    if "leads to no Python" in error:
        return ImportFault("", (CREATE_AGAIN,))
    if ends := next((file.path for file in case.trial.suspects if file.problem == "ends-python"), ""):
        text = f"Repair, rename or remove {ends}: Python runs it whenever it starts here."
        does = "does not come to its end" if case.trial.hung else "ends it"
        return ImportFault(f"{ends} {does}.", (by_hand(f"Repair {posixpath.basename(ends)}", text),))
    if case.trial.files or case.trial.hung:
        return None
    interpreter = shlex.quote(case.situation.environment.interpreter or "python3")
    text = (
        f"Run `{interpreter} -E -S -c 0`. If that fails, create the environment again; else a variable, a .pth file "
        f"or a sitecustomize.py ends it, and the last lines of `{interpreter} -v -c 0` name it."
    )
    return ImportFault("", (by_hand("Find out whether the interpreter starts", text),))


def incomplete_python(case: Case) -> ImportFault | None:
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


def put_first(case: Case) -> ImportFault | None:
    """A file outside of the environment, which a variable or a start file puts before its packages."""
    files = [file for file in case.trial.suspects if not file.standard and file.path]
    innermost = next((file for file in files if file.problem or file.path in case.trial.files[:1]), None)
    first = next((file for file in files if file.path in case.text), innermost or (files[0] if files else None))
    if another := _of_another_copy(case, files):
        first = another
    if first is None:
        return None
    remedy = remedy_for_path(case.situation, first.path, "it leads to other packages than the installed ones")
    copies = (copy.path for copy in case.torch.copies if not copy.is_trace) if case.torch else ()
    if remedy is not None and any(remedy_for_path(case.situation, one, "") is None for one in (case.path, *copies)):
        cause = "PYTHONPATH" if isinstance(remedy, UnsetVariable) else "The user's site folder"
        why = f"{cause} puts {first.path} before the packages of this environment."
        return ImportFault(why, (Fix(remedy_title(remedy), (remedy,)),), (REQUIREMENTS, "torch-shadowed"))
    folder = _folder_of(another, case) if another else first.import_folder or posixpath.dirname(first.path)
    if first.put_first and not case.path.startswith(f"{folder}/"):
        text = f"Take {folder} out of {first.put_first}, or remove that file, if nothing else needs it."
        why = f"{first.put_first} makes Python look into {folder}, where it finds {first.path}."
        return ImportFault(why, (by_hand(f"Take the folder out of {posixpath.basename(first.put_first)}", text),))
    return None


def _of_another_copy(case: Case, files: Iterable[SuspectFile]) -> SuspectFile | None:
    """A file of the module that does not lie where its package was installed: what failed is another copy."""
    if case.package is None or not case.path or case.package.is_of_sources:
        return None
    others = (file for file in files if _folder_of(file, case))
    return next((file for file in others if not case.path.startswith(f"{_folder_of(file, case)}/")), None)


def _folder_of(file: SuspectFile, case: Case) -> str:
    """The folder in which Python found the module that this file belongs to; empty if it belongs to another one."""
    folder, named, _ = file.path.partition(f"/{case.module.partition('.')[0]}/")
    return folder if named else ""


def illegal_instruction(case: Case) -> ImportFault | None:
    """The processor lacks an instruction that the build uses."""
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


def static_tls(case: Case) -> ImportFault | None:
    """The loader has no room left for thread-local data."""
    if "static TLS" not in case.text:
        return None
    text = (
        f"Import {case.module} before other libraries, or start with LD_PRELOAD set to the library that the error "
        "names."
    )
    why = "The process has no room left for thread-local data of this library."
    return ImportFault(why, (by_hand(f"Import {case.module} first", text),))


def out_of_memory(case: Case) -> ImportFault | None:
    """A limit of memory or of the address space ended the import."""
    limits = case.trial.limits
    space = limits.address_space
    narrow = space is not None and space < _LARGE
    said = re.search(_NO_MEMORY, case.text) is not None
    if narrow and space is not None and (said or case.trial.signal in CRASHES or "map segment" in case.text):
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


def out_of_threads(case: Case) -> ImportFault | None:
    """A limit of threads ended the import."""
    if re.search(_NO_THREADS, case.text) is None:
        return None
    limit = case.trial.limits.processes
    text = "Raise the limit (`ulimit -u`, docker --pids-limit, the pod's pids limit), or set OMP_NUM_THREADS=1."
    allowed = f" ({limit})" if limit else ""
    why = f"The process may start no more threads: the limit of this user or container{allowed} is reached."
    return ImportFault(why, (by_hand("Raise the limit of processes", text),))


def c_library(case: Case) -> ImportFault | None:
    """A library is built for another C library, or for a newer one."""
    if case.torch and cannot_load(case.situation, case.torch):
        fixes = better_torch(case.situation)[:1] or (find_out(case),)
        return ImportFault("This torch is built for another C library than this system has.", fixes)
    if re.search(r"version .GLIBC_[\d.]+. not found", case.text) is None:
        return None
    text = "This library needs a newer C library: update the distribution, or use a container with a newer one."
    return ImportFault("A library is built for a newer C library.", (by_hand("Use a newer distribution", text),))


def variable(case: Case) -> ImportFault | None:
    """Libraries of another version that a variable puts first."""
    if "undefined symbol" not in case.text:
        return None
    row = case.row
    causes = row.causes if row else ()
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
        if case.situation.variable(name):
            why = f"A library of another version is loaded, perhaps through {name}."
            fix = unset(name, "libraries of other versions lie there")
            return ImportFault(why, (fix,), causes)
    return None


def warning_as_error(case: Case) -> ImportFault | None:
    """PYTHONWARNINGS=error makes an error of each warning."""
    warned = re.search(r"^(?:[\w.]+\.)?\w*Warning:", case.text, flags=re.M)
    if warned is None or not re.search(r"\be(?:rror|rro|rr|r)?\b", case.situation.variable("PYTHONWARNINGS") or ""):
        return None
    fix = unset("PYTHONWARNINGS", "a warning is then no error")
    return ImportFault("PYTHONWARNINGS makes an error of a warning.", (fix,))


def variable_in_the_error(case: Case) -> ImportFault | None:
    """The error speaks of a variable, and it is set."""
    name = next((name for name in case.trial.named if name not in _OFTEN_NAMED), None)
    if name is None:
        return None
    fix = unset(name, "the error names it")
    why = f"The error names the variable {name}, which is set here."
    return ImportFault(why, (fix,), (_VARIABLE,))


def keras_backend(case: Case) -> ImportFault | None:
    """Keras takes the package that computes for it from a variable, else from a file in the user's home folder."""
    asked = re.search(r"Unable to import backend : (\S+)", case.text)
    backend, lacks = (asked[1] if asked else ""), "names no backend of this Keras"
    if asked is None:
        backend, lacks = _lacking_backend(case), "asks for a package that is not installed"
    if not backend:
        return None
    if case.situation.variable("KERAS_BACKEND") == backend:
        why = f"KERAS_BACKEND={backend} {lacks}."
        fix = unset("KERAS_BACKEND", "Keras then takes its own")
        return ImportFault(why, (fix,), (_VARIABLE,))
    text = (
        'In ~/.keras/keras.json (or that of KERAS_HOME) set "backend" to tensorflow, jax or torch, whichever is '
        "installed, or remove the file."
    )
    why = f'"backend": "{backend}" in a settings file {lacks}.'
    return ImportFault(why, (by_hand("Correct keras.json", text),), (_VARIABLE,))


def _lacking_backend(case: Case) -> str:
    """The package that computes for Keras, where a file of Keras does not find it."""
    lacking = re.search(r"No module named '(jax|openvino|tensorflow|torch)", case.text)
    return lacking[1] if lacking and any("/keras/src/" in file for file in case.trial.files[:1]) else ""


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.0f} MiB"
