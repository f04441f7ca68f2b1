"""`check --from` with messages of programs beside torch, of kernel logs, and of places without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudoctor.finding import Finding
from gpudoctor.intake.text.reading import read_text
from tests.support.check_cases import matrix
from tests.support.in_process import gpudoctor
from tests.support.judged_texts import judgement, problems

TORCHS_OWN = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
GGML = """CUDA error: no kernel image is available for execution on the device
  current device: 0, in function ggml_cuda_compute_forward at /src/ggml/src/ggml-cuda/ggml-cuda.cu:2761"""
XID_79 = "[ 9943.412345] NVRM: Xid (PCI:0000:01:00): 79, pid=6755, name=python, GPU has fallen off the bus."
XID_119 = (
    "[ 9943.412345] NVRM: Xid (PCI:0000:01:00): 119, pid=6755, name=python, Timeout after 6s of waiting for RPC "
    "response from GPU0 GSP!"
)
XID_48 = "[ 9943.412345] NVRM: Xid (PCI:0000:01:00): 48, pid=6755, name=python, DBE (double bit error)"
WORKS = "NVIDIA GeForce RTX 4090\nIs CUDA available: True\n"


def findings(text: str) -> tuple[Finding, ...]:
    return tuple(judgement(text).findings)


def steps(text: str) -> str:
    return " ".join(fix.title for finding in findings(text) for fix in finding.fixes)


def test_a_gpu_without_a_name_is_not_called_by_one() -> None:
    text = (
        "Jun 30 11:07:05 gpu-0 kernel: NVRM: API mismatch: the client has the version 535.54.03, but this kernel "
        "module has the version 530.30.02."
    )
    advice = str([fix.remedies for finding in findings(text) for fix in finding.fixes])
    assert "names the GPU (`lspci -nn`" in advice and "NVIDIA GPU" not in advice


# --- whose message it is ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        GGML,
        "RuntimeError: GemmaRMSNorm failed with error code no kernel image is available for execution on the device",
        "Failed to initialize miner on GPU0: RTX 5090 [0000:41:00.0]: no kernel image is available for execution",
    ],
)
def test_a_program_that_lacks_code_is_not_mended_with_a_torch(text: str) -> None:
    text = f"NVIDIA GeForce RTX 5090\n{text}\n"
    assert problems(text) == ["ext-built-without-gpu-arch"]
    assert "torch" not in steps(text)


@pytest.mark.parametrize(
    "text",
    [
        "RTX 5070: CUDA error: no kernel image is available. ctranslate2 is compiled for sm_70-sm_90.",
        "GTX 980 Ti: faster-whisper-xxl.exe stops with cudaErrorNoKernelImageForDevice: no kernel image is available",
        "Failed to run llama-box on an RTX 5090 - CUDA error: no kernel image is available for execution",
        "RTX 4060: ERROR: CUDA kernel mul_mat_vec has no device code compatible",
        "rocBLAS error: Cannot read /tmp/_MEIx3Kd9a/library/TensileLibrary.dat: No such file for GPU arch : gfx1032",
    ],
)
def test_what_a_program_brings_along_is_not_mended_with_a_torch(text: str) -> None:
    assert problems(text)[0] in ("ext-built-without-gpu-arch", "rocblas-no-arch")
    assert "torch" not in steps(text).lower()


def test_torchs_own_message_asks_for_a_torch_that_has_code() -> None:
    assert problems(f"NVIDIA GeForce RTX 5090\n{TORCHS_OWN}\n") == ["torch-no-arch-for-gpu"]
    assert "Install torch" in steps(f"NVIDIA GeForce RTX 5090\n{TORCHS_OWN}\n")


def test_where_nobody_named_the_gpu_no_build_is_chosen_least_of_all_one_for_the_cpu() -> None:
    assert problems(TORCHS_OWN) == ["torch-no-arch-for-gpu"]
    assert "gpudoctor recommend" in steps(TORCHS_OWN)
    assert "CPU" not in steps(TORCHS_OWN)


def test_what_ollama_lacks_no_torch_gives_it() -> None:
    line = (
        'level=WARN source=amd_linux.go:116 msg="amdgpu [0] gfx1103 is not supported by /tmp/ollama/rocm [gfx1100]"'
    )
    assert problems(line) == ["torch-rocm-no-arch-for-gpu"]
    assert "ollama" in steps(line)
    assert "torch" not in steps(line)


def test_a_rocblas_that_is_not_torchs_is_not_mended_with_a_torch() -> None:
    line = "rocBLAS error: Cannot read {}/rocblas/library/TensileLibrary.dat: Illegal seek for GPU arch : gfx1035\n"
    system, torchs = line.format("/opt/rocm-6.4.1/lib"), line.format("/v/lib/python3.12/site-packages/torch/lib")
    assert problems(system) == problems(torchs) == ["rocblas-no-arch"]
    assert "torch" not in steps(system)
    assert "torch" in steps(torchs)


def test_the_gpu_of_a_desktop_processor_is_hidden_rather_than_given_kernels() -> None:
    line = "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: Illegal seek for GPU arch : "
    assert problems(f"{line}gfx1036\n") == ["amd-igpu-interferes"]
    assert "ROCR_VISIBLE_DEVICES" in steps(f"{line}gfx1036\n")


def test_a_program_for_cudnn_8_is_not_mended_with_the_cudnn_of_torch() -> None:
    for line in (
        "Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: cannot open shared object "
        "file: No such file or directory",
        "# Could not load library libcudnn_cnn_infer.so.8.",
    ):
        assert problems(line) == ["cudnn-mismatch"]
        assert "Remove" not in steps(line)
        assert "CTranslate2 4.5" in steps(line)
    mixed = (
        "Could not load library libcudnn_cnn_infer.so.8. Error: /usr/lib/libcudnn_cnn_infer.so.8: undefined symbol: x"
    )
    assert problems(mixed) == ["cudnn-mismatch"]
    assert steps(mixed).startswith("Remove the other cuDNN")


def test_on_windows_only_the_advice_for_linux_is_left_out() -> None:
    folder = "C:\\venv\\Lib\\site-packages"
    library = (
        f"OSError: [WinError 126] The specified module could not be found. Error loading {folder}\\torch\\c10.dll"
    )
    assert steps(library) == "Install the Microsoft Visual C++ redistributable, then reinstall torch."
    for line in (
        TORCHS_OWN,
        "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment",
    ):
        assert steps(f"{folder}\n{line}") == "Look for the fix for that system"


def test_what_has_no_build_for_windows_is_sent_to_wsl() -> None:
    assert steps("Windows 11, RTX 4090\nNo GPU/TPU found, falling back to CPU. jax 0.4.13") == "Use WSL2"


def test_on_macos_no_reason_of_linux_is_blamed_for_no_gpu() -> None:
    line = "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
    assert problems(f"I am on Mac OS X 10.11.6\nE tensorflow/stream_executor/cuda/cuda_driver.cc:509] {line}") == []


def test_a_hang_that_a_text_tells_of_is_no_note_because_a_reset_succeeded() -> None:
    queue = "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=12, emitted seq=14"
    assert problems(f"{queue}\namdgpu 0000:03:00.0: amdgpu: GPU reset(1) succeeded!\n") == ["amd-gpu-hang"]
    older = "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring comp_1.0.0 timeout, signaled seq=1, emitted seq=2"
    assert problems(f"{older}\namdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n") == ["amd-gpu-hang"]


def test_a_backend_of_jax_that_nobody_wants_is_no_fault() -> None:
    other = "Unable to initialize backend '{}': module 'jaxlib.xla_extension' has no attribute 'GpuAllocatorConfig'"
    assert problems(other.format("rocm")) == []
    assert problems(other.format("cuda")) == ["framework-cpu-only"]


# --- where it was printed --------------------------------------------------------------------------


def first_cause(text: str) -> str:
    return problems(text)[0]


def test_the_place_of_a_message_that_no_gpu_is_found_names_its_causes_first() -> None:
    message = "CUDA Error CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected while calling init (cuInit)\n"
    assert first_cause(message) == "cuda-visible-devices"
    assert first_cause(f"I run this under wsl2 with Python 3.11\n{message}") == "wsl-driver"
    assert first_cause(f"docker run --gpus all -it image bash\n{message}") == "container-no-gpu"


def test_a_device_plugin_without_the_drivers_library_was_started_without_nvidias_runtime() -> None:
    line = "NVML not detected: could not load NVML library: libnvidia-ml.so.1: cannot open shared object file\n"
    logs = f"kubectl logs -n nvidia nvdp-nvidia-device-plugin-7btjn -p\n{line}"
    assert first_cause(logs) == "container-toolkit-missing"
    assert "--runtime=containerd --set-as-default" in steps(logs)
    assert first_cause(line) == "no-driver"


def test_a_container_in_which_cuda_does_not_start_was_not_given_nvidia_uvm() -> None:
    message = "cudaGetDeviceCount() -> cudaErrorUnknown (999), and nvidia-smi works\n"
    assert first_cause(message) == "nvidia-uvm-after-suspend"
    for told in ("Inside the container it prints:", "it is the ollama of an LXC, in LXC it prints:"):
        assert first_cause(f"{told}\n{message}") == "nvidia-uvm-missing"
        assert steps(f"{told}\n{message}").startswith("Load nvidia_uvm")
    assert first_cause(f"The shipping container of my eGPU is inside.\n{message}") == "nvidia-uvm-after-suspend"


def test_inside_wsl_nobody_is_told_to_load_amdgpu() -> None:
    message = "ROCk module is NOT loaded, possibly no GPU devices\n"
    wsl = "modprobe: FATAL: Module amdgpu not found in directory /lib/modules/5.15.133.1-microsoft-standard-WSL2\n"
    assert first_cause(message) == "amd-kfd-missing"
    assert "modprobe amdgpu" in steps(message)
    for told in (wsl, f"docker run --device=/dev/dxg rocm/pytorch\n{wsl}"):
        assert first_cause(told + message) == "rocm-wsl-unsupported"
        assert "modprobe" not in steps(told + message)


def test_what_only_wsl_causes_comes_last_where_it_is_not_wsl() -> None:
    message = "rocminfo.cc:1304\nCall returned HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate\n"
    assert first_cause(message) != "rocm-wsl-unsupported"
    assert first_cause(f"Ubuntu 22.04 on WSL2\n{message}") == "rocm-wsl-unsupported"


@pytest.mark.parametrize(
    "sentence",
    [
        "I followed the guide, but when using the rocminfo command, I can only see the CPU.",
        "I installed 6.3.4 and the GPU is not detected in `rocminfo`",
    ],
)
def test_a_sentence_tells_that_the_runtime_finds_no_gpu(sentence: str) -> None:
    assert first_cause(sentence) == "amd-kernel-or-runtime-too-old"
    assert first_cause(f"{sentence}\n5.15.167.4-microsoft-standard-WSL2\n") == "rocm-wsl-unsupported"
    assert problems("rocminfo works, but I can only see the CPU in torch") == ["torch-wrong-build-or-cpu"]


def test_an_override_that_nobody_named_is_not_the_first_cause_of_a_fault() -> None:
    fault = "Memory access fault by GPU node-1 (Agent handle: 0x150e85c0) on address 0x7fdb980a6000."
    assert first_cause(f"{fault} Reason: Page not present or supervisor privilege.") == "amd-firmware-regression"
    assert first_cause(f"{fault} Reason: Unknown.") == "hsa-override-wrong"
    assert first_cause(f"export HSA_OVERRIDE_GFX_VERSION=10.3.0\n{fault}") == "hsa-override-wrong"


# --- kernel logs and DKMS --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "slug"), [(XID_79, "gpu-off-bus"), (XID_48, "gpu-ecc"), (XID_119, "gpu-reset-needed")]
)
def test_an_xid_that_somebody_pasted_is_the_complaint_unless_the_gpu_works(line: str, slug: str) -> None:
    assert problems(line) == [slug]
    assert [finding.slug for finding in findings(line)] == [slug]
    assert problems(WORKS + line) == []


def test_calls_that_fail_after_cuda_did_not_start_are_no_second_fault() -> None:
    later = "Error (gpu_burn-drv.cpp:298): OS call failed or operation not supported on this OS\n"
    assert problems(f"Error 802: system not yet initialized\n{later}") == ["fabric-manager-not-running"]
    assert problems(later) == ["nvidia-uvm-missing"]


@pytest.mark.parametrize(
    ("xid", "slug", "severity"),
    [(62, "gpu-reset-needed", "warning"), (109, "gpu-reset-needed", "warning"),  # the catalogue asks for a reset
     (54, "log-fault-described", "warning"),  # auxiliary power
     (13, "log-fault-described", "note"), (40, "log-fault-described", "note")],
)  # fmt: skip
def test_an_xid_without_a_cause_of_its_own_is_told_all_the_same(xid: int, slug: str, severity: str) -> None:
    """A text whose only complaint is an Xid was called free of problems."""
    line = f"NVRM: Xid (PCI:0000:01:00): {xid}, pid=1234, name=python, Ch 00000008\n"
    (found,) = judgement(line).findings
    assert (found.slug, found.severity) == (slug, severity)


def test_an_xid_in_a_sentence_is_read() -> None:
    assert problems('The kernel log has a Xid 79 error, the GPU has "fallen off the bus".\n') == ["gpu-off-bus"]
    assert problems("Xid 13 is all that the log has, no Xid 790\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "Consult /var/lib/dkms/nvidia/580.119.02/build/make.log for more information.",
        "make[2]: *** [/usr/src/kernel-headers-6.12.7/Makefile:1937: /var/lib/dkms/nvidia/470.239.06/build] Error 2",
        " installed nvidia-dkms-580-open package post-installation script subprocess returned error exit status 10",
    ],
)
def test_what_dkms_says_in_a_terminal_is_read(line: str) -> None:
    assert problems(line) == ["nvidia-dkms-kernel-mismatch"]
    assert problems(line.replace("dkms/nvidia/", "dkms/nvidia-fs/").replace("nvidia-dkms", "vbox-dkms")) == []


def test_a_fabric_manager_that_finds_no_switch_is_no_fault() -> None:
    line = (
        "request to query NVSwitch device information failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
    )
    assert [(finding.slug, finding.severity) for finding in findings(line)] == [("harmless", "note")]
    assert "fabric-manager-not-running" in problems(f"{line}\nError 802: system not yet initialized\n")


# --- what the answer shows -------------------------------------------------------------------------


def test_of_a_long_line_the_part_that_tells_is_shown() -> None:
    command = "When I run python inference.py --source examples/1.jpg --driving examples/1.wav --config " + "x" * 120
    line = f"{command} FAIL : Failed to load library libonnxruntime_providers_cuda.so with error: libcublasLt.so.11"
    assert "libcublasLt.so.11" in findings(f"{line}: cannot open shared object file\n")[0].saw


def test_a_name_with_a_remark_is_still_a_gpu_and_an_issue_form_of_nvidia_tells_the_driver() -> None:
    text = (
        "GPU: NVIDIA H100 80GB HBM3, MIG enabled (2g.20gb)\n### NVIDIA Open GPU Kernel Modules Version\n\n575.64.03\n"
    )
    machine = read_text(text.encode(), matrix())
    assert [gpu.arch.value for gpu in machine.gpus] == ["sm_90"]
    assert machine.nvidia.module.value is not None
    assert machine.nvidia.module.value.version == "575.64.03"


def test_a_comment_shows_no_version_that_nobody_named_and_tells_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "issue.md").write_text("GPU: NVIDIA GeForce RTX 4090\nFailed to initialize NVML: Unknown Error\n")
    comment = gpudoctor("check", "--from", str(tmp_path / "issue.md"), "--format", "markdown").stdout
    assert "| not said | `system, Python, torch: taken as healthy` |" in comment
    assert "NVIDIA driver 5" in comment and "| Driver |" not in comment
    assert "needed: no error" not in comment
    assert comment.count("Recreate the container") == 1
    assert comment.count("Failed to initialize NVML: Unknown Error") <= 2


# --- what strangers pasted ---------------------------------------------------------------------------


def test_in_wsl_a_message_of_hip_leads_to_amds_matrix_and_not_to_a_driver_of_nvidia() -> None:
    text = "I have an Ubuntu WSL installation.\nhipGetDeviceCount: Returned hipErrorNoDevice\n"
    assert problems(text) == ["rocm-wsl-unsupported"]
    assert "ROCm for WSL" in steps(text)


@pytest.mark.parametrize("place", ["docker-compose run -d jupyterlab", "docker compose fails to start CUDA"])
def test_no_driver_in_a_container_of_compose_is_a_container_without_gpus(place: str) -> None:
    text = f"{place}\nRuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n"
    assert problems(text) == ["container-no-gpu"]


def test_ollama_on_the_kernels_own_amdgpu_lacks_code_and_no_driver() -> None:
    text = (
        'level=WARN msg="ollama recommends running" error="amdgpu version file missing: /sys/module/amdgpu/version"\n'
        'level=WARN source=amd_linux.go:376 msg="amdgpu is not supported (supported types:[gfx1030 gfx1100])" '
        "gpu_type=gfx1031 gpu=0 library=/usr/lib/ollama\n"
    )
    assert problems(text)[0] == "torch-rocm-no-arch-for-gpu"
    assert "amd-kfd-missing" not in problems(text)


def test_vllm_without_its_compiled_part_is_a_problem_and_another_module_is_not() -> None:
    assert problems("ModuleNotFoundError: No module named 'vllm._C'\n") == ["vllm-torch-abi"]
    assert problems("ModuleNotFoundError: No module named 'my_project'\n") == []


def test_what_a_report_did_not_find_names_no_vendor() -> None:
    unknown_error = "UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up"
    report = "CUDA used to build PyTorch: 11.7\nROCM used to build PyTorch: N/A\nHIP runtime version: N/A\n"
    assert problems(f"{unknown_error}\n{report}") == ["nvidia-uvm-after-suspend"]
    on_amd = "Nvidia driver version: Could not collect\ncuDNN version: Could not collect\n"
    error = "hsa api call failure at: rocminfo.cc:1282\n"
    assert problems(f"{error}{on_amd}") == problems(error)


def test_variables_that_hide_every_gpu_explain_the_error_that_was_seen() -> None:
    compose = "environment:\n  CUDA_VISIBLE_DEVICES: all\n"
    listed = "GPU 0: NVIDIA GeForce RTX 4060 Ti (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    assert problems(f"RuntimeError: No CUDA GPUs are available\n{compose}{listed}") == ["cuda-visible-devices"]
    assert problems(f"{compose}{listed}") == [], "nobody said that a program failed"


@pytest.mark.parametrize("broken", ["undefined\n symbol", "undefin\ned symbol", "undefined\nsymbol"])
def test_a_message_that_was_broken_in_two_is_known(broken: str) -> None:
    text = (
        "ImportError: /usr/lib/python3/flash_attn_2_cuda.cpython-310.so: undefined symbol: _ZN3c104cuda9SetDeviceEi\n"
    )
    assert problems(text.replace("undefined symbol", broken)) == ["flash-attn-abi"] == problems(text)


# --- what keeps NVIDIA's module from serving the GPU -------------------------------------------------


LSPCI_NOUVEAU = """$ lspci -k
02:00.0 VGA compatible controller: NVIDIA Corporation GA104 [GeForce RTX 3070] (rev a1)
	Subsystem: ASUSTeK Computer Inc. Device 87b8
	Kernel driver in use: {driver}
	Kernel modules: nouveau, nvidia_drm, nvidia
