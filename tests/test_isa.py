"""What code runs on what GPU: its rules, one by one and as properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor import isa
from gpudoctor.isa import cuda_runs, gfx_runs

CAPABILITIES = [
    "50",
    "52",
    "53",
    "60",
    "61",
    "70",
    "72",
    "75",
    "80",
    "86",
    "87",
    "89",
    "90",
    "100",
    "103",
    "110",
    "120",
    "121",
]
capability = st.sampled_from(CAPABILITIES)
suffix = st.sampled_from(["", "a", "f"])


def number(arch: str) -> tuple[int, int]:
    return int(arch[:-1]), int(arch[-1])


@pytest.mark.parametrize(
    ("gpu", "sass", "runs", "rule"),
    [
        ("sm_89", ["sm_80", "sm_86", "sm_90"], "yes", "sass-same-major"),
        ("sm_86", ["sm_89"], "no", "sass-same-major"),
        ("sm_120", ["sm_50", "sm_90"], "no", "sass-same-major"),
        ("sm_121", ["sm_120"], "yes", "sass-same-major"),
        ("sm_120", ["sm_100"], "no", "sass-same-major"),
        ("sm_61", ["sm_60"], "yes", "sass-same-major"),
        ("sm_75", ["sm_70"], "yes", "sass-same-major"),
        ("sm_90", ["sm_90a"], "yes", "sass-arch-specific"),
        ("sm_103", ["sm_100a"], "no", "sass-arch-specific"),
        ("sm_103", ["sm_100f"], "yes", "sass-family"),
        ("sm_100", ["sm_103f"], "no", "sass-family"),
        ("sm_121", ["sm_120f"], "yes", "sass-family"),
        ("sm_120", ["sm_100f"], "no", "sass-family"),
    ],
)
def test_machine_code_of_nvidia(gpu: str, sass: list[str], runs: str, rule: str) -> None:
    answer = cuda_runs(gpu, sass, [])
    assert (answer.runs, answer.rule) == (runs, rule)


def test_the_closest_machine_code_is_named() -> None:
    answer = cuda_runs("sm_89", ["sm_75", "sm_80", "sm_86", "sm_90"], [])
    assert (answer.by, answer.native) == ("sm_86", True)


def test_desktop_code_does_not_run_on_tegra() -> None:
    assert cuda_runs("sm_87", ["sm_80", "sm_86"], [], tegra=True).runs == "no"
    assert cuda_runs("sm_87", ["sm_80", "sm_87"], [], tegra=True).runs == "yes"
    assert cuda_runs("sm_110", ["sm_90", "sm_100", "sm_120"], [], tegra=True).runs == "no"


def test_thor_code_of_before_cuda_13_had_another_name() -> None:
    assert cuda_runs("sm_110", ["sm_101"], [], tegra=True).runs == "unknown"


@pytest.mark.parametrize(
    ("ptx", "readable", "runs", "rule"),
    [
        (["compute_90"], True, "yes", "ptx-forward"),
        (["compute_90"], None, "unknown", "ptx-forward"),
        (["compute_90"], False, "no", "ptx-too-new"),
        (["compute_90a"], True, "no", "ptx-arch-specific"),
        (["compute_121"], True, "no", "ptx-forward"),
        (["compute_100f"], True, "no", "ptx-family"),
        (["compute_120f"], True, "yes", "ptx-family"),
    ],
)
def test_ptx_on_a_blackwell_gpu(ptx: list[str], readable: bool | None, runs: str, rule: str) -> None:
    answer = cuda_runs("sm_120", [], ptx, ptx_readable=readable)
    assert (answer.runs, answer.rule) == (runs, rule)
    assert answer.native is False


def test_ptx_that_the_driver_cannot_read_is_the_reason_to_name() -> None:
    assert cuda_runs("sm_120", ["sm_90"], ["compute_90"], ptx_readable=False).rule == "ptx-too-new"


def test_machine_code_is_preferred_to_ptx() -> None:
    assert cuda_runs("sm_90", ["sm_90"], ["compute_90"], ptx_readable=True).native


def test_no_code_at_all() -> None:
    assert cuda_runs("sm_90", [], []).runs == "no"
    assert gfx_runs("gfx1030", []).runs == "no"


@pytest.mark.parametrize("bad", ["", "sm_", "9.0", "gfx1030", "sm_9x"])
def test_what_is_no_architecture_decides_nothing(bad: str) -> None:
    assert cuda_runs(bad, ["sm_90"], []).runs == "unknown"
    assert cuda_runs("sm_90", [bad], []).runs == "unknown"


@given(capability, st.lists(capability), st.lists(capability))
def test_more_code_never_hurts(gpu: str, some: list[str], more: list[str]) -> None:
    first = cuda_runs(f"sm_{gpu}", [f"sm_{arch}" for arch in some], [])
    both = cuda_runs(f"sm_{gpu}", [f"sm_{arch}" for arch in some + more], [])
    assert not (first.runs == "yes" and both.runs != "yes")


@given(capability, capability, suffix)
def test_machine_code_never_runs_on_another_major_or_an_older_gpu(gpu: str, code: str, tail: str) -> None:
    if cuda_runs(f"sm_{gpu}", [f"sm_{code}{tail}"], []).runs == "yes":
        assert number(gpu)[0] == number(code)[0]
        assert number(gpu) >= number(code)


@given(capability, suffix, st.booleans())
def test_code_for_the_very_gpu_runs(gpu: str, tail: str, tegra: bool) -> None:
    assert cuda_runs(f"sm_{gpu}", [f"sm_{gpu}{tail}"], [], tegra=tegra).runs == "yes"


@given(capability, capability)
def test_readable_ptx_runs_exactly_on_what_is_not_older(gpu: str, code: str) -> None:
    answer = cuda_runs(f"sm_{gpu}", [], [f"compute_{code}"], ptx_readable=True)
    assert (answer.runs == "yes") == (number(code) <= number(gpu))


# --- AMD -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "code", "generics", "runs"),
    [
        ("gfx1030", ["gfx906", "gfx1030"], (), "yes"),
        ("gfx1031", ["gfx1030"], (), "no"),
        ("gfx1031", ["gfx10-3-generic"], ("gfx10-3-generic",), "yes"),
        ("gfx1031", ["gfx11-generic"], ("gfx10-3-generic",), "no"),
        ("gfx1031", ["gfx10-3-generic"], (), "no"),
        ("gfx90a", ["gfx90a:xnack-"], (), "yes"),
        ("gfx90a", ["gfx90a:xnack+"], (), "unknown"),
        ("gfx90a:xnack+", ["gfx90a:xnack-"], (), "no"),
        ("gfx90a:xnack+", ["gfx90a:xnack+"], (), "yes"),
        ("gfx90a", ["gfx90a:sramecc+:xnack-"], (), "yes"),
        ("gfx90a:sramecc-:xnack-", ["gfx90a:sramecc+:xnack-"], (), "no"),
        ("gfx90a", ["gfx90a:xnack+", "gfx90a:xnack-"], (), "yes"),
        ("gfx90a:sramecc+:xnack-", ["gfx90a"], (), "yes"),
        ("gfx942", ["gfx9-4-generic:xnack+"], ("gfx9-4-generic",), "unknown"),
        ("gfx906", ["amdgcn-amd-amdhsa--gfx906:sramecc+:xnack-"], (), "yes"),
    ],
)
def test_code_objects_of_amd(gpu: str, code: list[str], generics: tuple[str, ...], runs: str) -> None:
    assert gfx_runs(gpu, code, generics).runs == runs


GFX = ["gfx900", "gfx906", "gfx90a", "gfx942", "gfx1030", "gfx1031", "gfx1100", "gfx1151", "gfx1201"]


@given(st.sampled_from(GFX), st.lists(st.sampled_from(GFX)))
def test_plain_code_runs_exactly_on_its_own_target(gpu: str, code: list[str]) -> None:
    assert (gfx_runs(gpu, code).runs == "yes") == (gpu in code)


@given(st.text(max_size=20), st.lists(st.text(max_size=20), max_size=4))
def test_any_text_gets_an_answer(gpu: str, code: list[str]) -> None:
    assert cuda_runs(gpu, code, code, ptx_readable=True).runs in ("yes", "no", "unknown")
    assert gfx_runs(gpu, code).runs in ("yes", "no", "unknown")


@pytest.mark.parametrize(
    ("arch", "found", "text"),
    [
        ("sm_89", (8, 9), "8.9"),
        ("sm_90a", (9, 0), "9.0"),
        ("sm_120", (12, 0), "12.0"),
        ("compute_100f", (10, 0), "10.0"),
        ("gfx1031", None, ""),
        ("sm_", None, ""),
        ("sm_1200", None, ""),
        ("", None, ""),
    ],
)
def test_an_architecture_names_one_compute_capability(arch: str, found: tuple[int, int] | None, text: str) -> None:
    assert (isa.capability(arch), isa.dotted(arch)) == (found, text)
