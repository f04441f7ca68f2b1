"""Companions of torch, packages compiled against it, NumPy, Triton's headers."""

from __future__ import annotations

import re

import pytest

from gpudoctor.machine import DamagedFile, Extension, InterruptedInstall, absent, known, unknown
from tests.support.check_cases import found
from tests.support.hosts import Host
from tests.support.judging import finding, judged, remedies, severity, told
from tests.support.machines import (
    amd_machine,
    change,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
    with_system,
)


def machine(build="2.9.1+cu128", **packages):
    named = {name.replace("_", "-"): version for name, version in packages.items()}
    return nvidia_machine(torch=torch(build), packages=named)


def listed(base, name, **parts):
    """The machine with fields of one installed distribution replaced."""
    found = base.environment.value.distributions
    own = tuple(change(d, **parts) if d.name == name else d for d in found.value)
    return with_environment(base, distributions=known(own, found.source))


# --- torchvision and torchaudio ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "version", "weight"),
    [
        ("2.9.1+cu128", "0.24.1+cu128", None),
        ("2.9.1+cu128", "0.24.1", None),
        ("2.9.1+cu128", "0.21.0+cu124", "error"),
        ("2.9.1+cu128", "0.24.0+cu128", None),
        ("2.9.1+cu128", "0.24.1+cu126", None),
        ("2.9.1+cu128", "0.24.1+cu118", "error"),
        ("2.9.1+cu128", "0.24.1+cpu", "error"),
        ("2.9.1+cu128", "0.24.1+rocm6.4", "error"),
        ("2.9.1+rocm6.4", "0.24.1", "error"),
        ("2.9.1+rocm6.4", "0.24.1+rocm6.4", None),
        ("2.11.0+cu126", "0.26.0", "error"),
        ("2.15.0+cu130", "0.29.2", None),
        ("2.14.0+cu126", "0.29.2", "error"),
        ("2.14.0+cu126", "0.29.2+cu126", None),
        ("2.14.1+cu130", "0.29.1+cpu", "error"),
        ("2.99.0+cu140", "0.41.0", None),
    ],
)
def test_torchvision_by_version_and_build(build, version, weight):
    assert dict(told(machine(build, torchvision=version), "GPD420")).get("torchvision-mismatch") == weight


def test_the_partner_comes_from_the_index_of_torch():
    found = finding(machine(torchvision="0.21.0+cu124"), "torchvision-mismatch")
    remedy = found.fixes[0].remedies[0]
    assert (remedy.specifier, remedy.local) == ("==0.24.1", "cu128")
    assert remedy.index_url == "https://download.pytorch.org/whl/cu128"
    plain = nvidia_machine(torch=torch("2.9.1", cuda="12.8", build="cu128"), packages={"torchvision": "0.21.0"})
    remedy = finding(plain, "torchvision-mismatch").fixes[0].remedies[0]
    assert (remedy.specifier, remedy.local, remedy.index_url) == ("==0.24.1", "", "")


@pytest.mark.parametrize(
    ("build", "version", "weight"),
    [
        ("2.9.1+cu128", "2.9.1+cu128", None),
        ("2.9.1+cu128", "2.6.0+cu124", "error"),
        ("2.13.0+cu130", "2.11.0+cu130", None),
        ("2.13.0+cu130", "2.11.0+cu128", "error"),  # it compares the CUDA it was compiled with at import
        ("2.13.0+cu130", "2.11.0+cpu", None),
        ("2.15.0+cu130", "2.11.0", None),
        ("2.0.1+cu118", "2.0.2", "error"),  # the package index's own is for CUDA 11.7
        ("2.0.1+cu117", "2.0.2", None),
        ("2.10.0+cu128", "2.11.0", "error"),
    ],
)
def test_torchaudio_whose_last_release_serves_all_later_torch(build, version, weight):
    assert dict(told(machine(build, torchaudio=version), "GPD421")).get("torchaudio-mismatch") == weight


@pytest.mark.parametrize(
    "origin", ["ngc", "source", "conda-forge", "conda", "distribution", "jetson", "amd", "nightly"]
)
def test_other_origins_bring_pairs_of_their_own(origin):
    own = torch("2.9.1", origin=origin, cuda="12.8", build="cu128")
    found = nvidia_machine(torch=own, packages={"torchvision": "0.21.0a0", "torchaudio": "2.1.0"})
    if origin in ("conda-forge", "conda", "distribution", "nightly"):
        found = listed(found, "torchaudio", installer="conda" if "conda" in origin else "")
    assert not [slug for slug, _ in told(found) if slug.endswith("-mismatch")]