"""


def test_lspci_tells_that_nouveau_has_the_gpu() -> None:
    assert problems(LSPCI_NOUVEAU.format(driver="nouveau")) == ["nouveau-conflict"]
    assert problems(LSPCI_NOUVEAU.format(driver="nvidia")) == []


def test_a_gpu_that_computes_is_not_held_by_nouveau_any_more() -> None:
    before = LSPCI_NOUVEAU.format(driver="nouveau")
    assert problems(f"{before}After blacklisting it:\nGPU 0: NVIDIA GeForce RTX 3070 (UUID: GPU-1)\n") == []
    assert problems(f"{before}Is CUDA available: True\n") == []


def test_a_gpu_of_a_virtual_machine_is_not_one_without_a_driver() -> None:
    assert problems(LSPCI_NOUVEAU.format(driver="vfio-pci")) == []


def test_a_message_of_several_lines_is_read_as_far_as_it_is_indented() -> None:
    text = """[Mon Mar  3 10:11:12 2025] NVRM: The NVIDIA Quadro K4000 GPU installed in this system is
                           NVRM:  supported through the NVIDIA 470.xx Legacy drivers. Please
                           NVRM:  visit the page for Unix drivers for more information.
"""
    assert problems(text) == ["nvidia-driver-dropped-gpu"]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            "env NV_VERBOSE=1 'make' -j8 NV_EXCLUDE_BUILD_MODULES='' KERNEL_UNAME=6.9.3-custom modules....",
            ["nvidia-dkms-kernel-mismatch"],
        ),
        (
            "make -j8 KERNELRELEASE=6.9.3-custom -C /lib/modules/6.9.3-custom/build M=/var/lib/dkms/v4l2/1/build....",
            [],
        ),
    ],
)
def test_a_build_by_dkms_that_failed_is_nvidias_where_its_make_says_so(make: str, expected: list[str]) -> None:
    text = f"NVIDIA GeForce RTX 3070\nBuilding module:\n{make}(bad exit status: 2)\n"
    assert problems(text) == expected


def test_a_compute_capability_names_the_gpu_that_its_name_does_not() -> None:
    text = """GPU 0,1: NVIDIA Graphics Device
