# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Hosts with CPU frequencies: the description of the hardware for the kernel, and its driver.

An emulated CPU has the same speed at any frequency. What the kernel and schedulers see and decide
is real: capacities, operating points, the governor, the energy model. Programs whose work should
take longer on a slow CPU must ask how fast the CPU would be (lab/programs/pc_task.c).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import cache, emulator, tree
from .images import LAB

BOARDS = LAB / "boards"
# Headers that drivers and programs share.
INCLUDE = BOARDS / "include"


@dataclass(frozen=True)
class Description:
    """The description for the emulator and for the host's kernel. binds: as for tree.enter()."""

    arguments: Sequence[str] = ()
    binds: Mapping[str, Path] = field(default_factory=dict)
    cmdline: str = ""


NOTHING = Description()


def set_governor(host, name: str = "schedutil") -> None:
    """Sets the governor of all CPUs."""
    host.run(f"echo {name} | tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor")


class JunoR2:
    """
    Arm's Juno r2, as its device tree and firmware describe it (lab/boards/juno_r2/cpufreq.c). The
    small CPUs come first: 0-3 have capacity 383, 4 and 5 have capacity 1024. All small CPUs have
    the same frequency, and all large ones have the same frequency.
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
        """Loads the driver, and waits until the scheduler knows the energy costs of the CPUs."""
        host.run("insmod /payload/modules/juno_r2.ko")
        set_governor(host)


class X86PStates:
    """
    A server as its firmware describes it: P-states in ACPI, separate for each CPU, and the kernel's
    own driver. The frequencies are the range of an Intel Xeon E5-2670 without turbo. All CPUs are
    equal. The kernel cannot learn how fast a CPU is at present, because an emulated CPU has no
    APERF and MPERF.
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
            # The driver refuses the CPU family of the emulator's default model, because older CPUs
            # have another driver.
            ("-acpitable", "file=/mnt/board/host.aml", "-cpu", f"{arch.emulated_cpu},family=16"),
            {"/mnt/board": made},
            # The kernel does not use fast switching if the clock may depend on the frequency.
            "setcpuid=constant_tsc",
        )

    def start(self, host) -> None:
        host.run("modprobe acpi-cpufreq")
        set_governor(host)


Board = JunoR2 | X86PStates
ALL: dict[str, Board] = {board.name: board for board in (JunoR2(), X86PStates())}


def load(name: str) -> Board:
    """Returns the board. KeyError if there is no board with this name."""
    return ALL[name]


def of_architecture(arch: str) -> list[Path]:
    """The directories of the drivers of an architecture's boards."""
    directories = [_directory(board) for board in ALL.values() if board.arch == arch]
    return [directory for directory in directories if (directory / "Kbuild").is_file()]


def _directory(board: Board) -> Path:
    return BOARDS / board.name.replace("-", "_")


def _make(board: Board, script: str, made: str, words: Sequence[str]) -> Path:
    """Returns the directory with the file `made`, which the board's script writes in the tools tree."""
    tools = tree.ensure("tools", board.arch)
    directory = _directory(board)
    argv = [f"/mnt/board/{script}", f"/mnt/out/{made}", *words]

    def run(out: Path, _) -> None:
        tree.run_in(tools, argv, {"/mnt/board": directory, "/mnt/out": out}, what=script)

    sources = cache.files_digest([directory / script])
    key = {"tools": tools.name, "argv": argv, "sources": sources}
    return cache.ensure("board", board.arch, key, f"the hardware description of {board.name}", run)
