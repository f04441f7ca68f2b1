"""Packages beside torch that have no code for the GPU (GPD427), from their files to the finding."""

from __future__ import annotations

import posixpath
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.codeobjects.elf import open_elf
from gpudoctor.codeobjects.symbols import SymbolHash, symbol_hash
from gpudoctor.finding import Manual, ReinstallPackage, ReplacePackage
from gpudoctor.host import LiveHost
from gpudoctor.machine import (
    DamagedFile,
    Distribution,
    Extension,
    Gpu,
    Machine,
    MissingLibrary,
    PythonEnvironment,
    known,
)
from gpudoctor.planner.effects import effect
from gpudoctor.probes.extensions import read_extensions
from gpudoctor.situation import Situation
from tests.support.check_cases import found, matrix
from tests.support.codeobject_files import container, cuda_library, elf
from tests.support.environments import shared_library, write_distribution
from tests.support.judging import finding, severity, told
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    no_gpu_machine,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
    with_torch,
)

SLUG = "ext-built-without-gpu-arch"
FLASH = Extension("flash-attn", "2.7.4", "/site/flash_attn_2_cuda.so", sass=("sm_80", "sm_90"), of_torch=True)
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
    ptx = Extension("vllm", "0.9", "/site/vllm/_C.abi3.so", sass=("sm_80",), ptx=("compute_90",), of_torch=True)
    machine = nvidia_machine(BLACKWELL, torch=torch("2.9.1+cu128"))
    assert severity(with_environment(machine, extensions=(ptx,)), SLUG) != "error"
    bare = Extension("vllm", "0.9", "/site/vllm/_C.abi3.so", sass=("sm_80",), of_torch=True)
    found = finding(with_environment(machine, extensions=(bare,)), SLUG)
    assert "TORCH_CUDA_ARCH_LIST=12.0 " in found.fixes[0].remedies[0].text


def test_a_gpu_that_torch_does_not_serve_is_torchs_own_finding():
    machine = with_environment(nvidia_machine(BLACKWELL, torch=torch("2.6.0+cu124")), extensions=(FLASH,))
    assert SLUG not in dict(told(machine))


@pytest.mark.parametrize(
    ("name", "pure", "gpu", "told_of"),
    [
        ("flash-attn", True, "RTX 4090", ["error"]),
        ("mamba-ssm", True, "RTX 4090", ["error"]),
        ("flash-attn", False, "RTX 4090", []),
        ("accelerate", True, "RTX 4090", []),
    ],
)
def test_a_package_that_was_built_without_its_kernels(name, pure, gpu, told_of):
    package = Distribution(name, "2.8.3", f"/v/{name}.dist-info", pure=pure)
    machine = nvidia_machine(nvidia_gpu(gpu))
    machine = with_environment(machine, distributions=known((package,), "/v"))
    found_here = [one for one in found(machine, "ext-built-without-gpu-arch") if "without its kernels" in one.message]
    assert [one.severity for one in found_here] == told_of
    for one in found_here:
        assert "--no-cache-dir" in one.fixes[0].remedies[0].text  # pip would take the wheel that it built before


def test_a_flash_attn_of_triton_for_amd_is_whole():
    package = Distribution("flash-attn", "2.8.3", "/v/flash_attn.dist-info", pure=True)
    machine = with_environment(amd_machine(), distributions=known((package,), "/v"))
    assert found(machine, "ext-built-without-gpu-arch") == []


def test_no_build_is_proposed_for_a_gpu_that_the_source_leaves_out():
    turing = nvidia_machine(nvidia_gpu("NVIDIA Tesla T4", "sm_75"), torch=torch("2.9.1+cu128"))
    text = finding(with_environment(turing, extensions=(FLASH,)), SLUG).fixes[0].remedies[0].text
    assert text.startswith("No build of flash-attn supports this GPU: its source needs sm_80")


def test_no_other_torch_is_proposed_for_a_package_that_supports_none_of_the_gpus():
    pascal, volta = nvidia_gpu("NVIDIA Tesla P100 PCIe 12GB", "sm_60"), nvidia_gpu("NVIDIA Tesla V100", "sm_70")
    vllm = Extension("vllm", "0.19.1", "/site/vllm/_C.abi3.so", sass=("sm_70", "sm_80"), of_torch=True)

    def problems(gpu: Gpu, *extensions: Extension) -> list[str]:
        build, packages = torch("2.9.1+cu126"), {"vllm": "0.19.1"}
        machine = nvidia_machine(gpu, flavour="proprietary", torch=build, packages=packages)
        return [slug for slug, _ in told(with_environment(machine, extensions=extensions))]

    assert problems(volta) == ["vllm-torch-abi"]
    assert problems(pascal, vllm) == problems(pascal) == [SLUG]
    own = Extension("vllm", "0.19.1", "/site/vllm/_C.abi3.so", sass=("sm_60",), of_torch=True)
    assert problems(pascal, own) == ["vllm-torch-abi"]  # of a source that somebody changed
    machine = with_environment(nvidia_machine(pascal, torch=torch("2.9.1+cu126")), extensions=(vllm,))
    text = finding(machine, SLUG).fixes[0].remedies[0].text
    assert "needs sm_70 or newer. Serve the model with Ollama or llama.cpp" in text


