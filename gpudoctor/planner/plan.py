"""Turns remedies into steps for this machine: which commands, in which environment, and how to undo them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec.structs import replace

from gpudoctor.finding import (
    AddContainerFlags,
    AllowExecution,
    AnyRemedy,
    BlockModule,
    Finding,
    InstallDriver,
    InstallKernel,
    InstallRocmDriver,
    InstallSystemPackage,
    JoinGroup,
    LoadModule,
    Manual,
    Reboot,
    RebuildModule,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    StartService,
    SystemRemedy,
    UnblockModule,
    UnsetVariable,
    VariableRemedy,
)
from gpudoctor.plain_text import lines_without_controls, without_controls
from gpudoctor.planner.place import IN_THE_IMAGE, Place, place
from gpudoctor.situation import Situation
from gpudoctor.step import EnvStep, ManualStep, PlannedFix, RunStep, Step


def fixes_for(finding: Finding, situation: Situation) -> tuple[PlannedFix, ...]:
    """The fixes of a problem as steps for this machine, best first. Nothing runs here."""
    here = place(situation.machine)
    return tuple(PlannedFix(fix.title, steps_for_all(fix.remedies, here, situation)) for fix in finding.fixes)


def _once(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Steps in order; a step that comes twice (two remedies that end in a reboot) only the last time."""
    kept: list[Step] = []
    for step in steps:
        if isinstance(step, ManualStep):
            kept = [earlier for earlier in kept if not isinstance(earlier, ManualStep) or earlier.text != step.text]
        if not any(same_step(step, earlier) for earlier in kept):
            kept.append(step)
    return tuple(kept)


def same_step(one: Step, other: Step) -> bool:
    """Whether two steps do the same, whatever their reasons."""
    if isinstance(one, RunStep) and isinstance(other, RunStep):
        return (one.argv, one.cwd, one.env) == (other.argv, other.cwd, other.env)
    if isinstance(one, EnvStep) and isinstance(other, EnvStep):
        return (one.name, one.value) == (other.name, other.value)
    return isinstance(one, ManualStep) and isinstance(other, ManualStep) and one.text == other.text


def steps_for_all(remedies: Iterable[AnyRemedy], here: Place, situation: Situation) -> tuple[Step, ...]:
    """The steps of remedies in order, each once; neighbours that one command can do together are one step."""
    groups = (tuple(group) for _, group in groupby(remedies, key=command_key))
    steps = _once(step for group in groups for step in steps_together(group, here, situation))
    return _with_image_lines_together(steps)


def _with_image_lines_together(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps, with all lines for the image's Dockerfile below one heading, behind the commands."""
    written = [step for step in steps if isinstance(step, ManualStep) and step.text.startswith(IN_THE_IMAGE)]
    if len(written) < 2:
        return steps
    lines = "".join(dict.fromkeys(step.text.removeprefix(IN_THE_IMAGE) for step in written))
    return (*(step for step in steps if step not in written), replace(written[0], text=f"{IN_THE_IMAGE}{lines}"))


def command_key(remedy: AnyRemedy) -> object:
    """Equal for two remedies that one command can do together."""
    if isinstance(remedy, ReplacePackage):
        return ReplacePackage, remedy.index_url, remedy.indirect
    if isinstance(remedy, ReinstallPackage) and remedy.name != "torch":
        return ReinstallPackage, remedy.index_url
    return id(remedy)


def steps_together(remedies: Sequence[AnyRemedy], here: Place, situation: Situation) -> tuple[Step, ...]:
    """The steps of remedies that have one command, in full: nothing is hidden from the reader."""
    return tuple(_readable(step) for step in _steps_of(remedies, here, situation))


def _readable(step: Step) -> Step:
    """The step, without characters that a person does not see; no command is made from such a step."""
    if isinstance(step, RunStep):
        words = (*step.argv, *step.env.values(), step.cwd or "", *(word for argv in step.undo for word in argv))
        if not all(word.isprintable() for word in words):
            text = f"Fix this by hand: no command is made, because a name has invisible characters: {step.argv}"
            return ManualStep(text=without_controls(text), why=without_controls(step.why), risk=step.risk)
    elif isinstance(step, ManualStep):
        step = replace(step, text=lines_without_controls(step.text))
    return replace(step, why=without_controls(step.why))


def _steps_of(remedies: Sequence[AnyRemedy], here: Place, situation: Situation) -> tuple[Step, ...]:
    remedy = remedies[0]
    if isinstance(remedy, (ReplacePackage, ReinstallPackage)):
        return _package_steps(remedies, here, situation)
    if isinstance(remedy, Manual):
        return (ManualStep(text=remedy.text, why=remedy.why, risk=remedy.risk),)
    if isinstance(remedy, AddContainerFlags):
        from gpudoctor.planner.container_steps import add_flags

        return add_flags(here, remedy)
    if isinstance(remedy, (ReplaceTorch, RemovePackage, AllowExecution, SetVariable, UnsetVariable)):
        return _python_steps(remedy, here, situation)
    return _system_steps(remedy, here, situation)


def _package_steps(remedies: Sequence[AnyRemedy], here: Place, situation: Situation) -> tuple[Step, ...]:
    from gpudoctor.planner import python_steps

    replaced = [remedy for remedy in remedies if isinstance(remedy, ReplacePackage)]
    if replaced:
        return python_steps.replace_packages(here, situation, replaced)
    again = [remedy for remedy in remedies if isinstance(remedy, ReinstallPackage)]
    return python_steps.reinstall_packages(here, situation, again)


def _python_steps(
    remedy: ReplaceTorch | RemovePackage | AllowExecution | VariableRemedy, here: Place, situation: Situation
) -> tuple[Step, ...]:
    from gpudoctor.planner import python_steps

    if isinstance(remedy, ReplaceTorch):
        return python_steps.replace_torch(here, situation, remedy)
    if isinstance(remedy, RemovePackage):
        return python_steps.remove_package(here, situation, remedy)
    if isinstance(remedy, AllowExecution):
        return python_steps.allow_execution(here, remedy)
    if isinstance(remedy, SetVariable):
        return python_steps.set_variable(here, remedy)
    return python_steps.unset_variable(here, remedy)


def _system_steps(remedy: SystemRemedy, here: Place, situation: Situation) -> tuple[Step, ...]:
    from gpudoctor.planner import driver_steps, system_packages, system_steps

    if isinstance(remedy, InstallDriver):
        return driver_steps.install_driver(here, remedy, situation.matrix)
    if isinstance(remedy, InstallRocmDriver):
        return driver_steps.install_rocm_driver(here, remedy, situation.matrix)
    if isinstance(remedy, InstallKernel):
        return system_packages.install_kernel(here, remedy, situation.matrix)
    if isinstance(remedy, RebuildModule):
        return system_steps.rebuild_module(here, remedy, situation.matrix)
    if isinstance(remedy, LoadModule):
        return system_steps.load_module(here, remedy)
    if isinstance(remedy, UnblockModule):
        return system_steps.unblock_module(here, remedy)
    if isinstance(remedy, BlockModule):
        return system_steps.block_module(here, remedy)
    if isinstance(remedy, StartService):
        return system_steps.start_service(here, remedy)
    if isinstance(remedy, InstallSystemPackage):
        return system_packages.install_system_package(here, remedy, situation.matrix)
    if isinstance(remedy, JoinGroup):
        return system_steps.join_group(here, remedy)
    if isinstance(remedy, Reboot):
        return (system_steps.reboot(remedy.why),)
    raise AssertionError(f"no steps are known for {remedy!r}")
