# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The guest module in a real guest: what it publishes, what it refuses, and that it leaves nothing behind.

The host plays its part of the shared region by hand here (no daemon), so that each line can be wrong on
purpose. Offsets come out of the ABI header through the compiler.
"""

from __future__ import annotations

import collections
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paracord_lab import machine, region_file, tree
from paracord_lab.host_share import running

pytestmark = pytest.mark.lab

REPOSITORY = Path(__file__).resolve().parents[2]
REGION = "/dev/shm/paracord/module"
MONITOR = "/run/lab/module.monitor"
STATE = "/sys/bus/pci/drivers/paracord_guest/0*/paracord"
# Where the module's own memory is the region.
OWN_STATE = "/sys/devices/platform/paracord_guest/paracord"
NEEDED_SERIES = ("6.1.", "6.12.", "7.")
# KVM's answer-free hypercall of guest/arch_x86.c.
KICK_HYPERCALL = 0x50434B
FIELDS = {
    "paracord_header": (
        *("magic", "abi_major", "header_bytes", "region_bytes", "slot_stride_bytes", "slot_count"),
        *("stale_boost_kick_us", "host_features", "guest_features", "guest_line_bytes"),
    ),
    "paracord_slot": (
        *("guest.context.task_class", "guest.context.task_prio"),
        *("guest.preempt_count_gpa", "guest.preempt_count_mask", "guest.kicks"),
        *("host.boost_state", "host.boosts"),
    ),
}
CONSTANTS = (
    *("PARACORD_SLOT_OFFSET_BYTES", "PARACORD_SLOT_STRIDE_BYTES", "PARACORD_LINE_BYTES"),
    *("PARACORD_TASK_IDLE", "PARACORD_TASK_NORMAL", "PARACORD_TASK_RT", "PARACORD_BOOST_ON"),
    *("PARACORD_F_BOOST", "PARACORD_F_PREEMPT_COUNT", "PARACORD_F_KICK", "PARACORD_ANNOUNCED_FEATURES"),
)


@pytest.fixture(scope="session")
def abi(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    return region_file.compile_abi(tmp_path_factory.mktemp("abi"), FIELDS, CONSTANTS)


@pytest.fixture(scope="module")
def booted_guest(host: machine.Host) -> Iterator[machine.Guest]:
    monitor = ("-monitor", f"unix:{MONITOR},server=on,wait=off")
    with host.guest("module", vcpus=2, extra_args=monitor) as guest:
        host.run(f"cp {REGION} /run/lab/module.fresh")
        yield guest


@pytest.fixture
def guest(host: machine.Host, booted_guest: machine.Guest) -> Iterator[machine.Guest]:
    """The guest with a fresh region and no module; afterwards no module and no complaint of its kernel."""
    host.run(f"dd if=/run/lab/module.fresh of={REGION} conv=notrunc status=none")
    booted_guest.run("dmesg -c >/dev/null")
    yield booted_guest
    booted_guest.run("if grep -q ^paracord_guest /proc/modules; then rmmod paracord_guest; fi")
    log = booted_guest.run("dmesg").out
    assert not [
        line
        for line in log.splitlines()
        if any(w in line for w in ("BUG:", "WARNING:", "Oops", "Call Trace"))
    ]


def poke(host: machine.Host, offset: int, value: int, size: int) -> None:
    region_file.poke(host, REGION, offset, value, size)


def peek(host: machine.Host, offset: int, size: int) -> int:
    return region_file.peek(host, REGION, offset, size)


def slot(abi: dict[str, int], number: int) -> int:
    return abi["PARACORD_SLOT_OFFSET_BYTES"] + number * abi["PARACORD_SLOT_STRIDE_BYTES"]


def class_samples(host: machine.Host, abi: dict[str, int], number: int, seconds: float = 1) -> list[int]:
    """task_class of a slot, read by the host some 50 times a second, in the order of time."""
    offset = slot(abi, number) + abi["paracord_slot.guest.context.task_class"]
    look = f"od -An -tu1 -j {offset} -N 1 {REGION}; sleep 0.01"
    now = "$(date +%s%N)"
    end = f"end=$(({now} + {int(seconds * 1e9)}))"
    return [int(word) for word in host.run(f"{end}; while [ {now} -lt $end ]; do {look}; done").out.split()]


def usual_class(host: machine.Host, abi: dict[str, int], number: int) -> int:
    """task_class of a slot, as it is most of the time."""
    return collections.Counter(class_samples(host, abi, number)).most_common(1)[0][0]


def state(guest: machine.Guest, name: str) -> str:
    return guest.run(f"cat {STATE}/{name}").out.strip()


def module_lines(guest: machine.Guest) -> list[str]:
    lines = guest.run("dmesg").out.splitlines()
    return [
        line
        for line in lines
        if "paracord_guest" in line and "module verification" not in line and "taint" not in line
    ]


def test_builds_against_every_kernel(tmp_path: Path) -> None:
    """The matrix: Debian's 6.1, 6.12 and 7.x headers, no warning; and a warning is a failure."""
    matrix = tree.ensure("matrix")
    directories = [directory for _, directory in tree.header_dirs()]
    binds = {"/mnt/guest": REPOSITORY / "guest", "/mnt/abi": REPOSITORY / "abi"}
    out = tree.run_in(matrix, ["/mnt/guest/matrix.sh", *directories], binds, what="the build matrix")
    built = [line.split()[1] for line in out.splitlines() if line.startswith("ok ")]
    assert len(built) == len(directories)
    for series in NEEDED_SERIES:
        assert any(release.startswith(series) for release in built), (
            f"no {series}x headers in the matrix tree"
        )

    broken = tmp_path / "guest"
    shutil.copytree(REPOSITORY / "guest", broken)
    with (broken / "vcpu.c").open("a") as source:
        source.write("static int nobody_uses_this;\n")
    argv = tree.enter(matrix, ["/mnt/guest/matrix.sh", directories[-1]], {**binds, "/mnt/guest": broken})
    failed = subprocess.run(argv, capture_output=True, text=True)
    assert failed.returncode == 1
    assert "nobody_uses_this" in failed.stdout


