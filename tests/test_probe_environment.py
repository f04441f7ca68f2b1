"""Which Python is examined, what it imports from, and what is installed there."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.dependencies import normalised
from gpudoctor.host import Host, InputError, LiveHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import Distribution, PythonEnvironment
from gpudoctor.probes.distributions import with_details
from gpudoctor.probes.import_path import pth_paths
from gpudoctor.probes.python_environment import probe_environment
from gpudoctor.probes.python_layout import find_layout
from tests.support.environments import (
    shared_library,
    write_conda,
    write_conda_record,
    write_distribution,
    write_torch,
    write_venv,
)


def probe(root: Path, **variables: str) -> PythonEnvironment:
    """The active environment of the machine recorded below `root`."""
    return probe_named(RecordedHost(root, variables), None)


def probe_named(host: Host, python: Path | None, **variables: str) -> PythonEnvironment:
    environment = probe_environment(host, str(python) if python else None, variables)
    assert environment.value is not None, environment
    return environment.value


def versions(environment: PythonEnvironment) -> dict[str, str]:
    return {d.name: d.version for d in environment.distributions.value or ()}


def write_python(prefix: Path, python: str = "3.12") -> None:
    """An interpreter and its standard library, as a distribution installs them."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / f"python{python}").write_bytes(shared_library())
    (prefix / "bin" / "python3").symlink_to(f"python{python}")
    (prefix / "lib" / f"python{python}").mkdir(parents=True)
    (prefix / "lib" / f"python{python}" / "os.py").touch()


def write_debian(root: Path, python: str = "3.11") -> Path:
    """Debian's Python below `root`; returns its dist-packages."""
    write_python(root / "usr", python)
    (root / "usr" / "lib" / f"python{python}" / "EXTERNALLY-MANAGED").touch()
    packages = root / "usr" / "lib" / "python3" / "dist-packages"
    packages.mkdir(parents=True)
    return packages


# --- which Python --------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["", "bin/python", "bin/python3.12"])
def test_a_venv_is_examined_and_not_the_base_its_link_leads_to(tmp_path: Path, named: str) -> None:
    write_python(tmp_path / "base")
    write_torch(tmp_path / "base/lib/python3.12/site-packages", "2.6.0+cu124", "12.4")
    site = write_venv(tmp_path / "venv", home=str(tmp_path / "base/bin"))
    write_torch(site, "2.9.1+cu128", "12.8")
    environment = probe_named(LiveHost(), tmp_path / "venv" / named)
    assert environment.kind == "venv"
    assert environment.prefix == str(tmp_path / "venv")
    assert environment.site_packages == (str(site),)
    assert environment.python.value == "3.12"
    assert environment.torch.value is not None
    assert environment.torch.value.version == "2.9.1+cu128"
    assert (environment.has_pip, environment.uv_managed, environment.externally_managed) == (True, False, False)


def test_the_base_interpreter_is_examined_when_it_is_named(tmp_path: Path) -> None:
    write_python(tmp_path / "base")
    write_torch(tmp_path / "base/lib/python3.12/site-packages", "2.6.0+cu124", "12.4")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3.12").symlink_to(tmp_path / "base/bin/python3.12")
    environment = probe_named(LiveHost(), tmp_path / "bin" / "python3.12")
    assert environment.prefix == str(tmp_path / "base")
    assert environment.torch.value is not None


def test_a_venv_made_by_uv_says_so_and_needs_no_pip(tmp_path: Path) -> None:
    write_venv(tmp_path / "venv", uv=True)
    environment = probe_named(LiveHost(), tmp_path / "venv")
    assert environment.uv_managed
    assert not environment.has_pip
    assert environment.python.value == "3.12"


def test_a_venv_that_once_had_another_python_is_read_for_its_present_one(tmp_path: Path) -> None:
    old = write_venv(tmp_path / "venv", "3.10")
    write_torch(old, "2.0.1+cu117", "11.7")
    (tmp_path / "venv/lib/python3.12/site-packages").mkdir(parents=True)
    (tmp_path / "venv/pyvenv.cfg").write_text("home = /nowhere/bin\nversion = 3.12.1\n")
    for name in ("python", "python3", "python3.10"):
        (tmp_path / "venv/bin" / name).unlink()
    (tmp_path / "venv/bin/python").symlink_to("/nowhere/bin/python3")
    environment = probe_named(LiveHost(), tmp_path / "venv")
    assert environment.python.value == "3.12"
    assert environment.torch.absent


