"""The children that ask the drivers, against stub libraries written in C: every error code, hangs, crashes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpudoctor.machine import Board, Fact, NvidiaApi, Torch
from gpudoctor.probes.amd_answers import LIBRARY, ask_hsa
from gpudoctor.probes.nvidia_answers import Answers, ask_nvidia
from tests.support.smoke_children import left_of, processes_with
from tests.support.stubbed_driver import CUDA, HSA, NVML, StubbedHost, on_path

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler to build the stub libraries with")


@pytest.fixture(scope="session")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stubs")
    for name, source in (("libnvidia-ml.so.1", NVML), ("libcuda.so.1", CUDA), (LIBRARY, HSA)):
        code = folder / f"{name}.c"
        code.write_text(source)
        command = ["gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}", "-o", str(folder / name), str(code)]
        subprocess.run(command, check=True, timeout=60)
    return folder


def ask(stubs: Path, seconds: float = 20.0, **variables: str) -> Answers:
    return ask_nvidia(StubbedHost(stubs, **variables), seconds)


def value(fact: Fact[NvidiaApi]) -> NvidiaApi:
    assert fact.value is not None, fact
    return fact.value


def test_two_gpus_that_answer(stubs: Path) -> None:
    nvml, cuda, smi = ask(stubs, STUB_GPUS="2", STUB_ECC="5", STUB_MODE="3")
    api = value(nvml)
    assert (api.status, api.driver_version, api.cuda_version) == (0, "580.95.05", "13.0")
    assert api.library == str(stubs / "libnvidia-ml.so.1")
    first, second = api.devices or ()
    assert (first.name, first.bdf, first.pci_id) == ("NVIDIA H100 80GB HBM3", "0000:ac:00.0", "10de:2330")
    assert (first.capability, first.memory, first.memory_used) == ("9.0", 80 << 30, 1 << 30)
    assert (first.compute_mode, first.processes, first.mig) == ("exclusive", 3, None)
    assert (first.ecc_uncorrectable, first.ecc_uncorrectable_ever) == (5, 8)
    assert (first.remap_pending, first.remap_failed, first.fabric) == (True, False, "in-progress")
    assert (second.index, second.bdf) == (1, "0000:ad:00.0")
    seen = value(cuda)
    assert (seen.status, seen.cuda_version) == (0, "13.2")
    assert [(d.name, d.capability, d.memory) for d in seen.devices or ()] == [
        ("NVIDIA H100 80GB HBM3", "9.0", 80 << 30)
    ]
    assert smi.state == "unknown", "nvidia-smi is not asked where NVML answered"


def test_the_boards(stubs: Path) -> None:
    (device,) = value(ask(stubs)[0]).devices or ()
    assert device.board == Board(
        vbios="96.00.A5.00.01", inforom="G520.0200.00.05", gsp_firmware="580.95.05", pcie_generation=1,
        pcie_generation_max=5, pcie_width=8, pcie_width_max=16, power_limit=650, power_limit_default=700,
        throttled=("power-cap", "hardware-thermal"), persistence=True, links=18, links_up=17,
    )  # fmt: skip
    (without,) = value(ask(stubs, STUB_NO_NVLINK="1")[0]).devices or ()
    assert (without.board.links, without.board.links_up) == (None, None)


def test_a_dma_buf_of_gpu_memory(stubs: Path) -> None:
    assert [(value(ask(stubs, STUB_DMA_BUF=on)[1]).devices or ())[0].dma_buf for on in ("1", "0")] == [True, False]


def test_a_vgpu_and_its_licence(stubs: Path) -> None:
    def answer(**stub: str) -> tuple[str | None, bool | None]:
        (device,) = value(ask(stubs, **stub)[0]).devices or ()
        return device.virtualization, device.licensed

    assert answer() == ("none", None)
    assert answer(STUB_VIRTUAL="1") == ("pass-through", None)
    assert answer(STUB_VIRTUAL="2") == ("vgpu", False)
    assert answer(STUB_VIRTUAL="2", STUB_LICENSED="1") == ("vgpu", True)
    assert answer(STUB_VIRTUAL="9") == (None, None)


def test_slices_of_a_gpu(stubs: Path) -> None:
    (gpu,) = value(ask(stubs, STUB_MIG="2")[0]).devices or ()
    assert gpu.mig is True
    assert [(mig.profile, mig.memory, mig.uuid) for mig in gpu.mig_devices] == [
        ("1g.10gb", 10 << 30, "MIG-101"),
        ("1g.10gb", 10 << 30, "MIG-102"),
    ]


def test_a_gpu_with_the_systems_memory(stubs: Path) -> None:
    (gpu,) = value(ask(stubs, STUB_MEMORY="shared")[0]).devices or ()
    assert (gpu.memory, gpu.lost) == (None, False)


def test_a_lost_gpu_among_others(stubs: Path) -> None:
    gpus = value(ask(stubs, STUB_GPUS="3", STUB_LOST="1")[0]).devices or ()
    assert [gpu.lost for gpu in gpus] == [False, True, False]
    assert gpus[1].why == "GPU is lost"


@pytest.mark.parametrize("status", [4, 9, 15, 18, 999])
def test_every_refusal_of_nvml(stubs: Path, status: int) -> None:
    nvml, cuda, smi = ask(stubs, STUB_NVML=str(status))
    assert (value(nvml).status, value(nvml).devices) == (status, None)
    assert value(nvml).message
    assert value(cuda).status == 0, "libcuda is asked all the same"
    assert smi.state == "absent"


@pytest.mark.parametrize("status", [100, 802, 803, 804, 999])
def test_every_refusal_of_libcuda(stubs: Path, status: int) -> None:
    nvml, cuda, _ = ask(stubs, STUB_CUDA=str(status))
    assert value(nvml).status == 0
    assert (value(cuda).status, value(cuda).devices) == (status, None)
    assert "CUDA_ERROR" in value(cuda).message


def test_libcuda_runs_in_the_examined_processs_variables(stubs: Path) -> None:
    nvml, cuda, _ = ask(stubs, CUDA_VISIBLE_DEVICES="")
    assert len(value(nvml).devices or ()) == 1
    assert value(cuda).status == 100


def test_a_hang_in_libcuda_keeps_what_nvml_said(stubs: Path) -> None:
    nvml, cuda, _ = ask(stubs, 1.0, STUB_CUDA="hang")
    assert len(value(nvml).devices or ()) == 1
    assert cuda.state == "unknown"
    assert cuda.why == "cuInit: gave no answer within 1 s"


def test_a_hang_at_one_gpu_keeps_the_versions_and_lists_no_gpus(stubs: Path) -> None:
    nvml, cuda, _ = ask(stubs, 1.0, STUB_GPUS="2", STUB_STUCK="1")
    assert (value(nvml).status, value(nvml).driver_version, value(nvml).devices) == (0, "580.95.05", None)
    assert "GPU 1" in value(nvml).message
    assert value(cuda).status == 0


@pytest.mark.parametrize(
    ("fault", "why"), [("hang", "gave no answer within 1 s"), ("crash", "crashed (SIGSEGV)")], ids=["hang", "crash"]
)
def test_libcuda_is_asked_alone_where_nvml_hangs_or_crashes(stubs: Path, fault: str, why: str) -> None:
    nvml, cuda, smi = ask(stubs, 1.0, STUB_NVML=fault)
    assert (nvml.state, nvml.why) == ("unknown", f"nvmlInit: {why}")
    assert value(cuda).status == 0
    assert smi.value is None


@pytest.mark.parametrize("fault", ["hang", "crash"])
def test_a_hang_in_both_is_told_of_both_and_nvidia_smi_is_not_waited_for(stubs: Path, fault: str) -> None:
    nvml, cuda, smi = ask(stubs, 1.0, STUB_NVML=fault, STUB_CUDA="hang")
    assert nvml.why.startswith("nvmlInit: ")
    assert cuda.why == "cuInit: gave no answer within 1 s"
    assert "not asked" in smi.why, "it would hang, too"


def test_nothing_counts_that_a_child_said_which_cannot_be_ended(stubs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpudoctor.host.process_tree import ProcessTree

    really = ProcessTree.end
    monkeypatch.setattr(ProcessTree, "end", lambda tree: really(tree) and False)
    for fact in ask(stubs)[:2]:
        assert (fact.state, fact.why) == ("unknown", "starting: something that it started cannot be ended")
    smi = ask(stubs)[2]
    assert "not asked" in smi.why


def test_drivers_are_asked_where_no_folder_can_be_written(stubs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile._get_default_tempdir", nowhere)
    monkeypatch.setattr("tempfile.tempdir", None)
    assert value(ask(stubs)[0]).status == 0


# What a process may be denied, and a driver still starts: files that may not grow, few descriptors and processes,
# streams that are closed, nowhere to write.
NARROW = """
import os, resource, signal, sys
from pathlib import Path
def narrow(which, limit):
    resource.setrlimit(which, (limit, limit))