GPU 0,1 Compute Capability: 12.0
PyTorch: 2.6.0+cu124
RuntimeError: CUDA error: no kernel image is available for execution on the device
"""
    assert problems(text) == ["torch-no-arch-for-gpu"]
    assert "cu128" in " ".join(fix.title for finding in findings(text) for fix in finding.fixes)


@pytest.mark.parametrize(("listed", "gpus"), [("0,2", 2), ("0-3", 4), ("0-2-4", 5)])
def test_gpus_of_one_line_are_counted_whatever_stands_between_their_numbers(listed: str, gpus: int) -> None:
    assert len(read_text(f"GPU {listed}: NVIDIA A100-SXM4-40GB\n".encode(), matrix()).gpus) == gpus


# --- the program that printed it -------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"# ollama: {TORCHS_OWN}\n\n{GGML}\n",
        f"With ollama 0.11 I see {TORCHS_OWN}\nGPU: NVIDIA GeForce GTX 1080\n",
        "lib/memory_ops.cu:71, code: 209, reason: no kernel image is available for execution\nGPU: Tesla K80\n",
    ],
)
def test_a_program_with_cuda_code_of_its_own_is_no_torch(text: str) -> None:
    assert findings(text)[0].slug == "ext-built-without-gpu-arch"
    assert "torch" not in steps(text)


def test_a_title_that_no_line_repeats_counts() -> None:
    assert problems(f"# {TORCHS_OWN}\n\nGPU: NVIDIA GeForce RTX 5090\n") == ["torch-no-arch-for-gpu"]


@pytest.mark.parametrize(
    ("gpu", "slug"),
    [("GeForce GTX 1080", "torch-dropped-old-gpu"), ("GeForce RTX 5090", "torch-no-arch-for-gpu")],
)
def test_want_of_code_has_the_name_of_an_older_or_a_newer_gpu(gpu: str, slug: str) -> None:
    assert findings(f"{TORCHS_OWN}\nGPU: NVIDIA {gpu}\n")[0].slug == slug


HIP = "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"


def test_a_program_with_hip_code_of_its_own_gets_no_torch() -> None:
    gpu = "GPU: AMD Radeon RX 5600 XT\n"
    assert "torch" not in steps(f"I start tensorflow on it.\n{gpu}{HIP}\n")
    assert "torch" in steps(f"I start ComfyUI on it.\n{gpu}{HIP}\n")


def test_the_library_that_a_message_names_is_not_overruled_by_an_override_that_helped() -> None:
    printed = "rocBLAS error: Could not initialize Tensile host. No such file or directory for GPU arch : gfx1032"
    assert findings(f"{printed}\nHSA_OVERRIDE_GFX_VERSION=10.3.0 helped me.\n")[0].slug == "rocblas-no-arch"


IGNORED = (
    "Ignoring visible gpu device (device: 0, name: AMD Radeon RX 6700 XT, pci bus id: 0000:03:00.0) with AMDGPU "
    "version : gfx1031."
)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("systemd-modules-load[252]: Module 'nvidia_uvm' is deny-listed", "module-blacklisted"),
        ("error: /usr/lib/aarch64-linux-gnu/libnvinfer.so.7: file too short", "container-no-gpu"),
        ('Error: failed to stat CDI host device "/dev/dri/renderD129": no such file', "cdi-spec-stale"),
        ("I got `cudnn ops64_9.dll is not found` error", "cudnn-mismatch"),
        ("python[42]: segfault at 18 ip 00 sp 00 error 4 in libamdhip64.so.5.4", "torch-rocm-no-arch-for-gpu"),
        ("RuntimeError: versions_helpers.cc:81: The cuSPARSE library was not found.", "framework-cuda-libs-missing"),
        (f"{IGNORED} The supported AMDGPU versions are gfx1030, gfx1100.", "torch-rocm-no-arch-for-gpu"),
        ("lstat /dev/nvidia-uvm: no such file or directory", "nvidia-uvm-missing"),
    ],
)
def test_messages_that_name_their_cause(text: str, slug: str) -> None:
    assert problems(text) == [slug]


@pytest.mark.parametrize(
    ("source", "slug"),
    [
        ("/src/third_party/flash-attention/hopper/flash_fwd_launch_template.h:167", "ext-built-without-gpu-arch"),
        (
            "/src/aten/src/ATen/native/transformers/cuda/flash_attn/flash_fwd_launch_template.h:9",
            "torch-no-arch-for-gpu",
        ),
    ],
)
def test_the_source_file_of_a_message_tells_whose_code_is_missing(source: str, slug: str) -> None:
    title = "# RTX 5080: CUDA error: no kernel image is available for execution on the device"
    said = f"CUDA error ({source}): no kernel image is available for execution on the device"
    assert problems(f"{title}\n\n{said}\n") == [slug]


def test_a_message_of_hip_alone_tells_that_torch_is_no_build_for_cuda() -> None:
    form = "PyTorch Version: 1.8\nGPU: RX 470\n"
    assert problems(form) == ["cuda-torch-on-amd"]
    said = "hipErrorNoBinaryForGpu: Coudn't find binary for current devices!"
    assert problems(f"{form}{said}\n") == ["torch-rocm-no-arch-for-gpu"]
    assert problems(f"torch==1.8.0+cu111\nGPU: RX 470\n{said}\n") == ["cuda-torch-on-amd"]  # that one says its build


def test_parts_of_hsa_that_are_loaded_if_they_are_there() -> None:
    said = "LoadLib(libhsa-amd-aqlprofile64.so) failed: libhsa-amd-aqlprofile64.so: cannot open shared object file"
    assert problems(f"{said}\n") == []
    assert problems(f"{said.replace('amd-aqlprofile', 'other')}\n") != []


def test_ollama_that_finds_no_nvidia_smi() -> None:
    said = "routes.go:915: warning: check that you have installed GPU drivers: nvidia-smi command failed"
    assert problems(f"{said}\n") == ["program-on-cpu"]
    assert findings(f"I run ollama with Docker.\n{said}\n")[0].slug == "container-no-gpu"
    assert findings(f"I run ollama without Docker.\n{said}\n")[0].slug == "program-on-cpu"


def test_the_gpu_that_tensorflow_ignores_is_read() -> None:
    assert [gpu.arch.value for gpu in read_text(IGNORED.encode(), matrix()).gpus] == ["gfx1031"]


def test_a_truncated_library_of_a_wheel_is_no_placeholder() -> None:
    text = "OSError: /venv/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12: file too short"
    assert "container-no-gpu" not in problems(text)


def test_torch_that_says_it_was_built_without_cuda() -> None:
    table = "| NVIDIA-SMI 535.86.10    Driver Version: 535.86.10    CUDA Version: 12.2 |\n"
    assert problems(f"PyTorch built with CUDA:         False\nCUDA available: False\n{table}") == ["torch-cpu-only"]


def test_a_visibility_variable_that_names_another_gpu_than_the_first() -> None:
    seen = "which makes torch.cuda.is_available() == False"
    assert problems(f"The service sets CUDA_VISIBLE_DEVICES=1, {seen}.\n") == ["cuda-visible-devices"]
    assert problems(f"The service sets CUDA_VISIBLE_DEVICES=0, {seen}.\n") == ["torch-cpu-only"]
    two = "GPU 0: NVIDIA GeForce RTX 3090\nGPU 1: NVIDIA GeForce RTX 3090\n"
    assert problems(f"{two}The service sets CUDA_VISIBLE_DEVICES=1, {seen}.\n") != ["cuda-visible-devices"]


def test_a_variable_that_is_expected_is_not_set() -> None:
    expected = "### Expected behavior\n\nCUDA_VISIBLE_DEVICES: 0\n"
    text = f"CUDA_VISIBLE_DEVICES=1\n\n{expected}\n### Environment\nHIP_VISIBLE_DEVICES=2\n"
    variables = read_text(text.encode(), matrix()).variables
    assert (variables["CUDA_VISIBLE_DEVICES"], variables["HIP_VISIBLE_DEVICES"]) == ("1", "2")


# --- whose GPU it is -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I have a GeForce GTX 1080.\n\n### GPU\n\nNvidia\n", "GTX 1080"),
        ("GPU: GTX 1080 (Pascal, Compute Capability 6.1)\n\n### GPU\n\nNvidia\n", "GTX 1080"),
        ("I have a Radeon RX 6800.\n\n### GPU\n\nNvidia\n", "Nvidia"),
    ],
)
def test_a_form_that_asks_for_the_vendor_hides_no_gpu(text: str, name: str) -> None:
    assert [gpu.name.removeprefix("GeForce ") for gpu in read_text(text.encode(), matrix()).gpus] == [name]


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("  - nothing provides __cuda needed by pytorch-2.5.1-cuda126_py311_300", "no-driver"),
        ("  - feature:/linux-64::__cuda==11.4=0", "driver-too-old"),
        ("  - feature:|@/linux-64::__cuda==11.4=0", "driver-too-old"),
        ("__cuda =* *, which is missing on the system;", "no-driver"),
    ],
)
def test_what_conda_says_of_the_driver_is_known(line: str, first: str) -> None:
    assert problems(f"{line}\nRTX 3090\n")[0] == first


def test_more_memory_for_an_integrated_gpu_comes_from_the_system() -> None:
    full = "HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.49 GiB\n"
    apu = next(one for one in judgement(f"{full}Radeon 8060S\n").findings if one.id == "GPD442")
    card = next(one for one in judgement(f"{full}RX 7900 XTX\n").findings if one.id == "GPD442")
    assert "ttm.pages_limit" in apu.message and apu.fixes[0].title == "Give the GPU more memory"
    assert "ttm" not in card.message and "End other programs" in str(card.fixes[0])


@pytest.mark.parametrize(
    ("packages", "slug"),
    [
        (" nvidia-dkms-535\n nvidia-driver-535\n", "nvidia-dkms-kernel-mismatch"),
        (" rock-dkms\n rocm-dkms\n", "amd-dkms-kernel-mismatch"),
        (" cups\n", None),
    ],
)
def test_packages_that_dpkg_could_not_set_up_name_the_module(packages: str, slug: str | None) -> None:
    printed = f"Errors were encountered while processing:\n{packages}E: Sub-process /usr/bin/dpkg returned an error"
    assert problems(printed) == ([slug] if slug else [])


def test_a_module_that_was_not_built_explains_that_its_node_cannot_be_opened() -> None:
    denied = "Unable to open /dev/kfd read-write: Operation not permitted\n"
    assert problems(denied) == ["container-cgroup-revoked"]
    failed = "Errors were encountered while processing:\n amdgpu-dkms\n"
    assert problems(denied + failed) == ["amd-dkms-kernel-mismatch"]


def test_a_slice_of_a_gpu_explains_a_number_that_is_not_there() -> None:
    text = "NVIDIA A100-SXM4-80GB{}\nRuntimeError: CUDA error: invalid device ordinal\n"
    assert problems(text.format(" MIG 3g.40gb")) == ["mig-confusion"]
    assert problems(text.format("")) == ["cuda-visible-devices"]


def test_a_program_that_found_the_gpu_is_no_build_for_the_cpu() -> None:
    offloaded = "load_tensors: offloaded 0/33 layers to GPU\n"
    assert problems(offloaded) == ["framework-cpu-only"]
    assert problems(f"ggml_cuda_init: found 1 CUDA devices:\n{offloaded}") == []


def test_a_container_that_cannot_be_prepared_in_wsl_wants_another_driver_of_windows() -> None:
    message = "nvidia-container-cli: initialization error: driver error: failed to process request: unknown\n"
    assert problems(message)[0] == "container-toolkit-missing"
    assert problems(f"Ubuntu 20.04 in WSL2\n{message}")[0] == "wsl-driver"


@pytest.mark.parametrize(
    "text",
    [
        "It should print a warning where torch was not compiled with CUDA.",
        "If the system does not have a GPU or the program was built without CUDA, the call returns False.",
    ],
)
def test_what_a_program_should_print_was_not_printed(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    "place",
    ['  File "/Users/me/run.py", line 3, in <module>', "I run it on an m2 max.", "\u5f53\u524d\u7528mac\u8dd1"],
)
def test_no_torch_for_cuda_is_missed_on_a_mac(place: str) -> None:
    message = "AssertionError: Torch not compiled with CUDA enabled\n"
    assert problems(message) == ["torch-cpu-only"]
    assert problems(f"{place}\n{message}") == []


def test_a_fabric_manager_that_did_not_start_is_told_by_systemd() -> None:
    failed = "Job for nvidia-fabricmanager.service failed because the control process exited with error code.\n"
    assert problems(failed) == ["fabric-manager-not-running"]


# --- what an H100 printed with a fault that was made there -----------------------------------------


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("\t\t\t<total>GPU is lost</total>\n\t\t\t<used>GPU is lost</used>", "gpu-off-bus"),
        ("ValueError: Unrecognized key 'bogus' in CUDA allocator config.", "framework-variable"),
        ("ValueError: Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'true'", "framework-variable"),
        (
            "RuntimeError: Unable to initialize backend 'rocm': Backend 'rocm' is not in the list of known backends: "
            "['cpu', 'tpu', 'cuda']. (set JAX_PLATFORMS='' to automatically choose an available backend)",
            "framework-variable",
        ),
        (
            "F1126 10:04:24.316000   13803 parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --bogus_flag=1",
            "framework-variable",
        ),
        (
            "ImportError: cannot import name 'Random' from 'random' (/home/me/experiments/random.py)",
            "module-shadowed",
        ),
        ("AttributeError: module 'torch' has no attribute '__version__'", "torch-shadowed"),
        (
            "PermissionError: [Errno 13] Permission denied: "
            "'/opt/venv/lib/python3.12/site-packages/triton/backends/nvidia/bin/ptxas'",
            "programs-not-executable",
        ),
        (
            "RuntimeError: jaxlib/cuda/versions_helpers.cc:135: operation cuInit(0) failed: Unknown CUDA error 34; "
            "cuGetErrorName failed. This probably means that JAX was unable to load the CUDA libraries.",
            "libcuda-stub",
        ),
    ],
)
def test_messages_of_faults_that_were_made_on_a_gpu(text: str, slug: str) -> None:
    assert problems(text)[0] == slug


def test_a_name_that_an_installed_module_lacks_is_no_file_in_its_way() -> None:
    text = "ImportError: cannot import name 'x' from 'random' (/usr/lib/python3.12/random.py)"
    assert "module-shadowed" not in problems(text)


def test_a_module_that_stops_in_a_kernel_was_not_made_for_it() -> None:
    stops = "[    1.760921] kernel BUG at /var/lib/dkms/amdgpu/3.8.0-19/build/amd/amdkcl/kcl_common.h:24!\n"
    assert problems(stops) == ["amd-dkms-kernel-mismatch"]
    assert problems(stops.replace("dkms/amdgpu", "dkms/zfs")) == []


INIT_FAILED = "[ 9950.112345] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:894)"


@pytest.mark.parametrize("lost", [XID_79, "My RTX 5080: Xid 79, GPU has fallen off the bus\n"])
def test_a_gpu_that_has_left_the_bus_needs_no_setting_of_the_firmware(lost: str) -> None:
    assert problems(f"{lost}\n{INIT_FAILED}\n") == ["gpu-off-bus"]
    assert "Above 4G" not in steps(f"{lost}\n{INIT_FAILED}\n")
    assert problems(f"{INIT_FAILED}\n") == ["driver-init-failed-bios"]


def test_two_pieces_of_a_log_may_be_of_one_boot() -> None:
    fell = "[   49.261458] NVRM: GPU at 0000:01:00.0 has fallen off the bus.\n"
    asked_first = "dmesg | grep bbswitch:\n\n[   21.386307] bbswitch: version 0.8\n"
    assert problems(f"{fell}\n{asked_first}") == ["gpu-off-bus"]
    rebooted = "After a reboot:\n\n[    0.000000] Linux version 6.8.0-40-generic (buildd@x) #40\n"
    assert problems(f"{fell}\n{rebooted}") == []


def test_no_build_of_linux_is_offered_on_windows() -> None:
    python = "Python 3.10.9 (tags/v3.10.9:1dd9be6, Dec  6 2022, 20:01:21) [MSC v.1934 64 bit (AMD64)]"
    text = f"Radeon RX 6600\n{python}\nAssertionError: Torch not compiled with CUDA enabled\n"
    fixes = [fix for finding in findings(text) for fix in finding.fixes]
    assert problems(text) == ["torch-cpu-only"]
    assert "+rocm" not in str(fixes) and "whl/rocm" not in str(fixes)
    assert [fix.title for fix in fixes] == ["Install AMD's torch for Windows"]


@pytest.mark.parametrize(
    ("discrete", "slug"),
    [
        ("gfx1100", "amd-igpu-interferes"),
        ("gfx1030", "amd-igpu-interferes"),
        ("gfx1031", "torch-rocm-no-arch-for-gpu"),
    ],
)
def test_of_two_gpus_the_one_that_no_build_has_code_for_is_at_fault(discrete: str, slug: str) -> None:
    agents = "".join(
        f"Agent {number}\n  Name:                    {name}\n  Marketing Name:          {title}\n"
        "  Device Type:             GPU\n"
        for number, name, title in ((2, discrete, "AMD Radeon"), (3, "gfx1036", "AMD Radeon Graphics"))
    )
    found = findings(f"RuntimeError: HIP error: invalid device function\n\n{agents}")[0]
    assert found.slug == slug
    assert found.subject == "AMD Radeon, AMD Radeon Graphics"


JAX_OF_MEDIAPIPE = f"Successfully installed jax-0.4.25 {' '.join(f'other{n}-1.0' for n in range(16))}\n"
ON_THE_GPU = "[2024-03-04 21:20] Device: cuda:0 NVIDIA GeForce RTX 3060 : cudaMallocAsync\n"


def test_what_another_package_brought_is_no_fault_where_torch_has_the_gpu() -> None:
    assert problems(JAX_OF_MEDIAPIPE + ON_THE_GPU) == []
    assert problems(JAX_OF_MEDIAPIPE + "NVIDIA GeForce RTX 3060\n") == ["framework-cpu-only"]


def test_no_gpu_build_of_jax_is_offered_on_windows() -> None:
    text = f"Platform: Windows\n{JAX_OF_MEDIAPIPE}NVIDIA GeForce RTX 3060\n"
    assert steps(text) == "Use WSL2"
    assert "jax" in str(findings(text.replace("Platform: Windows\n", ""))[0].fixes[0].title).lower()


# --- what only the GPU of the text tells -------------------------------------------------------------

HALF = "RuntimeError: \"LayerNormKernelImpl\" not implemented for 'Half'"
FP16 = "UserWarning: FP16 is not supported on CPU; using FP32 instead"
FLOAT16 = (
    "ValueError: Requested float16 compute type, but the target device or backend do not support efficient float16 "
    "computation."
)


@pytest.mark.parametrize("message", [HALF, FP16])
def test_half_precision_on_the_cpu_is_a_problem_where_a_gpu_should_compute(message: str) -> None:
    assert problems(f"So I have a 3060 and this happens:\n{message}") == ["torch-cpu-only"]
    assert problems(f"GPU: RTX 4090\n{message}") == ["torch-cpu-only"]
    assert problems(message) == []
    assert problems(f"Intel Core i5, no graphics card\n{message}") == []
    assert problems(f"GPU: RTX 4090\ntorch 2.0.1+cu118\ntorch.cuda.is_available(): True\n{message}") == []
    assert problems(f"GPU: RTX 4090\n$ whisper --device cpu talk.mp3\n{message}") == []
    assert problems(f"My RTX 3060 is for games. It runs on the CPU on purpose.\n{message}") == []


@pytest.mark.parametrize(
    ("gpu", "slug"), [("GeForce RTX 4050 Laptop GPU", "torch-cpu-only"), ("Quadro M1200", "gpu-too-old-for-feature")]
)
def test_float16_is_too_much_for_an_old_gpu_and_for_the_cpu_beside_a_new_one(gpu: str, slug: str) -> None:
    assert problems(f"GPU: NVIDIA {gpu}\n{FLOAT16}") == [slug]


def test_a_torch_for_gpus_is_not_said_to_be_a_cpu_build_because_another_program_took_the_cpu() -> None:
    assert problems(f"GPU: NVIDIA RTX 3090\ntorch 2.8.0+cu128\n{FLOAT16}") == ["framework-cuda-libs-missing"]
    assert problems(f"GPU: NVIDIA RTX 3090\ntorch 2.8.0+cpu\n{FLOAT16}")[0] == "torch-cpu-only"


@pytest.mark.parametrize(
    "message",
    ["JAX: a CUDA-enabled jaxlib is not installed. Falling back to cpu.", ">>> jax.devices()\n[CpuDevice(id=0)]"],
)
def test_advice_for_the_gpus_of_the_other_vendor_is_left_out(message: str) -> None:
    """Of an unknown vendor nothing is."""
    amd, nvidia, unknown = (
        str(findings(f"{gpu}\n{message}\n")[0].fixes)
        for gpu in ("AMD Radeon RX 7900 XTX", "GeForce RTX 4090", "A machine with a GPU")
    )
    assert "jax-rocm7-plugin" in amd and "jax[cuda12]" not in amd
    assert "jax[cuda12]" in nvidia and "jax-rocm7-plugin" not in nvidia
    assert "jax-rocm7-plugin" in unknown and "jax[cuda12]" in unknown


@pytest.mark.parametrize(
    ("machine", "command"),
    [
        ("RTX 4090, driver 535.183.01", "pip install 'jax[cuda12]=="),
        ("RTX 4090, torch 2.9.1+cu130", "pip install 'jax[cuda13]=="),
        ("Radeon RX 7900 XTX", "ROCm 7: `pip install jax-rocm7-plugin==0.12.0 jax-rocm7-pjrt==0.12.0 jax==0.12.0"),
    ],
)
def test_the_jax_that_is_named_runs_on_the_driver_and_beside_torch(machine: str, command: str) -> None:
    (fix,) = findings(f"{machine}\n>>> jax.devices()\n[CpuDevice(id=0)]\n")[0].fixes
    assert command in fix.title
    assert "None" not in fix.title


def test_a_message_that_may_mean_what_another_one_names_is_no_second_problem() -> None:
    """Error 804 has several causes, NVML's message one."""
    forward = "RuntimeError: Error 804: forward compatibility was attempted on non supported HW\n"
    mismatch = "Failed to initialize NVML: Driver/library version mismatch\n"
    assert problems(forward) == ["cuda-compat-on-geforce"]
    assert problems(mismatch + forward) == problems(forward + mismatch) == ["driver-lib-mismatch"]


