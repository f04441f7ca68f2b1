"""A page for each file of examples/, so that a browser shows it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.documentation import ROOT
from tests.documentation.site.markdown import code, page

_LANGUAGES = {".yml": "yaml", ".yaml": "yaml", ".sh": "bash", ".Dockerfile": "dockerfile"}


@cache
def pages() -> dict[str, str]:
    """By name."""
    files = (path for path in sorted((ROOT / "examples").rglob("*")) if path.suffix in _LANGUAGES)
    return {f"{path.relative_to(ROOT)}.md": _page(path) for path in files}


def _page(path: Path) -> str:
    place = str(path.relative_to(ROOT))
    up = "../" * (place.count("/") - 1)
    text = path.read_text().strip()
    return page(
        f"Example: {place.removeprefix('examples/')}",
        f"{place} of gpudoctor: {_first_comment(text)}",
        f"[Examples]({up}README.md) · {code(place)}",
        f"```{_LANGUAGES[path.suffix]}\n{text}\n```",
    )


def _first_comment(text: str) -> str:
    lines = [line.lstrip("# ") for line in text.splitlines() if line.startswith("# ")]
    return " ".join(lines).partition(". ")[0]
