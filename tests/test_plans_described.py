"""Plans for described machines: what each step does, and what the plan says of the rest."""

from __future__ import annotations

import re
import shlex

import msgspec
import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from gpudoctor.machine import Machine
from gpudoctor.planner.repair import Repair
from gpudoctor.step import EnvStep, RunStep
from tests.support.check_cases import matrix
from tests.support.judging import plan_of
from tests.test_described_machines import whatif

AMD = "--torch 2.9.1+rocm6.4"


def described(text: str) -> Machine:
    return msgspec.convert(whatif(text)["machine"], Machine)


def shown(found: Repair) -> str:
    """The steps, one a line, and the sentences around them."""
    lines = list(found.pinned)
    for planned in found.steps:
        step = planned.step
        if isinstance(step, RunStep):
            lines.append(f"{shlex.join(step.argv)}   {step.why}")
        else:
            lines.append(step.name if isinstance(step, EnvStep) else step.text)
    return "\n".join((*lines, found.after))


# --- kernels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "steps", "not_there"),
    [
        ("--gpu RX~9070 --os ubuntu-24.04 --kernel 6.8.0-45-generic", "install -y linux-generic-hwe-24.04", "amdgpu"),
        # Its last kernel does not know the chip, and AMD's driver is made for that kernel.
        (
            "--gpu RX~9070 --os ubuntu-22.04 --kernel 6.5.0-45-generic",
            "install -y linux-generic-hwe-22.04;;amdgpu-dkms;;Boot Linux 6.8",
            "24.04",
        ),
        ("--gpu RX~9070 --os ubuntu-22.04 --kernel 6.8.0-60-generic", "amdgpu-dkms", "linux-generic-hwe"),
        ("--gpu RX~9070 --os ubuntu-20.04 --kernel 5.15.0-1-generic", "upgrade to ubuntu-24.04", "apt-get"),
        ("--gpu RX~9070 --os fedora-41 --kernel 6.10.5-200.fc41.x86_64", "dnf upgrade -y kernel", "amdgpu-dkms"),
        ("--gpu RX~9070 --os amzn-2023 --kernel 6.1.112-124.190.amzn2023.x86_64", "kernel6.12", "amdgpu-dkms"),
        (
            "--gpu RX~9070 --os debian-12 --kernel 6.1.0-30-amd64",
            "-t bookworm-backports linux-image-amd64;;firmware-amd-graphics",
            "amdgpu-dkms",
        ),
        ("--gpu MI300X --os ubuntu-22.04 --kernel 5.15.0-1060-azure", "install -y linux-azure", "generic"),
        # The distribution in a container is not that of the kernel.
        (
            "--gpu RX~9070 --container docker --os ubuntu-22.04 --kernel 6.5.0-45-generic",
            "On the host;;",
            "linux-generic",
        ),
    ],
)
def test_a_kernel_that_the_distribution_ships(machine: str, steps: str, not_there: str) -> None:
    text = shown(plan_of(described(f"{machine} {AMD}")))
    for part in steps.split(";;"):
        assert part in text
    assert not_there not in text


def test_a_kernel_that_is_new_enough_is_left_alone() -> None:
    machine = described(f"--gpu RX~9070 --os ubuntu-24.04 --kernel 6.11.0-29-generic {AMD}")
    assert plan_of(machine).steps == ()


def test_a_kernel_note_is_cleared_by_the_kernel_of_the_plan_or_told_as_what_stays() -> None:
    old = plan_of(described("--gpu Strix~Halo --os ubuntu-24.04 --kernel 6.8.0-60-generic --torch 2.11.0+rocm7.2"))
    assert "linux-generic-hwe-24.04" in shown(old)
    assert "GPD450" not in old.predicted.notes
    debian = plan_of(described(f"--gpu Strix~Halo --os debian-12 --kernel 6.12.38+deb12-amd64 {AMD}"))
    assert debian.predicted.left == ()
    assert "GPD450" in debian.predicted.notes
    ubuntu = described("--gpu Strix~Halo --os ubuntu-24.04 --kernel 6.14.0-29-generic --torch 2.11.0+rocm7.2")
    assert "`gpudoctor fix --only known-issue`" in plan_of(ubuntu).after
    assert "linux-generic-hwe-24.04" in shown(plan_of(ubuntu, only=("GPD450",)))


# --- packages that were compiled for one torch -----------------------------------------------------------


