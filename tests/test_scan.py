"""`gpudoctor scan` as people use it: libraries, wheels, distributions, environments; GPUs, exit codes, JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gpudoctor.cli import gpudoctor
from gpudoctor.cli import scan as command
from gpudoctor.host import InputError
from tests.support.codeobject_files import bundle, container, cuda_library, elf, hip_library, wrappers
from tests.support.environments import shared_library, version_file, write_distribution, write_venv

AMPERE = cuda_library(container("sm_80"), container("sm_80", "sm_90"))
BLACKWELL = cuda_library(container("sm_80", "sm_120"))
TORCH = cuda_library(
    container("sm_80", "sm_120"), container("sm_80", "sm_120"), container("sm_80", "sm_120", "sm_90a")
)


REAL_GPUS = command._gpus


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine of the tests has no GPU of its own."""

    def gpus(names: tuple[str, ...], matrix: Any) -> Any:
        return REAL_GPUS(names, matrix) if names else ((), False)

    monkeypatch.setattr(command, "_gpus", gpus)


def scan(*arguments: object) -> Result:
    return CliRunner().invoke(gpudoctor, ["scan", *map(str, arguments)], standalone_mode=False)


def scanned(*arguments: object) -> dict[str, Any]:
    result = scan(*arguments, "--format", "json")
    assert result.exception is None, result.exception
    data: dict[str, Any] = json.loads(result.stdout)
    return data


