"""A page for each file of examples/, so that a browser shows it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.documentation import ROOT
from tests.documentation.site.markdown import code, page

_LANGUAGES = {
    ".yml": "yaml", ".yaml": "yaml", ".sh": "bash", ".sbatch": "bash", ".nhc": "bash", ".py": "python",
    ".json": "json", ".service": "ini", ".Dockerfile": "dockerfile",
}  # fmt: skip
"""By the ends of names; a file of another kind is shown as a text."""
_NO_PAGE = (".md", ".pyc")


@cache
def pages() -> dict[str, str]:
    """By name."""
    found = sorted((ROOT / "examples").rglob("*"))
    files = (path for path in found if path.is_file() and path.suffix not in _NO_PAGE)
    return {f"{path.relative_to(ROOT)}.md": _page(path) for path in files}


def _page(path: Path) -> str:
    place = str(path.relative_to(ROOT))
    up = "../" * (place.count("/") - 1)
    text = path.read_text().strip()
    return page(
        f"Example: {place.removeprefix('examples/')}",
        f"{place} of gpudoctor: {_first_comment(text)}",
        f"[Examples]({up}README.md) · {code(place)}",
        f"```{_LANGUAGES.get(path.suffix, 'text')}\n{text}\n```",
    )


def _first_comment(text: str) -> str:
    lines = [line.strip("#/ ") for line in text.splitlines() if line.lstrip().startswith(("# ", "// "))]
    return " ".join(lines).partition(". ")[0]
