"""Rows of the matrix's known issues: when they match, what they weigh, what silences them."""

from __future__ import annotations

import msgspec
import pytest

from gpudoctor.engine import judge
from gpudoctor.machine import CodeArchs, Distribution, KernelLog, LogFault, absent, known, unknown
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows import IssueCondition, IssuePackage, IssueVariable, KnownIssue
from gpudoctor.suites import machine_checks
from tests.support.check_cases import found, matrix
from tests.support.judging import finding, remedies, told
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    change,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
    with_stack,
    with_system,
)

STRIX = amd_gpu("AMD Radeon 8060S", "gfx1151", integrated=True)
NATIVE = torch("2.10.0+rocm7.1")


def told_of(machine, **row):
    """(slug, severity) with this row as the only known issue."""
    parts = {
        "id": "an-issue",
        "severity": "warning",
        "trigger": "facts",
        "symptom": "it hangs",
        "workaround": "Wait.",
    }
    issue = KnownIssue(**{**parts, "source": "owner/repo#1", **row})
    tables = msgspec.structs.replace(matrix().tables, known_issues=(issue,))
    return [
        (f.slug, f.severity)
        for f in judge(machine, Matrix(tables), machine_checks(), select=("GPD312", "GPD4")).findings
    ]


WARNED = [("known-issue", "warning")]


# --- conditions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "matches"),
    [
        ({"vendor": "nvidia"}, True),
        ({"vendor": "amd"}, False),
        ({"vendor": "nvidia", "sm": ("sm_89",)}, True),
        ({"vendor": "nvidia", "sm": ("sm_120",)}, False),
        ({"torch": ">=2.9,<2.10"}, True),
        ({"torch": "<2.9"}, False),
        ({"cuda": "==12.8.*"}, True),
        ({"cuda": ">=13"}, False),
        ({"rocm": ">=6"}, False),
        ({"kernel": "<6.9"}, True),
        ({"kernel": ">=6.9"}, False),
        ({"driver": ">=580,<590"}, True),
        ({"driver": "<525.105"}, False),
        ({"container": False}, True),
        ({"container": True}, False),
        ({"platform": "wsl2"}, False),
        ({"platform": "linux-x86_64"}, True),
        ({"platform": "windows"}, False),
        ({"packages": (IssuePackage(package="vllm"),)}, True),
        ({"packages": (IssuePackage(package="vllm", specifier=">=0.12"),)}, False),
        ({"packages": (IssuePackage(package="jax"),)}, False),
        ({"env": (IssueVariable(name="NCCL_DEBUG"),)}, True),
        ({"env": (IssueVariable(name="NCCL_DEBUG", value="INFO"),)}, True),
        ({"env": (IssueVariable(name="NCCL_DEBUG", value="WARN"),)}, False),
        ({"env": (IssueVariable(name="NCCL_PROTO"),)}, False),
        ({"vendor": "nvidia", "min_gpus": 2}, False),
        ({"vendor": "nvidia", "torch": ">=2.9", "kernel": ">=6.9"}, False),
        ({"firmware": "==20251125.*"}, False),
    ],
)
def test_every_condition_that_is_given_must_match(when, matches):
    machine = nvidia_machine(packages={"vllm": "0.11.2"}, variables={"NCCL_DEBUG": "INFO"})
    found = [item for item in told_of(machine, when=IssueCondition(**when)) if item[0] == "known-issue"]
    assert found == (WARNED if matches else [])


@pytest.mark.parametrize(
    "unread",
    [
        lambda m: with_system(m, kernel=unknown("?")),
        lambda m: with_system(m, container=unknown("?")),
        lambda m: with_stack(m, module=unknown("?"), userland=unknown("?")),
        lambda m: with_environment(m, torch=absent("site")),
        lambda m: with_environment(m, distributions=unknown("?")),
    ],
)
def test_what_is_not_known_never_matches(unread):
    when = IssueCondition(
        kernel=">=1", container=False, driver=">=1", torch=">=1", packages=(IssuePackage(package="vllm"),)
    )
    machine = nvidia_machine(packages={"vllm": "0.11.2"})
    assert ("known-issue", "warning") in told_of(machine, when=when)
    assert "known-issue" not in dict(told_of(unread(machine), when=when))


