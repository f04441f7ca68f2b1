"""Programs that compute on GPUs without Python: what keeps ollama and llama.cpp on the CPU (GPD470, GPD471)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import AnyRemedy, Evidence, Finding, Fix, Manual, by_hand
from gpudoctor.frameworks.torch.coverage import cuda_answer, within_generation
from gpudoctor.frameworks.torch.gpu_coverage import arch_list
from gpudoctor.isa import capability
from gpudoctor.machine import OVERRIDE, Gpu, Program, ProgramBackend
from gpudoctor.matrix.versions import figures, package_matches
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import VENDORS, called, finding, group_by
from gpudoctor.situation.nvidia_driver import cuda_driver, driver_verdict

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import GpuProgram

_KINDS = {"nvidia": "cuda", "amd": "hip"}

Cause = Literal["no-library", "no-code", "libraries", "driver"]
_NEAREST = ("driver", "libraries", "no-code", "no-library")
"""Where there are several libraries, the one nearest to working gives the reason."""


class _Reason(Struct, frozen=True):
    """Why a program does not use a GPU."""

    cause: Cause
    backend: ProgramBackend | None = None
    wanted: str = ""
    """The architecture, or the driver, that is needed."""


@check("GPD470", "program-on-cpu", "framework")
def program_on_cpu(situation: Situation) -> Verdicts:
    """A program such as ollama cannot use a GPU that is here.

    ## Why it matters
    ollama and llama.cpp then compute on the processor, many times slower. One line of ollama's log says so
    ("inference compute" id=cpu library=cpu).

    ## How it is judged
    By the files of the installation: the library for the GPU's vendor, its code, the libraries that it asks for, the
    driver that its CUDA and the program itself ask for, and the rocBLAS beside it. The variables of its service
    count: one that names the library to use, and HSA_OVERRIDE_GFX_VERSION. It is a note where the program has a
    library for Vulkan, or another GPU is used. Integrated AMD GPUs are judged only where the program uses them by
    itself.

    ## Fix safety
    A person installs another build of the program, or changes its service. A newer driver asks for a reboot.
    """
    rows = {row.program: row for row in situation.matrix.tables.programs}
    for program in situation.machine.programs:
        row = rows.get(program.name)
        if row is None or not program.folder:
            continue
        gpus = tuple(gpu for gpu in situation.usable if not gpu.integrated or _by_itself(row, gpu))
        answers = [(gpu, _reason(situation, program, row, gpu)) for gpu in gpus]
        used = any(reason is None for _, reason in answers)
        for (_, reason), group in group_by(answers, lambda answer: (answer[0].name, answer[1])).items():
            if reason is not None:
                equal = tuple(gpu for gpu, _ in group)
                yield _finding(situation, program, row, reason, equal, used=used)


def _by_itself(row: GpuProgram, gpu: Gpu) -> bool:
    return gpu.vendor == "nvidia" or gpu.arch.value in row.integrated


def _variables(situation: Situation, program: Program) -> dict[str, str]:
    return program.variables if program.service else situation.machine.variables


def _reason(situation: Situation, program: Program, row: GpuProgram, gpu: Gpu) -> _Reason | None:
    """None if some library of the program runs on the GPU, or may."""
    chosen = _variables(situation, program).get(row.chosen_by, "")
    backends = [one for one in program.backends if one.kind == _KINDS[gpu.vendor]]
    backends = [one for one in backends if one.folder == chosen] or backends
    reasons = [_of_library(situation, program, row, one, gpu) for one in backends]
    known = [reason for reason in reasons if reason is not None]
    if len(known) < len(reasons):
        return None
    return min(known, key=lambda one: _NEAREST.index(one.cause), default=_Reason("no-library"))


def _of_library(
    situation: Situation, program: Program, row: GpuProgram, backend: ProgramBackend, gpu: Gpu
) -> _Reason | None:
    if backend.missing:
        return _Reason("libraries", backend)
    arch = gpu.arch.value
    if not arch or not (backend.sass or backend.ptx or backend.gfx):
        return None
    if gpu.vendor == "amd":
        target = _target(situation, program, gpu)
        runs = situation.matrix.gpus.gfx_answer(target, backend.gfx).runs
        solved = backend.blas_gfx is None or target in backend.blas_gfx
        return _Reason("no-code", backend, arch) if runs == "no" or not solved else None
    floor = _floor(situation, row, backend, arch)
    if floor:
        return _Reason("driver", backend, floor)
    exact = backend.runtime if "." in backend.runtime else None  # of a major alone the PTX's age is not known
    answer = cuda_answer(situation, arch, backend.sass, backend.ptx, cuda=exact)
    if answer.rule == "ptx-too-new":
        return _Reason("driver", backend, situation.matrix.nvidia.bundled_driver(backend.runtime) or "")
    return _Reason("no-code", backend, arch) if answer.runs == "no" else None


def _target(situation: Situation, program: Program, gpu: Gpu) -> str:
    """The target as which the program's runtime takes the GPU: an override counts within the generation."""
    variables, real = _variables(situation, program), gpu.arch.value or ""
    value = variables.get(f"{OVERRIDE}_{gpu.kfd_node}") or variables.get(OVERRIDE)
    named = situation.matrix.amd.gfx_of_override(value)
    return named if named and within_generation(situation.matrix, real, named) else real


