"""The user that a container runs as, and the folders that it needs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.copied_environments import copied_environments, interpreter_of, made_environments
from gpudoctor.dockerfile.environments import makes_one
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.recipe import Recipe, RecipeService, about_line, about_service, change
from gpudoctor.finding import Finding, Fix

_OPENING = ("chown", "chmod", "setfacl", "install", "usermod")
"""Programs that change who may enter a folder."""
_ACCOUNTS = ("useradd", "adduser", "usermod")
_AS_ROOT = re.compile(r" (-[a-z]*u|--uid)[ =]?0( |$)")
"""The option that gives a user the number of root: `useradd -o -u 0 NAME`."""
_OF_PROGRAMS = re.compile(
    r"(HOME|(HF|HUGGINGFACE|TRITON|MIOPEN|VLLM|OLLAMA)_\w+|(TRANSFORMERS|NUMBA|CUPY|CUDA|TORCHINDUCTOR)_CACHE\w*|"
    r"(TORCH|SENTENCE_TRANSFORMERS|XDG_(CACHE|CONFIG|DATA))_HOME|MPLCONFIGDIR)$"
)
"""Variables that name folders which a program uses when it runs, as those of build tools do not."""
_WRITABLE = re.compile(r"/(home|tmp|var/tmp|dev/shm|root)(/|$)")


@check("GPD628", "image-user-without-access", "image")
def user_without_access(recipe: Recipe) -> Verdicts:
    """The image's user cannot reach a folder of root that the program needs.

    ## Why it matters
    /root is closed to every other user. A Python environment there is out of reach: calling it ends with "Permission
    denied" (exit code 126), and by PATH another Python is started, or none. A model there is not found, and a cache
    there is not written. A folder that COPY made, or WORKDIR before USER, belongs to root: an environment cannot be
    made in it.

    ## How it is judged
    By the last USER, or `user` of every service, and by the paths of environments, of copied packages, of volumes and
    of the variables that name homes and caches (HF_HOME, TRITON_CACHE_DIR, MIOPEN_USER_DB_PATH). Nothing is reported
    where a command changes owners or permissions on the way, or where COPY has --chown.

    ## Fix safety
    A folder outside /root is open to all users; `chmod 711 /root` lets them pass, and shows them nothing of it.
    """
    for image in recipe.images:
        if _closed(image, _user(recipe, image)):
            yield from _environments(recipe, image)
            yield from _packages(recipe, image)
            yield from _variables(recipe, image)
        yield from _while_building(image)
    for started in recipe.services:
        yield from _of_service(started)


def _user(recipe: Recipe, image: Image) -> str:
    """The user of its containers; "" for root, or if they differ."""
    users = {(service.user if service else "") or image.user for service, _, _ in recipe.starts(image)}
    return _name(image, users.pop()) if len(users) == 1 else ""


def _name(image: Image, user: str) -> str:
    """The name of a user; "" for root, also by another name, or if it is unknown."""
    name = user.partition(":")[0]
    return "" if name in ("root", "0") or "$" in name or name in _other_roots(image) else name


@lru_cache(maxsize=32)
def _other_roots(image: Image) -> frozenset[str]:
    """The words of commands that make a user with the number of root, its name among them."""
    made = [one.command for one in image.steps if posixpath.basename(one.command.argv[0]) in _ACCOUNTS]
    return frozenset(word for one in made if _AS_ROOT.search(one.text) for word in one.argv)


def _closed(image: Image, user: str) -> bool:
    """Whether /root is closed to the user."""
    return bool(user) and not _opened_root(image) and image.form == "dockerfile"


def _opened_root(image: Image) -> bool:
    return any(_opens(step) and "/root" in step.command.text for step in image.steps)


def _opens(step: Step) -> bool:
    return posixpath.basename(step.command.argv[0]) in _OPENING


def _environments(recipe: Recipe, image: Image) -> Iterator[Finding]:
    """Environments in /root, or whose interpreter lies there."""
    user = _user(recipe, image)
    every = [(one.place, image, one) for one in made_environments(image)]
    every += [(one.place, one.origin, one.made) for one in copied_environments(image)]
    for place, origin, made in every:
        folder = next(iter(interpreter_of(origin, made) or ()), "")
        closed = [path for path in (place, folder) if path.startswith("/root/")]
        if not closed:
            continue
        lines = list(_elsewhere(image, place, "/opt/venv")) if place in closed else []
        if folder in closed:
            above = f"{image.place(made.step.command.line)}: above it"
            lines = [above, image.written_env("UV_PYTHON_INSTALL_DIR", "/opt/python"), *lines]
        what = "which lies there" if place in closed else f"whose interpreter uv put into {folder}"
        yield about_line(
            image,
            made.step.command.line,
            made.step.command.shown,
            severity="error",
            message=f"The container runs as {user}, who cannot enter /root: the Python of {place}, {what}, is out of "
            "reach.",
            saw=closed[0],
            want="a folder outside /root",
            fixes=(change("Put it outside /root", *lines), _passable(image)),
        )
        return


def _packages(recipe: Recipe, image: Image) -> Iterator[Finding]:
    """What `pip install --user` of root installed: another user's Python looks in that user's home."""
    user, home = _user(recipe, image), "/root/.local"
    for copied in image.copied:
        if not copied.origin or not re.match(rf"{home}(/|$)", copied.target):
            continue
        lines = [image.written_copy(copied.origin, (home,), "/usr/local")] if copied.target == home else []
        yield about_line(
            image,
            copied.line,
            image.written_copy(copied.origin, (home,), copied.target),
            severity="error",
            message=f"The container runs as {user}, whose Python does not look in {home}: what pip installed there "
            "for root is not found.",
            saw=home,
            want="packages of all users",
            fixes=(
                change(
                    "Copy them to where every user's Python looks",
                    *(
                        f"{image.place(copied.line)}: {line}"
                        for line in lines or ["/usr/local in place of /root/.local"]
                    ),
                ),
            ),
        )
        return


def _variables(recipe: Recipe, image: Image) -> Iterator[Finding]:
    user, environments = _user(recipe, image), tuple({step.environment for step in image.steps if step.environment})
    for setting in image.settings.values():
        value = setting.value or ""
        if (
            not _OF_PROGRAMS.match(setting.name)
            or not re.match(r"/root(/|$)", value)
            or ":" in value
            or value.startswith(environments)
        ):
            continue
        folder = posixpath.join("/opt", value.removeprefix("/root").lstrip("/").removeprefix(".cache/"))
        folder = folder.rstrip("/") if folder.rstrip("/") != "/opt" else "/opt/home"
        yield about_line(
            image,
            setting.line,
            f"ENV {setting.name}={value}",
            severity="warning",
            message=f"The container runs as {user}, who can neither read nor write {setting.name}={value}.",
            saw=value,
            want="a folder of the user",
            fixes=(
                change(
                    "Give the user a folder outside /root",
                    f"{image.place(setting.line)}: {image.written_env(setting.name, folder)}",
                    f"and before USER {user}:",
                    image.written_run(f"mkdir -p {folder} && chown -R {user} {folder}"),
                ),
            ),
        )


def _of_service(started: RecipeService) -> Iterator[Finding]:
    """A variable or a volume in /root that a service with a user of its own has."""
    service, image = started.service, started.image
    user = _name(image, service.user) if image is not None else ""
    if image is None or not user or _opened_root(image) or "/root" in service.mounts:
        return
    variables = [(name, value) for name, value in service.environment.items() if _OF_PROGRAMS.match(name)]
    named = next(((name, value) for name, value in variables if re.match(r"/root(/|$)", value)), None)
    mount = next((one for one in service.mounts if one.startswith("/root/")), None)
    if named is None and mount is None:
        return
    what = f"{named[0]}={named[1]}" if named else f"what is mounted at {mount}"
    folder = named[1] if named else mount or ""
    other = posixpath.join("/data", posixpath.basename(folder.rstrip("/")).lstrip("."))
    volumes = f"    {'mountPath' if service.cluster else 'volumes'}: {other} in place of {mount}"
    lines = [service.below, volumes] if mount else []
    if named or re.search(r"huggingface|\bhf\b", folder):
        lines += service.giving(named[0] if named else "HF_HOME", other)
    yield about_service(
        service,
        severity="warning",
        confidence="likely",
        message=f"{service.title} runs as {service.user}, who cannot enter /root: {what} is out of reach.",
        saw=folder,
        want="a folder outside /root",
        fixes=(change("Use a folder outside /root", *lines),),
    )


def _elsewhere(image: Image, place: str, other: str) -> Iterator[str]:
    """The lines that name a place, with another one."""
    named = re.compile(re.escape(place) + r"(?![\w.-])")
    for number, line in enumerate(image.source, start=1):
        if named.search(line):
            yield f"{image.place(number)}: {named.sub(other, line).strip()}"


def _passable(image: Image) -> Fix:
    return change(
        "Let users pass /root", f"{image.place(image.base_line)}: below it", image.written_run("chmod 711 /root")
    )


def _while_building(image: Image) -> Iterator[Finding]:
    """A user who makes an environment in a folder of root."""
    for number, step in enumerate(image.steps):
        user, place = _name(image, step.user), step.environment or ""
        if not user or step.copied or not place.startswith("/") or not makes_one(step.command.argv):
            continue
        if step.command.maybe or _WRITABLE.match(place) or _opened(image, image.steps[:number]):
            continue
        folder = posixpath.dirname(place)
        if any(of == step.user and f"{folder}/".startswith(f"{made}/") for made, of in image.made.items()):
            continue
        yield about_line(
            image,
            step.command.line,
            step.command.shown,
            severity="error",
            message=f"{user} may not write to {folder}, which belongs to root: the build fails here.",
            saw=f"USER {step.user}",
            want=f"{folder} of {user}",
            fixes=(
                change(
                    "Give the folder to the user",
                    f"{image.place(step.command.line)}: before USER {step.user}",
                    image.written_run(f"mkdir -p {folder} && chown {step.user} {folder}"),
                ),
            ),
        )
        return


def _opened(image: Image, steps: tuple[Step, ...]) -> bool:
    """Whether a command or a COPY may have given folders to a user, or the base image has users of its own."""
    makes_home = re.compile(r"\b(useradd|adduser)\b.* (-d|--home-dir|--home)\b")
    chown = any("--chown" in line or "--chmod" in line for line in image.source)
    known = image.facts.prefix != "" or image.facts.has_torch
    return not known or chown or any(_opens(step) or makes_home.search(step.command.text) for step in steps)
