"""Libraries that real compilers make: nvcc and clang where they are there, each test skipped with a reason else."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpudoctor.codeobjects import Code
from gpudoctor.codeobjects.library import read_code

CUDA_SOURCE = 'extern "C" __global__ void NAME(float *x) { x[0] = 1.0f; }\n'
HIP_SOURCE = """
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, unsigned long *, void *);
extern "C" __global__ void NAME(float *x) { x[0] = 1.0f; }
"""
CLANGS = [*(f"clang-{version}" for version in range(24, 16, -1)), "clang"]


def compiled(folder: Path, argv: Sequence[str]) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        pytest.skip(f"{argv[0]} cannot build this: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}")


def read(path: Path) -> Code:
    with path.open("rb") as handle:
        return read_code(handle)


def cuda(folder: Path, *options: str, output: str = "library.so", names: Sequence[str] = ("one",)) -> Code:
    """A library by nvcc, one translation unit for each name."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    for name in names:
        (folder / f"{name}.cu").write_text(CUDA_SOURCE.replace("NAME", name))
    sources = [f"{name}.cu" for name in names]
    shared = ["-shared", "-Xcompiler", "-fPIC", "-cudart", "none"] if output.endswith(".so") else []
    compiled(folder, [nvcc, *shared, *options, *sources, "-o", output])
    return read(folder / output)


def hip(folder: Path, *options: str, output: str = "library.so", names: Sequence[str] = ("one",)) -> Code:
    """A library by clang, one translation unit for each name."""
    clang = next((found for name in CLANGS if (found := shutil.which(name))), None)
    if clang is None:
        pytest.skip("no clang")
    for name in names:
        (folder / f"{name}.hip").write_text(HIP_SOURCE.replace("NAME", name))
    sources = [f"{name}.hip" for name in names]
    shared = ["-shared", "-fPIC", "-nostdlib"] if output.endswith(".so") else []
    common = [clang, "-x", "hip", "-nogpulib", "-nogpuinc", "-O1"]
    compiled(folder, [*common, *shared, *options, *sources, "-o", output])
    return read(folder / output)


def arch(compute: str, *code: str) -> tuple[str, str]:
    return "-gencode", f"arch={compute},code=[{','.join(code)}]"


def test_nvcc_machine_code_and_ptx(tmp_path: Path) -> None:
    code = cuda(tmp_path, *arch("compute_80", "sm_80", "compute_80"), *arch("compute_90", "sm_90"))
    assert (code.sass, code.ptx, code.relocatable) == (("sm_80", "sm_90"), ("compute_80",), ())
    assert (code.containers, code.reason) == (1, None)


def test_nvcc_architecture_and_family_specific(tmp_path: Path) -> None:
    code = cuda(tmp_path, *arch("compute_90a", "sm_90a", "compute_90a"), *arch("compute_100f", "sm_100f"))
    assert (code.sass, code.ptx) == (("sm_90a", "sm_100f"), ("compute_90a",))


@pytest.mark.parametrize("mode", ["none", "speed", "size"])
def test_nvcc_compressed_or_not(tmp_path: Path, mode: str) -> None:
    code = cuda(tmp_path, f"--compress-mode={mode}", *arch("compute_80", "sm_80", "compute_80"))
    assert (code.sass, code.ptx) == (("sm_80",), ("compute_80",))


def test_nvcc_several_units(tmp_path: Path) -> None:
    code = cuda(tmp_path, *arch("compute_75", "sm_75"), *arch("compute_89", "sm_89"), names=("one", "two", "three"))
    assert code.share == {"sm_75": 1.0, "sm_89": 1.0}
    assert code.containers == 3


def test_nvcc_code_for_the_device_linker_only(tmp_path: Path) -> None:
    code = cuda(tmp_path, "-c", "-rdc=true", "-gencode", "arch=compute_80,code=sm_80", output="unit.o")
    assert (code.sass, code.relocatable) == ((), ("sm_80",))


def test_nvcc_fat_binary_of_its_own(tmp_path: Path) -> None:
    code = cuda(tmp_path, "-fatbin", *arch("compute_86", "sm_86", "compute_86"), output="kernel.fatbin")
    assert (code.sass, code.ptx) == (("sm_86",), ("compute_86",))


def offload(*targets: str) -> list[str]:
    return [f"--offload-arch={target}" for target in targets]


def test_clang_plain_with_features(tmp_path: Path) -> None:
    code = hip(tmp_path, *offload("gfx1030", "gfx90a:xnack-", "gfx90a:xnack+"))
    assert set(code.gfx) == {"gfx1030", "gfx90a:xnack-", "gfx90a:xnack+"}
    assert (code.containers, code.reason) == (1, None)


def test_clang_several_units(tmp_path: Path) -> None:
    code = hip(tmp_path, *offload("gfx942"), names=("one", "two"))
    assert code.share == {"gfx942": 1.0}
    assert code.containers == 2


@pytest.mark.parametrize("version", ["", "2", "3"])
def test_clang_compressed(tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if version:
        monkeypatch.setenv("COMPRESSED_BUNDLE_FORMAT_VERSION", version)
    code = hip(tmp_path, "--offload-compress", *offload("gfx1030", "gfx942"), names=("one", "two"))
    assert b"CCOB" in (tmp_path / "library.so").read_bytes()
    assert set(code.gfx) == {"gfx1030", "gfx942"}
    assert (code.containers, code.reason) == (2, None)


def test_clang_generic_targets(tmp_path: Path) -> None:
    code = hip(tmp_path, "-mcode-object-version=6", *offload("gfx11-generic", "gfx9-generic:xnack-"))
    assert set(code.gfx) == {"gfx11-generic", "gfx9-generic:xnack-"}


@pytest.mark.parametrize("target", ["gfx90a:sramecc+:xnack-", "gfx90a", "gfx1100", "gfx906:xnack+", "gfx1201"])
def test_clang_code_objects(tmp_path: Path, target: str) -> None:
    device = ["--cuda-device-only", "--no-gpu-bundle-output"]
    assert hip(tmp_path, *device, *offload(target), output="kernel.hsaco").gfx == (target,)


def test_clang_bundle_of_its_own(tmp_path: Path) -> None:
    code = hip(tmp_path, "--cuda-device-only", *offload("gfx906", "gfx1100"), output="kernels.co")
    assert code.gfx == ("gfx906", "gfx1100")
