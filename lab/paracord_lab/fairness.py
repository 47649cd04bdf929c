# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""How busy loops share one CPU of the host, compared with the shares that their weights say."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

from . import loads

CGROUPS = "/sys/fs/cgroup"
# The kernel's weights of the nice levels that are used here (sched_prio_to_weight).
NICE_WEIGHTS = {-20: 88761, -19: 71755, -16: 36291, 0: 1024, 3: 526, 5: 335, 15: 36, 17: 23, 19: 15}


def cpu_shares(
    host, prefixes: Sequence[str], seconds: float, prepare: Callable[[list[int]], None] | None = None
) -> list[float]:
    """
    The shares (0..1, together 1) of one CPU that busy loops get. The loops are started with
    prefixes ("nice -n 5").

    prepare: called with their process IDs before the measurement begins.
    """
    with _hogs(host, prefixes) as pids:
        if prepare:
            prepare(pids)
        before = [loads.read(host, [pid]).cpu_s for pid in pids]
        host.run(f"sleep {seconds}", timeout=60 + 10 * seconds)
        used = [loads.read(host, [pid]).cpu_s - b for pid, b in zip(pids, before, strict=True)]
    return [one / sum(used) for one in used]


def shares_over_time(host, prefixes: Sequence[str], windows: int) -> list[list[float]]:
    """The shares in windows of a tenth of a second, as one list per loop. A share is 0 if no loop ran."""
    with _hogs(host, prefixes) as pids:
        stats = " ".join(f"/proc/{pid}/schedstat" for pid in pids)
        look = f"for i in $(seq {windows + 1}); do cat {stats}; sleep 0.1; done"
        said = host.run(f"taskset -c 0 bash -c '{look}'", timeout=60 + windows).out
    ran = [int(line.split()[0]) for line in said.splitlines()]
    courses = [[b - a for a, b in pairwise(ran[n :: len(pids)])] for n in range(len(pids))]
    total = [sum(window) for window in zip(*courses, strict=True)]
    return [[one / (all_ or 1) for one, all_ in zip(course, total, strict=True)] for course in courses]


@contextmanager
def _hogs(host, prefixes: Sequence[str]) -> Iterator[list[int]]:
    """Runs busy loops on CPU 1, and yields their process IDs."""
    hogs = [host.spawn(f"exec {prefix} pc_hog --cpu 1", f"hog{n}") for n, prefix in enumerate(prefixes)]
    try:
        host.run("sleep 0.5")
        yield [hog.pid for hog in hogs]
    finally:
        for hog in hogs:
            hog.kill("KILL")
            hog.wait(10)


def error(shares: Sequence[float], weights: Sequence[float]) -> float:
    """The largest difference (0..1) between a share and the share that its weight says."""
    return max(abs(share - w / sum(weights)) for share, w in zip(shares, weights, strict=True))


def nice_shares(host, levels: Sequence[int], seconds: float) -> list[float]:
    """The shares of one CPU that loops with these nice values get."""
    return cpu_shares(host, [f"nice -n {level}" for level in levels], seconds)


def nice_error(shares: Sequence[float], levels: Sequence[int]) -> float:
    return error(shares, [NICE_WEIGHTS[level] for level in levels])


@contextmanager
def groups(host, weights: Mapping[str, int]) -> Iterator[None]:
    """Makes control groups with these cpu.weights."""
    made = " ".join(f"{CGROUPS}/{name}" for name in weights)
    host.run(f"echo +cpu > {CGROUPS}/cgroup.subtree_control && mkdir {made}")
    for name, weight in weights.items():
        host.run(f"echo {weight} > {CGROUPS}/{name}/cpu.weight")
    try:
        yield
    finally:
        host.run(f"sleep 0.5; rmdir {made}")


def member(group: str) -> str:
    """The prefix of a command that runs in a control group."""
    return f'sh -c \'echo $$ > {CGROUPS}/{group}/cgroup.procs; exec "$0" "$@"\''


def group_shares(host, members: Sequence[str], seconds: float) -> list[float]:
    """The shares of one CPU that loops get. Each loop runs in the named group."""
    return cpu_shares(host, [member(group) for group in members], seconds)
