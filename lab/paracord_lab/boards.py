# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Hosts with CPU frequencies: what describes the hardware to the kernel, and its driver.

An emulated CPU is as fast at any frequency. What the kernel and schedulers see and decide is real:
capacities, operating points, the governor, the energy model. Work that shall take longer on a slow CPU must
ask how fast it would be (lab/programs/pc_task.c).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import cache, emulator, tree
from .images import LAB

BOARDS = LAB / "boards"


@dataclass(frozen=True)
class Description:
    """What the emulator and the host's kernel are told. binds: as of tree.enter()."""

    arguments: Sequence[str] = ()
    binds: Mapping[str, Path] = field(default_factory=dict)
    cmdline: str = ""


NOTHING = Description()


class JunoR2:
    """
    Arm's Juno r2 as its device tree and firmware describe it (lab/boards/juno_r2/juno_r2.c), with the small
    CPUs first, as seed 003 numbers them: 0-3 of capacity 383, 4 and 5 of 1024. The small ones have one
    frequency, the large ones another.
    """

    name = "juno-r2"
    arch = "aarch64"
    cpus = 6
    little = (0, 1, 2, 3)
    big = (4, 5)

    def describe(self, memory_mb: int) -> Description:
        tools = tree.ensure("tools", self.arch)
        script = BOARDS / "juno_r2/host-dtb"
        arch = emulator.architecture(self.arch)
        argv = [
            *("/mnt/board/host-dtb", "/mnt/out/host.dtb", arch.emulator, arch.host_machine),
            *(arch.emulated_cpu, str(self.cpus), str(memory_mb)),
        ]
        made = cache.ensure(
            "board",
            self.arch,
            {"tools": tools.name, "argv": argv, "sources": cache.files_digest([script])},
            f"the device tree of {self.name}",
            lambda directory, _: _run(tools, argv, script.parent, directory),
        )
        return Description(("-dtb", "/mnt/board/host.dtb"), {"/mnt/board": made})

    def start(self, host) -> None:
        """Loads the driver and waits for the scheduler to know what the CPUs cost."""
        host.run("insmod /payload/modules/juno_r2.ko")
        host.run("echo schedutil | tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor")


ALL = {board.name: board for board in (JunoR2(),)}


def load(name: str) -> JunoR2:
    """The board; KeyError when there is none of that name."""
    return ALL[name]


def of_architecture(arch: str) -> list[Path]:
    """Directories with the drivers of an architecture's boards."""
    names = [board.name.replace("-", "_") for board in ALL.values() if board.arch == arch]
    return [BOARDS / name for name in names if (BOARDS / name / "Kbuild").is_file()]


def _run(tools: Path, argv: list[str], board: Path, out: Path) -> None:
    tree.run_in(tools, argv, {"/mnt/board": board, "/mnt/out": out}, what=argv[0])
