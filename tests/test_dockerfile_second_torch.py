"""A requirements file that replaces the torch of a command before."""

from __future__ import annotations

import pytest

from tests.test_dockerfile import told

CPU = "--index-url https://download.pytorch.org/whl/cpu"
FILE = f"FROM python:3.11-slim\nRUN pip install torch==2.9.1 {CPU}\nCOPY r.txt .\n"
REPLACED = [("image-package-requires-other-torch", "warning")]


@pytest.mark.parametrize(
    "requirement, command, expected",
    [
        ("torch>=2.4,<2.9", "RUN pip install -r r.txt", REPLACED),
        ("torch==2.8.0", "RUN pip install -r r.txt", REPLACED),
        ("torch~=2.8.0", "RUN uv pip install --system -r r.txt", REPLACED),
        ("torch==2.9.1", "RUN pip install -r r.txt", []),
        ("torch==2.9.1+cpu", f"RUN pip install -r r.txt {CPU}", []),
        ("torch>=2.4", "RUN pip install -r r.txt", []),
        ("torch", "RUN pip install -r r.txt", []),
        ("torch==2.8.0", "RUN pip install -r r.txt || true", REPLACED),
        ("torch==2.8.0", "RUN pip install --target /opt/other -r r.txt", []),
        ("torch==2.8.0", 'RUN if [ -n "$OLD" ]; then pip install -r r.txt; fi', []),
    ],
)
def test_a_torch_that_a_requirements_file_replaces(
    requirement: str, command: str, expected: list[tuple[str, str]]
) -> None:
    found = told(FILE + command, {"r.txt": requirement + "\n"})
    assert [one for one in found if one[1] != "note"] == expected
