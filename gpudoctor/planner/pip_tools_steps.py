"""requirements.in with pip-tools, or with uv in its place: the list is changed and compiled again, then installed."""

from __future__ import annotations

from gpudoctor.frameworks.package_spec import PackageSpec
from gpudoctor.machine import Machine, TorchAsked
from gpudoctor.planner.pip_steps import Argv, directly, pip
from gpudoctor.planner.place import Place
from gpudoctor.step import ManualStep, RunStep, Step

_SOURCE, _COMPILED = "requirements.in", "requirements.txt"


def pip_tools(
    place: Place, machine: Machine, wanted: tuple[PackageSpec, ...], index: str, why: str
) -> tuple[Step, ...]:
    """requirements.in asks for these versions and names their index. What is installed beside them stays."""
    environment = machine.environment.value
    asked = environment.torch_asked if environment else ()
    edit = ("sed", "-i", *(part for one in _edits(asked, wanted, index) for part in ("-e", one)), _SOURCE)
    compile, install = _commands(place, machine, index)
    if not compile:
        lines = "\n".join((*((f"--extra-index-url {index}",) if index else ()), *(item.text for item in wanted)))
        text = (
            f"{place.compiled_by[0]} is not on PATH. Make {_SOURCE} say\n{lines}\nand compile and install it again."
        )
        return (ManualStep(text=text, why=why, risk="replaces"),)
    reasons = ((edit, f"in {_SOURCE}, or the next compilation restores the old torch"), (compile, "the pins follow"))
    steps = (RunStep(argv=argv, cwd=place.project, why=reason, risk="replaces") for argv, reason in reasons)
    return (*steps, RunStep(argv=install, cwd=place.project, why=why, risk="replaces"))


def _commands(place: Place, machine: Machine, index: str) -> tuple[Argv, Argv]:
    """(compile, install); the first is empty where its tool is missing."""
    made = place.compiled_by
    # uv takes a package from the first index that has it, and this one has old versions of others, too.
    every = ("--index-strategy", "unsafe-best-match") if index else ()
    extra = ("--extra-index-url", index) if index else ()
    of_uv = (*extra, *every) if place.installer == "uv" else ()
    install = (*pip(directly(place), "install"), *of_uv, "-r", _COMPILED)
    if made[0] == "uv":
        return (made if set(every) <= set(made) else (*made, *every)) if place.has("uv") else (), install
    if machine.installed("pip-tools"):
        return (place.python, "-m", "piptools", "compile", *made[1:]), install
    return made if place.has("pip-compile") else (), install


def _edits(asked: tuple[TorchAsked, ...], wanted: tuple[PackageSpec, ...], index: str) -> list[str]:
    """Expressions of sed: the version of each line that names one of these packages; remarks and markers stay."""
    edits = [
        rf"s/^{item.name}\(\[[^]]*\]\)\? *\([<>=!~][^#;]*[^#; ]\)\?\( *[#;].*\)\?$/{item.text}\3/I" for item in wanted
    ]
    torch = next((item.text for item in wanted if item.name == "torch"), "")
    if torch and not any(line.file == _SOURCE for line in asked):
        edits.append(f"$a\\{torch}")
    return [*([f"1i\\--extra-index-url {index}"] if index else []), *edits]
