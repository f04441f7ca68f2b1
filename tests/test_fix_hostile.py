"""Whatever text a machine carries, no step turns it into an option, a shell word or a control character."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.finding import (
    AnyRemedy,
    BlockModule,
    InstallDriver,
    InstallSystemPackage,
    JoinGroup,
    LoadModule,
    Manual,
    RebuildModule,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    StartService,
    UnblockModule,
    UnsetVariable,
)
from gpudoctor.machine import Distribution, InstalledModule, Machine, Os, TorchAsked, known
from gpudoctor.matrix.load import load_matrix
from gpudoctor.planner.place import place
from gpudoctor.planner.plan import steps_together
from gpudoctor.situation import Situation
from gpudoctor.step import EnvStep, ManualStep, RunStep
from tests.support.machines import change, environment, nvidia_machine, system, torch, with_stack

MATRIX = load_matrix()
TEXTS = st.one_of(
    st.sampled_from(
        (
            *("-rf", "--index-url=http://evil", "$(reboot)", "a;b", "a b", "`x`", "a\nb", "../x", "", "é", "x\x00"),
            *(
                "\u202eevil",
                "/x/\u202e\u200b/y",
                "\x1b[31mred",
                "'; reboot #",
                '"',
                "-",
                "gpu\r",
                "a" * 5000,
                "\udcff",
            ),
        )
    ),
    st.text(max_size=20),
)
OPTIONS = {
    *("-m", "-y", "-p", "-c", "-k", "-r", "-i", "-e", "-S", "-R", "-Syu", "--now", "--python", "--index-url"),
    *("--default-index", "--index", "--no-deps", "--source", "--force-reinstall", "--reinstall-package"),
    *("--priority=explicit", "--needed", "--noconfirm", "--non-interactive", "--frozen", "--inexact", "--group"),
    *("--optional", "--extra", "--allowerasing"),
}
"""Our own: everything else that begins with a dash came from the machine."""


def machine(one: str, two: str, lock: str) -> Machine:
    patient = environment(
        torch("2.9.1+cpu"),
        prefix=one if one.startswith("/") else f"/{one}",
        project=two,
        interpreter=two,
        lock=lock,
        kind="conda" if lock == "" and len(one) % 2 else "venv",
        torch_asked=(
            TorchAsked(file=one, requirement=f"torch=={two}", hashed=True),
            TorchAsked(file="pyproject.toml", requirement="torch", group=one, extra=two),
        ),
    )
    listed = (
        *(patient.distributions.value or ()),
        Distribution(name=one, version=two, requires=(f"torch=={two}",)),
        Distribution(name="triton-rocm", version=two),
        Distribution(name="xformers", version=two, requires=("torch==1.0",)),
    )
    found = nvidia_machine(
        system=system(
            kernel=known(one, "uname"), os=known(Os(id=one, version=two, like=("ubuntu",)), "/etc/os-release")
        )
    )
    module = InstalledModule("nvidia", one, f"/lib/modules/{one}/kernel/nvidia-580-open/{two}", two)
    found = with_stack(found, modules_installed=known((module,), "/lib/modules"))
    return change(found, environment=known(change(patient, distributions=known(listed, "site")), "test"))


def remedies(one: str, two: str) -> list[AnyRemedy]:
    return [
        ReplaceTorch("2.9.1", "cu128", "download.pytorch.org", "https://example.org/cu128"),
        ReplaceTorch(one, two, "download.pytorch.org", index_url=two, extra=one),
        ReplaceTorch(one, two, "conda-forge"),
        ReplaceTorch("2.9.1", "cu128", "pypi", companions=((one, two),)),
        ReplaceTorch("2.9.1", "cu128", "x", index_url=f"https://example.org/{one}"),
        ReplacePackage(name=one, specifier=two, local=one),
        ReplacePackage(name="numpy", specifier="==1", index_url=one, local=two),
        ReinstallPackage(name=one, version=two),
        RemovePackage(name=one),
        SetVariable(name=one, value=two),
        SetVariable(name="CUDA_VISIBLE_DEVICES", value=two),
        SetVariable(name=one, value="0"),
        UnsetVariable(name=one),
        InstallDriver(branch=one, minimum=two),
        InstallDriver(branch="580"),
        RebuildModule(module=one, version=two),
        RebuildModule(module="nvidia", version=two),
        LoadModule(module=one, options=(two,)),
        UnblockModule(module=one, source=two),
        BlockModule(module=one),
        StartService(service=one, package=two),
        InstallSystemPackage(purpose=one, version=two),
        InstallSystemPackage(purpose="python-headers", version=two),
        JoinGroup(group=one),
        Manual(text=f"Look at {one}\nor at {two}", why=two),
    ]


@settings(max_examples=60)
@given(TEXTS, TEXTS, st.sampled_from(("", "uv.lock", "poetry.lock", "pixi.lock")))
def test_no_text_of_a_machine_becomes_an_option_or_a_shell_word(one: str, two: str, lock: str) -> None:
    subject = machine(one, two, lock)
    here = place(subject)
    for remedy in remedies(one, two):
        for step in steps_together((remedy,), here, Situation(subject, MATRIX)):
            if isinstance(step, RunStep):
                for argument in (argument for command in (step.argv, *step.undo) for argument in command):
                    _is_plain(argument)
                assert step.cwd is None or not _controls(step.cwd)
            elif isinstance(step, EnvStep):
                assert step.name.replace("_", "a").isalnum()
                assert not set(step.value) & set("\n`$;|&<>\"' ")
            elif isinstance(step, ManualStep):
                assert step.text.strip()
                assert not _controls(step.text.replace("\n", ""))
            assert not _controls(step.why)


def _is_plain(argument: str) -> None:
    assert argument
    assert not argument.startswith("-") or argument in OPTIONS, argument
    assert not _controls(argument), argument
    if argument.startswith(("/", "~/")) or "explicit = " in argument:
        return  # a path may hold anything printable; sed's script is ours
    assert not set(argument) & set("\n\r\x00`$;|"), argument


def _controls(text: str) -> bool:
    """Also what turns the direction of a text, or is not seen at all."""
    return not text.isprintable()