def wheel(path: Path, members: Mapping[str, bytes | str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def torch_wheel(folder: Path, library: bytes = TORCH, version: str = "2.16.0", build: str = "cu132") -> Path:
    pins = "cuda-toolkit[cublas]==13.2.1; x|nvidia-cudnn-cu13==9.26.0.51; x|nvidia-nccl-cu13==2.30.7|triton~=3.10.0"
    metadata = f"Metadata-Version: 2.4\nName: torch\nVersion: {version}\nRequires-Python: >=3.11\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in pins.split("|")) + "\nVersion: 9\n"
    return wheel(
        folder / f"torch-{version}-cp312-cp312-manylinux_2_28_x86_64.whl",
        {
            "torch/version.py": version_file(f"{version.partition('+')[0]}+{build}", "13.2"),
            "torch/lib/libtorch_cuda.so": library,
            "torch/lib/libtorch_cuda_linalg.so": cuda_library(container("sm_80")),
            "torch/lib/libtorch_cpu.so": shared_library(),
            f"torch-{version}.dist-info/METADATA": metadata,
        },
    )


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """torch with code for Blackwell, flash-attn without, a package without any code."""
    site = write_venv(tmp_path / "venv")
    write_distribution(site, "torch", "2.9.1", files={"torch/lib/libtorch_cuda.so": TORCH})
    write_distribution(
        site, "flash-attn", "2.7.4", files={"flash_attn_2_cuda.so": AMPERE, "flash_attn/__init__.py": ""}
    )
    write_distribution(site, "numpy", "2.1.0", files={"numpy/core.so": shared_library(), "numpy/a.so": "INPUT(-lm)"})
    return tmp_path / "venv"


def site_of(venv: Path) -> str:
    return f"{venv}/lib/python3.12/site-packages"


def test_the_json_has_the_fields_that_scripts_rely_on(tmp_path: Path):
    library = tmp_path / "x.so"
    library.write_bytes(
        cuda_library(container("sm_80"), container("sm_80", "compute_90"), relocatable=[container("sm_70")])
    )
    assert scanned(library) == {
        "schema": 1,
        "libraries": [
            {
                "path": str(library),
                "sass": ["sm_80"],
                "ptx": ["compute_90"],
                "gfx": [],
                "relocatable": ["sm_70"],
                "share": {"sm_80": 1.0, "compute_90": 0.5},
                "reason": None,
            }
        ],
    }


def test_a_library_without_gpu_code_is_said_to_have_none(tmp_path: Path):
    library = tmp_path / "x.so"
    library.write_bytes(shared_library())
    assert scanned(library)["libraries"][0]["sass"] == []
    assert "no GPU code" in scan(library).stdout


def test_a_wheel_lists_its_libraries_by_their_paths_in_it(tmp_path: Path):
    found = scanned(torch_wheel(tmp_path))["libraries"]
    assert [row["path"] for row in found] == ["torch/lib/libtorch_cuda.so", "torch/lib/libtorch_cuda_linalg.so"]
    assert found[0]["share"]["sm_90a"] == 0.3333


def test_of_several_wheels_each_path_names_its_wheel(tmp_path: Path):
    first, second = wheel(tmp_path / "a.whl", {"x.so": AMPERE}), wheel(tmp_path / "b.whl", {"x.so": BLACKWELL})
    assert [row["path"] for row in scanned(first, second)["libraries"]] == [f"{first}/x.so", f"{second}/x.so"]


@pytest.mark.parametrize(
    ("gpu", "code"), [("RTX 5090", 0), ("A100", 0), ("RTX 4090", 0), ("H100", 1), ("V100", 1), ("RX 7900 XTX", 1)]
)
def test_torch_is_judged_by_what_half_of_its_containers_carry(tmp_path: Path, gpu: str, code: int):
    assert scan(torch_wheel(tmp_path), "--gpu", gpu).return_value == code


def test_torch_1_13_is_judged_over_both_of_its_libraries(tmp_path: Path):
    few = [container("sm_35")] * 2
    path = wheel(
        tmp_path / "torch-1.13.1-cp311-cp311-manylinux1_x86_64.whl",
        {
            "torch/lib/libtorch_cuda_cu.so": cuda_library(*[container("sm_86")] * 9),
            "torch/lib/libtorch_cuda_cpp.so": cuda_library(*few),
        },
    )
    assert scan(path, "--gpu", "RTX 3090").return_value == 0
    assert scan(path, "--gpu", "sm_35").return_value == 1


def test_torch_is_fine_but_flash_attn_is_not(venv: Path):
    result = scan(venv, "--gpu", "RTX 5090")
    assert result.return_value == 1
    first, _, *lines, _, last = result.stdout.splitlines()
    assert first == "1 library has no code for NVIDIA GeForce RTX 5090."
    assert last == "Next: gpudoctor recommend --gpu 'NVIDIA GeForce RTX 5090'"
    assert lines[0] == "NVIDIA GeForce RTX 5090 (sm_120)"
    assert lines[1] == "  ✗ flash-attn 2.7.4: flash_attn_2_cuda.so: no code for this GPU"
    assert lines[2] == "      it has code for sm_80 sm_90"
    assert lines[3] == "  ✓ torch 2.9.1"
    assert result.stdout.count("sm_80 sm_90\n") == 1  # the inventory does not print the list once more
    assert "      the code named above" in lines
    assert "numpy" not in result.stdout
    assert scan(venv, "--gpu", "A100").return_value == 0


def test_the_next_command_takes_the_name_of_the_gpu(venv: Path):
    """A GPU that is known by its architecture alone has no name that `--gpu` takes."""
    last = scan(venv, "--gpu", "sm_61").stdout.splitlines()[-1]
    assert last == "Next: gpudoctor recommend --gpu sm_61"


def test_each_gpu_is_judged_and_the_json_says_which_libraries_fail_it(venv: Path):
    gpus = scanned(venv, "--gpu", "RTX 5090", "--gpu", "A100")["gpus"]
    assert [(gpu["arch"], len(gpu["missing"])) for gpu in gpus] == [("sm_120", 1), ("sm_80", 0)]
    assert gpus[0]["missing"][0]["distribution"] == "flash-attn 2.7.4"
    assert gpus[0]["missing"][0]["libraries"] == [f"{site_of(venv)}/flash_attn_2_cuda.so"]


def test_an_installed_distribution_is_scanned_by_its_name(venv: Path):
    found = scanned("Flash_Attn", "--python", venv)["libraries"]
    assert [row["path"] for row in found] == [f"{site_of(venv)}/flash_attn_2_cuda.so"]
    assert scan("torch", "--python", venv, "--gpu", "RTX 5090").return_value == 0
    assert scan("flash-attn", "--python", venv, "--gpu", "RTX 5090").return_value == 1


def test_without_a_path_the_named_environment_is_scanned(venv: Path):
    assert scanned("--python", venv) == scanned(venv) == scanned(site_of(venv)) == scanned(venv / "bin" / "python")
    assert len(scanned(venv)["libraries"]) == 2


def test_a_folder_that_is_no_environment_is_scanned_as_it_is(tmp_path: Path):
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "libx.so.1.2").write_bytes(AMPERE)
    (tmp_path / "build" / "libx.so").symlink_to("libx.so.1.2")
    assert [row["path"] for row in scanned(tmp_path)["libraries"]] == [str(tmp_path / "build" / "libx.so.1.2")]


def roles(tmp_path: Path, members: Mapping[str, bytes], *gpus: str) -> list[int]:
    path = wheel(tmp_path / "package-1.0-py3-none-any.whl", members)
    return [scan(path, "--gpu", gpu).return_value for gpu in gpus]


def test_one_container_that_runs_is_enough_for_other_libraries(tmp_path: Path):
    many = cuda_library(*[container("sm_80")] * 50, container("sm_120"))
    assert roles(tmp_path, {"x/y.so": many}, "RTX 5090", "A100", "V100") == [0, 0, 1]


def test_ptx_serves_newer_gpus(tmp_path: Path):
    assert roles(tmp_path, {"x/y.so": cuda_library(container("sm_80", "compute_80"))}, "RTX 5090", "V100") == [0, 1]


def test_helpers_for_one_architecture_are_no_fault(tmp_path: Path):
    members = {
        "vllm/_C.abi3.so": BLACKWELL,
        "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so": cuda_library(container("sm_80", "sm_90a")),
        "vllm/_cutlass_90a.so": cuda_library(container("sm_90a")),
    }
    assert roles(tmp_path, members, "RTX 5090", "V100") == [0, 1]


def test_linalg_alone_is_no_fault(tmp_path: Path):
    members = {
        "torch/lib/libtorch_cuda.so": cuda_library(container("sm_75", "sm_80")),
        "torch/lib/libtorch_cuda_linalg.so": cuda_library(container("sm_80")),
    }
    assert roles(tmp_path, members, "T4") == [0]


def test_of_libraries_for_several_cudas_one_that_fits_is_enough(tmp_path: Path):
    members = {
        "bitsandbytes/libbitsandbytes_cuda118.so": AMPERE,
        "bitsandbytes/libbitsandbytes_cuda128.so": BLACKWELL,
        "bitsandbytes/libbitsandbytes_rocm64.so": hip_library(bundle("gfx1100")),
    }
    assert roles(tmp_path, members, "RTX 5090", "V100", "RX 7900 XTX", "RX 6800") == [0, 1, 0, 1]


def test_amd_code_has_to_name_the_gpu_or_its_generic_target(tmp_path: Path):
    members = {"x/y.so": hip_library(bundle("gfx1030", "gfx90a:xnack-", "gfx11-generic"))}
    gpus = ("RX 6800", "RX 6700 XT", "MI250X", "RX 7800 XT", "RTX 4090")
    assert roles(tmp_path, members, *gpus) == [0, 1, 0, 0, 1]


def test_rocblas_decides_and_hipblaslt_does_not(tmp_path: Path):
    members = {
        "torch/lib/libtorch_hip.so": hip_library(bundle("gfx1030", "gfx1103", "gfx1100")),
        "torch/lib/rocblas/library/TensileLibrary_lazy_gfx1030.dat": b"",
        "torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat": b"",
        "torch/lib/hipblaslt/library/TensileLibrary_lazy_gfx1100.dat": b"",
        "torch/share/miopen/db/gfx1100_48.db.txt": b"",
    }
    assert roles(tmp_path, members, "gfx1100", "gfx1030", "gfx1103") == [0, 0, 1]
    path = tmp_path / "package-1.0-py3-none-any.whl"
    found = {row["path"]: row["gfx"] for row in scanned(path)["libraries"]}
    assert found["torch/lib/rocblas/library"] == ["gfx1030", "gfx1100"]
    assert found["torch/share/miopen/db"] == ["gfx1100"]


def test_code_in_packages_of_their_own_is_not_read_as_nothing(tmp_path: Path):
    library = elf([(".rocm_kpack_ref", b"x" * 32), (".hipFatBinSegment", wrappers(1, 0x4B504948))])
    assert roles(tmp_path, {"torch/lib/libtorch_hip.so": library}, "RX 6800") == [3]
    path = tmp_path / "package-1.0-py3-none-any.whl"
    assert "packages of their own" in scanned(path)["libraries"][0]["reason"]
    members = {"torch/lib/libtorch_hip.so": library, "torch/.kpack/torch_gfx1030.kpack": b""}
    assert roles(tmp_path, members, "RX 6800", "RX 6700 XT") == [0, 1]


def test_code_objects_are_taken_together_by_folder(tmp_path: Path):
    members = {f"a/hsa/gfx942/{n}.co": bundle("gfx942") for n in range(5)}
    members |= {f"a/hsa/gfx950/{n}.co": bundle("gfx950") for n in range(5)}
    assert roles(tmp_path, members, "MI300X", "MI250X") == [0, 1]
    found = scanned(tmp_path / "package-1.0-py3-none-any.whl")["libraries"]
    assert [(row["path"], row["gfx"]) for row in found] == [
        ("a/hsa/gfx942", ["gfx942"]),
        ("a/hsa/gfx950", ["gfx950"]),
    ]


def test_a_library_that_is_cut_short_has_a_reason_and_decides_nothing_for_sure(tmp_path: Path):
    members = {"torch/lib/libtorch_cuda.so": TORCH[:-700]}
    assert roles(tmp_path, members, "RTX 5090") == [3]
    row = scanned(tmp_path / "package-1.0-py3-none-any.whl")["libraries"][0]
    assert row["reason"].startswith("truncated")


def test_names_in_a_wheel_reach_neither_the_disk_nor_the_terminal(tmp_path: Path):
    path = wheel(tmp_path / "x.whl", {"../../evil.so": AMPERE, "/abs\x1b[31m.so": AMPERE})
    assert scan(path).return_value == 0
    assert "\x1b" not in scan(path).stdout
    assert os.listdir(tmp_path) == ["x.whl"]


def test_odd_files_of_an_environment_are_passed_over(tmp_path: Path):
    site = write_venv(tmp_path / "venv")
    write_distribution(site, "odd", "1.0", files={"odd/good.so": AMPERE, "odd/empty.so": b""})
    os.mkfifo(site / "odd" / "pipe.so")
    (site / "odd" / "gone.so").symlink_to("/nonexistent/gone.so")
    (site / "odd" / "folder.so").mkdir()
    (site / os.fsdecode(b"odd/\xff.so")).write_bytes(AMPERE)
    found = {row["path"].rpartition("/")[2]: row for row in scanned(tmp_path / "venv")["libraries"]}
    assert found["good.so"]["sass"] == found["\ufffd.so"]["sass"] == ["sm_80", "sm_90"]
    assert found["empty.so"]["reason"] == "an empty file"
    assert "no such file" in found["gone.so"]["reason"]
    assert set(found) == {"good.so", "\ufffd.so", "empty.so", "gone.so"}
    assert scan(tmp_path / "venv", "--gpu", "A100").return_value == 0


def test_a_folder_that_opens_and_refuses_to_be_listed_is_passed_over():
    """`net` of a process that has ended and was not waited for, as below /proc."""
    child = subprocess.Popen((sys.executable, "-c", ""))
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    try:
        assert scanned(f"/proc/{child.pid}")["libraries"] == []
    finally:
        child.wait()


def test_this_machines_gpus_are_judged_and_a_mixed_box_needs_one_vendor_only(
    venv: Path, monkeypatch: pytest.MonkeyPatch
):
    from gpudoctor import survey
    from tests.support.machines import amd_gpu, nvidia_gpu, nvidia_machine

    monkeypatch.setattr(command, "_gpus", REAL_GPUS)
    found: list[Any] = []
    monkeypatch.setattr(survey, "survey", lambda *_, **__: survey.Survey(found[0], (), {}))
    found[:] = [nvidia_machine(nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120"))]
    assert scan(venv).return_value == 1
    found[:] = [nvidia_machine(nvidia_gpu("NVIDIA A100", "sm_80"), amd_gpu())]
    assert scan(venv).return_value == 0
    assert scan(venv, "--gpu", "A100", "--gpu", "RX 7900 XTX").return_value == 1


def test_progress_goes_to_a_terminal_only(venv: Path):
    quiet = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "scan", str(venv)], capture_output=True, text=True, check=False
    )
    assert quiet.stderr == ""
    master, terminal = os.openpty()
    shown = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "scan", str(venv), "--format", "json"],
        stdout=subprocess.PIPE, stderr=terminal, text=True, check=False,
    )  # fmt: skip
    os.close(terminal)
    assert b"3 of 4 libraries" in os.read(master, 65536)
    os.close(master)
    assert json.loads(shown.stdout)["schema"] == 1


