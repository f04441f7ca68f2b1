"""What may leave a machine: never a secret; names of people and of their programs only on request.

Private are user names, home folders, names of processes and UUIDs. A numbered stand-in replaces a UUID, so that a
visibility variable still names the same GPU and no judgement changes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpudoctor.machine import Machine

Clean = Callable[[str], str]

SECRET = "***"
"""What replaces a secret."""

# --- secrets ---------------------------------------------------------------------------------------

_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s&"']+?(?=;?(?:[\s&"']|$)))"""
"""A semicolon at its end ends a command: a proposed line must keep it."""
_NAME = (
    r"(?:token(?![a-z]|_id)|secret|passw(?:or)?d|passphrase|credential|(?<![a-z])auth(?![a-z])"
    r"|(?:api|access|private|signing|encryption)[_-]?key)[\w.-]{0,40}"
)
_IN_NAMES = ("token", "secret", "passw", "passphrase", "credential", "auth", "key")
"""Every name of a secret holds one of these."""
_HEADER = (
    r"(?:authorization|(?<![\w/.-])passw(?:or)?d|(?<![\w-])x-[\w-]{0,40}(?:key|token)):"
    r"\s?(?:(?:bearer|basic|token)\s+)?"
)
_TOKENS = r"(?:gh[pousr]_|github_pat_|glpat-|hf_|nvapi-|pypi-|AKCp|xox[abps]-|sk-(?:\w{1,8}-)?(?=\w{16}))[\w-]{16,}"
_FORMS = (
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "nvapi-", "pypi-", "akcp",
    "xoxa-", "xoxb-", "xoxp-", "xoxs-", "sk-",
)  # fmt: skip
_IN_URLS = (
    # The user and password of a URL. A password may hold characters that should be escaped; a URL may be cut off.
    (("://",), r"(://)(?:[^/\s]*@|[^/\s:@\[]+:(?!\d*/)[^\s@]{0,300}@)", r"\1***@"),
    (("://",), r"((?:https?|ftp)://)[^/\s:@\[]{1,300}:(?!\d*(?!\S))[^/\s@]*(?!\S)", r"\1***"),
    # The same without a scheme, and tokens that package servers accept as a part of the path.
    (("@",), r"(?<![\w/.:-])[\w.+-]{1,64}:[^\s/@:]{3,100}(?=@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})", "***"),
    (("/t/", ".fury.io/"), r"(://[^\s/]{1,255}/t/|\.fury\.io/)[\w-]{8,}(?=/)", r"\1***"),
)
_NAMED = (
    # NAME=value, "name": "value", a header, --name value.
    (("=",), rf"({_NAME}\s?=\s?){_VALUE}", r"\1***"),
    (("'", '"'), rf"({_NAME}['\"]\s?:\s?)(?:\"[^\"]*\"|'[^']*')", r"\1***"),
    (("authorization:", "passwd:", "password:", "key:", "token:"), rf"({_HEADER}){_VALUE}", r"\1***"),
    (("--",), rf"((?<![\w-])--(?:[a-z]{{1,20}}-){{0,3}}{_NAME}\s+){_VALUE}", r"\1***"),
)
_BY_FORM = (
    # A parameter of a URL.
    (("=",), rf"([?&;](?:x-\w{{1,10}}-)?(?:key|sig|signature|code)=){_VALUE}", r"\1***"),
    # Tokens of code hosts, model hubs and clouds, JSON web tokens, private keys.
    (_FORMS, rf"(?<!\w){_TOKENS}", "***"),
    (("akia", "asia"), r"(?<!\w)(?:AKIA|ASIA)[0-9A-Z]{16}(?!\w)", "***"),
    (("eyj",), r"(?<!\w)eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", "***"),
    (("-----begin",), r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[^-]*", r"\1***"),
)
"""Of secrets: (signs, one of which must be there; pattern; replacement). The time grows only with the text's length,
because a pattern begins with a fixed text or at the beginning of a word."""


def without_secrets(text: str) -> str:
    """The text without passwords, tokens and keys."""
    text = _replaced(text, _IN_URLS)
    if any(part in text.lower() for part in _IN_NAMES):
        text = _replaced(text, _NAMED)
    return _replaced(text, _BY_FORM)


def _replaced(text: str, rows: Iterable[tuple[tuple[str, ...], str, str]]) -> str:
    lowered = text.lower()
    for signs, pattern, instead in rows:
        if any(sign in lowered for sign in signs):
            text = re.sub(pattern, instead, text, flags=re.IGNORECASE)
    return text


# --- names -----------------------------------------------------------------------------------------

_HOME = r"(?:/(?:home|Users|export/home|var/home)/|\b[A-Za-z]:\\{1,2}Users\\{1,2})([^/\\\s:\"',;]+)"
NOT_A_USER = frozenset({
    "amdgpu", "bin", "compat", "conda", "cuda", "data", "debian", "home", "lib", "lib64", "linuxbrew", "local",
    "nvidia", "opt", "python", "rocm", "root", "share", "shared", "src", "tmp", "torch", "ubuntu", "usr", "var",
    "venv", "work",
})  # fmt: skip
"""Names of home folders that are also common names of other folders."""
_GPU_UUID = r"\b(?:MIG-)?(?:GPU|MIG)-[0-9a-f]{4,}(?:-[0-9a-f]+)*"
_PUBLIC_GROUPS = ("audio", "docker", "kvm", "render", "root", "sudo", "video", "wheel")
_PROCESSES = (
    # As NVIDIA's driver, amdgpu and the kernel write them into the log.
    (("pid=",), r"(\bpid='?[\w<>]+'?, name=)[^,]*(?:, (?!(?-i:[A-Z]))[^,]*)*", r"\1***"),
    (("client '",), r"(\bclient )'[^']*'", r"\1'***'"),
    ((" pid ",), r"(\b(?:process|thread) )\S.{0,60}?( pid \d)", r"\1***\2"),
    (("killed process", "kill process"), r"(\bkill(?:ed)? process \d+ )\([^)]*\)", r"\1(***)"),
    (("task=",), r"(\btask=)[^,]*(?=,pid=)", r"\1***"),
    # An address with its port; without one it may be the version of a library.
    ((":",), r"(?<![\d.])(?!127\.|0\.)(?:\d{1,3}\.){3}\d{1,3}(?=:\d{2,5}(?!\d))", "***"),
    (("comm:",), r"(\bComm: )\S+", r"\1***"),
    (("task ",), r"(\btask )\S{1,40}(:\d+ blocked)", r"\1***\2"),
    (("]: segfault", "] general protection", "] trap "), r"\S{1,40}(\[\d+\](?::| general| trap))", r"***\1"),
)


def public_text(home: str = "", stand_in: Clean = str, users: Iterable[str] = ()) -> Clean:
    """A function that removes private parts from a text. These are home folders, folders named for `users`, names of
    processes, UUIDs of GPUs (replaced by `stand_in`), and every secret."""
    names = "|".join(re.escape(user) for user in sorted(users))
    named = re.compile(rf"(?<=/)(?:{names})(?=[/\s:\"',;]|$)") if names else None

    def clean(text: str) -> str:
        if home and home not in ("/", "/root"):
            text = text.replace(home, "~")
        if "/home/" in text or "/Users/" in text:
            text = re.sub(_HOME, "~", text)
        if named is not None and "http" not in text:
            text = named.sub("user", text)
        return without_secrets(stand_in(_replaced(text, _PROCESSES)))

    return clean


def users_in(data: Any, home: str) -> frozenset[str]:
    """Names of the users whose home folders occur in built-in data, and of the user who runs gpudoctor."""
    names = {posixpath.basename(home)}

    def look(text: str) -> str:
        names.update(re.findall(_HOME, text))
        return text

    map_texts(data, look)
    return frozenset(name for name in names if len(name) > 2 and name not in NOT_A_USER)


def map_texts(data: Any, change: Clean) -> Any:
    """Built-in data with every text changed, also the names of keys. Most texts occur many times: each is changed
    once."""
    return _mapped(data, cache(change))


def _mapped(data: Any, change: Clean) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        return {_mapped(key, change): _mapped(value, change) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_mapped(item, change) for item in data]
    return data


# --- a machine -------------------------------------------------------------------------------------


def public_machine(data: dict[str, Any], clean: Clean) -> dict[str, Any]:
    """Built-in data of a Machine with every text cleaned, without personal groups and serial numbers."""
    public: dict[str, Any] = map_texts(data, clean)
    user = public.get("system", {}).get("user", {})
    if "groups" in user:
        user["groups"] = [group for group in user["groups"] if group in _PUBLIC_GROUPS]
    for node in public.get("amd", {}).get("topology", {}).get("value") or ():
        node.pop("unique_id", None)
    return public


def pseudonyms(machine: Machine) -> Clean:
    """Stand-ins for the UUIDs of this machine's GPUs; one GPU has the same stand-in everywhere."""
    return _Pseudonyms(machine)


class _Pseudonyms:
    """UUID → numbered stand-in. A shortened UUID of a known GPU gets that GPU's stand-in, whatever its label: torch
    calls a slice GPU."""

    def __init__(self, machine: Machine) -> None:
        self._names: dict[str, str] = {}
        for gpu in machine.gpus:
            uuids = [
                gpu.uuid,
                gpu.asked.uuid,
                *(m.uuid for m in gpu.asked.mig_devices),
            ]
            for uuid in filter(None, uuids):
                self._name(uuid)

    def _name(self, uuid: str) -> str:
        kind, _, digits = uuid.partition("-")
        kind = kind.upper()
        for full, name in self._names.items():
            if full.startswith(digits):
                return f"{kind}-{name}"
        self._names[digits] = f"{len(self._names) + 1:08x}"
        return f"{kind}-{self._names[digits]}"

    def __call__(self, text: str) -> str:
        if not any(label in text.lower() for label in ("gpu-", "mig-")):
            return text
        return re.sub(_GPU_UUID, lambda match: self._name(match[0]), text, flags=re.IGNORECASE)
