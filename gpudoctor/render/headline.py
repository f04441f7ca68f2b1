"""The first line of a report: how a machine stands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.machine import Gpu, SmokeKernel
from gpudoctor.machine.pasted_text import PROGRAM_ERROR
from gpudoctor.plain_text import number_of

if TYPE_CHECKING:
    from gpudoctor.render.lines import Line
    from gpudoctor.render.style import ReportStyle
    from gpudoctor.report import Report, ReportedQuestion

_AREAS = {
    "1": "the driver",
    "2": "access to the GPU",
    "3": "the CUDA or ROCm libraries",
    "4": "PyTorch",
    "5": "the smoke kernels",
    "6": "the image",
    "9": "everything",
    "911": "this text",
}
"""What is checked, by the first digit of an id, or by all three."""

_THREE_LINES = 240

_WHOLE = (
    "could not check", "could not judge", "nothing in this text", "no error in this text", "the text shows",
)  # fmt: skip
"""How reasons begin that say by themselves what is open."""


def headline(report: Report, look: ReportStyle) -> Line:
    """ "1 problem, 1 warning", "No problem found ...", "Could not check ...": what a person reads first."""
    errors, warnings = _count(report, "error"), _count(report, "warning")
    unanswered = report.open_questions
    numbers = ((errors, "problem"), (warnings, "warning"))
    counts = ", ".join(number_of(number, noun) for number, noun in numbers if number)
    if counts and unanswered:
        counts += f"; {number_of(len(unanswered), 'check')} could not be completed"
    if errors:
        return [(counts, "bold red")]
    if unanswered and not warnings:
        return [(in_brief(unanswered[0]), "bold magenta"), (f" [{unanswered[0].id}]", "dim")]
    passed = all(kernel.status in ("pass", "skipped") for kernel in report.machine.kernels)
    failed = "" if passed else "Not all kernels pass: see below."
    if counts or failed:
        return [(". ".join(filter(None, (counts, failed))), "bold yellow")]
    return _without_problems(report, look)


def could_not_check(question: ReportedQuestion) -> str:
    """ "Could not check PyTorch: no Python environment was read"."""
    why = question.why
    if why.lower().startswith(_WHOLE):
        return why[0].upper() + why[1:]
    area = _AREAS.get(question.id[3:]) or _AREAS.get(question.id[3:4], "everything")
    return f"Could not check {area}: {why}"


def in_brief(question: ReportedQuestion) -> str:
    """That without what was seen and what decides; of a long one, the first sentence."""
    from gpudoctor.render.plain import message_parts

    text = message_parts(could_not_check(question))[0]
    return text if len(text) <= _THREE_LINES else re.split(r"\. (?=[A-Z])", text, maxsplit=1)[0]


def _without_problems(report: Report, look: ReportStyle) -> Line:
    """The headline without problems. It is green only where a GPU and a framework could be used, and claims no more
    than was done."""
    if look.about == "image" and not look.table:
        return [("Nothing to check: no image and no container found.", "bold")]
    if look.about == "image" and "--gpu" not in look.again:
        return [("No problem found in the files; no GPU was named to check them for.", "bold")]
    if look.about == "image":
        return [("No problem found", "bold green"), (" in what the image is built from.", "")]
    machine = report.machine
    others = other_frameworks(report)
    if machine.pasted is not None and not machine.pasted.works and machine.torch is None and not others:
        if machine.pasted.tells(PROGRAM_ERROR):
            own = "The text tells of an error of the program: that is no fault of the GPU or its driver."
            return [(own, "bold")]
        return [("The text tells of no problem with a GPU.", "bold")]
    unread = _unread_torch(report)
    if not machine.gpus and unread:
        return [(f"No GPU found, and PyTorch could not be checked: {unread}.", "bold")]
    if not machine.gpus and machine.torch is None and not others:
        ignored = f" ({len(report.ignored)} ignored)" if report.ignored else ""
        return [(f"Nothing to check: no GPU and no PyTorch found{ignored}.", "bold")]
    computed = [kernel for kernel in report.machine.kernels if kernel.status == "pass"]
    on_gpu = any(kernel.device != "cpu" for kernel in computed)
    gpus = usable(report)
    if not gpus and not on_gpu:
        none = "No usable GPU" if machine.gpus else "No GPU"
        what = f"{others} runs on the CPU only" if others else "no PyTorch"
        if machine.torch is not None:
            did = f"computed right on the CPU ({len(computed)} kernels)" if computed else "runs on the CPU only"
            what = f"torch {machine.torch.version} {did}"
        return [(f"{none} found; {what}.", "bold")]
    if machine.torch is None and not others:
        return [(f"No PyTorch found for {gpus[0].name}: nothing was computed.", "bold")]
    ignored = f" but {number_of(len(report.ignored), 'ignored problem')}" if report.ignored else ""
    return [(f"No problem found{ignored}", "bold green"), (_scope(report, computed, on_gpu=on_gpu), "")]


def _unread_torch(report: Report) -> str:
    """Why it is unknown which torch is installed; "" where it is known, or known that there is none."""
    looked = report.machine.environment.known and report.subject.kind == "machine"
    return report.machine.examined.torch.why if looked and report.machine.examined.torch.undecided else ""


def other_frameworks(report: Report) -> str:
    """The frameworks beside torch: "jax 0.12.0 and onnxruntime 1.31.1"."""
    return " and ".join(f"{one.name} {one.version}" for one in report.machine.examined.frameworks.others)


def _scope(report: Report, computed: list[SmokeKernel], *, on_gpu: bool) -> str:
    """What was done, and what was not."""
    level = report.machine.level
    if computed and on_gpu:
        devices = ", ".join(dict.fromkeys(kernel.device for kernel in computed))
        return f": {number_of(len(computed), 'kernel')} computed right on {devices} (level {level})."
    if report.subject.kind in ("whatif", "text"):
        where = "description" if report.subject.kind == "whatif" else "text"
        return f" in this {where}: nothing was computed."
    if level == "static":
        return " in files: the driver was not started, nothing was computed."
    did = (
        f"{number_of(len(computed), 'kernel')} computed right on the CPU, none"
        if computed
        else "nothing was computed"
    )
    return f": {'the driver starts' if _driver_started(report) else 'the driver was not started'}; {did} on a GPU."


def _driver_started(report: Report) -> bool:
    """Whether the driver of these GPUs answered; it did not for a GPU that is only described."""
    nvidia, amd = report.machine.nvidia, report.machine.amd
    answers = (nvidia.nvml, nvidia.cuda, nvidia.smi, amd.hsa, amd.smi)
    return not is_described(report) and any(answer.known for answer in answers)


def usable(report: Report) -> tuple[Gpu, ...]:
    """The GPUs that a process here can use."""
    from gpudoctor.situation.usable_gpus import standings

    return tuple(standing.gpu for standing in standings(report.machine) if standing.usable)


def is_described(report: Report) -> bool:
    """Whether a GPU is one that the command line names: it need not be here."""
    return any(gpu.source == "description" for gpu in report.machine.gpus)


def computed_on_gpu(report: Report) -> bool:
    """Whether a kernel computed right on a GPU."""
    return any(kernel.status == "pass" and kernel.device != "cpu" for kernel in report.machine.kernels)


def _count(report: Report, severity: str) -> int:
    return sum(finding.severity == severity for finding in report.findings)
