"""A constraint that excludes the torch that the same command pins."""

from __future__ import annotations

import pytest

from tests.test_dockerfile import told

COPY = "FROM python:3.11-slim\nCOPY c.txt r.txt ./\n"
EXCLUDED = [("image-no-torch-wheel", "error")]


@pytest.mark.parametrize(
    "command, constraint, expected",
    [
        ("RUN pip install torch==2.9.1 -c c.txt", "torch<2.9", EXCLUDED),
        ("RUN pip install -r r.txt -c c.txt", "torch==2.8.0", EXCLUDED),
        ("RUN pip install --constraint=c.txt torch==2.9.1", "torch==2.8.0+cu128", EXCLUDED),
        ("RUN uv pip install --system -c c.txt torch==2.9.1", "torch~=2.8.0", EXCLUDED),
        ("ENV PIP_CONSTRAINT=c.txt\nRUN pip install torch==2.9.1", "torch!=2.9.1", EXCLUDED),
        ("RUN pip install torch==2.9.1 -c c.txt", "torch<2.10", []),
        ("RUN pip install torch==2.9.1 -c c.txt", "torch==2.9.1+cu128", []),
        ("RUN pip install torch==2.9.1 -c c.txt", "torch @ file:///w/torch-2.9.1-cp311-none-any.whl", []),
        ("RUN pip install torch==2.9.1 -c c.txt", "numpy<2", []),
        ("RUN pip install torch==2.9.1 -c c.txt", "torch<2.9; python_version < '3.0'", []),
        ("RUN pip install torch -c c.txt", "torch<2.9", []),
    ],
)
def test_a_constraint_that_excludes_the_pinned_torch(
    command: str, constraint: str, expected: list[tuple[str, str]]
) -> None:
    files = {"c.txt": constraint + "\n", "r.txt": "torch==2.9.1\n"}
    assert [one for one in told(COPY + command, files) if one[1] != "note"] == expected
