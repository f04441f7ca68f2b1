"""Real containers (podman with runc) on made-up GPU nodes.

    node = Node(tmp_path).ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    engine.run(node, "preflight", "--", "true", devices=node.granted())

What a container engine puts into a container of a GPU node is put in here from the node's files, as NVIDIA's toolkit
does it: by a hook that runs while the container is made. Device nodes are character devices that open (those of
/dev/null); the container's own device cgroup grants or refuses them.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support.hosts import VENV, Host

IMAGE = os.environ.get("GPUDOCTOR_TEST_IMAGE", "")
"""An image built from examples/docker/cpu.Dockerfile, on a base with Python 3.10 or newer."""

CHECKOUT = Path(__file__).parents[2]
_PODMAN = ("podman", "--runtime", "runc", "--cgroup-manager=cgroupfs")
_NULL, _FOREIGN = os.makedev(1, 3), os.makedev(10, 229)
_SHOWN = ("/proc/driver", "/sys/bus/pci", "/sys/module", "/sys/class/kfd", "/sys/class/drm")
_SECONDS = 120

# Runs in the new container's mounts before its root becomes "/"; what stands in the node's folder is bound over.
_HOOK = r"""#!/usr/bin/env python3
import json, os, shutil, subprocess, sys
state = json.load(sys.stdin)
with open(os.path.join(state["bundle"], "config.json")) as file:
    root = json.load(file)["root"]["path"]
node = state["annotations"]["gpudoctor.node"]
def bind(source, target):
    subprocess.run(["mount", "--bind", source, root + target], check=True)
for path in SHOWN:
    if os.path.isdir(node + path) and os.path.isdir(root + path):
        bind(node + path, path)
for folder, _, names in os.walk(node + "/usr/lib"):
    for name in names:
        source = os.path.join(folder, name)
        target = source[len(node):]
        if os.path.lexists(root + target):
            continue
        os.makedirs(os.path.dirname(root + target), exist_ok=True)
        if os.path.islink(source):
            os.symlink(os.readlink(source), root + target)
        else:
            open(root + target, "w").close()
            bind(source, target)
if os.path.isdir(node + "/image"):
    shutil.copytree(node + "/image", root, symlinks=True, dirs_exist_ok=True)
"""


def unavailable() -> str:
    """Why containers cannot be run here, or ""."""
    if not IMAGE:
        return "GPUDOCTOR_TEST_IMAGE names no image to run"
    if os.geteuid() != 0 or shutil.which("podman") is None or shutil.which("runc") is None:
        return "podman and runc, started as root, are not here"
    found = subprocess.run([*_PODMAN, "image", "exists", IMAGE], check=False, capture_output=True, timeout=_SECONDS)
    return "" if found.returncode == 0 else f"the image {IMAGE} is not here"


class Node(Host):
    """A GPU node below a folder, as `Host`; a container that is given its GPU gets its libraries and /sys."""

    refused: tuple[str, ...] = ()

    def cgroup_refuses(self, *paths: str) -> Node:
        """Nodes that are put into the container without a right to open them."""
        self.refused = (*self.refused, *paths)
        return self

    def in_image(self, path: str, content: bytes) -> Node:
        """A file of the image's own."""
        self.file(f"/image{path}", content)
        return self

    def without_libraries(self) -> Node:
        shutil.rmtree(self.path("/usr/lib"))
        return self

    def devices(self) -> list[str]:
        """Make the nodes; the options of `podman run` that hand them out."""
        options: list[str] = []
        for path, said in self.json["nodes"].items():
            place = self.path(path)
            place.unlink(missing_ok=True)
            if said["open"] == "ENOENT":
                continue
            refused = path in self.refused
            os.mknod(place, stat.S_IFCHR, _FOREIGN if refused else _NULL)
            os.chown(place, 0, said["gid"])
            os.chmod(place, int(said["mode"], 8))
            options += ["-v", f"{place}:{path}"] if refused else ["--device", f"{place}:{path}"]
        return options


class Engine:
    """Runs the image, with gpudoctor as it is in this checkout."""

    def __init__(self, folder: Path) -> None:
        hook = folder / "put_in.py"
        hook.write_text(_HOOK.replace("SHOWN", repr(_SHOWN)))
        hook.chmod(0o755)
        self._hooks = folder / "hooks"
        self._hooks.mkdir()
        (self._hooks / "node.json").write_text(
            json.dumps(
                {
                    "version": "1.0.0",
                    "hook": {"path": str(hook)},
                    "when": {"annotations": {"^gpudoctor\\.node$": ".*"}},
                    "stages": ["createContainer"],
                }
            )
        )
        found = self.podman(
            "--entrypoint=/opt/gpudoctor/bin/python",
            IMAGE,
            "-c",
            "import sysconfig; print(sysconfig.get_path('purelib'))",
        )
        if found.returncode != 0:
            raise RuntimeError(f"{IMAGE} is not built from examples/docker/cpu.Dockerfile: {found.stderr.strip()}")
        self._site = found.stdout.strip()

    def podman(
        self, *arguments: str, options: Iterable[str] = (), seconds: int = _SECONDS
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*arguments, options=options),
            check=False, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def argv(self, *arguments: str, options: Iterable[str] = ()) -> list[str]:
        # What a rootless or nested engine may not raise is left as it is.
        limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000")
        return [
            *_PODMAN,
            "--hooks-dir",
            str(self._hooks),
            "run",
            "--rm",
            "--network=none",
            *limits,
            *options,
            *arguments,
        ]

    def command(
        self,
        node: Node | None,
        *words: str,
        gpu: bool = True,
        options: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> list[str]:
        """The command line that runs `gpudoctor WORDS` in a container on the node; without `gpu` the container sees
        the node's PCI bus, and is given neither nodes nor libraries."""
        mounts = [
            "-v",
            f"{CHECKOUT}/gpudoctor:{self._site}/gpudoctor:ro",
            "-v",
            f"{CHECKOUT}/checks:{self._site}/checks:ro",
        ]
        mounts += ["-v", f"{CHECKOUT}/compat_matrix.yaml:{self._site}/compat_matrix.yaml:ro"]
        if node is not None:
            if node.path(VENV).exists():
                mounts += ["-v", f"{node.path(VENV)}:{VENV}:ro", "-e", f"VIRTUAL_ENV={VENV}"]
            if gpu:
                mounts += ["--annotation", f"gpudoctor.node={node.root}", *node.devices()]
            else:
                shown = [path for path in _SHOWN[1:] if node.path(path).is_dir() and Path(path).is_dir()]
                mounts += [part for path in shown for part in ("-v", f"{node.path(path)}:{path}:ro")]
        variables = [part for name, value in (environ or {}).items() for part in ("-e", f"{name}={value}")]
        return self.argv("--entrypoint=gpudoctor", *mounts, *variables, *options, IMAGE, *words)

    def gpudoctor(
        self,
        node: Node | None,
        *words: str,
        gpu: bool = True,
        options: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
        seconds: int = _SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        argv = self.command(node, *words, gpu=gpu, options=options, environ=environ)
        return subprocess.run(
            argv, check=False, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL
        )