@pytest.mark.parametrize(
    ("origin", "version", "installer", "vision", "weight"),
    [
        ("conda-forge", "2.8.0", "pip", "0.24.1", "error"),
        ("conda-forge", "2.8.0", "pip", "0.23.0", None),
        ("conda-forge", "2.8.0", "conda", "0.24.1", None),
        ("distribution", "2.6.0", "uv", "0.20.1", "error"),
        ("nightly", "2.10.0.dev20251101+cu130", "pip", "0.24.1", "error"),
        ("nightly", "2.10.0.dev20251101+cu130", "pip", "0.25.0.dev20251101+cu130", None),
        ("nightly", "2.16.0.dev20261120+cu130", "pip", "0.29.1", None),
        ("source", "2.8.0", "pip", "0.24.1", None),
        ("ngc", "2.9.0a0+145a3a7bda.nv25.10", "pip", "0.23.0", None),
    ],
)
def test_a_torchvision_of_the_index_beside_a_torch_from_elsewhere(origin, version, installer, vision, weight):
    own = torch(version, origin=origin, cuda="12.9")
    found = listed(nvidia_machine(torch=own, packages={"torchvision": vision}), "torchvision", installer=installer)
    assert dict(told(found, "GPD420")).get("torchvision-mismatch") == weight


def test_a_plain_torchvision_on_aarch64_or_from_elsewhere_is_not_judged_by_its_build():
    base = machine("2.11.0+cu126", torchvision="0.26.0")
    arm = with_system(base, arch=known("aarch64", "uname"))
    assert told(arm, "GPD420") == []
    local = listed(base, "torchvision", direct_url="file:///wheels/torchvision-0.26.0.whl")
    assert told(local, "GPD420") == []


def test_a_wrong_torch_is_told_before_its_companions():
    wrong = nvidia_machine(
        nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120"),
        torch=torch("2.6.0+cu124"),
        packages={"torchvision": "0.20.0"},
    )
    assert [slug for slug, _ in told(wrong)] == ["torch-no-arch-for-gpu", "torchvision-mismatch"]


# --- NumPy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "numpy", "weight"),
    [("2.2.2+cu121", "2.1.3", "error"), ("2.2.2+cu121", "1.26.4", None), ("2.3.0+cu121", "2.0.0", None)],
)
def test_numpy_2_needs_torch_2_3(build, numpy, weight):
    found = machine(build, numpy=numpy)
    assert severity(found, "numpy2-old-torch") == weight
    if weight:
        assert remedies(found, "numpy2-old-torch") == ["ReplacePackage numpy<2"]


# --- compiled against torch --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requires", "build", "weight"),
    [
        (("torch==2.5.1",), "2.9.1+cu128", "error"),
        (("torch==2.9.0",), "2.9.1+cu128", "warning"),
        (("torch==2.9.1",), "2.9.1+cu128", None),
        (("torch>=2.10",), "2.10.0+cu128", None),
        (("torch>=2.10",), "2.9.1+cu128", "error"),
        (("torch<3,>=2.3",), "2.9.1+cu128", None),
        (("torch==2.9.1+cu128",), "2.9.1+cu128", None),
        (('torch==2.5.1; sys_platform == "win32"',), "2.9.1+cu128", None),
        (("torch",), "2.9.1+cu128", None),
    ],
)
def test_xformers_by_the_torch_that_it_requires(requires, build, weight):
    base = machine(build, xformers="0.0.99")
    assert severity(listed(base, "xformers", requires=requires), "xformers-mismatch") == weight


@pytest.mark.parametrize(("undefined", "wanted"), [(("_ZN3c10E",), ["torch ==2.5.1"]), ((), [])])
def test_the_build_record_tells_the_torch_where_the_library_does_not_load(undefined, wanted):
    """One with a stable interface loads beside another torch than that of its record."""
    base = listed(machine(xformers="0.0.99"), "xformers", requires=("torch>=2.4",), built_for_torch="2.5.1+cu121")
    library = Extension("xformers", "0.0.99", "/site/xformers/_C.so", of_torch=True, undefined=undefined)
    assert [one.want for one in found(with_environment(base, extensions=(library,)), "xformers-mismatch")] == wanted


