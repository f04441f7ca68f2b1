"""The door that `gpudoctor` and `python -m gpudoctor` come in by.

Python 3.6 can still read this file and the package's __init__.py: an old Python gets a sentence, not a traceback.
"""

import gc
import os
import sys

OLDEST = (3, 10)
"""As requires-python of pyproject.toml."""


def program() -> None:
    """The whole process. It ends at once: Python would first take apart all that was imported, which lasts as long as
    a twentieth of a static check."""
    os._exit(_exit_code(alone=True))


def main() -> None:
    """The same inside a process that has something left to do: raises SystemExit."""
    sys.exit(_exit_code(alone=False))


def _exit_code(alone: bool) -> int:
    """Run the command line; docs/reference/exit-codes.md has the exit codes."""
    if tuple(sys.version_info) < OLDEST:
        sys.exit(_refuse_this_python())
    if os.environ.get("PYTHONHOME"):
        _need_own_library()
    _own_modules_first()
    # A run lasts a tenth of a second and makes few cycles: looking for them costs more than it frees.
    gc.disable()
    if alone:  # whoever imports gpudoctor keeps the import that he has
        from gpudoctor.own_modules import install

        install()
    from gpudoctor.command_line.running import settle_streams

    command, rest = sys.argv[1:2], sys.argv[2:]
    if command == ["check"]:
        code = _check(rest)
    elif command == ["preflight"]:
        code = _preflight(rest)
    elif sys.argv[1:] == ["--version"]:
        code = _version()
    else:
        code = _run(sys.argv[1:])
    settle_streams()
    return code


def _refuse_this_python() -> int:
    here, needed = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST))
    print(
        f"gpudoctor: runs on Python {needed} and newer, and this is Python {here} ({sys.executable}). "
        f"Started with a newer one, it can examine this environment: gpudoctor check --python {sys.prefix}",
        file=sys.stderr,
    )
    return 2


def _need_own_library() -> None:
    """PYTHONHOME is the command's: another Python of this version has not all compiled modules that ours has."""
    try:
        import _datetime  # type: ignore[import-not-found]  # noqa: F401 - a Python compiles in some of them
        import _struct  # noqa: F401
        import math  # noqa: F401
    except ImportError as error:
        print(
            f"gpudoctor: PYTHONHOME gives this Python the standard library of another one ({error}). Start gpudoctor "
            "without it, and name it for the examined Python: "
            'env -u PYTHONHOME gpudoctor check --env PYTHONHOME="$PYTHONHOME"',
            file=sys.stderr,
        )
        sys.exit(2)


def _own_modules_first() -> None:
    """PYTHONPATH is the command's: what it holds for another Python must not take the place of our modules."""
    named = {os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path}
    if named:
        sys.path.sort(key=lambda path: os.path.abspath(path) in named)


def _check(arguments: "list[str]") -> int:
    """A plain command line is not read by click, whose import takes as long as a fifth of all the rest."""
    from gpudoctor.command_line.arguments import LINE
    from gpudoctor.command_line.option_parser import read
    from gpudoctor.command_line.running import exit_code_of

    given = read(LINE, arguments, os.environ)
    if given is None:
        return _run(["check", *arguments])

    def body() -> int:
        from gpudoctor.command_line.check import check

        return check(given)

    return exit_code_of(body)


def _version() -> int:
    from gpudoctor.command_line.running import exit_code_of
    from gpudoctor.command_line.version import print_version

    return exit_code_of(print_version)


def _run(arguments: "list[str]") -> int:
    from gpudoctor.cli import run

    return run(arguments)


def _preflight(arguments: "list[str]") -> int:
    """A container waits for this one."""
    from gpudoctor.command_line.option_parser import read
    from gpudoctor.exit_codes import USAGE, of_refusal
    from gpudoctor.preflight.arguments import LINE
    from gpudoctor.preflight.command import preflight

    given = read(LINE, arguments, os.environ)
    nothing_follows = arguments[-1:] == ["--"]  # a command is asked for, and none is given: it is "", not found
    if given is not None:
        return preflight({**given, "command": ("",)} if nothing_follows and not given["command"] else given)
    if nothing_follows and arguments.index("--") == len(arguments) - 1:
        arguments = [*arguments, ""]
    command = arguments[arguments.index("--") + 1 :] if "--" in arguments else ()
    try:
        code = _run(["preflight", *arguments])
    except OSError:  # nobody can be told what is wrong with them
        code = USAGE
    return of_refusal(code, tuple(command))


if __name__ == "__main__":
    program()
