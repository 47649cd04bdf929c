# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""T1: paracord's own VMM on emulated hosts of both architectures: boots, serves, ends, and is found."""

import shlex
import statistics

import pytest

from paracord_lab.daemon import Daemon

pytestmark = pytest.mark.lab
VMM = "/payload/bin/paracord-vmm"
KERNEL = "--kernel /payload/vmlinux --initramfs /payload/guest.cpio"
# PARACORD_F_BOOST of abi/paracord_abi.h
BOOST = 1 << 0
MODULE_STATE = "/sys/bus/pci/drivers/paracord_guest/0*/paracord"


@pytest.fixture(scope="module")
def host(host_of_each_architecture):
    return host_of_each_architecture


def refusal(host, words):
    """Exit code and message of a VM that is refused."""
    done = host.run(f"timeout 20 {VMM} {words} </dev/null >/dev/null", check=False)
    return done.rc, done.err


@pytest.fixture(scope="module")
def guest(host):
    """Four vCPUs, two of them bound to a CPU of the host each, and the module."""
    last = host.cpus - 1
    affinity = f"1={host_cpus(host)[0]}:2={host_cpus(host)[last]}"
    with host.guest("four", vcpus=4, vmm="paracord", extra_args=("--cpu-affinity", affinity)) as booted:
        booted.load_module()
        yield booted


def host_cpus(host):
    """Those that the lab leaves to guests."""
    allowed = host.run("taskset -cp 1").out.rpartition(":")[2]
    cpus = []
    for part in allowed.strip().split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def test_power_off_ends_it_cleanly(host):
    with host.guest("one", vcpus=1, region=False, vmm="paracord") as guest:
        assert guest.run("nproc").out.strip() == "1"
        assert guest.run("uname -r").out.strip() == host.kernel
        guest.channel.spawn("poweroff -f")
        assert guest.wait() == 0
    assert host.run("ls /run/lab/one.*", check=False).out == "", "the channel's socket is removed"
    assert "panic" not in (host.logs / "one.serial.log").read_text()


@pytest.mark.long
def test_restart_ends_it_too(host):
    with host.guest("again", vcpus=2, region=False, vmm="paracord") as guest:
        guest.channel.spawn("reboot -f")
        assert guest.wait() == 0


def test_all_cpus_come_up(guest):
    assert guest.run("cat /sys/devices/system/cpu/online").out.strip() == "0-3"
    for cpu in range(4):
        guest.run(f"taskset {1 << cpu:x} true")
    assert guest.run("seq 2000 | sha256sum; seq 2000 | wc -c").out.split()[-1] == "8893"


def test_much_output_arrives_whole(guest):
    lines = guest.run("seq 3000", timeout=120).out.split()
    assert lines == [str(number) for number in range(1, 3001)]


def test_input_arrives_whole(guest):
    words = " ".join(str(number) for number in range(1500))
    assert guest.run(f"echo {words} | wc -w").out.strip() == "1500"


def test_the_module_finds_its_region(guest):
    features = int(guest.run(f"cat {MODULE_STATE}/features").out, 16)
    assert features & BOOST
    resources = guest.run("cat /sys/bus/pci/drivers/paracord_guest/0*/resource").out.splitlines()
    start, end, _ = (int(word, 16) for word in resources[2].split())
    assert end - start + 1 == int(guest._host.run("stat -c %s /dev/shm/paracord/four").out)


@pytest.mark.needs("btf")
def test_the_daemon_knows_the_vm_and_its_driver(host, guest):
    with Daemon(host).start(guest.vcpu_tids) as daemon:
        vms = {vm["name"]: vm for vm in daemon.status()["vms"]}
        assert sorted(vms) == ["four"]
        assert [vcpu["tid"] for vcpu in vms["four"]["vcpus"]] == guest.vcpu_tids
        # The region is read and written: its guest's driver is known.
        assert vms["four"]["region"], vms["four"]


def test_threads_run_where_they_are_bound(host, guest):
    allowed = [host.run(f"taskset -cp {tid}").out.rpartition(":")[2].strip() for tid in guest.vcpu_tids]
    cpus = host_cpus(host)
    assert (allowed[1], allowed[2]) == (str(cpus[0]), str(cpus[-1]))
    assert allowed[0] == allowed[3] == host.run("taskset -cp 1").out.rpartition(":")[2].strip()


@pytest.mark.long
@pytest.mark.parametrize("signal", ["TERM", "INT"])
def test_signals_end_it_cleanly(host, signal):
    with host.guest("told", vcpus=2, region=False, vmm="paracord") as guest:
        host.run(f"kill -{signal} {guest.pid}")
        assert guest.wait() == 0
    assert host.run("ls /run/lab | grep told", check=False).out == ""


@pytest.mark.long
def test_a_killed_one_leaves_nothing_that_a_new_one_trips_over(host):
    for _ in range(2):
        with host.guest("killed", vcpus=2, vmm="paracord") as guest:
            guest.kill("KILL")
        assert not guest.running


def test_bad_input_is_one_line_that_says_what_to_do(host):
    host.run("printf x > /tmp/short; truncate -s 8192 /tmp/zeroes; chmod 600 /tmp/zeroes")
    for words, code, says in [
        ("", 2, "--kernel"),
        ("--kernel /payload/vmlinux --vcpus 0", 2, "1 to 64"),
        ("--kernel /payload/vmlinux --vcpus many", 2, "many"),
        ("--kernel /nonexistent", 1, "/nonexistent: No such file"),
        ("--kernel /tmp/short", 1, "/tmp/short: is no"),
        ("--kernel /payload/vmlinux --initramfs /nonexistent", 1, "/nonexistent: No such file"),
        (f"{KERNEL} --memory-mib 64", 1, "--memory-mib"),
        (f"{KERNEL} --region /nonexistent", 1, "/nonexistent: No such file"),
        (f"{KERNEL} --region /tmp/zeroes", 1, "not a paracord region"),
        (f"{KERNEL} --channel /nonexistent/socket", 1, "/nonexistent/socket"),
        (f"{KERNEL} --cpu-affinity 0=1000", 1, "--cpu-affinity"),
    ]:
        rc, err = refusal(host, words)
        assert rc == code and says in err, (words, rc, err)
        assert err.startswith("paracord-vmm: ") and err.count("\n") == 1, (words, err)


def test_help_and_version(host):
    text = host.run(f"{VMM} --help").out
    for word in ("--virt-cpufreq", "--host-cpu-topology", "Exit codes", "Example"):
        assert word in text
    assert host.run(f"{VMM} --version").out.startswith("paracord-vmm ")


@pytest.mark.long
def test_boot_time_beside_qemus(host, capsys):
    """Said, not judged: what a boot takes depends on the machine that emulates the host."""
    seconds = {"paracord": [], "qemu": []}
    for _ in range(2):
        for vmm, taken in seconds.items():
            with host.guest(f"boot-{vmm}", vcpus=2, region=False, vmm=vmm) as guest:
                taken.append(guest.boot_seconds)
                if vmm == "paracord":
                    rss = host.run(f"grep VmRSS /proc/{guest.pid}/status").out.split()[1]
    with capsys.disabled():
        medians = {vmm: round(statistics.median(taken), 1) for vmm, taken in seconds.items()}
        print(f"\n  boot of two vCPUs on {host.arch}, s: {shlex.quote(str(medians))}; resident {rss} kB")
