"""Pasted texts about AMD's GPUs: whose GPU it is, which torch, and what a message means on it."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import judgement, machine, problems

NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU\n"
INVALID = "RuntimeError: HIP error: invalid device function\n"
CUT_ROCMINFO = """\
ROCk module is loaded
=====================
HSA System Attributes
=====================
Runtime Version:         1.1
==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD Ryzen 7 7800X3D 8-Core Processor
  Marketing Name:          AMD Ryzen 7 7800X3D 8-Core Processor
  Vendor Name:             CPU
  Device Type:             CPU
"""


def advice(text: str) -> str:
    """The fixes of the first problem, in words."""
    return " ".join(str(fix) for fix in judgement(text).findings[0].fixes)


# --- whose GPU it is -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told",
    [
        "I am running arch linux with an AMD Radeon 7900xt GPU.",
        "pip install torch --index-url https://download.pytorch.org/whl/nightly/rocm6.4",
        "Choosing the ROCm install, it still asks for Nvidia",
        "rocminfo prints:\nROCk module is loaded\nAgent 1\n  Name: AMD Ryzen 5\n  Device Type: CPU\n",
    ],
)
def test_who_installs_rocm_is_not_told_to_install_the_nvidia_driver(told: str) -> None:
    text = f"{told}\n{NO_DRIVER}"
    assert problems(text) == ["cuda-torch-on-amd"]
    assert "NVIDIA driver" not in advice(text)


@pytest.mark.parametrize(
    "told",
    [
        "",
        "I have an RTX 3060; the AMD GPU of the processor drives the screen.",
        "ROCM used to build PyTorch: N/A",
        "No ROCm runtime is found, using ROCM_HOME='/opt/rocm'",
    ],
)
def test_a_word_about_rocm_takes_no_nvidia_driver_away(told: str) -> None:
    assert problems(f"{told}\n{NO_DRIVER}") == ["no-driver"]


def test_where_only_the_maker_is_known_no_build_is_denied_to_the_gpu() -> None:
    said = advice(f"pip install torch --index-url https://download.pytorch.org/whl/rocm6.0\n{NO_DRIVER}")
    assert "No torch build" not in said
    assert "rocminfo" in said


@pytest.mark.parametrize(
    ("sentence", "arch"),
    [
        ("My 7800 XT fails.", "gfx1101"),
        ("It is an AMD Radeon 7900xt.", "gfx1100"),
        ("an rx6800 in the second slot", "gfx1030"),
        ("two mi50 of a friend", "gfx906"),
        ("an error with an AMD Radeon 7800 XT on Linux", "gfx1101"),
        ("2x7900XTX in one box", "gfx1100"),
        ("GPU model and memory: Vega 10 (Vega 56 8G)", "gfx900"),
        ("a Radeon VII fails", "gfx906"),
        ("_CudaDeviceProperties(name='AMD Radeon RX 9070 XT', major=12, minor=0, gcnArchName='gfx1201')", "gfx1201"),
        ("_CudaDeviceProperties(name='NVIDIA GeForce RTX 3090', major=8, minor=6, total_memory=24268MB)", "sm_86"),
    ],
)
def test_a_card_is_known_by_the_name_that_people_call_it(sentence: str, arch: str) -> None:
    assert [gpu.arch.value for gpu in machine(f"{sentence}\n{INVALID}").gpus] == [arch]


@pytest.mark.parametrize("sentence", ["A Ryzen 7 7800X3D computes.", "RX packets 1234", "an AMD 5800X"])
def test_a_processor_is_no_card(sentence: str) -> None:
    assert not [gpu for gpu in machine(f"{sentence}\n{INVALID}").gpus if gpu.arch.known]


# --- the tools -------------------------------------------------------------------------------------


def test_a_listing_that_was_cut_off_before_the_gpus_misses_none() -> None:
    text = f"7800 XT\n{INVALID}{CUT_ROCMINFO}"
    assert problems(text) == ["torch-rocm-no-arch-for-gpu"]
    assert "no-driver" in problems(f"{text}*** Done ***\n")


# --- torch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.10.0a0+rocm7.10.0a20251015", "2.9.1+rocmsdk20251207", "2.6.0+rocm6.99"])
def test_a_rocm_build_that_the_matrix_does_not_list_is_a_rocm_build(version: str) -> None:
    text = f"pytorch version: {version}\nDevice: cuda:0 AMD Radeon RX 7900 XTX : native\n"
    found = machine(text).torch
    assert found is not None
    assert found.hip
    assert problems(text) == []


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("[AllTalk ENG] PyTorch Version   : 2.2.1", "2.2.1"),
        ("PyTorch build tag: 2.3.1+rocm5.7", "2.3.1+rocm5.7"),
    ],
)
def test_a_program_that_names_itself_before_each_line_tells_its_torch(line: str, version: str) -> None:
    found = machine(f"GPU 0: AMD Radeon RX 7600\n{line}\n").torch
    assert found is not None
    assert found.version.startswith(version)


# --- messages --------------------------------------------------------------------------------------

_BLAS = "RuntimeError: CUDA error: HIPBLAS_STATUS_NOT_SUPPORTED when calling `hipblasLtMatmul`\n"


def _blas(gpu: str, variable: str = "") -> str:
    return f"PyTorch version: 2.6.0+rocm6.2.4\nGPU 0: {gpu}\n{variable}{_BLAS}"


def test_a_failed_product_on_a_gpu_with_code_in_every_library_is_a_question() -> None:
    text = _blas("AMD Instinct MI300X")
    assert "hipblaslt-unsupported-arch" not in problems(text)
    assert any("HIPBLAS_STATUS" in one.why and one.matters for one in judgement(text).not_judged)


def test_a_failed_product_is_blamed_where_code_may_be_wanting() -> None:
    assert "hipblaslt-unsupported-arch" in problems(_blas("AMD Radeon RX 7900 XTX"))
    forced = _blas("AMD Instinct MI300X", "export HSA_OVERRIDE_GFX_VERSION=9.4.0\n")
    assert {"hipblaslt-unsupported-arch", "hsa-override-wrong"} & set(problems(forced))


def test_a_library_that_asks_for_an_executable_stack_ends_the_import() -> None:
    text = "ImportError: libamdhip64.so: cannot enable executable stack as shared object requires: Invalid argument"
    assert problems(text) == ["torch-import-fails"]
    assert "clear-execstack" in advice(text)
    assert problems("warning: missing .note.GNU-stack section implies executable stack") == []


def test_a_runtime_that_finds_no_function_for_the_gpu_lacks_code_for_it() -> None:
    vector = "std::vector<_Tp, _Alloc>::reference std::vector<_Tp, _Alloc>::operator[](size_type) [with _Tp = {}; "
    failed = f"{vector}_Alloc = std::allocator<void*>]: Assertion '__n < this->size()' failed.\n"
    assert problems("RX 580\n" + failed.format("hip::DeviceFunc*")) == ["torch-rocm-no-arch-for-gpu"]
    assert problems("RX 580\n" + failed.format("float*")) == []


def test_the_runtime_that_three_kinds_of_gpus_crash_is_named() -> None:
    frame = "SIGSEGV in hip::FatBinaryInfo::ExtractFatBinaryUsingCOMGR (this=0x5, devices=std::vector of length 3)"
    assert problems(frame) == ["rocm-runtime-bug"]
    assert problems("SIGSEGV in hip::FatBinaryInfo::BuildProgram (this=0x5)") == []


# --- which kernel driver has the GPU ---------------------------------------------------------------

RADEON = "03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [Radeon RX 7900 XTX]\n"
UNCLAIMED = """\
  *-display UNCLAIMED
       product: Navi 31 [Radeon RX 7900 XTX]
       vendor: Advanced Micro Devices, Inc. [AMD/ATI]
       bus info: pci@0000:03:00.0
       configuration: latency=0