@pytest.mark.parametrize(
    ("gpu", "slug"), [("RTX PRO 6000 Blackwell", "cuda-toolkit-mismatch"), ("Tesla V100", "gpu-too-old-for-feature")]
)
def test_flashinfer_lacks_a_toolkit_for_a_new_gpu(gpu: str, slug: str) -> None:
    text = f"GPU: NVIDIA {gpu}\nRuntimeError: FlashInfer requires GPUs with sm75 or higher"
    assert [one.slug for one in findings(text)] == [slug]


def test_a_busy_vgpu_without_a_licence_has_one_cause() -> None:
    busy = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n"
    judged = judgement(f"{busy}    License Status                    : Unlicensed (Restricted)")
    assert [one.slug for one in judged.findings] == ["vgpu-unlicensed"] and not judged.not_judged
    assert problems(f"{busy}    License Status                    : Licensed (Expiry: 2027-1-3 10:0:0 GMT)") == []


def test_a_function_that_libcuda_lacks_is_no_fault_of_the_package() -> None:
    text = "ImportError: /opt/conda/lib/python3.10/site-packages/sgl_kernel/common_ops.abi3.so: undefined symbol: "
    assert problems(f"{text}cuGreenCtxStreamCreate") == ["driver-too-old"]
    assert problems(f"{text}_ZN3c104cuda9SetDeviceEa") == ["sglang-torch-mismatch"]