@pytest.mark.parametrize(
    ("described", "when"),
    [
        ("kernel", {"kernel": ">=1"}),
        ("NVIDIA driver 580.95.05", {"vendor": "nvidia", "driver": ">=1"}),
    ],
)
def test_what_a_description_leaves_open_never_matches(described, when):
    machine = nvidia_machine()
    assert told_of(machine, when=IssueCondition(**when)) == WARNED
    assert told_of(change(machine, assumed=(described,)), when=IssueCondition(**when)) == []


@pytest.mark.parametrize(
    ("kernel", "concerned"),
    [
        ("6.14.0-24-generic", True),
        ("6.17.0-14-generic", True),
        ("6.17.0-19-generic", False),
        ("6.14.0-1017-oem", True),
        ("6.14.0-1018-oem", False),
        ("6.17.0-1006-oem", False),
        ("6.17.9-300.fc43.x86_64", True),
        ("6.18.2-061802-generic", True),
        ("6.18.4-200.fc43.x86_64", False),
    ],
)
def test_a_kernel_that_its_distribution_has_patched_is_none_of_the_old_ones(kernel, concerned):
    machine = amd_machine(STRIX, torch=torch("2.11.0+rocm7.2"))
    told_here = dict(told(with_system(machine, kernel=known(kernel, "uname"))))
    assert ("known-issue" in told_here) is concerned


def test_gpus_are_counted_once_for_the_row():
    eight = nvidia_machine(*(nvidia_gpu(index=n) for n in range(8)))
    assert told_of(eight, when=IssueCondition(vendor="nvidia", sm=("sm_89",), min_gpus=4)) == WARNED
    assert told_of(eight, when=IssueCondition(vendor="nvidia", min_gpus=9)) == []


def test_an_amd_row_does_not_speak_to_a_cuda_build_beside_ryzen_graphics():
    both = change(nvidia_machine(nvidia_gpu(), STRIX), amd=amd_machine(STRIX).amd)
    assert "known-issue" not in dict(told_of(both, when=IssueCondition(vendor="amd", gfx=("gfx1151",))))


def test_an_amd_driver_is_its_dkms_version():
    when = IssueCondition(vendor="amd", driver="<6.16")
    machine = amd_machine()
    assert told_of(machine, when=when) == []
    assert told_of(with_stack(machine, module=known("6.12.12", "/sys/module/amdgpu/version")), when=when) == WARNED


# --- weight ----------------------------------------------------------------------------------------------

LOG = known(KernelLog(faults=(LogFault(kind="nvidia-xid", line="Xid 119", xid=119),), source="dmesg"), "dmesg")
HERE = IssueCondition(vendor="nvidia")


def test_facts_count_as_the_row_says_and_workloads_are_a_note():
    assert told_of(nvidia_machine(), when=HERE, severity="error") == [("known-issue", "error")]
    assert told_of(nvidia_machine(), when=HERE, severity="error", trigger="workload") == [("known-issue", "note")]


def test_a_cause_with_a_weight_of_its_own_keeps_it():
    row = {"when": HERE, "trigger": "workload", "slug": "nccl-p2p-hang"}
    assert told_of(nvidia_machine(), **row) == [("nccl-p2p-hang", "warning")]


def test_a_symptom_needs_its_line_in_the_log_and_is_never_an_error():
    row = {"when": HERE, "trigger": "symptom", "log": "nvidia-xid", "xid": 119, "severity": "error"}
    assert told_of(nvidia_machine(), **row) == []
    assert told_of(nvidia_machine(kernel_log=LOG), **row) == WARNED
    assert told_of(nvidia_machine(kernel_log=LOG), **{**row, "xid": 79}) == []
    assert told_of(nvidia_machine(), when=HERE, trigger="symptom") == []


