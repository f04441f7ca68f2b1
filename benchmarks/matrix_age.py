"""Lists the packages of which the package index has a newer release than the matrix knows. Needs pip and network.

    python -m benchmarks.matrix_age [PACKAGE ...]

Exit code 1 if the matrix is behind, 0 if not, 2 if the index did not answer for a package.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from packaging.version import InvalidVersion, Version

from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.rows import Tables


def known_releases(tables: Tables) -> dict[str, str]:
    """The newest release of each package that the matrix has rows about."""
    newest: dict[str, Version] = {}
    for name, text in _named(tables):
        try:
            version = Version(text)
        except InvalidVersion:
            continue
        newest[name] = max(version, newest.get(name, version))
    return {name: str(version) for name, version in sorted(newest.items())}


def _named(tables: Tables) -> Iterator[tuple[str, str]]:
    for release in tables.torch_releases:
        yield "torch", release.version
    for companion in tables.companions:
        yield from (("torchvision", companion.torchvision or ""), ("torchaudio", companion.torchaudio or ""))
    for build in tables.framework_builds:
        if build.install and build.newest:
            yield build.install, build.newest
    for dependent in tables.torch_dependents:
        yield dependent.package, dependent.version.rpartition("=")[2]


def newest_release(package: str) -> str | None:
    """The newest release on the index, for whatever Python; None if the index does not answer."""
    command = [sys.executable, "-m", "pip", "index", "versions", "--ignore-requires-python", package]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.match(rf"{re.escape(package)} \((\S+)\)", answer.stdout)
    return found[1] if found else None


def main(wanted: list[str]) -> int:
    """Print one row for each package."""
    known = known_releases(load_matrix(()).tables)
    names = [name for name in wanted or known if name in known]
    with ThreadPoolExecutor(4) as pool:
        newest = dict(zip(names, pool.map(newest_release, names), strict=True))
    print("| package | in the matrix | on the index | |")
    print("|---|---|---|---|")
    worst = 0
    for name in names:
        there = newest[name]
        state = "not answered" if there is None else "behind" if Version(there) > Version(known[name]) else ""
        worst = max(worst, {"not answered": 2, "behind": 1, "": 0}[state])
        print(f"| {name} | {known[name]} | {there or '?'} | {state} |")
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