def test_a_cuda_that_does_not_start_is_no_jax_without_one() -> None:
    no_gpu = "No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0 and rerun for more info.)\n"
    fails = "xla/stream_executor/cuda/cuda_driver.cc:268] failed call to cuInit: CUDA_ERROR_UNKNOWN: unknown error\n"
    assert "framework-cpu-only" in problems(no_gpu)
    assert "framework-cpu-only" not in problems(fails + no_gpu)


def test_a_llama_server_that_found_the_gpu_has_one() -> None:
    warns = "warning: no usable GPU found, --gpu-layers option will be ignored\n"
    found = "ggml_cuda_init: found 1 CUDA devices (Total VRAM: 8150 MiB):\n"
    assert problems(warns) == ["program-on-cpu"]
    assert problems(found + warns) == []


# --- fixes for Windows ---------------------------------------------------------------------------------

TOO_NEW = "NVIDIA GeForce RTX 5070 Ti with CUDA capability sm_120 is not compatible with the current PyTorch\n"
ARCHS = "The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.\n"


@pytest.mark.parametrize(
    ("text", "index"),
    [(TOO_NEW + ARCHS, "cu128"), ("AssertionError: Torch not compiled with CUDA enabled\nRTX 3060", "cu126")],
)
def test_a_text_of_windows_names_the_torch_to_install(text: str, index: str) -> None:
    """The package index has CPU builds for Windows, and a driver that is not named may be older than the newest."""
    fix = findings(f"{text}\nWindows 11")[0].fixes[0]
    assert f"https://download.pytorch.org/whl/{index}" in str(fix.remedies)


