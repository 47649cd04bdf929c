# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""
Runs the same load as plain tasks of the host and in a VM. Compares the frequency and the CPU that
the load gets, and its utilisation in the kernel that runs it. One task stays small. Another task is
small, then large, then small again. A third task, which runs alone, is small and requests more than
it needs, which a stock host cannot know about a guest's task.

Work takes as long as on the physical CPU at its frequency, also in the VM (board_guest.py). A VM is
compared with the host under the same scheduler. Utilisation is always compared with the stock
scheduler, because the kernel has no average of tasks that a sched_ext scheduler runs.
"""

from dataclasses import asdict

from paracord_lab import board_guest, board_trace, phased_load
from paracord_lab.boards import JunoR2
from paracord_lab.daemon import BINARY
from paracord_lab.phased_load import SCALE, Phase
from paracord_lab.plots import Course
from paracord_lab.scenario import Configuration, Scenario, column
from paracord_lab.stats import StatsError
from paracord_lab.verdicts import Check

PHASE_MS = 3000
SMALL_TASK = (Phase(3000, 20_000, 3 * PHASE_MS),)
RAMP_TASK = (Phase(1000, 20_000, PHASE_MS), Phase(11_000, 20_000, PHASE_MS), Phase(1000, 20_000, PHASE_MS))
TASKS = (SMALL_TASK, RAMP_TASK)
RAMP, LARGE_PHASE = 1, 1
# The task needs little and requests more, because another task waits for it (uclamp.min).
BOOSTED_TASKS = ((Phase(1000, 20_000, PHASE_MS),),)
BOOSTED_MIN = 600
# The tasks of the malicious guest need little, but request everything.
ROGUE_TASKS = ((Phase(1000, 20_000, PHASE_MS),),)
ROGUE_CAP = 300
GOVERNORS = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
SMALL_CAPACITY = 383

SETTLE_S = 1
# On a machine without other work, a guest's tasks do about 1.1 times their work, because exits end
# slices late.
EXCESS_MAX = 1.25

ERROR_MAX = 0.1
MIGRATION_MAX_MS = 50
ROGUE_ON_BIG_MAX = 0.05

HOST_STOCK = Configuration("host-stock")
HOST_EXT = Configuration("host-ext", daemon=True, settings={"actuator": "ext"})
VM_STOCK = Configuration("vm-stock")
VM_PARACORD = Configuration("vm-paracord", daemon=True, module=True, settings={"actuator": "ext"})


def undisturbed(one, *configurations):
    """
    Raises StatsError if the machine that runs the emulator had other work, because tasks then look
    larger.
    """
    for name in configurations:
        excess = one[name]["excess_work_ratio"]
        if excess > EXCESS_MAX:
            raise StatsError(f"{name} was disturbed: its tasks did {excess:.2f} of their work")


def error(of, metrics, configuration, reference):
    """
    The value of a check: the difference between `metrics` of one configuration and of another.
    """

    def value(one):
        undisturbed(one, configuration, reference)
        return of(
            [one[configuration][metric] for metric in metrics], [one[reference][metric] for metric in metrics]
        )

    return value


def of_paracord(metric):
    def value(one):
        undisturbed(one, "vm-paracord")
        return one["vm-paracord"][metric]

    return value


# The small task has one phase.
TASK_PHASES = (("small", 0), ("ramp", 0), ("ramp", 1), ("ramp", 2))
UTILISATIONS = tuple(f"{task}_{n}_util_ratio" for task, n in TASK_PHASES)
PLACES = tuple(f"{task}_{n}_big_ratio" for task, n in TASK_PHASES)
BOOSTED = ("boosted_speed_ratio",)
FREQUENCIES = tuple(f"{domain}_{n}_mhz" for domain in ("little", "big") for n in range(3))


def compared(name, of, metrics, reference, stock_reference):
    return Check(
        name,
        error(of, metrics, "vm-paracord", reference),
        "<=",
        ERROR_MAX,
        beside={"vm-stock": error(of, metrics, "vm-stock", stock_reference)},
    )


class VmVsHost(Scenario):
    name = "vm-vs-host"
    summary = "the same load on the host and in a VM: frequency, place and utilisation, stock and paracord"
    board = JunoR2.name
    arch = JunoR2.arch
    cpus = JunoR2.cpus
    configurations = (HOST_STOCK, HOST_EXT, VM_STOCK, VM_PARACORD)
    without = ("module",)
    checks = (
        compared("util_error", phased_load.relative_error, UTILISATIONS, "host-stock", "host-stock"),
        compared("freq_error", phased_load.relative_error, FREQUENCIES, "host-ext", "host-stock"),
        compared("placement_error", phased_load.mean_distance, PLACES, "host-ext", "host-stock"),
        compared("boosted_error", phased_load.relative_error, BOOSTED, "host-ext", "host-stock"),
        Check("migration_ms", of_paracord("migration_ms"), "<=", MIGRATION_MAX_MS, "ms",
              beside={
                  "from the load's change": lambda one: one["vm-paracord"]["change_to_big_ms"],
                  "on the host": lambda one: one["host-ext"]["change_to_big_ms"],
                  "vm-stock": lambda one: one["vm-stock"]["change_to_big_ms"],
              }),
        Check("rogue_on_big", of_paracord("rogue_capped_big_ratio"), "<=",
              ROGUE_ON_BIG_MAX, beside={
                  "without a cap": lambda one: one["vm-paracord"]["rogue_free_big_ratio"]
              }),
    )  # fmt: skip
    columns = (
        *(column(f"ramp task, phase {n + 1}: utilisation", f"ramp_{n}_util_ratio") for n in range(3)),
        column("small task", "small_0_util_ratio"),
        *(column(f"ramp task, phase {n + 1}: on large CPUs", f"ramp_{n}_big_ratio") for n in range(3)),
        *(column(f"large CPUs, phase {n + 1}: MHz", f"big_{n}_mhz") for n in range(3)),
        *(column(f"small CPUs, phase {n + 1}: MHz", f"little_{n}_mhz") for n in range(3)),
        column("speed of a small task that asks for more", "boosted_speed_ratio"),
        column("to a large CPU, ms", "change_to_big_ms"),
        column("work done, of that asked for", "excess_work_ratio"),
    )

    def setup(self, session):
        self.guests = {}
        for configuration in (VM_STOCK, VM_PARACORD):
            name = configuration.name
            guest = session.guest(name, vcpus=2, extra_args=board_guest.device(session.host, name))
            board_guest.follow(session.host, guest)
            self.guests[name] = guest
        self.needs_module = session.options.without != "module"

    def measure(self, session, configuration):
        host, guest = session.host, self.guests.get(configuration.name)
        factor = session.seconds(1)
        if not guest:
            with board_trace.recording(host) as trace:
                load, begin_ns = phased_load.run(host, host, TASKS, factor)
            raw = self._raw(trace, load, begin_ns, factor)
            return raw | {"boosted": _boosted(host, host, factor, configuration == HOST_EXT)}
        if configuration.module and self.needs_module:
            self._load_module(guest)
        vcpus = {tid: f"vCPU {n}" for n, tid in enumerate(guest.vcpu_tids)}
        with board_guest.requests(guest) as asked, board_trace.recording(host, vcpus) as trace:
            load, begin_ns = phased_load.run(guest, host, TASKS, factor)
        raw = self._raw(trace, load, begin_ns, factor) | {"asked": asked.requests}
        raw["boosted"] = _boosted(guest, host, factor)
        if configuration == VM_PARACORD:
            raw["rogue"] = self._rogue(session, guest, factor)
        return raw

    def _load_module(self, guest):
        """
        Called after the daemon has started, because the daemon tells the guest its domain. The
        module waits ten seconds for it.
        """
        self.needs_module = False
        guest.load_module()
        guest.run(f"for i in $(seq 100); do ls {GOVERNORS} && break; sleep 0.1; done", timeout=120)
        guest.run(f"for g in {GOVERNORS}; do echo schedutil > $g; done; sleep {SETTLE_S}")

    @staticmethod
    def _raw(trace, load, begin_ns, factor):
        begin_ms = (begin_ns - trace.begin_ns) / 1e6
        return {"trace": asdict(trace), "load": load, "begin_ms": begin_ms, "factor": factor}

    @staticmethod
    def _rogue(session, guest, factor):
        """The guest's governor requests everything: first without a cap, then with a cap for the VM."""
        host, found = session.host, {}
        guest.run(f"for g in {GOVERNORS}; do [ -e $g ] && echo performance > $g; done; true")
        try:
            found["free"], _ = phased_load.run(guest, host, ROGUE_TASKS, factor)
            host.run(f"{BINARY} clamp set --vm {guest.name} --max {ROGUE_CAP}")
            found["capped"], _ = phased_load.run(guest, host, ROGUE_TASKS, factor)
        finally:
            host.run(f"{BINARY} clamp clear --vm {guest.name}", check=False)
            guest.run(f"for g in {GOVERNORS}; do [ -e $g ] && echo schedutil > $g; done; true")
        return found

    def metrics(self, configuration, raw):
        windows = phased_load.windows(RAMP_TASK, raw["factor"])
        found = {}
        for name, task, phases in zip(("small", "ramp"), raw["load"]["tasks"], TASKS, strict=True):
            utils = phased_load.utilisations(task, phased_load.windows(phases, raw["factor"]))
            found |= {f"{name}_{n}_util_ratio": util for n, util in enumerate(utils)}
            shares = phased_load.shares(task, JunoR2.big)
            found |= {f"{name}_{n}_big_ratio": share for n, share in enumerate(shares)}
        means = phased_load.frequencies(raw["trace"], raw["begin_ms"], windows)
        for name, cpus in (("little", JunoR2.little), ("big", JunoR2.big)):
            found |= {f"{name}_{n}_mhz": mhz for n, mhz in enumerate(means[str(cpus[0])])}
        found["excess_work_ratio"] = phased_load.excess(raw["load"], TASKS)
        found["boosted_speed_ratio"] = phased_load.speed(raw["boosted"]["tasks"][0])
        found["change_to_big_ms"] = _to_big_ms(raw)
        if "asked" in raw:
            found["migration_ms"] = _to_big_ms(raw, raw["asked"])
        for name, load in raw.get("rogue", {}).items():
            (share,) = phased_load.shares(load["tasks"][0], JunoR2.big)
            found[f"rogue_{name}_big_ratio"] = share
        return found

    def plots(self):
        return [
            Course("Frequencies", _frequencies, "MHz"),
            Course(
                "Where it runs: tasks on the host, the VM's vCPUs (CPU; 4 and 5 are large)",
                lambda raw: raw["trace"]["places"],
                "CPU",
                apart=0.08,
            ),
            Course("Utilisation, as the kernel that runs the tasks has it", _utilisations, "of 1024"),
            Course("What the guest's governor asks for", _asked, "of 1024"),
        ]