def test_the_interpreter_that_a_link_leads_to_goes_before_what_a_venv_was_made_for(tmp_path: Path) -> None:
    write_python(tmp_path / "base", "3.12")
    write_torch(write_venv(tmp_path / "venv", "3.10", home=str(tmp_path / "base/bin")), "2.0.1+cu117", "11.7")
    (tmp_path / "venv/lib/python3.12/site-packages").mkdir(parents=True)
    (tmp_path / "venv/bin/python3.10").unlink()
    (tmp_path / "venv/bin/python3.10").symlink_to(tmp_path / "base/bin/python3")
    environment = probe_named(LiveHost(), tmp_path / "venv")
    assert environment.python.value == "3.12"
    assert environment.torch.absent


def test_a_free_threaded_venv(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv", "3.13t")
    write_torch(site)
    environment = probe_named(LiveHost(), tmp_path / "venv")
    assert environment.python.value == "3.13t"
    assert environment.torch.known


def test_what_is_no_environment_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("python")
    (tmp_path / "project").mkdir()
    write_venv(tmp_path / "project/.venv")
    for given_path, said in (
        ("missing", "no such file"),
        ("notes.txt", "not an interpreter, a venv or a conda prefix"),
        ("project", "name " + str(tmp_path / "project/.venv")),
        ("project/.venv/bin/python3.99", "no such file"),
    ):
        with pytest.raises(InputError, match=said):
            probe_named(LiveHost(), tmp_path / given_path)


def test_a_named_python_is_of_the_running_system_also_beside_a_root(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    write_torch(site)
    (tmp_path / "root").mkdir()
    environment = probe_named(RecordedHost(tmp_path / "root"), tmp_path / "venv")
    assert environment.torch.known


def test_below_a_root_the_active_environment_is_looked_for_in_order(tmp_path: Path) -> None:
    write_debian(tmp_path)
    write_venv(tmp_path / "srv/venv", "3.10")
    write_conda(tmp_path / "opt/conda", "3.12")
    paths = {"VIRTUAL_ENV": "/srv/venv", "CONDA_PREFIX": "/opt/conda", "PATH": "/usr/bin"}
    assert probe(tmp_path, **paths).prefix == "/srv/venv"
    del paths["VIRTUAL_ENV"]
    assert probe(tmp_path, **paths).prefix == "/opt/conda"
    assert probe(tmp_path, PATH="/nowhere:/srv/venv/bin:/usr/bin").prefix == "/srv/venv"
    assert probe(tmp_path, PATH="/usr/bin").prefix == "/usr"
    assert probe(tmp_path).prefix == "/usr"
    assert probe(tmp_path, VIRTUAL_ENV="/removed").prefix == "/usr"


def test_behind_a_pyenv_shim_is_the_version_that_it_would_start(tmp_path: Path) -> None:
    pyenv = tmp_path / "home/u/.pyenv"
    for version in ("3.11.7", "3.12.1"):
        write_python(pyenv / "versions" / version, version[:4])
    (pyenv / "shims").mkdir()
    (pyenv / "shims/python3").write_text("#!/bin/sh\n")
    (pyenv / "version").write_text("3.11.7\n")
    shims = "/home/u/.pyenv/shims"
    assert probe(tmp_path, PATH=shims).python.value == "3.11"
    assert probe(tmp_path, PATH=shims, PYENV_VERSION="3.12.1").python.value == "3.12"
    assert probe(tmp_path, PATH=shims).kind == "user"


def test_a_shim_of_pyenv_is_named_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("3.11.9", "3.11.10", "3.12.1"):
        bin_ = tmp_path / f".pyenv/versions/{version}/bin"
        (tmp_path / f".pyenv/versions/{version}/lib/python{version.rpartition('.')[0]}").mkdir(parents=True)
        bin_.mkdir()
        for name in ("python", f"python{version.rpartition('.')[0]}"):
            (bin_ / name).write_text("")
    (tmp_path / ".pyenv/shims").mkdir()
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "project/.python-version").write_text("3.11\n")
    monkeypatch.chdir(tmp_path / "project/src")
    shim = tmp_path / ".pyenv/shims/python"
    shim.write_text("#!/usr/bin/env bash\n")

    def chosen(environ: dict[str, str]) -> str:
        layout = find_layout(LiveHost(), str(shim), environ)
        assert layout is not None
        return layout.prefix.rpartition("/")[2]

    assert chosen({}) == "3.11.10"
    assert chosen({"PYENV_VERSION": "3.12.1"}) == "3.12.1"
    with pytest.raises(InputError, match=r"a shim of pyenv, which has no python in 3\.13"):
        chosen({"PYENV_VERSION": "3.13"})


def test_a_live_host_without_an_active_environment_gives_the_one_gpudoctor_runs_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    assert probe_named(LiveHost(), None).prefix == sys.prefix


def test_gpudoctor_installed_as_a_tool_examines_the_python_of_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_python(tmp_path / "usual")
    write_venv(tmp_path / "tool")
    (tmp_path / "tool/uv-receipt.toml").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tool"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "usual/bin"))
    assert probe_named(LiveHost(), None).prefix == str(tmp_path / "usual")


@pytest.mark.parametrize("torch_in", ["project", "layer"])
def test_below_what_uv_run_lays_over_an_environment_for_one_run(tmp_path: Path, torch_in: str) -> None:
    """As `uv run --with gpudoctor-cli gpudoctor check` writes it: a fix there would be gone after the run."""
    places = {name: write_venv(tmp_path / name) for name in ("run", "project", "layer")}
    write_torch(places[torch_in])
    with (tmp_path / "run/pyvenv.cfg").open("a") as config:
        config.write("extends-environment = /project\n")
    added = (
        f'site.addsitedir(__import__("os").fsdecode(b"/{name}/lib/python3.12/site-packages"))' for name in places
    )
    (places["run"] / "_uv_ephemeral_overlay.pth").write_text(f"import site; {'; '.join(added)}")
    found = probe(tmp_path, VIRTUAL_ENV="/run")
    assert found.prefix == ("/project" if torch_in == "project" else "/run")
    assert found.torch.value is not None and found.torch.value.version == "2.9.1+cu128"


def test_a_recording_without_any_python_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    assert probe_environment(RecordedHost(tmp_path), None, {}).undecided


# --- what it imports from --------------------------------------------------------------------------


def test_paths_in_a_recorded_pyvenv_cfg_are_of_that_machine(tmp_path: Path) -> None:
    write_debian(tmp_path, "3.12")
    (tmp_path / "usr/include/python3.12").mkdir(parents=True)
    (tmp_path / "usr/include/python3.12/Python.h").touch()
    write_venv(tmp_path / "srv/venv")
    assert probe(tmp_path, VIRTUAL_ENV="/srv/venv").python_headers.value is True
    (tmp_path / "usr/include/python3.12/Python.h").unlink()
    assert probe(tmp_path, VIRTUAL_ENV="/srv/venv").python_headers.value is False


def test_headers_of_a_base_that_is_not_recorded_are_unknown(tmp_path: Path) -> None:
    write_venv(tmp_path / "srv/venv", home="/mnt/elsewhere/bin")
    assert probe(tmp_path, VIRTUAL_ENV="/srv/venv").python_headers.undecided


def test_headers_are_unknown_where_a_copied_python_outlived_the_folder_that_it_was_made_from(tmp_path: Path) -> None:
    for home in (tmp_path / "gone/bin", Path(sys.base_prefix) / "bin"):
        root = tmp_path / home.parent.name / "venv"
        write_venv(root, "3.9", home=str(home))  # of another release than the Python there
        found = probe_environment(LiveHost(), str(root), {}).value
        assert found is not None
        assert found.python_headers.undecided
    own = tmp_path / "own"
    write_venv(own, f"{sys.version_info.major}.{sys.version_info.minor}", home=str(Path(sys.base_prefix) / "bin"))
    found = probe_environment(LiveHost(), str(own), {}).value
    assert found is not None
    assert found.python_headers.known


def test_debians_python_reads_dist_packages_local_ones_first(tmp_path: Path) -> None:
    packages = write_debian(tmp_path)
    write_distribution(packages, "numpy", "1.24.2", installer="debian")
    local = tmp_path / "usr/local/lib/python3.11/dist-packages"
    write_distribution(local, "numpy", "2.1.0")
    write_distribution(tmp_path / "usr/local/lib/python3.11/site-packages", "scipy", "1.14.0")
    environment = probe(tmp_path)
    assert environment.kind == "system"
    assert environment.externally_managed
    assert versions(environment) == {"numpy": "2.1.0"}
    assert environment.site_packages == ("/usr/local/lib/python3.11/dist-packages", "/usr/lib/python3/dist-packages")


def test_fedoras_python_reads_lib64_and_usr_local(tmp_path: Path) -> None:
    write_python(tmp_path / "usr", "3.13")
    write_distribution(tmp_path / "usr/lib64/python3.13/site-packages", "torch", "2.5.1", installer="rpm")
    write_distribution(tmp_path / "usr/local/lib64/python3.13/site-packages", "numpy", "2.1.0")
    assert versions(probe(tmp_path)) == {"numpy": "2.1.0", "torch": "2.5.1"}


def test_the_user_site_comes_first_unless_it_is_switched_off(tmp_path: Path) -> None:
    write_torch(write_debian(tmp_path), "2.5.1", None, installer="")
    user = tmp_path / "home/u/.local/lib/python3.11/site-packages"
    write_torch(user, "2.9.1+cu128", "12.8")

    def version(**variables: str) -> str | None:
        torch = probe(tmp_path, HOME="/home/u", **variables).torch.value
        return torch and torch.version

    assert version() == "2.9.1+cu128"
    assert version(PYTHONNOUSERSITE="1") == "2.5.1"
    assert version(PYTHONUSERBASE="/home/u/other") == "2.5.1"


def test_a_venv_sees_its_base_and_the_user_site_only_if_it_says_so(tmp_path: Path) -> None:
    write_distribution(write_debian(tmp_path, "3.12"), "numpy", "1.26.4")
    write_distribution(tmp_path / "home/u/.local/lib/python3.12/site-packages", "scipy", "1.14.0")
    write_distribution(write_venv(tmp_path / "srv/closed"), "filelock", "3.0")
    write_distribution(write_venv(tmp_path / "srv/open", system_site=True), "filelock", "3.0")
    closed = probe(tmp_path, VIRTUAL_ENV="/srv/closed", HOME="/home/u")
    assert versions(closed).keys() == {"filelock", "pip"}
    opened = probe(tmp_path, VIRTUAL_ENV="/srv/open", HOME="/home/u")
    assert versions(opened).keys() == {"filelock", "pip", "numpy", "scipy"}
    assert opened.site_packages[0] == "/srv/open/lib/python3.12/site-packages"
    assert opened.site_packages[1] == "/home/u/.local/lib/python3.12/site-packages"


def test_pythonpath_comes_first_and_relative_entries_are_nobodys(tmp_path: Path) -> None:
    write_distribution(write_venv(tmp_path / "srv/venv"), "numpy", "1.26.4")
    write_distribution(tmp_path / "srv/extra", "numpy", "2.1.0")
    found = probe(tmp_path, VIRTUAL_ENV="/srv/venv", PYTHONPATH="lib:/gone:/srv/extra")
    assert versions(found)["numpy"] == "2.1.0"


def test_path_lines_of_pth_files_count_and_their_programs_are_never_run(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "srv/venv")
    proof = tmp_path / "ran"
    (site / "a.pth").write_text(f"# a comment\nimport pathlib; pathlib.Path({str(proof)!r}).touch()\n../checkout\n")
    write_distribution(site.parent / "checkout", "numpy", "2.1.0")
    assert versions(probe(tmp_path, VIRTUAL_ENV="/srv/venv"))["numpy"] == "2.1.0"
    assert not proof.exists()


def test_pythonpath_that_names_the_environments_own_folder_changes_nothing(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "srv/venv")
    (site / "x.pth").write_text("/srv/checkout\n")
    write_distribution(tmp_path / "srv/checkout", "numpy", "2.1.0")
    folder = "/srv/venv/lib/python3.12/site-packages"
    found = probe(tmp_path, VIRTUAL_ENV="/srv/venv", PYTHONPATH=folder)
    assert found.site_packages == (folder,)
    assert versions(found)["numpy"] == "2.1.0"


@given(st.text())
def test_any_text_may_stand_in_a_pth_file(text: str) -> None:
    assert all(line and not line.startswith(("import ", "#")) for line in pth_paths(text))


# --- what is installed -----------------------------------------------------------------------------


def test_requirements_and_installer_are_read_where_they_take_part_in_a_judgement(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    write_torch(site, requires=("triton==3.5.1", "nvidia-cudnn-cu12==9.10.2.21"), installer="uv")
    write_distribution(site, "cuda-toolkit", "13.0.2", requires=('nvidia-cublas==13.1.0.3; extra == "cublas"',))
    write_distribution(site, "requests", "2.32.0", requires=("idna",))
    environment = probe_named(LiveHost(), tmp_path / "venv")
    torch = environment.distribution("torch")
    assert torch is not None
    assert torch.requires == ("triton==3.5.1", "nvidia-cudnn-cu12==9.10.2.21")
    assert (torch.installer, torch.version) == ("uv", "2.9.1+cu128")
    toolkit = environment.distribution("cuda-toolkit")
    assert toolkit is not None
    assert toolkit.requires == ('nvidia-cublas==13.1.0.3; extra == "cublas"',)
    requests = environment.distribution("requests")
    assert requests is not None
    assert requests.requires == ()


def test_names_are_normalised_and_egg_infos_listed(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv", pip=False)
    write_distribution(site, "Flash_Attn.x", "2.8.3")
    (site / "PyYAML-6.0.1-py3.12.egg-info").mkdir()
    (site / "six-1.16.0.egg-info").write_text("Metadata-Version: 1.2\nName: six\nVersion: 1.16.0\n")
    (site / "apex.egg-info").mkdir()
    (site / "apex.egg-info/PKG-INFO").write_text("Metadata-Version: 2.1\nName: apex\nVersion: 0.1\n")
    (site / "~umpy-1.26.4.dist-info").mkdir()
    found = versions(probe_named(LiveHost(), tmp_path / "venv"))
    assert found == {"flash-attn-x": "2.8.3", "pyyaml": "6.0.1", "six": "1.16.0", "apex": "0.1"}


@pytest.mark.parametrize("zipped", [True, False])
def test_an_egg_that_easy_install_put_on_the_path_is_installed(tmp_path: Path, zipped: bool) -> None:
    site = write_venv(tmp_path / "venv")
    write_torch(site, "2.9.1+cu128", "12.8", requires=("typing-extensions>=4.10", "PyYAML", "sympy"))
    eggs = {"typing_extensions": "4.16.0", "PyYAML": "6.0.2"}
    for name, version in eggs.items():
        egg = site / f"{name}-{version}-py3.12.egg"
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        if zipped:
            with zipfile.ZipFile(egg, "w") as archive:
                archive.writestr("EGG-INFO/PKG-INFO", head)
        else:
            (egg / "EGG-INFO").mkdir(parents=True)
            (egg / "EGG-INFO/PKG-INFO").write_text(head)
    (site / "easy-install.pth").write_text("".join(f"./{egg.name}\n" for egg in site.glob("*.egg")))
    environment = probe_named(LiveHost(), tmp_path / "venv")
    assert environment.not_installed == ("sympy",)
    assert versions(environment)["typing-extensions"] == "4.16.0"
    assert versions(environment)["pyyaml"] == "6.0.2"


def test_what_lies_in_an_archive_on_the_path_is_not_called_missing(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    write_torch(site, "2.9.1+cu128", "12.8", requires=("typing-extensions>=4.10",))
    with zipfile.ZipFile(tmp_path / "libs.zip", "w") as archive:
        archive.writestr("typing_extensions.py", "")
    environment = probe_named(LiveHost(), tmp_path / "venv", PYTHONPATH=str(tmp_path / "libs.zip"))
    assert environment.not_installed == ()


def test_of_two_records_of_one_name_the_whole_one_counts(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    (write_distribution(site, "numpy", "2.3.0") / "RECORD").unlink()
    write_distribution(site, "numpy", "1.26.4")
    write_distribution(site, "numpy", "1.9.0")
    assert versions(probe_named(LiveHost(), tmp_path / "venv"))["numpy"] == "1.26.4"


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\x00" * 5000, b"Name: torch\n" * 200_000, b"Requires-Dist:\n\n"],
    ids=["empty", "binary", "huge", "no values"],
)
def test_hostile_metadata_costs_its_own_facts_only(tmp_path: Path, content: bytes) -> None:
    site = write_venv(tmp_path / "venv")
    write_torch(site)
    (site / "torch-2.9.1+cu128.dist-info/METADATA").write_bytes(content)
    (site / "odd.dist-info").mkdir()
    (site / "odd.dist-info/METADATA").write_bytes(content)
    environment = probe_named(LiveHost(), tmp_path / "venv")
    assert versions(environment)["torch"] == "2.9.1+cu128"
    assert environment.torch.value is not None
    assert environment.torch.value.build == "cu128"


def test_secrets_in_where_a_package_came_from_are_left_out(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    write_torch(site, direct_url="https://me:pa%40ss@wheels.example/torch.whl?token=abc#sha256=1")
    torch = probe_named(LiveHost(), tmp_path / "venv").distribution("torch")
    assert torch is not None
    assert torch.direct_url == "https://wheels.example/torch.whl"


def test_conda_packages_need_no_dist_info(tmp_path: Path) -> None:
    site = write_conda(tmp_path / "env")
    write_torch(site, "2.7.1", "12.6", dist_info=False)
    write_conda_record(tmp_path / "env", "pytorch", "2.7.1", "cuda126_mkl_py312_h30b5a27_300")
    write_conda_record(tmp_path / "env", "openssl", "3.3.0", "h1_0")
    environment = probe_named(LiveHost(), tmp_path / "env")
    assert environment.kind == "conda"
    assert environment.python_headers.value is True
    assert versions(environment) == {"torch": "2.7.1"}
    torch = environment.distribution("torch")
    assert torch is not None
    assert torch.installer == "conda"


def test_a_conda_prefix_with_folders_of_two_pythons_is_read_for_the_one_conda_installed(tmp_path: Path) -> None:
    write_conda(tmp_path / "env", "3.10")
    (tmp_path / "env/lib/python3.12/site-packages").mkdir(parents=True)
    assert probe_named(LiveHost(), tmp_path / "env").python.value == "3.10"


def test_the_project_that_owns_the_environment(tmp_path: Path) -> None:
    write_venv(tmp_path / "p/.venv", uv=True)
    assert probe_named(LiveHost(), tmp_path / "p/.venv").project == ""
    (tmp_path / "p/uv.lock").touch()
    environment = probe_named(LiveHost(), tmp_path / "p/.venv")
    assert (environment.project, environment.lock) == (str(tmp_path / "p"), "uv.lock")
    write_conda(tmp_path / "q/.pixi/envs/default")
    (tmp_path / "q/pixi.lock").touch()
    environment = probe_named(LiveHost(), tmp_path / "q/.pixi/envs/default")
    assert (environment.project, environment.lock) == (str(tmp_path / "q"), "pixi.lock")


def test_a_folder_that_may_not_be_read_is_denied_and_not_empty(tmp_path: Path) -> None:
    write_torch(write_venv(tmp_path / "srv/venv"))
    node = {"/srv/venv/lib/python3.12/site-packages": {"open": "EACCES"}}
    (tmp_path / "gpudoctor-host.json").write_text(json.dumps({"nodes": node}))
    environment = probe(tmp_path, VIRTUAL_ENV="/srv/venv")
    assert environment.distributions.state == "denied"
    assert environment.torch.state == "denied"


@given(st.text(alphabet="aB-_.", min_size=1))
def test_normalising_a_name_twice_changes_nothing(name: str) -> None:
    assert normalised(normalised(name)) == normalised(name)


def test_members_of_a_uv_workspace_are_asked_for_torch_too(tmp_path):
    from gpudoctor.host import LiveHost
    from gpudoctor.probes.project_files import torch_asked

    (tmp_path / "packages" / "a").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.uv.workspace]\nmembers = ["packages/*", "../outside"]\n')
    (tmp_path / "packages/a/pyproject.toml").write_text('[project]\nname = "a"\ndependencies = ["torch==2.9.1"]\n')
    asked = torch_asked(LiveHost(), str(tmp_path))
    assert [(line.file, line.requirement) for line in asked] == [("packages/a/pyproject.toml", "torch==2.9.1")]


@pytest.mark.parametrize(
    ("content", "torch"),
    [
        ('{"version": {"cuda": 1201, "hip": null, "torch": "2.5.1+cu121"}, "env": {}}', "2.5.1+cu121"),
        ('{"version": {"torch": null}}', ""),
        ('{"version": {"torch": "<script>"}}', ""),
        ("[" * 200_000, ""),
        ("", ""),
    ],
)
def test_the_torch_of_xformers_build_record(tmp_path: Path, content: str, torch: str):
    info = write_distribution(tmp_path, "xformers", "0.0.28.post3", files={"xformers/cpp_lib.json": content})
    assert with_details(LiveHost(), Distribution("xformers", "0.0.28.post3", str(info))).built_for_torch == torch