def test_one_of_two_served_gpus_is_a_warning():
    gpus = (nvidia_gpu(index=0), nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=1))
    machine = with_environment(nvidia_machine(*gpus, torch=torch("2.9.1+cu128")), extensions=(FLASH,))
    assert severity(machine, SLUG) == "warning"


@pytest.mark.parametrize(
    ("version", "told_of"), [("2.1.2+pt29cpu", 1), ("2.1.2+cpu", 1), ("2.1.2+pt29cu128", 0), ("2.1.2", 0)]
)
def test_a_wheel_for_the_cpu_beside_a_torch_for_gpus_is_a_warning(version, told_of):
    library = Extension("torch-scatter", version, "/site/torch_scatter/_scatter_cpu.so", of_torch=True)
    listed = known((Distribution("torch-scatter", version, "/site/t.dist-info"),), "test")
    patient = with_environment(
        nvidia_machine(torch=torch("2.9.1+cu128")), extensions=(library,), distributions=listed
    )
    problems = found(patient, SLUG)
    assert [one.severity for one in problems] == ["warning"] * told_of
    if told_of:
        assert (
            "torch-scatter -f https://data.pyg.org/whl/torch-2.9.0+cu128.html"
            in problems[0].fixes[0].remedies[0].text
        )
    beside_cpu = with_environment(
        nvidia_machine(torch=torch("2.9.1+cpu")), extensions=(library,), distributions=listed
    )
    assert found(beside_cpu, SLUG) == []


def test_an_extension_for_amd_has_to_name_the_target():
    machine = amd_machine(amd_gpu(), torch=torch("2.9.1+rocm6.4"))
    wrong = Extension("flash-attn", "2.7.4", "/site/x.so", gfx=("gfx90a", "gfx942"), of_torch=True)
    assert severity(with_environment(machine, extensions=(wrong,)), SLUG) == "error"
    assert (
        "FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE pip"
        in finding(with_environment(machine, extensions=(wrong,)), SLUG).fixes[0].remedies[0].text
    )
    right = Extension("flash-attn", "2.7.4", "/site/x.so", gfx=("gfx1100",), of_torch=True)
    assert SLUG not in dict(told(with_environment(machine, extensions=(right,))))


def test_the_alternative_that_loads_decides_and_helpers_for_chosen_gpus_do_not():
    def machine(*extensions: Extension) -> Machine:
        return with_environment(nvidia_machine(nvidia_gpu(), torch=torch("2.9.1+cu128")), extensions=extensions)

    old = Extension("foreign-cu12", "1", "/site/lib_cuda118.so", sass=("sm_89",), missing=(MissingLibrary("x.so"),))
    new = Extension("foreign-cu12", "1", "/site/lib_cuda128.so", sass=("sm_90",))
    assert dict(told(machine(old, new)))[SLUG] == "error"
    hopper = Extension("foreign-cu12", "1", "/site/fa3.so", sass=("sm_90a",))
    assert SLUG not in dict(told(machine(hopper)))
    loose = Extension("kernels-cuda", "1", "/site/cubins", sass=("sm_100", "sm_103a"), loose=True)
    assert SLUG not in dict(told(machine(loose)))


def test_a_package_that_also_computes_on_the_cpu_gets_a_warning():
    xgboost = Extension("xgboost", "3", "/site/xgboost/lib/libxgboost.so", sass=("sm_90",))
    named = Extension("onnxruntime-gpu", "1", "/site/onnxruntime/capi/x.so", sass=("sm_90",))
    bare = nvidia_machine(nvidia_gpu(), torch=None)
    assert severity(with_environment(bare, extensions=(xgboost,)), SLUG) == "warning"
    assert severity(with_environment(bare, extensions=(named,)), SLUG) == "error"


