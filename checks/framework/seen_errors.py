"""What an error message that a person saw says of its cause (GPD442)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts
from gpudoctor.finding import SEEN, Evidence, Finding, Fix, NotJudged, Severity, by_hand
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.gpu_coverage import has_code, lacks_code
from gpudoctor.frameworks.torch.installed_build import build_name
from gpudoctor.frameworks.torch.message_causes import (
    CHOOSING_GPUS,
    CPU_BUILD,
    HIDDEN,
    NO_RIGHTS,
    by_place,
    gpus_of,
)
from gpudoctor.frameworks.torch.message_circumstances import (
    FIND_THE_LIBRARY,
    INTEGRATED,
    NO_ATOMICS,
    NO_GPU_GIVEN,
    PACKAGE_FOR_CUDA,
    SEE_ROCMINFO,
    beyond,
    fix_for,
    override_for_program,
    suggested,
    tells_of,
)
from gpudoctor.frameworks.torch.refuted_causes import is_refuted
from gpudoctor.frameworks.torch.smoke_faults import BUSY, CRASH, NO_CODE, Fault, severity
from gpudoctor.machine import OVERRIDE, Gpu, Told, Vendor
from gpudoctor.matrix.errors import own_words_behind, vendor_named
from gpudoctor.plain_text import TO_BE_SURE, capital, sentence, with_code
from gpudoctor.situation import Situation
from gpudoctor.situation.circumstances import fix_of, told_circumstances
from gpudoctor.situation.gpu_groups import called, finding
from gpudoctor.situation.gpu_reset import EFFECTS_OF_A_LOST_GPU
from gpudoctor.situation.no_kernel_driver import MOVE_FOR_ATOMICS, all_need_atomics
from gpudoctor.situation.nvidia_driver import cuda_driver, cudas_too_new
from gpudoctor.situation.seen_errors import seen_errors, telling_line, vendor_of_messages
from gpudoctor.situation.working_gpus import worthwhile
from gpudoctor.situation.wsl import UPDATE_WINDOWS

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import ErrorPattern, ToldCircumstance
    from gpudoctor.matrix.rows.packages import ProgramBuild

_NAMED = 4
"""Causes that a message names; the report's JSON has all."""
_COMPILED = ("extension-abi", "flash-attn-abi")
_EXTENSION, _NO_DRIVER = "ext-built-without-gpu-arch", "no-driver"
_BLAS, _NO_BLAS = "hipblaslt-unsupported-arch", "rocblas-no-arch"
_LOOK_AT_THE_DRIVER = by_hand(
    "Look at the driver",
    "Run `nvidia-smi`. If it fails, install the driver or, in a container, start that with the GPUs. If it shows a "
    "CUDA Version below that of torch, update the driver. If it is well, look at CUDA_VISIBLE_DEVICES.",
)
_LOST, _OLD_DRIVER, _CPU_FRAMEWORK = "gpu-off-bus", "driver-too-old", "framework-cpu-only"
_NEWER, _OLDER, _FIRST_OF_ALL_BUILDS = "torch-no-arch-for-gpu", "torch-dropped-old-gpu", 75
"""Want of code for a GPU that is newer than the build, or older, as each before Turing (7.5) is."""
_NOT_ON_THIS_GPU = "gpu-too-old-for-feature"
_FOR_CUDA = " The package is made for NVIDIA's GPUs, and this is about one of AMD."


@check("GPD442", "error-seen", "framework")
def error_seen(situation: Situation) -> Verdicts:
    """An error message that a person saw has a known cause.

    ## Why it matters
    What failed is known, and often also what prints such a message.

    ## How it is judged
    The matrix lists the messages of torch, the runtimes, their libraries and the loader, with their causes. The
    problem has its cause's name, or is merged with what the machine's facts say of that cause. A message that the
    matrix does not know leaves the verdict open.

    ## Fix safety
    That of the cause.
    """
    rows = seen_errors(situation)
    program_failed = any(row is not None and row.of_program for _, row in rows)
    explained = {id for _, row in rows if row is not None for id in row.explains}
    for text, row in rows:
        if row is not None and (row.id in explained or (row.follows and program_failed)):
            continue
        if row is None:
            yield NotJudged(
                why=f"could not judge this error, whose cause is not known: {telling_line(text)}", matters=True
            )
        elif row.slug == BUSY:
            yield NotJudged(why=f"{row.meaning}. {row.workaround.rstrip('.')}", matters=True)
        elif row.of_program and not (row.slug == CPU_BUILD and _has_an_idle_gpu(situation)):
            yield _about_the_program(situation, row, text)
        elif _lacks_no_code(situation, row):
            why = f"{telling_line(text, situation, row)}: torch has code for the GPUs here, so that is not why"
            yield NotJudged(why=f"{why}. {TO_BE_SURE} {with_code(row.ask)}", matters=True)
        else:
            found = _explained(situation, row, text)
            guessed = found.severity != "note" and len(found.possible_causes) > 1 and _is_of_elsewhere(situation)
            yield NotJudged(why=_as_question(found), matters=True) if guessed else found


