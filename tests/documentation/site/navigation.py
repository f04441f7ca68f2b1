"""The navigation of the site. What a README of docs/ lists, in its order, is that part of the navigation."""

from __future__ import annotations

from typing import Any

from tests.documentation import ROOT, pages
from tests.documentation.site.links import page_of


def tree() -> list[Any]:
    """As `nav` of mkdocs.yml has it."""
    return [
        {"Home": "index.md"},
        {"Start": "start.md"},
        {"By person": _listed("docs/guides")},
        {"Error messages": ["messages/README.md"]},
        {"Checks": ["checks/README.md"]},
        {"Which build": _listed("docs/builds")},
        {"Reference": _listed("docs/reference")},
        {"Accuracy": ["accuracy.md", "uv-comparison.md"]},
        {"Contribute": ["CONTRIBUTING.md", "CHANGELOG.md"]},
    ]


def _listed(folder: str) -> list[str]:
    """The README of a folder, and the pages of that folder that it links to."""
    readme = ROOT / folder / "README.md"
    beside = [page for page in pages.links(readme) if page.parent == readme.parent and page.suffix == ".md"]
    return [page_of(str(page.relative_to(ROOT))) for page in dict.fromkeys((readme, *beside))]
