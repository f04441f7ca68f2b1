"""One situation: what checks, builds and `recommend` are told by the same question is the same answer."""

from __future__ import annotations

from itertools import product

import pytest

from gpudoctor.finding import ReplaceTorch
from gpudoctor.frameworks.torch import builds
from gpudoctor.frameworks.torch.coverage import carries
from gpudoctor.machine import AmdStack, Gpu, InstalledModule, LoadPath, Machine, NvidiaStack, absent, known
from gpudoctor.matrix.load import load_matrix
from gpudoctor.recommend import recommend
from gpudoctor.situation import Situation, answer_once
from gpudoctor.situation.driver_choice import driver_to_install
from gpudoctor.situation.nvidia_driver import refusal
from gpudoctor.suites import machine_checks
from tests.support.faulty_machines import MACHINES
from tests.support.judging import judged
from tests.support.machines import amd_gpu, amd_machine, change, nvidia_gpu, nvidia_machine, torch, with_stack

MATRIX = load_matrix()
GPUS = {
    "1080 Ti": nvidia_gpu("NVIDIA GeForce GTX 1080 Ti", "sm_61", chip="GP102"),
    "4090": nvidia_gpu("NVIDIA GeForce RTX 4090", "sm_89", chip="AD102"),
    "5090": nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", chip="GB202"),
}
WORDS = {
    "nvidia-driver-dropped-gpu": ("no longer supports", "has dropped"),
    "blackwell-open-module": ("needs NVIDIA's open kernel modules", "has proprietary kernel modules"),
    "open-module-unsupported-gpu": ("is too old for NVIDIA's open kernel modules", "has open kernel modules"),
}
"""How a check and how `recommend` says that the driver refuses a GPU."""


def installed(gpu: Gpu, version: str, flavour: str, *, loaded: bool = True) -> Machine:
    """A machine with this driver; where it is not loaded, as after an installation without a reboot."""
    machine = nvidia_machine(gpu, driver=version, flavour=flavour, torch=torch("2.9.1+cu128"))
    module = InstalledModule("nvidia", "6.8.0-60-generic", "/lib/modules/nvidia.ko", version, flavour)  # type: ignore[arg-type]
    if loaded:
        return with_stack(machine, modules_installed=known((module,), "/lib/modules"))
    bare = change(machine, load_path=LoadPath(), gpus=(change(gpu, driver=absent("/sys")),))
    return with_stack(
        bare,
        module=absent("/proc"),
        modules_loaded=known((), "/proc"),
        modules_installed=known((module,), "/lib/modules"),
    )


DRIVERS = {
    f"{name} under {version} {flavour}{'' if loaded else ', not loaded'}": installed(
        gpu, version, flavour, loaded=loaded
    )
    for (name, gpu), version, flavour, loaded in product(
        GPUS.items(), ("535.183.01", "580.95.05", "595.71.05"), ("open", "proprietary"), (True, False)
    )
}


@pytest.mark.parametrize("name", [*MACHINES, *DRIVERS])
def test_checks_and_builds_say_the_same_of_what_the_driver_refuses(name: str) -> None:
    machine = MACHINES.get(name) or DRIVERS[name]
    by_checks = {found.slug for found in judged(machine).findings if found.slug in WORDS}
    notes = " ".join(recommend(Situation(machine, MATRIX)).notes)
    assert {slug for slug, (_, words) in WORDS.items() if words in notes} == by_checks


def test_a_driver_that_is_installed_and_not_loaded_refuses_as_it_will_when_loaded() -> None:
    machine = installed(GPUS["5090"], "580.95.05", "proprietary", loaded=False)
    situation = Situation(machine, MATRIX)
    assert refusal(situation, machine.gpus[0]) == "blackwell-open-module"
    chosen = driver_to_install(situation)
    assert chosen and (chosen.branch, chosen.flavour) == ("580", "open")


@pytest.mark.parametrize(
    ("build", "target"), [("cu128", "nvidia"), ("rocm6.4", "amd"), ("cpu", "cpu"), ("xpu", None), ("", None)]
)
@pytest.mark.parametrize("by_name_alone", [True, False])
def test_checks_and_builds_agree_on_whose_gpus_torch_is_built_for(
    build: str, target: str | None, by_name_alone: bool
) -> None:
    patient = torch(f"2.9.1+{build}" if build else "2.9.1")
    if by_name_alone:
        patient = change(patient, cuda=None, hip=None, rocm=None)
    for machine in (nvidia_machine(torch=patient), amd_machine(torch=patient)):
        situation, gpu = Situation(machine, MATRIX), machine.gpus[0]
        assert situation.torch_target == target
        assert situation.built_for == (None if target == "cpu" else target)
        rule = carries(situation, gpu).rule
        assert (rule == "cpu-build") == (target == "cpu")
        assert (rule == "other-vendor") == (target in ("nvidia", "amd") and target != gpu.vendor)


