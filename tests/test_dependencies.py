"""Requires-Dist lines: how they are read, whether their markers hold, and what follows from them together."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from gpudoctor.dependencies import (
    Dependency,
    applies,
    closure,
    find_one,
    joined_specifiers,
    marker_environment,
    normalised,
    parsed,
)
from gpudoctor.machine import Distribution

LINUX = marker_environment("3.12", "x86_64")

# --- one line ------------------------------------------------------------------------------------------------

names = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,5}([-_.][A-Za-z0-9]{1,4}){0,2}", fullmatch=True)
versions = st.from_regex(r"[0-9]{1,2}(\.[0-9]{1,2}){0,3}(rc1|\.dev2|\.post1)?(\+cu12[0-9])?", fullmatch=True)
clauses = st.builds("{}{}".format, st.sampled_from((">=", "<=", "<", ">", "==", "!=")), versions).filter(
    lambda clause: "+" not in clause or clause.startswith(("==", "!="))
)
specifiers = st.lists(clauses, max_size=3).map(",".join)
extras = st.lists(names, max_size=2)

literals = {
    "python_version": ("3.8", "3.11", "3.12", "3.13", "3"),
    "platform_system": ("Linux", "Windows"),
    "sys_platform": ("linux", "win32"),
    "platform_machine": ("x86_64", "aarch64"),
    "os_name": ("posix", "nt"),
    "implementation_name": ("cpython", "pypy"),
    "extra": ("cuda", "all"),
}
comparisons = st.sampled_from(sorted(literals)).flatmap(
    lambda name: st.builds(
        "{} {} '{}'".format,
        st.just(name),
        st.sampled_from(("==", "!=", ">=", "<") if name == "python_version" else ("==", "!=")),
        st.sampled_from(literals[name]),
    )
)
markers = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("{} and {}".format, inner, inner),
        st.builds("({}) or ({})".format, inner, inner),
        st.builds("{} or {}".format, inner, inner),
    ),
    max_leaves=4,
)


@given(names, extras, specifiers, st.booleans())
def test_a_line_is_read_as_packaging_reads_it(name, asked, specifier, old_style):
    line = f"{name}{'[' + ','.join(asked) + ']' if asked else ''} " + (f"({specifier})" if old_style else specifier)
    wanted, found = Requirement(line), parsed(line)
    assert found is not None
    assert (found.name, set(found.extras)) == (normalised(wanted.name), {normalised(e) for e in wanted.extras})
    assert SpecifierSet(found.specifier) == wanted.specifier


@given(specifiers, versions)
def test_a_version_is_admitted_as_packaging_admits_it(specifier, version):
    found = Dependency(name="a", specifier=specifier)
    assert found.admits(version) == SpecifierSet(specifier).contains(Version(version), prereleases=True)


@given(markers, st.sampled_from(("3.8", "3.11", "3.12", "3.13t")), st.sampled_from(((), ("cuda",), ("cuda", "all"))))
def test_a_marker_holds_as_packaging_says(marker, python, asked):
    known = marker_environment(python, "x86_64")
    expected = any(Marker(marker).evaluate({**dict(known), "extra": extra}) for extra in ("", *asked))
    assert applies(marker, known, asked) == expected


@given(st.text(max_size=60))
def test_any_text_is_a_dependency_or_none(text):
    found = parsed(text)
    assert found is None or (found.admits("1.0") in (True, False) and applies(found.marker, LINUX) in (True, False))


@pytest.mark.parametrize(
    ("marker", "holds"),
    [
        ('python_full_version < "3.12.0"', False),
        ('python_full_version >= "3.12"', True),
        ('python_full_version < "3.12.4"', False),  # nobody knows: it does not count
        ('"linux" in sys_platform', True),
        ('platform_machine in "x86_64 AMD64"', True),
    ],
)
def test_markers_that_packaging_decides(marker, holds):
    assert applies(marker, LINUX) is holds
    assert not applies('python_version > "3"', marker_environment(None, "x86_64"))


_WITHOUT_PACKAGING = """
import sys
from gpudoctor.dependencies import Dependency, applies, marker_environment
linux = marker_environment("3.12", "x86_64")
marker = "(sys_platform == 'linux' or sys_platform == 'win32') and extra == 'cublas'"
assert applies(marker, linux, ("cufft", "cublas"))
assert not applies(marker, linux, ("cufft",))
assert applies('platform_machine == "aarch64" or platform_machine == "x86_64"', linux)
assert Dependency("llvmlite", specifier="<0.51,>=0.50.0dev0").admits("0.50.0")
assert not Dependency("llvmlite", specifier="<0.51.0rc1").admits("0.51.0")
assert "packaging" not in sys.modules
"""


def test_what_wheels_usually_write_is_decided_without_packaging():
    """cuda-toolkit of torch 2.11, onnxruntime and numba write such lines: the import costs a tenth of a check."""
    subprocess.run([sys.executable, "-c", _WITHOUT_PACKAGING], timeout=60, check=True)


@pytest.mark.parametrize(
    "marker",
    ["(" * 400 + "os_name == 'posix'" + ")" * 400, "(os_name == 'posix' or x", "a) (b or os_name == 'posix'"],
)
def test_a_marker_that_is_none_does_not_hold(marker):
    assert applies(marker, LINUX) is False


@pytest.mark.parametrize(
    ("specifier", "version"), [("==2.5.1", "2.5.1+cu124"), (">=2", "what"), ("", ""), (">x", "1")]
)
def test_what_cannot_be_compared_is_admitted(specifier, version):
    assert Dependency(name="a", specifier=specifier).admits(version)


# --- the closure ---------------------------------------------------------------------------------------------


def required(installed: dict[str, tuple[str, ...]], *roots: str) -> set[tuple[str, str]]:
    listed = {name: Distribution(name=name, version="13.0", requires=lines) for name, lines in installed.items()}
    return {(one.by.name, one.what.name) for one in closure(roots, listed.get, LINUX)}


def test_requirements_are_followed_with_the_extras_that_are_asked_for():
    found = required(
        {
            "torch": ('cuda-toolkit[cublas]==13.0; platform_system == "Linux"', 'optree; extra == "optree"'),
            "cuda-toolkit": ('nvidia-cublas==13.0; extra == "cublas"', 'nvidia-cufft==12; extra == "cufft"'),
            "nvidia-cublas": ("torch",),
            "stranger": ("nothing",),
        },
        "torch",
        "xformers",
    )
    assert found == {("torch", "cuda-toolkit"), ("cuda-toolkit", "nvidia-cublas"), ("nvidia-cublas", "torch")}


def test_what_a_release_requires_that_nobody_asked_for_is_no_requirement():
    """Another package has replaced torch's cuda-toolkit by that of CUDA 12: torch does not need its wheels."""
    toolkit = ('nvidia-cublas-cu12==12.9; extra == "cublas"',)
    found = required({"torch": ("cuda-toolkit[cublas]==13.2",), "cuda-toolkit": toolkit}, "torch")
    assert found == {("torch", "cuda-toolkit")}


