"""Ways to spoil a file, texts that may mean more than they say, and whole machines to try them on."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from tests.support.environments import write_torch
from tests.support.hosts import Host

TEXTS = (
    "", "-", "--index-url", "-r/etc/passwd", "$(touch pwned)", "`touch pwned`", "a; touch pwned", "a && b", "1e999",
    "9" * 25, "9" * 5000, "-1", "0", "0x", "nan", "None", "²", "\u0663", "../../../../etc/passwd", "/", "//", "a\nb",
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "[bold red]x[/]", "[/]", "\u202egnp", "%s{0}{x}", "2.9.1+cu128 --pre",
    "18446744073709551616", "0." * 600, "🧨" * 40,
)  # fmt: skip


# --- ways to spoil a file ----------------------------------------------------------------------------


def cut(place: Path, chance: random.Random) -> None:
    content = place.read_bytes()
    place.write_bytes(content[: chance.randrange(len(content) + 1)])


def flipped(place: Path, chance: random.Random) -> None:
    content = bytearray(place.read_bytes())
    for _ in range(min(len(content), 6)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    place.write_bytes(content)


def one_word(place: Path, chance: random.Random) -> None:
    """One word of the file, so that the rest of it still reads well."""
    words = place.read_bytes().split(b" ")
    words[chance.randrange(len(words))] = chance.choice(TEXTS).encode()
    place.write_bytes(b" ".join(words))


def one_number(place: Path, chance: random.Random) -> None:
    content = place.read_bytes()
    digits = [n for n, byte in enumerate(content) if 48 <= byte < 58]
    if digits:
        at = chance.choice(digits)
        place.write_bytes(content[:at] + b"9" * chance.choice((12, 25, 5000)) + content[at + 1 :])


def garbage(place: Path, chance: random.Random) -> None:
    lines = (chance.choice(TEXTS).encode() for _ in range(20))
    place.write_bytes(
        chance.choice((chance.randbytes(500), b"\0" * 4000, b"{" * 5000, b"A" * 200_000, b"\n".join(lines)))
    )


def huge(place: Path, chance: random.Random) -> None:
    place.write_bytes(b"")
    os.truncate(place, 10 << 30)


def fifo(place: Path, chance: random.Random) -> None:
    place.unlink()
    os.mkfifo(place)


def folder(place: Path, chance: random.Random) -> None:
    place.unlink()
    place.mkdir()
    (place / "x").touch()


def loop(place: Path, chance: random.Random) -> None:
    place.unlink()
    place.symlink_to(place.name)


def escape(place: Path, chance: random.Random) -> None:
    place.unlink()
    place.symlink_to(
        chance.choice(("../" * 30 + "etc/passwd", "/etc/shadow", "/proc/self/mem", "/dev/zero", "/", "."))
    )


def gone(place: Path, chance: random.Random) -> None:
    place.unlink()


def strange_name(place: Path, chance: random.Random) -> None:
    name = os.fsencode(place.name)
    strange = chance.choice(
        (name + b"\xff", b"a\nb" + name, b"\x1b[31m" + name, b"-" + name, b"[bold]" + name, b"$(x)")
    )
    os.rename(place, os.path.join(os.fsencode(place.parent), strange))


def crowd(place: Path, chance: random.Random) -> None:
    """Many more entries beside it, under strange names."""
    for n in range(60):
        text = chance.choice(TEXTS)[:30].replace("/", "_")
        (place.parent / f"{place.name}{text}{n}").write_bytes(b"1")


SPOIL: tuple[Callable[[Path, random.Random], None], ...] = (
    cut, flipped, one_word, one_number, garbage, huge, fifo, folder, loop, escape, gone, strange_name, crowd,
)  # fmt: skip


# --- the machines -------------------------------------------------------------------------------------


def no_code(host: Host) -> None:
    host.ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07")
    host.torch("2.6.0+cu124", companions={"torchvision": "0.21.0+cu124"}).package("numpy", "2.1.0")


def no_code_rocm(host: Host) -> None:
    host.ubuntu().amd_gpu("73df", 100301).file("/opt/rocm/.info/version", "6.4.1-83\n")
    host.file("/var/log/dmesg", "[  1.0] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n")
    host.torch("2.9.1+rocm6.4").environ(LD_LIBRARY_PATH="/:/opt/rocm/lib")


def in_a_container(host: Host) -> None:
    host.ubuntu().docker().nvidia_gpu("20b2", pci_class="0x030200").nvidia_driver("470.239.06").venv()
    write_torch(host.path("/home/u/.local/lib/python3.12/site-packages"), "2.9.1+cu128", "12.8")
    host.json["environ"].update(HOME="/home/u", PYTHONPATH="/home/u/.local/lib/python3.12/site-packages")
    host.file("/usr/local/cuda/compat/libcuda.so.1", b"\x7fELF").environ(LD_LIBRARY_PATH="/usr/local/cuda/compat")


MACHINES = {"no code": no_code, "no code for AMD": no_code_rocm, "an old driver in a container": in_a_container}