def test_a_workaround_that_is_set_already_silences_the_row():
    row = {"when": HERE, "variables": {"NCCL_P2P_DISABLE": "1"}}
    assert told_of(nvidia_machine(), **row) == WARNED
    assert told_of(nvidia_machine(variables={"NCCL_P2P_DISABLE": "1"}), **row) == []


# --- rows of the matrix ------------------------------------------------------------------------------------


def test_wrong_results_of_attention_on_rocm():
    machine = amd_machine(torch=torch("2.4.0+rocm6.1"))
    assert ("rocm-mem-efficient-attention", "warning") in told(machine)
    assert finding(machine, "rocm-mem-efficient-attention").refs[0] == "pytorch/pytorch#132004"
    assert "rocm-mem-efficient-attention" not in dict(told(amd_machine(torch=torch("2.5.1+rocm6.2"))))


def test_two_rtx_4090_on_an_early_driver():
    two = (nvidia_gpu(), nvidia_gpu(index=1))
    early = nvidia_machine(*two, driver="525.60.13", torch=torch("2.1.2+cu121"))
    assert dict(told(early))["nccl-p2p-hang"] == "warning"
    assert "nccl-p2p-hang" not in dict(told(nvidia_machine(*two)))


def test_copies_that_hang_on_cezanne_until_the_variable_is_set():
    apu = amd_gpu("AMD Radeon Graphics", "gfx90c", integrated=True)
    old = torch("2.2.2+rocm5.7")
    assert dict(told(amd_machine(apu, torch=old)))["amd-sdma-hang"] == "warning"
    assert "amd-sdma-hang" not in dict(told(amd_machine(apu, torch=old, variables={"HSA_ENABLE_SDMA": "0"})))


@pytest.mark.parametrize(
    ("gfx", "version", "slug"),
    [("gfx90c", "2.4.1+rocm6.0", "amd-sdma-hang"), ("gfx1151", "2.9.1+rocm6.4", "rocm-runtime-bug")],
)
def test_graphics_that_torch_has_no_code_for_are_silent_beside_a_card_that_computes(gfx, version, slug):
    apu = amd_gpu("AMD Radeon Graphics", gfx, index=1, integrated=True)
    card = amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100")
    unsupported = amd_gpu("AMD Radeon RX 5700 XT", "gfx1010")
    assert slug not in dict(told(amd_machine(card, apu, torch=torch(version))))
    assert slug in dict(told(amd_machine(unsupported, apu, torch=torch(version))))
    assert slug in dict(told(amd_machine(apu, torch=torch(version))))


def test_graphics_that_torch_has_code_for_are_judged_beside_a_card():
    card = amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100")
    apu = amd_gpu("AMD Radeon 8060S", "gfx1151", index=1, integrated=True)
    assert "rocm-runtime-bug" in dict(told(amd_machine(card, apu, torch=NATIVE)))


def test_common_machines_meet_no_more_than_notes():
    for machine in (nvidia_machine(), amd_machine(), amd_machine(STRIX, torch=NATIVE)):
        assert {weight for slug, weight in told(machine) if slug == "known-issue"} <= {"note"}


def test_every_row_belongs_to_a_check_that_asks_for_its_slug():
    """Checks of these slugs exist; a row with another slug would never be told."""
    asked = {"known-issue", "nccl-p2p-hang", "amd-sdma-hang", "rocm-runtime-bug", "ptxas-too-old"}
    asked |= {"miopen-kdb-missing", "rocm-mem-efficient-attention", "amd-firmware-regression", "cudnn-mismatch"}
    assert {row.slug for row in matrix().tables.known_issues} == asked


@pytest.mark.parametrize(
    ("triton", "path", "slugs"),
    [("3.5.0", None, ["ptxas-too-old"]), ("3.6.0", None, []), ("3.5.0", "/opt/cuda-13.1/bin/ptxas", [])],
)
def test_a_triton_whose_ptxas_does_not_know_the_gpu(triton, path, slugs):
    variables = {"TRITON_PTXAS_PATH": path} if path else {}
    b300 = nvidia_gpu("NVIDIA B300 SXM6 AC", "sm_103", datacenter=True)
    machine = nvidia_machine(b300, torch=torch("2.9.1+cu130"), packages={"triton": triton}, variables=variables)
    assert [slug for slug, severity in told(machine) if severity == "error"] == slugs


