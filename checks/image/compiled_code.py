"""What an image compiles itself, on the GPUs that `--gpu` describes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.compiled_code import GpuCode, compiled_code
from gpudoctor.dockerfile.definitions import written_values
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.recipe import Recipe, change, command_of, line_of
from gpudoctor.finding import Evidence, Finding, Fix, NotJudged
from gpudoctor.isa import Answer, cuda_runs, dotted
from gpudoctor.machine import OVERRIDE, Gpu
from gpudoctor.matrix.versions import minor


@check("GPD615", "image-extension-archs", "image")
def extension_archs(recipe: Recipe) -> Verdicts:
    """What the image compiles leaves out the described GPU.

    ## Why it matters
    An extension, or a program such as llama.cpp, gets code for the GPUs of a list alone: TORCH_CUDA_ARCH_LIST,
    PYTORCH_ROCM_ARCH, -DCMAKE_CUDA_ARCHITECTURES, -DGPU_TARGETS. On another GPU it stops with "no kernel image is
    available" or "invalid device function".

    ## How it is judged
    The check reads the lists in options and variables, and which command compiles by them, also in stages from which
    the image copies something. Code for 8.0 runs on 8.6 and 8.9, PTX on newer GPUs whose driver knows it, code of AMD
    on its own target and on GPUs with its override. It is a warning, because a package may choose its GPUs otherwise.
    Where a command may or may not read the list, or the list depends on something unknown, the result is unknown. So
    is it for a list that gpudoctor cannot read.

    ## Fix safety
    A longer list only takes more time to compile. The image's nvcc must know the GPU: 12.8 or newer for Blackwell.
    """
    for image in recipe.images:
        found: dict[tuple[int, str], tuple[GpuCode, Finding | NotJudged]] = {}
        for part in (image, *image.builders):
            for step in part.steps:
                for code in compiled_code(part, step, recipe.matrix):
                    for gpu in recipe.gpus:
                        key = (step.command.line, gpu.name)
                        if key in found and isinstance(found[key][1], Finding):
                            continue
                        one = _judged(recipe, image, part, step, code, gpu)
                        if one is not None and (key not in found or isinstance(one, Finding)):
                            found[key] = code, one
        certain = {(code.written, name) for (_, name), (code, one) in found.items() if isinstance(one, Finding)}
        told: dict[tuple[str, str], Finding] = {}
        for (_, name), (code, one) in found.items():
            if isinstance(one, Finding):  # what other commands compile by the same list needs the same line
                first = told.setdefault((one.subject, name), one)
                told[one.subject, name] = replace(
                    first, evidence=tuple(dict.fromkeys((*first.evidence, *one.evidence)))
                )
            elif (code.written, name) not in certain:
                yield one  # a list that one command surely reads is not in doubt for another
        yield from told.values()


def _judged(
    recipe: Recipe, image: Image, part: Image, step: Step, code: GpuCode, gpu: Gpu
) -> Finding | NotJudged | None:
    line = step.command.line
    if code.everything or gpu.vendor != code.vendor:
        return None
    answer = _answer(recipe, image, part, code, gpu) if code.known else Answer("unknown", "no-list")
    if answer.runs == "yes":
        return None
    if answer.runs == "unknown":
        return NotJudged(f"for which GPUs line {line} compiles ({code.written.removesuffix('=$')})", matters=True)
    if not code.sure:
        why = f"whether what line {line} compiles runs on {gpu.name}: {code.written} leaves it out"
        return NotJudged(why, matters=True)
    return _leaves_out(recipe, image, part, step, code, gpu)


def _answer(recipe: Recipe, image: Image, part: Image, code: GpuCode, gpu: Gpu) -> Answer:
    own, matrix = gpu.arch.value or "", recipe.matrix
    if code.vendor == "amd":
        given = (matrix.amd.gfx_of_override(value) for value in recipe.overrides(image).values())
        named = [gfx for gfx in given if gfx] or [own]
        answers = [matrix.gpus.gfx_answer(gfx, code.gfx) for gfx in named]
        return next((answer for answer in answers if answer.runs == "yes"), answers[0])
    cuda = part.facts.cuda
    readable: bool | None = True
    if recipe.driver and cuda:
        verdict = matrix.nvidia.driver_for_cuda(recipe.driver, cuda)
        readable = None if verdict == "unknown" else verdict == "serves"
    chip = matrix.gpus.capability(own)
    return cuda_runs(own, code.sass, code.ptx, ptx_readable=readable, tegra=bool(chip and chip.tegra))


def _leaves_out(recipe: Recipe, image: Image, part: Image, step: Step, code: GpuCode, gpu: Gpu) -> Finding:
    line, own = step.command.line, gpu.arch.value or ""
    return Finding(
        severity="warning",
        confidence="likely",
        message=f"{code.written} has nothing for {gpu.name} ({own}): what line {line} compiles does not run there.",
        saw=code.written,
        want=dotted(own) or own,
        subject=_place_of(part, step, code),
        evidence=tuple(_evidence(part, step, code)),
        fixes=(_fix(recipe, image, part, step, code, gpu),),
    )


def _evidence(part: Image, step: Step, code: GpuCode) -> Iterator[Evidence]:
    number = _setting_line(part, step, code)
    if number and number != step.command.line:
        yield line_of(part, number, part.source[number - 1].strip())
    yield command_of(part, step.command)


def _place_of(part: Image, step: Step, code: GpuCode) -> str:
    """The place that sets the list: that of the variable, else the command's own."""
    if number := _setting_line(part, step, code):
        return part.place(number)
    command = step.command
    return command.set_at.get(code.variable) or command.script or part.place(command.line)


