"""What smoke kernels showed becomes causes: one finding for one cause and GPU, told with the machine's facts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.engine import judge
from gpudoctor.machine import (
    LISTING,
    CodeArchs,
    DamagedFile,
    DeviceNode,
    Distribution,
    Extension,
    ImportTrial,
    Library,
    LoadPath,
    Machine,
    MigDevice,
    NvidiaApi,
    NvmlDevice,
    Smoke,
    SmokeDevice,
    SmokeKernel,
    absent,
    known,
    unknown,
)
from gpudoctor.suites import machine_checks
from tests.support.check_cases import matrix
from tests.support.judging import finding, judged, questions, remedies, told
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

QUICK = ("copy", "elementwise", "matmul", "convolution", "reduction", "attention")
NVIDIA = SmokeDevice(name="cuda:0", product="NVIDIA GeForce RTX 4090", bdf="0000:01:00.0")
AMD = SmokeDevice(name="cuda:0", product="AMD Radeon RX 7900 XTX", bdf="0000:03:00.0")

NO_IMAGE = "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"
NO_FUNCTION = "RuntimeError: HIP error: invalid device function\nHIP kernel errors might be reported later."
FAULT = "Memory access fault by GPU node-1 (Agent handle: 0x5570) on address 0x7ff9. Reason: Page not present."
ILLEGAL = "torch.AcceleratorError: HIP error: an illegal memory access was encountered"
OVERRIDE = {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}


def kernels(*names: str, device: str = "cuda:0", **result: Any) -> tuple[SmokeKernel, ...]:
    return tuple(SmokeKernel(name=name, device=device, dtype="float32", **result) for name in names or QUICK)


def passing(*names: str, device: str = "cuda:0") -> tuple[SmokeKernel, ...]:
    return kernels(*names, device=device, ms=1.0, error=0.0, tolerance=0.01)


def raising(message: str, *names: str, device: str = "cuda:0") -> tuple[SmokeKernel, ...]:
    return kernels(*names, device=device, status="error", message=message)


def crashing(said: str, *names: str, device: str = "cuda:0", signal: str = "SIGABRT") -> tuple[SmokeKernel, ...]:
    detail = f"the process ended with {signal}"
    return kernels(*names, device=device, status="crash", message=said, signal=signal, detail=detail)


def computing_wrong(*names: str, device: str = "cuda:0") -> tuple[SmokeKernel, ...]:
    return kernels(*names, device=device, status="wrong", error=0.5, tolerance=0.015)


def ran(machine: Machine, *results: SmokeKernel, devices: tuple[SmokeDevice, ...] = (), **parts: Any) -> Machine:
    default = AMD if machine.gpus and machine.gpus[0].vendor == "amd" else NVIDIA
    smoke = Smoke(level="standard", devices=devices or (default,), kernels=results, **parts)
    return change(machine, smoke=smoke)


def errors(machine: Machine) -> list[str]:
    return [slug for slug, severity in told(machine) if severity == "error"]


def rx6700(**parts: Any) -> Machine:
    return amd_machine(amd_gpu("AMD Radeon RX 6700 XT", "gfx1031"), **parts)


def rtx5090(**parts: Any) -> Machine:
    return nvidia_machine(nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120"), **parts)


SOURCE_BUILD = torch("2.9.0a0+git1234", origin="source", build=None, cuda="12.8")
"""What it was built for is not known."""


# --- healthy machines say nothing --------------------------------------------------------------------


HEALTHY = {
    "nvidia": nvidia_machine(),
    "amd": amd_machine(),
    "eight GPUs": nvidia_machine(*(nvidia_gpu("NVIDIA H100 80GB HBM3", "sm_90", index=i) for i in range(8))),
    "mig": nvidia_machine(
        nvidia_gpu(
            "NVIDIA A100-SXM4-80GB",
            "sm_80",
            nvml=NvmlDevice(index=0, mig=True, mig_devices=(MigDevice(profile="1g.10gb", uuid="MIG-1"),)),
        )
    ),
    "wsl2": change(
        with_system(
            with_stack(
                nvidia_machine(nvidia_gpu(bdf=None, driver=known("dxgkrnl", "wsl"), nodes=("/dev/dxg",))),
                nodes=known((DeviceNode("/dev/dxg", opened="ok"),), "/dev"),
            ),
            wsl=known("5.15-microsoft-WSL2", "uname"),
        ),
        load_path=LoadPath(
            (Library("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", None, "wsl", "ld.so.cache"),),
            ("/usr/lib/wsl/lib",),
            known(True, "ld.so.cache"),
        ),
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_kernels_that_pass_on_a_healthy_machine_add_nothing(name):
    machine = HEALTHY[name]
    devices = tuple(
        SmokeDevice(name=f"cuda:{place}", product=gpu.name, bdf=gpu.bdf) for place, gpu in enumerate(machine.gpus)
    )
    results = tuple(kernel for device in devices for kernel in passing(device=device.name))
    assert told(ran(machine, *results, devices=devices)) == told(machine)
    assert judged(ran(machine, *results, devices=devices)).verdict == "ok"


def test_a_driver_that_refuses_one_library_and_computes_all_the_same_is_a_warning():
    # A copy of libnvidia-ml of another release on LD_LIBRARY_PATH, on an H100: nvidia-smi fails, torch computes.
    refusing = with_stack(nvidia_machine(), nvml=known(NvidiaApi(status=18), "nvml"))
    assert told(refusing) == [("driver-lib-mismatch", "error")]
    seen = ran(refusing, *passing())
    assert told(seen) == [("driver-lib-mismatch", "warning")]
    assert "computed right" in finding(seen, "driver-lib-mismatch").message
    assert finding(seen, "driver-lib-mismatch").fixes


JAX = {"jax": "0.12.0.1", "jaxlib": "0.12.0.1", "jax-cuda13-plugin": "0.12.0.1", "jax-cuda13-pjrt": "0.12.0.1"}
FLASH = Extension("flash-attn", "2.7.4", "/site/flash_attn_2_cuda.so", sass=("sm_100",), of_torch=True)


@pytest.mark.parametrize(
    ("machine", "slug"),
    [
        (nvidia_machine(packages=JAX, driver="570.86.10"), "driver-too-old"),
        (nvidia_machine(packages=JAX, variables={"JAX_PLATFORMS": "gpu"}), "framework-variable"),
        (with_environment(nvidia_machine(), extensions=(FLASH,)), "ext-built-without-gpu-arch"),
    ],
)
def test_kernels_of_torch_refute_nothing_that_is_said_of_another_framework_or_package(machine, slug):
    assert told(machine) == told(ran(machine, *passing())) == [(slug, "error")]


def test_an_override_that_holds_stays_the_warning_that_it_is():
    machine = ran(rx6700(variables=OVERRIDE), *passing())
    assert errors(machine) == []
    assert judged(machine).verdict == "warning"


def test_skipped_kernels_are_no_open_question():
    skipped = kernels("attention-flash", status="skipped", detail="flash attention does not take float32")
    machine = ran(nvidia_machine(), *passing(), *skipped)
    assert judged(machine).verdict == "ok"
    assert not [q for q in judged(machine).not_judged if q.id == "GPD501"]


# --- one finding, with the machine's facts -------------------------------------------------------------

TEST_CASES = {
    # name: (machine, slug, first way out, words of the message)
    "no code, and the files say so": (
        ran(rtx5090(torch=torch("2.6.0+cu124")), *raising(NO_IMAGE)),
        "torch-no-arch-for-gpu", ["torch 2.7.0+cu128"], ["sm_120", "6 of 6", "no kernel image"],
    ),
    "an old GPU, and the files say so": (
        ran(nvidia_machine(nvidia_gpu("NVIDIA GeForce GTX 1080", "sm_61"), torch=torch("2.9.1+cu128"),
                           flavour="proprietary"), *raising(NO_IMAGE)),
        "torch-dropped-old-gpu", ["torch 2.9.1+cu126"], ["sm_61", "no kernel image"],
    ),
    "no code, and nothing else tells": (
        ran(rtx5090(torch=SOURCE_BUILD), *raising(NO_IMAGE)),
        "torch-no-arch-for-gpu", ["Manual"], ["sm_120", "unknown list"],
    ),
    "gfx1031": (
        ran(rx6700(), *raising(NO_FUNCTION)),
        "torch-rocm-no-arch-for-gpu", ["torch 2.11.0+rocm7.14.0 [device-gfx1031]"], ["gfx1031", "gfx1030", "invalid"],
    ),
    "gfx1031 that dies without a word": (
        ran(rx6700(), *crashing("", signal="SIGSEGV")),
        "torch-rocm-no-arch-for-gpu", ["torch 2.11.0+rocm7.14.0 [device-gfx1031]"], ["SIGSEGV"],
    ),
    "an override that does not hold": (
        ran(rx6700(variables=OVERRIDE), *passing("copy"), *crashing(FAULT, "matmul")),
        "torch-rocm-no-arch-for-gpu",
        ["torch 2.11.0+rocm7.14.0 [device-gfx1031]", "unset HSA_OVERRIDE_GFX_VERSION"], ["access fault", "10.3.0"],
    ),
    "an override across generations": (
        ran(amd_machine(variables=OVERRIDE), *passing("copy"), *crashing(FAULT, "matmul")),
        "hsa-override-wrong", ["unset HSA_OVERRIDE_GFX_VERSION"], ["gfx1100"],
    ),
    "an override that is not needed": (
        ran(amd_machine(variables={"HSA_OVERRIDE_GFX_VERSION": "11.0.1"}), *passing("copy"),
            *raising(ILLEGAL, "matmul")),
        "hsa-override-wrong", ["unset HSA_OVERRIDE_GFX_VERSION"], ["illegal memory access"],
    ),
    "rocBLAS": (
        ran(amd_machine(), *passing("copy", "elementwise"), *crashing(
            "rocBLAS error: Cannot read /x/TensileLibrary.dat: Illegal seek for GPU arch : gfx1100", "matmul")),
        "rocblas-no-arch", ["ReinstallPackage torch2.9.1+rocm6.4"], ["rocBLAS has no kernels"],
    ),
    "a crash that nothing explains": (
        ran(nvidia_machine(), *passing(), *crashing("", "large-indexing", signal="SIGSEGV")),
        "smoke-crash", ["Manual"], ["SIGSEGV", "1 of 7"],
    ),
    "a hang": (
        ran(nvidia_machine(), *passing(), *kernels("sort", status="timeout", detail="no answer within 20 s")),
        "smoke-crash", ["Manual"], ["no answer within 20 s"],
    ),
    "ECC": (
        ran(nvidia_machine(), *raising("RuntimeError: CUDA error: uncorrectable ECC error encountered")),
        "gpu-ecc", ["Manual"], ["uncorrectable error"],
    ),
    "cuDNN": (
        ran(nvidia_machine(), *passing("copy", "elementwise", "matmul"),
            *raising("RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "convolution")),
        "cudnn-mismatch", None, ["another cuDNN"],
    ),
    "ptxas": (
        ran(nvidia_machine(), *passing(), *raising(
            "PTXASError: PTXAS error\nptxas fatal   : Value 'sm_89' is not defined for option 'gpu-name'", "triton")),
        "ptxas-too-old", ["Manual"], ["ptxas"],
    ),
    "wrong numbers": (
        ran(nvidia_machine(), *passing(), *computing_wrong("softmax")),
        "smoke-wrong-result", ["Manual"], ["0.5", "1 of 7"],
    ),
    "wrong attention on ROCm, as is known of it": (
        ran(amd_machine(torch=torch("2.4.0+rocm6.1")), *passing(), *computing_wrong("attention-memory-efficient")),
        "rocm-mem-efficient-attention", ["torch 2.4.1+rocm6.1"], ["attention-memory-efficient"],
    ),
    "wrong attention on ROCm of which nothing is known": (
        ran(amd_machine(), *passing(), *computing_wrong("attention-memory-efficient")),
        "smoke-wrong-result", ["Manual"], ["attention-memory-efficient"],
    ),
    "the CPU": (
        ran(no_gpu_machine(torch=torch("2.9.1+cpu")), *computing_wrong("matmul", device="cpu"),
            devices=(SmokeDevice(name="cpu"),)),
        "smoke-wrong-result", ["Manual"], ["the CPU"],
    ),
    "torch could not list its devices": (
        ran(nvidia_machine(), SmokeKernel(name="devices", device="cuda", status="error", message="RuntimeError: "
            "Unexpected error. Error 804: forward compatibility was attempted on non supported HW")),
        "cuda-compat-on-geforce", ["Manual"], ["cuda-compat"],
    ),
    "linear algebra on Turing": (
        ran(nvidia_machine(nvidia_gpu("Tesla T4", "sm_75"), torch=torch("2.12.1+cu130")), *passing(),
            *raising(NO_IMAGE, "linalg-eigh")),
        "torch-linalg-no-arch", ["torch 2.15.0+cu132"], ["linalg-eigh"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TEST_CASES)
def test_failed_kernels_are_one_error_that_names_the_cause(name):
    machine, slug, fix, words = TEST_CASES[name]
    assert errors(machine) == [slug]
    found = finding(machine, slug)
    assert all(word in found.message for word in words), found.message
    assert any(item.fact.startswith("smoke.") for item in found.evidence)
    assert found.fixes
    if fix is not None:
        assert remedies(machine, slug) == fix


def test_what_the_facts_say_too_is_certain_and_keeps_their_id():
    found = finding(ran(rtx5090(torch=torch("2.6.0+cu124")), *raising(NO_IMAGE)), "torch-no-arch-for-gpu")
    assert (found.id, found.confidence) == ("GPD402", "certain")
    assert len([item for item in found.evidence if item.fact.startswith("smoke.cuda:0.")]) == len(QUICK)


def test_a_cause_that_only_the_text_tells_has_the_id_of_the_check_that_judges_it():
    machine = ran(rtx5090(torch=SOURCE_BUILD), *raising(NO_IMAGE))
    assert finding(machine, "torch-no-arch-for-gpu").id == "GPD402"
    hidden = judge(machine, matrix(), machine_checks(), ignore={"torch-no-arch-for-gpu": "known"})
    assert [item.id for item in hidden.ignored] == ["GPD402"]
    assert not [f for f in hidden.findings if f.severity == "error"]


def test_the_build_that_just_failed_is_no_way_out():
    """The files say that it serves the GPU, and every kernel says that it does not."""
    machine = ran(nvidia_machine(torch=torch("2.13.0+cu130", build="cu130", cuda="13.0")), *raising(NO_IMAGE))
    (found,) = judged(machine).findings
    assert found.slug == "torch-no-arch-for-gpu"
    assert found.fixes
    assert not any(getattr(remedy, "build", "") == "cu130" for fix in found.fixes for remedy in fix.remedies)
    assert "again" in found.fixes[0].title, "its files were not read, and may be damaged"
    scanned = with_torch(machine, archs=known(CodeArchs(sass=("sm_86", "sm_90")), "libtorch_cuda.so"))
    assert remedies(scanned, "torch-no-arch-for-gpu") == ["torch 2.13.0+cu126"]


def test_one_kernel_without_code_where_others_pass_is_not_the_builds_fault():
    machine = ran(nvidia_machine(), *passing(), *raising(NO_IMAGE, "attention-flash"))
    assert errors(machine) == ["smoke-crash"]
    assert "enable_flash_sdp" in str(finding(machine, "smoke-crash").fixes)


def test_a_silent_crash_beside_a_text_on_the_same_gpu_is_the_same_cause():
    machine = ran(
        rtx5090(torch=SOURCE_BUILD), *raising(NO_IMAGE, "copy"), *crashing("", "matmul"), *crashing("", "attention")
    )
    assert errors(machine) == ["torch-no-arch-for-gpu"]


def test_a_crash_of_one_kernel_is_not_put_down_to_what_would_stop_all():
    """A GTX 1080 whose driver is too old could compute nothing: here the other kernels passed."""
    machine = ran(nvidia_machine(driver="525.60.13"), *passing(), *crashing("", "sort"))
    assert "smoke-crash" in errors(machine)


def test_a_harmless_line_explains_no_crash():
    line = "MIOpen(HIP): Warning [SQLiteBase] Missing system database file: gfx1100_48.kdb Performance may degrade."
    assert errors(ran(amd_machine(), *passing("copy"), *crashing(line, "convolution"))) == ["smoke-crash"]


def test_what_failed_without_a_word_joins_the_cause_only_where_nothing_computes():
    silent = kernels("copy", status="crash", signal="SIGSEGV", detail="the process ended with SIGSEGV")
    old = {"torch": torch("2.6.0+cu124", cuda="12.4")}
    assert errors(ran(rtx5090(**old), *silent, *raising(NO_IMAGE, "matmul"))) == ["torch-no-arch-for-gpu"]
    mixed = ran(nvidia_machine(), *passing("matmul"), *silent, *raising(NO_IMAGE, "sort"))
    assert set(errors(mixed)) == {"smoke-crash"}


def test_a_note_explains_no_crash():
    machine = nvidia_machine(driver="545.23.08")
    assert dict(told(machine))["driver-too-old"] == "note"
    assert errors(ran(machine, *crashing("", signal="SIGSEGV"))) == ["smoke-crash"]


def test_equal_gpus_that_fail_alike_are_one_finding_and_unlike_gpus_are_not():
    def machine(second: str, arch: str) -> Machine:
        gpus = (nvidia_gpu(), nvidia_gpu(second, arch, index=1))
        devices = tuple(SmokeDevice(name=f"cuda:{i}", bdf=gpu.bdf) for i, gpu in enumerate(gpus))
        failed = (
            *passing(),
            *crashing("", "sort"),
            *passing(device="cuda:1"),
            *crashing("", "sort", device="cuda:1"),
        )
        return ran(nvidia_machine(*gpus), *failed, devices=devices)

    assert len(errors(machine("NVIDIA GeForce RTX 4090", "sm_89"))) == 1
    assert len(errors(machine("NVIDIA GeForce RTX 3090", "sm_86"))) == 2


def test_a_finding_of_one_gpu_does_not_swallow_the_symptom_of_another():
    gpus = (nvidia_gpu(), nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=1))
    devices = tuple(SmokeDevice(name=f"cuda:{i}", bdf=gpu.bdf) for i, gpu in enumerate(gpus))
    machine = ran(
        nvidia_machine(*gpus, torch=torch("2.6.0+cu124")),
        *crashing("", signal="SIGSEGV"),
        *raising(NO_IMAGE, device="cuda:1"),
        devices=devices,
    )
    assert sorted(errors(machine)) == ["smoke-crash", "torch-no-arch-for-gpu"]


# --- GPUs that decide nothing -------------------------------------------------------------------------


def test_integrated_graphics_that_fail_beside_a_gpu_that_computes_are_a_note():
    igpu = amd_gpu("AMD Radeon Graphics", "gfx1036", index=1, integrated=True)
    devices = (AMD, SmokeDevice(name="cuda:1", bdf=igpu.bdf))
    machine = ran(amd_machine(amd_gpu(), igpu), *passing(), *raising(NO_FUNCTION, device="cuda:1"), devices=devices)
    assert errors(machine) == []
    assert judged(machine).verdict == "ok"


def test_a_display_gpu_without_code_beside_one_that_computes_is_a_note():
    gpus = (nvidia_gpu(), nvidia_gpu("NVIDIA GeForce GT 1030", "sm_61", chip="GP108", index=1))
    devices = tuple(SmokeDevice(name=f"cuda:{i}", bdf=gpu.bdf) for i, gpu in enumerate(gpus))
    machine = ran(nvidia_machine(*gpus), *passing(), *raising(NO_IMAGE, device="cuda:1"), devices=devices)
    assert errors(machine) == []


# --- what ran refutes ------------------------------------------------------------------------------------


def likely_unserved() -> Machine:
    """A build whose list was drawn from others of its kind."""
    return rtx5090(torch=torch("2.6.1+cu124"))


def test_kernels_that_passed_refute_what_was_only_likely():
    machine = likely_unserved()
    assert [(f.slug, f.confidence) for f in judged(machine).findings if f.severity == "error"] == [
        ("torch-no-arch-for-gpu", "likely")
    ]
    passed = ran(machine, *passing())
    assert errors(passed) == []
    assert finding(passed, "torch-no-arch-for-gpu").severity == "note"
    assert finding(passed, "torch-no-arch-for-gpu").fixes == ()


def test_kernels_that_passed_on_another_gpu_refute_nothing():
    machine = change(likely_unserved(), gpus=(nvidia_gpu(), nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=1)))
    assert errors(ran(machine, *passing())) == ["torch-no-arch-for-gpu"]


def test_a_few_kernels_or_one_failure_refute_nothing():
    assert errors(ran(likely_unserved(), *passing("copy"))) == ["torch-no-arch-for-gpu"]
    for other in (raising("boom", "sort"), computing_wrong("sort")):
        machine = ran(likely_unserved(), *passing(), *other)
        assert finding(machine, "torch-no-arch-for-gpu").severity == "error"


def test_open_questions_about_a_gpu_that_computed_do_not_matter():
    unlisted = rtx5090(torch=torch("2.9.0a0+git1234", origin="unknown", build="cu130", cuda="13.0"))
    blind = with_torch(unlisted, archs=unknown("not readable"))
    if not questions(blind):
        pytest.skip("nothing is open on this machine")
    assert judged(ran(blind, *passing())).verdict == "ok"


# --- not judged --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "verdict"), [(True, "unknown"), (False, "ok")])
def test_nothing_could_be_run(asked, verdict):
    machine = ran(nvidia_machine(), why="no temporary folder: read-only file system", asked=asked)
    assert judged(machine).verdict == verdict
    assert any(q.id == "GPD501" and "no temporary folder" in q.why for q in judged(machine).not_judged)


def test_a_gpu_that_was_named_and_not_computed_on_leaves_the_verdict_open():
    cpu = passing(device="cpu")
    machine = ran(nvidia_machine(), *cpu, devices=(SmokeDevice(name="cpu"),), why="torch sees no GPU", gpu_asked=True)
    assert judged(machine).verdict == "unknown"
    assert judged(change(machine, smoke=change(machine.smoke, gpu_asked=False))).verdict == "ok"


def test_kernels_on_the_cpu_alone_need_no_gpu():
    wrong = SmokeKernel(name="matmul", device="cpu", dtype="float32", status="wrong")
    cpu = SmokeDevice(name="cpu")
    asked = ran(no_gpu_machine(torch=torch("2.9.1+cu128")), *passing(device="cpu"), devices=(cpu,), cpu_asked=True)
    assert judged(asked).verdict == "ok"
    assert [one.severity for one in judged(asked).findings if one.slug == "no-gpu"] == ["note"]
    by_itself = change(asked, smoke=change(asked.smoke, cpu_asked=False))
    assert errors(by_itself) == ["no-gpu"]
    assert "no-gpu" not in errors(change(asked, smoke=change(asked.smoke, kernels=(wrong,))))


def test_kernels_that_were_asked_for_require_a_torch_and_on_a_gpu_a_gpu():
    cpu_build = torch("2.9.1+cpu", build="cpu", cuda=None)
    without = change(no_gpu_machine(torch=cpu_build), smoke=Smoke(level="quick", why="torch sees no GPU"))
    assert errors(without) == []
    assert errors(change(without, smoke=change(without.smoke, gpu_asked=True))) == ["no-gpu"]
    bare = with_environment(without, torch=absent("no torch there"))
    assert errors(bare) == ["torch-missing"]
    assert not judged(bare).not_judged  # the problem says why no kernel ran
    assert errors(change(bare, smoke=change(bare.smoke, asked=False))) == []


def test_torch_sees_no_gpu_though_there_is_one():
    trial = known(ImportTrial(ok=True, version="2.9.1+cu128", cuda="12.8", device_count=0), "import torch")
    machine = ran(with_torch(nvidia_machine(), trial=trial), why="torch sees no GPU", asked=False)
    assert errors(machine) == ["torch-wrong-build-or-cpu"]


def test_torch_that_sees_no_gpu_is_put_down_to_what_the_driver_says():
    said = "RuntimeError: Unexpected error. Error 804: forward compatibility was attempted on non supported HW"
    trial = known(ImportTrial(ok=True, cuda="12.8", device_count=0, error=said), "import torch")
    listing = SmokeKernel(name="devices", device="cuda", status="error", message=said)
    for machine in (ran(with_torch(nvidia_machine(), trial=trial), listing), ran(nvidia_machine(), listing)):
        assert errors(machine) == ["cuda-compat-on-geforce"]


@pytest.mark.parametrize("status", [{"status": "timeout", "detail": "no answer within 60 s"}, {"status": "crash"}])
def test_devices_that_could_not_be_listed_are_one_error_of_every_gpu(status):
    gpus = amd_gpu(), amd_gpu(index=1)
    listing = SmokeKernel(name=LISTING, device="cuda", **status)
    machine = change(amd_machine(*gpus), smoke=Smoke(level="quick", kernels=(listing,), asked=False))
    found = finding(machine, "smoke-crash")
    assert errors(machine) == ["smoke-crash"]
    assert (len(found.devices), "torch cannot list its devices" in found.message) == (2, True)
    assert not any("--kernel" in remedy.text for fix in found.fixes for remedy in fix.remedies)


def test_a_kernel_between_gpus_that_compute_speaks_of_the_gpus_together():
    gpus = (nvidia_gpu(), nvidia_gpu(index=1))
    devices = tuple(SmokeDevice(name=f"cuda:{i}", bdf=gpu.bdf) for i, gpu in enumerate(gpus))
    alone = (*passing(device="cuda:0"), *passing(device="cuda:1"))
    machine = ran(nvidia_machine(*gpus), *alone, *raising("boom", "all-reduce", device="cuda"), devices=devices)
    found = finding(machine, "smoke-crash")
    assert found.severity == "error", "what each computes alone does not refute it"
    assert (
        found.message.startswith("On the GPUs together, 1 of 1 smoke kernel fails") and "right" not in found.message
    )
    assert "no-driver" not in found.possible_causes, "each GPU computes"


def test_an_import_that_fails_is_told_once():
    for said in ("ImportError: boom", "ImportError: libx.so.0: cannot open shared object file"):
        trial = known(ImportTrial(ok=False, error=said), "import torch")
        machine = ran(with_torch(nvidia_machine(), trial=trial), why=f"torch cannot be imported: {said}")
        assert errors(machine) == ["torch-import-fails"]
    assert not [q for q in judged(machine).not_judged if q.id == "GPD501"]


def test_the_start_itself_may_tell_the_cause():
    why = "torch could not be started: Error 802: system not yet initialized"
    machine = ran(nvidia_machine(nvidia_gpu("NVIDIA H100 80GB HBM3", "sm_90", datacenter=True)), why=why)
    assert errors(machine) == ["fabric-manager-not-running"]


BUSY = "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"
OUT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def test_a_gpu_that_others_took_is_not_judged():
    full = change(NVIDIA, memory=24 << 30, free=1 << 30)
    for machine in (
        ran(nvidia_machine(), *raising(BUSY)),
        ran(nvidia_machine(), *raising(OUT), devices=(full,)),
        ran(nvidia_machine(), *kernels(status="skipped", detail="another program uses it in exclusive mode")),
    ):
        assert errors(machine) == []
        assert judged(machine).verdict == "unknown"
        assert judged(change(machine, smoke=change(machine.smoke, asked=False))).verdict == "ok"


def test_a_taken_gpu_beside_one_that_computed_does_not_matter():
    gpus = (nvidia_gpu(), nvidia_gpu(index=1))
    devices = tuple(SmokeDevice(name=f"cuda:{i}", bdf=gpu.bdf) for i, gpu in enumerate(gpus))
    skipped = kernels(device="cuda:1", status="skipped", detail="its memory is full")
    for told_so, word in ((skipped, "its memory is full"), (raising(BUSY, device="cuda:1"), "another program uses")):
        machine = ran(nvidia_machine(*gpus), *passing(), *told_so, devices=devices)
        assert judged(machine).verdict == "ok"
        assert any(word in q.why for q in judged(machine).not_judged)


def test_out_of_memory_on_an_empty_gpu_is_an_error():
    empty = change(NVIDIA, memory=24 << 30, free=23 << 30)
    machine = ran(nvidia_machine(), *passing(), *raising(OUT, "sort"), devices=(empty,))
    assert errors(machine) == ["smoke-crash"]


@pytest.mark.parametrize(("late", "verdict"), [(("matmul", "attention"), "unknown"), (("attention",), "ok")])
def test_time_that_was_up_matters_for_the_essential_kernels(late, verdict):
    why = "not started within the 60 s that all kernels have together"
    done = tuple(name for name in QUICK if name not in late)
    machine = ran(nvidia_machine(), *passing(*done), *kernels(*late, status="skipped", detail=why), why=why)
    assert judged(machine).verdict == verdict


# --- rates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gb_per_s", "tflops", "slow"), [(2800.0, 600.0, False), (2800.0, 90.0, True), (700.0, 600.0, True)]
)
def test_a_gpu_far_below_its_figures_is_a_note(gb_per_s, tflops, slow):
    row = next(row for row in matrix().tables.gpu_rates if "H100" in row.product and "SXM" in row.product)
    gpu = nvidia_gpu(
        "NVIDIA H100 80GB HBM3", "sm_90", pci_id=row.gpus[0], memory=known(int(row.memory_gib * 2**30), "nvml")
    )
    rates = (
        SmokeKernel(name="memory-rate", device="cuda:0", measures={"gb_per_s": gb_per_s}),
        SmokeKernel(name="matmul-rate", device="cuda:0", dtype="bfloat16", measures={"tflops": tflops}),
    )
    machine = ran(nvidia_machine(gpu), *passing(), *rates)
    assert ("gpu-slow" in dict(told(machine))) == slow
    assert judged(machine).verdict == "ok"


# --- properties ----------------------------------------------------------------------------------------------

_TEXTS = st.one_of(st.text(max_size=200), st.sampled_from([row.example for row in matrix().tables.error_patterns]))
_RESULTS = st.lists(
    st.builds(
        SmokeKernel,
        name=st.sampled_from((*QUICK, "attention-flash", "triton", "all-reduce")),
        device=st.sampled_from(("cuda:0", "cuda:1", "cuda", "cpu", "cuda:9")),
        dtype=st.sampled_from(("", "float16", "float32")),
        status=st.sampled_from(("pass", "wrong", "error", "crash", "timeout", "skipped")),
        error=st.none() | st.floats(),
        tolerance=st.none() | st.floats(),
        detail=_TEXTS,
        message=_TEXTS,
        signal=st.sampled_from(("", "SIGSEGV")),
    ),
    max_size=12,
).map(tuple)
_MACHINES = (
    nvidia_machine(),
    nvidia_machine(nvidia_gpu(), nvidia_gpu(index=1)),
    nvidia_machine(torch=None),
    rx6700(variables=OVERRIDE),
    amd_machine(amd_gpu(), amd_gpu("AMD Radeon Graphics", "gfx1036", index=1, integrated=True)),
    no_gpu_machine(torch=torch("2.9.1+cpu")),
    with_environment(nvidia_machine(), torch=absent("site-packages")),
)


@settings(max_examples=40)
@given(st.sampled_from(_MACHINES), _RESULTS, _TEXTS)
def test_whatever_kernels_say_nothing_crashes_and_no_cause_is_told_twice_for_a_gpu(machine, results, why):
    devices = tuple(SmokeDevice(name=f"cuda:{i}", bdf=gpu.bdf) for i, gpu in enumerate(machine.gpus))
    judgement = judged(ran(machine, *results, devices=devices, why=why))
    assert "check-crashed" not in [f.slug for f in judgement.findings]
    seen = [f for f in judgement.findings if f.possible_causes]
    for found in seen:
        for other in judgement.findings:
            same = other is not found and other.slug == found.slug
            assert not (same and (set(other.devices) & set(found.devices) or other.subject == found.subject))


def test_what_the_cpu_computes_wrong_is_put_down_to_damaged_files_and_to_no_gpu():
    wrong = computing_wrong("matmul", device="cpu")
    cpu = (SmokeDevice(name="cpu"),)
    whole = ran(rx6700(variables=OVERRIDE), *wrong, devices=cpu)
    assert errors(whole) == ["smoke-wrong-result"]
    damaged = with_torch(nvidia_machine(), damaged=(DamagedFile("/venv/lib/libtorch_cpu.so", "truncated"),))
    assert errors(ran(damaged, *wrong, devices=cpu)) == ["torch-install-damaged"]


def test_a_module_that_a_kernel_did_not_get_is_that_of_an_interrupted_install() -> None:
    """A full disk leaves records and modules without content."""
    package = Distribution("sympy", "1.14.0", path="/venv/lib/sympy-1.14.0.dist-info", lacks=("METADATA",))
    patient = nvidia_machine(torch=torch("2.9.1+cu128"))
    asking = Distribution("torch", "2.9.1+cu128", requires=("sympy>=1.13.3",))
    patient = with_environment(patient, distributions=known((asking, package), "test"))
    failed = ran(patient, *raising("ImportError: cannot import name 'S' from 'sympy'", "optimizer-step"))
    assert dict(told(failed)) == {"package-install-interrupted": "error"}
