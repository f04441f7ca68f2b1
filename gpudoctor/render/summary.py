"""How a machine stands, in one line, and what to type next: the first and the last line of a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.machine.pasted_text import PROGRAM_ERROR
from gpudoctor.render.steps import command_line
from gpudoctor.step import ManualStep

if TYPE_CHECKING:
    from gpudoctor.machine import Gpu, SmokeKernel
    from gpudoctor.render.lines import Line
    from gpudoctor.render.style import ReportStyle
    from gpudoctor.report import Report, ReportedFinding, ReportedQuestion

_AREAS = {
    "1": "the driver",
    "2": "access to the GPU",
    "3": "the CUDA or ROCm libraries",
    "4": "PyTorch",
    "5": "the smoke kernels",
    "6": "the image",
    "9": "everything",
}
"""What is checked, by the first digit of an id."""
_THERE = ("gpudoctor", "check")
"""What a description ends in: the machine itself tells what is only described here."""

_TAKES = {"snapshot": ("--python", "--root", "--env"), "smoke": ("--python", "--env", "--matrix"), "recommend": None}
"""The options that choose a machine, of those that a command takes; None: all of them."""

_SEEN = "GPD442"
"""Asks what an error message tells."""
_DEEPER = {"quick": "standard", "standard": "full"}


def headline(report: Report, look: ReportStyle) -> Line:
    """ "1 problem, 1 warning", "No problem found ...", "Could not check ...": what a person reads first."""
    errors, warnings = _count(report, "error"), _count(report, "warning")
    unanswered = [question for question in report.not_judged if question.matters]
    counts = ", ".join(filter(None, (_counted(errors, "problem"), _counted(warnings, "warning"))))
    if errors:
        more = f"; {_counted(len(unanswered), 'check')} could not be completed" if unanswered else ""
        return [(f"{counts}{more}", "bold red")]
    if unanswered:
        first = [(could_not_check(unanswered[0]), "bold magenta"), (f" [{unanswered[0].id}]", "dim")]
        return [*first, (f"; {counts}" if counts else "", "bold yellow")]
    failed = "Not all kernels pass: see below." if _failed(report) else ""
    if counts or failed:
        return [(". ".join(filter(None, (counts, failed))), "bold yellow")]
    return _without_problems(report, look)


def could_not_check(question: ReportedQuestion) -> str:
    """ "Could not check PyTorch: no Python environment was read"."""
    why = question.why
    if why.lower().startswith("could not check"):
        return why[0].upper() + why[1:]
    return f"Could not check {_AREAS.get(question.id[3:4], 'everything')}: {why}"


def _without_problems(report: Report, look: ReportStyle) -> Line:
    """The headline without problems. It is green only where a GPU and a framework could be used, and claims no more
    than was done."""
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
    computed = [kernel for kernel in _kernels(report) if kernel.status == "pass"]
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
    ignored = f" but {_counted(len(report.ignored), 'ignored problem')}" if report.ignored else ""
    return [(f"No problem found{ignored}", "bold green"), (_scope(report, computed, on_gpu=on_gpu), "")]


def _unread_torch(report: Report) -> str:
    """Why it is unknown which torch is installed; "" where it is known, or known that there is none."""
    environment = report.machine.environment.value
    undecided = environment is not None and environment.torch.undecided and report.subject.kind == "machine"
    return environment.torch.why if environment and undecided else ""


def other_frameworks(report: Report) -> str:
    """The frameworks beside torch: "jax 0.12.0 and onnxruntime 1.31.1"."""
    environment = report.machine.environment.value
    found = environment.frameworks.others if environment else ()
    return " and ".join(f"{one.name} {one.version}" for one in found)


def _scope(report: Report, computed: list[SmokeKernel], *, on_gpu: bool) -> str:
    """What was done, and what was not."""
    level = report.machine.level
    if computed and on_gpu:
        devices = ", ".join(dict.fromkeys(kernel.device for kernel in computed))
        return f": {_counted(len(computed), 'kernel')} computed right on {devices} (level {level})."
    if report.subject.kind in ("whatif", "text"):
        where = "description" if report.subject.kind == "whatif" else "text"
        return f" in this {where}: nothing was computed."
    if level == "static":
        return " in files: the driver was not started, nothing was computed."
    did = (
        f"{_counted(len(computed), 'kernel')} computed right on the CPU, none" if computed else "nothing was computed"
    )
    return f": {'the driver starts' if _driver_started(report) else 'the driver was not started'}; {did} on a GPU."


def _driver_started(report: Report) -> bool:
    """Whether the driver of these GPUs answered; it did not for a GPU that is only described."""
    nvidia, amd = report.machine.nvidia, report.machine.amd
    answers = (nvidia.nvml, nvidia.cuda, nvidia.smi, amd.hsa, amd.smi)
    return not _is_described(report) and any(answer.known for answer in answers)


def next_lines(report: Report, look: ReportStyle) -> Iterator[Line]:
    """What to do next and why, and, last, the command to type."""
    why, argv = _next(report, look)
    of_another = report.subject.kind in ("root", "snapshot", "text") and argv[:2] != ("gpudoctor", "explain")
    elsewhere = of_another and "--root" not in argv and "--from" not in argv
    yield [(why, "")]
    elsewhere = elsewhere or (argv == _THERE and (report.subject.kind != "machine" or _is_described(report)))
    yield [("Next, on that machine: " if elsewhere else "Next: ", "bold"), (command_line(argv), "command")]


def _next(report: Report, look: ReportStyle) -> tuple[str, tuple[str, ...]]:
    """A sentence, and the command that it recommends."""
    first = next((finding for finding in report.findings if finding.severity != "note"), None)
    kind, again = report.subject.kind, look.again
    if look.about == "image":
        return _after_image(first, again)
    if kind == "text" and first is None:
        return "`gpudoctor check` on the machine itself tells more than a text.", _THERE
    if first is not None:
        return _after_problem(first, report, look)
    if any(question.matters for question in report.not_judged):
        about_the_driver = any(one.matters and one.id[3:4] in "123" for one in report.not_judged)
        if kind == "machine" and report.machine.level == "static" and about_the_driver and not _is_described(report):
            deeper = ("gpudoctor", "check", *again, *look.require, "--level", "driver")
            return "`gpudoctor check --level driver` also asks the driver.", deeper
        if report.machine.errors and any(one.matters and one.id == _SEEN for one in report.not_judged):
            why = "`gpudoctor explain` tells more of the message; `--gpu` and `--torch` say where it was printed."
            return why, ("gpudoctor", "explain", report.machine.errors[0])
        command = "whatif" if kind == "whatif" else "check"
        return f"`gpudoctor {command} -v` shows what was read.", ("gpudoctor", command, *again, *look.require, "-v")
    computed = _computed_on_gpu(report)
    if not computed and _is_described(report) and other_frameworks(report):
        return "`gpudoctor check` tells what is really there.", _THERE
    if not computed and report.machine.torch is None and other_frameworks(report):
        return _to_keep(report, again)
    gpus = () if computed else usable(report)
    if not computed and (report.machine.torch is None or not gpus):
        if gpus and kind == "machine":
            why = "`gpudoctor fix` offers to install PyTorch; `gpudoctor recommend` compares the builds."
            return why, ("gpudoctor", "fix", "--install", "torch", *again, *look.require)
        names = "`gpudoctor recommend` names the best PyTorch build and the reasons."
        return names, _same("recommend", again if kind != "snapshot" else ())
    if not computed and _is_described(report):
        return "`gpudoctor check` tells what is really there, `gpudoctor smoke` whether it computes right.", _THERE
    if not computed:
        proves = "`gpudoctor smoke` proves that the GPU computes, and computes right."
        return proves, _same("smoke", again)
    if deeper_level := _DEEPER.get(report.machine.level):
        more = f"`gpudoctor smoke --level {deeper_level}` runs more kernels."
        return more, (*_same("smoke", again), "--level", deeper_level)
    return _to_keep(report, again)


def _to_keep(report: Report, again: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if report.subject.kind != "machine":
        return "`gpudoctor check` tells how that machine is now.", _THERE
    return "`gpudoctor snapshot` keeps this state, to compare with later.", _same("snapshot", again)


def _same(command: str, again: tuple[str, ...]) -> tuple[str, ...]:
    """A command for the same machine and environment: `again`, options and their values, as far as it takes them."""
    pairs = zip(again[::2], again[1::2], strict=True)
    takes = _TAKES[command]
    return ("gpudoctor", command, *(word for pair in pairs if takes is None or pair[0] in takes for word in pair))


def _is_described(report: Report) -> bool:
    """Whether a GPU is one that the command line names: it need not be here."""
    return any(gpu.source == "description" for gpu in report.machine.gpus)


def _after_problem(first: ReportedFinding, report: Report, look: ReportStyle) -> tuple[str, tuple[str, ...]]:
    explain, kind = f"`gpudoctor explain {first.id}` tells more.", report.subject.kind
    if not first.fixes or kind == "whatif" or (kind == "text" and not _runs_something(report)):
        return "`gpudoctor explain` tells more.", ("gpudoctor", "explain", first.id)
    if kind == "text":
        return f"`gpudoctor fix` shows the plan; {explain}", ("gpudoctor", "fix", *look.again, "--dry-run")
    if kind == "machine" and not _runs_something(report):
        return f"Do what the fix says, then check again; {explain}", (
            "gpudoctor",
            "check",
            *look.again,
            *look.require,
        )
    does = "shows and applies the fix" if kind == "machine" else "shows the plan"
    return f"`gpudoctor fix` {does}; {explain}", ("gpudoctor", "fix", *look.again, *look.require)


def _runs_something(report: Report) -> bool:
    """Whether a fix of a problem has a step that a person need not do."""
    fixes = [fix for finding in report.findings if finding.severity != "note" for fix in finding.fixes]
    return any(not isinstance(step, ManualStep) for fix in fixes for step in fix.steps)


def _after_image(first: ReportedFinding | None, paths: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    if first is None:
        return "`gpudoctor check` in the started container checks the rest.", ("gpudoctor", "check")
    why = f"Change the file and check it again; `gpudoctor explain {first.id}` tells more."
    return why, ("gpudoctor", "dockerfile", *paths)


def usable(report: Report) -> tuple[Gpu, ...]:
    """The GPUs that a process here can use."""
    from gpudoctor.situation.usable_gpus import standings

    return tuple(standing.gpu for standing in standings(report.machine) if standing.usable)


def _kernels(report: Report) -> tuple[SmokeKernel, ...]:
    return report.machine.smoke.kernels if report.machine.smoke else ()


def _computed_on_gpu(report: Report) -> bool:
    return any(kernel.status == "pass" and kernel.device != "cpu" for kernel in _kernels(report))


def _failed(report: Report) -> bool:
    return any(kernel.status not in ("pass", "skipped") for kernel in _kernels(report))


def _count(report: Report, severity: str) -> int:
    return sum(finding.severity == severity for finding in report.findings)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}" if number else ""
