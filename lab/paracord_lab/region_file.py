# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The file of the shared region. Tests in a host read and write it at the offsets of the ABI header."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from . import tree
from .rust import REPOSITORY

if TYPE_CHECKING:
    from .machine import Host


def compile_abi(work: Path, fields: Mapping[str, Iterable[str]], constants: Iterable[str]) -> dict[str, int]:
    """Offsets ("paracord_slot.host.boosts") and constants of abi/paracord_abi.h."""
    prints = [f'P("{s}.{f}", offsetof(struct {s}, {f}));' for s, names in fields.items() for f in names]
    prints += [f'P("{name}", {name});' for name in constants]
    (work / "abi.c").write_text(
        '#include <stdio.h>\n#include "paracord_abi.h"\n'
        '#define P(name, value) printf("%s %ld\\n", name, (long)(value))\n'
        "int main(void) { " + " ".join(prints) + " return 0; }\n"
    )
    binds = {"/mnt/work": work, "/mnt/abi": REPOSITORY / "abi"}
    script = "gcc -I/mnt/abi -o /mnt/work/abi /mnt/work/abi.c && /mnt/work/abi"
    out = tree.run_in(tree.ensure("tools"), ["sh", "-c", script], binds, what="compiling the ABI header")
    return {name: int(value) for name, value in (line.split() for line in out.splitlines())}


def poke(host: Host, path: str, offset: int, value: int, size: int) -> None:
    """Stores `size` bytes with one write."""
    octal = "".join(f"\\{byte:03o}" for byte in value.to_bytes(size, "little"))
    file = shlex.quote(path)
    # Offsets in a region are multiples of the stored size, because dd seeks in units of it.
    assert offset % size == 0
    host.run(f"printf '{octal}' | dd of={file} bs={size} seek={offset // size} conv=notrunc status=none")


def peek(host: Host, path: str, offset: int, size: int) -> int:
    """Loads `size` bytes."""
    out = host.run(f"od -An -v -tx1 -j {offset} -N {size} {shlex.quote(path)}").out
    return int.from_bytes(bytes.fromhex("".join(out.split())), "little")
