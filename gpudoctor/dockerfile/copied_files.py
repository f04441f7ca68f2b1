"""The files that a RUN reads, found in the build context through their COPY or mount."""

from __future__ import annotations

import posixpath

from gpudoctor.dockerfile.bounds import PATH, Bounds, path
from gpudoctor.dockerfile.commands import Command
from gpudoctor.dockerfile.image import CopyInstruction, Read
from gpudoctor.dockerfile.syntax import Instruction


class CopiedFiles:
    """Requirements files, locks and scripts, by the paths that commands give them in the image."""

    def __init__(
        self, folder: str, copied: list[CopyInstruction], run: Instruction, read: Read, bounds: Bounds
    ) -> None:
        self.folder = folder
        """The working directory; "" where a `cd` leaves it open."""
        self.activated = ""
        """The environment whose script `activate` was run."""
        self._copied, self._read, self._bounds = copied, read, bounds
        self._mounts: dict[str, str] = {}
        self._names: dict[str, str] = {}
        for flag in run.flags:
            options = dict(part.partition("=")[::2] for part in flag.removeprefix("--mount=").split(","))
            if options.get("type") == "bind" and "from" not in options:
                target = options.get("target") or options.get("dst") or options.get("destination") or ""
                source = options.get("source") or options.get("src") or target
                self._mounts.setdefault(self.whole(target), source)

    def __call__(self, path: str) -> str | None:
        text = self.lock(path)
        self._bounds.text.spend(len(text or ""))
        return text

    def shown(self, path: str) -> str:
        """The name of a file that was read, in the build context."""
        return posixpath.normpath(self._names.get(self.whole(path), path)).lstrip("/")

    def enter(self, command: Command) -> None:
        """The `cd` of a command."""
        target = next(iter(command.argv[1:]), "$HOME")
        unclear = command.maybe or set(target) & set("$~`") or target == "-"
        self.folder = "" if unclear else path(posixpath.join(self.folder or "/?", target))

    def activate(self, script: str) -> None:
        """An environment is activated, if the script is its own."""
        if script.endswith("/bin/activate") and (self.folder or script.startswith("/")):
            self.activated = self.whole(script.removesuffix("/bin/activate"))

    def lock(self, path: str) -> str | None:
        """A lock file. It may be as large as all other files together, and has a bound of its own."""
        if "$" in path or "://" in path or len(path) > PATH or not (self.folder or path.startswith("/")):
            return None
        return self._found(self.whole(path))

    def _found(self, whole: str) -> str | None:
        if whole in self._mounts:
            self._names[whole] = self._mounts[whole]
            return self._read(self._mounts[whole])
        own = (copied for copied in reversed(self._copied) if copied.origin is None)
        texts = (self._from_copy(copied, whole) for copied in own)
        return next((text for text in texts if text is not None), None)

    def _from_copy(self, copied: CopyInstruction, whole: str) -> str | None:
        target = copied.target
        for source in copied.sources:
            self._bounds.places.spend()
            candidates = []
            if whole in (target, posixpath.join(target, posixpath.basename(source.rstrip("/")))):
                candidates.append(source)
            if whole.startswith(target.rstrip("/") + "/"):
                candidates.append(posixpath.join(source, whole[len(target.rstrip("/")) + 1 :]))
            for candidate in candidates:
                if (text := self._read(candidate)) is not None:
                    self._names[whole] = candidate
                    return text
        return None

    def whole(self, path: str) -> str:
        """The path below the root of the image."""
        return posixpath.normpath(posixpath.join(self.folder, path))