def test_the_torch_that_several_packages_were_built_for_is_put_back() -> None:
    text = "--gpu RTX~4090 --driver 580.82.07 --torch 2.9.1+cu128 --package vllm==0.10.2 --package flash-attn==2.8.3"
    (step,) = (found := plan_of(described(f"{text} --package torchvision==0.23.0"))).steps
    assert isinstance(step.step, RunStep)
    assert step.step.argv[-2:] == ("torch==2.8.0+cu128", "torchvision==0.23.0+cu128")
    assert [text.partition(" (")[0] for text in found.pinned] == ["flash-attn 2.8.3"]
    assert "compile it again for torch 2.8.0" in found.pinned[0]


def test_companions_that_agree_are_not_replaced_one_by_one() -> None:
    packages = "--package xformers==0.0.32.post2 --package torchvision==0.23.0 --package torchaudio==2.8.0"
    (step,) = plan_of(described(f"--gpu RTX~4090 --driver 580.82.07 --torch 2.9.1+cu128 {packages}")).steps
    assert isinstance(step.step, RunStep)
    assert "torch==2.8.0+cu128" in step.step.argv


def test_one_mismatched_companion_is_replaced_by_itself() -> None:
    text = "--gpu RTX~4090 --driver 580.82.07 --torch 2.9.1+cu128 --package torchvision==0.23.0"
    assert "torch==" not in shown(plan_of(described(text))).replace("torchvision==", "")


@pytest.mark.parametrize(
    ("vllm", "torch"), [("0.11.0", "2.8.0"), ("0.10.1.1", "2.7.1"), ("0.8.3", "2.6.0"), ("0.11.1", None)]
)
def test_every_release_of_vllm_has_its_torch(vllm: str, torch: str | None) -> None:
    text = shown(plan_of(described(f"--gpu RTX~4090 --driver 580.82.07 --torch 2.9.0+cu128 --package vllm=={vllm}")))
    assert (f"torch=={torch}" in text) == (torch is not None)


def test_a_build_of_the_same_release_and_cuda_leaves_compiled_packages_alone() -> None:
    text = "--gpu GTX~1080 --driver 580.95.05 --torch 2.9.1+cu128 --package flash-attn==2.8.3"
    found = plan_of(described(text))
    assert "torch==2.9.1+cu126" in shown(found)
    assert found.pinned == ()


def test_xformers_comes_from_the_index_of_torchs_build() -> None:
    packages = "--package xformers==0.0.30"
    other = shown(plan_of(described(f"--gpu RTX~4090 --driver 580.95.05 --torch 2.11.0+cu128 {packages}")))
    assert "--index-url https://download.pytorch.org/whl/cu128 xformers==0.0.35" in other
    own = shown(plan_of(described(f"--gpu RTX~4090 --driver 580.95.05 --torch 2.10.0+cu128 {packages}")))
    assert "pip install xformers==0.0.35" in own


# --- other frameworks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packages", "command"),
    [
        ("jax==0.12.0.1 jaxlib==0.12.0.1", "install jax-rocm7-plugin==0.12.0"),
        ("jax==0.7.0 jaxlib==0.7.0", "install jax==0.7.1 jaxlib==0.7.1 jax-rocm7-plugin==0.7.1"),
        ("jax==0.12.0.1 jaxlib==0.12.0.1 jax-cuda12-plugin==0.12.0.1", "uninstall -y jax-cuda12-plugin"),
    ],
)
def test_jax_gets_the_rocm_plugin_of_its_release(packages: str, command: str) -> None:
    named = " ".join(f"--package {one}" for one in packages.split())
    text = shown(plan_of(described(f"--gpu RX~7900~XTX --python-version 3.12 {named}")))
    assert command in text
    assert "uninstall -y jax " not in text


def test_jax_beside_a_torch_that_uses_the_gpu_is_told_with_its_fix() -> None:
    found = plan_of(described(f"--gpu RX~7900~XTX {AMD} --package jax==0.12.0 --package jaxlib==0.12.0"))
    assert found.steps == ()
    assert "`gpudoctor fix --only framework-cpu-only`" in found.after


# --- drivers ---------------------------------------------------------------------------------------------


