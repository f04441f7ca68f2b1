"""Which torch build a machine should have: what is proposed, how it is installed, and why the others are out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from gpudoctor.isa import cuda_runs
from gpudoctor.machine import Jetson, LoadPath, TorchCopy, absent, known, unknown
from gpudoctor.matrix.load import load_matrix
from gpudoctor.recommend import Recommendation, Recommended, recommend
from gpudoctor.situation import Situation
from gpudoctor.step import ManualStep
from tests.support.environments import write_venv
from tests.support.in_process import invoked
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    change,
    no_gpu_machine,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
    with_stack,
    with_system,
    with_torch,
)

MATRIX = load_matrix(())
PASCAL = nvidia_gpu("NVIDIA GeForce GTX 1080 Ti", "sm_61")
BLACKWELL = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=1, chip="GB202")
AMPERE = nvidia_gpu("NVIDIA GeForce RTX 3090", "sm_86", chip="GA102")


NO_CONTAINER = ("--container", "none")
"""In one, the fixes of the host's driver and kernel would be for the host."""


def run(*arguments: str) -> tuple[int, str]:
    result = invoked("recommend", *arguments)
    return result.return_value, result.stdout


def described(*arguments: str) -> tuple[int, dict[str, Any]]:
    code, text = run("--format", "json", "--python-version", "3.12", *NO_CONTAINER, *arguments)
    return code, json.loads(text)


def why_not(answer: Recommendation, version: str, build: str) -> str:
    return next(row.why for row in answer.rejected if (row.torch, row.build) == (version, build))


def best(answer: Recommendation) -> Recommended:
    return answer.choices[0]


def test_only_what_is_required_is_recommended() -> None:
    code, data = described("--gpu", "RTX 4090", "--driver", "580.65.06", "--require", "torch<2.8")
    assert (code, {choice["torch"] for choice in data["choices"]}) == (0, {"2.7.1"})
    whys = {(row["torch"], row["build"]): row["why"] for row in data["rejected"]}
    assert whys["2.9.1", "cu128"] == "torch<2.8 is required"


# --- the C library ---------------------------------------------------------------------------------


def test_a_described_distribution_gets_a_build_that_its_glibc_loads() -> None:
    code, data = described("--gpu", "RTX 4090", "--os", "centos-7")
    assert (code, data["choices"][0]["torch"], data["choices"][0]["build"]) == (0, "2.6.0", "cu124")
    whys = {(row["torch"], row["build"]): row["why"] for row in data["rejected"]}
    assert whys["2.9.1", "cu128"] == "needs glibc 2.28, and this system has glibc 2.17"


def test_on_musl_nothing_is_proposed_and_glibc_is_the_way_out() -> None:
    code, data = described("--gpu", "RTX 4090", "--os", "alpine-3.20")
    assert (code, data["choices"]) == (1, [])
    assert "no torch wheel for musl" in data["otherwise"][0]["steps"][0]["text"]


def test_on_musl_without_a_gpu_that_is_said_too() -> None:
    answer = recommend(
        Situation(with_system(no_gpu_machine(), libc=known("musl", "/lib/ld-musl-x86_64.so.1")), MATRIX)
    )
    assert answer.choices == ()
    assert any("no torch wheel for musl" in note for note in answer.notes)


# --- NVIDIA ----------------------------------------------------------------------------------------


def test_an_old_gpu_on_a_new_driver_gets_the_build_that_carries_it() -> None:
    answer = recommend(
        Situation(nvidia_machine(PASCAL, driver="580.126.09", flavour="proprietary", torch=None), MATRIX)
    )
    assert (best(answer).build, best(answer).level, answer.exit_code) == ("cu126", "native", 0)
    assert why_not(answer, "2.9.1", "cu128").startswith("no code for sm_61")
    assert why_not(answer, "2.9.1", "rocm6.4") == "a ROCm build: NVIDIA GPUs cannot use it"
    kepler = nvidia_machine(nvidia_gpu("NVIDIA Tesla K80", "sm_37"), driver="470.239.06", torch=None)
    assert "470 is the last branch" in why_not(recommend(Situation(kepler, MATRIX)), "2.9.1", "cu128")


def test_a_driver_that_has_dropped_the_gpu_gets_no_build_but_the_way_to_one() -> None:
    answer = recommend(Situation(nvidia_machine(PASCAL, driver="595.10", torch=None), MATRIX))
    assert [choice.level for choice in answer.choices] == ["cpu"]
    assert answer.exit_code == 1
    assert answer.otherwise[0].title.startswith("Driver 580, then: Install torch")
    assert "has dropped" in why_not(answer, "2.7.1", "cu126")


def test_a_driver_older_than_the_gpu_gets_no_build() -> None:
    answer = recommend(Situation(nvidia_machine(BLACKWELL, driver="565.57.01", torch=None), MATRIX))
    assert [choice.level for choice in answer.choices] == ["cpu"]
    assert "570" in answer.notes[0]