def test_a_text_of_windows_without_a_gpu_says_where_torch_comes_from() -> None:
    text = '  File "C:\\app\\whisper.py", line 3\nAssertionError: Torch not compiled with CUDA enabled\n'
    advice = str(findings(text)[0].fixes[0].remedies)
    assert advice.count("https://download.pytorch.org/whl/cu") == 2
    assert "download.pytorch.org" not in str(findings(f"{text}GPU: AMD Radeon RX 6600 XT")[0].fixes)


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("cuda_utils.c:14: error: include file 'Python.h' not found", "include and libs"),
        ("Invalid handle. Cannot load symbol cudnnCreateTensorDescriptor", "CTranslate2 4.5"),
    ],
)
def test_what_helps_on_windows_is_said_there(message: str, advice: str) -> None:
    assert advice in str(findings(f"Windows 11, RTX 4070\n{message}")[0].fixes[0].remedies)
    assert "Change it in Windows" not in steps(f"Ubuntu 24.04, RTX 4070\n{message}")


def test_a_library_that_ctranslate2_misses_comes_with_wheels() -> None:
    message = "GPU: RTX 4070\nRuntimeError: Library {} is not found or cannot be loaded"
    assert "nvidia-cublas-cu12" in steps(f"Ubuntu 24.04\n{message.format('libcublas.so.12')}")
    windows = findings(f"OS: Microsoft Windows 11 Pro\n{message.format('cublas64_12.dll')}")[0].fixes[0]
    assert "belong in PATH" in str(windows) and "LD_LIBRARY_PATH" not in str(windows)