THOR = nvidia_gpu("NVIDIA Thor", "sm_110", integrated=True)
GB10 = nvidia_gpu("NVIDIA GB10", "sm_121", integrated=True)
RTX_5090 = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120")
KERNELS = ("sm_90", "sm_100", "sm_110", "sm_120")


def with_triton(gpu, triton, origin="download.pytorch.org", variables=None):
    """A torch for CUDA 13 on an Arm board, with code for all of Blackwell, beside a Triton."""
    patient = torch("2.11.0+cu130", origin=origin, archs=known(CodeArchs(sass=KERNELS), "libtorch_cuda.so"))
    machine = nvidia_machine(gpu, torch=patient, packages={"triton": triton}, variables=variables or {})
    return with_system(machine, arch=known("aarch64", "uname"))


@pytest.mark.parametrize(
    ("gpu", "triton", "weight"),
    [
        (THOR, "3.6.0", "error"),  # its ptxas-blackwell is CUDA 12.9: it knows sm_121, and Thor as sm_101 only
        (THOR, "3.7.0", None),
        (GB10, "3.6.0", None),
        (GB10, "3.2.0", "error"),
        (RTX_5090, "3.2.0", "error"),
        (RTX_5090, "3.3.0", None),
        (nvidia_gpu(), "3.2.0", None),
    ],
)
def test_which_gpus_the_ptxas_of_a_triton_release_knows(gpu, triton, weight):
    assert dict(told(with_triton(gpu, triton))).get("ptxas-too-old") == weight


def test_thor_asks_for_a_newer_torch_and_for_the_variable_that_blackwell_has():
    variable = {"TRITON_PTXAS_BLACKWELL_PATH": "/usr/local/cuda/bin/ptxas"}
    assert "ptxas-too-old" not in dict(told(with_triton(THOR, "3.6.0", variables=variable)))
    other = {"TRITON_PTXAS_PATH": "/usr/local/cuda/bin/ptxas"}
    assert "ptxas-too-old" in dict(told(with_triton(THOR, "3.6.0", variables=other)))


@pytest.mark.parametrize("origin", ["ngc", "conda-forge", "jetson"])
def test_a_torch_of_another_publisher_brings_a_ptxas_of_its_cuda(origin):
    assert "ptxas-too-old" not in dict(told(with_triton(THOR, "3.6.0", origin)))


def test_a_torch_without_code_for_the_gpu_never_gets_as_far_as_triton():
    machine = nvidia_machine(RTX_5090, torch=torch("2.6.0+cu124"), packages={"triton": "3.2.0"})
    assert [slug for slug, severity in told(machine) if severity == "error"] == ["torch-no-arch-for-gpu"]


@pytest.mark.parametrize(
    ("toolkit", "remedies"),
    [
        (known("13.0", "version.json"), ["SetVariable", "ReplaceTorch"]),
        (known("12.9", "version.json"), ["ReplaceTorch", "Manual"]),
        (absent("/usr/local/cuda/bin/ptxas"), ["ReplaceTorch", "Manual"]),
        (unknown("not probed"), ["ReplaceTorch", "SetVariable"]),
    ],
)
def test_a_toolkits_ptxas_is_named_only_where_it_knows_the_gpu(toolkit, remedies):
    machine = with_stack(with_triton(THOR, "3.6.0"), ptxas=toolkit)
    fixes = finding(machine, "ptxas-too-old").fixes
    assert [type(fix.remedies[0]).__name__ for fix in fixes] == remedies


def test_beside_a_torch_that_is_only_named_is_the_triton_that_it_pins():
    described = torch("2.11.0+cu130", path="", archs=known(CodeArchs(sass=KERNELS), "libtorch_cuda.so"))
    machine = with_system(nvidia_machine(THOR, torch=described), arch=known("aarch64", "uname"))
    assert dict(told(machine))["ptxas-too-old"] == "error"
    stale = with_environment(machine, distributions=known((Distribution(name="triton", version="3.9.0"),), "site"))
    assert dict(told(stale))["ptxas-too-old"] == "error"