def _is_of_elsewhere(situation: Situation) -> bool:
    """Whether nothing here could have printed a message about a GPU: a text is about a machine that has one."""
    machine = situation.machine
    return machine.pasted is None and not machine.gpus and machine.torch is None and not situation.frameworks


def _as_question(found: Finding) -> str:
    likeliest = f"; {found.slug or found.possible_causes[0]} is the most likely"
    untold = f"a message does not tell its cause where neither the GPU nor torch is known{likeliest}"
    return f"{untold}. {found.message}".rstrip(".")


def _lacks_no_code(situation: Situation, row: ErrorPattern) -> bool:
    """Whether all causes of a message are missing code, and torch has code for the GPUs. The message itself names no
    cause."""
    causes = {slug for slug in row.also if slug != "hsa-override-wrong" or situation.variable(OVERRIDE)}
    gpus = gpus_of(situation, row)
    if row.slug != CRASH or not causes or not causes.issubset({*NO_CODE, _BLAS}) or not has_code(situation, gpus):
        return False
    rocm = situation.torch.rocm if situation.torch else None
    return _BLAS not in causes or all(
        situation.matrix.amd.hipblaslt_asked(gpu.arch.value or "", rocm or "") for gpu in gpus
    )


def _explained(situation: Situation, row: ErrorPattern, text: str) -> Finding:
    gpus, line = gpus_of(situation, row), telling_line(text, situation, row)
    vendor = vendor_of_messages(situation) or vendor_named(text)
    program = _program(situation, row, text)
    elsewhere = row.slug in NO_CODE and has_code(situation, gpus)
    other = f" {build_name(situation.torch)} has code for it, so another library lacks it." if elsewhere else ""  # type: ignore[arg-type]
    named = _named(situation, row, gpus)
    first = _EXTENSION if elsewhere or (program and row.slug in NO_CODE) else named
    named = first if program else named
    causes, circumstances = _causes(situation, row, text, first, vendor)
    open_ = (row.slug == CRASH or causes[:1] != (first,)) and bool(causes) and not elsewhere
    place = f"On {called(gpus)}: " if gpus else ""
    hiding = _hiding(situation) if causes[:1] == (HIDDEN,) else {}
    set_here = f" Set here: {', '.join(f'{name}={value}' for name, value in hiding.items())}." if hiding else ""
    other += _FOR_CUDA if causes[:1] == (PACKAGE_FOR_CUDA,) and row.slug != PACKAGE_FOR_CUDA else ""
    ask = circumstances[0].ask if circumstances else row.ask
    slug = causes[0] if open_ or elsewhere else "" if row.slug == CRASH else named
    older = _of_driver(situation) if slug == _OLD_DRIVER and _NO_DRIVER in row.also and not circumstances else ""
    ranked = older or _ranked(ask, causes, slug)
    meaning = f"{row.meaning}.{set_here}{other}{suggested(row, circumstances)}{ranked} {SEEN} {sentence(line)}"
    fault = Fault(slug=named, kernels=(), ran=0, devices=(), gpus=gpus, causes=(row,), vendor=vendor)
    parts = {
        "message": f"{place}{meaning}" if place else capital(meaning),
        "saw": line,
        "confidence": "possible" if elsewhere or (open_ and not set_here) else "likely",
        "evidence": (Evidence("error", line, situation.machine.source_of_error(text)),),
        "fixes": (FIND_THE_LIBRARY,)
        if elsewhere and not program
        else (
            *((_show(hiding),) if hiding else ()),
            *_fixes(situation, row, text, fault, causes, circumstances, program),
        ),
        "refs": row.refs,
        "possible_causes": causes,
        "ranked": open_ or not situation.machine.gpus,
        "slug": slug,
        "supersedes": EFFECTS_OF_A_LOST_GPU if named == _LOST else (),
    }
    if gpus:
        return finding(_weight(situation, fault, row), gpus, **parts)
    return Finding(severity=severity(situation, fault), subject=situation.machine.source_of_error(text), **parts)  # type: ignore[arg-type]