def test_another_build_comes_before_windows_driver_and_names_the_driver() -> None:
    wsl = "--os ubuntu-22.04 --kernel 5.15.153.1-microsoft-standard-WSL2"
    text = shown(plan_of(described(f"--gpu RTX~4090 --driver 560.94 --torch 2.9.1+cu130 {wsl}")))
    assert "torch==2.9.1+cu126" in text and "Windows" not in text
    assert "the driver is too old for CUDA 13.0 and runs CUDA 12.6" in text
    linux = shown(plan_of(described("--gpu RTX~4090 --driver 550.54.14 --torch 2.9.1+cu130")))
    assert "driver 550.54.14 is too old for CUDA 13.0" in linux
    bound = f"--gpu RTX~3060 --driver 516.94 --torch 2.9.1+cu126 {wsl} --package vllm==0.15.1"
    assert "Windows" in shown(plan_of(described(bound)))


def test_two_gpus_that_no_driver_drives_together_are_told_what_each_needs() -> None:
    found = plan_of(described("--gpu RTX~5090 --gpu GTX~1080~Ti --driver 580.95.05 --torch 2.9.1+cu126"))
    text = shown(found)
    assert "No one NVIDIA driver supports all" in text
    assert "supports NVIDIA GeForce RTX 5090: keep it for these" in text  # the newest GPU is not left out
    assert found.helpless == () and found.predicted.left == ()


def test_a_jetsons_wheels_have_an_address() -> None:
    text = shown(plan_of(described("--gpu Jetson~AGX~Orin --torch 2.9.1+cu128 --platform linux/arm64")))
    assert all(url in text for row in [matrix().gpus.soc("sm_87")] if row for url in row.wheels.values())


# --- what needs nothing ------------------------------------------------------------------------------------


def test_a_needed_override_without_another_build_is_kept() -> None:
    text = "--gpu RX~6600 --torch 2.5.1+rocm6.2 --python-version 3.9 --env HSA_OVERRIDE_GFX_VERSION=10.3.0"
    found = plan_of(described(text))
    assert "Nothing needs to be done" in shown(found) and found.helpless == ()


def test_triton_is_not_judged_for_a_gpu_that_torch_has_no_code_for() -> None:
    report = whatif("--gpu RTX~5090 --gpu RTX~4090 --driver 580.95.05 --torch 2.5.1+cu124 --package triton==3.1.0")
    assert "ptxas-too-old" not in [one["slug"] for one in report["findings"]]


def test_a_gpu_that_no_build_supports_is_hidden_beside_the_build_for_the_other() -> None:
    found = plan_of(described("--gpu RX~470 --gpu RX~5500~XT --torch 1.13.0+rocm5.1.1 --python-version 3.11"))
    assert "torch[device-gfx1012]==2.11.0+rocm7.14.0" in shown(found)
    assert "HIP_VISIBLE_DEVICES" in shown(found)
    assert (found.left, found.predicted.verdict) == ((), "ok")


@pytest.mark.parametrize(
    ("machine", "torch"),
    [
        ("--gpu GTX~1660~Ti --driver 595.58.03 --torch 2.13.0", "torch==2.15.0"),  # its torch.linalg was read
        ("--gpu 8060S --kernel 6.18.6 --torch 2.10.0+rocm7.1", "torch==2.11.0+rocm7.2"),
        ("--gpu RX~7900~XTX --torch 2.6.0+rocm6.2.4", "torch==2.7.0+rocm6.3"),
        ("--gpu RX~7900~XTX --torch 2.2.1+rocm5.7", "torch==2.4.1+rocm6.1"),
    ],
)
def test_a_build_that_is_known_to_be_without_the_fault_comes_before_a_sentence(machine: str, torch: str) -> None:
    assert torch in shown(plan_of(described(machine)))


# --- the undo ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "undo"),
    [
        # The package index's versions have no local part.
        ("--gpu GTX~1060 --torch 2.9.1", "install torch==2.9.1"),
        ("--gpu GTX~1060 --torch 2.9.1 --package torchvision==0.24.1", "install torch==2.9.1 torchvision==0.24.1"),
        (
            "--gpu GTX~1060 --torch 2.9.1+cu128",
            "https://download.pytorch.org/whl/cu128 torch==2.9.1+cu128",
        ),
        ("--gpu K80 --driver 470.256.02 --torch 2.1.2", "install torch==2.1.2"),
    ],
)
def test_the_undo_names_a_version_that_its_index_has(machine: str, undo: str) -> None:
    steps = [planned.step for planned in plan_of(described(machine)).steps]
    undone = [shlex.join(argv) for step in steps if isinstance(step, RunStep) for argv in step.undo]
    assert undone[-1].endswith(undo)


