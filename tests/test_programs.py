"""ollama and llama.cpp: what is read of their installations, and what keeps them from a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.codeobject_files import bundle, container, cuda_library, hip_library
from tests.support.environments import shared_library
from tests.support.hosts import Host

LIB = "/usr/local/lib/ollama"
UNIT = "/etc/systemd/system/ollama.service"
V12 = cuda_library(*[container("compute_50", "sm_60", "sm_61", "sm_70", "sm_75", "sm_86", "sm_89", "sm_120")] * 3)
V13 = cuda_library(*[container("compute_75", "compute_86", "compute_89", "compute_120")] * 3)
ROCM = hip_library(bundle("gfx1030", "gfx1100", "gfx1201"))
ADA, PASCAL, KEPLER = "2684", "1b80", "1180"
NAVI22, NAVI31 = ("73df", 100301), ("744c", 110000)


def ollama(root: Path, *gpus: str, driver: str = "580.95.05", flavour: str = "proprietary") -> Host:
    """A machine with ollama's files that are the same everywhere."""
    host = Host(root).ubuntu().venv().environ(PATH="/usr/local/bin:/usr/bin")
    for number, device in enumerate(gpus):
        host.nvidia_gpu(device, f"0000:0{number + 1}:00.0", minor=number)
    if gpus:
        host.nvidia_driver(driver, flavour=flavour)
    return host.file("/usr/local/bin/ollama", b"\x7fELF").file(f"{LIB}/libggml-base.so", b"\x7fELF")


def with_cuda(host: Host, *folders: str) -> Host:
    """Its libraries for CUDA, with the runtimes that a release has."""
    for folder in folders or ("cuda_v12", "cuda_v13"):
        content, runtime = (V13, "13.0.96") if folder == "cuda_v13" else (V12, "12.8.90")
        host.file(f"{LIB}/{folder}/libggml-cuda.so", content).file(f"{LIB}/{folder}/libcudart.so.{runtime}")
    return host


def with_rocm(root: Path, gpu: tuple[str, int], *, blas: str = "gfx1030 gfx1100 gfx1201") -> Host:
    host = ollama(root).amd_gpu(*gpu).file(f"{LIB}/rocm_v7_2/libggml-hip.so", ROCM)
    for target in blas.split():
        host.file(f"{LIB}/rocm_v7_2/rocblas/library/TensileLibrary_lazy_{target}.dat")
    return host


def of_programs(host: Host) -> list[str]:
    """Slug and severity of what is said of programs."""
    return [f"{one['slug']}: {one['severity']}" for one in host.check()["findings"] if "program" in one["slug"]]


def text(host: Host) -> tuple[str, str]:
    """The first message about a program, and the text of its first fix."""
    finding = next(one for one in host.check()["findings"] if "program" in one["slug"])
    step = finding["fixes"][0]["steps"][0]
    return finding["message"], step.get("text") or " ".join(step.get("argv", ()))


# --- healthy ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", [ADA, PASCAL])
def test_a_whole_installation_with_a_new_driver_is_healthy(tmp_path, gpu):
    host = with_cuda(ollama(tmp_path, gpu))
    assert of_programs(host) == []
    assert "cuda_v12, cuda_v13" in host.run().output


def test_an_old_driver_is_enough_for_the_older_library(tmp_path):
    assert of_programs(with_cuda(ollama(tmp_path, ADA, driver="570.133.07"))) == []


def test_an_amd_gpu_with_code_and_rocblas_is_healthy(tmp_path):
    assert of_programs(with_rocm(tmp_path, NAVI31)) == []


def test_a_layout_that_is_not_known_is_not_judged(tmp_path):
    host = ollama(tmp_path, ADA)
    host.remove(f"{LIB}/libggml-base.so").file(f"{LIB}/runners/cuda_v12/ollama_llama_server")
    assert of_programs(host) == []


def test_without_a_usable_gpu_nothing_is_said(tmp_path):
    assert of_programs(ollama(tmp_path)) == []