exec(sys.argv[2])
from gpudoctor.probes.amd_answers import ask_hsa
from gpudoctor.probes.nvidia_answers import ask_nvidia
from tests.support.stubbed_driver import StubbedHost, on_path
stubs = Path(sys.argv[1])
nvml, cuda, _ = ask_nvidia(StubbedHost(stubs))
hsa = ask_hsa(StubbedHost(stubs), on_path(stubs))
assert nvml.value and cuda.value and hsa.value, (nvml, cuda, hsa)
os._exit(33)
"""


@pytest.mark.parametrize(
    "denied",
    [
        "narrow(resource.RLIMIT_FSIZE, 0)",
        "narrow(resource.RLIMIT_NOFILE, 32)",
        "narrow(resource.RLIMIT_NPROC, 1)",  # for root no limit
        "narrow(resource.RLIMIT_CORE, 0)",
        "narrow(resource.RLIMIT_CPU, 60)",
        "narrow(resource.RLIMIT_RTTIME, 5)",
        "narrow(resource.RLIMIT_RTTIME, 0)",
        "os.close(0); os.close(1)",
        "os.closerange(0, 3)",
        "os.environ['TMPDIR'] = '/nowhere'",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))",
    ],
)
def test_a_driver_answers_where_little_is_allowed(stubs: Path, denied: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NARROW, str(stubs), denied], check=False, capture_output=True, text=True, timeout=60,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert done.returncode == 33, done.stderr


def test_an_abort_in_libcuda(stubs: Path) -> None:
    nvml, cuda, _ = ask(stubs, STUB_CUDA="abort")
    assert value(nvml).status == 0
    assert cuda.why == "cuInit: crashed (SIGABRT)"


def test_what_a_library_prints_is_no_answer(stubs: Path) -> None:
    assert value(ask(stubs, STUB_NVML="noise")[0]).status == 0


def test_no_libraries_at_all(tmp_path: Path) -> None:
    if any(
        os.path.exists(f"{folder}/libcuda.so.1")
        for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/local/nvidia/lib64")
    ):
        pytest.skip("this machine has an NVIDIA driver")
    nvml, cuda, smi = ask_nvidia(StubbedHost(tmp_path))
    assert (nvml.state, cuda.state, smi.state) == ("absent", "absent", "absent")


@pytest.mark.parametrize("content", [b"", b"\x7fELF garbage"])
def test_a_library_that_cannot_be_loaded_is_unknown_with_the_reason(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(content)
    cuda = ask_nvidia(StubbedHost(tmp_path))[1]
    assert cuda.state == "unknown"
    assert "libcuda.so.1" in cuda.why


HANGING = """
import sys
from pathlib import Path
from gpudoctor.probes.amd_answers import ask_hsa
from gpudoctor.probes.nvidia_answers import ask_nvidia
from tests.support.stubbed_driver import StubbedHost, on_path
stubs = Path(sys.argv[1])
host = StubbedHost(stubs, STUB=sys.argv[2], **{sys.argv[3]: "hang"})
ask_hsa(host, on_path(stubs), 60.0) if "HSA" in sys.argv[3] else ask_nvidia(host, 60.0)
"""


@pytest.mark.parametrize("hanging", ["STUB_NVML", "STUB_CUDA", "STUB_HSA"])
def test_a_hanging_driver_does_not_outlive_a_gpudoctor_that_is_killed(
    stubs: Path, tmp_path: Path, hanging: str
) -> None:
    command = [sys.executable, "-c", HANGING, str(stubs), str(tmp_path), hanging]
    with subprocess.Popen(command, cwd=Path(__file__).parents[1]) as process:
        while not any(has_loaded(number, stubs) for number in processes_with(f"STUB={tmp_path}")):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    assert left_of(f"STUB={tmp_path}") == []


def has_loaded(number: int, stubs: Path) -> bool:
    try:
        return str(stubs) in Path(f"/proc/{number}/maps").read_text()
    except OSError:
        return False


def test_nothing_stays_behind(stubs: Path, tmp_path: Path) -> None:
    os.environ["TMPDIR"], before = str(tmp_path), os.environ.get("TMPDIR")
    try:
        import tempfile

        tempfile.tempdir = None
        ask(stubs, 1.0, STUB_CUDA="hang")
        assert list(tmp_path.iterdir()) == []
    finally:
        tempfile.tempdir = None
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


# --- HSA -------------------------------------------------------------------------------------------


def test_agents_of_the_runtime(stubs: Path) -> None:
    api = ask_hsa(StubbedHost(stubs), on_path(stubs)).value
    assert api is not None
    assert (api.status, api.library) == (0, str(stubs / LIBRARY))
    cpu, gpu = api.agents
    assert (cpu.kind, cpu.name) == ("cpu", "AMD Ryzen")
    assert (gpu.kind, gpu.name, gpu.isa) == ("gpu", "gfx1100", ("gfx1100", "gfx11-generic"))
    assert (gpu.bdf, gpu.product, gpu.pci_id) == ("0001:03:00.0", "AMD Radeon RX 7900 XTX", "1002:744c")


def test_the_runtime_refuses(stubs: Path) -> None:
    api = ask_hsa(StubbedHost(stubs, STUB_HSA="0x1008"), on_path(stubs)).value
    assert api is not None
    assert (api.status, api.agents) == (0x1008, ())
    assert "OUT_OF_RESOURCES" in api.message


@pytest.mark.parametrize(("how", "why"), [("hang", "gave no answer within 1 s"), ("crash", "crashed (SIGABRT)")])
def test_the_runtime_never_comes_back(stubs: Path, how: str, why: str) -> None:
    fact = ask_hsa(StubbedHost(stubs, STUB_HSA=how), on_path(stubs), 1.0)
    assert (fact.state, fact.why) == ("unknown", f"hsa_init: {why}")


def test_the_copy_that_torch_brings_is_asked_not_the_systems(stubs: Path, tmp_path: Path) -> None:
    (tmp_path / "torch/lib").mkdir(parents=True)
    own = tmp_path / "torch/lib/libhsa-runtime64.so"
    shutil.copy(stubs / LIBRARY, own)
    patient = Torch("2.9.1+rocm6.4", path=str(tmp_path / "torch"), own_hsa_runtime=True)
    fact = ask_hsa(StubbedHost(stubs), on_path(stubs), torch=patient)
    assert (fact.state, fact.source) == ("known", str(own))
    own.write_bytes(b"")
    broken = ask_hsa(StubbedHost(stubs), on_path(stubs), torch=patient)
    assert broken.state == "unknown"
    assert "libhsa-runtime64.so" in broken.why
    without = ask_hsa(StubbedHost(stubs), on_path(stubs), torch=replace(patient, own_hsa_runtime=False))
    assert without.source == str(stubs / LIBRARY)