def test_dkms_builds_and_removes_it(tmp_path: Path) -> None:
    subprocess.run(["make", "-C", REPOSITORY / "guest", "dkms-tree", f"DESTDIR={tmp_path}"], check=True)
    (source,) = (tmp_path / "usr/src").iterdir()
    name, _, version = source.name.rpartition("-")
    release, headers = tree.header_dirs()[-1]
    script = f"""
        dkms() {{ command dkms "$1" --sourcetree /mnt/src --dkmstree /mnt/dkms --installtree /mnt/modules \\
            -m {name} -v {version} "${{@:2}}"; }}
        dkms add; dkms build -k {release} --kernelsourcedir {headers}
        dkms status; find /mnt/dkms -name '{name}.ko*'; dkms remove --all; dkms status; echo end
    """
    state = tmp_path / "dkms"
    state.mkdir()
    binds = {"/mnt/src": source.parent, "/mnt/dkms": state}
    out = tree.run_in(tree.ensure("matrix"), ["bash", "-ec", script], binds, what="DKMS")
    assert f"{name}/{version}, {release}" in out
    assert f"{release}/x86_64/module/{name}.ko" in out
    assert "Error" not in out
    assert not list(state.glob(f"{name}/*")), out


def test_without_device(host: machine.Host, abi: dict[str, int]) -> None:
    with host.guest("bare", region=False) as bare:
        bare.load_module(announce=0)
        (line,) = module_lines(bare)
        assert "no region: " in line
        bare.unload_module()
        bare.load_module()
        assert "1 vCPUs published" in module_lines(bare)[-1]
        features = int(bare.run(f"cat {OWN_STATE}/features").out, 16)
        assert features == abi["PARACORD_ANNOUNCED_FEATURES"]
        bare.unload_module()
        assert bare.run(f"ls {OWN_STATE}", check=False).rc != 0


