"""Commands of an image that install what gpudoctor cannot read: lock files (it reads torch alone in them), programs,
files that are not there."""

from __future__ import annotations

import re

from gpudoctor.dockerfile.commands import Command, found_in_turn
from gpudoctor.dockerfile.image import Image, Step

_CONDA = re.compile(r"\b(conda|mamba|micromamba)\b")
_LOCKED = (
    (re.compile(r"\b(poetry|pdm|pipenv) (install|sync)\b|\bpixi install\b"),),
    (re.compile(r"\bsetup\.py (install|develop|bdist_wheel)\b"),),
    (_CONDA, re.compile(r" (env|-f|--file)\b")),
)
"""Commands that install what another file names. The patterns of one command must match one after the other."""


def installs_unread(image: Image, step: Step) -> bool:
    """Whether a step installs packages that its text does not name."""
    if _installs_gpudoctor(image, step.command):
        return False
    pip = step.pip
    unread = (pip.incomplete or pip.unread) and not pip.elsewhere
    text, named = step.command.text, step.installs and not pip.locked
    locked = not named and (_syncs(text) or any(found_in_turn(text, *patterns) for patterns in _LOCKED))
    return bool(unread or locked or step.script)


def copies_environment(image: Image) -> int | None:
    """The line that copies a whole environment of another image, or of a stage that is not followed."""
    for copied in image.copied:
        if (
            copied.origin
            and not copied.followed
            and re.search(r"venv|site-packages|conda|\.pixi", " ".join((*copied.sources, copied.target)))
        ):
            return copied.line
    return None


def _installs_gpudoctor(image: Image, command: Command) -> bool:
    """Whether it installs the wheels of gpudoctor alone, which bring no torch: by their names, or those of the files
    that were copied to the folder."""
    wheels = [word for word in command.argv[1:] if word.endswith(".whl")]
    names = [name for wheel in wheels for name in _files_named(image, wheel)]
    others = [word for word in command.argv if word[:2] in ("-r", "-e", "-c") or word.startswith("--re")]
    return bool(names) and not others and all(name.startswith("gpudoctor_cli-") for name in names)


def _files_named(image: Image, path: str) -> tuple[str, ...]:
    folder, _, name = path.rpartition("/")
    if "*" not in name:
        return (name,)
    sources = [source for one in image.copied if one.target.rstrip("/") == folder for source in one.sources]
    return tuple(source.rpartition("/")[2] for source in sources) or (name,)


def _syncs(text: str) -> bool:
    """Whether this is a `uv sync`, with or without options between the two words."""
    after_uv = False
    for word in text.split():
        if after_uv and word == "sync":
            return True
        after_uv = word == "uv" or word.endswith("/uv") or (after_uv and word.startswith("-"))
    return False