"""


@pytest.mark.parametrize("listing", [UNCLAIMED, f"{RADEON}\tSubsystem: Sapphire\n\tKernel modules: amdgpu\n"])
def test_a_gpu_that_no_kernel_driver_has_is_without_driver(listing: str) -> None:
    assert problems(listing) == ["no-driver"]
    assert "amdgpu" in advice(listing)
    assert "amdgpu driver" not in machine(listing).assumed


@pytest.mark.parametrize(
    "listing",
    [
        UNCLAIMED.replace(" UNCLAIMED", "").replace("latency=0", "driver=amdgpu latency=0"),
        f"{RADEON}\tKernel driver in use: amdgpu\n\tKernel modules: amdgpu\n",
        f"{RADEON}\tSubsystem: Sapphire\n",
    ],
)
def test_a_listing_that_names_amdgpu_or_was_cut_off_tells_of_no_fault(listing: str) -> None:
    assert problems(listing) == []


@pytest.mark.parametrize(
    "line",
    [
        '[    3.092610] amdgpu 0000:03:00.0: Failed to load gpu_info firmware "amdgpu/navi14_gpu_info.bin"',
        "[   25.103054] [drm:amdgpu_pci_probe [amdgpu]] *ERROR* amdgpu requires firmware installed",
    ],
)
def test_a_gpu_that_amdgpu_gave_up_for_want_of_firmware_has_no_driver(line: str) -> None:
    assert problems(f"GPU: RX 5500 XT\n{line}\n") == ["no-driver"]


def test_without_its_module_nvidias_driver_is_missing_and_not_idle() -> None:
    listing = (
        "04:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090]\n\tKernel modules: nouveau\n"
    )
    assert problems(listing) == ["no-driver"]
    assert "the kernel module is missing" in judgement(listing).findings[0].message


def test_an_override_within_the_generation_of_an_unlisted_gpu_is_no_fault() -> None:
    text = "HSA_OVERRIDE_GFX_VERSION={}\nthe GPU is gfx1037\n"
    assert problems(text.format("10.3.0")) == []
    assert problems(text.format("11.0.0")) == ["hsa-override-wrong"]


# --- libraries of ROCm -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("ImportError: librccl.so.1: cannot open shared object file: No such file", "framework-cuda-libs-missing"),
        ("ImportError: librocblas.so.4: cannot open shared object file: No such file", "rocm-version-mismatch"),
        ("ImportError: libmcwamp.so.3: cannot open shared object file: No such file", "rocm-version-mismatch"),
        ("ImportError: libroctx64.so.1: cannot open shared object file: No such file", "rocm-version-mismatch"),
        ("ImportError: /v/torch/lib/libtorch_cpu.so: undefined symbol: zgetrs_", "torch-import-fails"),
        ("ImportError: /v/torch/lib/libtorch_hip.so: undefined symbol: _ZNK2at10TensorBase", "torch-import-fails"),
        ("ImportError: /v/torch/lib/libtorch_hip.so: undefined symbol: ncclCommInitRankScalable", "nccl-shadowed"),
        ("ImportError: /opt/rocm/lib/libMIOpen.so.1: undefined symbol: _ZN2ck16tensor", "torch-import-fails"),
        ("ImportError: /venv/x.so: undefined symbol: hipGetDevicePropertiesR0600", "torch-import-fails"),
        ("ImportError: /venv/x.so: undefined symbol: _ZN3c103hip19getCurrentHIPStreamEa", "extension-abi"),
        (
            "ImportError: x.so: undefined symbol: _ZNSt15__exception_ptr13exception_ptr9_M_addrefEv",
            "libstdcxx-too-old",
        ),
        ("OSError: bitsandbytes/libbitsandbytes_cpu.so: cannot open shared object file", "bitsandbytes-no-cuda-lib"),
        (f'OSError: [WinError 1114] Error loading "C:\\{"folder" * 40}\\c10_hip.dll"', "torch-import-fails"),
    ],
)
def test_a_library_that_cannot_be_loaded_tells_why(line: str, slug: str) -> None:
    assert problems(line)[:1] == [slug]


def test_a_library_of_another_project_is_none_of_rocm() -> None:
    for name in ("librocksdb.so.8", "librocketchat.so"):
        assert problems(f"ImportError: {name}: cannot open shared object file: No such file or directory") == []


def test_a_torch_that_printed_a_line_of_miopen_is_built_for_rocm() -> None:
    text = "pytorch 1.9.1\nMIOpen Error: /MIOpen/src/hipoc/hipoc_program.cpp:286: Code object build failed.\n"
    torch = machine(text).torch
    assert torch is not None
    assert (torch.version, torch.hip, torch.cuda) == ("1.9.1", "unknown", None)
    assert problems(text) == ["error-seen"]


@pytest.mark.parametrize(
    ("gpu", "slug"), [("RX 580", "torch-rocm-no-arch-for-gpu"), ("RX 6800", "amd-device-permission")]
)
def test_of_a_gpu_that_no_build_has_code_for_rocm_finds_none(gpu: str, slug: str) -> None:
    assert problems(f"RuntimeError: No HIP GPUs are available\nGPU: {gpu}\ntorch 2.4.1+rocm6.1\n")[:1] == [slug]


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("docker run --device /dev/kfd --device /dev/dri ollama/ollama:rocm", False),
        ("export HIP_VISIBLE_DEVICES=0,1", True),
    ],
)
def test_a_variable_that_nobody_names_does_not_hide_an_amd_gpu(text: str, hidden: bool) -> None:
    message = "ggml_cuda_init: failed to initialize ROCm: no ROCm-capable device is detected"
    found = judgement(f"RX 7900 XTX\n$ {text}\n{message}\n").findings
    assert ("cuda-visible-devices" in [one.slug for one in found[:1]]) is hidden


def test_ollama_looks_for_cuda_on_an_amd_machine_without_harm() -> None:
    line = 'level=INFO msg="Unable to load cudart CUDA management library /tmp/x/libcudart.so.11.0: cudart init '
    amd = 'msg="amdgpu is supported" gpu=0 gpu_type=gfx1100'
    assert problems(f'{line}failure: 100"\n{amd}\n') == []
    assert problems(f'{line}failure: 35"\nRTX 3060, NVIDIA driver 470.82.01\n') != []


def test_a_program_that_names_its_gpu_finds_one() -> None:
    title = "# ollama: AMD GPU version info not found, no GPU is detected\n"
    log = 'msg="inference compute" id=0 library=rocm compute=gfx900 driver=0.0 name=1002:687f\n'
    assert problems(title + log) == []
    assert problems(title) == ["program-on-cpu"]
    assert problems(f"# ollama only uses the CPU of my RX 7900 XTX\n{log}")[:1] == ["program-on-cpu"]


@pytest.mark.parametrize(
    ("text", "slugs"),
    [
        ("[Issue]: gfx1151 hangs under llama.cpp with the ROCm backend", ["rocm-runtime-bug"]),
        ("Eval bug: instant segfault with HIP\n\nRX 7900 XTX", ["rocm-runtime-bug"]),
        ("On my RX 9070 XT ComfyUI returns black images", ["rocm-runtime-bug"]),
        ("llama.cpp with ROCm crashes on my RX 6700 XT", ["torch-rocm-no-arch-for-gpu"]),
        ("My RX 7900 XTX hangs in games since yesterday", []),
        ("llama.cpp on my RX 7900 XTX does not crash any more", []),
        ("Does llama.cpp crash on an RX 7900 XTX?", []),
        ("llama.cpp crashes on my RTX 4090", []),
    ],
)
def test_a_program_that_fails_on_an_amd_gpu_has_a_likely_cause(text: str, slugs: list[str]) -> None:
    assert problems(text) == slugs


def test_the_likely_cause_gives_way_to_a_known_one() -> None:
    text = "ComfyUI crashes on my RX 7900 XTX.\nexport HSA_OVERRIDE_GFX_VERSION=10.3.0\n"
    assert problems(text) == ["hsa-override-wrong"]


@pytest.mark.parametrize(
    ("gfx", "slug"),
    [("gfx1036", "amd-igpu-interferes"), ("gfx1103", "rocblas-no-arch"), ("gfx1010", "rocblas-no-arch")],
)
def test_who_computes_has_another_gpu_beside_one_for_the_screen(gfx: str, slug: str) -> None:
    message = (
        "rocBLAS error: Cannot read /opt/rocm-6.4.1/lib/rocblas/library/TensileLibrary.dat: No such file or directory"
    )
    assert problems(f"{message} for GPU arch : {gfx}\n") == [slug]


def test_a_crash_with_an_integrated_gpu_beside_the_card_of_a_list() -> None:
    text = (
        "# ROCm crash when loading model with integrated GPU\n\nComputer Specs:\n* GPU: RX7900XTX\n* CPU: 7800X3D\n"
    )
    assert problems(text) == ["amd-igpu-interferes"]


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("RX580 2048sp with 4GB RAM", "gfx803"),
        ("MI210x4", "gfx90a"),
        ("AMD Instinct MI300A Accelerator", "gfx942"),
        ("AMD 7950X3D + 128GB RAM + AMD 7900XTX", "gfx1100"),
    ],
)
def test_a_name_with_remarks_is_a_name(name: str, arch: str) -> None:
    assert [gpu.arch.value for gpu in machine(f"GPU: {name}\nHIP error: invalid argument\n").gpus] == [arch]


def test_the_processor_tells_which_of_two_integrated_gpus_it_is() -> None:
    gpu = "GPU: AMD ATI Radeon Vega Series / Radeon Vega Mobile Series\n"
    cezanne = machine(f"CPU: AMD Ryzen 7 5800HS with Radeon Graphics (16)\n{gpu}HIP error: invalid argument\n")
    assert [gpu.arch.value for gpu in cezanne.gpus] == ["gfx90c"]
    assert [gpu.arch.value for gpu in machine(f"{gpu}HIP error: invalid argument\n").gpus] == [None]


def test_an_answer_in_the_sentence_below_the_call_is_one() -> None:
    index = "https://download.pytorch.org/whl/rocm5.4.2"
    call = f"pip3 install torch --index-url {index}\nI run\n```\ntorch.cuda.is_available()\n```\n"
    assert problems(f"{call}which always returns false.\n") == ["amd-device-permission"]
    assert problems(f"{call}which should return true on Linux.\n") == []


def test_a_message_knows_more_than_that_a_program_crashes() -> None:
    fault = "Memory access fault by GPU node-1 on address 0x7f18. Reason: Page not present"
    assert problems(f"ollama crashes on my RX 7900 XTX:\n{fault}\n") == ["amd-firmware-regression"]


def test_what_is_so_on_each_system_is_of_none() -> None:
    assert machine("RX 9070 XT hangs\nLinux Ubuntu 24.04.3, WSL2 Ubuntu 24.04, Windows10\n").pasted.foreign == ""  # type: ignore[union-attr]
    assert machine("RX 9070 XT hangs\nWindows 11\n").pasted.foreign == "windows"  # type: ignore[union-attr]


def test_headers_that_miopen_misses_are_one_problem() -> None:
    text = "fatal error: 'type_traits' file not found\nRuntimeError: miopenStatusUnknownError\n"
    assert problems(text) == ["error-seen"]


# --- what people tell ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "slugs"),
    [
        ("/dev/kfd no longer exists\n\nIs this expected?", ["amd-kfd-missing"]),
        ("RX 6600: Blender crashes. Setting LD_PRELOAD to libamd_comgr.so.3 fixed it.", ["rocm-runtime-bug"]),
        ("RX 6600: Blender crashes. LD_PRELOAD=libamd_comgr.so.3 did not help.", []),
        (
            "HIP binary kernel for this graphics card compute capability (11.0) not found.",
            ["ext-built-without-gpu-arch"],
        ),
        ("vLLM fails on an MI300X: _C ABI mismatch, undefined HIP symbols", ["vllm-torch-abi"]),
        ("RX 9070 XT: amdgpu fails to load its firmware after the update.", ["no-driver"]),
        ("RX 9070 XT: I updated the firmware of amdgpu, and torch cannot load my model.", []),
        ("RX 9070 XT: WSL2 says `Is CUDA available: False`", ["rocm-wsl-unsupported"]),
        (
            "RX 9070 XT: nothing in rocminfo. I had to update the kernel, then it worked.",
            ["amd-kernel-or-runtime-too-old"],
        ),
        ("RX 9070 XT: is there some package that I need to update or is this a kernel issue?", []),
        ("Update mi300x.rst with modprobe.blacklist=amdgpu\n\nElse GPUs are missing after boot.", []),
        ("Fix README.md, its steps fail: ROCk module is NOT loaded, possibly no GPU devices", ["amd-kfd-missing"]),
    ],
)
def test_what_people_tell_of_amds_programs_has_its_cause(told: str, slugs: list[str]) -> None:
    assert problems(f"{told}\n") == slugs


# --- what was only tried ---------------------------------------------------------------------------

OLD_TORCH_ON_RDNA4 = "PyTorch 2.6.0+rocm6.2.4 on a Radeon RX 9070 XT\n"
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION=11.0.0"


@pytest.mark.parametrize(
    "told",
    [
        f"I either get an error if I start main.py without any args, or if I add {OVERRIDE}, I get a crash.",
        f"Without any args it fails, and if I set {OVERRIDE} the machine hangs.",
        f"I tried `{OVERRIDE}` but it crashes.",
        f"I've tried it with {OVERRIDE} and without, neither works.",
        f"I also tried {OVERRIDE}, which changes nothing.",
        f"Even when I use {OVERRIDE} the error stays.",
    ],
)
def test_an_override_that_was_only_tried_is_no_cause(told: str) -> None:
    text = f"{OLD_TORCH_ON_RDNA4}{told}\n{INVALID}"
    assert problems(text)[0] == "torch-rocm-no-arch-for-gpu"
    assert "unset" not in advice(text).lower()


@pytest.mark.parametrize(
    "told",
    [
        f"I set {OVERRIDE} and it crashes.",
        f"I have {OVERRIDE} in my .bashrc.",
        f"I tried to install it three times. {OVERRIDE} is set.",
        f"export {OVERRIDE}",
    ],
)
def test_an_override_that_is_set_is_blamed(told: str) -> None:
    assert "hsa-override-wrong" in problems(f"{OLD_TORCH_ON_RDNA4}{told}\n{INVALID}")


def test_an_override_with_which_it_works_is_set() -> None:
    told = "It fails, but if I set HSA_OVERRIDE_GFX_VERSION=10.3.0 it works."
    variables = machine(f"torch 2.9.1+rocm6.4, Radeon RX 6600\n{told}\n").variables
    assert variables["HSA_OVERRIDE_GFX_VERSION"] == "10.3.0"


# --- what has no code for the GPU, told by programs -------------------------------------------------


@pytest.mark.parametrize(
    ("message", "slug", "fix"),
    [
        (
            "RuntimeError: FlashAttention only supports AMD MI200 GPUs or newer.",
            "ext-built-without-gpu-arch",
            "Triton",
        ),
        (
            "AssertionError: One of GPU archs of gfx1100 is invalid or not supported by Flash-Attention",
            "ext-built-without-gpu-arch",
            "FLASH_ATTENTION_TRITON_AMD_ENABLE",
        ),
        ("InternalError: Failed to get device name: HIP_ERROR_InvalidValue", "torch-rocm-no-arch-for-gpu", ""),
        ("could not retrieve ROCM device count: HIP_ERROR_NoDevice", "amd-device-permission", "render,video"),
        ("ModuleNotFoundError: No module named 'torch_directml'", "torch-cpu-only", "gpudoctor recommend"),
        (
            "rocBLAS error: Could not load C:\\Program Files\\AMD\\ROCm\\6.1\\bin\\/rocblas/library/TensileLib.dat",
            "rocblas-no-arch",
            "%HIP_PATH%bin",
        ),
        ("RuntimeError: Unknown backend rocm. Available backends are ['cpu']", "framework-cpu-only", "rocm7-plugin"),
        ("libtensilelite-host.so.1: cannot open shared object file: No such file", "rocm-version-mismatch", ""),
    ],
)
def test_what_programs_for_amd_print(message: str, slug: str, fix: str) -> None:
    found = judgement(f"GPU: Radeon RX 7900 XTX\n{message}\n").findings[0]
    assert found.slug == slug
    assert fix in str(found.fixes)


def test_no_gpu_is_told_to_run_as_itself() -> None:
    found = judgement("RX 580, tensorflow-rocm\nFailed to get device name: HIP_ERROR_InvalidValue\n").findings[0]
    assert "8.0.3" not in str(found.fixes)


def test_a_message_of_rocblas_stays_one_on_a_gpu_that_no_build_has_code_for() -> None:
    path = "/opt/rocm-6.2.2/lib/rocblas/library/TensileLibrary.dat"
    assert problems(f"rocBLAS error: Cannot read {path}: Illegal seek for GPU arch : gfx803\n") == ["rocblas-no-arch"]


def test_advice_for_windows_is_not_taken_for_advice_for_linux() -> None:
    text = "Windows 11, Docker Desktop\ndocker: Error response from daemon: could not select device driver\n"
    assert "wsl --update" in str(judgement(text).findings[0].fixes)


# --- packages for CUDA on an AMD machine -----------------------------------------------------------

NO_NVCC = "RuntimeError: flash_attn was requested, but nvcc was not found.\n"
NO_C10_CUDA = "OSError: libc10_cuda.so: cannot open shared object file: No such file or directory\n"


@pytest.mark.parametrize("message", [NO_NVCC, NO_C10_CUDA])
@pytest.mark.parametrize("machine_of", ["GPU: Radeon RX 7900 XTX\n", "torch.__version__  = 2.6.0+rocm6.2\n"])
def test_a_package_for_cuda_is_no_reason_to_install_a_cuda_toolkit_on_an_amd_machine(
    machine_of: str, message: str
) -> None:
    found = judgement(machine_of + message).findings[0]
    assert found.slug == "framework-other-vendor"
    assert "ROCm" in str(found.fixes)
    assert not any(word in str(found.fixes) for word in ("CUDA toolkit", "CUDA_HOME"))


@pytest.mark.parametrize("message", [NO_NVCC, NO_C10_CUDA])
@pytest.mark.parametrize("machine_of", ["GPU: GeForce RTX 4090\n", "torch 2.6.0+cu124\n", ""])
def test_elsewhere_such_a_package_is_right(machine_of: str, message: str) -> None:
    assert "framework-other-vendor" not in problems(machine_of + message)


def test_a_library_of_rocm_that_is_missing_beside_a_rocm_torch_is_none_of_another_vendor() -> None:
    text = (
        "torch 2.6.0+rocm6.2\nOSError: libtorch_hip.so: cannot open shared object file: No such file or directory\n"
    )
    assert "framework-other-vendor" not in problems(text)


# --- the GPU is known, so advice names it ----------------------------------------------------------


@pytest.mark.parametrize(("gpu", "fix"), [("RX 570", "from source"), ("RX 6650 XT", "gfx1032")])
def test_a_build_for_a_gpu_that_the_text_names_is_not_left_to_a_question(gpu: str, fix: str) -> None:
    fixes = judgement(f"Segmentation fault with my {gpu} when I run stable diffusion with torch for ROCm.\n").findings
    assert fix in str(fixes[0].fixes[0])
    assert "--gpu NAME" not in str(fixes[0].fixes)


def test_without_a_gpu_advice_still_asks_for_it() -> None:
    text = "Radeon GPU. My torch is for the CPU, and ComfyUI runs on the CPU instead of the GPU.\n"
    assert "recommend --gpu NAME" in str(judgement(text).findings[0].fixes)


def test_a_program_of_its_own_is_not_mended_by_a_build_of_torch() -> None:
    found = judgement("ollama runs on the CPU although I have a Radeon RX 7900 XTX\n").findings
    assert not any("torch==" in str(one.fixes) for one in found)


# --- what amdgpu and the runtime say ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("RX 7900 XTX: *ERROR* MES failed to response msg=3 when I generate an image", "amd-gpu-hang"),
        ("# 7900 XTX *ERROR* ring gfx_0.0.0 timeout in PyTorch", "amd-gpu-hang"),
        ("# MI50 in a KVM guest fails with atombios stuck in loop, Fatal error during GPU init", "no-driver"),
        ("RX 9070 XT, vllm\nHIP error: invalid argument in cudaMemGetInfo", "amd-kernel-or-runtime-too-old"),
        ("WSL2, RX 7900 XTX\nE: Unable to locate package hsa-runtime-rocr4wsl-amdgpu", "rocm-wsl-unsupported"),
        ("gfx900\nTensileLibrary.dat: Illegal seek", "rocblas-no-arch"),
    ],
)
def test_a_line_of_amdgpu_is_known_in_a_title_too(text: str, slug: str) -> None:
    assert problems(text + "\n")[:1] == [slug]


@pytest.mark.parametrize(
    "text",
    [
        "RX 7900 XTX works. Should I worry about *ERROR* messages of amdgpu?",
        "radeon 0000:01:00.0: Fatal error during GPU init",
        "RX 7900 XTX, torch 2.9.1+rocm6.4, RuntimeError: HIP error: invalid argument",
        "Docker Desktop, RX 7900 XTX\nE: Unable to locate package hsa-runtime-rocr",
    ],
)
def test_other_lines_name_none_of_these_causes(text: str) -> None:
    of_amdgpu = {"amd-gpu-hang", "no-driver", "amd-kernel-or-runtime-too-old", "rocm-wsl-unsupported"}
    assert not of_amdgpu.intersection(problems(text + "\n"))


def test_in_a_container_rights_come_before_the_age_of_the_driver() -> None:
    text = (
        "GPU: RX 7900 XTX. Inside a distrobox, rocminfo prints:\n"
        "Call returned HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources.\n"
    )
    assert problems(text)[:1] == ["amd-device-permission"]


def test_a_wrong_override_that_a_person_names_is_the_cause() -> None:
    assert problems("RX 6700 XT. The start script sets a wrong HSA_OVERRIDE_GFX_VERSION, the GPU hangs.\n")[:1] == [
        "hsa-override-wrong"
    ]


@pytest.mark.parametrize(
    ("folder", "gfx", "release"),
    [
        ("/opt/rocm-6.4.0", "gfx906", "6.3"),  # that release ended it
        ("/opt/rocm-5.4.2", "gfx1100", "5.7"),  # that release did not have it yet
        ("/opt/rocm", "gfx803", "5.7"),  # which release it is, is not told
        ("/opt/rocm-7.2.0", "gfx1201", "7.2.0"),  # it has them: the package is for other GPUs
    ],
)
def test_the_rocm_whose_rocblas_has_kernels_is_named(folder: str, gfx: str, release: str) -> None:
    message = f"rocBLAS error: Cannot read {folder}/lib/rocblas/library/TensileLibrary.dat: Illegal seek"
    found = judgement(f"{message} for GPU arch : {gfx}\n").findings[0]
    assert f"ROCm {release}" in str(found.fixes[0])


def test_no_rocm_is_named_for_the_rocblas_of_a_wheel() -> None:
    message = "rocBLAS error: Cannot read /venv/torch/lib/rocblas/library/TensileLibrary.dat: Illegal seek"
    assert "Install ROCm" not in str(judgement(f"{message} for GPU arch : gfx906\n").findings[0].fixes)