def _floor(situation: Situation, row: GpuProgram, backend: ProgramBackend, arch: str) -> str:
    """The driver that is needed, if the present one is older; "" if it serves, or is not known."""
    if not backend.runtime:
        return ""
    if driver_verdict(situation, backend.runtime) == "too-old":
        return situation.matrix.nvidia.floor(backend.runtime) or ""
    here, own = cuda_driver(situation.machine), capability(arch)
    for floor in row.driver_floors if here else ():
        least = capability(floor.below)
        fits = package_matches(floor.runtime, backend.runtime) and (
            not floor.below or (own and least and own < least)
        )
        if fits:
            return floor.driver if figures(here or "") < figures(floor.driver) else ""
    return ""


def _finding(
    situation: Situation, program: Program, row: GpuProgram, reason: _Reason, gpus: tuple[Gpu, ...], *, used: bool
) -> Finding:
    vendor, backend = gpus[0].vendor, reason.backend
    carried = (*backend.sass, *backend.ptx, *backend.gfx) if backend else ()
    driver = cuda_driver(situation.machine) or "an older one"
    library = f"its library {backend.folder}/{backend.path.rpartition('/')[2]}" if backend else ""
    why, saw, want = {
        "no-library": (
            f"{program.folder} has no library for {VENDORS[vendor]} GPUs",
            ", ".join(dict.fromkeys(one.kind for one in program.backends)) or "no library for GPUs",
            f"libggml-{_KINDS[vendor]}.so",
        ),
        "no-code": (f"{library} has no code for {reason.wanted}", arch_list(carried), reason.wanted),
        "libraries": (
            f"{library} does not find {', '.join(backend.missing if backend else ())}",
            "not found",
            ", ".join(backend.missing if backend else ()),
        ),
        "driver": (f"{library} needs driver {reason.wanted} or newer, and {driver} is here", driver, reason.wanted),
    }[reason.cause]
    vulkan = any(one.kind == "vulkan" for one in program.backends)
    otherwise = "uses Vulkan, if that works" if vulkan else "computes on the CPU"
    return finding(
        "note" if used or vulkan else "warning",
        gpus,
        message=f"{program.name} cannot use {called(gpus)}{'' if used else f' and {otherwise}'}: {why}.",
        saw=saw,
        want=want,
        framework=program.name,
        evidence=(
            Evidence(program.name, program.path, program.path),
            Evidence(
                f"{program.name}.backends", arch_list(carried) or saw, backend.path if backend else program.folder
            ),
            *(Evidence(name, value, program.service) for name, value in program.variables.items()),
        ),
        fixes=_fixes(situation, program, row, reason, gpus),
        refs=(row.source,),
    )


