"""Reads thousands of damaged files with little memory and says how far the readers came; run as a program.

    python -m tests.support.codeobject_mutations [COUNT] [SEED]

Prints one JSON object. Most damage is done to fields of headers, so that it reaches the readers' depths.
"""

from __future__ import annotations

import json
import os
import random
import resource
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable

from gpudoctor.codeobjects import amd, nvidia, offload_bundles, zstd
from gpudoctor.codeobjects.elf import MAGIC, NotReadable, open_elf
from gpudoctor.codeobjects.library import read_code
from tests.support.codeobject_files import (
    AMDGPU,
    bundle,
    container,
    cuda_library,
    elf,
    hip_library,
    packed,
    zstd_frame,
)
from tests.support.environments import shared_library
from tests.test_codeobjects_amd import ZSTD_CONTENT

ADDRESS_SPACE = 400 << 20
STRUCTURES = {  # what starts a header, and how many bytes from there are worth damaging
    b"\x7fELF": 64,
    b"\x50\xed\x55\xba": 88,
    b"__CLANG_OFFLOAD_BUNDLE__": 120,
    b"CCOB": 40,
    b"\x28\xb5\x2f\xfd": 60,
}
ENTRIES = {"entries of a fat binary", "table of a bundle", "flags of a code object", "dynamic section"}
VALUES = [0, 1, 2, 3, 7, 8, 15, 16, 63, 64, 65, 127, 128, 255, 256, 4095, 4096, 65535, 65536, 1 << 20, 1 << 30]
VALUES += [(1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 48, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def seeds() -> list[bytes]:
    """Sound files of every kind that is read."""
    many = cuda_library(*(container("sm_80", "sm_90a", "compute_90") for _ in range(6)))
    linked = cuda_library(container("sm_75"), relocatable=[container("sm_80"), container("sm_90")])
    found = [
        many,
        linked,
        elf([(".nv_fatbin", container("sm_53"))], bits=32),
        container("sm_90a", "compute_80"),
        hip_library(bundle("gfx1030", "gfx90a:xnack-"), bundle("gfx1100")),
        hip_library(*(packed(bundle("gfx1030", "gfx942"), version=version) for version in (1, 2, 3))),
        hip_library(*(packed(ZSTD_CONTENT, frame=zstd_frame(ZSTD_CONTENT, level)) for level in (3, 19))),
        packed(bundle("gfx950"), frame=zstd_frame(bundle("gfx950"))),
        bundle("gfx1201", "gfx12-generic"),
        elf([(".text", b"code")], machine=AMDGPU, flags=0x53F, abi_version=3),
    ]
    needs = {"libc.so.6": ["GLIBC_2.17"], "libstdc++.so.6": ["GLIBCXX_3.4.21"]}
    found.append(
        shared_library(["libc.so.6"], runpath="$ORIGIN", soname="libx.so", needs=needs, defines=["GLIBC_2.2"])
    )
    return found


def mutated(seed: bytes, source: random.Random) -> bytes:
    """One to four hurts: fields of headers mostly, sometimes a cut, a flip or a piece moved elsewhere."""
    data = bytearray(seed)
    places = [(at, length) for magic, length in STRUCTURES.items() for at in _all(seed, magic)]
    if seed.startswith(MAGIC):
        wide = seed[4] == 2
        (table,) = struct.unpack_from("<Q" if wide else "<I", seed, 40 if wide else 32)
        places += [(table + index * (64 if wide else 40), 64 if wide else 40) for index in range(1, 6)]
        places += [(64 + index * 56, 56) for index in range(4)]
    for _ in range(source.randint(1, 4)):
        kind = source.random()
        if kind < 0.85:
            at, length = source.choice(places)
            at += source.randrange(4 if source.random() < 0.97 else 0, length)
            width = source.choice([1, 2, 4, 8])
            value = source.choice([*VALUES, len(seed), len(seed) - 1, source.getrandbits(64)])
            data[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
        elif kind < 0.92:
            del data[source.randrange(len(data) + 1) :]
        elif kind < 0.97 and data:
            data[source.randrange(len(data))] ^= 1 << source.randrange(8)
        else:
            at = source.randrange(len(data) + 1)
            data[at:at] = data[: source.randrange(1, 512)]
    return bytes(data)


def _all(content: bytes, magic: bytes) -> list[int]:
    found, at = [], content.find(magic)
    while at >= 0:
        found.append(at)
        at = content.find(magic, at + 1)
    return found


def watch(reached: set[str]) -> None:
    """Have the readers note which stage a file reaches."""

    def noting(owner: object, name: str, stage: str) -> None:
        inner: Callable[..., object] = getattr(owner, name)

        def noted(*args: object, **kwargs: object) -> object:
            reached.add(stage)
            return inner(*args, **kwargs)

        setattr(owner, name, noted)

    noting(nvidia._Walk, "_container", "fat binary")
    noting(nvidia._Walk, "_entries", "entries of a fat binary")
    noting(nvidia, "_name", "architecture of an entry")
    noting(offload_bundles, "_find_bundles", "bundles")
    noting(offload_bundles, "_entries", "table of a bundle")
    noting(offload_bundles, "_target", "target of a bundle")
    noting(amd, "_features", "flags of a code object")
    noting(zstd, "ZstdDecompressor", "zstd frame")


def everything(handle: int, reached: set[str]) -> None:
    """Ask all that can be asked of a file."""
    code = read_code(handle)
    if code.reason is None:
        reached.add("no complaint")
    try:
        file = open_elf(handle)
        reached.add("ELF header")
        _ = file.sections
        reached.add("sections")
    except NotReadable:
        return
    for ask in (
        lambda: file.needed,
        lambda: file.runpath,
        lambda: file.needs_version("GLIBC_"),
        lambda: file.defines_version("GLIBC_"),
    ):
        try:
            if ask():
                reached.add("dynamic section")
        except NotReadable:
            pass


def main(count: int, seed: int) -> dict[str, object]:
    """Read `count` damaged files; what was reached, what crashed, and the longest that one took."""
    source, sound = random.Random(seed), seeds()
    stages: Counter[str] = Counter()
    crashes: list[str] = []
    deep, slowest = 0, 0.0
    reached: set[str] = set()
    watch(reached)
    with tempfile.TemporaryFile() as file:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        for _ in range(count):
            content = mutated(source.choice(sound), source)
            os.ftruncate(file.fileno(), 0)
            os.pwrite(file.fileno(), content, 0)
            reached.clear()
            started = time.process_time()
            try:
                everything(file.fileno(), reached)
            except BaseException:
                crashes.append(traceback.format_exc())
            slowest = max(slowest, time.process_time() - started)
            stages.update(reached)
            deep += bool(reached & ENTRIES)
    return {"files": count, "deep": deep, "stages": stages, "slowest_ms": slowest * 1e3, "crashes": crashes[:3]}


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:3]]
    print(json.dumps(main(*(numbers + [2400, 1][len(numbers) :]))))
