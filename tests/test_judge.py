"""Order of findings, verdict and exit code."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.causes import drop_fallbacks
from gpudoctor.check import Check
from gpudoctor.engine import Suite, in_order, judge
from gpudoctor.exit_codes import exit_code
from gpudoctor.finding import Finding, NotJudged
from gpudoctor.host import InputError
from gpudoctor.machine import Extension, NvidiaApi, absent, known
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows import Tables
from gpudoctor.requirement import parse
from gpudoctor.situation import Situation
from gpudoctor.suites import machine_checks
from tests.support.check_cases import matrix
from tests.support.faulty_machines import MACHINES
from tests.support.machines import change, no_gpu_machine, nvidia_machine, torch, with_environment

MATRIX = Matrix(Tables(version="test"))


def finding(slug: str, id: str, severity: str = "error", supersedes: tuple[str, ...] = ()) -> Finding:
    return Finding(severity=severity, message=slug, slug=slug, id=id, supersedes=supersedes)  # type: ignore[arg-type]


def judged(*verdicts: Finding | NotJudged | Exception, **options):
    def as_check(number: int, verdict: Finding | NotJudged | Exception) -> Check:
        def function(case):
            if isinstance(verdict, Exception):
                raise verdict
            yield verdict

        slug = verdict.slug if isinstance(verdict, Finding) else f"question-{number}"
        id = verdict.id if isinstance(verdict, Finding) else f"GPD10{number}"
        return Check(id=id, slug=slug, layer="framework", function=function)

    suite = Suite(as_check(number, verdict) for number, verdict in enumerate(verdicts))
    return judge(no_gpu_machine(), MATRIX, suite, **options)


def test_findings_go_by_severity_then_from_the_metal_up():
    found = in_order([finding("b", "GPD402"), finding("note", "GPD101", "note"), finding("a", "GPD119")])
    assert [f.slug for f in found] == ["a", "b", "note"]


def test_a_cause_comes_before_its_effects_whatever_its_layer():
    found = in_order(
        [finding("driver-too-old", "GPD301"), finding("torch", "GPD403", supersedes=("driver-too-old",))]
    )
    assert [f.slug for f in found] == ["torch", "driver-too-old"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3), st.integers(100, 499)),
        max_size=8,
    )
)
def test_ordering_loses_nothing_even_if_findings_supersede_each_other(rows):
    given_findings = [finding(slug, f"GPD{n}", supersedes=tuple(supersedes)) for slug, supersedes, n in rows]
    assert sorted(f.id for f in in_order(given_findings)) == sorted(f.id for f in given_findings)


@pytest.mark.parametrize(
    ("verdict", "fail_on", "code"),
    [
        ("ok", "error", 0), ("warning", "error", 0), ("error", "error", 1), ("unknown", "error", 3),
        ("warning", "warning", 1), ("error", "never", 0), ("unknown", "never", 0), ("unknown", "warning", 3),
    ],
)  # fmt: skip
def test_exit_codes(verdict, fail_on, code):
    assert exit_code(verdict, fail_on) == code


def test_an_open_question_that_matters_makes_the_verdict_unknown():
    warning = finding("w", "GPD499", "warning")
    assert judged(warning, NotJudged("no access", matters=True)).verdict == "unknown"
    assert judged(warning, NotJudged("no access", matters=False)).verdict == "warning"


def test_an_error_is_an_error_even_with_open_questions():
    assert judged(finding("e", "GPD499"), NotJudged("?", matters=True)).verdict == "error"


@pytest.mark.parametrize("name", ["GPD499", "gpd499", "broken", "GPD4"])
def test_ignored_findings_leave_the_verdict_and_are_told_with_their_reason(name):
    result = judged(finding("broken", "GPD499"), ignore={name: "old cluster"})
    assert result.verdict == "ok"
    assert [(i.id, i.why) for i in result.ignored] == [("GPD499", "old cluster")]


def test_ignoring_a_check_ignores_its_open_question_too():
    assert judged(NotJudged("?", matters=True), ignore={"GPD100": ""}).verdict == "ok"


def test_select_runs_only_what_was_selected():
    result = judged(finding("a", "GPD100"), finding("b", "GPD499"), select=("b",))
    assert [f.slug for f in result.findings] == ["b"]


def test_a_rule_that_names_no_check_is_bad_input():
    with pytest.raises(InputError, match="torch-missin"):
        judged(finding("torch-missing", "GPD401"), ignore={"torch-missin": ""})


def test_a_check_that_crashes_is_one_finding_and_the_rest_goes_on():
    result = judged(ZeroDivisionError("division by zero"), finding("a", "GPD499", "note"))
    assert [f.slug for f in result.findings] == ["check-crashed", "a"]
    assert "division by zero" in result.findings[0].saw
    assert result.verdict == "unknown"


@pytest.mark.parametrize("slug", MACHINES)
def test_a_check_that_a_machine_does_not_concern_could_say_nothing(slug: str) -> None:
    """Its module is not even imported: a container does not wait for it."""
    faulty = MACHINES[slug]
    for machine in (faulty, with_environment(faulty, torch=absent("site-packages")), change(faulty, smoke=None)):
        case = Situation(machine, matrix())
        concerned = machine_checks().concerned(case)
        left_out = [check for check in machine_checks() if check not in concerned]
        assert [check.slug for check in left_out if check.run(case) != ((), ())] == []


def test_a_driver_that_lost_its_only_gpu_is_heard_without_one() -> None:
    """The bus no longer lists it."""
    machine = no_gpu_machine()
    lost = change(machine, nvidia=change(machine.nvidia, nvml=known(NvidiaApi(status=15), "NVML")))
    assert "gpu-off-bus" in {found.slug for found in judge(lost, matrix(), machine_checks()).findings}


def test_files_of_checks_without_anything_to_look_at_are_not_imported() -> None:
    program = (
        "import sys\n"
        "from gpudoctor.engine import judge\n"
        "from gpudoctor.matrix.load import load_matrix\n"
        "from gpudoctor.suites import machine_checks\n"
        "from gpudoctor.testing import nvidia_gpu, nvidia_machine, torch\n"
        "machine = nvidia_machine(nvidia_gpu('NVIDIA GeForce RTX 5090', 'sm_120'), torch=torch('2.6.0+cu124'))\n"
        "assert judge(machine, load_matrix(), machine_checks(), foresee=False).findings\n"
        "print(*(name.removeprefix('gpudoctor.checks.') for name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    imported = set(done.stdout.split())
    assert {"driver.no_driver", "driver.gpu_hardware", "packages.unmet_dependencies"} <= imported
    late = {"driver.wsl", "framework.rocm_coverage", "gpudoctor.requirement", "smoke.failed_kernels"}
    assert not late & imported


def test_without_a_usable_gpu_code_for_one_is_not_judged() -> None:
    """The file of these checks brings all that chooses a build and a driver: a sixth of all that a start imports."""
    built = Extension(package="flash-attn", version="2.8.3", path="/v/flash_attn.so", sass=("sm_80",), of_torch=True)
    machine = with_environment(nvidia_machine(torch=torch("2.6.0+cu124")), extensions=(built,))
    judged = {"ext-built-without-gpu-arch", "framework-cuda-libs-missing", "extension-torch-mismatch"}
    for usable, asked in ((machine, judged), (change(machine, gpus=()), {"extension-torch-mismatch"})):
        concerned = {check.slug for check in machine_checks().concerned(Situation(usable, matrix()))}
        assert concerned & judged == asked


@pytest.mark.parametrize("layer", ["driver", "access", "runtime", "framework", "packages", "smoke", "gpudoctor"])
def test_what_files_need_names_files_that_hold_checks(layer: str) -> None:
    package = import_module(f"gpudoctor.checks.{layer}")
    for file in package.NEEDS:
        module = import_module(f"{package.__name__}.{file}")
        assert any(isinstance(value, Check) for value in vars(module).values()), file


def test_a_machine_without_torch_is_asked_little_of_torch() -> None:
    asked = {check.slug for check in machine_checks().concerned(Situation(no_gpu_machine(), matrix()))}
    left_out = {check.slug for check in machine_checks()} - asked
    assert {"torch-no-arch-for-gpu", "torch-rocm-no-arch-for-gpu", "gpu-slow", "requirement-not-met"} <= left_out
    assert not {"torch-missing", "no-gpu"} & left_out


# --- fallbacks -----------------------------------------------------------------------------------------


def said(slug: str, layer: str, severity: str = "error", id: str = "GPD100", **parts) -> Finding:
    return Finding(severity=severity, message=slug, slug=slug, id=id, layer=layer, **parts)  # type: ignore[arg-type]


FALLBACK = said("no-gpu", "driver", id="GPD101", fallback=True)


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        (said("nouveau-conflict", "driver"), False),
        (said("gpu-device-permission", "access"), False),
        (said("nvml-not-answering", "driver", "warning"), True),
        (said("torch-import-fails", "framework", supersedes=("no-gpu",)), True),
        (said("cuda-visible-devices", "access", "note", supersedes=("no-gpu",)), False),
        (said("libcuda-stub", "runtime", supersedes=("no-gpu",)), False),
        (said("driver-too-old", "runtime"), True),
    ],
)
def test_a_fallback_goes_where_a_deeper_cause_was_found(other: Finding, stays: bool) -> None:
    question = NotJudged("whether it starts", matters=True, fallback=True, id="GPD119", slug="no-gpu")
    findings, questions = drop_fallbacks([FALLBACK, other], [question])
    assert (FALLBACK in findings) is stays is bool(questions)
    assert other in findings


def test_of_two_fallbacks_the_one_that_is_superseded_goes() -> None:
    deeper = said("no-driver", "driver", id="GPD119", fallback=True, supersedes=("no-gpu",))
    assert drop_fallbacks([FALLBACK, deeper], [])[0] == [deeper]


@pytest.mark.parametrize("select", [(), ("no-gpu",)])
def test_every_check_that_concerns_a_machine_runs_once(
    monkeypatch: pytest.MonkeyPatch, select: tuple[str, ...]
) -> None:
    """What is selected decides what is told: the cause of it may lie in what is not."""
    ran: Counter[str] = Counter()
    whole = Check.run

    def counted(check: Check, case: Situation):
        ran[check.slug] += 1
        return whole(check, case)

    monkeypatch.setattr(Check, "run", counted)
    machine = no_gpu_machine(torch=torch())
    found = judge(machine, matrix(), machine_checks(), select=select, required=(parse("gpu>=1"),))
    assert set(ran.values()) == {1}
    assert [finding.slug for finding in found.findings if finding.severity == "error"] == ["no-gpu"]


def test_what_a_finding_supersedes_is_a_slug_of_a_check() -> None:
    known = {check.slug for check in machine_checks()}
    for slug in MACHINES:
        for finding in judge(MACHINES[slug], matrix(), machine_checks()).findings:
            assert set(finding.supersedes) <= known, finding.slug


def test_a_problem_that_is_named_for_its_cause_lies_where_the_cause_does() -> None:
    """A kernel that fails because of the driver is mended, and waited for, as the driver is."""
    driver = Check(id="GPD301", slug="driver-too-old", layer="runtime", function=lambda case: ())
    kernel = Check(
        id="GPD502", slug="smoke-crash", layer="smoke", function=lambda case: [said("driver-too-old", "smoke")]
    )
    (found,) = judge(no_gpu_machine(), MATRIX, Suite((driver, kernel))).findings
    assert (found.id, found.layer) == ("GPD301", "runtime")
