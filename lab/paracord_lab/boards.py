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
# What drivers and programs share.
INCLUDE = BOARDS / "include"


@dataclass(frozen=True)
class Description:
    """What the emulator and the host's kernel are told. binds: as of tree.enter()."""

    arguments: Sequence[str] = ()
    binds: Mapping[str, Path] = field(default_factory=dict)
    cmdline: str = ""


NOTHING = Description()


def set_governor(host, name: str = "schedutil") -> None:
    """Of all CPUs."""
    host.run(f"echo {name} | tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor")


class JunoR2:
    """
    Arm's Juno r2 as its device tree and firmware describe it (lab/boards/juno_r2/cpufreq.c), with the small
    CPUs first, as seed 003 numbers them: 0-3 of capacity 383, 4 and 5 of 1024. The small ones have one
    frequency, the large ones another.
    """

    name = "juno-r2"
    arch = "aarch64"
    cpus = 6
    little = (0, 1, 2, 3)
    big = (4, 5)
    big_mhz = 1200

    def describe(self, memory_mb: int) -> Description:
        arch = emulator.architecture(self.arch)
        words = (arch.emulator, arch.host_machine, arch.emulated_cpu, str(self.cpus), str(memory_mb))
        made = _make(self, "host-dtb", "host.dtb", words)
        return Description(("-dtb", "/mnt/board/host.dtb"), {"/mnt/board": made})

    def start(self, host) -> None:
        """Loads the driver and waits for the scheduler to know what the CPUs cost."""
        host.run("insmod /payload/modules/juno_r2.ko")
        set_governor(host)


class X86PStates:
    """
    A server as its firmware describes it: P-states in ACPI, one of them for each CPU, and the kernel's own
    driver. The frequencies are the range of an Intel Xeon E5-2670 without turbo. All CPUs are equal; nothing
    tells the kernel how fast a CPU is at present (no APERF and MPERF in an emulated one).
    """

    name = "x86-pstates"
    arch = "x86_64"
    cpus = 2
    mhz = (2600, 2400, 2200, 2000, 1800, 1600, 1400, 1200)

    def describe(self, memory_mb: int) -> Description:
        arch = emulator.architecture(self.arch)
        processors, _ = emulator.processors(arch, "tcg", self.cpus)
        made = _make(self, "host-ssdt", "host.aml", (str(processors), *map(str, self.mhz)))
        return Description(
            # The driver refuses the family of the emulator's own model, which had a driver of its own.
            ("-acpitable", "file=/mnt/board/host.aml", "-cpu", f"{arch.emulated_cpu},family=16"),
            {"/mnt/board": made},
            # A clock that might depend on the frequency rules fast switching out.
            "setcpuid=constant_tsc",
        )

    def start(self, host) -> None:
        host.run("modprobe acpi-cpufreq")
        set_governor(host)


Board = JunoR2 | X86PStates
ALL: dict[str, Board] = {board.name: board for board in (JunoR2(), X86PStates())}


def load(name: str) -> Board:
    """The board; KeyError when there is none of that name."""
    return ALL[name]


def of_architecture(arch: str) -> list[Path]:
    """Directories with the drivers of an architecture's boards."""
    directories = [_directory(board) for board in ALL.values() if board.arch == arch]
    return [directory for directory in directories if (directory / "Kbuild").is_file()]


def _directory(board: Board) -> Path:
    return BOARDS / board.name.replace("-", "_")


def _make(board: Board, script: str, made: str, words: Sequence[str]) -> Path:
    """The directory with the file `made` that the board's script writes, in the tools tree."""
    tools = tree.ensure("tools", board.arch)
    directory = _directory(board)
    argv = [f"/mnt/board/{script}", f"/mnt/out/{made}", *words]

    def run(out: Path, _) -> None:
        tree.run_in(tools, argv, {"/mnt/board": directory, "/mnt/out": out}, what=script)

    sources = cache.files_digest([directory / script])
    key = {"tools": tools.name, "argv": argv, "sources": sources}
    return cache.ensure("board", board.arch, key, f"the hardware description of {board.name}", run)