def test_an_override_makes_the_code_of_another_gpu_of_the_generation_run():
    rocm = Extension("onnxruntime-rocm", "1", "/site/x.so", gfx=("gfx1030",))
    card = amd_gpu("AMD Radeon RX 6700 XT", "gfx1031")
    bare = with_environment(amd_machine(card, torch=None), extensions=(rocm,))
    assert severity(bare, SLUG) == "error"
    overridden = amd_machine(card, torch=None, variables={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
    assert SLUG not in dict(told(with_environment(overridden, extensions=(rocm,))))


# --- the libraries that a package needs --------------------------------------------------------------

LIBRARIES = "framework-cuda-libs-missing"
CUDART = MissingLibrary("libcudart.so.13", "/site/nvidia/cuda_runtime/lib/libcudart.so.12")


def _needing(package: str, path: str, *missing: MissingLibrary, **parts: Any) -> Extension:
    return Extension(package, "1", path, needs=("libcudart.so.13",), missing=missing, **parts)


def _machine(*extensions: Extension, **parts: Any) -> Machine:
    return with_environment(nvidia_machine(nvidia_gpu(), torch=torch("2.9.1+cu128")), extensions=extensions, **parts)


def test_an_extension_for_another_cuda_than_torchs_cannot_be_loaded():
    machine = _machine(_needing("gsplat", "/site/gsplat/_C.so", CUDART, of_torch=True))
    found = finding(machine, LIBRARIES)
    assert (found.severity, found.want, found.saw) == ("error", "libcudart.so.13", "libcudart.so.12")
    assert "for the CUDA of the installed torch" in found.fixes[0].remedies[0].text


@pytest.mark.parametrize(
    ("build", "release", "index"),
    [("2.9.1+cu128", "==0.0.33.post2", ""), ("2.14.1+cu130", "==0.0.35", "https://download.pytorch.org/whl/cu130")],
)
def test_where_an_index_has_the_package_for_torchs_cuda_the_fix_names_it(build: str, release: str, index: str):
    lacking = _needing("xformers", "/site/xformers/_C.so", CUDART, of_torch=True)
    machine = with_environment(nvidia_machine(nvidia_gpu(), torch=torch(build)), extensions=(lacking,))
    (wheel,) = finding(machine, LIBRARIES).fixes[0].remedies
    assert (wheel.name, wheel.specifier, wheel.index_url) == ("xformers", release, index)


def test_a_library_that_torch_has_lost_is_told_of_torch_alone():
    package = _needing("torchvision", "/site/torchvision/_C.so", MissingLibrary("libtorch_cuda.so"), of_torch=True)
    machine = _machine(package)
    assert severity(machine, LIBRARIES) == "error"
    lost = (DamagedFile("/site/torch/lib/libtorch_cuda.so", "missing"),)
    assert severity(with_torch(machine, damaged=lost), LIBRARIES) is None


def test_the_libraries_come_from_where_the_package_says():
    asks = Distribution(
        "onnxruntime-gpu", "1", "/site/x.dist-info", requires=('nvidia-cuda-runtime~=13.0; extra == "cuda"',)
    )
    provider = _needing("onnxruntime-gpu", "/site/onnxruntime/capi/x.so", MissingLibrary("libcudart.so.13"))
    bare = nvidia_machine(nvidia_gpu(), torch=None)
    machine = with_environment(bare, extensions=(provider,), distributions=known((asks,), "test"))
    found = finding(machine, LIBRARIES)
    assert found.severity == "error"
    assert found.fixes[0].remedies == (
        ReplacePackage("nvidia-cuda-runtime", "~=13.0", why="onnxruntime-gpu names it as a source of its libraries"),
    )
    beside = _needing("onnxruntime-gpu", "/site/onnxruntime/capi/x.so", CUDART)
    other = finding(with_environment(bare, extensions=(beside,), distributions=known((asks,), "test")), LIBRARIES)
    assert isinstance(other.fixes[0].remedies[0], Manual)  # a second CUDA would overwrite the first one's cuDNN


@pytest.mark.parametrize(
    ("requires", "named"),
    [
        (("nvidia-cuda-runtime-cu12>=12.1", 'nvidia-cuda-runtime-cu12==12.1.105; extra == "fix-cuda"'), ">=12.1"),
        (("nvidia-cuda-runtime-cu12>=12.1", "nvidia-cudnn-cu12"), None),  # its cuDNN would overwrite torch's
    ],
)
def test_what_a_package_always_requires_brings_its_cuda_beside_another(requires: tuple[str, ...], named: str | None):
    asks = Distribution("faiss-gpu-cu12", "1.14", "/site/x.dist-info", requires=requires)
    library = MissingLibrary("libcudart.so.12", "/site/nvidia/cu13/lib/libcudart.so.13")
    lacking = _needing("faiss-gpu-cu12", "/site/faiss/_swigfaiss.so", library)
    bare = nvidia_machine(nvidia_gpu(), torch=None)
    machine = with_environment(bare, extensions=(lacking,), distributions=known((asks,), "test"))
    remedies = finding(machine, LIBRARIES).fixes[0].remedies
    chosen = [(one.name, one.specifier) for one in remedies if isinstance(one, ReplacePackage)]
    assert chosen == ([("nvidia-cuda-runtime-cu12", named)] if named else [])


def test_beside_a_rocm_torch_a_build_for_rocm_is_asked_for():
    lacking = Extension("gsplat", "1.5", "/site/gsplat/csrc.so", of_torch=True, needs=("libcudart.so.12",),
                        missing=(MissingLibrary("libcudart.so.12"), MissingLibrary("libtorch_cuda.so")))  # fmt: skip
    patient = with_environment(amd_machine(torch=torch("2.9.1+rocm6.4")), extensions=(lacking,))
    fix = finding(patient, LIBRARIES).fixes[0]
    assert fix.title == "Install a build of gsplat for this ROCm"
    assert "for the ROCm of the installed torch" in fix.remedies[0].text


def test_one_alternative_that_loads_is_enough():
    old = _needing("bitsandbytes", "/site/bitsandbytes/libbitsandbytes_cuda118.so", CUDART)
    new = _needing("bitsandbytes", "/site/bitsandbytes/libbitsandbytes_cuda128.so")
    assert LIBRARIES not in dict(told(_machine(old, new)))
    assert severity(_machine(old), LIBRARIES) == "warning"
    lost = DamagedFile("/site/bitsandbytes/libbitsandbytes_cuda128.so", "missing")
    listed = known((Distribution("bitsandbytes", "1", "/site/x.dist-info", damaged=(lost,)),), "test")
    assert LIBRARIES not in dict(told(_machine(old, distributions=listed)))


def test_a_provider_that_nobody_wants_is_silent_until_another_release_of_its_library_is_there():
    works = _needing("onnxruntime-gpu", "/site/onnxruntime/capi/libonnxruntime_providers_cuda.so")
    path = "/site/onnxruntime/capi/libonnxruntime_providers_tensorrt.so"
    unwanted = _needing("onnxruntime-gpu", path, MissingLibrary("libnvinfer.so.10"))
    assert LIBRARIES not in dict(told(_machine(works, unwanted)))
    eleven = MissingLibrary("libnvinfer.so.10", "/site/tensorrt_libs/libnvinfer.so.11")
    wanted = _needing("onnxruntime-gpu", path, eleven)
    assert severity(_machine(works, wanted), LIBRARIES) == "warning"


def test_without_a_gpu_for_it_or_beside_a_cpu_torch_no_library_is_missed():
    lacking = _needing("xformers", "/site/xformers/_C.so", CUDART, of_torch=True)
    cpu = with_environment(nvidia_machine(nvidia_gpu(), torch=torch("2.9.1+cpu")), extensions=(lacking,))
    assert LIBRARIES not in dict(told(cpu))
    listed = known((Distribution("bitsandbytes", "1", "/site/b.dist-info", requires=("torch>=2.4",)),), "test")
    quantizing = (_needing("bitsandbytes", "/site/libbitsandbytes_cuda128.so", CUDART),)
    assert LIBRARIES not in dict(told(with_environment(cpu, extensions=quantizing, distributions=listed)))
    provider = _needing("onnxruntime-gpu", "/site/x.so", CUDART)
    assert LIBRARIES not in dict(told(with_environment(amd_machine(amd_gpu(), torch=None), extensions=(provider,))))
    assert LIBRARIES not in dict(told(with_environment(no_gpu_machine(), extensions=(provider,))))


# --- the torch that a package was compiled against ------------------------------------------------------

MISMATCH = "extension-torch-mismatch"
SYMBOL = "_ZN3c105ErrorC2ENS_14SourceLocationESs"


def test_symbols_that_torch_does_not_define_tell_of_another_torch():
    lacking = Extension("gsplat", "1.5", "/site/gsplat/csrc.so", of_torch=True, undefined=(SYMBOL,))
    listed = known((Distribution("gsplat", "1.5+pt28cu128", "/site/g.dist-info"),), "test")
    found = finding(_machine(lacking, distributions=listed), MISMATCH)
    assert found.severity == "error"
    assert SYMBOL in found.message
    assert isinstance(found.fixes[0].remedies[0], Manual)
    whole = Extension("gsplat", "1.5", "/site/gsplat/csrc.so", of_torch=True)
    assert MISMATCH not in dict(told(_machine(whole, distributions=listed)))


@pytest.mark.parametrize(
    ("name", "version", "url", "command"),
    [
        (
            "torch-sparse",
            "0.6.18+pt28cu128",
            "",
            "pip install --force-reinstall --no-deps torch-sparse -f https://data.pyg.org/whl/torch-2.9.0+cu128.html",
        ),
        (
            "acme",
            "1",
            "file:///home/me/my%20src",
            "pip install --no-build-isolation --no-deps --force-reinstall -e '/home/me/my src'",
        ),
        ("acme", "1", "", "compile it here"),
    ],
)
def test_a_build_for_this_torch_is_named_with_its_command(name, version, url, command):
    lacking = Extension(name, version, "/site/x.so", of_torch=True, undefined=(SYMBOL,))
    listed = known((Distribution(name, version, "/site/x.dist-info", direct_url=url),), "test")
    fixes = finding(_machine(lacking, distributions=listed), MISMATCH).fixes
    assert command in fixes[0].remedies[0].text
    assert ["torch 2.8" in fix.title for fix in fixes[1:]] == ([True] if "pt28" in version else [])


def _listed(version: str, build: str) -> Machine:
    """A torch and a package of which a person told the versions alone."""
    gpu = amd_gpu() if "rocm" in build else nvidia_gpu()
    machine = (amd_machine if "rocm" in build else nvidia_machine)(gpu, torch=torch(build))
    return with_environment(
        machine, distributions=known((Distribution("torch-scatter", version, "text, line 7"),), "test")
    )


@pytest.mark.parametrize(
    ("version", "build", "slugs"),
    [
        ("2.1.2+pt28cu128", "2.9.1+cu128", [MISMATCH]),
        ("2.1.2+pt29cu128", "2.9.1+cu128", []),
        ("2.1.2", "2.9.1+cu128", []),
        ("2.1.2+pt29cpu", "2.9.1+cu128", [SLUG]),
        ("2.1.2+pt28cpu", "2.9.1+cpu", [MISMATCH]),
        ("2.1.2+pt29cpu", "2.9.1+cpu", []),
    ],
)
def test_the_version_of_a_listed_package_tells_its_torch(version: str, build: str, slugs: list[str]) -> None:
    known_ones = dict(told(_listed(version, build)))
    assert [slug for slug in (MISMATCH, SLUG) if slug in known_ones] == slugs


def test_no_page_of_wheels_is_named_for_a_build_that_it_has_none_for() -> None:
    text = finding(_listed("2.1.2+pt28cpu", "2.9.1+rocm6.4"), MISMATCH).fixes[0].remedies[0].text
    assert "data.pyg.org" not in text and "compile it here" in text


def _with_torchao(release: str, beside: str, *symbols: str) -> Machine:
    library = Extension("torchao", release, "/site/torchao/_C.abi3.so", of_torch=True, undefined=symbols)
    listed = known((Distribution("torchao", release, "/site/torchao.dist-info"),), "test")
    machine = nvidia_machine(nvidia_gpu(), torch=torch(beside))
    return with_environment(machine, extensions=(library,), distributions=listed)


@pytest.mark.parametrize(
    ("release", "beside", "fitting"),
    [
        ("0.17.0", "2.9.1+cu128", "==0.15.0"),
        ("0.14.1", "2.9.1+cu128", "==0.15.0"),
        ("0.15.0", "2.10.0+cu128", "==0.16.0"),
        ("0.16.0", "2.11.0+cu128", "==0.18.0"),
        ("0.13.0", "2.9.0+cu128", "==0.14.1"),
    ],
)
def test_a_torchao_that_leaves_its_libraries_out_is_a_warning_with_its_release(release, beside, fitting):
    for symbols in ((), (SYMBOL,)):
        found = finding(_with_torchao(release, beside, *symbols), MISMATCH)
        assert found.severity == "warning"
        assert "It leaves its libraries out, and works without them." in found.message
        assert found.fixes[0].remedies[0].specifier == fitting


@pytest.mark.parametrize(
    ("release", "beside"),
    [("0.15.0", "2.9.1+cu128"), ("0.17.0", "2.14.0+cu130"), ("0.13.0", "2.8.0+cu128"), ("0.99.0", "2.9.1+cu128")],
)
def test_a_torchao_for_this_torch_is_silent(release, beside):
    assert MISMATCH not in dict(told(_with_torchao(release, beside)))


def test_beside_another_torch_nothing_is_known_of_what_it_lacks():
    lacking = Extension("gsplat", "1.5", "/s/c.so", of_torch=True, undefined=(SYMBOL,), missing=(CUDART,))
    environment = PythonEnvironment(extensions=(lacking,)).with_torch(known(torch("2.8.0+cu128"), "test"))
    assert environment.extensions == (Extension("gsplat", "1.5", "/s/c.so", of_torch=True),)
    kept = PythonEnvironment(extensions=(lacking,), frameworks=environment.frameworks)
    assert kept.with_torch(known(torch("2.8.0+cu128"), "files")).extensions == (lacking,)


def test_a_package_with_a_check_of_its_own_is_reported_once_and_certainly():
    lacking = Extension("torchcodec", "0.17", "/site/torchcodec/core7.so", of_torch=True, undefined=(SYMBOL,))
    listed = known((Distribution("torchcodec", "0.17.0", "/site/t.dist-info"),), "test")
    machine = _machine(lacking, distributions=listed)
    assert finding(machine, "torchcodec-mismatch").confidence == "certain"
    assert MISMATCH not in dict(told(machine))
    one_loads = Extension("torchcodec", "0.17", "/site/torchcodec/core8.so", of_torch=True)
    assert "torchcodec-mismatch" not in dict(told(_machine(lacking, one_loads, distributions=listed)))


def test_an_xformers_for_another_cuda_is_not_proposed():
    listed = known((Distribution("xformers", "0.0.30", "/site/x.dist-info"),), "test")
    machine = with_environment(nvidia_machine(nvidia_gpu(), torch=torch("2.9.0+cu128")), distributions=listed)
    fix = finding(machine, "xformers-mismatch").fixes[0]
    assert fix.remedies[0].specifier == "==0.0.33.post1"  # 0.0.33 was built for CUDA 13
    thirteen = with_environment(nvidia_machine(nvidia_gpu(), torch=torch("2.9.0+cu130")), distributions=listed)
    assert finding(thirteen, "xformers-mismatch").fixes[0].remedies[0].specifier == "==0.0.33"


def test_the_code_of_a_companion_that_is_replaced_says_nothing_of_the_new_one():
    library = Extension("torchvision", "0.24.1", "/site/torchvision/_C.so", sass=("sm_80",), of_torch=True)
    own = Distribution("torchvision", "0.24.1", "/site/torchvision.dist-info", installer="pip")
    machine = with_environment(
        amd_machine(amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100"), torch=torch("2.9.1+cu128")),
        extensions=(library,),
        distributions=known((own,), "test"),
    )
    (remedy,) = finding(machine, "cuda-torch-on-amd").fixes[0].remedies
    assert told(effect(remedy, Situation(machine, matrix())).machine) == []


# --- from the files ---------------------------------------------------------------------------------------


def _environment(site: Path, *distributions: Distribution, **parts: Any) -> PythonEnvironment:
    return PythonEnvironment(site_packages=(str(site),), distributions=known(distributions, "test"), **parts)


def _read(environment: PythonEnvironment, **variables: str) -> dict[str, Extension]:
    found, _ = read_extensions(LiveHost(), environment, variables)
    return {posixpath.basename(one.path): one for one in found}


def test_every_library_with_gpu_code_is_read_and_others_are_not(tmp_path: Path):
    rare = [container("sm_80")] * 300
    files = {
        "vllm/_C.abi3.so": cuda_library(*rare, container("sm_120")),
        "vllm/_flashmla_C.abi3.so": cuda_library(container("sm_90a")),
        "vllm/plain.abi3.so": shared_library(),
        "vllm.libs/libnccl-0a1b2c3d.so.2": cuda_library(container("sm_70")),
        "vllm/kernels/gemm.cubin": elf(machine=190, flags=0x6006402, abi_version=8),
        "vllm/kernels/gemm_old.cubin": elf(machine=190, flags=0x560556, abi_version=7),
    }
    info = write_distribution(tmp_path, "vllm", "0.9.2", files=files)
    found = _read(_environment(tmp_path, Distribution("vllm", "0.9.2", str(info))))
    assert {name: one.sass for name, one in found.items()} == {
        "_C.abi3.so": ("sm_80", "sm_120"),
        "_flashmla_C.abi3.so": ("sm_90a",),
        "kernels": ("sm_100", "sm_86"),
    }


def test_code_that_cannot_be_read_whole_is_not_judged(tmp_path: Path):
    files = {"flash_attn_2_cuda.so": cuda_library(container("sm_80"))[:-400]}
    info = write_distribution(tmp_path, "flash-attn", "2.7.4", files=files)
    found = _read(_environment(tmp_path, Distribution("flash-attn", "2.7.4", str(info))))
    assert not any(one.sass for one in found.values())


def test_a_library_is_found_wherever_its_process_finds_it(tmp_path: Path):
    names = ("libcudart.so.77", "libcublas.so.77", "libcusparse.so.77", "libcufft.so.77", "libnvrtc.so.77")
    files = {
        "own/cuda_ext.so": shared_library(names, runpath="$ORIGIN/lib"),
        "own/lib/libcudart.so.77": shared_library(),
    }
    info = write_distribution(tmp_path, "own", "1", files=files)
    wheel = write_distribution(tmp_path, "nvidia-x", "1", files={"nvidia/x/lib/libcublas.so.77": shared_library()})
    extra = write_distribution(tmp_path, "shipping", "1", files={"shipping/libcusparse.so.77": shared_library()})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "libcufft.so.77").write_bytes(shared_library())
    (tmp_path / "nvidia/x/lib/libnvrtc.so.76").write_bytes(shared_library())
    environment = _environment(
        tmp_path,
        Distribution("own", "1", str(info)),
        Distribution("nvidia-x", "1", str(wheel)),
        Distribution("shipping", "1", str(extra)),
    )
    found = _read(environment, LD_LIBRARY_PATH=str(elsewhere))["cuda_ext.so"]
    assert found.missing == (MissingLibrary("libnvrtc.so.77", str(tmp_path / "nvidia/x/lib/libnvrtc.so.76")),)
    assert [one.name for one in _read(environment)["cuda_ext.so"].missing] == ["libcufft.so.77", "libnvrtc.so.77"]


@pytest.mark.parametrize(
    ("requires", "newer", "missed"),
    [
        ("cuda-pathfinder>=1.3", "nvidia/cu13/lib/libcublas.so.13", ["libcublas.so.12"]),
        ("cuda-pathfinder>=1.3", "nvidia/cu13/lib/libcufft.so.12", []),
        ("cuda-bindings", "nvidia/cu13/lib/libcublas.so.13", []),
    ],
    ids=["CUDA 13 is met first", "another library of it", "by itself"],
)
def test_cuda_pathfinder_takes_the_release_that_it_meets_first(tmp_path: Path, requires, newer, missed):
    older = "nvidia/cublas/lib/libcublas.so.12"
    code = {"cupy/cuda_ext.so": shared_library(["libcublas.so.12"]), older: shared_library(), newer: shared_library()}
    info = write_distribution(tmp_path, "cupy-cuda12x", "14.2.0", files=code, requires=(requires,))
    environment = _environment(tmp_path, Distribution("cupy-cuda12x", "14.2.0", str(info), requires=(requires,)))
    missing = _read(environment)["cuda_ext.so"].missing
    assert [one.name for one in missing] == missed
    assert [(one.instead, one.passed_over) for one in missing] == [(str(tmp_path / newer), str(tmp_path / older))][
        : len(missed)
    ]


@pytest.mark.parametrize(
    ("gpu", "arch", "beside", "first"),
    [
        ("NVIDIA GeForce RTX 4090", "sm_89", "cublas/lib/libcublas.so.12", "CuPy's build for CUDA 13"),
        ("NVIDIA GeForce RTX 4090", "sm_89", "", "CuPy's build for CUDA 13"),
        ("Tesla V100", "sm_70", "cublas/lib/libcublas.so.12", "in LD_LIBRARY_PATH"),
        ("Tesla V100", "sm_70", "", "CuPy's build for CUDA 12"),
    ],
)
def test_where_cuda_13_is_met_first_the_newer_build_or_the_loaders_path_helps(
    gpu: str, arch: str, beside: str, first: str
):
    folder = "/venv/lib/python3.12/site-packages/nvidia"
    lost = MissingLibrary(
        "libcublas.so.12",
        instead=f"{folder}/cu13/lib/libcublas.so.13",
        passed_over=beside and f"{folder}/{beside}",
    )
    cupy = Extension(
        "cupy-cuda12x", "14.2.0", "/venv/cupy/cublas.so", sass=(arch,), needs=("libcublas.so.12",), missing=(lost,)
    )
    packages = {"cupy-cuda12x": "14.2.0", "nvidia-cuda-runtime": "13.0.96"}
    bare = nvidia_machine(nvidia_gpu(gpu, arch), torch=None, packages=packages)
    found = finding(with_environment(bare, extensions=(cupy,)), "framework-cuda-libs-missing")
    assert found is not None
    assert ("takes libcublas.so.13 instead" in found.message) == bool(beside)
    assert found.fixes[0].title.endswith(first)


@pytest.mark.parametrize(
    ("lost", "missing"),
    [
        ("", []),
        ("libnvrtc-builtins.so.12.8", ["libnvrtc-builtins.so.12.8"]),
        ("libnvrtc-builtins.alt.so.12.8", []),
        ("libnvrtc.so.12", ["libnvrtc.so.12"]),
        ("libcublas.so.12", []),
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_what_a_library_opens_from_its_own_wheel_must_be_whole(tmp_path: Path, lost: str, missing: list[str], cut):
    names = ("libnvrtc.so.12", "libnvrtc-builtins.so.12.8", "libnvrtc-builtins.alt.so.12.8", "libcublas.so.12")
    files = {f"nvidia/cuda_nvrtc/lib/{name}": shared_library(("libc.so.6",)) for name in names}
    wheel = write_distribution(tmp_path, "nvidia_cuda_nvrtc_cu12", "12.8.93", files=files)
    code = {"ext/cuda_ext.so": shared_library(["libnvrtc.so.12"])}
    info = write_distribution(tmp_path, "ext", "1", files=code)
    if lost:
        path = tmp_path / "nvidia/cuda_nvrtc/lib" / lost
        content = path.read_bytes()
        path.unlink()
        if cut:
            path.write_bytes(content[: len(content) // 4])
    listed = (
        Distribution("ext", "1", str(info)),
        Distribution("nvidia-cuda-nvrtc-cu12", "12.8.93", str(wheel)),
    )
    found = _read(_environment(tmp_path, *listed))["cuda_ext.so"].missing
    assert [(one.name, one.owner) for one in found] == [(name, "nvidia-cuda-nvrtc-cu12") for name in missing]


def test_a_library_that_an_interrupted_installation_left_is_not_whole(tmp_path: Path):
    info = write_distribution(tmp_path, "ext", "1", files={"ext/cuda_ext.so": shared_library(["libcublas.so.12"])})
    library = tmp_path / "nvidia/cublas/lib/libcublas.so.12"
    library.parent.mkdir(parents=True)
    whole = shared_library(("libc.so.6",))
    library.write_bytes(whole)
    environment = _environment(tmp_path, Distribution("ext", "1", str(info)))
    assert _read(environment)["cuda_ext.so"].missing == ()
    library.write_bytes(whole[: len(whole) // 4])
    assert [one.name for one in _read(environment)["cuda_ext.so"].missing] == ["libcublas.so.12"]


def test_a_wheel_whose_files_are_gone_is_installed_again():
    lost = MissingLibrary("libnvrtc-builtins.so.12.8", owner="nvidia-cuda-nvrtc-cu12")
    machine = with_environment(
        nvidia_machine(torch=None, packages={"nvidia-cuda-nvrtc-cu12": "12.8.93"}),
        extensions=(_needing("cupy-cuda12x", "/site/cupy_backends/nvrtc.so", lost),),
    )
    found = finding(machine, LIBRARIES)
    why = "its files are gone, and cupy-cuda12x needs them"
    assert found.severity == "error"
    assert found.fixes[0].remedies == (ReinstallPackage("nvidia-cuda-nvrtc-cu12", "12.8.93", why=why),)


def test_beside_torchs_own_cuda_another_one_counts_on_the_own_search_path_only(tmp_path: Path):
    files = {
        "torch/lib/libtorch_cuda.so": shared_library(["libcudart.so.78"]),
        "torch/lib/libcudart.so.78": shared_library(),
    }
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    needs = ["libtorch_cuda.so", "libcudart.so.77"]
    info = write_distribution(tmp_path, "ext", "1", files={"ext/_C.so": shared_library(needs)})
    near = write_distribution(
        tmp_path, "near", "1", files={"near/_C.so": shared_library(needs, runpath="$ORIGIN/../nvidia/y/lib")}
    )
    write_distribution(tmp_path, "nvidia-y", "1", files={"nvidia/y/lib/libcudart.so.77": shared_library()})
    own = torch("2.9.1+cu128", path=str(tmp_path / "torch"))
    for name, path, missing in (("ext", info, ["libcudart.so.77"]), ("near", near, [])):
        environment = _environment(tmp_path, Distribution(name, "1", str(path))).with_torch(known(own, "test"))
        assert [one.name for one in _read(environment)["_C.so"].missing] == missing


def test_names_that_a_library_opens_later_are_read_from_its_texts(tmp_path: Path):
    texts = b"\0Library libcublas.so.12 is not found\0libcublas.so.77\0/usr/lib/libcudart.so.77\0libcuda.so.1\0"
    library = elf([(".nv_fatbin", container("sm_80")), (".rodata", texts)])
    info = write_distribution(tmp_path, "ct-cuda", "1", files={"ct/libct.so": library})
    (found,) = _read(_environment(tmp_path, Distribution("ct-cuda", "1", str(info)))).values()
    assert found.opens == ("libcublas.so.77",)
    assert [one.name for one in found.missing] == ["libcublas.so.77"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler to build the libraries with")
def test_symbols_are_looked_up_in_all_of_torchs_libraries(tmp_path: Path):
    def build(name: str, code: str, *flags: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        command = ["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(path), "-Wl,--hash-style=gnu", *flags]
        subprocess.run(command, input=code, text=True, check=True)
        return path

    folder = tmp_path / "torch/lib"
    build("torch/lib/libc10.so", "void _ZN3c104hereEv(void) {}")
    build("torch/lib/libtorch.so", "".join(f"void _ZN2at{n}opEv(void) {{}}\n" for n in range(500)))
    needing = "void _ZN3c104{}Ev(void); void _ZN2at{}opEv(void); void f(void) {{ _ZN3c104{}Ev(); _ZN2at{}opEv(); }}"
    links = (f"-L{folder}", "-Wl,--no-as-needed", "-lc10", "-ltorch")
    names = {"fits": ("here", 499), "older": ("gone", 7), "newer": ("here", 500)}
    site, distributions = tmp_path, []
    for name, (word, number) in names.items():
        path = build(f"{name}/{name}_C.so", needing.format(word, number, word, number), *links)
        info = write_distribution(site, name, "1", files={f"{name}/{name}_C.so": path.read_bytes()})
        distributions.append(Distribution(name, "1", str(info)))
    with (folder / "libtorch.so").open("rb") as library:
        table = SymbolHash(open_elf(library))
    assert [n for n in range(3000) if table.has(symbol_hash(f"_ZN2at{n}opEv"))] == list(range(500))
    own = torch("2.9.1+cu128", path=str(tmp_path / "torch"))
    found = _read(_environment(site, *distributions).with_torch(known(own, "test")))
    assert {name: one.undefined for name, one in found.items()} == {
        "fits_C.so": (),
        "older_C.so": ("_ZN3c104goneEv",),
        "newer_C.so": ("_ZN2at500opEv",),
    }
    pinned = write_distribution(
        site,
        "pinned",
        "1",
        requires=["torch==2.9.1"],
        files={"pinned/p_C.so": (site / "older/older_C.so").read_bytes()},
    )
    environment = _environment(site, Distribution("pinned", "1", str(pinned))).with_torch(known(own, "test"))
    assert [one.undefined for one in _read(environment).values()] == [()]


def test_an_environment_without_such_packages_opens_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = {"numpy/core.so": shared_library(), "numpy/__init__.py": "1"}
    info = write_distribution(tmp_path, "numpy", "2", files=files)
    host = LiveHost()
    monkeypatch.setattr(host, "open_binary", lambda path: pytest.fail(f"{path} was opened"))
    assert read_extensions(host, _environment(tmp_path, Distribution("numpy", "2", str(info))), {})[0] == ()


def test_each_record_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files: dict[str, dict[str, bytes | str]] = {
        "vllm": {"vllm/_C.abi3.so": cuda_library(container("sm_90"))},
        "rich": {"rich/__init__.py": "rich = True\n"},
        "nvidia-nccl-cu12": {"nvidia/nccl/lib/libnccl.so.2": shared_library()},
    }
    listed = [
        Distribution(name, "1", str(write_distribution(tmp_path, name, "1", files=few)))
        for name, few in files.items()
    ]
    host, read = LiveHost(), list[str]()
    data = host.data
    monkeypatch.setattr(host, "data", lambda path, *limits: read.append(path) or data(path, *limits))
    found, _ = read_extensions(host, _environment(tmp_path, *listed), {})
    assert [one.package for one in found] == ["vllm"]
    records = [posixpath.basename(posixpath.dirname(path)) for path in read if path.endswith("RECORD")]
    assert sorted(records) == sorted(posixpath.basename(one.path) for one in listed)


def test_a_plan_knows_that_a_torch_for_another_cuda_brings_no_runtime_for_what_was_compiled():
    extension = Extension("vllm", "0.33.0", "/site/vllm/_C.abi3.so", needs=("libcudart.so.13",), of_torch=True)
    base = with_environment(nvidia_machine(torch=torch("2.14.0+cu130")), extensions=(extension,))
    for build, missing in (("cu126", ["libcudart.so.13"]), ("cu132", []), ("cpu", [])):
        after = base.environment.value.with_torch(known(torch(f"2.14.0+{build}"), "plan"))
        assert [one.name for one in after.extensions[0].missing] == missing, build


def test_libraries_in_the_sources_of_an_editable_install_are_read(tmp_path: Path):
    """Both ways in which installers lead to the sources; what is for another Python is left out."""
    library, tag = shared_library(needed=("libc10.so", "libtorch.so")), "cpython-312-x86_64-linux-gnu.so"
    for path in (
        f"src/acme/ops/_C.{tag}",
        "src/acme/_C.cpython-310-x86_64-linux-gnu.so",
        "src/other/x.so",
        f"flat/_C.{tag}",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(library)
    site = tmp_path / "site"
    finder = f"MAPPING: dict[str, str] = {{'flat': '{tmp_path}/flat', 'gone': '/gone/of/it'}}\n"
    named = write_distribution(site, "acme", "1", files={"_acme.pth": f"{tmp_path}/src\n"})
    hooks = {
        "__editable__.flat-1.pth": "import __editable___flat_1_finder\n",
        "__editable___flat_1_finder.py": finder,
    }
    mapped = write_distribution(site, "flat", "1", files=hooks)
    environment = _environment(
        site,
        Distribution("acme", "1", str(named)),
        Distribution("flat", "1", str(mapped)),
        python=known("3.12", "test"),
    )
    extensions, _ = read_extensions(LiveHost(), environment, {})
    assert [(one.package, one.path, one.of_torch) for one in extensions] == [
        ("acme", f"{tmp_path}/src/acme/ops/_C.{tag}", True),
        ("flat", f"{tmp_path}/flat/_C.{tag}", True),
    ]