@pytest.mark.parametrize(
    ("build", "version", "weight"),
    [("2.3.0+cu121", "2.5.7", "error"), ("2.2.2+cu121", "2.5.7", None), ("2.3.0+cu121", "2.5.8", None)],
)
def test_flash_attn_whose_wheels_came_before_torch_2_3(build, version, weight):
    assert severity(machine(build, flash_attn=version), "flash-attn-abi") == weight


def test_the_matrix_tells_where_a_packages_requirements_do_not():
    found = machine("2.9.1+cu128", vllm="0.20.2")
    assert severity(found, "vllm-torch-abi") == "error"
    assert remedies(found, "vllm-torch-abi")[0] == "torch 2.11.0+cu130"  # its wheel is for CUDA 13
    assert severity(machine("2.11.0+cu130", vllm="0.20.2"), "vllm-torch-abi") is None
    assert severity(machine("2.11.0+cu128", vllm="0.20.2"), "vllm-torch-abi") == "error"
    assert severity(machine("2.11.0+cu129", vllm="0.20.2+cu129"), "vllm-torch-abi") is None
    assert severity(machine("2.9.1+cu128", vllm="0.20.2+nv26.1"), "vllm-torch-abi") is None


def test_a_release_that_the_matrix_does_not_have_is_judged_by_its_own_requirements():
    asked = ("torch==2.8.0", "torchvision==0.23.0", "torchaudio==2.8.0")
    found = listed(machine("2.9.1+cu128", vllm="0.99.0"), "vllm", requires=asked)
    assert severity(found, "vllm-torch-abi") == "error"
    assert remedies(found, "vllm-torch-abi")[0].startswith("torch 2.8.0")
    assert severity(listed(machine("2.8.0+cu128", vllm="0.99.0"), "vllm", requires=asked), "vllm-torch-abi") is None


@pytest.mark.parametrize(
    ("url", "weight"),
    [
        ("https://x.invalid/flash_attn-2.8.3+cu12torch2.7cxx11abiTRUE-cp312-cp312-linux_x86_64.whl", "error"),
        ("https://x.invalid/flash_attn-2.8.3+cu12torch2.9cxx11abiTRUE-cp312-cp312-linux_x86_64.whl", None),
        ("", None),
    ],
)
def test_flash_attn_by_the_name_of_its_wheel(url, weight):
    base = listed(machine(flash_attn="2.8.3"), "flash-attn", direct_url=url, requires=("torch", "einops"))
    assert severity(base, "flash-attn-abi") == weight


def test_bitsandbytes_told_to_use_another_cuda():
    def with_variable(value):
        return change(machine(bitsandbytes="0.48.2"), variables={"BNB_CUDA_VERSION": value})

    assert remedies(with_variable("118"), "bitsandbytes-no-cuda-lib") == ["unset BNB_CUDA_VERSION"]
    assert severity(with_variable("126"), "bitsandbytes-no-cuda-lib") is None
    for value, said in (("12.8", "takes digits alone, as 128"), ("127", "cuda127.so, which it does not have")):
        assert said in finding(with_variable(value), "bitsandbytes-no-cuda-lib").message
    rocm = amd_machine(torch=torch("2.9.1+rocm6.4"), packages={"bitsandbytes": "0.50.2"})
    for value, fails in (("64", False), ("6.4", True), ("70", True), ("61", True)):
        there = change(rocm, variables={"BNB_ROCM_VERSION": value, "BNB_CUDA_VERSION": "118"})
        assert (severity(there, "bitsandbytes-no-cuda-lib") == "error") is fails, value
    cpu = nvidia_machine(torch=torch("2.9.1+cpu"), packages={"bitsandbytes": "0.50.2"})
    assert severity(change(cpu, variables={"BNB_ROCM_VERSION": "64"}), "bitsandbytes-no-cuda-lib") is None
    assert severity(machine(bitsandbytes="0.48.2"), "bitsandbytes-no-cuda-lib") is None