def test_publishes_the_running_task(host: machine.Host, guest: machine.Guest, abi: dict[str, int]) -> None:
    guest.load_module()
    (line,) = module_lines(guest)
    assert "2 vCPUs published" in line
    features = peek(host, abi["paracord_header.guest_features"], 4)
    assert features == abi["PARACORD_F_BOOST"] | abi["PARACORD_F_PREEMPT_COUNT"] | abi["PARACORD_F_KICK"]
    assert peek(host, abi["paracord_header.guest_line_bytes"], 4) == abi["PARACORD_LINE_BYTES"]
    assert state(guest, "hooks") == "switch,prio"

    assert usual_class(host, abi, 0) == abi["PARACORD_TASK_IDLE"]
    for priority, expected in ((0, "PARACORD_TASK_NORMAL"), (50, "PARACORD_TASK_RT")):
        with running(guest, f"exec pc_hog --cpu 1 --priority {priority}", "hog"):
            time.sleep(0.5)
            assert usual_class(host, abi, 1) == abi[expected]
            prio = peek(host, slot(abi, 1) + abi["paracord_slot.guest.context.task_prio"], 1)
            assert prio == (99 - 50 if priority else 120)
            assert usual_class(host, abi, 0) == abi["PARACORD_TASK_IDLE"]


def test_setscheduler_on_the_running_task(
    host: machine.Host, guest: machine.Guest, abi: dict[str, int]
) -> None:
    """It has no tracepoint and needs no context switch: the CPU looks again by itself, and soon."""
    guest.load_module(hooks="none")
    toggling = "exec pc_hog --cpu 1 --priority 50 --priority_after_ms 500 --toggle_ms 500"
    with running(guest, toggling, "hog"):
        time.sleep(1)
        seen = class_samples(host, abi, 1, seconds=10)
    changes = sum(before != after for before, after in itertools.pairwise(seen))
    assert changes >= 12, seen


def words_at(host: machine.Host, gpa: int) -> list[int]:
    """The guest's 32-bit word at an address, as QEMU's monitor shows it up to 40 times in some seconds."""
    asks = f"i=0; while [ $i -lt 40 ]; do echo 'xp /1wx {gpa:#x}'; sleep 0.05; i=$((i + 1)); done"
    lines = host.run(f"({asks}) | socat -t 5 - UNIX-CONNECT:{MONITOR}").out.splitlines()
    words = [int(line.split(":")[1], 16) for line in lines if line.startswith(f"{gpa:016x}:")]
    assert len(words) >= 30, lines
    return words


def share(words: list[int], word: int) -> float:
    return words.count(word) / len(words)


def test_preempt_count_lies_where_it_says(
    host: machine.Host, guest: machine.Guest, abi: dict[str, int]
) -> None:
    """
    User mode has preemption on, the idle task has not. A CPU in a loop is seen in user mode more often than
    one that is idle, and less often in the idle task, whichever of the two it is. An emulated CPU spends a
    good part of its time in interrupts, so neither is seen always.
    """
    guest.load_module()
    # The layouts that the host's policy knows (policy/guest_view.h). On x86 "no reschedule wanted" is bit 31,
    # since 7.3 bit 63 (arch/x86/include/asm/preempt.h).
    release = tuple(map(int, guest.run("uname -r").out.split("-")[0].split(".")[:2]))
    expected, inverted = (0xFF00_FFFF, 0) if release >= (7, 3) else (0x00FF_FFFF, 1 << 31)
    seen: dict[int, list[list[int]]] = {}
    for busy in (0, 1):
        with running(guest, f"exec pc_hog --cpu {busy}", "hog"):
            time.sleep(0.5)
            seen[busy] = [
                words_at(host, peek(host, slot(abi, cpu) + abi["paracord_slot.guest.preempt_count_gpa"], 8))
                for cpu in (0, 1)
            ]
            mask = peek(host, slot(abi, busy) + abi["paracord_slot.guest.preempt_count_mask"], 4)
            assert mask == expected, hex(mask)
    for busy, words in seen.items():
        assert share(words[busy], inverted) > share(words[1 - busy], inverted) + 0.1, seen
        assert share(words[1 - busy], inverted | 1) > share(words[busy], inverted | 1) + 0.1, seen