@pytest.mark.parametrize(("driver", "told"), [("570.133.07", True), ("580.95.05", False), ("570.158.01", False)])
def test_a_described_driver_that_does_not_list_the_gpu_is_told(driver: str, told: bool) -> None:
    _, text = run("--gpu", "RTX 5060", "--driver", driver, "--python-version", "3.12")
    assert (f"Driver {driver} may refuse NVIDIA GeForce RTX 5060" in text) is told


def test_check_of_this_machine_tells_it_too(tmp_path: Path) -> None:
    arguments = ["check", "--level", "static", "--gpu", "RTX 5060", "--driver", "570.133.07", "--format", "json"]
    result = CliRunner().invoke(gpudoctor, [*arguments, "--python", str(write_venv(tmp_path / "venv").parents[2])])
    assert "driver-too-old" in [found["slug"] for found in json.loads(result.stdout)["findings"]]


def test_the_present_driver_decides_and_not_a_newer_one() -> None:
    answer = recommend(Situation(nvidia_machine(BLACKWELL, driver="570.133.07", torch=None), MATRIX))
    assert best(answer).build in ("cu128", "cu129")
    assert "too old for CUDA 13.0" in why_not(answer, "2.13.0", "cu130")


def test_the_installed_version_and_the_package_index_are_offered_too() -> None:
    machine = nvidia_machine(AMPERE, driver="550.54.14", torch=torch("2.6.0+cu124"))
    answer = recommend(Situation(machine, MATRIX))
    kinds = {(choice.torch, choice.build): choice for choice in answer.choices}
    assert best(answer).torch != "2.6.0"
    assert "this build is installed" in kinds["2.6.0", "cu124"].why
    assert any(choice.origin == "pypi" for choice in answer.choices)
    assert answer.choices[-1].level == "cpu"


def test_the_package_index_build_is_pinned_and_says_its_cuda() -> None:
    answer = recommend(Situation(nvidia_machine(AMPERE, driver="580.126.09", torch=None), MATRIX))
    own = next(choice for choice in answer.choices if choice.origin == "pypi")
    assert own.commands["pip"][-1] == f"torch=={own.torch}"
    assert "--index-url" not in own.commands["pip"]
    assert any("is the build for CUDA" in why for why in own.why)


def test_where_no_one_driver_serves_both_gpus_torch_is_for_the_served_one() -> None:
    answer = recommend(Situation(nvidia_machine(PASCAL, BLACKWELL, driver="595.71.05", torch=None), MATRIX))
    assert (best(answer).build, answer.exit_code) == ("cu132", 1)
    (note,) = answer.notes
    assert "GTX 1080 Ti" in note and "it needs the proprietary kernel modules, up to branch 580" in note


def test_without_a_driver_a_person_chooses_between_gpus_that_none_serves_together() -> None:
    machine = with_stack(nvidia_machine(PASCAL, BLACKWELL, torch=None), module=absent("/proc"), userland=absent("/"))
    answer = recommend(Situation(change(machine, load_path=LoadPath()), MATRIX))
    assert answer.exit_code == 1
    ((step,),) = (fix.steps for fix in answer.otherwise)
    assert isinstance(step, ManualStep)
    assert "580 (open kernel modules) for NVIDIA GeForce RTX 5090" in step.text
    assert "580 (proprietary kernel modules) for NVIDIA GeForce GTX 1080 Ti" in step.text


def test_two_gpus_get_a_build_that_carries_both() -> None:
    machine = nvidia_machine(AMPERE, BLACKWELL, driver="580.95.05", torch=None)
    row = next(
        r
        for r in MATRIX.torch.builds()
        if (r.version, r.build) == (best(recommend(Situation(machine, MATRIX))).torch, "cu132")
    )
    assert all(cuda_runs(sm, row.archs or (), ()).runs == "yes" for sm in ("sm_86", "sm_120"))


def test_an_unknown_gpu_is_unknown_and_no_gpu_is_the_cpu() -> None:
    strange = nvidia_gpu("10de:ffff", arch=unknown("not in the matrix"))
    assert recommend(Situation(nvidia_machine(change(strange, arch=unknown("?")), torch=None), MATRIX)).exit_code == 3
    nothing = recommend(Situation(no_gpu_machine(), MATRIX))
    assert (nothing.exit_code, best(nothing).build, best(nothing).level) == (0, "cpu", "cpu")
    unseen = change(no_gpu_machine(), buses=unknown("no /sys"))
    assert recommend(Situation(unseen, MATRIX)).exit_code == 3


