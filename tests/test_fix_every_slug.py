"""Whatever a check finds has a way out that can be followed: steps for every slug, builds that exist."""

from __future__ import annotations

import re

import pytest

from gpudoctor import isa
from gpudoctor.engine import judge
from gpudoctor.finding import AnyRemedy, Finding, ReplacePackage, ReplaceTorch, SetVariable
from gpudoctor.machine import Machine, known
from gpudoctor.matrix.rows import TorchBuild
from gpudoctor.planner.plan import fixes_for
from gpudoctor.situation import Situation
from gpudoctor.step import EnvStep, ManualStep, RunStep
from gpudoctor.suites import machine_checks
from tests.support.check_cases import matrix
from tests.support.faulty_machines import MACHINES
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
    with_system,
)

ONLY_OPEN_QUESTIONS = {"smoke-not-run", "gpu-busy-or-exclusive", "log-fault-described"}
ONLY_WHERE_REQUIRED = {"requirement-not-met"}
ONLY_IN_TEXTS = {
    "text-incomplete", "text-contradictory", "text-of-several-machines", "text-from-another-system",
    "circumstance-told",
}  # fmt: skip
UNDER_ANOTHER_NAME = {"framework-library-too-old", "framework-libraries-not-found", "framework-computes-wrong"}
"""Their findings name the cause: cudnn-mismatch, smoke-wrong-result."""
NOTHING_TO_DO = re.compile(r"nothing (to fix|needs to be done|is changed)|changes nothing", re.IGNORECASE)
CHECKS = {check.slug: check for check in machine_checks()}


def test_a_machine_for_every_check() -> None:
    others = ONLY_OPEN_QUESTIONS | ONLY_WHERE_REQUIRED | ONLY_IN_TEXTS | UNDER_ANOTHER_NAME
    assert set(CHECKS) == set(MACHINES) | others


def findings(machine: Machine) -> list[Finding]:
    return list(judge(machine, matrix(), machine_checks()).findings)


def safety(slug: str) -> str:
    return CHECKS[slug].explanation.partition("## Fix safety")[2].strip()


@pytest.mark.parametrize("slug", MACHINES)
def test_every_finding_has_a_way_out_or_there_is_nothing_to_do(slug: str) -> None:
    machine = MACHINES[slug]
    own = [finding for finding in findings(machine) if finding.slug == slug]
    assert own, f"this machine does not have {slug}"
    for finding in findings(machine):
        assert finding.fixes or finding.severity == "note" or finding.slug != slug
        assert finding.fixes or finding.slug != slug or NOTHING_TO_DO.search(safety(slug)), safety(slug)
        for one, planned in zip(finding.fixes, fixes_for(finding, Situation(machine, matrix())), strict=True):
            assert planned.title and planned.steps, (finding.slug, one)
            for step in planned.steps:
                assert "by hand: no command is made" not in getattr(step, "text", ""), step
                assert step.text if isinstance(step, ManualStep) else True
                assert step.argv if isinstance(step, RunStep) else True
                assert step.name if isinstance(step, EnvStep) else True


@pytest.mark.parametrize("slug", sorted(ONLY_OPEN_QUESTIONS | ONLY_WHERE_REQUIRED))
def test_what_is_no_fault_says_that_nothing_is_to_be_done(slug: str) -> None:
    assert NOTHING_TO_DO.search(safety(slug))


# --- the builds that are proposed ---------------------------------------------------------------------


def row_of(machine: Machine, remedy: ReplaceTorch) -> TorchBuild | None:
    """The row of the matrix that is this very build, for the platform."""
    platform = f"linux-{machine.system.arch.value}"
    rows = [
        row
        for row in matrix().tables.torch_builds
        if (row.version, row.build, row.origin, row.platform)
        == (remedy.version, remedy.build, remedy.origin, platform)
    ]
    assert len(rows) <= 1
    return rows[0] if rows else None


