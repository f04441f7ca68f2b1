"""Variables that keep a framework from the GPU, or make it fail (GPD464)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, SetVariable, UnsetVariable, by_hand, unset
from gpudoctor.frameworks.variable_flags import file_of_flags, flags_in, name_of
from gpudoctor.machine import FileSetting
from gpudoctor.matrix.versions import package_matches
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import FrameworkFlags, FrameworkVariable


@check("GPD464", "framework-variable", "framework")
def framework_variable(situation: Situation) -> Verdicts:
    """A variable keeps a framework from the GPU, or makes it fail.

    ## Why it matters
    JAX_PLATFORMS, XLA_FLAGS, PYTORCH_ALLOC_CONF and the like stay in shells, images and job scripts after the day
    they were needed. A value that a newer release does not know ends some of them with SIGABRT.

    ## How it is judged
    The matrix names values and what they do. A value that keeps a GPU build on the CPU is a warning, because somebody
    may have chosen it; one that makes the framework stop is an error. The flags in XLA_FLAGS and TF_XLA_FLAGS are
    looked for in the library that knows them; of some the matrix knows whether they take a number or true and false.
    Where KERAS_BACKEND is not set, keras.json in the home folder counts. Without a usable GPU only what makes any
    build stop is reported, and nothing in a CPU build for a value that asks for the CPU. A compiler that CC or CXX
    names is looked for on PATH, and a folder for compiled kernels must be one that this user can make. A user
    without an account must have a name in USER.

    ## Fix safety
    Unsets the variable, takes the flags out of it, or sets one that takes precedence over a file. Whoever set it must
    take it out of the place where it is set.
    """
    for row in situation.matrix.tables.framework_variables:
        for name in row.variables:
            value, file = situation.variable(name), ""
            if row.names == "user":
                value = value or ""
            if not value and (setting := _in_a_file(situation, name)):
                value, file = setting.value, setting.path
            one = _installed(situation, row.framework) if value is not None else None
            if one is None or value is None or not re.fullmatch(row.pattern, value):
                continue
            if _counts(situation, row, value, one):
                if row.names == "user":
                    yield _missed(row, name)
                else:
                    yield _set_by_file(row, name, one, value, file) if file else _finding(row, name, value, one)
    for flags in situation.matrix.tables.framework_flags:
        yield from _refused(situation, flags)


def _about(row: FrameworkVariable | FrameworkFlags, variable: str, **parts: Any) -> Finding:
    """A finding about a variable of a framework; `parts` are the other fields of a Finding."""
    return Finding(severity=row.severity, subject=variable, framework=row.framework, refs=(row.source,), **parts)


def _finding(row: FrameworkVariable, name: str, value: str, one: InstalledFramework) -> Finding:
    return _about(
        row,
        name,
        message=f"{name}={value}: {row.meaning}.",
        saw=f"{name}={value}",
        want=f"{name} unset",
        evidence=(Evidence(name, value, "environment"), Evidence(row.framework, one.version, one.source)),
        fixes=(unset(name, f"{one.title} chooses itself"),),
        supersedes=("torch-import-fails",) if row.framework == "torch" else ("framework-import-fails",),
    )


def _missed(row: FrameworkVariable, name: str) -> Finding:
    return _about(
        row,
        name,
        message=f"{name} is not set: {row.meaning}.",
        saw=f"no {name}",
        want=f"{name} set",
        evidence=(Evidence("system.user", "no account", "the running process"),),
        fixes=(Fix(f"Set {name}", (SetVariable(name, "user", why="any name will do"),)),),
    )


def _without_its_file(row: FrameworkFlags, path: str) -> Finding:
    return _about(
        row,
        row.variable,
        message=f"{row.variable} names the file {path}, which is not there: {row.meaning}.",
        saw=f"no {path}",
        want="a file with flags, or the flags themselves",
        evidence=(Evidence(row.variable, path, "environment"),),
        fixes=(unset(row.variable),),
        supersedes=("framework-import-fails",),
    )


def _in_a_file(situation: Situation, variable: str) -> FileSetting | None:
    """What a file of settings says in place of a variable that is not set, or is empty."""
    settings = situation.environment.frameworks.settings
    return next((one for one in settings if one.variable == variable), None)


def _set_by_file(row: FrameworkVariable, name: str, one: InstalledFramework, value: str, file: str) -> Finding:
    own = SetVariable(name, row.framework, why=f"it takes precedence over {file}")
    text = f'Write "backend": "{row.framework}" into {file}, or remove the file.'
    return _about(
        row,
        name,
        message=f"{file} names the backend {value}: {row.meaning}.",
        saw=value,
        want=row.framework,
        evidence=(Evidence(name, value, file), Evidence(row.framework, one.version, one.source)),
        fixes=(Fix(f"Set {name}={row.framework}", (own,)), by_hand("Change the file", text)),
        supersedes=("framework-import-fails",),
    )


def _refused(situation: Situation, row: FrameworkFlags) -> Iterator[Finding]:
    """A variable with flags that the framework does not know, or whose values it cannot read."""
    one, files = _installed(situation, row.framework), situation.environment.frameworks.files_of(row.framework)
    if one is None:
        return
    flags = flags_in(situation.variable(row.variable) or "")
    unknown = {refused.flag: refused.library for refused in files.refused if refused.variable == row.variable}
    if not files.source and row.gone and package_matches(row.gone_from, one.version):
        unknown = {name: one.source for name in map(name_of, flags) if re.fullmatch(row.gone, name)}
    refused = [flag for flag in flags if name_of(flag) in unknown or _wrong_value(flag, row)]
    if (path := file_of_flags(situation.variable(row.variable) or "")) in unknown:
        yield _without_its_file(row, path)
    if not refused:
        return
    kept = " ".join(flag for flag in flags if flag not in refused)
    names = enumeration([flag.partition("=")[0] if name_of(flag) in unknown else flag for flag in refused], 3)
    knows = "know" if all(name_of(flag) in unknown for flag in refused) else "take"
    change: SetVariable | UnsetVariable = UnsetVariable(row.variable)
    if kept:
        change = SetVariable(row.variable, kept, why=f"without what {one.named} does not {knows}")
    yield _about(
        row,
        row.variable,
        message=f"{row.variable} has {names}, which {one.named} does not {knows}: {row.meaning}.",
        saw=" ".join(refused),
        want=f"flags that {one.named} {knows}s",
        evidence=tuple(Evidence(row.variable, flag, unknown.get(name_of(flag), one.source)) for flag in refused[:3]),
        fixes=(Fix(f"Take {names} out of {row.variable}", (change,)),),
        supersedes=("framework-import-fails",),
    )


def _wrong_value(flag: str, row: FrameworkFlags) -> bool:
    name = name_of(flag)
    value = flag.removeprefix(f"--{name}")
    return any(re.fullmatch(names, name) and not re.fullmatch(takes, value) for names, takes in row.takes.items())


def _installed(situation: Situation, name: str) -> InstalledFramework | None:
    return next((one for one in situation.frameworks if one.name == name), None)


def _counts(situation: Situation, row: FrameworkVariable, value: str, one: InstalledFramework) -> bool:
    """Whether a value is wrong for what is installed."""
    if row.version is not None and not package_matches(row.version, one.version):
        return False
    beside = situation.machine.installed(row.package) if row.package else None
    if row.package and (beside is None or not package_matches(row.package_version or "", beside.version)):
        return False
    if row.without and any(re.fullmatch(row.without, one.name) for one in situation.machine.packages):
        return False
    system = situation.machine.system
    unnamed = ("",) if system.user.nameless else ()
    lacking = {
        "program": system.missing_compilers,
        "file": system.missing_files,
        "folder": system.closed_folders,
        "user": unnamed,
    }
    if row.names and value not in lacking[row.names]:
        return False
    if row.ptx and _has_ptx(situation) != (row.ptx == "there"):
        return False
    if row.builds == "any":
        return True
    if row.builds == "cpu":
        return one.vendor is None
    if row.builds not in ("gpu", one.vendor):
        return False
    if row.unless is not None and row.unless == one.vendor:
        return False
    return bool(situation.usable) and not (row.unless is None and one.vendor is None)


def _has_ptx(situation: Situation) -> bool:
    """Whether the driver can compile torch's own PTX for every usable NVIDIA GPU."""
    from gpudoctor.frameworks.torch.coverage import code_of, cuda_answer

    torch = situation.torch
    code = code_of(situation, torch, "nvidia") if torch else None
    if torch is None or code is None or not code.ptx:
        return False
    gpus = situation.usable_of("nvidia")
    return all(
        cuda_answer(situation, gpu.arch.value or "", (), code.ptx, cuda=torch.cuda).runs == "yes" for gpu in gpus
    )
