"""Whether the command may start: what refuses, what is waited for, which variables are set."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gpudoctor.finding import NotJudged
from gpudoctor.machine import Level, Machine, NvidiaApi, known, unknown
from gpudoctor.preflight.gate import Gate, Passage, Rules
from gpudoctor.requirement import parse
from gpudoctor.survey import Survey
from tests.support.check_cases import matrix
from tests.support.machines import amd_gpu, amd_machine, no_gpu_machine, nvidia_gpu, nvidia_machine, torch

HEALTHY = nvidia_machine(nvidia_gpu(), driver="580.95.05", torch=torch())
LATE = no_gpu_machine(torch=torch())
"""A driver that has not come up: nothing is there yet."""
WRONG_BUILD = nvidia_machine(
    nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120"), driver="570.133.07", torch=torch("2.6.0+cu124")
)
UNLISTED = replace(nvidia_machine(torch=None), gpus=(), buses=unknown("the PCI probe crashed"))
RX_6700 = amd_machine(amd_gpu("AMD Radeon RX 6700 XT", "gfx1031"), torch=torch("2.9.1+rocm6.4"))


class Node:
    """Machines one after the other; the last one stays. Remembers the level of each look, and every pause."""

    def __init__(self, *machines: Machine, environ: dict[str, str] | None = None) -> None:
        self.machines = list(machines)
        self.environ = environ if environ is not None else {}
        self.levels: list[Level] = []
        self.pauses: list[float] = []

    def probe(self, level: Level) -> Survey:
        self.levels.append(level)
        machine = self.machines.pop(0) if len(self.machines) > 1 else self.machines[0]
        return Survey(replace(machine, variables={**machine.variables, **self.environ}), (), {})

    def passage(self, wait: float = 0.0, *, required: Sequence[str] = (), **rules: object) -> Passage:
        chosen = Rules(**{"level": "driver", "required": tuple(map(parse, required)), **rules})  # type: ignore[arg-type]
        gate = Gate(self.probe, matrix(), chosen, self.environ)
        return gate.passage(wait, self.pauses.append)


def test_a_healthy_machine_passes_at_the_first_look():
    node = Node(HEALTHY)
    passed = node.passage(60, required=["gpu>=1", "torch>=2.9"])
    assert (passed.code, node.levels, node.pauses) == (0, ["driver"], [])
    assert passed.summary == "ok: NVIDIA GeForce RTX 4090, torch 2.9.1+cu128 in /venv"


def test_a_pass_that_rests_on_cuda_alone_says_so_in_its_line():
    silent = unknown("nvmlInit: gave no answer within 20 s", "libnvidia-ml.so.1")
    starts = known(NvidiaApi(status=0, devices=()), "libcuda.so.1")
    nvidia = replace(HEALTHY.nvidia, nvml=silent, cuda=starts)
    passed = Node(replace(HEALTHY, nvidia=nvidia, level="driver")).passage()
    assert passed.code == 0
    assert passed.summary.startswith("warning (nvml-not-answering): NVIDIA GeForce RTX 4090")


def test_a_driver_that_comes_up_is_waited_for_by_files_alone():
    node = Node(LATE, LATE, LATE, HEALTHY)
    assert node.passage(60).code == 0
    assert node.levels == ["driver", "static", "static", "static", "driver"]
    assert node.pauses == sorted(node.pauses)


def test_requirements_of_gpus_are_waited_for_too():
    node = Node(HEALTHY, nvidia_machine(nvidia_gpu(), nvidia_gpu(index=1), driver="580.95.05", torch=torch()))
    assert node.passage(60, required=["gpu>=2"]).code == 0


@pytest.mark.parametrize(
    ("machine", "required"),
    [(WRONG_BUILD, ""), (HEALTHY, "torch>=3"), (HEALTHY, "shm>=900GiB"), (replace(LATE, gpus=()), "torch>=3")],
)
def test_what_lies_in_the_image_is_not_waited_for(machine: Machine, required: str):
    node = Node(machine)
    assert node.passage(60, required=[required] if required else []).code == 1
    assert node.pauses == []


def test_the_last_look_is_a_whole_one_and_comes_when_the_time_is_over():
    from gpudoctor.preflight import gate

    clock = iter(range(1000))
    node = Node(LATE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gate.time, "monotonic", lambda: float(next(clock)))
        passed = node.passage(5)
    assert passed.code == 1
    assert sum(node.pauses) <= 5
    assert node.levels[-1] == "driver", "what is told was seen at the level that was asked for"
    assert len(node.levels) == 1 + len(node.pauses), "never longer than the wait and one look"


def test_variables_that_repair_an_error_are_set_proved_and_told():
    environ: dict[str, str] = {}
    node = Node(RX_6700, environ=environ)
    assert node.passage().code == 1
    passed = node.passage(set_env=True)
    assert passed.code == 0
    assert environ == {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"} == passed.variables
    assert "HSA_OVERRIDE_GFX_VERSION=10.3.0" in passed.summary
    assert len(node.levels) == 3, "looked at again under the variables"


def test_variables_are_taken_back_where_they_do_not_help():
    environ = {"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}
    node = Node(RX_6700, environ=environ)
    passed = node.passage(set_env=True, required=["gpu>=8"])
    assert passed.code == 1
    assert environ == {"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}
    assert passed.variables == {}


def test_a_repair_that_is_more_than_variables_is_left_alone():
    node = Node(WRONG_BUILD)
    passed = node.passage(set_env=True)
    assert (passed.code, passed.variables, node.levels) == (1, {}, ["driver"])


@pytest.mark.parametrize(("fail_on", "code"), [("error", 1), ("warning", 1), ("never", 0)])
def test_what_refuses_can_be_chosen(fail_on: str, code: int):
    assert Node(WRONG_BUILD).passage(fail_on=fail_on).code == code


def test_a_probe_that_crashed_refuses_unless_that_is_ignored():
    """As in a Slurm prolog: the node is not at fault. What is required still has to be known."""
    crashed = NotJudged(id="GPD902", why="the python probe crashed", matters=True)
    rules = {"select": ("GPD1", "GPD2"), "required": tuple(map(parse, ["gpu>=1"]))}
    for machine, ignore, code in (
        (HEALTHY, {}, 3),
        (HEALTHY, {"GPD902": "ours"}, 0),
        (UNLISTED, {"GPD902": "ours"}, 3),
    ):
        survey = Survey(machine, (crashed,), {})
        gate = Gate(lambda level, survey=survey: survey, matrix(), Rules(level="static", ignore=ignore, **rules), {})
        assert gate.passage().code == code


def test_what_is_required_is_judged_whatever_is_selected():
    assert Node(HEALTHY).passage(select=("GPD1", "GPD2"), required=["gpu>=2"]).code == 1
    assert Node(WRONG_BUILD).passage(select=("GPD1", "GPD2")).code == 0, "a wrong image never drains a node"


@pytest.mark.parametrize(
    ("machine", "required", "slug"),
    [
        (no_gpu_machine(), ["gpu>=1", "sm>=8.0"], "no-gpu"),
        (no_gpu_machine(), ["torch>=2.6", "torch.cuda>=12"], "torch-missing"),
        (LATE, ["gpu>=1"], "no-gpu"),
        (nvidia_machine(nvidia_gpu(), driver="580.95.05", torch=None), ["torch>=2"], "torch-missing"),
    ],
)
def test_what_is_required_and_not_there_is_one_error_with_its_cause(machine: Machine, required: list[str], slug: str):
    errors = [f for f in Node(machine).passage(required=required).judgement.findings if f.severity == "error"]
    assert [finding.slug for finding in errors] == [slug]
    assert errors[0].fixes


def test_a_requirement_of_less_than_is_there_stands_for_itself():
    (finding,) = Node(HEALTHY).passage(required=["gpu>=2"]).judgement.findings
    assert (finding.slug, finding.saw, finding.want) == ("requirement-not-met", "1 usable GPU", "gpu>=2")


def test_no_gpu_and_no_torch_are_notes_where_nothing_requires_them():
    judgement = Node(no_gpu_machine()).passage().judgement
    assert {(f.slug, f.severity) for f in judgement.findings} == {("no-gpu", "note"), ("torch-missing", "note")}