# --- a GPU's key --------------------------------------------------------------------------------------


def test_gpus_have_keys_of_their_own_whatever_is_known_of_them() -> None:
    addressed, unknown_ = nvidia_gpu(), nvidia_gpu(bdf=None)
    nameless = change(nvidia_gpu(bdf=None), index=None, nodes=())
    for gpus in (
        (nameless,) * 8,
        (addressed,) * 2,
        (unknown_, change(unknown_, index=1)),
        (addressed, unknown_, nameless, amd_gpu(bdf=None), amd_gpu(bdf=None, kfd_node=None), amd_gpu()),
    ):
        machine = Machine(gpus=gpus)
        assert len({gpu.key for gpu in machine.gpus}) == len(set(machine.gpus)) == len(gpus)


def test_a_gpu_keeps_its_key_when_more_is_read_of_the_machine() -> None:
    machine = Machine(gpus=(change(nvidia_gpu(bdf=None), index=None),) * 3)
    later = change(machine, level="driver", gpus=tuple(change(gpu, memory=absent("x")) for gpu in machine.gpus))
    assert [gpu.key for gpu in later.gpus] == [gpu.key for gpu in machine.gpus]
    assert len({gpu.key for gpu in change(machine, gpus=machine.gpus[1:]).gpus}) == 2


def test_of_eight_equal_gpus_without_addresses_one_can_be_chosen() -> None:
    gpus = (change(nvidia_gpu(bdf=None, uuid=""), index=None, nodes=()),) * 8
    machine = change(nvidia_machine(*gpus), variables={"CUDA_VISIBLE_DEVICES": "3"})
    situation = Situation(machine, MATRIX)
    assert [standing.selected for standing in situation.standings].count("yes") == 1
    assert situation.usable == (machine.gpus[3],)


# --- answers that are kept ------------------------------------------------------------------------------


def test_a_question_is_worked_out_once_and_anew_on_a_changed_machine() -> None:
    asked = []

    @answer_once
    def question(situation: Situation, gpu: Gpu | None = None) -> int:
        asked.append(gpu)
        return len(situation.machine.gpus)

    situation = Situation(nvidia_machine(), MATRIX)
    assert [question(situation), question(situation), question(situation, None)] == [1, 1, 1]
    assert question(situation, situation.machine.gpus[0]) == 1
    assert question(situation.on(Machine())) == 0
    assert len(asked) == 4  # also with the default said: another way of asking


def test_the_builds_are_weighed_once_for_all_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpudoctor.frameworks.torch import candidates as module

    weighed = []
    original = module._assess

    def assess(bench: object, row: object, python: object) -> object:
        weighed.append(row)
        return original(bench, row, python)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_assess", assess)
    machine = nvidia_machine(GPUS["5090"], torch=torch("2.6.0+cu124"))
    situation = Situation(machine, MATRIX)
    first = builds.replacements(situation, machine.gpus, keep=machine.torch)
    assert isinstance(first[0].remedies[0], ReplaceTorch)
    assert weighed
    weighed.clear()
    assert builds.replacements(situation, machine.gpus, keep=machine.torch) == first
    assert builds.candidates(situation, machine.gpus)[0]
    assert not weighed


NOT_ASKED = ("program-variable",)
"""Without a usable GPU it does not matter what programs are told about theirs."""


def parts_missing(machine: Machine) -> dict[str, Machine]:
    """The machine, and the same without what its other problems rest on: no GPU, no torch, nothing of the driver."""
    environment = machine.environment.value
    without_torch = environment and change(
        machine, environment=known(environment.with_torch(absent("/venv")), "/venv")
    )
    return {
        "": machine,
        " without GPUs": change(machine, gpus=()),
        " without a driver": change(machine, gpus=(), nvidia=NvidiaStack(), amd=AmdStack()),
        **({" without torch": without_torch} if without_torch else {}),
    }


@pytest.mark.parametrize("slug", MACHINES)
def test_a_check_whose_need_is_missing_could_have_said_nothing(slug: str) -> None:
    suite = machine_checks()
    for name, machine in parts_missing(MACHINES[slug]).items():
        situation = Situation(machine, MATRIX)
        concerned = suite.concerned(situation)
        for check in suite:
            if check not in concerned and check.slug not in NOT_ASKED:
                assert check.run(situation) == ((), ()), f"{slug}{name}: {check.slug}"
