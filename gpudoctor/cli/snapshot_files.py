"""`gpudoctor snapshot --files`: a machine as a folder that `check --root` reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpudoctor.host import Host, InputError
from gpudoctor.machine import Level, Machine
from gpudoctor.plain_text import number_of

if TYPE_CHECKING:
    from gpudoctor.command_line.arguments import ExaminationOptions
    from gpudoctor.finding import Finding
    from gpudoctor.host.recorder import RecordingHost
    from gpudoctor.host.written_root import Written
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.render.lines import Line
    from gpudoctor.survey import Survey

_ALSO = frozenset({
    "HOME", "PATH", "PYENV_ROOT", "PYENV_VERSION", "PYTHONSAFEPATH", "XDG_CACHE_HOME", "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    # Batch systems: which one, and how many GPUs it grants.
    "FLUX_JOB_ID", "LSB_JOBID", "OAR_JOB_ID", "PBS_GPUFILE", "PBS_JOBID", "PJM_JOBID", "RAY_RAYLET_PID",
    "SGE_HGR_gpu", "SGE_TASK_ID", "SLURMD_NODENAME", "SLURM_GPUS_PER_NODE", "SLURM_JOBID", "_CONDOR_AssignedGPUs",
    "_CONDOR_JOB_AD", "_CONDOR_SCRATCH_DIR",
})  # fmt: skip
"""Variables that probes ask for beside those of a machine's record."""
_INSTALLERS = ("PIP_", "UV_")
_NAMES_A_HOST = "SLURMD_NODENAME"


def record(examined: ExaminationOptions, variables: dict[str, str], given: str) -> int:
    """Record a machine in a new folder, check that folder, and say what it holds and what it lacks."""
    from gpudoctor.command_line.machine_source import host_of
    from gpudoctor.host.anonymous import Anonymous
    from gpudoctor.host.recorded_host import RecordedHost
    from gpudoctor.host.recorder import RecordingHost
    from gpudoctor.host.written_root import new_folder, write_root
    from gpudoctor.matrix.load import load_matrix

    if examined.root is not None and examined.python is not None:
        raise InputError(
            "--files records the environment below --root: name it by --env VIRTUAL_ENV=PATH, not --python"
        )
    matrix = load_matrix(())
    source = host_of(examined.root, variables)
    folder = new_folder(given)
    before = _survey(source, matrix, examined)
    environ = dict(_environ(source, before.machine, matrix))
    host = RecordingHost(source, environ, commands=examined.level != "static")
    _complete(host, _survey(host, matrix), matrix)
    needles = [pattern.needle for pattern in matrix.tables.log_patterns]
    anonymous = Anonymous(environ.get("HOME", ""), os.uname().nodename, _texts(host), needles, host.environ)
    written = write_root(host, folder, anonymous)
    after = _survey(RecordedHost(folder), matrix)
    _tell(given, written, _found(before, matrix), _found(after, matrix))
    return 0


def _survey(host: Host, matrix: Matrix, examined: ExaminationOptions | None = None) -> Survey:
    """A live system is asked down to its drivers; nothing computes."""
    from gpudoctor.survey import survey

    level: Level = "static" if examined is not None and examined.level == "static" else "driver"
    return survey(host, matrix, python=examined.python if examined else None, level=level, kernels=False)


def _complete(host: Host, found: Survey, matrix: Matrix) -> None:
    """Read what a fix also asks for: all requirements, and what installers meet."""
    from gpudoctor.probes.distributions import with_all_requirements
    from gpudoctor.probes.installers import probe_installers

    environment = found.machine.examined
    if environment.distributions.known:
        probe_installers(host, with_all_requirements(host, environment), matrix.gpu_packages, commands=False)


def _environ(host: Host, machine: Machine, matrix: Matrix) -> Iterator[tuple[str, str]]:
    """The variables to record; on a running system they lead to the environment that was examined there."""
    from gpudoctor.probes.variables import probe_variables

    kept = dict(probe_variables(host, matrix.variables))
    for name, value in host.environ.items():
        if name in _ALSO or name.startswith(_INSTALLERS):
            kept[name] = "node" if name == _NAMES_A_HOST else value
    environment = machine.environment.value
    if host.live and environment is not None:
        kept = {**kept, **_leading_to(environment.kind, environment.prefix, environment.interpreter, kept)}
    return ((name, value) for name, value in kept.items() if value != _UNSET)


_UNSET = "\0"


def _leading_to(kind: str, prefix: str, interpreter: str, environ: Mapping[str, str]) -> dict[str, str]:
    active = {"VIRTUAL_ENV": _UNSET, "CONDA_PREFIX": _UNSET}
    if kind == "venv":
        return {**active, "VIRTUAL_ENV": prefix}
    if kind == "conda":
        return {**active, "CONDA_PREFIX": prefix}
    folder = os.path.dirname(interpreter)
    return {**active, "PATH": ":".join(filter(None, (folder, environ.get("PATH", ""))))}


def _texts(host: RecordingHost) -> Iterator[bytes]:
    """Where names of users stand: paths, variables, texts."""
    for path in (*host.stats, *host.folders, *host.refused, *host.links.values(), *host.environ.values()):
        yield path.encode("utf-8", "surrogateescape")
    for reads in host.reads.values():
        yield from (content for _, content in reads.pieces())
    yield from (found.stdout.encode() for found in host.commands.values())


# --- what is said of it ------------------------------------------------------------------------------------


def _found(found: Survey, matrix: Matrix) -> tuple[Finding, ...]:
    from gpudoctor.engine import judge
    from gpudoctor.suites import machine_checks

    judged = judge(found.machine, matrix, machine_checks(), open_questions=found.open_questions, foresee=False)
    return tuple(one for one in judged.findings if one.severity != "note")


def _tell(folder: str, written: Written, here: tuple[Finding, ...], there: tuple[Finding, ...]) -> None:
    from gpudoctor.render.lines import print_lines

    print_lines(_lines(folder, written, here, there), sys.stdout, color=True, exact_commands=True)


def _lines(folder: str, written: Written, here: tuple[Finding, ...], there: tuple[Finding, ...]) -> Iterator[Line]:
    from gpudoctor.render.next_command import next_line

    size = f"{written.size / (1 << 20):.1f} MiB"
    yield [("Recorded: ", "bold"), (f"{written.files} files, {size}, in {folder}", "")]
    yield [("Names of users and of this host, UUIDs, serial numbers and addresses are replaced.", "")]
    yield [("Look through the folder before you pass it on.", "")]
    for path in written.left_out:
        yield [("  too large  ", "yellow"), (path, "")]
    recorded, live = {one.id for one in there}, {one.id for one in here}
    for one in here:
        if one.id not in recorded:
            yield [("  not in it  ", "yellow"), (f"{one.slug} [{one.id}]: {_why_not(one)}", "")]
    for one in there:
        if one.id not in live:
            yield [("  only there ", "yellow"), (f"{one.slug} [{one.id}]: {one.message}", "")]
    if recorded == live:
        count = number_of(len(live), "problem") if live else "no problem"
        yield [(f"`check --root` finds the same there as `check` here: {count}.", "")]
    yield []
    yield next_line(("gpudoctor", "check", "--root", folder))


def _why_not(finding: Finding) -> str:
    """What a check rests on that no file holds."""
    sources = ", ".join(dict.fromkeys(one.source for one in finding.evidence if one.source)) or "the running system"
    return f"it rests on {sources}, which the folder does not hold"