@pytest.mark.parametrize(
    ("gpu", "driver", "slug"),
    [
        ("GTX 1060", "390.157", "driver-too-old"),
        ("GTX 1060", "550.120", "program-on-cpu"),
        ("Tesla K80", "470.256.02", "program-on-cpu"),
    ],
)
def test_ollama_finds_no_gpu_with_an_old_driver(gpu: str, driver: str, slug: str) -> None:
    text = f'ollama uses only the CPU, {gpu}\nmsg="no compatible GPUs were discovered"\nDriver Version: {driver}'
    assert problems(text)[:1] == [slug]


@pytest.mark.parametrize("where", ["$ export JAX_PLATFORMS=cpu\n", 'os.environ["JAX_PLATFORM_NAME"] = "cpu"\n'])
def test_a_jax_that_is_told_to_use_the_cpu_lacks_no_plugin(where: str) -> None:
    listed = ">>> jax.devices()\n[CpuDevice(id=0)]\nRTX 3060\n"
    assert problems(listed) == ["framework-cpu-only"]
    assert problems(where + listed) == []


def test_no_override_is_offered_where_the_message_is_about_the_integrated_gpu() -> None:
    lacks = "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat for GPU arch : "
    found = findings(f"GPU: RX 7800 XT\n{lacks}gfx1103\n")[0]
    assert found.slug == "amd-igpu-interferes"
    assert "HSA_OVERRIDE" not in str(found.fixes)
    assert "HSA_OVERRIDE" in str(findings(f"GPU: RX 6700 XT\n{lacks}gfx1031\n")[0].fixes)