def test_an_unknown_driver_is_unknown_and_an_absent_one_is_not() -> None:
    machine = nvidia_machine(AMPERE, torch=None)
    silent = with_stack(machine, module=unknown("no /proc"), userland=unknown("none"))
    silent = change(silent, load_path=no_gpu_machine().load_path)
    assert recommend(Situation(silent, MATRIX)).exit_code == 3
    none = with_stack(silent, module=absent("/proc/driver/nvidia"), userland=absent("none"))
    answer = recommend(Situation(none, MATRIX))
    assert answer.exit_code == 0
    assert any("No NVIDIA driver is loaded" in note for note in answer.notes)


def test_a_python_without_wheels_is_said() -> None:
    answer = recommend(Situation(nvidia_machine(AMPERE, torch=None, python="3.7"), MATRIX))
    assert best(answer).torch == "1.13.1"
    assert why_not(answer, "2.9.1", "cu128").startswith("no wheel for Python 3.7")


def test_other_platforms_wheels_are_out() -> None:
    machine = with_system(nvidia_machine(AMPERE, torch=None), arch=known("aarch64", "uname"))
    assert "no wheel for linux-aarch64" in why_not(recommend(Situation(machine, MATRIX)), "2.6.0", "cu118")


def test_every_build_is_chosen_or_has_a_reason() -> None:
    answer = recommend(Situation(nvidia_machine(AMPERE, torch=None), MATRIX))
    told = {(row.torch, row.build) for row in answer.rejected} | {(c.torch, c.build) for c in answer.choices}
    assert told >= {(row.version, row.build) for row in MATRIX.torch.builds("linux-x86_64")}
    assert len(answer.rejected) == len({(row.torch, row.build) for row in answer.rejected})
    assert all(row.why for row in answer.rejected)


# --- AMD -------------------------------------------------------------------------------------------


def test_native_code_comes_before_an_override() -> None:
    answer = recommend(Situation(amd_machine(amd_gpu("AMD Radeon RX 6700 XT", "gfx1031"), torch=None), MATRIX))
    assert [choice.level for choice in answer.choices] == ["native", "override", "cpu"]
    assert "torch[device-gfx1031]" in best(answer).commands["pip"][-1]
    override = answer.choices[1]
    assert override.env == {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}
    assert "ENV HSA_OVERRIDE_GFX_VERSION=10.3.0" in override.commands["dockerfile"]
    assert not (override.build or "").startswith("rocm7")


def test_a_native_choice_says_that_an_override_has_to_go() -> None:
    machine = amd_machine(
        amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100"), variables={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}, torch=None
    )
    assert any("unset HSA_OVERRIDE_GFX_VERSION" in why for why in best(recommend(Situation(machine, MATRIX))).why)


def test_torch_without_a_blas_for_the_gpu_is_out() -> None:
    answer = recommend(Situation(amd_machine(amd_gpu("AMD Radeon VII", "gfx906"), torch=None), MATRIX))
    assert best(answer).build == "rocm6.3"
    assert "rocBLAS" in why_not(answer, "2.9.1", "rocm6.4")


