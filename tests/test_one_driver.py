"""One NVIDIA driver serves a whole machine: what is proposed serves every GPU, or the words say that none does."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from gpudoctor.finding import InstallDriver, Manual, ReplaceTorch
from gpudoctor.machine import Gpu, LoadPath, Machine, NvmlDevice, absent, known
from gpudoctor.matrix.load import load_matrix
from gpudoctor.recommend import recommend
from gpudoctor.situation import Situation
from gpudoctor.situation.driver_choice import choose_gpus, driver_to_install, gpus_to_drive, install_driver
from gpudoctor.situation.nvidia_driver import cuda_driver, refusal
from tests.support.judging import finding, judged, told
from tests.support.machines import amd_gpu, change, nvidia_gpu, nvidia_machine, torch, with_stack

MATRIX = load_matrix()

GPUS = {
    "GTX 580": nvidia_gpu("NVIDIA GeForce GTX 580", "sm_20", chip="GF110"),
    "GT 710": nvidia_gpu("NVIDIA GeForce GT 710", "sm_35", chip="GK208"),
    "K80": nvidia_gpu("Tesla K80", "sm_37", chip="GK210"),
    "GTX 980": nvidia_gpu("NVIDIA GeForce GTX 980", "sm_52", chip="GM204"),
    "1080 Ti": nvidia_gpu("NVIDIA GeForce GTX 1080 Ti", "sm_61", chip="GP102"),
    "V100": nvidia_gpu("Tesla V100-PCIE-16GB", "sm_70", chip="GV100"),
    "2080": nvidia_gpu("NVIDIA GeForce RTX 2080", "sm_75", chip="TU104"),
    "A100": nvidia_gpu("NVIDIA A100-PCIE-40GB", "sm_80", chip="GA100"),
    "3090": nvidia_gpu("NVIDIA GeForce RTX 3090", "sm_86", chip="GA102"),
    "4090": nvidia_gpu("NVIDIA GeForce RTX 4090", "sm_89", chip="AD102"),
    "4060": nvidia_gpu("NVIDIA GeForce RTX 4060", "sm_89", chip="AD107"),
    "H100": nvidia_gpu("NVIDIA H100 PCIe", "sm_90", chip="GH100"),
    "GH200": nvidia_gpu("NVIDIA GH200 480GB", "sm_90", chip="GH100"),
    "B200": nvidia_gpu("NVIDIA B200", "sm_100", chip="GB100"),
    "5090": nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", chip="GB202"),
    "5060": nvidia_gpu("NVIDIA GeForce RTX 5060", "sm_120", chip="GB206"),
}
PAIRS = list(combinations(GPUS, 2))

# What NVIDIA says: last branches and kernel-module flavours, by a GPU's place in the list above.
NO_BUILD = {"GTX 580", "GT 710"}
ONLY_PROPRIETARY = {"GTX 580", "GT 710", "K80", "GTX 980", "1080 Ti", "V100"}
ONLY_OPEN = {"GH200", "B200", "5090", "5060"}
LAST = {"GTX 580": 390, "GT 710": 470, "K80": 470, "GTX 980": 580, "1080 Ti": 580, "V100": 580}
FIRST = {"2080": 410, "A100": 450, "3090": 455, "4090": 520, "4060": 520, "H100": 520, "GH200": 520}
FIRST |= {"B200": 570, "5090": 570, "5060": 570}

GENERATIONS = list(combinations(["GT 710", "K80", "1080 Ti", "4090", "GH200", "5090"], 2))
DRIVERS = [
    ("", "open"),
    ("470.239.06", "proprietary"),
    ("535.183.01", "open"),
    ("580.95.05", "open"),
    ("580.95.05", "proprietary"),
    ("595.71.05", "open"),
    ("595.71.05", "proprietary"),
]


def box(*names: str, driver: str = "580.95.05", flavour: str = "open", kept: str = "2.9.1+cpu") -> Machine:
    gpus = [
        change(GPUS[name], index=index, bdf=f"0000:{index + 1:02x}:00.0", nodes=(f"/dev/nvidia{index}",))
        for index, name in enumerate(names)
    ]
    machine = nvidia_machine(*gpus, driver=driver, flavour=flavour, torch=torch(kept))
    if driver:
        return machine
    bare = change(machine, load_path=LoadPath(), gpus=tuple(change(gpu, driver=absent("/sys")) for gpu in gpus))
    return with_stack(bare, module=absent("/proc"), userland=absent("/usr/lib"), modules_loaded=known((), "/proc"))


def serves(driver: InstallDriver, name: str) -> bool:
    refused = {"open": ONLY_PROPRIETARY, "proprietary": ONLY_OPEN}[driver.flavour]
    return name not in refused and FIRST.get(name, 0) <= int(driver.branch) <= LAST.get(name, 999)


def short(gpu: Gpu) -> str:
    return next(name for name, known in GPUS.items() if known.name == gpu.name)


@pytest.mark.parametrize("names", PAIRS, ids=" + ".join)
def test_the_driver_of_a_pair_serves_both_or_there_is_none(names: tuple[str, str]) -> None:
    machine = box(*names)
    found = driver_to_install(Situation(machine, MATRIX), machine.gpus)
    one, other = names
    if {one, other} <= NO_BUILD:
        install = install_driver(Situation(machine, MATRIX), machine.gpus)
        assert found is None and "CPU" in install.title
        return
    first = max(FIRST.get(one, 0), FIRST.get(other, 0))
    together = first <= min(LAST.get(one, 999), LAST.get(other, 999))
    flavours = not ({one, other} & ONLY_OPEN and {one, other} & ONLY_PROPRIETARY)
    assert (found is not None) == (together and flavours)
    fix = choose_gpus(Situation(machine, MATRIX), machine.gpus)
    if found:
        assert serves(found, one) and serves(found, other) and fix is None
    else:
        assert fix
        (words,) = fix.remedies
        assert isinstance(words, Manual)
        assert GPUS[one].name in words.text and GPUS[other].name in words.text
        assert "another machine" in words.text and "virtual machine" in words.text


@pytest.mark.parametrize(("driver", "flavour"), DRIVERS)
def test_no_step_puts_a_gpu_that_torch_could_use_out_of_service_and_recommend_agrees(
    driver: str, flavour: str
) -> None:
    for names in GENERATIONS:
        machine = box(*names, driver=driver, flavour=flavour)
        meant = [short(gpu) for gpu in gpus_to_drive(Situation(machine, MATRIX))]
        fixes = [(found, fix) for found in judged(machine).findings for fix in found.fixes]
        drivers = [(found, step) for found, fix in fixes for step in fix.remedies if isinstance(step, InstallDriver)]
        assert all(serves(step, name) for (_, step), name in product(drivers, meant)), (names, drivers)
        needed = {(step.branch, step.flavour) for found, step in drivers if found.severity == "error"}
        assert len(needed) <= 1, (names, drivers)

        answer = recommend(Situation(machine, MATRIX))
        proposed = {f"{choice.torch}+{choice.build}" for choice in answer.choices}
        after = " ".join(str(planned.steps) for planned in answer.otherwise)
        chosen = [fix.remedies for found, fix in fixes if found.slug == "torch-cpu-only"][:1]
        for torch_step in (step for steps in chosen for step in steps if isinstance(step, ReplaceTorch)):
            wheel = f"{torch_step.version}+{torch_step.build}"
            assert wheel in proposed or f"torch=={wheel}" in after, (names, wheel, proposed, after)


@pytest.mark.parametrize(
    ("names", "driver", "flavour", "branch", "modules"),
    [
        (("1080 Ti", "4090"), "595.71.05", "open", "580", "proprietary"),
        (("GTX 980", "2080"), "595.71.05", "open", "580", "proprietary"),
        (("V100", "H100"), "580.95.05", "open", "580", "proprietary"),
        (("K80", "A100"), "580.95.05", "open", "470", "proprietary"),
        (("2080", "5090"), "580.95.05", "proprietary", "580", "open"),
        (("4090", "5090"), "595.71.05", "proprietary", "595", "open"),
        (("2080", "5090"), "470.239.06", "proprietary", "580", "open"),
    ],
)
def test_mixtures_that_one_driver_serves(
    names: tuple[str, str], driver: str, flavour: str, branch: str, modules: str
) -> None:
    machine = box(*names, driver=driver, flavour=flavour)
    found = driver_to_install(Situation(machine, MATRIX))
    assert found and (found.branch, found.flavour) == (branch, modules)


def test_the_driver_that_is_there_stays_for_the_gpus_that_it_serves() -> None:
    dropped = finding(box("1080 Ti", "5090", driver="595.71.05"), "nvidia-driver-dropped-gpu")
    assert "one driver cannot support both" in dropped.message
    (fix,) = dropped.fixes
    (words,) = fix.remedies
    assert isinstance(words, Manual)
    assert "Driver 595.71.05 (open kernel modules) supports NVIDIA GeForce RTX 5090: keep it" in words.text
    refused = finding(box("1080 Ti", "5090", driver="580.95.05", flavour="proprietary"), "blackwell-open-module")
    ((words,),) = (fix.remedies for fix in refused.fixes)
    assert isinstance(words, Manual)
    assert "supports NVIDIA GeForce GTX 1080 Ti: keep it" in words.text
    assert "580 (open kernel modules) supports NVIDIA GeForce RTX 5090" in words.text


def test_a_gpu_that_a_variable_hides_is_driven_all_the_same() -> None:
    machine = box("1080 Ti", "5090", driver="595.71.05")
    hidden = change(machine, variables={"CUDA_VISIBLE_DEVICES": "1"})
    assert driver_to_install(Situation(hidden, MATRIX)) is None
    assert choose_gpus(Situation(hidden, MATRIX))


def test_what_another_driver_has_does_not_count() -> None:
    machine = box("1080 Ti", "5090", driver="595.71.05")
    pascal, blackwell = machine.gpus
    lent = change(machine, gpus=(pascal, change(blackwell, driver=known("vfio-pci", "/sys"))))
    found = driver_to_install(Situation(lent, MATRIX))
    assert found and (found.branch, found.flavour) == ("580", "proprietary")
    beside = change(machine, gpus=(pascal, amd_gpu()))
    found = driver_to_install(Situation(beside, MATRIX))
    assert found and (found.branch, found.flavour) == ("580", "proprietary")


def test_a_gpu_without_any_torch_does_not_hold_back_the_others_and_is_named() -> None:
    machine = box("GT 710", "4090", driver="470.239.06", flavour="proprietary")
    (fix,) = finding(machine, "driver-too-old").fixes
    install = fix.remedies[0]
    assert isinstance(install, InstallDriver)
    assert (install.branch, install.flavour) == ("580", "open")
    assert "GT 710" in install.why


def test_a_working_gpu_is_never_refused() -> None:
    machine = box("5090", driver="595.71.05", flavour="proprietary")
    assert refusal(Situation(machine, MATRIX), machine.gpus[0]) == "blackwell-open-module"
    listed = change(machine.gpus[0], nvml=NvmlDevice(index=0, name="NVIDIA GeForce RTX 5090"))
    assert refusal(Situation(machine, MATRIX), listed) is None


def test_without_a_driver_both_plans_are_for_the_one_to_come() -> None:
    machine = box("1080 Ti", "4090", driver="")
    assert cuda_driver(machine) is None
    assert "no-driver" in dict(told(machine))
    answer = recommend(Situation(machine, MATRIX))
    assert answer.choices[0].build == "cu126"
    assert any("580 (proprietary kernel modules)" in note for note in answer.notes)