@pytest.mark.parametrize(("build", "weight"), [("2.9.1+cu130", "warning"), ("2.9.1+cu128", "error")])
def test_torch_for_aarch64_and_cuda_13_brings_a_ptxas_of_its_own(build, weight):
    gb10 = nvidia_gpu("NVIDIA GB10", "sm_121", integrated=True)
    machine = nvidia_machine(gb10, torch=torch(build), packages={"triton": "3.5.1"})
    machine = with_system(machine, arch=known("aarch64", "uname"))
    assert [severity for slug, severity in told(machine) if slug == "ptxas-too-old"] == [weight]


def test_wheels_that_cannot_read_miopens_kernel_database():
    machine = amd_machine(amd_gpu("AMD Radeon RX 6800 XT", "gfx1030"), torch=torch("2.0.1+rocm5.4.2"))
    assert ("miopen-kdb-missing", "note") in told(machine)


def facts_of(machine):
    """The rows that matched, by their ids."""
    return {f.subject for f in judge(machine, matrix(), machine_checks()).findings if f.slug == "known-issue"}


@pytest.mark.parametrize(
    ("machine", "row", "there"),
    [
        (amd_machine(STRIX, packages={"rocm-sdk-core": "7.14.0a20260612"}), "amd-gfx115x-nightly-hsa", True),
        (amd_machine(STRIX, packages={"rocm-sdk-core": "7.14.0a20260608"}), "amd-gfx115x-nightly-hsa", False),
        (amd_machine(STRIX, packages={"rocm-sdk-core": "7.14.0"}), "amd-gfx115x-nightly-hsa", False),
        (amd_machine(torch=torch("2.8.0+rocm6.3")), "amd-bf16-rocm63-gfx1100", True),
        (amd_machine(torch=torch("2.8.0+rocm6.4")), "amd-bf16-rocm63-gfx1100", False),
        (nvidia_machine(RTX_5090, nvidia_gpu(index=1, arch="sm_120"), packages={"nvidia-nccl-cu12": "2.26.2"}),
         "nv-nccl-sm120", True),
        (nvidia_machine(RTX_5090, packages={"nvidia-nccl-cu12": "2.26.2"}), "nv-nccl-sm120", False),
        (nvidia_machine(RTX_5090, nvidia_gpu(index=1, arch="sm_120"), packages={"nvidia-nccl-cu12": "2.27.3"}),
         "nv-nccl-sm120", False),
    ],
)  # fmt: skip
def test_a_known_regression_needs_its_conditions(machine, row, there):
    assert (row in facts_of(machine)) is there


def test_a_scheduler_that_stops_on_an_r9700_is_told_with_its_line_only():
    r9700 = amd_gpu("AMD Radeon AI PRO R9700", "gfx1201")
    line = LogFault(kind="amdgpu-mes-hung", line="amdgpu: MES failed to respond to msg=REMOVE_QUEUE")
    log = known(KernelLog(faults=(line,), source="dmesg"), "dmesg")
    quiet = amd_machine(r9700, torch=torch("2.14.0+rocm7.14"))
    assert "amd-r9700-mes-714" not in facts_of(quiet)
    assert "amd-r9700-mes-714" in facts_of(change(quiet, kernel_log=log))
    assert "amd-r9700-mes-714" not in facts_of(amd_machine(r9700, torch=torch("2.14.0+rocm7.2"), kernel_log=log))


@pytest.mark.parametrize(("kernel", "there"), [("7.0.12-200.fc44.x86_64", True), ("7.0.13-200.fc44.x86_64", False)])
def test_a_kernel_that_loads_models_slowly(kernel, there):
    machine = with_system(amd_machine(), kernel=known(kernel, "uname"))
    assert ("amd-kernel-7012-slow" in facts_of(machine)) is there


def test_a_nightly_whose_runtime_crashes_is_an_error():
    machine = amd_machine(STRIX, torch=NATIVE, packages={"rocm-sdk-core": "7.14.0a20260610"})
    assert ("known-issue", "error") in told(machine)