def test_an_integrated_gpu_does_not_decide() -> None:
    raphael = amd_gpu("AMD Radeon Graphics", "gfx1036", index=1, integrated=True)
    machine = amd_machine(amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100"), raphael, torch=None)
    answer = recommend(Situation(machine, MATRIX))
    assert best(answer).index_url.startswith("https://download.pytorch.org/whl/rocm")
    assert any("gfx1036" in note and "integrated" in note for note in answer.notes)


# --- places ----------------------------------------------------------------------------------------


def test_integrated_graphics_that_people_compute_on_count_beside_a_gpu() -> None:
    both = ("--kernel", "6.18.6", "--python-version", "3.12", "--gpu", "8060S", "--gpu")
    _, answer = described(*both, "RX 5600 XT")
    assert "torch[device-gfx1151,device-gfx1010]==" in answer["choices"][0]["commands"]["pip"][-1]
    assert answer["choices"][0]["env"] == {}
    code, answer = described(*both, "RX 580")
    assert (code, answer["choices"][0]["level"]) == (0, "native")
    assert answer["choices"][0]["env"] == {"HIP_VISIBLE_DEVICES": "0"}


def test_a_gpu_that_programs_would_meet_first_is_hidden() -> None:
    about = ("--kernel", "6.18.6", "--python-version", "3.12")
    _, answer = described("--gpu", "780M", "--gpu", "RX 6600", *about)
    native, override = answer["choices"][:2]
    assert native["env"] == {"HIP_VISIBLE_DEVICES": "1"}
    assert override["env"] == {"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "HIP_VISIBLE_DEVICES": "1"}
    _, answer = described("--gpu", "RX 6600", "--gpu", "780M", *about)
    assert answer["choices"][0]["env"] == {}


@pytest.mark.parametrize(
    ("gpus", "override", "env"),
    [
        (("RX 7700 XT", "gfx1036"), "10.3.0", {}),  # under it only the integrated GPU would have code
        (("gfx1036", "RX 7700 XT"), "10.3.0", {"HIP_VISIBLE_DEVICES": "1"}),
        (("RX 6900 XT", "RX 470"), "11.5.1", {"HIP_VISIBLE_DEVICES": "0"}),  # under it no GPU would
        (("RX 6900 XT",), "9.0.0", {}),
    ],
)
def test_which_gpu_a_build_leaves_out_is_judged_without_the_override_that_it_unsets(
    gpus: tuple[str, ...], override: str, env: dict[str, str]
) -> None:
    words = [word for gpu in gpus for word in ("--gpu", gpu)]
    best = described(*words, "--env", f"HSA_OVERRIDE_GFX_VERSION={override}")[1]["choices"][0]
    assert (best["level"], best["env"]) == ("native", env)
    assert any(why.startswith("unset HSA_OVERRIDE_GFX_VERSION") for why in best["why"])


def test_a_gpu_that_the_driver_refuses_needs_no_hiding() -> None:
    _, answer = described("--gpu", "L40S", "--gpu", "K80", "--driver", "570.86.15")
    assert (answer["choices"][0]["level"], answer["choices"][0]["env"]) == ("native", {})


def test_a_kernel_older_than_the_gpu_has_to_be_updated_first() -> None:
    code, answer = described("--gpu", "RX 9070 GRE", "--os", "amzn-2023", "--kernel", "6.1.0-30-amd64")
    assert code == 1
    assert [choice["level"] for choice in answer["choices"]] == ["cpu"]
    assert "from Linux 6.11 on" in answer["notes"][0]
    steps = answer["otherwise"][0]["steps"]
    assert steps[0]["argv"] == ["dnf", "install", "-y", "kernel6.12"]
    assert "torch==2.14.1+rocm7.14" in steps[-1]["argv"][-1]
    _, answer = described("--gpu", "860M", "--os", "ubuntu-22.04", "--kernel", "5.15.0-119-generic")
    assert [choice["level"] for choice in answer["choices"]] == ["cpu"]  # an override does not help it


def test_a_build_with_a_known_issue_comes_with_the_variables_of_its_workaround() -> None:
    _, answer = described("--gpu", "B300", "--driver", "580.95.05", "--python-version", "3.9")
    best = answer["choices"][0]
    assert (best["torch"], best["env"]) == ("2.8.0", {"TRITON_PTXAS_PATH": "/usr/local/cuda/bin/ptxas"})
    assert any(line.startswith("workaround: Set TRITON_PTXAS_PATH") for line in best["why"])


def test_a_gpu_that_the_driver_has_dropped_is_left_out_beside_one_of_another_vendor() -> None:
    about = ("--driver", "550.54.15", "--python-version", "3.11")
    code, answer = described("--gpu", "K80", "--gpu", "RX 6800", *about)
    assert (code, answer["choices"][0]["build"]) == (0, "rocm7.14")
    assert "has dropped NVIDIA Tesla K80" in answer["notes"][0]


def test_a_jetson_is_sent_to_its_own_wheels() -> None:
    orin = nvidia_gpu("NVIDIA Jetson AGX Orin", "sm_87", integrated=True)
    machine = with_system(
        nvidia_machine(orin, torch=None),
        jetson=known(Jetson(model="Jetson AGX Orin", l4t="36.4.3"), "/proc/device-tree"),
        arch=known("aarch64", "uname"),
    )
    answer = recommend(Situation(machine, MATRIX))
    assert [(choice.level, choice.torch, choice.commands) for choice in answer.choices] == [("manual", None, {})]
    assert "L4T 36.4.3" in " ".join(best(answer).why)
    assert answer.exit_code == 0


def test_an_ngc_image_is_never_given_a_wheel() -> None:
    machine = nvidia_machine(
        BLACKWELL,
        torch=torch("2.6.0a0+df5bbc09d1.nv24.12", build=None, cuda="12.6", origin="ngc"),
        container="docker",
    )
    answer = recommend(Situation(machine, MATRIX))
    assert [choice.origin for choice in answer.choices] == ["ngc"]
    assert "nvcr.io/nvidia/pytorch" in " ".join(best(answer).why)


def test_nix_is_told_its_own_way() -> None:
    machine = with_environment(nvidia_machine(AMPERE, torch=None), interpreter="/nix/store/abc-python3/bin/python")
    answer = recommend(Situation(machine, MATRIX))
    assert [choice.origin for choice in answer.choices] == ["nix"]
    assert "cudaSupport" in " ".join(best(answer).why)


def test_conda_gets_conda_forge() -> None:
    patient = torch("2.6.0", build=None, cuda="12.6", origin="conda-forge")
    machine = with_environment(nvidia_machine(BLACKWELL, torch=patient), kind="conda", prefix="/opt/conda/envs/gpu")
    choice = best(recommend(Situation(machine, MATRIX)))
    assert choice.origin == "conda-forge"
    assert choice.commands["conda"][:5] == ("conda", "install", "-y", "-p", "/opt/conda/envs/gpu")
    assert choice.commands["conda"][-1] == "cuda-version>=12.8,<14"
    assert choice.commands["pixi"][:2] == ("pixi", "add")
    assert choice.commands["pixi_toml"] == ("[system-requirements]", 'cuda = "13"')  # else pixi takes the CPU build
    assert "pip" not in choice.commands


def test_a_distributions_python_gets_a_venv() -> None:
    machine = with_environment(nvidia_machine(AMPERE, torch=None), externally_managed=True, kind="system")
    commands = best(recommend(Situation(machine, MATRIX))).commands
    assert commands["venv"][1:] == ("-m", "venv", ".venv-gpu")
    assert commands["pip"][0] == ".venv-gpu/bin/python"
    assert commands["uv_venv"] == ("uv", "venv", ".venv-gpu")
    assert commands["uv"][3:5] == ("--python", ".venv-gpu/bin/python")


def test_a_torch_in_the_users_own_site_is_left_alone_for_a_venv() -> None:
    """Every environment of that Python sees it: `recommend` crashed here once."""
    copy = TorchCopy(path="/home/user/.local/lib/python3.12/site-packages/torch", version="2.6.0", via="user site")
    machine = with_environment(with_torch(nvidia_machine(AMPERE), copies=(copy,)), kind="system")
    commands = best(recommend(Situation(machine, MATRIX))).commands
    assert commands["venv"][1:] == ("-m", "venv", ".venv-gpu")
    assert commands["pip"][0] == ".venv-gpu/bin/python"
    assert commands["uv"][3:5] == ("--python", ".venv-gpu/bin/python")


# --- commands ----------------------------------------------------------------------------------------


def test_companions_come_only_when_asked_for_or_installed() -> None:
    machine = nvidia_machine(PASCAL, driver="550.54.14", torch=None)
    assert not any("torchvision" in part for part in best(recommend(Situation(machine, MATRIX))).commands["pip"])
    asked = best(recommend(Situation(machine, MATRIX), companions=("torchvision",))).commands
    assert any(part.startswith("torchvision==0.") for part in asked["pip"])
    assert any("torchvision" in line for line in asked["pyproject_toml"])
    had = nvidia_machine(PASCAL, driver="550.54.14", torch=torch("2.6.0+cu124"), packages={"torchvision": "0.21.0"})
    assert any(part.startswith("torchvision==0.") for part in best(recommend(Situation(had, MATRIX))).commands["pip"])


def test_a_uv_project_names_the_index_and_what_else_lies_there() -> None:
    gpu = amd_gpu("AMD Instinct MI300X", "gfx942")
    lines = best(recommend(Situation(amd_machine(gpu, torch=None), MATRIX))).commands["pyproject_toml"]
    text = "\n".join(lines)
    assert text.startswith("[tool.uv.sources]\ntorch = { index = ")
    assert "triton-rocm = { index = " in text
    assert "[[tool.uv.index]]" in text
    assert lines[-1] == "explicit = true"


def test_device_code_of_amds_index_is_asked_for_in_project_files_too() -> None:
    gpu = amd_gpu("AMD Radeon RX 6700 XT", "gfx1031")
    commands = best(recommend(Situation(amd_machine(gpu, torch=None), MATRIX))).commands
    assert "torch[device-gfx1031]==" in commands["uv_add"][-1]
    assert "explicit = true" not in commands["pyproject_toml"]  # its ROCm distributions lie there, too
    assert any('extras = ["device-gfx1031"]' in line for line in commands["pixi_toml"])


def test_the_active_environment_is_just_python() -> None:
    machine = nvidia_machine(PASCAL, torch=None, variables={"VIRTUAL_ENV": "/venv"})
    commands = best(recommend(Situation(machine, MATRIX))).commands
    assert commands["pip"][:4] == ("python", "-m", "pip", "install")
    assert commands["uv"][:4] == ("uv", "pip", "install", "--default-index")
    other = best(recommend(Situation(nvidia_machine(PASCAL, torch=None), MATRIX))).commands
    assert other["pip"][0] == "/venv/bin/python"


# --- the command --------------------------------------------------------------------------------------


def test_json_has_the_contract() -> None:
    code, data = described("--gpu", "RTX 5090", "--driver", "570.133.07")
    assert code == 0
    assert data["schema"] == 1
    choice = data["choices"][0]
    assert list(choice) == ["torch", "build", "origin", "index_url", "level", "env", "commands", "why", "package"]
    assert choice["commands"]["pip"][-1] == f"torch=={choice['torch']}+{choice['build']}"
    assert {"pip", "uv"} <= set(choice["commands"])
    assert all(set(row) == {"torch", "build", "why", "package"} for row in data["rejected"])


def test_a_mirror_takes_the_place_of_the_index(tmp_path: Path) -> None:
    overlay = tmp_path / "site.yaml"
    overlay.write_text("wheel_index: {base: https://mirror.example/whl}\n")
    _, data = described("--gpu", "GTX 1080 Ti", "--driver", "550.54.14", "--matrix", str(overlay))
    assert data["choices"][0]["index_url"] == "https://mirror.example/whl/cu126"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--gpu", "GTX 1080 Ti", "--driver", "580.95.05"), 0, "Best: torch 2."),
        (("--gpu", "GTX 1080 Ti", "--driver", "595.10"), 1, "No torch build works with NVIDIA GeForce GTX 1080 Ti"),
        (("--gpu", "gfx1250"), 1, "build torch"),
    ],
)
def test_text_leads_with_what_to_do(arguments: tuple[str, ...], code: int, said: str) -> None:
    found, text = run("--python-version", "3.12", *arguments)
    assert found == code
    assert said in text
    assert "Why not the others:" in text
    assert "a ROCm build" in text or "a CUDA build" in text