def _boosted(machine, host, factor, by_paracord=False):
    """
    The clamp of the task is set in the kernel that runs it, or in paracord if paracord's scheduler
    runs it.
    """
    clamp = {"options": f"--util-min {BOOSTED_MIN} "}
    if by_paracord:
        clamp = {"prefix": f"{BINARY} clamp set --process $$ --min {BOOSTED_MIN} && "}
    load, _ = phased_load.run(machine, host, BOOSTED_TASKS, factor, **clamp)
    return load


def _to_big_ms(raw, asked=None):
    """
    The time until the ramp task runs on a large CPU in its large phase. It begins with the phase,
    or, if `asked` is given, with the guest's first request that exceeds the capacity of small CPUs.
    The result is the length of the phase if the task never reaches a large CPU, or if there is no
    such request.
    """
    phase = raw["load"]["tasks"][RAMP]["phases"][LARGE_PHASE]
    never = RAMP_TASK[LARGE_PHASE].length_ms * raw["factor"]
    began = phase["begin_ns"]
    if asked is not None:
        more = [ns for ns, khz, _ in asked if ns >= began and _capacity(khz) > SMALL_CAPACITY]
        if not more:
            return never
        began = more[0]
    there = phased_load.first_on(phase, JunoR2.big)
    return never if there is None else max(0.0, (there - began) / 1e6)


def _capacity(khz):
    """
    The capacity for a request to the domain of all CPUs, whose highest frequency is that of the
    large CPUs.
    """
    return khz / 1000 * SCALE / JunoR2.big_mhz


def _frequencies(raw):
    names = {str(JunoR2.little[0]): "small CPUs", str(JunoR2.big[0]): "large CPUs"}
    return {names[first]: steps for first, steps in raw["trace"]["frequencies"].items()}


def _utilisations(raw):
    """The utilisations. The kernel has no average of tasks that a sched_ext scheduler runs, and shows 0."""
    tasks = zip(("small task", "ramp task"), raw["load"]["tasks"], strict=True)
    return {
        name: [[raw["begin_ms"] + ms, util] for ms, util in task["util"]]
        for name, task in tasks
        if any(util for _, util in task["util"])
    }


def _asked(raw):
    begin_ns = raw["load"]["begin_ns"]
    steps = {}
    for ns, khz, cpu in raw.get("asked", ()):
        at = raw["begin_ms"] + (ns - begin_ns) / 1e6
        steps.setdefault(f"vCPU {cpu}", []).append([at, _capacity(khz)])
    return steps


SCENARIO = VmVsHost()
