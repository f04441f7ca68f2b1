"""Python environments that an image copies from another stage, and whether they can work where they lie."""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache

from msgspec import Struct

from gpudoctor.dockerfile.environments import CONDAS, makes_one
from gpudoctor.dockerfile.image import CopyInstruction, Image, Step
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.installs import system_packages
from gpudoctor.matrix.versions import package_matches

_MOST_PATCHES = 40
"""More than a Python has patch releases."""
_PACKAGES = re.compile(r"/python(3\.\d+)/(?:site|dist)-packages/?$")
_TORCH_ALONE = re.compile(r"/(?:site|dist)-packages/torch/?$")
_MOST = 100
"""Environments of one image that are compared."""
_MAY_BRING_PYTHON = re.compile(
    r"python|conda|mamba|pyenv|pixi|\bln\b|make (?:alt)?install|\buv\b|\bpdm\b|asdf|mise|nix|update-alternatives"
)


class MadeEnvironment(Struct, frozen=True):
    """A virtual environment that a command of an image makes."""

    place: str
    step: Step
    by_uv: bool
    python: str
    """The version that its command names; "" for the one that is there."""


class CopiedEnvironment(Struct, frozen=True):
    """A virtual environment that a COPY brings from a stage of the file."""

    copied: CopyInstruction
    origin: Image
    made: MadeEnvironment
    place: str
    """Its place here; commands of packages name the one there."""


@lru_cache
def made_environments(image: Image) -> tuple[MadeEnvironment, ...]:
    """The virtual environments that the own commands of an image make, each by the first that does."""
    found: dict[str, MadeEnvironment] = {}
    for step in image.steps:
        argv, text = step.command.argv, step.command.text
        place = step.environment
        if step.copied or not place or place in found or not makes_one(argv) or len(found) == _MOST:
            continue
        named = re.search(r"--python[ =](?:cpython-)?(3\.\d+)", text) or re.match(r"\S*python(3\.\d+) -m", text)
        by_uv = posixpath.basename(argv[0]) == "uv"
        found[place] = MadeEnvironment(place, step, by_uv, named[1] if named else "")
    return tuple(found.values())


def origin_of(image: Image, copied: CopyInstruction) -> Image | None:
    """The stage that a COPY is from; None for another image, or for a stage without a name."""
    name = (copied.origin or "").lower()
    return next((one for one in image.builders if name and one.name.lower() == name), None)


@lru_cache
def copied_environments(image: Image) -> tuple[CopiedEnvironment, ...]:
    """The virtual environments that an image copies as a whole, as far as their stages are known."""
    found: list[CopiedEnvironment] = []
    for copied in image.copied:
        origin = origin_of(image, copied) if len(found) < _MOST else None
        for made in made_environments(origin) if origin is not None else ():
            place = copied.moved(made.place)
            if place is not None and origin is not None:
                found.append(CopiedEnvironment(copied, origin, made, place))
    return tuple(found)


def missing_interpreter(image: Image, one: CopiedEnvironment) -> str:
    """The interpreter that the environment links to and that this image lacks, such as "Python 3.11 in
    /usr/local/bin"; "" if it is there, or if that is not known."""
    needed, facts = interpreter_of(one.origin, one.made), image.facts
    if needed is None or not facts.prefix or facts.python is None or _brings_python(image):
        return ""
    folder, version = needed
    if any(copied.moved(folder) == folder for copied in image.copied if copied.origin):
        return ""
    if (folder, version) == (f"{facts.prefix}/bin", facts.python) and _has_own(image):
        return ""
    return f"{f'Python {version}' if version else 'the Python'} in {folder}"


def of_another_libc(image: Image, one: CopiedEnvironment) -> bool:
    """Whether an environment comes from an image with glibc, and this one has musl, which loads none of its
    compiled libraries."""
    return image.facts.musl and one.origin.facts.known and not one.origin.facts.musl


