"""Every torch that `import torch` could find, and what earlier installs left behind.

The copies are in the order of sys.path: Python imports the first one. Traces follow: records of a missing torch, or
of another version than the files.
"""

from __future__ import annotations

import posixpath
import re

from msgspec import Struct

from gpudoctor.frameworks.torch.probes.files import read_version_file
from gpudoctor.host import Host
from gpudoctor.machine import TorchCopy
from gpudoctor.matrix.versions import local_version, public_version
from gpudoctor.probes.distributions import CondaPackage, metadata_head
from gpudoctor.probes.import_path import Folder, ImportPath, editable_torch


class Copies(Struct, frozen=True):
    """`importable` in the order of sys.path, then `traces`."""

    importable: tuple[TorchCopy, ...]
    traces: tuple[TorchCopy, ...]

    @property
    def all(self) -> tuple[TorchCopy, ...]:
        return (*self.importable, *self.traces)


def find_copies(host: Host, path: ImportPath, conda: CondaPackage | None) -> Copies:
    """All copies and traces of torch on the path, and conda's record of one."""
    importable: list[TorchCopy] = []
    traces: list[TorchCopy] = []
    for folder in path.folders:
        copy = _copy_in(host, folder)
        if copy is not None:
            (traces if copy.is_trace else importable).append(copy)
        traces.extend(_records_in(host, folder, copy))
    editable = editable_torch(host, path)
    if editable is not None and host.exists(editable):
        file = read_version_file(host, editable)
        importable.append(TorchCopy(path=editable, version=file.version if file else None, via="editable"))
    if importable:
        traces = [trace for trace in traces if trace.via != "editable without its folder"]
    if conda is not None and not any(
        copy.version and record_fits(copy.version, conda.version) for copy in importable
    ):
        traces.append(TorchCopy(path=conda.path, version=conda.version, via="conda record"))
    traces.extend(_in_working_folder(host, path))
    return Copies(importable=tuple(importable), traces=tuple(traces))


def remains(host: Host, copies: Copies) -> tuple[TorchCopy, ...]:
    """The traces that an interrupted install or uninstall leaves. A folder with nothing but caches is none."""
    return tuple(
        trace
        for trace in copies.traces
        if trace.via in ("dist-info without files", "editable without its folder", "interrupted uninstall")
        or (trace.via == "conda record" and host.live)
        or (trace.via == "left-over files" and set(host.names(trace.path).value or ()) - {"__pycache__"})
    )


def _in_working_folder(host: Host, path: ImportPath) -> list[TorchCopy]:
    """`python -c`, `-m` and notebooks import from there first: a checkout of PyTorch, or somebody's own torch.py."""
    here = host.working_folder()
    if here is None or any(folder.path == here for folder in path.folders):
        return []
    for name, begins in (("torch.py", "torch.py"), ("torch", "torch/__init__.py")):
        if host.exists(posixpath.join(here, begins)):
            return [TorchCopy(path=posixpath.join(here, name), version=None, via="working folder")]
    return []


def _copy_in(host: Host, folder: Folder) -> TorchCopy | None:
    """The torch of one folder: a package, what is left of one, or a module file in its place."""
    package = posixpath.join(folder.path, "torch")
    file = read_version_file(host, package) if "torch" in folder.names else None
    found = TorchCopy(path=package, version=file.version if file else None, via=folder.via)
    if "torch" in folder.names and _begins(host, package, file is not None):
        return found
    if "torch.py" in folder.names:
        return TorchCopy(path=posixpath.join(folder.path, "torch.py"), version=None, via=folder.via)
    if _recorded_files(host, folder) or only_recorded(host, folder):
        return found  # installed here; damaged, or not part of the recording
    if "torch" not in folder.names:
        return None
    kind = host.stat(package)
    if kind.value is not None and kind.value.kind == "folder":
        # To Python this is a namespace package: any complete torch further on takes precedence.
        return TorchCopy(path=package, version=found.version, via="left-over files")
    return None


def _begins(host: Host, package: str, versioned: bool) -> bool:
    """Whether a package is there, or may not be looked into. A recording may hold only its version.py."""
    if versioned and not host.live:
        return True
    beginnings = [host.stat(posixpath.join(package, name)) for name in ("__init__.py", "__init__.pyc")]
    return any(found.known or found.state == "denied" for found in beginnings)


def only_recorded(host: Host, folder: Folder) -> bool:
    """Whether a recording holds the record of a torch in this folder, and nothing of the torch itself."""
    paths = (posixpath.join(folder.path, name) for name in record_folders(folder))
    return not host.live and "torch" not in folder.names and any(not _is_editable(host, path) for path in paths)


def _recorded_files(host: Host, folder: Folder) -> bool:
    """Whether a complete record says that torch was installed into this folder."""
    heads = (host.text(posixpath.join(folder.path, name, "RECORD"), 16 << 20) for name in record_folders(folder))
    return any("\ntorch/__init__.py," in "\n" + (head.value or "") for head in heads)


def _records_in(host: Host, folder: Folder, copy: TorchCopy | None) -> list[TorchCopy]:
    """Records of torch beside it that describe something else."""
    found = []
    for name in sorted(folder.names):
        left = re.fullmatch(r"~+orch(?:-([^-]*)\.dist-info)?", name) if name.startswith("~") else None
        if left:
            path = posixpath.join(folder.path, name)
            file = read_version_file(host, path) if left[1] is None else None
            version = file.version if file else left[1]
            found.append(TorchCopy(path=path, version=version, via="interrupted uninstall"))
    records = record_folders(folder)
    for name in records:
        path = posixpath.join(folder.path, name)
        version = metadata_head(host, path).get("Version", [name[len("torch-") : -len(".dist-info")]])[0]
        if copy is None:
            via = "editable without its folder" if _is_editable(host, path) else "dist-info without files"
            found.append(TorchCopy(path=path, version=version, via=via))
        elif copy is not None and copy.version and not record_fits(copy.version, version):
            found.append(TorchCopy(path=path, version=version, via="left-over dist-info"))
    return found


def record_folders(folder: Folder) -> tuple[str, ...]:
    """Names of torch's own .dist-info folders."""
    named = (name for name in folder.names if name.startswith(("torch-", "Torch-")) and name.endswith(".dist-info"))
    return tuple(sorted(name for name in named if name.count("-") == 2))


def _is_editable(host: Host, record: str) -> bool:
    """Whether its files lie elsewhere on purpose: direct_url.json says so (pip writes spaces, uv none)."""
    note = host.text(posixpath.join(record, "direct_url.json"), 64 << 10).value or ""
    return re.search(r'"editable"\s*:\s*true', note) is not None


def record_fits(version: str, recorded: str) -> bool:
    """Whether a record describes files of this version. Index wheels leave the local part out of their metadata, and
    installers normalise it (nv25.09 is nv25.9)."""
    if public_version(version) == public_version(recorded) and not (
        local_version(version) and local_version(recorded)
    ):
        return True
    if version == recorded:
        return True
    from packaging.version import InvalidVersion, Version

    try:
        one, other = Version(version), Version(recorded)
    except InvalidVersion:
        return False
    return one.public == other.public and (one.local == other.local or not (one.local and other.local))
