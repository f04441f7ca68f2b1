"""What the pages show of the program, made by the program: `python -m tests.documentation` writes it again.

A marker in a page names what follows it:

    <!-- screen: workstation -->      a console block: each line with "$ " is run on that made-up machine
    <!-- table: options of check -->  a table that is made from the program's own records
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
"""Everything that is written for people, but for the changelog."""
