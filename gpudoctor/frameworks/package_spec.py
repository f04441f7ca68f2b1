"""What an install command asks for: torch, its companions, and other packages, as pip and uv take them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gpudoctor.finding import ReplaceTorch

PACKAGE_INDEX = "https://pypi.org/simple"
"""What installers ask where nothing else is configured."""
EXACTLY = "=== keeps out the builds that another index has of that version, such as +cpu"
"""Why a command asks for a version by three signs."""


class PackageSpec(Struct, frozen=True):
    """One package of an install command: `spec` such as "==2.9.1+cu128"."""

    name: str
    spec: str
    extra: str = ""

    @property
    def text(self) -> str:
        """The package as pip and uv take it."""
        return f"{self.name}[{self.extra}]{self.spec}" if self.extra else f"{self.name}{self.spec}"


def torch_and_companions(remedy: ReplaceTorch, arch: str) -> tuple[PackageSpec, ...]:
    """torch with its local part, so that another build of the same version is really replaced. torchvision has
    device code of its own, which the same extra chooses."""
    # CPU wheels for aarch64, and their companions, do not all name their build.
    named = bool(remedy.index_url) and (arch == "x86_64" or remedy.build != "cpu")
    wanted = [PackageSpec("torch", f"=={remedy.version}" + (f"+{remedy.build}" if named else ""), remedy.extra)]
    for name, version in remedy.companions:
        local = f"+{remedy.build}" if remedy.index_url and arch == "x86_64" and "*" not in version else ""
        extra = remedy.extra if name == "torchvision" else ""
        wanted.append(PackageSpec(name, f"=={version}{local}", extra))
    return tuple(wanted)


def quoted(wanted: Iterable[PackageSpec]) -> str:
    """Requirements as a person types them in a shell."""
    return " ".join(f"'{item.text}'" if set(item.text) & set("[]<>*") else item.text for item in wanted)
