# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
What a program of a tree needs to run, read from its ELF headers, because this machine may not be
able to run it.
"""

from __future__ import annotations

import re
from pathlib import Path

from . import tree
from .errors import LabError

LIBRARY_DIRECTORIES = ("usr/lib/*-linux-gnu*", "usr/lib", "usr/lib64")


def libraries(tools: Path, of: Path, program: str) -> list[str]:
    """Absolute paths, in the tree `of`, of the loader and of the shared libraries that a program needs."""
    found: list[str] = []
    todo = [program]
    while todo:
        headers = tree.run_in(
            tools,
            ["readelf", "--dynamic", "--program-headers", "--wide", f"/mnt/tree{todo.pop()}"],
            {"/mnt/tree": of},
            what=f"readelf {program}",
        )
        needed = re.findall(r"program interpreter: (/\S+)\]", headers)
        needed += [_find(of, name) for name in re.findall(r"\(NEEDED\).*\[(\S+)\]", headers)]
        new = [path for path in needed if path not in found]
        found += new
        todo += new
    return found


def _find(of: Path, name: str) -> str:
    for pattern in LIBRARY_DIRECTORIES:
        for path in sorted(of.glob(f"{pattern}/{name}")):
            return f"/{path.relative_to(of)}"
    raise LabError(f"{of} has no {name}: remove the directory and try again")