# --- several problems ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "build", "also"),
    [
        (
            "--gpu 8060S --gpu RX~7900~GRE --os rhel-9.4 --kernel 6.14.0-27-generic --python-version 3.13 "
            "--torch 2.0.1+cu117 --package sglang==0.5.23 --env HSA_OVERRIDE_GFX_VERSION=9.0.0",
            "2.14.1+rocm7.2",
            "unset HSA_OVERRIDE_GFX_VERSION",
        ),
        (
            "--gpu A10 --driver 470.57.02 --platform linux/arm64 --python-version 3.11 --torch 1.13.0+cpu "
            "--package vllm==0.33.0",
            "2.14.0",
            "Reboot.",
        ),
    ],
)
def test_torch_is_installed_once_though_two_problems_need_another(machine, build, also):
    found = shown(plan_of(described(machine)))
    assert re.findall(r" torch===?(\S+)", found) == [build]
    assert also in found


def test_a_fix_that_makes_a_warning_an_error_does_not_come_first():
    # vLLM 0.14 is made for torch 2.9: a driver leaves it that, an older torch does not.
    machine = "--gpu sm_86 --driver 460.106.00 --torch 2.9.0+cu130 --package vllm==0.14.1 --python-version 3.12"
    first = next(one for one in whatif(machine)["findings"] if one["slug"] == "driver-too-old")
    assert first["fixes"][0]["title"] == "Install NVIDIA driver 580 (open kernel modules)"


@pytest.mark.parametrize(
    ("gpus", "torch", "value"),
    [
        ("--gpu gfx1036 --gpu RX~5700~XT", "2.14.0+cu130", "1"),
        ("--gpu RX~6650~XT --gpu RX~580", "2.9.1", "0"),
        ("--gpu 780M --gpu RX~6600", "2.9.1+cpu", "1"),
        ("--gpu RX~6600 --gpu gfx1036", "2.9.1+cpu", None),  # what comes second, and is for the screen, disturbs none
        # A newer driver, a board's own wheel or an override leaves one out, too.
        ("--gpu P40 --gpu sm_86 --driver 535.54.03 --os debian-12 --python-version 3.15", "2.9.1+cpu", "1"),
        ("--gpu Jetson~Thor --gpu RTX~4070~Laptop --platform linux/arm64", "2.3.1+cpu", "0"),
        ("--gpu RX~470 --gpu gfx1036 --python-version 3.11", "2.2.0+cu118", "1"),
    ],
)
def test_a_build_that_leaves_out_a_gpu_comes_with_what_hides_that_one(gpus, torch, value):
    fix = whatif(f"{gpus} --kernel 6.14.0-1 --torch {torch}")["findings"][0]["fixes"][0]
    shown_only = [step["value"] for step in fix["steps"] if step["kind"] == "env" and "_VISIBLE_" in step["name"]]
    assert shown_only == ([value] if value else [])


def test_nvidias_wheel_for_a_board_is_not_offered_for_another_gpu_as_well():
    (fix,) = whatif("--gpu Jetson~Orin --gpu Titan~V --torch 2.9.1")["findings"][0]["fixes"]
    assert "support the board's own GPU, not NVIDIA TITAN V" in fix["steps"][0]["text"]


def test_a_build_inside_wsl_comes_with_the_variable_that_it_needs_there():
    machine = "--gpu RX~7700~XT --kernel 6.6.87.2-microsoft-standard-WSL2 --python-version 3.13 --torch 2.11.0"
    fix = whatif(machine)["findings"][0]["fixes"][0]
    assert "2.11.0+rocm7.2" in fix["title"]
    assert [step["name"] for step in fix["steps"] if step["kind"] == "env"] == ["HSA_ENABLE_DXG_DETECTION"]


def test_an_override_inside_wsl_comes_with_a_torch_that_supports_the_gpu_itself_there():
    """The driver of Windows decides by the GPU itself: ROCm 7.2 leaves gfx1152 out."""
    machine = "--gpu 860M --kernel 6.6.87.2-microsoft-standard-WSL2 --python-version 3.12 --torch 2.11.0"
    fixes = whatif(machine)["findings"][0]["fixes"]
    (override,) = [fix for fix in fixes if "HSA_OVERRIDE" in fix["title"]]
    assert "rocm7.14" in override["title"]
    native = "--gpu 860M --python-version 3.12 --torch 2.11.0 --kernel 6.17.0-8-generic"
    (override,) = [fix for fix in whatif(native)["findings"][0]["fixes"] if "HSA_OVERRIDE" in fix["title"]]
    assert "rocm7.2" in override["title"]


