"""The plan of a repair: what several findings want as one ordered list, and which of it is run."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from gpudoctor.finding import (
    AddContainerFlags,
    AnyRemedy,
    Finding,
    Fix,
    InstallDriver,
    LoadModule,
    Manual,
    NotJudged,
    Reboot,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    UnsetVariable,
)
from gpudoctor.machine import (
    BlockedModule,
    Constraint,
    InstalledModule,
    Installers,
    InstallerSettings,
    Machine,
    absent,
    known,
)
from gpudoctor.planner.planned_steps import Permissions
from gpudoctor.planner.repair import NoSuchFixError, Predicted, Repair, repair, variables_for
from gpudoctor.planner.script import shell_script, variable_lines
from gpudoctor.situation import Situation
from gpudoctor.step import EnvStep, ManualStep, RunStep
from gpudoctor.suites import machine_checks
from tests.support.check_cases import matrix
from tests.support.judging import judged, plan_of, until_done
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    change,
    environment,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
)
from tests.support.shell_scripts import check_syntax, commands

PACKAGES = Permissions(packages=True)
EVERYTHING = Permissions(packages=True, system=True)
INDEX = "https://example.org/whl/cu128"
TORCH = ReplaceTorch(version="2.9.1", build="cu128", origin="download.pytorch.org", index_url=INDEX)
OTHER_TORCH = ReplaceTorch(version="2.7.0", build="cu126", origin="download.pytorch.org", index_url=INDEX)
WITH_VISION = ReplaceTorch(
    version="2.9.1",
    build="cu128",
    origin="download.pytorch.org",
    index_url=INDEX,
    companions=(("torchvision", "0.24.1"),),
)
DRIVER = InstallDriver(branch="580", minimum="580.65.06", flavour="open")


def wants(slug: str, *remedies: AnyRemedy, id: str = "GPD402", severity: str = "error", **parts: object) -> Finding:
    """A finding with one way out."""
    fix = Fix(f"repair {slug}", remedies)
    layer = next((check.layer for check in machine_checks() if check.id == id), "framework")
    return Finding(severity, f"{slug} is wrong.", id=id, slug=slug, fixes=(fix,), layer=layer, **parts)  # type: ignore[arg-type]


def plan(
    *findings: Finding, machine: Machine | None = None, allowed: Permissions = PACKAGES, **asked: object
) -> Repair:
    patient = machine or nvidia_machine(
        driver="570.133.07", torch=torch("2.9.1+cpu"), packages={"torchvision": "0.24.1+cpu"}, variables={"B": "0"}
    )
    judge = until_done(findings, patient)
    return repair(findings, Situation(patient, matrix()), allowed, judge, **asked)  # type: ignore[arg-type]


def short(found: Repair) -> list[str]:
    """What each step is about, in order."""
    told = []
    for planned in found.steps:
        step = planned.step
        if isinstance(step, RunStep):
            told.append(" ".join(part for part in step.argv if not part.startswith(("-", "/", "http"))))
        else:
            told.append(step.name if isinstance(step, EnvStep) else step.text)
    return told


def states(found: Repair) -> list[str]:
    return [planned.state for planned in found.steps]


# --- what belongs together ----------------------------------------------------------------------------------


def test_findings_that_want_the_same_torch_are_one_step_with_both_reasons():
    found = plan(wants("a", TORCH, id="GPD402"), wants("b", TORCH, id="GPD405"))
    (step,) = found.steps
    assert step.because == ("GPD402", "GPD405")
    assert (step.state, step.replaces, found.left) == ("will run", ("torch 2.9.1+cpu",), ())


def test_a_torch_that_comes_brings_its_companions_and_makes_their_own_fix_needless():
    vision = wants("vision", ReplacePackage("torchvision", "==0.24.1"), id="GPD420", severity="warning")
    arch = wants("arch", WITH_VISION)
    for order in ((arch, vision), (vision, arch)):
        (step,) = plan(*order).steps
        assert "torch==2.9.1+cu128" in step.step.argv  # type: ignore[union-attr]
        assert step.replaces == ("torch 2.9.1+cpu", "torchvision 0.24.1+cpu")


def test_what_is_removed_goes_before_what_is_installed():
    found = plan(wants("arch", TORCH), wants("rival", RemovePackage("torchvision"), id="GPD431"))
    assert [text.split()[1] for text in short(found)] == ["uninstall", "install"]


@pytest.mark.parametrize(
    ("first", "second", "limits"),
    [
        (RemovePackage("onnxruntime"), ReplacePackage("onnxruntime-gpu", "==1.23.0"), {"onnxruntime-gpu": "<1.23"}),
        (RemovePackage("cupy-cuda11x"), ReplacePackage("cupy-cuda12x", "==13.6.0"), {"cupy-cuda12x": "<13"}),
        (RemovePackage("jax"), ReplacePackage("jax-cuda13-plugin", "==0.8.0"), {"jax-cuda13-plugin": "<0.8"}),
        (RemovePackage("torchvision"), TORCH, {"torch": "<2.9"}),
        (ReplacePackage("numpy", "<2"), ReplacePackage("torchao", "==0.14.0", INDEX), {"torchao": "<0.14"}),
        (RemovePackage("torchvision"), ReplacePackage("xformers", "==0.0.33"), {"xformers": "<0.0.33"}),
    ],
)  # fmt: skip
def test_nothing_of_a_fix_runs_that_a_constraint_lets_only_begin(
    first: AnyRemedy, second: AnyRemedy, limits: dict[str, str]
) -> None:
    """Else a package is taken away, and nothing comes in its place."""
    patient = nvidia_machine(
        driver="570.133.07",
        torch=torch("2.9.1+cpu"),
        packages={
            "torchvision": "0.24.1+cpu",
            "onnxruntime": "1.22.1",
            "onnxruntime-gpu": "1.22.0",
            "jax": "0.7.0",
            "cupy-cuda11x": "13.6.0",
        },
        variables={"B": "0"},
    )
    constraints = tuple(Constraint(name, limit, source="/c.txt, line 1") for name, limit in limits.items())
    pip = InstallerSettings(constraints=constraints)
    patient = with_environment(patient, installers=Installers(pip=pip))
    other = wants("other", UnsetVariable("B"), ReplacePackage("rich", ">=13"), id="GPD431")
    found = plan(wants("both", first, second), other, machine=patient)
    ran = [planned.state for planned in found.steps if "GPD402" in planned.because]
    assert ran == ["shown only"] * len(ran)
    assert len(ran) >= 2
    assert [step.argv[-1] for step in found.to_run] == ["rich>=13"], "another fix runs all the same"
    by_hand = [number for number, one in enumerate(found.steps, 1) if isinstance(one.step, ManualStep)]
    assert found.predicted.until == f"step {by_hand[-1]}: a person"


def test_a_package_that_the_fix_itself_names_comes_with_its_torch():
    own = wants("flash", TORCH, ReplacePackage("flash-attn", "==2.8.0"))
    assert [text.split()[-1] for text in short(plan(own))] == ["torch==2.9.1+cu128", "flash-attn==2.8.0"]


# --- what does not go together ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (TORCH, OTHER_TORCH),
        (SetVariable("A", "1"), SetVariable("A", "2")),
        (SetVariable("A", "1"), UnsetVariable("A")),
        (ReplacePackage("numpy", "==1.26.4"), ReplacePackage("numpy", ">=2")),
        (ReplacePackage("numpy", "==1.26.4"), RemovePackage("numpy")),
    ],
)
def test_no_plan_has_two_steps_of_which_one_undoes_the_other(first: AnyRemedy, second: AnyRemedy):
    machine = nvidia_machine(torch=torch("2.9.1+cpu"), variables={"A": "0"}, packages={"numpy": "1.20"})
    cause, other = wants("cause", first, id="GPD410"), wants("other", second, id="GPD420")
    found = plan(cause, other, machine=machine)
    assert short(found) == short(plan(cause, machine=machine))
    (left,) = found.left
    assert left.startswith("other [GPD420]")
    assert left in found.after
    assert found.predicted.left == ("GPD420",)


def test_half_of_a_fix_is_never_taken():
    other = wants("other", SetVariable("A", "1"), OTHER_TORCH, id="GPD420")
    found = plan(wants("cause", TORCH), other)
    assert len(found.steps) == 1
    assert len(found.left) == 1


def test_another_fix_that_the_plan_makes_anyway_settles_a_conflict():
    other = Finding("error", "", id="GPD405", slug="other", fixes=(Fix("x", (OTHER_TORCH,)), Fix("y", (TORCH,))))
    found = plan(wants("cause", TORCH), other)
    assert (len(found.steps), found.left) == (1, ())
    assert found.steps[0].because == ("GPD402", "GPD405")


def test_a_fix_that_breaks_what_only_a_person_can_mend_gives_way_to_one_that_breaks_nothing():
    cause = Finding(
        "error", "", id="GPD402", slug="cause", fixes=(Fix("x", (SetVariable("A", "1"),)), Fix("y", (TORCH,)))
    )
    broken = wants("broken", Manual("Mend it."), id="GPD425")

    def judge(machine: Machine) -> tuple[Finding, ...]:
        done = machine.environment.value and machine.environment.value.torch.value
        if done and done.version == "2.9.1+cu128":
            return ()
        return (broken,) if machine.variables.get("A") == "1" else (cause,)

    patient = nvidia_machine(torch=torch("2.9.1+cpu"))
    found = repair((cause,), Situation(patient, matrix()), PACKAGES, judge)
    (step,) = short(found)
    assert "torch==2.9.1+cu128" in step
    assert found.predicted.verdict == "ok"


def test_the_plan_says_what_is_left_after_it_and_what_it_foresees():
    found = plan(wants("arch", TORCH), Finding("error", "No way.", id="GPD431", slug="helpless"))
    assert found.predicted == Predicted("error", ("GPD431",), "end")
    assert found.helpless == ("helpless [GPD431]",)
    driver = plan(wants("driver", DRIVER, Reboot(), id="GPD301"), allowed=EVERYTHING)
    assert driver.predicted == Predicted("ok", (), "step 2: a reboot")


# --- order, and where a plan stops --------------------------------------------------------------------------


def test_a_repair_goes_from_the_metal_up_and_reboots_once_at_its_end():
    found = plan(
        wants("variable", SetVariable("A", "1"), id="GPD306", severity="warning"),
        wants("package", ReplacePackage("numpy", "<2"), id="GPD422", severity="warning"),
        wants("uvm", LoadModule("nvidia_uvm"), id="GPD209", severity="warning"),
        wants("memory", AddContainerFlags("shm"), id="GPD213", severity="warning"),
        wants("driver", DRIVER, Reboot(), id="GPD301", severity="warning"),
    )
    told = short(found)
    # The driver is loaded anew by the reboot, so nothing loads its module before.
    assert [text.split()[0] for text in told[:2]] == ["apt-get", "Reboot."]
    assert told[2:] == ["pip install numpy<2", "A"]


def test_nothing_comes_after_a_step_for_root_that_an_error_needs():
    found = plan(wants("driver", DRIVER, Reboot(), id="GPD301"), wants("arch", TORCH))
    assert states(found) == ["shown only"] * 3
    assert "needs root" in found.steps[0].why_not
    assert "gpudoctor check" in found.after
    as_root = plan(wants("driver", DRIVER, Reboot(), id="GPD301"), wants("arch", TORCH), allowed=EVERYTHING)
    assert states(as_root) == ["will run", "shown only", "shown only"]


def test_a_warning_about_the_system_does_not_hold_up_the_packages():
    slot = wants("slot", Manual("Move the GPU.", risk="reboot"), id="GPD106", severity="warning")
    assert states(plan(slot, wants("arch", TORCH))) == ["shown only", "will run"]


def test_a_container_that_must_be_started_anew_comes_before_its_packages():
    found = plan(wants("no-gpu", AddContainerFlags("nvidia"), id="GPD201"), wants("arch", TORCH))
    assert states(found) == ["shown only", "shown only"]


def test_where_nothing_may_run_everything_is_shown_and_the_reason_told():
    found = plan(wants("arch", TORCH), allowed=Permissions(why_not="This is a snapshot."))
    assert states(found) == ["shown only"]
    assert "This is a snapshot." in found.after
    assert found.to_run == ()


def test_a_python_of_the_distribution_gets_a_venv_of_its_own_which_a_person_makes():
    base = nvidia_machine(torch=torch("2.9.1+cpu"))
    managed = with_environment(base, kind="system", externally_managed=True)
    found = plan(wants("arch", TORCH), machine=managed)
    assert set(states(found)) == {"shown only"}


def test_variables_of_conda_are_run_and_others_are_not():
    override = wants("v", SetVariable("MIOPEN_FIND_MODE", "2"), id="GPD430", severity="warning")
    conda = with_environment(nvidia_machine(), kind="conda", prefix="/opt/conda/envs/a")
    (step,) = plan(override, machine=conda).steps
    assert isinstance(step.step, RunStep)
    assert step.state == "will run"
    found = plan(override)
    assert states(found) == ["shown only"]
    assert 'eval "$(gpudoctor env)"' in found.after


# --- what is asked for --------------------------------------------------------------------------------------


def test_notes_are_left_alone_unless_they_are_named():
    note = wants("remark", UnsetVariable("B"), id="GPD306", severity="note")
    assert plan(note).steps == ()
    assert len(plan(note, only=("GPD306",)).steps) == 1


def test_only_what_is_named_is_repaired():
    cause = wants("cause", TORCH, supersedes=("effect",))
    effect = wants("effect", ReplacePackage("numpy", "<2"), id="GPD422")
    assert short(plan(cause, effect, only=("GPD422",))) == ["pip install numpy<2"]


def test_another_way_out_of_the_first_finding_or_of_the_named_one():
    two = Finding("error", "", id="GPD402", slug="two", fixes=(Fix("x", (TORCH,)), Fix("y", (OTHER_TORCH,))))
    later = wants("later", ReplacePackage("torchvision", "==0.22.0"), id="GPD420")
    assert "2.7.0" in short(plan(two, later, alternative=2))[0]
    assert "2.7.0" in short(plan(later, two, only=("GPD402",), alternative=2))[0]
    with pytest.raises(NoSuchFixError, match=r"two \[GPD402\] has 2 fixes"):
        plan(two, alternative=3)
    with pytest.raises(NoSuchFixError):
        plan(alternative=2)


def test_packages_that_pin_the_old_torch_are_named_first():
    from gpudoctor.machine import Distribution

    patient = nvidia_machine(torch=torch("2.7.0+cpu"))
    pins = Distribution(name="pinning", version="1.0", installer="pip", requires=("torch==2.7.0",))
    own = patient.environment.value
    assert own is not None
    distributions = (*(own.distributions.value or ()), pins)
    patient = with_environment(patient, distributions=known(distributions, "site"))
    assert plan(wants("arch", TORCH), machine=patient).pinned == ("pinning 1.0 (==2.7.0)",)


# --- real findings ------------------------------------------------------------------------------------------


def test_a_cpu_torch_beside_a_mismatched_torchvision_is_one_command():
    machine = nvidia_machine(
        nvidia_gpu("NVIDIA GeForce RTX 4070", "sm_89"),
        torch=torch("2.9.1+cpu"),
        packages={"torchvision": "0.20.0+cpu"},
    )
    found = plan_of(machine, PACKAGES)
    (step,) = [planned for planned in found.steps if planned.state == "will run"]
    assert isinstance(step.step, RunStep)
    assert any(word.startswith("torch==") and "+cpu" not in word for word in step.step.argv)
    assert any(word.startswith("torchvision==0.24.1") for word in step.step.argv)


def test_the_override_of_gfx1031_is_what_a_process_can_have_without_another_torch():
    machine = amd_machine(amd_gpu("AMD Radeon RX 6700 XT", "gfx1031"), torch=torch("2.9.1+rocm6.4"))
    findings = judged(machine).findings
    assert variables_for(findings) == (
        SetVariable("HSA_OVERRIDE_GFX_VERSION", "10.3.0", why=variables_for(findings)[0].why),
    )


def test_variables_are_those_of_the_first_way_that_needs_nothing_else():
    first = Finding(
        "error",
        "",
        id="GPD404",
        slug="a",
        fixes=(
            Fix("", (TORCH,)),
            Fix("", (TORCH, SetVariable("A", "1"))),
            Fix("", (UnsetVariable("A"),)),
        ),
    )
    second = wants("b", SetVariable("A", "2"), SetVariable("B", "x; reboot"), id="GPD420", severity="warning")
    note = wants("c", SetVariable("C", "1"), severity="note")
    assert variables_for((first, second, note)) == (UnsetVariable("A"),)


# --- scripts ------------------------------------------------------------------------------------------------

HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    "-rf",
    "a\nb",
    "a\x1b[2J",
    "\u202ecod",
    "\r\ntouch pwned",
)


def test_a_script_runs_what_the_plan_says(tmp_path):
    found = plan(wants("arch", TORCH), wants("v", SetVariable("A", "1"), id="GPD306", severity="warning"))
    script = shell_script(found, version="1", subject="a machine")
    assert commands(script) == [
        ["/venv/bin/python", "-m", "pip", "install", "--index-url", INDEX, "torch==2.9.1+cu128"]
    ]
    check_syntax(script, tmp_path / "repair.sh")


def test_a_script_goes_no_further_than_the_reboot():
    script = shell_script(
        plan(wants("driver", DRIVER, Reboot(), id="GPD301"), wants("arch", TORCH)), version="1", subject="x"
    )
    assert [argv[:2] for argv in commands(script)] == [["apt-get", "install"]]
    assert "\n$sudo apt-get install" in script
    assert "# after the step above: /venv/bin/python" in script


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_text_of_a_machine_reaches_the_shell(hostile: str, tmp_path):
    machine = nvidia_machine(torch=torch("2.9.1+cpu"))
    patient = environment(torch("2.9.1+cpu"), prefix=f"/{hostile}", interpreter=f"/{hostile}/bin/python")
    machine = with_environment(machine, prefix=patient.prefix, interpreter=patient.interpreter)
    findings = (
        wants(hostile, TORCH),
        wants("b", ReplacePackage(hostile, "<2", why=hostile), id="GPD422"),
        wants("c", SetVariable("A", hostile, why=hostile), id="GPD306"),
        wants("d", Manual(hostile, why=hostile), id="GPD103", severity="warning"),
        wants("e", LoadModule(hostile, why=hostile), id="GPD209", severity="warning"),
    )
    found = plan(*findings, machine=machine)
    for planned in found.steps:
        if isinstance(planned.step, RunStep):
            assert not planned.step.argv[0].startswith("-")
            assert not any(set("\x1b\r\n") & set(word) for word in planned.step.argv)
            assert hostile not in planned.step.argv
    script = shell_script(found, version="1", subject=hostile)
    assert "\x1b" not in script
    assert "\u202e" not in script
    check_syntax(script, tmp_path / "repair.sh")
    assert {tuple(argv) for argv in commands(script)} <= {
        planned.step.argv for planned in found.steps if isinstance(planned.step, RunStep)
    }


def test_lines_for_a_shell_set_and_unset():
    variables = (SetVariable("A", "a b'c"), UnsetVariable("B"))
    out = subprocess.run(
        ["sh", "-c", f'B=1; eval {shlex.quote(variable_lines(variables, "sh"))}; echo "$A|${{B-gone}}"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout == "a b'c|gone\n"
    assert variable_lines(variables, "fish") == "set -gx A 'a b\\'c';\nset -e B;\n"


def test_a_home_folder_that_a_snapshot_leaves_out_is_that_of_the_reader():
    machine = with_environment(
        nvidia_machine(torch=torch("2.9.1+cpu")), prefix="~/my venv", interpreter="~/my venv/bin/python"
    )
    script = shell_script(plan(wants("arch", TORCH), machine=machine), version="1", subject="x")
    assert "\n\"$HOME\"/'my venv/bin/python' -m pip install" in script


def test_steps_for_a_person_keep_their_words():
    found = plan(wants("a", Manual("Look here.\nThen there.", why="because"), id="GPD103"))
    (step,) = found.steps
    assert step.step == ManualStep(text="Look here.\nThen there.", why="because")
    assert (step.state, step.why_not) == ("shown only", "by hand")


def test_where_nothing_was_found_but_a_question_is_open_it_is_not_called_well() -> None:
    open_question = NotJudged("no device code was found", matters=True, id="GPD404")
    silent = NotJudged("the kernel log cannot be read", id="GPD102")
    told = plan(questions=[open_question, silent]).after
    assert "could not be completed: no device code was found" in told
    assert "kernel log" not in told


def test_a_note_that_a_build_for_all_gpus_would_clear_is_told_with_its_fix() -> None:
    """Only a display GPU does not work: nothing must be fixed. Whoever wants both learns which build serves both."""
    old = nvidia_gpu("Quadro K620", "sm_50", chip="GM107")
    newer = nvidia_gpu("NVIDIA GeForce RTX 3060", "sm_86", index=1)
    machine = nvidia_machine(old, newer, driver="550.120", flavour="proprietary", torch=torch("2.9.1+cu128"))
    assert "`gpudoctor fix --only torch-dropped-old-gpu`" in plan_of(machine).after
    (planned,) = plan_of(machine, only=("GPD403",)).steps
    assert isinstance(planned.step, RunStep)
    assert "torch==2.9.1+cu126" in " ".join(planned.step.argv)


def test_a_reboot_loads_no_module_that_a_rule_blocks() -> None:
    """That another kernel has the module, too, makes no difference."""
    machine = nvidia_machine(torch=None)
    nvidia = change(machine.nvidia, userland=known("580.105.08", "load path"))
    kernels = ("6.8.0-51-generic", machine.system.kernel.value or "")
    files = tuple(InstalledModule("amdgpu", kernel, f"/lib/modules/{kernel}/amdgpu.ko") for kernel in kernels)
    amd = change(
        amd_machine().amd,
        module=absent("/sys/module"),
        modules_loaded=known((), "/proc/modules"),
        modules_installed=known(files, "/lib/modules"),
        blocked=known((BlockedModule("amdgpu", "blacklist amdgpu", "/etc/modprobe.d/no.conf"),), "/etc/modprobe.d"),
        kfd=absent("/dev/kfd"),
        topology=absent("/sys/class/kfd"),
    )
    unserved = amd_gpu(index=1, driver=absent("/sys"), nodes=(), kfd_node=None)
    found = plan_of(change(machine, nvidia=nvidia, amd=amd, gpus=(*machine.gpus, unserved)))
    assert found.predicted is not None
    assert found.predicted.until.endswith("a reboot")
    assert "GPD111" in found.predicted.notes
