"""Packages beside torch that have no code for the GPU (GPD427), from their files to the finding."""

from __future__ import annotations

from pathlib import Path

from gpudoctor.host import LiveHost
from gpudoctor.machine import Distribution, ExtensionCode, PythonEnvironment, known
from gpudoctor.probes.extension_code import read_extensions
from tests.support.check_cases import matrix
from tests.support.codeobject_files import container, cuda_library
from tests.support.environments import shared_library, write_distribution
from tests.support.judging import finding, severity, told
from tests.support.machines import amd_gpu, amd_machine, nvidia_gpu, nvidia_machine, torch, with_environment

SLUG = "ext-built-without-gpu-arch"
FLASH = ExtensionCode("flash-attn", "2.7.4", "/site/flash_attn_2_cuda.so", sass=("sm_80", "sm_90"))
BLACKWELL = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120")


def test_torch_is_fine_but_flash_attn_is_not():
    machine = with_environment(nvidia_machine(BLACKWELL, torch=torch("2.9.1+cu128")), extensions=(FLASH,))
    assert told(machine) == [(SLUG, "error")]
    found = finding(machine, SLUG)
    assert (found.saw, found.want) == ("sm_80 sm_90", "sm_120")
    assert "FLASH_ATTENTION_FORCE_BUILD=TRUE FLASH_ATTN_CUDA_ARCHS=120 pip install" in found.fixes[0].remedies[0].text


def test_code_that_runs_on_the_gpu_is_silent():
    ada = with_environment(nvidia_machine(nvidia_gpu(), torch=torch("2.9.1+cu128")), extensions=(FLASH,))
    assert told(ada) == []


def test_ptx_serves_a_newer_gpu_and_vllm_is_named_by_compute_capability():
    ptx = ExtensionCode("vllm", "0.9", "/site/vllm/_C.abi3.so", sass=("sm_80",), ptx=("compute_90",))
    machine = nvidia_machine(BLACKWELL, torch=torch("2.9.1+cu128"))
    assert severity(with_environment(machine, extensions=(ptx,)), SLUG) != "error"
    bare = ExtensionCode("vllm", "0.9", "/site/vllm/_C.abi3.so", sass=("sm_80",))
    found = finding(with_environment(machine, extensions=(bare,)), SLUG)
    assert "TORCH_CUDA_ARCH_LIST=12.0 " in found.fixes[0].remedies[0].text


def test_a_gpu_that_torch_does_not_serve_is_torchs_own_finding():
    machine = with_environment(nvidia_machine(BLACKWELL, torch=torch("2.6.0+cu124")), extensions=(FLASH,))
    assert SLUG not in dict(told(machine))


def test_no_build_is_proposed_for_a_gpu_that_the_source_leaves_out():
    turing = nvidia_machine(nvidia_gpu("NVIDIA Tesla T4", "sm_75"), torch=torch("2.9.1+cu128"))
    text = finding(with_environment(turing, extensions=(FLASH,)), SLUG).fixes[0].remedies[0].text
    assert text.startswith("No build of flash-attn supports this GPU: its source needs sm_80")


def test_one_of_two_served_gpus_is_a_warning():
    gpus = (nvidia_gpu(index=0), nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=1))
    machine = with_environment(nvidia_machine(*gpus, torch=torch("2.9.1+cu128")), extensions=(FLASH,))
    assert severity(machine, SLUG) == "warning"


def test_an_extension_for_amd_has_to_name_the_target():
    machine = amd_machine(amd_gpu(), torch=torch("2.9.1+rocm6.4"))
    wrong = ExtensionCode("flash-attn", "2.7.4", "/site/x.so", gfx=("gfx90a", "gfx942"))
    assert severity(with_environment(machine, extensions=(wrong,)), SLUG) == "error"
    assert (
        "FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE pip"
        in finding(with_environment(machine, extensions=(wrong,)), SLUG).fixes[0].remedies[0].text
    )
    right = ExtensionCode("flash-attn", "2.7.4", "/site/x.so", gfx=("gfx1100",))
    assert SLUG not in dict(told(with_environment(machine, extensions=(right,))))


def test_the_library_that_a_package_computes_with_is_read_and_its_helpers_are_not(tmp_path: Path):
    rare = [container("sm_80")] * 300
    files = {
        "vllm/_C.abi3.so": cuda_library(*rare, container("sm_120")),
        "vllm/_flashmla_C.abi3.so": cuda_library(container("sm_90a")),
        "vllm/cumem_allocator.abi3.so": shared_library(),
    }
    info = write_distribution(tmp_path, "vllm", "0.9.2", files=files)
    environment = PythonEnvironment(distributions=known((Distribution("vllm", "0.9.2", str(info)),), "test"))
    found = read_extensions(LiveHost(), environment, matrix().tables.extension_libraries)
    assert [(e.package, e.version, e.sass) for e in found] == [("vllm", "0.9.2", ("sm_80", "sm_120"))]
    assert found[0].path == str(tmp_path / "vllm/_C.abi3.so")


def test_a_library_that_cannot_be_read_whole_is_not_judged(tmp_path: Path):
    files = {"flash_attn_2_cuda.so": cuda_library(container("sm_80"))[:-400]}
    info = write_distribution(tmp_path, "flash-attn", "2.7.4", files=files)
    environment = PythonEnvironment(distributions=known((Distribution("flash-attn", "2.7.4", str(info)),), "test"))
    assert read_extensions(LiveHost(), environment, matrix().tables.extension_libraries) == ()