def test_check_says_the_same_of_an_environment(venv: Path):
    from tests.support.environments import write_torch

    site = venv / "lib/python3.12/site-packages"
    shutil.rmtree(site / "torch-2.9.1.dist-info")
    write_torch(site, "2.9.1+cu128", libraries={"libtorch_cuda.so": TORCH})
    result = CliRunner().invoke(
        gpudoctor,
        ["check", "--python", str(venv), "--gpu", "RTX 5090", "--driver", "580.95.05", "--level", "static", "-v",
         "--format", "json", "--select", "GPD427", "--select", "GPD402"],
        standalone_mode=False,
    )  # fmt: skip
    assert result.exception is None, result.exception
    assert [finding["slug"] for finding in json.loads(result.stdout)["findings"]] == ["ext-built-without-gpu-arch"]


@pytest.mark.parametrize("text", ["nothing-of-that-name", "./nothing", "/nonexistent/x.so", "a\nb", ""])
def test_what_is_not_there_is_bad_input(tmp_path: Path, text: str):

    write_venv(tmp_path / "venv")
    assert isinstance(scan(text, "--python", tmp_path / "venv").exception, InputError)


@pytest.mark.parametrize("content", [b"", b"some text\n", b"\0" * 5000, b"PK\x03\x04 no zip"])
def test_what_is_no_library_is_bad_input(tmp_path: Path, content: bytes):

    path = tmp_path / "x.so"
    path.write_bytes(content)
    assert isinstance(scan(path).exception, InputError)