def test_no_torch_for_another_cuda_is_installed_beside_vllm():
    """Its wheel needs the runtime of CUDA 13: an older vLLM helps, or another driver."""
    machine = "--gpu RTX~4090 --driver 570.133.07 --torch 2.14.0+cu130 --package vllm==0.33.0"
    assert "cu126" not in shown(plan_of(described(machine)))
    (problem,) = whatif(machine)["findings"]
    assert "NVIDIA driver 580" in problem["fixes"][1]["title"]


# --- programs that choose their torch -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "vllm", "steps"),
    [
        # No build of the release runs on this driver, so an older release comes, not a driver.
        ("--gpu RTX~4090 --driver 535.183.01 --torch 2.14.0", "0.33.0", "torch==2.10.0;;vllm==0.19.1"),
        ("--gpu RTX~4090 --driver 535.183.01 --torch 2.14.0+cu126", "0.33.0", "torch==2.10.0;;vllm==0.19.1"),
        # torch alone could be replaced, and would leave vLLM without its CUDA.
        ("--gpu V100 --driver 580.95.05 --torch 2.14.0", "0.33.0", "torch==2.10.0;;vllm==0.19.1"),
        ("--gpu RTX~5090 --driver 580.95.05 --torch 2.6.0", "0.8.5", "torch==2.10.0;;vllm==0.19.1"),
        # The release stays where a build of it works here.
        ("--gpu RTX~4090 --driver 580.95.05 --torch 2.14.1+cpu", "0.33.0", "torch==2.14.0"),
    ],
)
def test_a_program_that_chooses_its_torch_comes_in_the_release_that_recommend_names(
    machine: str, vllm: str, steps: str
) -> None:
    text = f"{machine} --python-version 3.12 --package vllm=={vllm}"
    found = plan_of(described(text))
    assert found.predicted.verdict == "ok"
    assert [planned.step.argv[-1] for planned in found.steps if isinstance(planned.step, RunStep)] == steps.split(
        ";;"
    )
    arguments = [part.replace("~", " ") for part in text.split()]
    answer = CliRunner().invoke(gpudoctor, ["recommend", "--framework", "vllm", *arguments], standalone_mode=False)
    release = next((step for step in steps.split(";;") if step.startswith("vllm")), f"vllm=={vllm}")
    assert f"Best: {release}" in answer.stdout
    of_torch = CliRunner().invoke(gpudoctor, ["recommend", *arguments], standalone_mode=False)
    assert "`gpudoctor recommend --framework vllm`" in " ".join(of_torch.stdout.split())


def test_a_driver_comes_where_no_release_of_a_program_runs_on_the_present_one() -> None:
    machine = "--gpu A100 --driver 460.106.00 --torch 2.9.1+cpu --package vllm==0.14.1 --python-version 3.12"
    plan = plan_of(described(machine))
    assert plan.predicted.verdict == "ok"
    assert "driver of branch 580" in shown(plan)
    assert "cu118" not in shown(plan)


@pytest.mark.parametrize(
    ("machine", "steps"),
    [
        # bitsandbytes 0.50.2 has a library for ROCm 6.3, without code for this GPU.
        ("--gpu MI50 --torch 2.9.1+rocm6.3 --package bitsandbytes==0.45.5", "no build of bitsandbytes"),
        ("--gpu MI210 --torch 2.9.1+rocm6.3 --package bitsandbytes==0.45.5", "install bitsandbytes==0.50.2"),
        (
            "--gpu Tesla~M60 --driver 550.54.15 --torch 2.14.0+cu126 --package bitsandbytes==0.43.0",
            "BNB_CUDA_VERSION",
        ),
    ],
)
def test_no_release_without_code_for_the_gpu_is_installed(machine: str, steps: str) -> None:
    plan = plan_of(described(f"{machine} --python-version 3.12"))
    assert len(plan.steps) == 1
    assert steps in shown(plan)


def test_a_cuda_wheel_of_vllm_beside_a_rocm_torch_is_found() -> None:
    text = "--gpu RX~7900~XTX --torch 2.14.0+rocm7.14 --python-version 3.12 --package vllm=="
    assert [one["slug"] for one in whatif(f"{text}0.33.0")["findings"]] == ["vllm-torch-abi"]
    assert not whatif(f"{text}0.33.0+rocm714")["findings"]