def _fixes(
    situation: Situation, program: Program, row: GpuProgram, reason: _Reason, gpus: tuple[Gpu, ...]
) -> tuple[Fix, ...]:
    again = row.for_nvidia if gpus[0].vendor == "nvidia" else row.for_amd
    build = by_hand(f"Install another build of {program.name}", again, "replaces")
    if reason.cause == "driver":
        from gpudoctor.situation.driver_choice import driver_to_install

        why = f"{program.name} needs {reason.wanted} or newer"
        install = driver_to_install(situation, gpus, why=why)
        if install is None or figures(install.branch) < figures(reason.wanted)[:1]:
            return (build,)
        return (Fix(f"Install driver {install.branch}", (install,)), build)
    if reason.cause == "no-code":
        return (*_override(situation, program, reason, gpus[0]), build)
    return (build,)


def _override(situation: Situation, program: Program, reason: _Reason, gpu: Gpu) -> tuple[Fix, ...]:
    """The value that makes the GPU run as one of its generation that the library has code for."""
    policy = situation.matrix.amd.override(gpu.arch.value) if gpu.vendor == "amd" else None
    value = policy.proposed if policy else None
    named = situation.matrix.amd.gfx_of_override(value)
    backend = reason.backend
    if not named or backend is None or situation.matrix.gpus.gfx_answer(named, backend.gfx).runs != "yes":
        return ()
    if backend.blas_gfx is not None and named not in backend.blas_gfx:
        return ()
    return (Fix(f"Make the GPU run as {named}", (_setting(program, f"{OVERRIDE}={value}"),)),)


def _setting(program: Program, assignment: str) -> AnyRemedy:
    unit = program.service.rpartition("/")[2].removesuffix(".service")
    how = f'`sudo systemctl edit {unit}`, under [Service] `Environment="{assignment}"`, then restart {unit}.'
    return Manual(how if unit else f"Start {program.name} with {assignment}.", why="AMD does not support it")


@check("GPD471", "program-variable", "framework")
def program_variable(situation: Situation) -> Verdicts:
    """A variable keeps a program such as ollama from the GPU.

    ## Why it matters
    ollama runs as a service: a variable in its unit counts, and one in a shell does not. A library that does not
    exist makes it compute on the CPU without an error.

    ## How it is judged
    The matrix names values that turn GPUs off, and the variable that names the folder of the library to use
    (OLLAMA_LLM_LIBRARY). A name that is none of the installed folders is a warning, as are values for the CPU:
    somebody may have chosen them. The variables of the systemd unit and its drop-ins count, else those of the
    examined process.

    ## Fix safety
    A person edits the service.
    """
    rows = {row.program: row for row in situation.matrix.tables.programs}
    for program in situation.machine.programs:
        variables, row = _variables(situation, program), rows.get(program.name)
        chosen = variables.get(row.chosen_by, "").strip() if row else ""
        folders = dict.fromkeys(one.folder for one in program.backends)
        if row and chosen and re.fullmatch(row.chosen, chosen) and folders and chosen not in folders:
            meaning = f"{program.name} then uses no GPU: its libraries are in {', '.join(folders)}"
            yield _set_wrong(program, row.chosen_by, chosen, meaning, row.source)
        vendors = {gpu.vendor for gpu in situation.usable}
        rows_here = (row for row in situation.matrix.tables.framework_variables if row.framework == program.name)
        for name, known in ((name, row) for row in rows_here for name in row.variables):
            value = variables.get(name)
            if value is None or vendors <= {known.unless}:
                continue
            if program.service and re.fullmatch(known.pattern, value):
                yield _set_wrong(program, name, value, known.meaning, known.source)


def _set_wrong(program: Program, name: str, value: str, meaning: str, source: str) -> Finding:
    unit = program.service.rpartition("/")[2].removesuffix(".service")
    text = (
        f"Take {name} out of {program.service} and its drop-ins (`sudo systemctl edit {unit}`), then restart {unit}."
    )
    return Finding(
        severity="warning",
        message=f"{name}={value}: {meaning}.",
        saw=f"{name}={value}",
        want=f"{name} unset",
        subject=program.name,
        framework=program.name,
        evidence=(Evidence(name, value, program.service or "environment"),),
        fixes=(by_hand(f"Unset {name}", text if unit else f"Unset {name} where {program.name} is started."),),
        refs=(source,),
    )