def _weight(situation: Situation, fault: Fault, row: ErrorPattern) -> Severity:
    """How severe it is. A person who pastes the message of one GPU beside others wants to use it."""
    weight = severity(situation, fault)
    wanted = weight == "note" and row.severity != "note" and situation.machine.pasted is not None
    return "warning" if wanted and not any(gpu.integrated for gpu in fault.gpus) else weight


def _causes(
    situation: Situation, row: ErrorPattern, text: str, first: str, vendor: Vendor | None
) -> tuple[tuple[str, ...], tuple[ToldCircumstance, ...]]:
    """The possible causes of a message, most likely first, and what the person told about it. A harmless message has
    none."""
    if row.severity == "note":
        return (), ()
    causes = tuple(slug for slug in dict.fromkeys((first, *row.also)) if slug != CRASH)
    causes = by_place(situation, row, causes, vendor, text)
    # What the message names is an effect where the container has no GPU, and may be refuted itself.
    named = NO_GPU_GIVEN if causes[:1] == (NO_GPU_GIVEN,) else first
    causes = tuple(slug for slug in causes if slug == named or not is_refuted(situation, slug))
    circumstances = _circumstances(situation, row, causes)
    return _with_told(row, causes, circumstances), circumstances


def _program(situation: Situation, row: ErrorPattern, text: str) -> ProgramBuild | None:
    """The program that printed what many print. Where code is missing, it may be torch if that is named, unless the
    message names another."""
    if not row.any_program:
        return None
    from gpudoctor.frameworks.named_program import program_of

    program = program_of(situation, text)
    beside_torch = situation.torch is not None or situation.machine.text.names_torch
    open_ = row.slug in NO_CODE and beside_torch
    return program if not open_ or situation.matrix.programs_named(text.lower()) else None


def _fixes(
    situation: Situation,
    row: ErrorPattern,
    text: str,
    fault: Fault,
    causes: tuple[str, ...],
    circumstances: tuple[ToldCircumstance, ...],
    program: ProgramBuild | None,
) -> tuple[Fix, ...]:
    if row.severity == "note":
        return ()
    if row.windows and situation.machine.text.foreign == "windows":
        return (by_hand("Change it in Windows", row.windows),)
    from gpudoctor.frameworks.named_program import builds_told
    from gpudoctor.frameworks.told_builds import fixes_of_framework
    from gpudoctor.frameworks.torch.other_origins import fixes_elsewhere
    from gpudoctor.frameworks.torch.smoke_fixes import fixes

    given = _given(situation, row, fault, causes, circumstances)
    better: dict[str, ToldCircumstance] = {}
    for one in beyond(row, circumstances):
        better.setdefault(one.slug, one)  # the rows are in the order of what they tell
    # No build of torch mends a program with libraries of its own.
    of_program = row.slug in NO_CODE and (causes[0] == _EXTENSION or not all(one.of_torch for one in circumstances))
    other_cause = of_program or (bool(better) and is_refuted(situation, row.slug))
    own = override_for_program(situation, fault.gpus, text) if of_program or not row.of_torch else ()
    own = () if row.of_torch and situation.variable(OVERRIDE) is not None else own
    told_fixes = tuple(
        fix for one in better.values() for fix in builds_told(situation, one, text) or (fix_of(one, situation),)
    )
    first = (*given, *told_fixes) if causes[:1] == (INTEGRATED,) else (*own, *told_fixes, *given)
    if row.slug == CPU_BUILD and situation.machine.system.jetson.known:
        last = fixes_elsewhere("jetson", situation, situation.usable, situation.torch)
    elif row.slug == CPU_BUILD and situation.torch is not None and is_refuted(situation, row.slug):
        last = _of_the_driver(situation)
    else:
        last = () if other_cause else fixes(situation, fault)
    if row.slug == _OLD_DRIVER and situation.usable:
        last = worthwhile(situation, situation.usable, last)
    open_vendor = row.slug == _CPU_FRAMEWORK and fault.vendor is None
    exact = () if open_vendor else fixes_of_framework(situation, row, text, fault.gpus)
    if row.slug == "torch-import-fails" and fault.vendor != "amd":
        from gpudoctor.frameworks.torch.reinstall import with_its_library

        exact = with_its_library(text)
    if row.slug == _NO_BLAS and not row.of_torch:
        from gpudoctor.frameworks.torch.system_rocblas import release_for_message

        first = (*first, *release_for_message(situation, text, fault.gpus))
    if row.slug in _COMPILED and causes[:1] == (row.slug,) and not exact:
        from gpudoctor.frameworks.torch.release_for_torch import named_by_its_library

        exact = named_by_its_library(situation, text)
    if program:
        from gpudoctor.frameworks.named_program import fixes_of_program

        build = fixes_of_program(situation, program, text, fault.gpus)
        apart = any(not one.of_torch for one in better.values())  # an image or a bundle, which no installer mends
        return ((*first, *build) if apart else (*build, *first)) or last
    if exact and (row.slug == _CPU_FRAMEWORK or fault.vendor == "amd"):
        last = ()  # the row's own words name the builds in general, or those for CUDA
    if causes[:1] == (PACKAGE_FOR_CUDA,) and row.slug != PACKAGE_FOR_CUDA:
        last = ()
    return (*first, *exact, *last)