def test_a_name_that_means_nothing_is_bad_input() -> None:
    from gpudoctor.cli import run as command_line

    assert command_line(["recommend", "--gpu", "RTX 9999"]) == 2


def test_what_the_old_build_leaves_in_the_way_is_taken_out_first():
    """A triton of another name owns the same folder: removed later, it would take the new one's files along."""
    left = nvidia_machine(torch=torch("2.9.1+rocm6.4"), packages={"pytorch-triton-rocm": "3.5.1"})
    commands = best(recommend(Situation(left, MATRIX))).commands
    assert list(commands)[:2] == ["pip_first", "pip"]
    assert commands["pip_first"][2:] == ("pip", "uninstall", "-y", "pytorch-triton-rocm")
    assert commands["uv_first"][:3] == ("uv", "pip", "uninstall")
    assert "pip_first" not in best(recommend(Situation(nvidia_machine(torch=torch("2.9.1+cpu")), MATRIX))).commands


# --- torchvision and torchaudio, wherever the torch comes from ----------------------------------------

BOTH = ("torchvision", "torchaudio")


def test_condas_solver_pairs_what_is_asked_for() -> None:
    patient = torch("2.6.0", build=None, cuda="12.6", origin="conda-forge")
    machine = with_environment(nvidia_machine(BLACKWELL, torch=patient), kind="conda", prefix="/opt/conda/envs/gpu")
    choice = best(recommend(Situation(machine, MATRIX), companions=BOTH))
    assert choice.commands["conda"][-2:] == BOTH


