"""Requirements: what is read from a text, and what holds on which machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudoctor.command_line.project_settings import Settings, requirements
from gpudoctor.engine import Judgement, judge
from gpudoctor.finding import Fix, InstallDriver, Manual, ReplacePackage, ReplaceTorch
from gpudoctor.machine import DeviceNode, Machine, MigDevice, NvidiaApi, NvmlDevice, absent, known, unknown
from gpudoctor.requirement import FIELDS, RequirementError, parse, split_requirements
from gpudoctor.suites import machine_checks
from tests.support.check_cases import matrix
from tests.support.machines import amd_gpu, amd_machine, nvidia_gpu, nvidia_machine, torch, with_stack

H100 = "NVIDIA H100 80GB HBM3"


def hopper(count: int = 1) -> Machine:
    gpus = tuple(nvidia_gpu(H100, "sm_90", index=n, memory=known(81559 << 20, "nvml")) for n in range(count))
    return nvidia_machine(*gpus, driver="550.54.15", torch=torch("2.6.0+cu124"))


def judged(machine: Machine, *texts: str) -> Judgement:
    return judge(machine, matrix(), machine_checks(), select=["GPD910"], required=[parse(text) for text in texts])


def holds(machine: Machine, text: str) -> bool | None:
    """None: cannot be told."""
    found = judged(machine, text)
    if found.verdict == "unknown":
        return None
    return not found.findings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu>=1", True),
        ("gpu == 8", False),
        ("gpu<=1", True),
        ('gpu.model~="H100"', True),
        ("gpu.model~=h100 80gb", True),
        ("gpu.model==H100", False),
        ("gpu.model in 'NVIDIA A100', NVIDIA H100 80GB HBM3", True),
        ("gpu.model!=NVIDIA L4", True),
        ("gpu.memory>=70GiB", True),
        ("gpu.memory>=80GB", True),
        ("gpu.memory>=80GiB", False),
        ("sm>=8.0", True),
        ("sm==9.0", True),
        ("sm>=10.0", False),
        ("gfx in gfx942,gfx950", False),
        ("driver>=550", True),
        ("driver>=550.54.15", True),
        ("driver>=550.90", False),
        ("driver==550", True),
        ("driver.cuda>=12.4", True),
        ("driver.cuda>=12.8", False),
        ("torch>=2.6", True),
        ("torch==2.6", True),
        ("torch<2.6", False),
        ("torch.cuda>=12.4", True),
        ("torch.cuda>=12.10", False),
        ("shm>=8GiB", True),
        ("shm>=64g", False),
        ("same-model", True),
        ("p2p", True),
    ],
)
def test_on_a_machine_with_one_h100(text: str, expected: bool) -> None:
    assert holds(hopper(), text) is expected


def test_all_gpus_count_unless_any_is_said() -> None:
    mixed = nvidia_machine(
        nvidia_gpu(H100, "sm_90", index=0),
        nvidia_gpu("NVIDIA GeForce RTX 2080", "sm_75", index=1),
        driver="580.95.05",
    )
    assert holds(mixed, "sm>=8.0") is False
    assert holds(mixed, "any(sm>=8.0)") is True
    assert holds(mixed, "any(sm>=10.0)") is False
    assert holds(mixed, "same-model") is False


def test_nothing_that_is_asked_of_gpus_holds_without_one() -> None:
    none = replace(hopper(), gpus=())
    asked = ("gpu>=1", "gpu.memory>=1GiB", "any(gpu.memory>=1GiB)", "sm>=1.0", "gpu.model!=x", "same-model", "p2p")
    assert {text: holds(none, text) for text in asked} == dict.fromkeys(asked, False)


def test_gpus_that_cannot_be_used_do_not_count_and_are_named() -> None:
    machine = hopper(2)
    deselected = replace(machine, variables={**machine.variables, "CUDA_VISIBLE_DEVICES": "0"})
    (finding,) = judged(deselected, "gpu==2").findings
    assert "1 usable GPU" in finding.saw
    assert "a visibility variable hides it" in finding.saw


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu>=1", True), ("gpu==2", True), ("gpu>=3", False), ("gpu==4", False), ("gpu<=2", True),
        ("sm>=7.5", True), ("sm>=10.0", False), ("sm>=8.0", None), ("any(sm>=8.0)", None), ("same-model", None),
    ],
)  # fmt: skip
def test_two_nodes_of_four_unlike_gpus(text: str, expected: bool | None) -> None:
    """Which two are in the container is not known."""
    gpus = [nvidia_gpu(H100, "sm_90", index=n, nodes=()) for n in range(2)]
    gpus += [nvidia_gpu("NVIDIA GeForce RTX 2080", "sm_75", index=n + 2, nodes=()) for n in range(2)]
    nodes = tuple(DeviceNode(path=f"/dev/{name}", opened="ok") for name in ("nvidiactl", "nvidia0", "nvidia1"))
    machine = nvidia_machine(*gpus, driver="550.54.15", container="docker")
    assert holds(with_stack(machine, nodes=known(nodes, "/dev")), text) is expected


def test_a_version_before_its_release_counts_as_that_release() -> None:
    ngc = nvidia_machine(
        nvidia_gpu(), torch=torch("2.9.0a0+145a3a7bda.nv25.10", build=None, cuda="13.0", origin="ngc")
    )
    assert holds(ngc, "torch>=2.9") is True
    assert holds(ngc, "torch>=2.9.1") is False


def test_a_mig_slice_counts_with_its_own_memory() -> None:
    slices = (MigDevice(profile="1g.10gb", memory=9984 << 20),)
    gpu = nvidia_gpu(H100, "sm_90", memory=known(81559 << 20, "nvml"))
    gpu = replace(gpu, nvml=NvmlDevice(index=0, bdf=gpu.bdf or "", mig=True, mig_devices=slices))
    assert holds(nvidia_machine(gpu), "gpu.memory>=70GiB") is False
    assert holds(nvidia_machine(gpu), "gpu.memory>=9GiB") is True


def test_unified_memory_is_what_the_gpu_may_use() -> None:
    gb10 = nvidia_gpu("NVIDIA GB10", "sm_121", memory=absent("nvml"), unified_memory=True, integrated=True)
    assert holds(nvidia_machine(gb10), "gpu.memory>=60GiB") is True


def test_what_is_not_known_is_neither_met_nor_refused() -> None:
    blind = nvidia_machine(nvidia_gpu(memory=unknown("level static")))
    assert holds(blind, "gpu.memory>=1GiB") is None
    assert holds(hopper(2), "p2p") is None
    unread = replace(hopper(), system=replace(hopper().system, shm=unknown("no such tree")))
    assert holds(unread, "shm>=1MiB") is None


@pytest.mark.parametrize(("peers", "expected"), [([(1,), (0,)], True), ([(1,), ()], False)])
def test_peer_access_is_what_libcuda_says(peers: list[tuple[int, ...]], expected: bool) -> None:
    machine = hopper(2)
    devices = tuple(NvmlDevice(index=n, peers=reached) for n, reached in enumerate(peers))
    asked = replace(machine.nvidia, cuda=known(NvidiaApi(status=0, devices=devices), "libcuda"))
    assert holds(replace(machine, nvidia=asked), "p2p") is expected


def test_amd_gpus_have_a_gfx_target_and_no_compute_capability() -> None:
    machine = amd_machine(amd_gpu("AMD Instinct MI300X", "gfx942"), torch=torch("2.9.1+rocm6.4"))
    assert holds(machine, "gfx in gfx942,gfx950") is True
    assert holds(machine, "sm>=8.0") is False
    assert holds(machine, "rocm>=6.4") is True
    assert holds(machine, "rocm>=7") is False
    assert holds(machine, "driver>=550") is False
    assert holds(machine, "torch.cuda>=11") is False


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no requirement"),
        ("any(", "no requirement"),
        ("drivr>=550", "near it: driver"),
        ("gpu", "gpu>=1"),
        ("gpu>=", "no value"),
        ("gpu>=two", "no value"),
        ("driver~=550", "takes >="),
        ("torch>=2.6.x", "torch>=2.6"),
        ("gpu.memory>=70", None),
        ("gpu.memory>=70 parsecs", "gpu.memory>=70GiB"),
        ("any(torch>=2)", "whole machine"),
        ("p2p>=1", "stands alone"),
        ("gfx in gfx942,", "no value"),
        ("gpu>=1; rm -rf /", "no value"),
    ],
)
def test_what_is_no_requirement_is_told_with_an_example(text: str, told: str | None) -> None:
    if told is None:
        assert parse(text).values == ("70",)
        return
    with pytest.raises(RequirementError, match=told):
        parse(text)


@given(st.text(max_size=80) | st.tuples(st.sampled_from([*FIELDS]), st.text(max_size=20)).map("".join))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        requirement = parse(text)
    except RequirementError as error:
        assert str(error)
    else:
        assert requirement.name in FIELDS
        assert holds(hopper(), text) in (True, False, None)


# --- what meets it ----------------------------------------------------------------------------------


def first_fix(machine: Machine, text: str, *ids: str) -> Fix:
    """The first fix of these problems, by default of what is required, foreseen as `check` does."""
    judgement = judge(machine, matrix(), machine_checks(), select=ids or ["GPD910"], required=[parse(text)])
    return judgement.findings[0].fixes[0]


def in_python(machine: Machine, version: str = "3.12") -> Machine:
    environment = machine.environment.value
    assert environment is not None
    return replace(
        machine, environment=replace(machine.environment, value=replace(environment, python=known(version, "p")))
    )


@pytest.mark.parametrize(
    ("text", "version", "build"),
    [
        (
            "torch>=2.7",
            "2.7.0",
            "cu118",
        ),  # driver 550 supports CUDA 11.8 in full, 12.6 by minor-version compatibility
        ("torch>2.6.0", "2.7.0", "cu118"),
        ("torch==2.5", "2.5.1", "cu124"),
        ("torch.cuda<12", "2.6.0", "cu118"),
        ("torch.cuda>=12.6", "2.6.0", "cu126"),
    ],
)
def test_a_torch_that_is_required_is_the_fix(text: str, version: str, build: str) -> None:
    fix = first_fix(in_python(hopper()), text)
    remedy = fix.remedies[0]
    assert isinstance(remedy, ReplaceTorch)
    assert (remedy.version, remedy.build) == (version, build)


def test_a_missing_torch_is_installed_in_the_required_release() -> None:
    machine = nvidia_machine(nvidia_gpu(H100, "sm_90", index=0), driver="580.65.06", torch=None)
    remedy = first_fix(in_python(machine), "torch==2.8", "GPD401").remedies[0]
    assert isinstance(remedy, ReplaceTorch)
    assert remedy.version == "2.8.0"


def test_a_release_that_no_build_for_the_gpu_has_is_a_persons_to_change() -> None:
    blackwell = nvidia_machine(
        nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=0), driver="580.65.06", torch=torch("2.6.0+cu124")
    )
    fix = first_fix(in_python(blackwell), "torch==2.6", "GPD402")
    assert fix.title == "Change the requirement"
    assert "torch==2.6 is required" in str(fix.remedies[0])


def test_required_rocm_chooses_among_rocm_builds() -> None:
    machine = amd_machine(amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100", index=0), torch=torch("2.9.1+rocm6.4"))
    remedy = first_fix(in_python(machine), "rocm>=7").remedies[0]
    assert isinstance(remedy, ReplaceTorch)
    assert remedy.build.startswith("rocm7")


@pytest.mark.parametrize(
    ("text", "branch"), [("driver>=590", "595"), ("driver.cuda>=13.1", "595"), ("driver>=999", None)]
)
def test_a_newer_driver_is_the_fix_if_there_is_one(text: str, branch: str | None) -> None:
    remedy = first_fix(in_python(hopper()), text).remedies[0]
    assert (remedy.branch if isinstance(remedy, InstallDriver) else None) == branch


def test_a_volta_is_not_asked_for_a_driver_that_dropped_it() -> None:
    volta = nvidia_machine(nvidia_gpu("Tesla V100", "sm_70", index=0), driver="535.54.03", torch=torch("2.6.0+cu124"))
    assert isinstance(first_fix(in_python(volta), "driver>=590").remedies[0], Manual)


def test_another_framework_is_installed_in_its_build_for_the_gpu() -> None:
    remedy = first_fix(in_python(hopper()), "jax.cuda").remedies[-1]
    assert isinstance(remedy, ReplacePackage)
    assert (remedy.name, remedy.extra) == ("jax", "cuda12")
    assert isinstance(first_fix(in_python(hopper(), "3.9"), "jax.cuda").remedies[0], Manual)  # no wheel for it


def test_what_is_required_of_the_machine_is_not_installed() -> None:
    assert isinstance(first_fix(hopper(), "gpu>=8").remedies[0], Manual)
    assert isinstance(first_fix(hopper(), "torch>=99").remedies[0], Manual)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("torch>=2.6,<2.8", ("torch>=2.6", "torch<2.8")),
        ("torch >= 2.6, < 2.8", ("torch>= 2.6", "torch< 2.8")),
        ("gpu.memory>=20GiB,<=30GiB", ("gpu.memory>=20GiB", "gpu.memory<=30GiB")),
        ("torch!=2.7,>=2.6,<3", ("torch!=2.7", "torch>=2.6", "torch<3")),
        ("gfx in gfx942,gfx950", ("gfx in gfx942,gfx950",)),
        ("any(sm>=8,<9)", ("any(sm>=8,<9)",)),
        ('gpu.model=="A,B"', ('gpu.model=="A,B"',)),
        ("torch>=2.6,2.8", ("torch>=2.6,2.8",)),
        ("gpu>=1,gpu.memory>=70GiB", ("gpu>=1", "gpu.memory>=70GiB")),
        ("gpu.model in A100,H100, any(sm>=9)", ("gpu.model in A100,H100", "any(sm>=9)")),
        ("torch>=2.6,<2.8,p2p", ("torch>=2.6", "torch<2.8", "p2p")),
    ],
)
def test_a_text_asks_for_each_of_its_parts(text: str, parts: tuple[str, ...]) -> None:
    assert split_requirements(text) == parts


def test_a_release_inside_a_range_is_the_fix() -> None:
    required = requirements(Settings(), ["torch>=2.6,<2.8"], {})
    judgement = judge(nvidia_machine(), matrix(), machine_checks(), select=["GPD910"], required=required)
    (finding,) = judgement.findings
    assert finding.fixes[0].remedies[0].version == "2.7.1"