def _setting_line(part: Image, step: Step, code: GpuCode) -> int:
    """The line of the file that sets a variable; 0 where none does."""
    at = step.command.set_at.get(code.variable, "")
    if at or not code.variable:
        return int(at) if at.isdecimal() else 0
    setting = _lines_that_set(part, code.variable)
    before = bisect_right(setting, step.command.line)
    return setting[before - 1] if before else 0


@lru_cache(maxsize=256)
def _lines_that_set(part: Image, variable: str) -> tuple[int, ...]:
    sets = re.compile(rf"\b{variable}\s*[= ]")
    return tuple(number for number, line in enumerate(part.source, start=1) if sets.search(line))


def _fix(recipe: Recipe, image: Image, part: Image, step: Step, code: GpuCode, gpu: Gpu) -> Fix:
    own = gpu.arch.value or ""
    if code.vendor == "amd":
        return _for_amd(recipe, image, part, step, code, own)
    chip, cuda = recipe.matrix.gpus.capability(own), part.facts.cuda
    wanted = dotted(own) if re.search(r"\d\.\d", code.written) else dotted(own).replace(".", "")
    lines = [*_with_one_more(part, step, code, wanted)]
    needed = ""
    if chip and cuda and minor(cuda) < minor(chip.first_cuda):
        needed = f"CUDA {chip.first_cuda} or newer"
    elif chip and cuda and chip.last_cuda and minor(cuda) > minor(chip.last_cuda):
        needed = f"CUDA {chip.last_cuda} or older"
    if needed:
        lines.insert(0, part.on_base(f"an image with {needed}"))
    return change(f"Add {wanted}" + (f", with {needed}" if needed else ""), *lines)


def _for_amd(recipe: Recipe, image: Image, part: Image, step: Step, code: GpuCode, own: str) -> Fix:
    """The GPU's own target, or the one that its override names if rocBLAS has nothing for its own."""
    matrix = recipe.matrix
    policy = matrix.amd.override(own)
    other = matrix.amd.gfx_of_override(policy.value if policy else None)
    rocm = part.facts.rocm
    blas = matrix.amd.blas(rocm) if rocm else None
    lacks = (
        own not in (*(blas.rocblas or ()), *blas.rocblas_open) if blas else matrix.amd.last_rocblas(own) is not None
    )
    if other is None or policy is None or not lacks:
        return change(f"Add {own}", *_with_one_more(part, step, code, own))
    below = f"{image.place(image.base_line)}: below it: {image.written_env(OVERRIDE, policy.value)}"
    given = policy.value in recipe.overrides(image).values()
    if recipe.matrix.gpus.gfx_answer(other, code.gfx).runs == "yes":
        return change(f"Work around it with {OVERRIDE}={policy.value}", below)
    lines = [*_with_one_more(part, step, code, other), *(() if given else (below,))]
    return change(f"Add {other}, which {own} runs with {OVERRIDE}={policy.value}", *lines)


def _with_one_more(part: Image, step: Step, code: GpuCode, wanted: str) -> Iterator[str]:
    """The lines that add an entry to a list: where the variable that holds it gets its value, if it is another's."""
    longer, number = _longer(code, wanted), _setting_line(part, step, code)
    line = part.source[number - 1] if number else ""
    found = re.search(rf"\b{code.variable}\s*[= ]\s*[\"']?(\$\{{?\w+\}}?)[\"']?(?=\s|$)", line) if number else None
    value = longer.partition("=")[2].strip('"')
    values = part.definitions.solved(found[1], value, number) if found is not None else None
    if values:
        yield from written_values(part.file, part.source, values, part.definitions.given_in)
    else:
        yield f"{_place_of(part, step, code)}: {longer}"


def _longer(code: GpuCode, wanted: str) -> str:
    """The list with one more entry, as it is written."""
    name, _, value = code.written.partition("=")
    if not re.fullmatch(r"[A-Z]\w+", name) or (" " in value and "=" in value):
        option = (
            f"--offload-arch={wanted}"
            if code.vendor == "amd"
            else (f"-gencode arch=compute_{wanted},code=sm_{wanted}")
        )
        return f"{code.written} {option}"
    longer = ";".join((*re.split(r"[;,\s]+", value.strip()), wanted))
    option = "" if code.variable == name else "-D"
    return f'{option}{name}="{longer}"'