def interpreter_of(origin: Image, one: MadeEnvironment) -> tuple[str, str] | None:
    """The folder and version of the interpreter that an environment of an image was made with; None if unknown."""
    facts, tool = origin.facts, posixpath.basename(one.step.command.argv[0])
    if not facts.prefix or facts.python is None or tool in CONDAS:
        return None  # an environment of conda has its own
    asked = one.python or (origin.variable("UV_PYTHON") or one.step.python if one.by_uv else "")
    own = _has_own(origin)
    if own and re.match(r"[<>=!~]", asked):
        asked = "" if _may_meet(asked, facts.python) else asked
    own = own and asked in ("", facts.python)
    if not own and one.by_uv and _forbids_downloads(origin, one.step):
        return None
    asked = re.sub(r"^[<>=!~].*", "", asked)
    if one.by_uv and re.fullmatch(r"|3\.\d+", asked):
        managed = any("uv python install" in step.command.text for step in origin.steps)
        if not own or managed:
            return _pythons_of_uv(origin, one.step), asked
        return f"{facts.prefix}/bin", facts.python
    if not own or one.by_uv or _brings_python(origin):
        return None
    return f"{facts.prefix}/bin", facts.python


def _may_meet(asked: str, python: str) -> bool:
    """Whether a patch release of a Python meets what a project requires: which one the image has is not known."""
    return any(package_matches(asked, f"{python}.{patch}") for patch in range(_MOST_PATCHES))


def _forbids_downloads(origin: Image, step: Step) -> bool:
    """Whether uv may take a Python that is there alone."""
    never = (origin.variable("UV_PYTHON_DOWNLOADS") or "").lower() in ("never", "manual", "0", "false")
    system = origin.variable("UV_PYTHON_PREFERENCE") == "only-system" or origin.variable("UV_NO_MANAGED_PYTHON")
    options = {"--no-managed-python", "--no-python-downloads"} & set(step.command.argv)
    return never or bool(system) or bool(options)


def _pythons_of_uv(image: Image, step: Step) -> str:
    """Where uv puts the Pythons that it downloads."""
    user = step.user.partition(":")[0]
    home = image.variable("HOME") or ("/root" if user in ("", "root", "0") else f"/home/{user}")
    data = image.variable("XDG_DATA_HOME") or f"{home}/.local/share"
    return image.variable("UV_PYTHON_INSTALL_DIR") or f"{data}/uv/python"


@lru_cache
def _has_own(image: Image) -> bool:
    """Whether the Python of the base image is there: a distribution has it after an installation alone."""
    names = [name for step in image.steps if not step.copied for name in system_packages(step.command)]
    own = image.facts.known and image.facts.prefix != "/usr"
    with_python = re.compile(r"python3|(virtualenv|python-is-python3|software-properties-common)$")
    return own or any(map(with_python.match, names))


@lru_cache
def _brings_python(image: Image) -> bool:
    """Whether the image may get an interpreter in another way than by its base image and its distribution."""
    own = image.facts.python
    for step in image.steps:
        names = tuple(system_packages(step.command))
        others = [found[1] for name in names if (found := re.match(r"python(3\.\d+)", name))]
        if step.copied or makes_one(step.command.argv) or step.installs:
            continue
        if any(version != own for version in others):
            return True
        if step.script or (not names and _MAY_BRING_PYTHON.search(step.command.text)):
            return True
    return False


def other_python(image: Image, copied: CopyInstruction) -> tuple[str, str] | None:
    """The Python whose packages a COPY brings, and the one of this image, if they differ."""
    for source in copied.sources:
        found = _PACKAGES.search(source)
        prefix = source[: found.start()].removesuffix("/lib") if found else ""
        if found is None or (prefix not in ("/usr/local", "/usr")):
            continue
        facts = image.facts
        if facts.python is None or facts.python == found[1] or _brings_python(image):
            continue
        if facts.prefix == "/usr/local" or (facts.prefix == "/usr" and python_of(image) == facts.python):
            return found[1], facts.python
    return None


def unread_packages(image: Image, copied: CopyInstruction) -> str:
    """The folder of packages that a COPY fills and that no Python of a distribution reads; "" for any other."""
    folder, facts = copied.target.rstrip("/"), image.facts
    if not copied.origin or not re.match(r"/usr/local/lib/python3\.\d+/site-packages$", folder):
        return ""
    if facts.prefix != "/usr" or "PYTHONPATH" in image.settings or _brings_python(image):
        return ""
    whole = any(one.moved("/usr/local/lib") for one in image.copied if one.origin)
    return "" if whole or other_python(image, copied) else folder


def lone_torch(image: Image) -> CopyInstruction | None:
    """The COPY that brings torch alone of all site-packages, without what it requires."""
    sources = [(copied, source) for copied in image.copied if copied.origin for source in copied.sources]
    if any(_PACKAGES.search(source) for _, source in sources):
        return None
    return next((copied for copied, source in sources if _TORCH_ALONE.search(source)), None)
