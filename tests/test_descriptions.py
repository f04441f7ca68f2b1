"""What people write of a machine: builds that are none, builds by other makers, WSL, packages, logs, error texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.host import InputError
from tests.support.in_process import invoked


def run(*arguments: str, given: str | None = None) -> str:
    return invoked(*arguments, given=given).stdout


def whatif(*arguments: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(run("whatif", "--format", "json", *arguments))
    return report


def answer(*arguments: str) -> tuple[str | None, int]:
    """The first error, and the exit code."""
    report = whatif(*arguments)
    errors = [finding["slug"] for finding in report["findings"] if finding["severity"] == "error"]
    return next(iter(errors), None), report["exit_code"]


def commands(report: dict[str, Any]) -> str:
    return json.dumps([finding["fixes"] for finding in report["findings"]])


RTX_3090, RTX_4090 = ("--gpu", "RTX 3090"), ("--gpu", "RTX 4090")
WSL = ("--kernel", "5.15.153.1-microsoft-standard-WSL2")


# --- torch --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "torch", "expected"),
    [
        # never published
        ("RTX 4090", "2.6.0+cu121", ("torch-wheel-missing", 1)),
        ("RTX 4090", "2.10.0+cu131", ("torch-wheel-missing", 1)),
        ("RTX 4090", "2.6.5+cu124", ("torch-wheel-missing", 1)),
        ("RTX 4090", "1.12.1+cu118", ("torch-wheel-missing", 1)),
        ("RX 7900 XTX", "2.9.1+rocm7.0", ("torch-wheel-missing", 1)),
        # published, or nobody can know
        ("RTX 4090", "2.9.1+cu129", (None, 0)),
        ("RTX 4090", "2.5.1+cu124.pypi.cudnn", (None, 0)),
        ("RTX 4090", "2.9", (None, 0)),
        ("RTX 4090", "torch==2.9.1+CU128", (None, 0)),
        ("RX 7900 XTX", "2.8.0+rocm7.0.0.git64359f59", (None, 0)),
        ("RTX 4090", "2.11.0.dev20260115+cu130", (None, 0)),
        ("RTX 4090", "2.10.0rc3+cu130", (None, 0)),
        # NVIDIA's images, and torch from source
        ("H100", "2.9.0a0+145a3a7bda.nv25.10", (None, 0)),
        ("V100", "2.9.0a0+145a3a7bda.nv25.10", ("torch-dropped-old-gpu", 1)),
        ("RTX 3090", "2.9.0a0+gitabcdef", (None, 0)),
        # before 1.13
        ("RTX 3090", "1.12.1+cu113", (None, 0)),
        ("RTX 3090", "1.12.1", ("torch-no-arch-for-gpu", 1)),
        ("RTX 3060", "1.7.1+cu101", ("torch-no-arch-for-gpu", 1)),
        ("GTX 1080", "1.8.1+cu111", (None, 0)),
        ("GTX 1080", "1.8.0+cu111", ("torch-dropped-old-gpu", 1)),
        ("Tesla K80", "1.12.1+cu113", (None, 0)),
        ("Tesla K40m", "1.12.1+cu113", ("torch-dropped-old-gpu", 1)),
        ("Tesla K40m", "1.2.0", (None, 0)),
        ("MI100", "1.10.2+rocm4.2", (None, 0)),
        ("RX 6800 XT", "1.10.2+rocm4.2", ("torch-rocm-no-arch-for-gpu", 1)),
    ],
)
def test_a_described_torch(gpu: str, torch: str, expected: tuple[str | None, int]) -> None:
    assert answer("--gpu", gpu, "--torch", torch) == expected


def test_a_build_that_never_was_is_the_only_problem_and_gets_one_that_is() -> None:
    report = whatif(*RTX_4090, "--torch", "2.6.0+cu121")
    (finding,) = report["findings"]
    assert (finding["slug"], report["not_judged"]) == ("torch-wheel-missing", [])
    assert "torch==2.6.0+cu12" in commands(report)


@pytest.mark.parametrize(
    ("torch", "told"),
    [
        ("2.6.0+cu999", r"CUDA 99\.9 is not known; torch 2\.6\.0 has .*cu124"),
        ("2.9.1+rocm99.9", r"ROCm 99\.9 is not known.*rocm6\.4"),
        ("2.9.1+foo", r"\+foo is no build.*cu128"),
        ("2.9.1+cuda12.8", "no build.*cu128"),
        ("2.11.0.dev20260115", "name the build"),
    ],
)
def test_a_build_that_cannot_be_is_refused_with_those_that_are(torch: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as error:
        whatif(*RTX_4090, "--torch", torch)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("torch", "python"), [("2.9.1", "3.12"), ("1.12.1+cu113", "3.10"), ("1.7.0+cu110", "3.8"), ("1.13.1", "3.11")]
)
def test_the_assumed_python_is_one_that_the_torch_has(torch: str, python: str) -> None:
    machine = whatif(*RTX_3090, "--torch", torch)["machine"]
    assert machine["environment"]["value"]["python"]["value"] == python
    assert f"Python {python}" in machine["assumed"]


# --- GPUs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("AMD Radeon Graphics", "rocminfo"),
        ("Radeon(TM) Graphics", "rocminfo"),
        ("NVIDIA Graphics Device", "lspci"),
        ("Intel(R) Arc(TM) A770 Graphics", "Intel"),
        ("Arc B580", "Intel"),
        ("UHD 630", "Intel"),
        ("Apple M2", "Apple"),
        ("Adreno 740", "Qualcomm"),
        ("MTT S80", "Moore Threads"),
        ("Ascend 910B", "Huawei"),
        ("Radeon HD 6970", "before ROCm"),
    ],
)
def test_a_name_that_is_no_gpu_for_us_is_said_to_be_so_without_neighbours(name: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as error:
        whatif("--gpu", name)
    assert "Did you mean" not in str(error.value)


def test_an_ambiguous_name_is_answered_where_the_answer_is_the_same() -> None:
    report = whatif("--gpu", "RTX 6000", "--torch", "2.9.1+cu128")
    assert report["verdict"] == "ok" and any("'RTX 6000'" in said for said in report["machine"]["assumed"])
    with pytest.raises(InputError, match=r"sm_75.*sm_89"):
        whatif("--gpu", "RTX 6000", "--torch", "1.7.1+cu101")


def test_several_gpus_of_one_name() -> None:
    for named in ("8x H100", "H100 x8"):
        assert len(whatif("--gpu", named)["machine"]["gpus"]) == 8
    assert len(whatif("--gpu", "MI25x2")["machine"]["gpus"]) == 1


# --- the system ----------------------------------------------------------------------------------------


def test_a_kernel_of_wsl_is_wsl() -> None:
    healthy = whatif(*RTX_4090, *WSL, "--torch", "2.9.1+cu128")
    assert healthy["verdict"] == "ok" and healthy["machine"]["system"]["wsl"]["value"] == WSL[1]
    assert answer(*RTX_4090, "--kernel", "5.15.0-125-generic", "--torch", "2.9.1+cu128") == (None, 0)


@pytest.mark.parametrize(
    "described",
    [
        (*RTX_4090, "--torch", "2.9.1+cu130", "--driver", "566.36"),
        (*RTX_4090, "--torch", "2.9.1+cu128", "--error", "RuntimeError: Found no NVIDIA driver on your system."),
        (*RTX_4090, "--torch", "2.9.1+cu128", "--error", "RuntimeError: CUDA error: unknown error"),
        ("--gpu", "RX 9070 XT", "--torch", "2.9.1+rocm6.4"),
    ],
)
def test_inside_wsl_no_linux_driver_is_proposed(described: tuple[str, ...]) -> None:
    report = whatif(*described, *WSL, "--os", "ubuntu-22.04")
    assert report["verdict"] == "error"
    steps = commands(report)
    assert "nvidia-driver-" not in steps and "modprobe" not in steps and "amdgpu-dkms" not in steps


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("ubuntu-22.04", "ubuntu"),
        ("Linux Mint 21.3", "linuxmint"),
        ("pop!_os 22.04", "pop"),
        ("Rocky Linux 9.4", "rocky"),
        ("openSUSE Tumbleweed", "opensuse-tumbleweed"),
        ("Debian GNU/Linux 12 (bookworm)", "debian"),
        ("Amazon Linux 2023", "amzn"),
        ("nixos-25.05", "nixos"),
    ],
)
def test_a_distribution_as_people_call_it(text: str, id: str) -> None:
    assert whatif(*RTX_4090, "--os", text)["machine"]["system"]["os"]["value"]["id"] == id


def test_a_distribution_based_on_another_takes_its_packages() -> None:
    old = ("--gpu", "RTX 5090", "--driver", "550.54.14", "--torch", "2.9.1+cu128", "--os")
    assert "nvidia-driver-580-open" in commands(whatif(*old, "linuxmint-22"))
    assert "pacman" in commands(whatif(*old, "endeavouros"))
    assert "mhwd" in commands(whatif(*old, "manjaro"))
    assert "rpm-ostree rebase" in commands(whatif(*old, "bazzite-43"))
    for wrong, told in (("ubunut-22.04", "mean ubuntu"), ("windows-11", "Linux and WSL2")):
        with pytest.raises(InputError, match=told):
            whatif(*old, wrong)


def test_the_processor_that_is_described_or_comes_with_the_gpu() -> None:
    assert answer("--gpu", "H100", "--platform", "linux/arm64", "--torch", "2.9.1") == ("torch-cpu-only", 1)
    assert answer("--gpu", "H100", "--platform", "x86_64", "--torch", "2.9.1") == (None, 0)
    for described in (("--gpu", "Orin", "--platform", "amd64"), (*RTX_4090, "--platform", "windows/amd64")):
        with pytest.raises(InputError, match="--platform"):
            whatif(*described)


def test_an_integrated_gpu_may_be_called_by_its_processor() -> None:
    machine = whatif("--gpu", "Ryzen 7 5700G", "--torch", "2.9.1+rocm6.4")["machine"]
    assert (machine["gpus"][0]["arch"]["value"], machine["gpus"][0]["integrated"]) == ("gfx90c", True)


def test_a_newer_release_of_the_branch_that_is_there_is_named() -> None:
    described = ("--gpu", "RTX 3090", "--torch", "2.9.1", "--kernel", "7.0.0-14-generic", "--driver")
    (old,) = whatif(*described, "580.119.02")["findings"]
    assert (old["slug"], old["fixes"][0]["title"]) == (
        "nvidia-dkms-kernel-mismatch",
        "Update NVIDIA driver 580.119.02 to 580.178.04 or newer",
    )
    assert answer(*described, "580.173.02") == (None, 0)


def test_the_cuda_of_a_driver_without_a_toolkit() -> None:
    windows = ("--kernel", "5.15.167.4-microsoft-standard-WSL2", "--driver", "566.36")
    (old,) = whatif("--gpu", "RTX 3080", "--torch", "2.9.1+cu130", *windows)["findings"]
    assert "it supports CUDA up to 12.7" in old["message"]


def test_a_driver_that_is_given_for_a_jetson_is_said_not_to_count() -> None:
    machine = whatif("--gpu", "Jetson Thor", "--driver", "550.163.01", "--torch", "2.9.1+cu130")["machine"]
    assert any("--driver 550.163.01 is not judged" in one for one in machine["assumed"])


def test_a_driver_older_than_the_chip_is_too_old() -> None:
    old = ("--gpu", "RTX 4060", "--torch", "2.0.1+cu118", "--python-version", "3.10", "--driver")
    assert answer(*old, "520.61.05") == ("driver-too-old", 1)
    assert answer(*old, "525.147.05") == (None, 0)


@pytest.mark.parametrize("build", ["2.9.1+rocm6.4", "2.11.0+rocm7.14.0"])
def test_no_torch_has_rocm_on_arm(build: str) -> None:
    assert answer("--gpu", "MI300X", "--platform", "linux/arm64", "--torch", build) == ("torch-wheel-missing", 1)


def test_a_described_container() -> None:
    inside = whatif(*RTX_4090, "--driver", "470.256.02", "--torch", "2.9.1+cu128", "--container", "docker")
    assert inside["machine"]["system"]["container"]["value"] == "docker"
    assert "apt-get install" not in commands(inside)
    with pytest.raises(InputError, match="kubernetes"):
        whatif(*RTX_4090, "--container", "dokcer")


def test_described_packages() -> None:
    old = (*RTX_4090, "--torch", "2.2.0")
    assert answer(*old, "--package", "numpy==2.0.1") == ("numpy2-old-torch", 1)
    assert answer(*old, "--package", "NumPy==1.26.4") == (None, 0)
    for wrong in ("numpy", "numpy>=2", "torch==2.9.1"):
        with pytest.raises(InputError, match="--package"):
            whatif(*old, "--package", wrong)


# --- what was seen -----------------------------------------------------------------------------------------

NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"


def test_an_error_text_joins_the_cause_that_the_facts_show() -> None:
    (finding,) = whatif("--gpu", "RTX 5090", "--torch", "2.6.0+cu124", "--error", NO_IMAGE)["findings"]
    assert finding["slug"] == "torch-no-arch-for-gpu" and NO_IMAGE in finding["message"]


def test_an_error_text_names_no_build_that_has_code_for_the_gpu() -> None:
    report = whatif(*RTX_4090, "--torch", "2.9.1+cu128", "--error", NO_IMAGE)
    (finding,) = report["findings"]
    assert (finding["slug"], report["exit_code"]) == ("ext-built-without-gpu-arch", 1)
    assert "another library" in finding["message"] and "pip install" not in commands(report)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RuntimeError: CUDA error: unknown error", ("nvidia-uvm-after-suspend", 1)),
        ("RuntimeError: CUDA error: operation not supported", ("error-seen", 1)),
        ("Error 802: system not yet initialized", ("cuda-init-hmm-kaslr", 1)),  # an RTX 4090 has no NVSwitch
        ("ImportError: libcudnn.so.9: cannot open shared object file: No such file", ("torch-import-fails", 1)),
        ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", (None, 3)),
        ("what is this", (None, 3)),
    ],
)
def test_an_error_text_is_never_all_well(text: str, expected: tuple[str | None, int]) -> None:
    assert answer(*RTX_4090, "--torch", "2.9.1+cu128", "--error", text) == expected


def test_an_error_text_of_several_causes_ranks_them_and_ends_in_the_question_that_decides() -> None:
    report = whatif(*RTX_4090, "--torch", "2.9.1+cu128", "--error", "RuntimeError: No CUDA GPUs are available")
    first, second, third = report["findings"]
    assert [first["slug"], first["severity"], first["confidence"]] == ["cuda-visible-devices", "error", "possible"]
    assert [second["slug"], third["slug"]] == ["container-no-gpu", "container-cgroup-revoked"]
    assert {second["severity"], third["severity"]} == {"note"}
    assert "To be sure: `echo $CUDA_VISIBLE_DEVICES" in first["message"]


def test_a_cause_that_the_facts_show_leaves_no_other_possible() -> None:
    described = (*RTX_4090, "--torch", "2.9.1+cu128", "--env", "CUDA_VISIBLE_DEVICES=")
    report = whatif(*described, "--error", "RuntimeError: No CUDA GPUs are available")
    assert [finding["slug"] for finding in report["findings"]] == ["cuda-visible-devices"]


def test_what_a_program_did_itself_is_a_note() -> None:
    error = "RuntimeError: CUDA error: device-side assert triggered"
    (finding,) = whatif(*RTX_4090, "--torch", "2.9.1+cu128", "--error", error)["findings"]
    assert (finding["slug"], finding["severity"]) == ("error-seen", "note")


def test_an_error_text_needs_no_torch() -> None:
    assert answer("--gpu", "RTX 5090", "--error", NO_IMAGE) == ("torch-no-arch-for-gpu", 1)


def test_a_described_kernel_log(tmp_path: Path) -> None:
    log = tmp_path / "dmesg.txt"
    log.write_text("[  100.0] NVRM: Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen off the bus.\n")
    described = (*RTX_4090, "--torch", "2.9.1+cu128", "--kernel-log")
    report = whatif(*described, str(log))
    assert report["exit_code"] == 3 and "fallen off the bus" in report["not_judged"][0]["why"]
    assert report["machine"]["gpus"][0]["bdf"] == "0000:65:00.0"
    log.write_text("[    1.0] nvidia: loading out-of-tree module taints kernel.\n")
    assert answer(*described, str(log)) == (None, 0)
    with pytest.raises(InputError, match="no such file"):
        whatif(*described, "/no/such/file")


def test_a_description_without_a_problem_runs_nothing_here() -> None:
    last = run("whatif", *RTX_4090, "--torch", "2.9.1+cu128").splitlines()[-1]
    assert last == "Next, on that machine: gpudoctor check"
