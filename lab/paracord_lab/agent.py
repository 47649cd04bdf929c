# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Compiles lab-agent (lab/agent/agent.c) in the tools tree, so that the machine that runs the lab
needs no C compiler.
"""

from __future__ import annotations

from pathlib import Path

from . import cache, tree
from .progress import Progress
from .tree_specs import cross_prefix

SOURCE = Path(__file__).resolve().parent.parent / "agent/agent.c"


def ensure(arch: str) -> Path:
    """
    Returns the agent of an architecture. It is linked statically, because it runs on the host, in
    the guest and natively.
    """
    tools = tree.ensure("tools", arch)

    def build(directory: Path, _: Progress) -> None:
        options = ["-O2", "-Wall", "-Wextra", "-Werror", "-static"]
        tree.run_in(
            tools,
            [f"{cross_prefix(arch)}gcc", *options, "-o", "/mnt/out/lab-agent", "/mnt/agent/agent.c"],
            {"/mnt/agent": SOURCE.parent, "/mnt/out": directory},
            what="compiling lab/agent/agent.c",
        )

    inputs = {"tree": tools.name, "sources": cache.files_digest([SOURCE])}
    return cache.ensure("agent", arch, inputs, f"the agent of machines ({arch})", build) / "lab-agent"