def served_by(machine: Machine, row: TorchBuild, remedies: tuple[AnyRemedy, ...]) -> list[str]:
    """Architectures of the usable GPUs for which the build has code, by itself or under an override that goes
    with it."""
    override = next((r.value for r in remedies if isinstance(r, SetVariable) and r.name.startswith("HSA_OVERR")), "")
    found = []
    for gpu in Situation(machine, matrix()).usable:
        arch = gpu.arch.value or ""
        if gpu.vendor == "nvidia":
            runs = isa.cuda_runs(arch, row.archs or (), row.ptx or ()).runs
        else:
            shown = "gfx" + override.replace(".", "") if override else arch
            target = matrix().gpus.target(shown)
            runs = isa.gfx_runs(shown, row.archs or (), target.generic if target else ()).runs
        if runs == "yes" and gpu.vendor == ("amd" if row.rocm else "nvidia"):
            found.append(arch)
    return found


def check_builds(machine: Machine, found: list[Finding]) -> int:
    """Every torch that is proposed exists for this Python and platform and carries a GPU. Returns how many."""
    seen = 0
    environment = machine.environment.value
    python = environment.python.value if environment else None
    for finding in found:
        for fix in finding.fixes:
            for remedy in fix.remedies:
                if not isinstance(remedy, ReplaceTorch) or remedy.origin == "conda-forge":
                    continue
                seen += 1
                row = row_of(machine, remedy)
                assert row is not None, (finding.slug, remedy)
                assert not python or python in row.pythons, (finding.slug, python, remedy)
                assert remedy.index_url == matrix().torch.index_url(row)
                if remedy.build != "cpu":
                    assert remedy.extra or served_by(machine, row, fix.remedies), (finding.slug, remedy)
                    wanted = {arch.partition(":")[0] for arch in row.archs or ()}
                    assert all(extra.removeprefix("device-") in wanted for extra in remedy.extra.split(",") if extra)
                companion = matrix().torch.companion(remedy.version)
                for name, version in remedy.companions:
                    assert companion is not None
                    assert version in (getattr(companion, name), "2.11.0"), (remedy, companion)
    return seen


@pytest.mark.parametrize("slug", MACHINES)
def test_torch_that_is_proposed_is_in_the_matrix_and_carries_the_gpu(slug: str) -> None:
    check_builds(MACHINES[slug], findings(MACHINES[slug]))


@pytest.mark.parametrize("python", ["3.9", "3.10", "3.12", "3.13t", "3.14"])
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_on_every_gpu_python_and_platform(python: str, arch: str) -> None:
    capabilities = [row.capability for row in matrix().tables.capabilities if not row.tegra]
    gpus = [f"sm_{capability.replace('.', '')}" for capability in capabilities]
    targets = [row.gfx for row in matrix().tables.gfx_targets]
    machines = [nvidia_machine(nvidia_gpu("A GPU", sm), torch=torch("2.9.1+cpu")) for sm in gpus]
    machines += [amd_machine(amd_gpu("A GPU", gfx), torch=torch("2.9.1+cpu")) for gfx in targets]
    seen = 0
    for gpu in machines:
        placed = with_system(gpu, arch=known(arch, "uname"))
        machine = with_environment(placed, python=known(python, "pyvenv.cfg"))
        seen += check_builds(machine, list(judge(machine, matrix(), machine_checks(), select=("GPD4",)).findings))
    assert seen or python in ("3.9", "3.13t", "3.14")


def packages(slug: str) -> list[ReplacePackage]:
    fixes = [fix for finding in findings(MACHINES[slug]) for fix in finding.fixes]
    return [remedy for fix in fixes for remedy in fix.remedies if isinstance(remedy, ReplacePackage)]


@pytest.mark.parametrize("slug", MACHINES)
def test_a_companion_that_is_proposed_belongs_to_the_torch_that_is_there(slug: str) -> None:
    patient = MACHINES[slug].torch
    for remedy in packages(slug):
        if remedy.name in ("torchvision", "torchaudio") and patient and patient.version:
            companion = matrix().torch.companion(patient.version)
            assert companion is not None
            assert remedy.specifier in (f"=={getattr(companion, remedy.name)}", "==2.11.0")
            assert not remedy.local or remedy.index_url.rstrip("/").endswith(remedy.local)
