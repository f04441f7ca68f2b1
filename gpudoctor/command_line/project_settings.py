"""What a project asks for in its files: `gpudoctor.toml`, or `[tool.gpudoctor]` of pyproject.toml.

What the command line or a variable says goes before them, and requirements add up. How a report is made (`ignore`,
`select`, `plugins`, `fail-on`) holds for every machine that is judged in that folder; what is asked of a machine
(`require`, `level`, `wait`) for the running one alone: a described or recorded one is not where the project runs. A
project's files never take back what a person requires by the command line or a variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from gpudoctor.command_line.options import REQUIRE_SEPARATOR, REQUIRE_VARIABLE, StartLevel
from gpudoctor.exit_codes import FailOn
from gpudoctor.host import InputError, LiveHost

if TYPE_CHECKING:
    from gpudoctor.requirement import Requirement

T = TypeVar("T")

LONGEST_WAIT = 1e7
"""Seconds."""

_LIMIT = 1 << 20
_OWN, _PROJECT = "gpudoctor.toml", "pyproject.toml"


class Settings(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Keys of the file; None or empty where it does not have them. `ignore` maps what is ignored to the reason."""

    require: str | tuple[str, ...] = ()
    ignore: dict[str, str] | tuple[str, ...] = {}
    select: str | tuple[str, ...] = ()
    plugins: str | tuple[str, ...] = ()
    level: StartLevel | None = None
    fail_on: FailOn | None = None
    wait: Annotated[float, Meta(ge=0, lt=LONGEST_WAIT)] | None = None

    @property
    def required(self) -> tuple[str, ...]:
        return _several(self.require)

    @property
    def selected(self) -> tuple[str, ...]:
        return _several(self.select)

    def with_plugins(self, given: Iterable[str]) -> tuple[str, ...]:
        """The plugins that a person or the project names."""
        return tuple(dict.fromkeys((*given, *_several(self.plugins))))

    @property
    def rules(self) -> tuple[str, ...]:
        """What is ignored, as `--ignore` has it."""
        pairs = self.ignore.items() if isinstance(self.ignore, dict) else ()
        return tuple(f"{name}={why}" for name, why in pairs) or tuple(self.ignore)


class _Tool(Struct, frozen=True):
    gpudoctor: Settings | None = None


class _Project(Struct, frozen=True):
    tool: _Tool = _Tool()


def project_settings(folder: str = "") -> Settings:
    """The settings of a folder, by default the working one: gpudoctor.toml goes before pyproject.toml.
    Raises InputError with file and place."""
    folder = f"{folder}/" if folder else ""
    own = _table(folder + _OWN)
    if own is not None:
        return _convert(folder + _OWN, own, Settings)
    project = _table(folder + _PROJECT)
    found = None if project is None else _convert(folder + _PROJECT, project, _Project).tool.gpudoctor
    return found or Settings()


def requirements(settings: Settings, given: Iterable[str], environ: Mapping[str, str]) -> tuple[Requirement, ...]:
    """What the project, the variable and the command line (`given`) require. Raises InputError."""
    variable = environ.get(REQUIRE_VARIABLE, "").split(REQUIRE_SEPARATOR)
    texts = (
        *(("require of the project's settings", text, False) for text in settings.required),
        *((REQUIRE_VARIABLE, text, True) for text in variable if text.strip()),
        *(("--require", one, True) for text in given for one in text.split(REQUIRE_SEPARATOR) if one.strip()),
    )
    if not texts:
        return ()
    from gpudoctor.requirement import RequirementError, parse, split_requirements

    found: dict[str, Requirement] = {}
    for source, text, firm in texts:
        try:
            found |= {one.text: one for one in (parse(part, firm=firm) for part in split_requirements(text))}
        except RequirementError as error:
            raise InputError(f"{source}: {error}") from None
    return tuple(found.values())


def fail_on(settings: Settings, given: FailOn | None, required: Iterable[Requirement]) -> FailOn:
    """From which verdict on a run fails. The project's "never" does not hold where a person requires something."""
    project = settings.fail_on or "error"
    if project == "never" and any(one.firm for one in required):
        project = "error"
    return given or project


def _several(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _table(path: str) -> Any:
    """What the file holds; None where it is not there, or is a pyproject.toml that says nothing to gpudoctor."""
    own = path.endswith(_OWN)
    content = LiveHost().data(path, _LIMIT)
    if content.value is None:
        if own and not content.absent:
            raise InputError(f"{path}: cannot be read: {content.why}")
        return None  # an unreadable pyproject.toml is somebody else's
    if not own and b"gpudoctor" not in content.value:
        return None
    from gpudoctor.bounded_toml import read_toml

    try:
        return read_toml(content.value.decode())
    except ValueError as error:
        raise InputError(f"{path}: no valid TOML: {error}") from None


def _convert(path: str, data: Any, form: type[T]) -> T:
    try:
        return msgspec.convert(data, type=form)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {str(error)[:300]}") from None