def test_a_triton_is_one_package_under_all_its_names():
    rocm = {"pytorch-triton-rocm": Distribution(name="pytorch-triton-rocm", version="3.5.1")}
    assert find_one("triton", rocm.get) == rocm["pytorch-triton-rocm"]
    assert find_one("numpy", rocm.get) is None


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdefg"), max_size=4).map(tuple)))
def test_the_closure_is_closed(graph):
    found = required(graph, "a")
    reached = {"a"} | {name for _, name in found}
    assert found == {(by, name) for by in reached & graph.keys() for name in graph[by]}


@pytest.mark.parametrize(
    ("specifiers", "text"),
    [
        ((">=1.26", ">=2.0.0,<2.7", ">=1.26.4"), ">=2.0.0,<2.7"),
        (("<3,>1", "<=2", "<2"), ">1,<2"),
        ((">=1.10", ">=1.9"), ">=1.10"),
        ((">1.2", ">=1.2"), ">1.2"),
        (("==1.2", "", "==1.2"), "==1.2"),
        (("!=2.1,>=2", ">=2.0rc1"), "!=2.1,>=2,>=2.0rc1"),
    ],
)
def test_specifiers_of_several_packages_are_told_as_one_range(specifiers, text):
    assert joined_specifiers(specifiers) == text
