"""The start of gpudoctor.pyz: unpacks what this Python needs into a temporary folder, runs gpudoctor from there, and
removes the folder. Nothing stays behind; a Python that it does not hold is refused in one line."""

import os
import platform
import shutil
import sys
import tempfile
import zipfile

PYTHONS = ["{pythons}"]
MACHINE = "{machine}"


def main():
    """Run gpudoctor; its exit code is that of the command."""
    python = ".".join(map(str, sys.version_info[:2]))
    refused = ""
    if not sys.platform.startswith("linux"):
        refused = "gpudoctor runs on Linux only (x86-64, aarch64, WSL2)."
    elif python not in PYTHONS:
        refused = f"this gpudoctor.pyz needs Python {PYTHONS[0]} to {PYTHONS[-1]}, and this is Python {python}."
    elif platform.machine() != MACHINE:
        refused = f"this gpudoctor.pyz is for {MACHINE}, and this machine is {platform.machine()}."
    if refused:
        sys.stderr.write(refused + "\n")
        sys.exit(2)
    folder = tempfile.mkdtemp(prefix="gpudoctor-")
    try:
        unpack(os.path.abspath(sys.argv[0]), python, folder)
        run(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def unpack(archive, python, folder):
    """Write what every Python has, and what this one has, into the folder."""
    parts = ("all/", python + "/")
    with zipfile.ZipFile(archive) as source:
        for name in source.namelist():
            part = next((one for one in parts if name.startswith(one)), None)
            if part is not None:
                place = os.path.join(folder, name[len(part) :])
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, "wb") as file:
                    file.write(source.read(name))


def run(folder):
    """Run gpudoctor. `preflight -- CMD` replaces the process, so the folder goes before."""
    replace = os.execve

    def execve(*arguments):
        shutil.rmtree(folder, ignore_errors=True)
        replace(*arguments)

    os.execve = execve
    sys.dont_write_bytecode = True
    sys.path[0] = folder
    from gpudoctor.__main__ import main as start

    start()


main()