@pytest.mark.parametrize(
    ("version", "origin", "told"),
    [("2.9.0a0+nv25.10", "ngc", "the one in the image"), ("2.9.0a0+git1234", "source", "build it from source")],
)
def test_where_a_person_installs_torch_it_is_said_how_the_others_come(version: str, origin: str, told: str) -> None:
    machine = nvidia_machine(BLACKWELL, torch=torch(version, build=None, origin=origin))
    answer = recommend(Situation(machine, MATRIX), companions=BOTH)
    by_hand = next(choice for choice in answer.choices if choice.level == "manual")
    assert [name for name in BOTH if any(line.startswith(name) and told in line for line in by_hand.why)] == [*BOTH]
    alone = recommend(Situation(machine, MATRIX))
    assert not any("torchvision" in line for choice in alone.choices for line in choice.why)


def test_a_companion_that_is_not_known_for_a_release_is_said_to_be_missing() -> None:
    release = MATRIX.torch.newest_torch()
    rows = tuple(row for row in MATRIX.tables.companions if row.torch != release)
    answer = recommend(
        Situation(nvidia_machine(BLACKWELL), type(MATRIX)(change(MATRIX.tables, companions=rows))), companions=BOTH
    )
    newest = next(choice for choice in answer.choices if choice.torch == release)
    assert sum("no release of torch" in line and "is known" in line for line in newest.why) == 2


def test_an_override_takes_them_along() -> None:
    code, answer = described("--gpu", "RX 6700 XT", "--with", "torchvision")
    override = next(choice for choice in answer["choices"] if choice["level"] == "override")
    assert code == 0 and any("torchvision" in word for word in override["commands"]["pip"])


# --- GPUs that no driver serves together ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("older", "newer"), [("GTX 1080", "RTX 5090"), ("K80", "RTX 4090"), ("Tesla V100 16GB", "GH200")]
)
def test_described_gpus_that_no_driver_serves_together(older: str, newer: str) -> None:
    """A build for one of them is no answer for a script that asked for both; `whatif` calls it an error, too."""
    code, answer = described("--gpu", older, "--gpu", newer)
    notes = " ".join(answer["notes"])
    assert code == 1 and "no single driver supports all GPUs" in notes and "(no one driver supports all)" in notes
    result = CliRunner().invoke(
        gpudoctor, ["whatif", "--gpu", older, "--gpu", newer, "--format", "json"], standalone_mode=False
    )
    report = json.loads(result.stdout)
    assert report["exit_code"] == 1
    assert "one driver cannot support both" in report["findings"][0]["message"]
    assert "no one driver supports all" in report["findings"][0]["fixes"][0]["title"]