def test_hotplug(host: machine.Host, guest: machine.Guest, abi: dict[str, int]) -> None:
    guest.load_module()
    line = slot(abi, 1)
    assert peek(host, line, abi["PARACORD_LINE_BYTES"])
    guest.run("echo 0 > /sys/devices/system/cpu/cpu1/online")
    assert peek(host, line, abi["PARACORD_LINE_BYTES"]) == 0
    assert state(guest, "vcpus_published") == "1"
    guest.run("echo 1 > /sys/devices/system/cpu/cpu1/online")
    assert peek(host, line + abi["paracord_slot.guest.preempt_count_gpa"], 8)
    assert state(guest, "vcpus_published") == "2"
    guest.run("echo 0 > /sys/devices/system/cpu/cpu1/online")
    guest.unload_module()
    guest.run("echo 1 > /sys/devices/system/cpu/cpu1/online")
    assert peek(host, line, abi["PARACORD_LINE_BYTES"]) == 0


def test_unload_leaves_nothing(host: machine.Host, guest: machine.Guest, abi: dict[str, int]) -> None:
    # QEMU's TCG can run a stale breakpoint of the kernel's text patching when the patched code is hot, and
    # the guest dies of it, with or without this module: under emulation the guest is idle here.
    command = "sleep 1000" if host.accelerator == "tcg" else "pc_pipe --rounds 1000 --transfers 500"
    load = guest.spawn(f"exec {command}", "load")
    for _ in range(10):
        guest.load_module()
        assert peek(host, slot(abi, 0), 8)
        guest.unload_module()
        for number in (0, 1):
            assert peek(host, slot(abi, number), abi["PARACORD_LINE_BYTES"]) == 0
        assert peek(host, abi["PARACORD_LINE_BYTES"], abi["PARACORD_LINE_BYTES"]) == 0
    load.kill("KILL")
    load.wait(10)
    assert guest.run("ls -d /sys/bus/pci/drivers/paracord_guest", check=False).rc != 0
    assert "paracord" not in guest.run("cat /proc/iomem /proc/modules").out


@pytest.mark.parametrize(
    ("field", "size", "value", "line"),
    [
        ("magic", 8, 0x1122334455667788, "not a paracord region"),
        ("abi_major", 2, 2, "this driver knows 1: update the driver"),
        pytest.param("abi_major", 2, 0, "update the host", marks=pytest.mark.long),
        pytest.param("header_bytes", 4, 64, "header of 64 bytes", marks=pytest.mark.long),
        ("header_bytes", 4, 0xFFFFFFFF, "header of 4294967295 bytes"),
        pytest.param("region_bytes", 8, 4096, "region too small", marks=pytest.mark.long),
        ("region_bytes", 8, 1 << 63, "region too small"),
        pytest.param("slot_stride_bytes", 4, 64, "slot stride of 64", marks=pytest.mark.long),
        pytest.param("slot_stride_bytes", 4, 1000, "slot stride of 1000", marks=pytest.mark.long),
        ("slot_stride_bytes", 4, 0xFFFFFFC0, "slot stride of"),
        pytest.param("slot_count", 4, 0, "slot count of 0", marks=pytest.mark.long),
        pytest.param("slot_count", 4, 4097, "slot count of 4097", marks=pytest.mark.long),
        ("slot_count", 4, 4096, "region too small"),
    ],
)
def test_refuses(
    host: machine.Host,
    guest: machine.Guest,
    abi: dict[str, int],
    field: str,
    size: int,
    value: int,
    line: str,
) -> None:
    """A wrong header: one line, nothing published, nothing attached, and the module can go again."""
    poke(host, abi[f"paracord_header.{field}"], value, size)
    guest.load_module(announce=0)
    said, *rest = module_lines(guest)
    assert line in said
    # A device that is no paracord region is none for the module, which says that it has none.
    assert len(rest) == (field == "magic"), rest
    assert peek(host, slot(abi, 0), abi["PARACORD_LINE_BYTES"]) == 0
    assert peek(host, abi["PARACORD_LINE_BYTES"], abi["PARACORD_LINE_BYTES"]) == 0
    guest.unload_module()