@pytest.mark.parametrize(
    ("build", "version", "runtimes", "expected"),
    [
        ("2.9.1+cu130", "0.45.5", ("cuda124", "cuda128"), "ReplacePackage bitsandbytes==0.50.2"),
        ("2.3.1+cu118", "0.50.2", ("cuda121", "cuda130"), "ReplacePackage bitsandbytes==0.49.2"),
        ("2.2.0+cu121", "0.45.5", ("cuda118", "cuda124", "cuda128"), "ReplacePackage bitsandbytes==0.47.0"),
        ("2.0.1+cu121", "0.38.0", ("cuda118", "cuda124"), "ReplacePackage bitsandbytes==0.45.5"),
        ("2.9.1+cu128", "0.50.2", ("cuda118", "cuda126"), None),
        ("2.9.1+cu128", "0.45.5", ("cuda126", "cuda128"), None),
        ("2.9.1+rocm6.4", "0.50.2", ("cuda128", "rocm64"), None),
        ("2.9.1+rocm6.4", "0.45.5", ("cuda128",), "ReplacePackage bitsandbytes==0.50.2"),
        ("2.9.1+cpu", "0.45.5", ("cuda128",), None),
        ("2.9.1+cu130", "0.45.5", (), "ReplacePackage bitsandbytes==0.50.2"),  # the matrix tells what its wheel has
        ("2.9.1+cu130", "0.45.5+cu130", (), None),
        ("2.9.1+cu130", "0.48.2", (), None),
        ("2.9.1+cu129", "0.46.0", (), "ReplacePackage bitsandbytes==0.50.2"),
        ("2.14.0+cu132", "0.49.2", (), "ReplacePackage bitsandbytes==0.50.2"),
        ("2.12.0+cu129", "0.50.2", (), None),
        ("2.9.1+rocm6.4", "0.48.2", (), "ReplacePackage bitsandbytes==0.50.2"),
        ("2.9.1+rocm6.4", "0.49.2", (), None),
        ("2.9.1+cu130", "0.37.2", (), None),
        (
            "2.3.1+cu121",
            "0.45.5",
            ("cuda118",),
            "ReplacePackage bitsandbytes==0.49.2",
        ),  # newer ones require torch 2.4
        (
            "1.13.1+cu117",
            "0.46.0",
            ("cuda118",),
            "ReplacePackage bitsandbytes==0.44.1",
        ),  # the last that has it for this torch
    ],
)
def test_bitsandbytes_by_the_libraries_that_it_has(build, version, runtimes, expected):
    """None where nothing is found: a release that nobody read, and whose libraries were not seen, is not judged."""
    judged = listed(machine(build, bitsandbytes=version), "bitsandbytes", runtimes=runtimes)
    assert severity(judged, "bitsandbytes-no-cuda-lib") == ("error" if expected else None)
    if expected:
        assert [remedies(judged, "bitsandbytes-no-cuda-lib")[0].split(":")[0]] == [expected]


@pytest.mark.parametrize(
    ("gone", "expected"), [("cuda128", "ReinstallPackage bitsandbytes0.50.2"), ("rocm64", "Manual")]
)
def test_a_bitsandbytes_whose_own_library_is_gone_is_installed_again(gone, expected):
    damaged = (DamagedFile(f"/site/bitsandbytes/libbitsandbytes_{gone}.so", "missing"),)
    base = machine("2.9.1+cu128", bitsandbytes="0.50.2")
    judged = listed(base, "bitsandbytes", runtimes=("cuda118", "cuda130"), damaged=damaged)
    assert remedies(judged, "bitsandbytes-no-cuda-lib")[0].split(":")[0] == expected


def test_the_libraries_of_bitsandbytes_are_read_from_its_folder(tmp_path):
    host = Host(tmp_path / "host").ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu130")
    libraries = ("cpu", "cuda121", "cuda124", "cuda124_nocublaslt")
    files = {f"bitsandbytes/libbitsandbytes_{name}.so": b"x" for name in libraries}
    report = host.package("bitsandbytes", "0.45.5", files=files).check()
    assert [(f["slug"], f["severity"]) for f in report["findings"]] == [("bitsandbytes-no-cuda-lib", "error")]
    assert "CUDA 12.1, CUDA 12.4." in report["findings"][0]["message"]


# --- Triton ------------------------------------------------------------------------------------------------