def test_an_unknown_gpu_is_bad_input(tmp_path: Path):

    assert isinstance(scan(torch_wheel(tmp_path), "--gpu", "RTX 9999").exception, InputError)


def test_a_new_torch_wheel_gives_the_rows_that_the_matrix_needs(tmp_path: Path):
    from gpudoctor.matrix.load import load_matrix, validate_matrix

    result = scan("--matrix-row", torch_wheel(tmp_path))
    assert result.return_value == 0, result.exception
    rows = tmp_path / "rows.yaml"
    rows.write_text(result.stdout)
    validate_matrix((str(rows),))
    tables = load_matrix((str(rows),)).tables
    build = next(row for row in tables.torch_builds if row.version == "2.16.0")
    assert (build.build, build.origin, build.platform, build.cuda) == ("cu132", "pypi", "linux-x86_64", "13.2")
    assert (build.archs, build.ptx, build.partial, build.linalg) == (("sm_80", "sm_120"), (), ("sm_90a",), ("sm_80",))
    assert (build.basis, build.pythons) == ("measured", ("3.12",))
    release = next(row for row in tables.torch_releases if row.version == "2.16.0")
    assert (release.cuda, release.cudnn, release.nccl) == ("13.2", "9.26.0.51", "2.30.7")
    assert release.triton == "~=3.10.0"
    assert release.glibc == "2.28"
    assert "companions" in result.stdout