@pytest.mark.parametrize(("one", "other"), [("GTX 1080", "RTX 3090"), ("RTX 3090", "RX 7900 XTX")])
def test_described_gpus_that_go_together_are_no_problem(one: str, other: str) -> None:
    result = CliRunner().invoke(
        gpudoctor, ["whatif", "--gpu", one, "--gpu", other, "--format", "json"], standalone_mode=False
    )
    assert json.loads(result.stdout)["verdict"] == "ok"


@pytest.mark.parametrize(("gpu", "why"), [("MI300X", ""), ("RX 7900 XTX", ""), ("8060S", "is not known to have")])
def test_rocblas_of_rocm_7_0_has_the_targets_of_the_releases_around_it(gpu: str, why: str) -> None:
    _, data = described("--gpu", gpu)
    (row,) = [row for row in data["rejected"] if (row["torch"], row["build"]) == ("2.10.0", "rocm7.0")]
    assert why in row["why"] if why else "rocBLAS" not in row["why"]


def test_a_kernel_with_a_known_issue_is_told_with_the_best_build() -> None:
    _, data = described("--gpu", "8060S", "--kernel", "6.14.0")
    assert any("kernels before 6.18.4" in note for note in data["notes"])
    for other in (
        ("--gpu", "8060S", "--kernel", "6.18.9"),
        ("--gpu", "8060S"),
        ("--gpu", "MI300X", "--kernel", "6.14.0"),
    ):
        assert not any("6.18.4" in note for note in described(*other)[1]["notes"])


def test_a_build_for_the_kernel_driver_comes_first() -> None:
    code, data = described("--gpu", "MI300X", "--driver", "6.3.6")
    assert (code, data["choices"][0]["build"]) == (0, "rocm6.2.4")
    whys = {(row["torch"], row["build"]): row["why"] for row in data["rejected"]}
    assert "AMD does not test ROCm 7.14 with it" in whys["2.14.1", "rocm7.14"]
    _, data = described("--gpu", "MI300X", "--driver", "31.40.0")
    assert (data["choices"][0]["torch"], data["choices"][0]["build"]) == ("2.14.1", "rocm7.14")


@pytest.mark.parametrize(
    ("machine", "title"),
    [
        (("MI300X", "6.3.6", "3.14"), "Install a current AMD kernel driver, then torch 2.14.1+rocm7.14"),
        (("RX 5700 XT", "6.7.0", "3.13"), "Install a current AMD kernel driver, then torch 2.13.0+rocm7.14.0"),
        # Only older builds have a wheel, and the driver is too new for them.
        (("MI325X", "6.12.12", "3.8"), "Make a new environment with another Python"),
    ],
)
def test_no_build_is_recommended_that_the_kernel_driver_does_not_run(machine, title) -> None:
    gpu, driver, python = machine
    code, data = described("--gpu", gpu, "--driver", driver, "--python-version", python)
    assert (code, [choice["level"] for choice in data["choices"]]) == (1, ["cpu"])
    fix = data["otherwise"][0]
    assert fix["title"] == title
    assert [step["text"] for step in fix["steps"] if step["kind"] == "manual"].count("Reboot.") == ("driver" in title)


def test_a_gpu_that_the_driver_has_dropped_is_left_out_beside_one_that_works() -> None:
    code, data = described("--gpu", "RTX 3090", "--gpu", "GTX 1080 Ti", "--driver", "590.48.01")
    assert (code, data["choices"][0]["build"], data["choices"][0]["level"]) == (0, "cu132", "native")
    assert any("GTX 1080 Ti (sm_61) is left out: driver 590.48.01 has dropped" in note for note in data["notes"])
    code, data = described("--gpu", "RTX 5090", "--gpu", "RTX 3090", "--driver", "545.29.06")
    assert (code, data["choices"][0]["level"]) == (1, "cpu")  # the newer GPU is no display GPU, nor in a container
    code, _ = described("--gpu", "RTX 3060", "--gpu", "B300", "--driver", "560.35.05", "--container", "podman")
    assert code == 1


def test_a_jetson_has_no_unknown_driver() -> None:
    _, text = run("--gpu", "Jetson AGX Orin", "--python-version", "3.10")
    assert "driver unknown" not in text and "NVIDIA driver of Jetson Linux" in text


# --- WSL -------------------------------------------------------------------------------------------

WSL = ("--kernel", "6.6.87.2-microsoft-standard-WSL2")