def _given(
    situation: Situation,
    row: ErrorPattern,
    fault: Fault,
    causes: tuple[str, ...],
    circumstances: tuple[ToldCircumstance, ...],
) -> tuple[Fix, ...]:
    """The fix of the first cause, where neither the message nor what was told beside it names that."""
    told = {row.slug, *(one.slug for one in circumstances)}
    cause = causes[0] if causes else ""
    if row.slug == CPU_BUILD and cause == NO_RIGHTS and NO_RIGHTS not in told:
        return (SEE_ROCMINFO,)
    if not cause or cause in told:
        return ()
    if cause == NO_ATOMICS and all_need_atomics(situation):
        return (MOVE_FOR_ATOMICS,)
    if cause == _OLD_DRIVER and row.slug == CRASH:
        from gpudoctor.frameworks.torch.smoke_fixes import newer_driver

        return newer_driver(situation)
    job = situation.machine.system.job.value
    container_command = situation.machine.text.container_command
    fix = fix_for(cause, fault.vendor, container_command, job.kind if job else "slurm")
    return (fix,) if fix else ()


def _of_the_driver(situation: Situation) -> tuple[Fix, ...]:
    """What to do where torch is a build for GPUs and finds none."""
    if situation.built_for != "nvidia":
        return ()
    return (UPDATE_WINDOWS,) if situation.in_wsl else (_LOOK_AT_THE_DRIVER,)


def _circumstances(situation: Situation, row: ErrorPattern, causes: tuple[str, ...]) -> tuple[ToldCircumstance, ...]:
    """What the person told beside this message, that is about it, and that the facts do not rule out."""
    told = told_circumstances(situation)
    told = tuple((one, said) for one, said in told if not one.last)  # a message knows more
    about = (one for one, said in told if not _is_message(situation, row, one, said) and tells_of(one, row, causes))
    return tuple(one for one in about if one.remedy or not is_refuted(situation, one.slug))


def _with_told(
    row: ErrorPattern, causes: tuple[str, ...], circumstances: tuple[ToldCircumstance, ...]
) -> tuple[str, ...]:
    """The causes of a message, those that the person's words name before the others. Where all are missing code, the
    message tells the library more exactly."""
    told = tuple(one.slug for one in circumstances)
    return causes if row.slug in NO_CODE and set(told) <= set(NO_CODE) else tuple(dict.fromkeys((*told, *causes)))


def _has_an_idle_gpu(situation: Situation) -> bool:
    """Whether a text names a GPU or says that none is used, and nothing tells that torch uses one, or should not."""
    text = situation.machine.text
    if situation.machine.pasted is None or text.works or text.wants_cpu or situation.built_for is not None:
        return False
    missed = any(one.slug == CPU_BUILD for one, _ in told_circumstances(situation))
    return missed or any(not gpu.integrated for gpu in situation.machine.gpus)