def test_vcpu_without_slot(host: machine.Host, guest: machine.Guest, abi: dict[str, int]) -> None:
    poke(host, abi["paracord_header.slot_count"], 1, 4)
    guest.load_module()
    assert (state(guest, "vcpus_published"), state(guest, "vcpus_without_slot")) == ("1", "1")
    assert peek(host, slot(abi, 1), abi["PARACORD_LINE_BYTES"]) == 0


def test_hooks_parameter(guest: machine.Guest) -> None:
    guest.load_module(hooks="none")
    assert state(guest, "hooks") == "switch"
    guest.unload_module()
    guest.load_module(hooks="all")
    assert state(guest, "hooks") == "switch,prio,irq,timer,softirq,idle,nmi"
    guest.unload_module()
    guest.load_module(hooks="irq,bogus")
    assert any('unknown "bogus"' in line for line in module_lines(guest))
    assert guest.run(f"ls {STATE}", check=False).rc != 0


def test_hooks_tell_what_preempt_count_does_not(
    host: machine.Host, guest: machine.Guest, abi: dict[str, int]
) -> None:
    poke(host, abi["paracord_header.host_features"], abi["PARACORD_F_BOOST"], 4)
    guest.load_module()
    assert state(guest, "hooks") == "switch,prio,irq,timer,softirq,idle,nmi"


@pytest.mark.measures
@pytest.mark.parametrize("kick", [1, 0])
def test_kick(host: machine.Host, guest: machine.Guest, abi: dict[str, int], kick: int) -> None:
    """A boost that the host never takes back: exits for it with the kick, none without."""
    poke(host, slot(abi, 0) + abi["paracord_slot.host.boosts"], 1, 4)
    poke(host, slot(abi, 0) + abi["paracord_slot.host.boost_state"], abi["PARACORD_BOOST_ON"], 1)
    guest.load_module(kick=kick, stale_boost_kick_us=2000)
    trace = "/sys/kernel/tracing/instances/kick"
    host.run(f"mkdir -p {trace}; echo 'nr=={KICK_HYPERCALL:#x}' > {trace}/events/kvm/kvm_hypercall/filter")
    host.run(f"echo > {trace}/trace; echo 1 > {trace}/events/kvm/kvm_hypercall/enable")
    audio = "pc_audio --cpu 0 --period_us 5000 --work_permille 50 --seconds 3 --loops_per_ms 20000"
    with running(guest, "exec pc_hog --cpu 0", "hog"):
        out = guest.run(audio).out
    host.run(f"echo 0 > {trace}/events/kvm/kvm_hypercall/enable")
    exits = int(host.run(f"grep -c kvm_hypercall: {trace}/trace", check=False).out)
    kicks = int(state(guest, "kicks"))
    drops = int(state(guest, "stale_boosts"))
    assert json.loads(out)["callbacks"] > 100
    assert drops > 0
    # One more may come between the two looks.
    assert 0 <= kicks - exits <= 2
    if kick:
        assert kicks > 50
        assert peek(host, slot(abi, 0) + abi["paracord_slot.guest.kicks"], 4) == kicks
    else:
        assert kicks == 0
