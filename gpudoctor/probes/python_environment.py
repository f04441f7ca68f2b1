"""The examined Python environment, read from its files; its interpreter is never started here."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from gpudoctor.dependencies import TRITONS, normalised
from gpudoctor.frameworks.torch.probes.copies import Copies, find_copies, remains
from gpudoctor.host import Host, LiveHost
from gpudoctor.machine import Distribution, Fact, Frameworks, PythonEnvironment, Torch, absent, known, unknown
from gpudoctor.matrix.rows.packages import ImportedModules, LateLibrary, VersionFile
from gpudoctor.probes.dependencies import Checked, required_packages
from gpudoctor.probes.distributions import (
    JUDGED,
    CondaPackage,
    conda_packages,
    conda_torch,
    distributions_in,
    interrupted_installs,
    unrecorded,
    with_conda,
)
from gpudoctor.probes.file_owner import Program, foreign_processor, program_of
from gpudoctor.probes.framework_settings import keras_settings, left_folders
from gpudoctor.probes.frameworks import FrameworkRows, read_frameworks, with_their_requirements
from gpudoctor.probes.import_path import ImportPath, import_path
from gpudoctor.probes.project_files import asked_beside, conda_tool, project_of, project_packages
from gpudoctor.probes.python_layout import Layout, find_layout, gone_active, in_tool, pips_of_others, standard_folders
from gpudoctor.probes.shadowing import shadowing_modules
from gpudoctor.probes.start_faults import start_faults
from gpudoctor.probes.surroundings import InstalledTorch, Surroundings
from gpudoctor.probes.tritons import triton_owner
from gpudoctor.probes.wheel_tags import with_their_wheels

_NOT_THERE = "no torch there"
_NO_ROWS = FrameworkRows()


def probe_environment(
    host: Host,
    python: str | None,
    variables: Mapping[str, str],
    *,
    late: tuple[LateLibrary, ...] = (),
    packages: Collection[str] = (),
    modules: tuple[ImportedModules, ...] = (),
    version_files: tuple[VersionFile, ...] = (),
    frameworks: FrameworkRows = _NO_ROWS,
) -> Fact[PythonEnvironment]:
    """The environment of `python` (an interpreter, a venv or a conda prefix of the running system), or the host's
    active one.

    `variables` override the host's own, `late` are libraries that others open when they need them, and `modules`
    those that torch loads. What `packages` require is looked at, the files that `frameworks` name are read, and
    `version_files` where a package has no record. Raises InputError if `python` is none of these.
    """
    environ = {**host.environ, **variables}
    if python is not None and not host.live:
        host = LiveHost()  # --python is always a path of the running system, also beside --root
    layout = find_layout(host, python, environ)
    if layout is None:
        return _no_python(host, environ)
    path = import_path(host, layout, environ)
    program = program_of(host, host.resolve(layout.interpreter) or "")
    conda = conda_packages(host, layout.prefix) if layout.kind == "conda" else ()
    checked = _checked(host, path, conda, layout.python, packages, version_files)
    distributions = with_their_requirements(host, frameworks, checked.distributions)
    around = Surroundings(
        host=host,
        layout=layout,
        path=path,
        environ=environ,
        distributions=with_their_wheels(host, layout, distributions, program, packages),
        conda=conda_torch(conda),
        late=late,
    )
    environment = _with_frameworks(_with_project(_interpreter(around, program), around), around, frameworks, modules)
    of_frameworks = (name for row in frameworks.frameworks for name in row.packages)
    there = _names(distributions) | _normalised(conda)
    return known(
        replace(
            environment,
            instead_of=gone_active(host, environ) if python is None and host.live else "",
            not_installed=checked.not_installed,
            interrupted=(
                *interrupted_installs(path.folders, {*JUDGED, *packages, *of_frameworks}, there),
                *left_folders(host, path, frameworks.frameworks, there),
            ),
        ),
        layout.prefix,
    )


def _no_python(host: Host, environ: Mapping[str, str]) -> Fact[PythonEnvironment]:
    if not host.live:
        return unknown("no Python in this recording")
    own = "; gpudoctor's own (uvx, pipx) is not examined: activate one, or name it with --python"
    return absent("PATH", f"no Python was found{own if in_tool(host, environ) else ''}")


def _checked(
    host: Host,
    path: ImportPath,
    conda: tuple[CondaPackage, ...],
    python: str | None,
    packages: Collection[str],
    version_files: tuple[VersionFile, ...],
) -> Checked:
    """What is installed, and what of the requirements of `packages` is not."""
    recorded = with_conda(distributions_in(host, path.folders, path.archives), conda)
    names = _names(recorded) | _normalised(conda)
    if not names.isdisjoint(TRITONS):
        names.update(TRITONS)
    found = (*recorded, *unrecorded(host, path.folders, version_files, names))
    return required_packages(host, path, found, packages=packages, python=python, elsewhere=_normalised(conda))


def _names(distributions: tuple[Distribution, ...]) -> set[str]:
    return {one.name for one in distributions}


def _normalised(conda: tuple[CondaPackage, ...]) -> set[str]:
    return {normalised(package.name) for package in conda}


def _interpreter(around: Surroundings, program: Program) -> PythonEnvironment:
    """The environment with what is known of its interpreter, and of the tools that made it."""
    host, layout, path = around.host, around.layout, around.path
    faults = start_faults(host, layout, path, foreign_processor(host, program.machine), around.environ)
    pip_program, pip_starts = _pip_of_another(host, layout)
    return PythonEnvironment(
        prefix=layout.prefix,
        kind=layout.kind,
        python=known(layout.python, layout.prefix) if layout.python else unknown("no file tells the version"),
        interpreter=layout.interpreter,
        site_packages=path.site_packages,
        externally_managed=_externally_managed(host, layout),
        has_pip=any(one.name == "pip" and not one.unlinked for one in around.distributions),
        uv_managed="uv" in layout.config,
        conda_tool=conda_tool(host, layout.prefix) if layout.kind == "conda" else "conda",
        python_headers=unknown("its Python does not work") if faults else _headers(host, layout),
        start_faults=faults,
        pip_program=pip_program,
        pip_starts=pip_starts,
        source=layout.prefix,
    )


def _with_project(environment: PythonEnvironment, around: Surroundings) -> PythonEnvironment:
    host, layout = around.host, around.layout
    project = project_of(host, layout, around.environ)
    return replace(
        environment,
        project=project.folder,
        lock=project.lock,
        project_keys=project.keys,
        compiled_by=project.compiled_by,
        torch_asked=asked_beside(host, layout, project),
        project_packages=project_packages(host, project, _names(around.distributions)),
    )


def _with_frameworks(
    environment: PythonEnvironment, around: Surroundings, rows: FrameworkRows, modules: tuple[ImportedModules, ...]
) -> PythonEnvironment:
    """The environment with its packages, torch and the other frameworks among them, and what these load."""
    host, distributions = around.host, around.distributions
    copies = find_copies(host, around.path, around.conda)
    installed = _torch(around, copies)
    if installed.locked:
        distributions = tuple(
            replace(one, damaged=installed.locked) if one.name == "torch" else one for one in distributions
        )
    others = read_frameworks(host, rows, distributions, around.environ, around.layout.prefix)
    of_keras = any(one.name == "keras" for one in distributions)
    torch = installed.torch
    if torch.absent and not others and torch.why == _NOT_THERE:
        torch = _named_elsewhere(around, torch, rows)
    return replace(
        environment,
        distributions=_listing(around.path, distributions),
        frameworks=Frameworks(torch, others, keras_settings(host, around.environ) if of_keras else ()),
        torch_remains=() if copies.importable else remains(host, copies),
        shadows=shadowing_modules(around, installed.torch, others, modules),
        libstdcxx=installed.libstdcxx,
        libstdcxx_path=installed.libstdcxx_path,
        libraries=installed.libraries,
        missing_symbols=installed.missing_symbols,
        triton_owner=triton_owner(host, distributions),
    )


def _pip_of_another(host: Host, layout: Layout) -> tuple[str, str]:
    """The pip of a venv or conda prefix that installs into another one, and the Python that it starts. A recording
    need not hold all folders."""
    if not host.live or layout.kind not in ("venv", "conda"):
        return "", ""
    return next(pips_of_others(host, layout), ("", ""))


def _listing(path: ImportPath, distributions: tuple[Distribution, ...]) -> Fact[tuple[Distribution, ...]]:
    if path.unreadable:
        return Fact(state="denied", source=path.unreadable[0].source, why=path.unreadable[0].why)
    if not path.site_packages:
        return unknown("no site-packages folder was found")
    return known(distributions, path.site_packages[0])


def _torch(around: Surroundings, copies: Copies) -> InstalledTorch:
    if not copies.importable:
        return InstalledTorch(_no_torch(around, copies))
    from gpudoctor.frameworks.torch.probes.installed import probe_torch

    return probe_torch(around, copies)


def _no_torch(around: Surroundings, copies: Copies) -> Fact[Torch]:
    searched = around.path.site_packages
    if around.path.unreadable:
        return Fact(state="denied", source=around.path.unreadable[0].source, why=around.path.unreadable[0].why)
    if not searched:
        return unknown("no site-packages folder was found")
    trace = next(iter(copies.traces), None)
    why = f"{_NOT_THERE}; {trace.via}: {trace.path}" if trace else _NOT_THERE
    return absent(searched[0], why)


def _named_elsewhere(around: Surroundings, torch: Fact[Torch], rows: FrameworkRows) -> Fact[Torch]:
    """A torch that is not there, with the place of one, or of another framework, that Python does not see."""
    from gpudoctor.probes.hidden_framework import hidden_framework

    others = (row.module for row in rows.frameworks if row.module)
    hidden = hidden_framework(around, ("torch", *others))
    return absent(torch.source, f"{torch.why}; {hidden}") if hidden else torch


# --- the environment's own properties --------------------------------------------------------------


def _externally_managed(host: Host, layout: Layout) -> bool:
    """PEP 668: a mark in the standard library of an interpreter that is not a venv."""
    if layout.kind == "venv" or layout.python is None:
        return False
    folders = standard_folders(layout.prefix, layout.python)
    return any(host.exists(posixpath.join(folder, "EXTERNALLY-MANAGED")) for folder in folders)


def _has_standard_library(host: Host, layout: Layout) -> bool:
    folders = standard_folders(layout.base_prefix, layout.python)
    return any(host.exists(posixpath.join(folder, "os.py")) for folder in folders)


def _headers(host: Host, layout: Layout) -> Fact[bool]:
    if layout.python is None:
        return unknown("the Python version is unknown")
    if layout.kind == "venv" and host.live and not _has_standard_library(host, layout):
        # It runs all the same: Python then looks where it was compiled for.
        return unknown(f"pyvenv.cfg names a folder without Python {layout.python}", layout.base_prefix)
    path = posixpath.join(layout.base_prefix, "include", f"python{layout.python}", "Python.h")
    found = host.stat(path)
    if found.known or found.absent:
        return known(found.known, path)
    return found.unanswered(path)