def test_python_headers_are_missed_only_by_triton_on_a_usable_gpu():
    with_triton = machine(triton="3.5.1")
    assert told(with_environment(with_triton, python_headers=known(False, "/usr/include"))) == [
        ("python-dev-missing", "warning")
    ]
    assert severity(with_environment(with_triton, python_headers=absent("/usr/include")), "python-dev-missing")
    for silent in (
        with_triton,
        with_environment(with_triton, python_headers=unknown("not recorded")),
        with_environment(machine(), python_headers=known(False, "/usr/include")),
        with_environment(
            nvidia_machine(nvidia_gpu(driver=known("vfio-pci", "d")), packages={"triton": "3.5.1"}),
            python_headers=known(False, "/usr/include"),
        ),
    ):
        assert severity(silent, "python-dev-missing") is None
    rocm = amd_machine(packages={"pytorch-triton-rocm": "3.5.1"})
    assert severity(with_environment(rocm, python_headers=known(False, "/usr/include")), "python-dev-missing")


def test_what_goes_together_is_silent():
    together = machine(torchvision="0.24.1+cu128", torchaudio="2.9.1+cu128", numpy="2.3.4", triton="3.5.1")
    assert judged(together).verdict == "ok"


@pytest.mark.parametrize(("triton", "weight"), [("3.1.0", "warning"), ("3.5.0", None), ("3.6.0", None)])
def test_a_triton_older_than_torch_pins(triton, weight):
    machine = nvidia_machine(torch=torch("2.9.1+cu128"), packages={"triton": triton})
    assert dict(told(machine, "GPD431")).get("triton-too-old") == weight


# --- interrupted installs --------------------------------------------------------------------------------


def test_what_an_interrupted_update_left_of_torchvision_is_told_and_the_one_for_this_torch_installed():
    left = InterruptedInstall("torchvision", "0.22.1", "/site/~orchvision-0.22.1.dist-info")
    broken = with_environment(machine(), interrupted=(left,))
    assert severity(broken, "package-install-interrupted") == "warning"
    assert remedies(broken, "package-install-interrupted") == ["ReplacePackage torchvision==0.24.1"]


def test_a_package_without_its_metadata_is_installed_again():
    path = "/venv/lib/numpy-2.3.5.dist-info"
    broken = listed(machine(numpy="2.3.5"), "numpy", path=path, lacks=("METADATA",))
    assert remedies(broken, "package-install-interrupted") == ["ReinstallPackage numpy2.3.5"]
    folder = listed(machine(numpy="2.3.5"), "numpy", path="/venv/lib/numpy", lacks=("METADATA", "RECORD"))
    assert "package-install-interrupted" not in dict(told(folder))  # it never had a record


def test_a_package_with_the_release_numbers_of_its_framework_is_the_one_that_is_replaced():
    base = nvidia_machine(torch=None, packages={"tensorflow": "2.19.0", "tensorflow-text": "2.18.1"})
    broken = listed(base, "tensorflow-text", requires=("tensorflow<2.19,>=2.18.0",))
    assert remedies(broken, "requirements-incomplete") == ["ReplacePackage tensorflow-text==2.19.*"]


@pytest.mark.parametrize(
    ("release", "requirement", "installed", "weight"),
    [
        ("4.57.1", "huggingface-hub<1.0,>=0.34.0", "1.1.0", "error"),
        ("4.57.1", "huggingface-hub<1.0,>=0.34.0", "0.36.0", None),
        ("5.24.0", "tokenizers<0.24.0,>=0.23.1", "0.22.1", "error"),
        ("4.30.0", "huggingface-hub<1.0,>=0.14.1", "1.1.0", "warning"),
        ("5.24.0", "typer", "", "warning"),
        ("5.24.0", "hf-xet<2.0.0,>=1.1.3", "", None),
    ],
)
def test_transformers_compares_the_releases_that_it_requires(
    release: str, requirement: str, installed: str, weight: str | None
) -> None:
    name = re.split("[<>=]", requirement)[0]
    there = {name: installed} if installed else {}
    base = nvidia_machine(packages={"transformers": release, **there})
    broken = listed(base, "transformers", requires=(requirement,))
    if not installed:
        broken = with_environment(broken, not_installed=(name,))
    assert severity(broken, "requirements-incomplete") == weight