def test_the_library_beside_an_unused_gpu_is_no_fault(tmp_path):
    """An old GPU that drives the display beside one that computes."""
    host = with_cuda(ollama(tmp_path, ADA, PASCAL), "cuda_v13")
    assert of_programs(host) == ["program-on-cpu: note"]


# --- what keeps it from the GPU --------------------------------------------------------------------------


def test_an_installation_without_the_library_computes_on_the_cpu(tmp_path):
    host = ollama(tmp_path, ADA)
    assert of_programs(host) == ["program-on-cpu: warning"]
    message, fix = text(host)
    assert f"{LIB} has no library for NVIDIA GPUs" in message
    assert "ollama-cuda" in fix


def test_the_libraries_for_nvidia_do_not_help_an_amd_gpu(tmp_path):
    host = with_cuda(ollama(tmp_path)).amd_gpu(*NAVI31)
    assert of_programs(host) == ["program-on-cpu: warning"]
    assert "ollama-linux-amd64-rocm" in text(host)[1]


def test_with_a_library_for_vulkan_it_is_a_note(tmp_path):
    host = ollama(tmp_path).amd_gpu(*NAVI31).file(f"{LIB}/vulkan/libggml-vulkan.so", b"\x7fELF")
    assert of_programs(host) == ["program-on-cpu: note"]


def test_pascal_with_the_library_for_cuda_13_alone_has_no_code(tmp_path):
    host = with_cuda(ollama(tmp_path, PASCAL), "cuda_v13")
    assert of_programs(host) == ["program-on-cpu: warning"]
    assert "sm_61" in text(host)[0]


def test_the_service_names_the_library_that_does_not_run_the_gpu(tmp_path):
    host = with_cuda(ollama(tmp_path, PASCAL))
    host.file(UNIT, '[Service]\nEnvironment="OLLAMA_LLM_LIBRARY=cuda_v13"\n')
    assert of_programs(host) == ["program-on-cpu: warning"]
    assert "cuda_v13/libggml-cuda.so has no code for sm_61" in text(host)[0]


@pytest.mark.parametrize(("gpu", "driver", "wanted"), [(ADA, "535.183.01", "550"), (PASCAL, "560.35.03", "570")])
def test_the_driver_that_ollama_itself_asks_for(tmp_path, gpu, driver, wanted):
    host = with_cuda(ollama(tmp_path, gpu, driver=driver))
    assert "program-on-cpu: warning" in of_programs(host)
    assert f"needs driver {wanted} or newer, and {driver} is here" in text(host)[0]


def test_a_library_that_the_loader_does_not_find(tmp_path):
    host = ollama(tmp_path, ADA)
    host.file(
        f"{LIB}/cuda_v12/libggml-cuda.so", shared_library(("libcudart.so.12", "libcublas.so.12", "libcuda.so.1"))
    )
    assert of_programs(host) == ["program-on-cpu: warning"]
    assert "does not find libcudart.so.12, libcublas.so.12" in text(host)[0]
    host.file(f"{LIB}/cuda_v12/libcudart.so.12").file(f"{host.lib}/libcublas.so.12", shared_library())
    assert of_programs(host) == [], "the first lies beside it, the second on the loader's path"


def test_an_amd_gpu_without_code_gets_the_override_for_the_service(tmp_path):
    host = with_rocm(tmp_path, NAVI22)
    host.file(UNIT, "[Service]\nExecStart=/usr/local/bin/ollama serve\n")
    assert of_programs(host) == ["program-on-cpu: warning"]
    assert 'Environment="HSA_OVERRIDE_GFX_VERSION=10.3.0"' in text(host)[1]
    host.environ(HSA_OVERRIDE_GFX_VERSION="10.3.0")
    assert len(of_programs(host)) == 1, "the service does not have the shell's variables"
    host.file(f"{UNIT}.d/override.conf", '[Service]\nEnvironment="HSA_OVERRIDE_GFX_VERSION=10.3.0"\n')
    assert of_programs(host) == []