REFUSAL = """\
NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:{device})
NVRM: installed in this system is not supported by the
NVRM: NVIDIA {driver} driver release.
NVRM: Please see 'Appendix A - Supported NVIDIA GPU Products'
NVRM: in this release's README, available on the operating system
NVRM: specific graphics driver download page at www.nvidia.com.
nvidia-smi: No devices were found
"""


@pytest.mark.parametrize(
    "stamp", ["", "[    5.981234] ", "[  +0.000421] ", "[Oct19 12:01] ", "Nov 12 10:00:01 box kernel: "]
)
@pytest.mark.parametrize(
    ("device", "driver", "slug"),
    [
        ("2d04", "570.133.07", "driver-too-old"),
        ("2d04", "575.51.03", "driver-too-old"),
        ("2b85", "550.120", "driver-too-old"),
        ("2684", "515.43.04", "driver-too-old"),
        ("1b06", "590.44.01", "nvidia-driver-dropped-gpu"),
        ("1180", "535.183.01", "nvidia-driver-dropped-gpu"),
        ("25a0", "520.56.06", "no-driver"),
        ("1b38", "535.104.05", "vgpu-guest-driver"),
    ],
)
def test_the_driver_that_refuses_a_gpu_is_the_installed_one(stamp: str, device: str, driver: str, slug: str) -> None:
    lines = REFUSAL.format(device=device, driver=driver).splitlines()
    text = "\n".join(f"{stamp}{line}" if line.startswith("NVRM") else line for line in lines)
    assert problems(text) == [slug]
    machine = read_text(text.encode(), matrix())
    assert machine.nvidia.module.value is not None
    assert machine.nvidia.module.value.version == driver
    assert not machine.assumes("NVIDIA driver")


def test_the_flavour_of_a_refusing_module_is_told_and_its_version_is_not() -> None:
    text = (
        "[    4.201] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2b85)\n"
        "               NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n"
        "$ nvidia-smi\nNo devices were found\n"
    )
    assert problems(text) == ["blackwell-open-module"]
    assert not any("of driver" in one.message + one.saw for one in findings(text))
    assert "open kernel modules of the installed driver" in findings(text)[0].fixes[0].title


def test_the_log_of_the_container_cli_that_looks_for_wsl_tells_of_no_wsl() -> None:
    text = (
        "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.\n"
        "I0418 18:12:58.6 217303 nvc.c:393] attempting to load dxcore to see if we are running under Windows "
        "Subsystem for Linux (WSL)\n"
        "I0418 18:12:58.6 217303 nvc.c:395] dxcore initialization failed, continuing assuming a non-WSL environment\n"
    )
    assert read_text(text.encode(), matrix()).system.wsl.value is None
    assert "Windows" not in str(findings(text)[0].fixes[0])
    assert read_text(b"I use Windows Subsystem for Linux (WSL). " + text.encode(), matrix()).system.wsl.value


@pytest.mark.parametrize(
    ("error", "slug"),
    [
        ("System not yet initialized (error 802)", "fabric-manager-not-running"),
        ("System has unsupported display driver / cuda driver combination (error 803)", "driver-lib-mismatch"),
        ("Forward compatibility was attempted on non supported HW (error 804)", "cuda-compat-on-geforce"),
        ("Named symbol not found (error 500)", "wsl-driver"),
    ],
)
def test_the_errors_that_the_start_of_nvidias_images_prints_are_known(error: str, slug: str) -> None:
    """Their banner writes the names of CUDA's errors with a capital letter."""
    text = f"ERROR: The NVIDIA Driver is present, but CUDA failed to initialize.\n   [[ {error} ]]\n"
    assert problems(text)[0] == slug


@pytest.mark.parametrize(
    "message",
    [
        "modprobe: FATAL: Module nvidia not found.",
        "modprobe: FATAL: Module nvidia-uvm not found in directory /lib/modules/6.8.0-60-generic",
        "modprobe: ERROR: could not find module by name='nvidia'",
        "modinfo: ERROR: Module nvidia not found.",
        "==> ERROR: module not found: 'nvidia_drm'",
    ],
)
def test_a_module_that_no_tool_finds_was_not_built_for_the_kernel(message: str) -> None:
    assert problems(message) == ["nvidia-dkms-kernel-mismatch"]


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: The NVIDIA probe routine failed for 1 device(s).",
        "nvidia 0000:01:00.0: probe with driver nvidia failed with error -1",
        "NVRM: None of the NVIDIA devices were initialized.",
    ],
)
def test_a_driver_that_gave_up_without_a_reason_is_a_problem(line: str) -> None:
    assert problems(f"RTX 3060\n[    9.1] {line}") == ["no-driver"]
    more = f"RTX 3060\n[    9.1] NVRM: RmInitAdapter failed! (0x63:0x56:1689)\n[    9.2] {line}"
    assert problems(more) == ["no-driver"]
    assert problems(f"{WORKS}[    9.1] {line}") == []


def of_import(package: str, library: str) -> Finding:
    frame = f'  File "/v/lib/python3.12/site-packages/{package}/__init__.py", line 405, in <module>'
    return judgement(f"RTX 3060\n{frame}\nImportError: {library}: cannot open shared object file\n").findings[0]


def test_a_library_that_torch_itself_misses_comes_with_one_of_its_dependencies() -> None:
    found = of_import("torch", "libcusparseLt.so.0")
    assert found.slug == "torch-import-fails"
    assert "nvidia-cusparselt" in found.fixes[0].title
    # Near misses: a package that was built for another CUDA, and a library of no wheel.
    assert of_import("sgl_kernel", "libcudart.so.12").slug == "framework-cuda-libs-missing"
    assert "Install torch again" not in str(of_import("torch", "libmkl_core.so.2").fixes)