def _named(situation: Situation, row: ErrorPattern, gpus: tuple[Gpu, ...]) -> str:
    """The cause that a message names on these GPUs: an older one lacks other things than a newer one. If the facts
    refute it, the next one."""
    no_driver_helps = row.slug == _OLD_DRIVER and lacks_code(situation)
    archs = [(gpu.arch.value or "").removeprefix("sm_") for gpu in (situation.usable if no_driver_helps else gpus)]
    capabilities = [int(arch) for arch in archs if arch.isdigit()]
    if capabilities and len(capabilities) == len(archs):
        old = max(capabilities) < _FIRST_OF_ALL_BUILDS
        if no_driver_helps:
            return _OLDER if old else _NEWER
        if row.slug == _NEWER and _OLDER in row.also and old:
            return _OLDER
        if max(capabilities) < row.needs_sm:
            return _NOT_ON_THIS_GPU
    return next((slug for slug in row.causes if not is_refuted(situation, slug)), row.slug)


def _hiding(situation: Situation) -> dict[str, str]:
    """The visibility variables that are set, where one of them may hide the GPU."""
    values = {name: situation.variable(name) for name in CHOOSING_GPUS}
    return {name: value for name, value in values.items() if value is not None}


def _show(variables: Iterable[str]) -> Fix:
    """What shows the GPUs again that these variables may hide."""
    names = " and ".join(variables)
    return by_hand(
        f"Unset {names}",
        f"Unset {names} where that is set (shell, job, service, program), or name a GPU that is there: "
        "`nvidia-smi -L` or `rocminfo` lists them, and their numbers begin with 0.",
    )


def _is_message(situation: Situation, row: ErrorPattern, circumstance: ToldCircumstance, said: Told) -> bool:
    """Whether a complaint is the line of a message itself, whose row knows more, and not told beside its words."""
    if not circumstance.alone:
        return False
    again = circumstance.any_program and re.search(row.pattern, said.text)  # the message is there twice
    if said.line not in situation.machine.text.error_lines and not again:
        return False
    told = re.search(circumstance.pattern, said.text.lower(), re.ASCII)
    if told and not any(told.start() < end and start < told.end() for start, end in _quoted(situation, row, said)):
        return False
    return not re.search(circumstance.pattern, own_words_behind(said.text).lower(), re.ASCII)


def _quoted(situation: Situation, row: ErrorPattern, said: Told) -> Iterator[tuple[int, int]]:
    """Where in a sentence the message of its line stands, else its longest word: a person words the rest."""
    if found := re.search(row.pattern, said.text):
        yield found.span()
        return
    lines = situation.machine.text.error_lines
    for text in (text for text, line in zip(situation.machine.errors, lines, strict=False) if line == said.line):
        if printed := re.search(row.pattern, text):
            word = max(printed[0].split(), key=len)
            yield from (place.span() for place in re.finditer(re.escape(word), said.text))


def _of_driver(situation: Situation) -> str:
    """What the known driver is too old for; "" where it runs every CUDA, or is unknown."""
    needs = [f"CUDA {cuda} (driver {driver} or newer)" for cuda, driver in cudas_too_new(situation)]
    return f" Driver {cuda_driver(situation.machine)} is too old for {' and '.join(needs)}." if needs else ""


def _ranked(ask: str, causes: tuple[str, ...], likeliest: str) -> str:
    """What is said where the message alone does not decide: the causes beside the problem's own."""
    if len(causes) < 2 or not ask:
        return ""
    which = "Other possible" if likeliest in causes else "Possible"
    named = ", ".join(slug for slug in causes[:_NAMED] if slug != likeliest)
    return f" {which} causes, most likely first: {named}. {TO_BE_SURE} {sentence(with_code(ask))}"


def _about_the_program(situation: Situation, row: ErrorPattern, text: str) -> Finding:
    gpus = situation.machine.gpus
    of_apu = bool(row.apu and gpus) and all(gpu.vendor == "amd" and gpu.integrated for gpu in gpus)
    more = row.apu if of_apu else "That alone is no fault of the machine."
    fix = by_hand("Give the GPU more memory", row.apu) if of_apu else by_hand("Change the program", row.workaround)
    return Finding(
        severity="note",
        message=f"{capital(row.meaning)}. {more} {SEEN} {sentence(telling_line(text))}",
        saw=telling_line(text),
        subject=situation.machine.source_of_error(text),
        confidence="likely",
        evidence=(Evidence("error", telling_line(text), situation.machine.source_of_error(text)),),
        fixes=(fix,),
        refs=row.refs,
    )