def test_code_without_rocblas_kernels_is_not_enough(tmp_path):
    assert of_programs(with_rocm(tmp_path, NAVI31, blas="gfx1030")) == ["program-on-cpu: warning"]


# --- variables ---------------------------------------------------------------------------------------------


def test_a_name_that_is_none_of_the_folders(tmp_path):
    host = with_cuda(ollama(tmp_path, ADA)).file(UNIT, '[Service]\nEnvironment="OLLAMA_LLM_LIBRARY=cuda"\n')
    assert of_programs(host) == ["program-variable: warning"]
    message, fix = text(host)
    assert "cuda_v12, cuda_v13" in message
    assert "sudo systemctl edit ollama" in fix


@pytest.mark.parametrize("value", ["cuda_v12", "mlx_cuda_v13"])
def test_a_name_that_is_right(tmp_path, value):
    host = with_cuda(ollama(tmp_path, ADA)).file(UNIT, f"[Service]\nEnvironment=OLLAMA_LLM_LIBRARY={value}\n")
    assert of_programs(host) == []


def test_the_service_sees_no_gpu(tmp_path):
    host = with_cuda(ollama(tmp_path, ADA))
    host.file(UNIT, '[Service]\nEnvironment="OLLAMA_HOST=0.0.0.0" "CUDA_VISIBLE_DEVICES=-1"\n')
    assert of_programs(host) == ["program-variable: warning"]
    host.file(f"{UNIT}.d/10.conf", "[Service]\nEnvironment=\nEnvironment=CUDA_VISIBLE_DEVICES=0\n")
    assert of_programs(host) == [], "a drop-in takes it back"


def test_a_file_of_variables_counts(tmp_path):
    host = with_cuda(ollama(tmp_path, ADA)).file(
        "/etc/default/ollama", "# ours\nCUDA_VISIBLE_DEVICES=-1\nTOKEN=secret\n"
    )
    host.file(UNIT, "[Service]\nEnvironmentFile=-/etc/default/ollama\n")
    assert of_programs(host) == ["program-variable: warning"]
    assert "secret" not in host.run("--format", "json").output


# --- llama.cpp ---------------------------------------------------------------------------------------------


def llama(root: Path, place: str) -> Host:
    host = Host(root).ubuntu().venv().environ(PATH=f"{place}:/usr/bin").nvidia_gpu(ADA).nvidia_driver("580.95.05")
    return host.file(f"{place}/llama-server", b"\x7fELF")


def test_a_folder_of_llama_cpp_without_its_library_for_cuda(tmp_path):
    host = llama(tmp_path, "/opt/llama.cpp/build/bin").file("/opt/llama.cpp/build/bin/libggml-cpu.so", b"\x7fELF")
    assert of_programs(host) == ["program-on-cpu: warning"]
    assert "-DGGML_CUDA=ON" in text(host)[1]
    host.file("/opt/llama.cpp/build/bin/libggml-cuda.so", V12)
    assert of_programs(host) == []


def test_libraries_in_the_folder_of_the_prefix(tmp_path):
    host = llama(tmp_path, "/usr/local/bin").file("/usr/local/lib/libggml-base.so.0", b"\x7fELF")
    host.file("/usr/local/lib/libggml-cuda.so", cuda_library(container("sm_60"), container("sm_60")))
    assert of_programs(host) == ["program-on-cpu: warning"]
    assert "no code for sm_89" in text(host)[0]


@pytest.mark.parametrize(("code", "found"), [("sm_89", []), ("sm_60", ["program-on-cpu: warning"])])
def test_code_that_was_linked_into_the_program(tmp_path, code, found):
    host = llama(tmp_path, "/usr/local/bin")
    host.file("/usr/local/bin/llama-server", cuda_library(container(code), container(code)))
    assert of_programs(host) == found


def test_a_program_without_any_library_of_its_kind_is_not_judged(tmp_path):
    assert of_programs(llama(tmp_path, "/usr/local/bin")) == []
