"""What mkdocs calls while it builds the site."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))  # mkdocs starts with its own folders only

from tests.documentation.site import content, links, navigation  # noqa: E402

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs/ and those that are made from the code."""
    from mkdocs.structure.files import File

    for name, path in content.repository_files().items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for name, text in content.made_pages().items():
        files.append(File.generated(config, name, content=text))
    config.nav = navigation.tree()
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the made parts, turn links to files into links to pages, and give the page a description."""
    name = page.file.src_uri
    known = {file.src_uri for file in files}
    text = links.relinked(content.filled_in(markdown, name), content.written_in(name), name, known)
    text = links.cross_referenced(text, name)
    page.meta.setdefault("description", content.first_sentences(text))
    return text