def test_two_rtx_5090_get_a_torch_whose_nccl_works_between_them():
    two = (RTX_5090, nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=1))
    machine = nvidia_machine(*two, torch=torch("2.7.1+cpu"))
    assert "torch 2.8.0" in finding(machine, "torch-cpu-only").fixes[0].title
    assert (
        "torch 2.7.1+cu128"
        in finding(nvidia_machine(two[0], torch=torch("2.7.1+cpu")), "torch-cpu-only").fixes[0].title
    )


def test_a_package_that_loads_another_cudnn_than_torchs_is_told():
    old = nvidia_machine(packages={"ctranslate2": "4.4.0"})
    assert [one.severity for one in found(old, "cudnn-mismatch")] == ["warning"]
    assert found(nvidia_machine(packages={"ctranslate2": "4.5.0"}), "cudnn-mismatch") == []


def test_a_release_without_the_issue_is_installed():
    old = nvidia_machine(packages={"ctranslate2": "4.4.0"})
    assert remedies(old, "cudnn-mismatch") == ["ReplacePackage ctranslate2>=4.5"]
    new = nvidia_machine(packages={"ctranslate2": "4.5.0"})
    assert found(new, "cudnn-mismatch") == []


@pytest.mark.parametrize(
    ("package", "version", "beside", "told"),
    [
        ("diffusers", "0.27.2", {"huggingface-hub": "0.36.0"}, "cached_download"),
        ("diffusers", "0.29.2", {"huggingface-hub": "0.36.0"}, ""),
        ("diffusers", "0.27.2", {"huggingface-hub": "0.25.2"}, ""),
        ("deepspeed", "0.14.3", {}, "torch.distributed.elastic"),
        ("deepspeed", "0.14.4", {}, ""),
        ("speechbrain", "1.0.3", {"torchaudio": "2.9.1"}, "list_audio_backends"),
        ("speechbrain", "1.0.3", {"torchaudio": "2.8.0"}, ""),
        ("speechbrain", "1.1.0", {"torchaudio": "2.9.1"}, ""),
    ],
)
def test_a_package_that_another_left_behind_is_replaced(
    package: str, version: str, beside: dict[str, str], told: str
):
    machine = nvidia_machine(packages={package: version, **beside})
    issues = [one for one in found(machine, "known-issue") if package in one.message]
    assert [one.fixes[0].remedies[0].name for one in issues] == [package] * bool(told)
    assert all(one.severity == "warning" and told in one.message for one in issues)


@pytest.mark.parametrize(("torchvision", "told"), [("0.24.1", ["warning"]), ("0.16.2", [])])
def test_basicsr_has_no_release_for_new_torchvisions(torchvision: str, told: list[str]):
    machine = nvidia_machine(packages={"basicsr": "1.4.2", "torchvision": torchvision})
    issues = [one for one in found(machine, "known-issue") if "functional_tensor" in one.message]
    assert [one.severity for one in issues] == told


def test_two_issues_of_one_cudnn_are_one_note_that_tells_the_pin():
    def notes(version: str, *requires: str) -> list[str]:
        packages = {"nvidia-cudnn-cu12": "9.10.2.21"}
        machine = nvidia_machine(torch=torch(version, cuda="12.8", build="cu128"), packages=packages)
        listed = machine.environment.value.distributions
        own = tuple(change(one, requires=requires) if one.name == "torch" else one for one in listed.value)
        machine = with_environment(machine, distributions=known(own, listed.source))
        return [one.message for one in judge(machine, matrix(), machine_checks()).findings if "conv3d" in one.message]

    (note,) = notes("2.9.1", "nvidia-cudnn-cu12==9.10.2.21; platform_system == 'Linux'")
    assert "several times the memory" in note and "wrong values" in note
    assert note.endswith("requires nvidia-cudnn-cu12==9.10.2.21: pip warns of that, and installs the newer one.")
    (older,) = notes("2.8.0")
    assert "wrong values" in older and "requires" not in older
