# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
The cost of running BPF programs, from the kernel's own statistics (kernel.bpf_stats_enabled), and
of verifying them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

SWITCH = "/proc/sys/kernel/bpf_stats_enabled"
INSTRUCTION_BYTES = 8

Raw = dict[str, object]


@contextmanager
def measuring(host, prefix: str) -> Iterator[Raw]:
    """
    Enables the statistics while the context is open. Afterwards it contains the values of all
    programs whose names begin with the prefix.
    """
    raw: Raw = {}
    host.run(f"echo 1 > {SWITCH}")
    try:
        begin_ns, before = host.read_clock_ns(), _programs(host, prefix)
        yield raw
        after = _programs(host, prefix)
        seconds = (host.read_clock_ns() - begin_ns) / 1e9
        raw.update(seconds=seconds, cpus=host.cpus, before=before, after=after)
    finally:
        host.run(f"echo 0 > {SWITCH}", check=False)


def _programs(host, prefix: str) -> dict[str, dict]:
    return {p["name"]: p for p in _listed(host) if p.get("name", "").startswith(prefix)}


def _listed(host) -> list[dict]:
    return json.loads(host.run("bpftool prog show -j").out)


def metrics(raw: Mapping) -> dict[str, float]:
    """NAME_run_ns, NAME_runs_per_s_count, NAME_instructions_count of each program, and all_cpu_share."""
    measured, total_ns = {}, 0
    for name, after in raw["after"].items():
        before = raw["before"].get(name, {})
        runs = after.get("run_cnt", 0) - before.get("run_cnt", 0)
        ns = after.get("run_time_ns", 0) - before.get("run_time_ns", 0)
        total_ns += ns
        measured[f"{name}_run_ns"] = ns / max(1, runs)
        measured[f"{name}_runs_per_s_count"] = runs / raw["seconds"]
        measured[f"{name}_instructions_count"] = after["bytes_xlated"] / INSTRUCTION_BYTES
    measured["all_cpu_share"] = total_ns / (raw["seconds"] * 1e9 * raw["cpus"])
    return measured


def verified(host) -> dict[str, int]:
    """The number of instructions that the verifier processed, for each program that the daemon holds."""
    # The file of a link has a program's number, too, but no count.
    fields = 'FNR == 1 { id = "" } /^prog_id:/ { id = $2 } /^verified_insns:/ && id { print id, $2 }'
    found = host.run(f"awk '{fields}' /proc/$(pgrep -nx paracord)/fdinfo/*", check=False).out.split()
    names = {str(program["id"]): program["name"] for program in _listed(host) if "name" in program}
    # libbpf's test programs, with which it examines a kernel, no longer exist by then.
    pairs = zip(found[::2], found[1::2], strict=True)
    return {names[number]: int(count) for number, count in pairs if number in names}
