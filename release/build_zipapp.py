"""Puts gpudoctor and all that it needs into one file that any Python of the list runs: `python3 gpudoctor.pyz check`.

    pip install build uv
    python -m build --wheel
    python release/build_zipapp.py dist/gpudoctor_cli-*.whl -o dist/gpudoctor.pyz

msgspec, psutil and the decompressor are compiled, one file for each Python, and no Python imports such a file from a
zip. So the archive holds them for every Python, and what one needs is unpacked for the run (`zipapp_main.py`). The
same wheel and the same wheels of its requirements give the same bytes.
"""

from __future__ import annotations

import argparse
import os
import stat
import subprocess
import tempfile
import time
import zipfile
from pathlib import Path

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
START = Path(__file__).parent / "zipapp_main.py"
_LEFT_OUT = ("bin/", "RECORD", "direct_url.json", "INSTALLER", "REQUESTED", ".pyc")


def main() -> None:
    """Build the file that the command line asks for."""
    parser = argparse.ArgumentParser(description="Build gpudoctor.pyz.")
    parser.add_argument("wheel", type=Path, help="gpudoctor's own wheel")
    parser.add_argument("-o", "--output", type=Path, default=Path("dist/gpudoctor.pyz"))
    parser.add_argument("--machine", default="x86_64", choices=("x86_64", "aarch64"))
    parser.add_argument("--python", nargs="+", default=PYTHONS, help="[default: %(default)s]")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trees = {python: _installed(given.wheel, python, given.machine, Path(folder)) for python in given.python}
        _write(given.output, trees, given.machine)
    print(f"{given.output}: {given.output.stat().st_size >> 10} KiB, for Python {', '.join(given.python)}")


def _installed(wheel: Path, python: str, machine: str, folder: Path) -> dict[str, bytes]:
    """What is installed for one Python, by path."""
    target = folder / python
    command = ["uv", "pip", "install", "--quiet", "--target", str(target), "--only-binary=:all:"]
    command += [f"--python-version={python}", f"--python-platform={machine}-manylinux_2_28", str(wheel)]
    subprocess.run(command, check=True)  # pip would judge the markers of requirements for its own Python
    files = {str(file.relative_to(target)): file for file in target.rglob("*") if file.is_file()}
    return {
        name: file.read_bytes()
        for name, file in files.items()
        if not name.startswith(_LEFT_OUT[0]) and not name.endswith(_LEFT_OUT[1:])
    }


def _write(output: Path, trees: dict[str, dict[str, bytes]], machine: str) -> None:
    """Files that are equal for all Pythons lie below `all`, the others below the number of their Python."""
    names = set.intersection(*map(set, trees.values()))
    shared = {name for name in names if len({tree[name] for tree in trees.values()}) == 1}
    first = next(iter(trees.values()))
    files = {f"all/{name}": first[name] for name in shared}
    for python, tree in trees.items():
        files |= {f"{python}/{name}": content for name, content in tree.items() if name not in shared}
    start = (
        START.read_text()
        .replace('"{pythons}"', ", ".join(f'"{python}"' for python in trees))
        .replace("{machine}", machine)
    )
    files["__main__.py"] = start.encode()
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]  # a zip begins in 1980
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name in sorted(files):
                info = zipfile.ZipInfo(name, moment)
                info.external_attr = (stat.S_IFREG | 0o644) << 16
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, files[name])
    output.chmod(0o755)


if __name__ == "__main__":
    main()