@pytest.mark.parametrize("gpu", ["RX 6700 XT", "RX 6800", "RX 7600", "RX 580", "MI100"])
def test_no_torch_and_no_override_reaches_a_gpu_that_rocm_does_not_support_in_wsl(gpu: str) -> None:
    code, data = described("--gpu", gpu, *WSL)
    assert (code, [choice["level"] for choice in data["choices"]]) == (1, ["cpu"])
    assert [fix["title"] for fix in data["otherwise"]] == ["Run on native Linux or Windows"]


def test_a_build_for_wsl_comes_with_what_it_needs_there() -> None:
    code, data = described("--gpu", "RX 7900 XTX", *WSL)
    of_rocm = [choice for choice in data["choices"] if choice["level"] == "native"]
    assert code == 0
    assert all(any("librocdxg" in why for why in choice["why"]) for choice in of_rocm)
    assert {"HSA_ENABLE_DXG_DETECTION": "1"} in [choice["env"] for choice in of_rocm]
    whys = {f"{row['torch']}+{row['build']}": row["why"] for row in data["rejected"]}
    assert whys["2.9.1+rocm6.4"].startswith("the ROCm runtime in it finds no GPU inside WSL")
    assert whys["2.2.2+rocm5.6"] == whys["2.9.1+rocm6.4"]
    assert whys["2.12.1+rocm7.2"].startswith("known issue: these wheels bring librocprofiler-sdk")
    _, native = described("--gpu", "RX 7900 XTX", "--kernel", "6.14.0-37-generic")
    assert not any("WSL" in json.dumps(choice) for choice in native["choices"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--gpu", "RX 9070 XT"), "training (LoRA) faults in hipBLASLt"),
        (
            ("--gpu", "RX 7900 XTX", "--kernel", "6.6.87.2-microsoft-standard-WSL2", "--os", "ubuntu-24.04"),
            "amd-torch-device-gfx11==2.12.0+rocm7.14.0",
        ),
    ],
)
def test_what_check_would_note_of_a_build_is_told_with_it(arguments: tuple[str, ...], told: str) -> None:
    _, data = described(*arguments)
    (why,) = (why for why in data["choices"][0]["why"] if told in why)
    assert why.startswith("known issue with some workloads: ")


def test_a_requirement_that_no_build_is_chosen_by_is_told() -> None:
    _, data = described("--gpu", "RTX 4090", "--require", "gpu.memory>=70GiB", "--require", "torch<2.8")
    assert [note.partition(" ")[0] for note in data["notes"] if "decide" in note] == ["gpu.memory>=70GiB"]


# --- what `whatif` says of the same machine ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--gpu RTX~5070 --gpu A2 --driver 535.183.01 --os ubuntu-18.04 --python-version 3.12", "Driver 580"),
        ("--gpu RTX~5070 --gpu A2 --driver 580.95.05 --os ubuntu-18.04 --python-version 3.12", "newer distribution"),
        ("--gpu RTX~5070 --gpu A2 --driver 580.95.05 --python-version 3.8", "another Python"),
        ("--gpu RX~9070 --gpu RX~6800 --python-version 3.8", "another Python"),
        ("--gpu MI355X --os debian-12 --python-version 3.10", "Upgrade to debian-13"),
        ("--gpu MI355X --os ubuntu-20.04 --python-version 3.10", "Upgrade to ubuntu-24.04"),
    ],
)
def test_a_gpu_is_not_left_out_for_what_another_python_or_system_changes(options: str, words: str) -> None:
    code, text = run(*NO_CONTAINER, *(word.replace("~", " ") for word in options.split()))
    assert code == 1
    assert words in text


@pytest.mark.parametrize(
    "options",
    [
        "--gpu RTX~4090 --gpu GTX~1080 --driver 580.95.05 --python-version 3.14",
        "--gpu MI355X --os ubuntu-24.04 --python-version 3.10",
        "--gpu MI355X --os debian-12 --container docker --python-version 3.10",
    ],
)
def test_an_older_gpu_is_left_out_and_a_distribution_is_only_judged_by_its_own_kernel(options: str) -> None:
    assert run(*(word.replace("~", " ") for word in options.split()))[0] == 0


@pytest.mark.parametrize(("gpu", "second"), [("RX 9070 XT", "rocm7.0"), ("RX 7900 XTX", None)])
def test_a_build_without_the_known_issue_of_the_best_one_comes_next(gpu: str, second: str | None) -> None:
    """The one that the issue names: "Use ROCm 10.1 or newer, or 7.0"."""
    _, answer = described("--gpu", gpu)
    best, *others = answer["choices"]
    assert any("known issue" in why for why in best["why"]) is (second is not None)
    spared = [one for one in others if "without the known issue of the build above" in one["why"]]
    assert [one["build"] for one in spared] == ([second] if second else [])
    assert spared == others[: len(spared)]
