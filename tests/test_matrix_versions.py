"""Versions of drivers, kernels and ROCm."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from gpudoctor.matrix.versions import at_least, check_specifier, figures, matches, package_matches

versions = st.lists(st.integers(0, 700), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("7.14", "7.2"),
        ("10.0", "7.14"),
        ("560.35.05", "560.35.03"),
        ("580.65.06", "575.57.08"),
        ("570.133.07", "570.86.16"),
        ("12.10", "12.9"),
        ("6.8.0-44-generic", "6.8.0-41-generic"),
        ("6.18.4-arch1-1", "6.17.0-1006-oem"),
    ],
)
def test_figures_are_compared_as_numbers(newer: str, older: str) -> None:
    assert at_least(newer, older)
    assert not at_least(older, newer)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("6.8.0-44-generic", (6, 8, 0, 44)),
        ("6.1.0-18-amd64", (6, 1, 0, 18)),
        ("5.14.0-427.13.1.el9_4.x86_64", (5, 14, 0, 427, 13, 1)),
        ("6.6.87.2-microsoft-standard-WSL2", (6, 6, 87, 2)),
        ("6.12.9+bpo-amd64", (6, 12, 9)),
        ("7.0.0-rc3", (7,)),
        ("", ()),
        ("unknown", ()),
    ],
)
def test_kernel_releases(kernel: str, expected: tuple[int, ...]) -> None:
    assert figures(kernel) == expected


def test_the_abi_of_an_ubuntu_kernel_is_the_fourth_part() -> None:
    assert matches(">=6.8.0.44,<6.9", "6.8.0-45-generic")
    assert not matches(">=6.8.0.44,<6.9", "6.8.0-41-generic")


def test_nightlies_of_ngc_are_older_than_their_release() -> None:
    assert package_matches("==2.9.0a0", "2.9.0a0+145a3a7bda.nv25.10")
    assert not package_matches(">=2.9.0", "2.9.0a0+145a3a7bda.nv25.10")
    assert package_matches("==2.4.0", "2.4.0+rocm6.1")
    assert not package_matches(">=2", "no version")


@given(versions, versions, st.sampled_from(["==", "!=", "<=", ">=", "<", ">"]))
def test_specifiers_mean_what_pep_440_says(have: str, want: str, operator: str) -> None:
    specifier = operator + want
    assert matches(specifier, have) == SpecifierSet(specifier).contains(have)


@given(st.integers(0, 9), st.integers(0, 9), versions)
def test_prefixes_and_compatible_releases(major: int, minor: int, have: str) -> None:
    for specifier in (f"=={major}.{minor}.*", f"!={major}.*", f"~={major}.{minor}"):
        assert matches(specifier, have) == SpecifierSet(specifier).contains(have)


@pytest.mark.parametrize("bad", ["", "6.8", ">= ", "=>6", ">=x", "≥6", "==*"])
def test_what_is_no_specifier_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="specifier"):
        check_specifier(bad)


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_gets_an_answer(specifier: str, version: str) -> None:
    assert matches(specifier, version) in (True, False)
    assert package_matches(specifier, version) in (True, False)


RELEASE = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
CLAUSE = st.builds(
    lambda operator, version, end: operator + version + end,
    st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "~="]),
    RELEASE,
    st.sampled_from(["", "", "", ".*", "a1", ".post2"]),
)
VERSION = st.builds(
    lambda release, end: release + end, RELEASE, st.sampled_from(["", "", "", "+cu128", "rc1", ".post1"])
)


@given(st.lists(CLAUSE, min_size=1, max_size=3), VERSION)
def test_what_is_compared_without_packaging_comes_out_as_with_it(clauses: list[str], version: str) -> None:
    specifier = ",".join(clauses)
    try:
        expected = SpecifierSet(specifier).contains(version.partition("+")[0], prereleases=True)
    except ValueError:
        expected = False
    assert package_matches(specifier, version) is expected


def test_plain_versions_are_compared_without_the_packaging_library() -> None:
    program = (
        "import sys; from gpudoctor.matrix.versions import package_matches\n"
        "assert package_matches('>=2.6,<3,!=2.8.*,~=2.7', '2.7.1+cu128')\n"
        "assert 'packaging' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