def test_a_wheel_of_the_pytorch_index_gives_no_release_row(tmp_path: Path):
    text = scan("--matrix-row", torch_wheel(tmp_path, version="2.16.0+cu132")).stdout
    assert "origin: download.pytorch.org" in text
    assert "torch_releases" not in text


def test_rows_of_what_is_no_torch_wheel_are_bad_input(tmp_path: Path):

    path = wheel(tmp_path / "flash_attn-2.7-cp312-cp312-linux_x86_64.whl", {"x.so": AMPERE})
    assert isinstance(scan("--matrix-row", path).exception, InputError)


def test_a_wheel_of_thousands_of_libraries_is_refused_at_once(tmp_path: Path) -> None:
    wheel = tmp_path / "many-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for number in range(2001):
            archive.writestr(f"a{number}.so", b"\x7fELF")
    refused = scan(wheel).exception
    assert isinstance(refused, InputError) and "more than 2,000 libraries" in str(refused)


def test_gpus_that_no_driver_serves_together_are_judged_all_the_same(tmp_path: Path) -> None:
    library = tmp_path / "libkernels.so"
    library.write_bytes(BLACKWELL)
    data = scanned(library, "--gpu", "GTX 1080", "--gpu", "RTX 5090")
    assert [bool(gpu["missing"]) for gpu in data["gpus"]] == [True, False]
