"""What the site is made of: files of the repository, pages made from the code, and parts of pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.documentation import ROOT
from tests.documentation.site import build_tables, check_pages, example_pages, gpu_pages, message_pages
from tests.documentation.site.links import page_of, relinked

_PART = re.compile(r"^<!-- (?:site|from (?P<file>\S+)): (?P<what>.+) -->$", re.MULTILINE)
_COMMENT = re.compile(r"^<!-- .* -->\n", re.MULTILINE)
_ROOTED = re.compile(
    r"^```console\n(?:(?!```).*\n)*?(?!```).*--root (?P<root>\S+).*\n(?:(?!```).*\n)*?```\n", re.MULTILINE
)
_MADE_UP = "*Printed for a made-up machine in a folder: on your machine, leave out `--root {root}`.*"
_FIRST = (
    "First [install gpudoctor](../start.md): `pip install gpudoctor-cli` in the environment of your program. "
    "Then `gpudoctor check` says what is wrong, and `gpudoctor fix` shows and applies the fix."
)
_LONGEST = 300

PARTS: dict[str, Callable[[], str]] = {
    "first steps": lambda: _FIRST,
    "checks": check_pages.overview,
    "messages": message_pages.overview,
    "GPUs": gpu_pages.overview,
    "torch releases": build_tables.torch_releases,
    "drivers and CUDA": build_tables.drivers_and_cuda,
    "drivers and GPUs": build_tables.drivers_and_gpus,
    "torch builds and drivers": build_tables.builds_and_drivers,
    "APUs": build_tables.apus,
    "old GPUs": build_tables.old_gpus,
    "ROCm and GPUs": build_tables.rocm_and_gpus,
}


def repository_files() -> dict[str, Path]:
    """Files outside of docs/ that pages link to, by their places on the site."""
    named = [ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "compat_matrix.yaml")]
    return {str(path.relative_to(ROOT)): path for path in (*named, ROOT / "examples" / "README.md")}


@cache
def made_pages() -> dict[str, str]:
    """The pages that are made from the code, by name."""
    return {**check_pages.pages(), **message_pages.pages(), **gpu_pages.pages(), **example_pages.pages()}


def written_in(page: str) -> str:
    """The file of the repository that a page of the site is."""
    return page if page in repository_files() else f"docs/{page}"


def filled_in(text: str, page: str) -> str:
    """A page with its made parts, and without the markers of its screens and tables."""
    text = _COMMENT.sub("", _PART.sub(lambda part: _part(part["file"], part["what"], page), text))
    return _ROOTED.sub(lambda screen: f"{screen[0]}\n{_MADE_UP.format(root=screen['root'])}\n", text)


def _part(file: str | None, what: str, page: str) -> str:
    if file is None:
        return PARTS[what]()
    written = {page_of(str(path.relative_to(ROOT))) for path in (ROOT / "docs").rglob("*.md")}
    return relinked(section(file, what), file, page, written | set(repository_files()) | set(made_pages()))


def section(file: str, heading: str) -> str:
    """What stands below a heading of a file. Raises ValueError for one that is not there."""
    text = (ROOT / file).read_text()
    found = re.search(rf"^(#+) {re.escape(heading)}\n(?P<body>.*?)(?=^#{{1,3}} |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"{file} has no section {heading!r}")
    return found["body"].strip()


def first_sentences(text: str) -> str:
    """The first paragraph of a page in plain words: what a search engine shows of it."""
    paragraphs = re.split(r"\n\s*\n", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    prose = (part.strip() for part in paragraphs if re.match(r"\s*[\w`*\[]", part))
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", next(prose, "")).replace("`", "").replace("*", "")
    plain = " ".join(plain.replace('"', "'").split())
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST].rpartition(" ")[0] + " ..."
