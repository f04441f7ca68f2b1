"""The last line of a report: the command to type next, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.plain_text import NO_USABLE_GPU, TO_BE_SURE
from gpudoctor.render.headline import computed_on_gpu, is_described, other_frameworks, usable
from gpudoctor.render.lines import Line
from gpudoctor.render.steps import command_line
from gpudoctor.situation.batch_job import submits_to
from gpudoctor.step import ManualStep

if TYPE_CHECKING:
    from gpudoctor.render.style import ReportStyle
    from gpudoctor.report import Report, ReportedFinding

_THERE = ("gpudoctor", "check")
"""What a description ends in: the machine itself tells what is only described here."""

_DESCRIBED = {"--gpu": "GPU", "--driver": "driver", "--kernel": "kernel", "--os": "system", "--torch": "torch"}
"""The options that describe a machine, and what they describe."""
_CHOOSING = ("--python", "--env", "--matrix")

_TAKES = {"snapshot": ("--python", "--root", "--env"), "smoke": ("--python", "--env", "--matrix")}
"""The options that choose a machine, of those that a command takes; no row: all but what is installed there."""
_INSTALLED = ("--torch", "--package", "--error")

_IN_A_JOB = {"slurm": ("srun", "--gres=gpu:1"), "lsf": ("bsub", "-Is", "-gpu", "num=1")}
"""What starts a command in a job with a GPU, and shows what it prints."""

_FOREIGN = "GPD914"
"""Says that a text is from a system which gpudoctor does not examine."""
_SEEN = "GPD442"
"""Asks what an error message tells."""
_DEEPER = {"quick": "standard", "standard": "full"}

Advice = tuple[str, tuple[str, ...]]
"""Why, and the command to type."""

NEXT, ON_THAT_MACHINE, IN_ITS_CONTAINER = "Next: ", "Next, on that machine: ", "Next, in its container: "


def next_line(argv: tuple[str, ...], label: str = NEXT) -> Line:
    """The last line of every screen."""
    return [(label, "bold"), (command_line(argv), "command")]


def next_lines(report: Report, look: ReportStyle) -> Iterator[Line]:
    """What to do next and why, and, last, the command to type."""
    why, argv = _next(report, look)
    of_another = report.subject.kind in ("root", "snapshot", "text") and argv[:2] != ("gpudoctor", "explain")
    elsewhere = of_another and "--root" not in argv and "--from" not in argv
    yield [(why, "")]
    of_description = report.subject.kind != "machine" or is_described(report)
    elsewhere = elsewhere or (argv in (_THERE, _same_check_here(look.again)) and of_description)
    in_image = look.about == "image" and argv == _THERE
    yield next_line(argv, IN_ITS_CONTAINER if in_image else ON_THAT_MACHINE if elsewhere else NEXT)


def _next(report: Report, look: ReportStyle) -> Advice:
    """A sentence, and the command that it recommends."""
    first = next((finding for finding in report.findings if finding.severity != "note"), None)
    if look.about == "image":
        return _after_image(first, look.again)
    if first is not None and first.slug != "no-gpu":
        return _after_problem(first, report, look)
    if batch_system := submits_to(report.machine):
        command = (*_IN_A_JOB.get(batch_system, ()), *_THERE)
        again = (*look.again, *look.require) if report.subject.kind == "machine" else ()
        return "GPUs are in the machines that run the jobs: check there.", (*command, *again)
    if first is not None:
        return _after_problem(first, report, look)
    if report.machine.text.foreign:
        return "gpudoctor runs on Linux and in WSL2.", ("gpudoctor", "explain", _FOREIGN)
    if report.subject.kind == "text":
        return "`gpudoctor check` on the machine itself tells more than a text.", _THERE
    if report.open_questions:
        return _after_open_questions(report, look)
    return _after_computing(report, look.again) if computed_on_gpu(report) else _to_compute(report, look)


def _after_open_questions(report: Report, look: ReportStyle) -> Advice:
    kind, again, questions = report.subject.kind, look.again, report.open_questions
    about_the_driver = any(one.id[3:4] in "123" for one in questions)
    if kind == "machine" and report.machine.level == "static" and about_the_driver and not is_described(report):
        deeper = ("gpudoctor", "check", *again, *look.require, "--level", "driver")
        return "`gpudoctor check --level driver` also asks the driver.", deeper
    if report.machine.errors and any(one.id == _SEEN for one in questions):
        why = "`gpudoctor explain` tells more of the message; `--gpu` and `--torch` say where it was printed."
        return why, ("gpudoctor", "explain", report.machine.errors[0])
    command = "whatif" if kind == "whatif" else "check"
    return f"`gpudoctor {command} -v` shows what was read.", ("gpudoctor", command, *again, *look.require, "-v")


def _after_computing(report: Report, again: tuple[str, ...]) -> Advice:
    """What is left where kernels computed right; only those of torch have levels."""
    smoke = report.machine.smoke
    deeper = _DEEPER.get(report.machine.level) if smoke and smoke.framework == "torch" else None
    if deeper:
        return f"`gpudoctor smoke --level {deeper}` runs more kernels.", (*_same("smoke", again), "--level", deeper)
    return _to_keep(report, again)


def _to_compute(report: Report, look: ReportStyle) -> Advice:
    """The next step towards a GPU that is known to compute."""
    kind, again = report.subject.kind, look.again
    described, others, gpus = is_described(report), other_frameworks(report), usable(report)
    without_torch = report.machine.torch is None
    if described and others:
        return "`gpudoctor check` tells what is really there.", _THERE
    if without_torch and others:
        return _to_keep(report, again)
    if without_torch and gpus and kind == "machine":
        why = "`gpudoctor fix` offers to install PyTorch; `gpudoctor recommend` compares the builds."
        return why, ("gpudoctor", "fix", "--install", "torch", *again, *look.require)
    if without_torch or not gpus:
        names = "`gpudoctor recommend` names the best PyTorch build and the reasons."
        return names, _same("recommend", again if kind != "snapshot" else ())
    if described and kind == "machine":
        named = [name for name in _DESCRIBED if name in again] or ["--gpu"]
        what = " and ".join(_DESCRIBED[name] for name in named)
        why = f"The {what} {'were' if len(named) > 1 else 'was'} described, not read. "
        return f"{why}Run the same without {' and '.join(named)} on that machine.", _same_check_here(again)
    if described:
        return "`gpudoctor check` tells what is really there, `gpudoctor smoke` whether it computes right.", _THERE
    computes = "GPUs compute, and compute" if len(gpus) > 1 else "GPU computes, and computes"
    return f"`gpudoctor smoke` proves that the {computes} right.", _same("smoke", again)


def _same_check_here(again: tuple[str, ...]) -> tuple[str, ...]:
    """The same check, of what is there in place of what was described."""
    pairs = (pair for pair in zip(again[::2], again[1::2], strict=False) if pair[0] in _CHOOSING)
    return (*_THERE, *(word for pair in pairs for word in pair))


def _to_keep(report: Report, again: tuple[str, ...]) -> Advice:
    if report.subject.kind != "machine":
        return "`gpudoctor check` tells how that machine is now.", _THERE
    return "`gpudoctor snapshot` keeps this state, to compare with later.", _same("snapshot", again)


def _same(command: str, again: tuple[str, ...]) -> tuple[str, ...]:
    """A command for the same machine and environment: `again`, options and their values, as far as it takes them."""
    pairs = zip(again[::2], again[1::2], strict=True)
    takes = _TAKES.get(command)
    wanted = (pair for pair in pairs if (pair[0] in takes if takes else pair[0] not in _INSTALLED))
    return ("gpudoctor", command, *(word for pair in wanted for word in pair))


def _after_problem(first: ReportedFinding, report: Report, look: ReportStyle) -> Advice:
    explain, kind = f"`gpudoctor explain {first.id}` tells more.", report.subject.kind
    if not first.fixes or report.machine.text.foreign:
        return "`gpudoctor explain` tells more.", ("gpudoctor", "explain", first.id)
    if first.slug == "torch-missing" and kind != "text":
        return _to_compute(report, look)
    if kind == "whatif" and first.framework == "torch":
        return f"`gpudoctor recommend` names the builds; {explain}", _same("recommend", look.again)
    if kind == "text" and TO_BE_SURE in first.message and not _runs_something(report):
        return f"`gpudoctor check` there tells whether that is the cause; {explain}", _THERE
    to_choose = kind in ("machine", "root") and report.machine.torch is not None and not look.require
    if first.saw == NO_USABLE_GPU and not report.machine.gpus and to_choose:
        return f"`gpudoctor recommend` names the build for the CPU; {explain}", _same("recommend", look.again)
    if kind == "whatif" or not _runs_something(report):
        again = _THERE if kind not in ("machine", "root") else ("gpudoctor", "check", *look.again, *look.require)
        return f"Do what the fix says, then check again; {explain}", again
    if kind == "text" and "-" in look.again:  # stdin is read; what is on the machine is known there
        return f"`gpudoctor fix` shows and applies it; {explain}", ("gpudoctor", "fix")
    if kind == "text":
        return f"`gpudoctor fix` shows the plan; {explain}", ("gpudoctor", "fix", *look.again, "--dry-run")
    does = "shows and applies it" if kind == "machine" else "shows the plan"
    return f"`gpudoctor fix` {does}; {explain}", ("gpudoctor", "fix", *look.again, *look.require)


def _runs_something(report: Report) -> bool:
    """Whether a fix of a problem has a step that a person need not do."""
    fixes = [fix for finding in report.findings if finding.severity != "note" for fix in finding.fixes]
    return any(not isinstance(step, ManualStep) for fix in fixes for step in fix.steps)


def _after_image(first: ReportedFinding | None, paths: tuple[str, ...]) -> Advice:
    if first is None and "--gpu" not in paths:
        checks = "`--gpu NAME` checks the image for that GPU."
        return checks, ("gpudoctor", "dockerfile", *paths, "--gpu", "NAME")
    if first is None:
        return "`gpudoctor check` in the started container or environment checks the rest.", _THERE
    why = f"Change the file and check it again; `gpudoctor explain {first.id}` tells more."
    return why, ("gpudoctor", "dockerfile", *paths)
