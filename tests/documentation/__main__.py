"""`python -m tests.documentation`: write all screens and tables again, and name the pages that changed."""

from __future__ import annotations

from tests.documentation import PAGES, ROOT
from tests.documentation.blocks import remade

for page in PAGES:
    text = page.read_text()
    if (now := remade(text)) != text:
        page.write_text(now)
        print(page.relative_to(ROOT))
