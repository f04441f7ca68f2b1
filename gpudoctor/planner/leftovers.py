"""What is in the way of pip and uv in an environment: records without files, files without records, links that lead
nowhere."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.frameworks.package_spec import PackageSpec
from gpudoctor.machine import Machine
from gpudoctor.planner.place import Place, is_path
from gpudoctor.situation import Situation
from gpudoctor.step import RunStep, Step


def leftovers(place: Place, situation: Situation, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(path, name) of what is left of packages that pip can neither uninstall nor replace. Of a package whose folders
    are not known only the record is removed; its files are written over."""
    machine = situation.machine
    found: list[tuple[str, str]] = []
    for name in names:
        package = machine.installed(name)
        if package is not None and cannot_be_uninstalled(machine, name) and package.installer not in _KEEPERS:
            site = package.path.rpartition("/")[0]
            rows = (row for row in situation.matrix.tables.package_folders if row.package == name)
            folders = (f"{site}/{folder}" for row in rows for folder in row.folders)
            found += [(path, name) for path in dict.fromkeys((package.path, *folders))]
        elif name == "torch":
            recorded = package.path if package else ""
            found += [(copy.path, name) for copy in machine.examined.torch_remains if copy.path != recorded]
    return _of_this_place(place, found)


def stray_records(place: Place, machine: Machine, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(path, name) of further records of packages that have no list of files: pip would stop at them."""
    packages = [package for name in names if (package := machine.installed(name)) is not None]
    return _of_this_place(place, [(path, package.name) for package in packages for path in package.strays])


def _of_this_place(place: Place, found: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The paths that belong to this environment alone."""
    inside = f"{place.prefix.rstrip('/')}/"
    ours = place.prefix and place.tool not in ("managed", "nowhere")
    return tuple(
        (path, name)
        for path, name in found
        if ours and is_path(path) and path.startswith(inside) and not path.startswith(_OF_THE_SYSTEM)
    )


_KEEPERS = ("conda", "debian", "rpm")
"""They keep records of their own, and their packages have no RECORD."""
_OF_THE_SYSTEM = ("/usr/lib/", "/usr/lib64/")


def remove_leftovers(found: tuple[tuple[str, str], ...]) -> tuple[Step, ...]:
    """Remove paths that no installer can uninstall."""
    if not found:
        return ()
    names = ", ".join(dict.fromkeys(name for _, name in found))
    why = f"no installer can remove what is left of {names}: its record is not whole, and it would mix with new ones"
    return (RunStep(argv=("rm", "-rf", *(path for path, _ in found)), why=why, risk="replaces"),)


def cannot_be_uninstalled(machine: Machine, name: str) -> bool:
    """Whether pip can neither uninstall nor replace a package: it stops without RECORD, and sees none without
    METADATA. Of links that lead nowhere METADATA is one, and they are removed as such."""
    found = machine.installed(name)
    if found is None:
        return False
    return "RECORD" in found.lacks or ("METADATA" in found.lacks and not found.unlinked)


def remove_folder_links(place: Place, machine: Machine, wanted: Iterable[PackageSpec]) -> tuple[Step, ...]:
    """Remove links that lead nowhere in place of folders: pip and uv stop at them."""
    links = machine.examined.installers.links
    above = _of_this_place(place, [(path, item.name) for item in wanted for path in links.get(item.name, ())])
    if above:
        why = "this link leads nowhere, and no installer writes through it"
        return (RunStep(argv=("rm", "-f", *dict.fromkeys(path for path, _ in above)), why=why, risk="replaces"),)
    return ()


def remove_file_links(place: Place, machine: Machine, wanted: Iterable[PackageSpec]) -> tuple[Step, ...]:
    """Remove the files that are links and lead nowhere: pip would write through them. uv replaces them."""
    found = (machine.installed(item.name) for item in wanted)
    if place.tool != "pip" or not any(one is not None and one.unlinked for one in found):
        return ()
    inside = (("-o", "-path", f"{place.prefix}/{name}/*") for name in _WRITTEN_TO)
    chosen = tuple(word for words in inside for word in words)[1:]
    argv = ("find", place.prefix, "(", *chosen, ")", "-xtype", "l", "-delete")
    return (RunStep(argv=argv, why="pip would write through the links that lead nowhere", risk="replaces"),)


_WRITTEN_TO = ("bin", "etc", "include", "lib", "share")
"""Folders of an environment that installers write into."""
