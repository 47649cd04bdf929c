// SPDX-License-Identifier: GPL-2.0-only
//! vCPU threads: what a guest does, and its VM exits. Also, the part of the daemon that sets up
//! vCPUs that the sensor has found (crates/host).

use std::rc::Rc;

use paracord_policy::{PC_MSG_GONE, PC_MSG_NEW, pc_vm, pc_vm_threads};

use super::{
    Event, Kernel, Program, State,
    events::short,
    life::New,
    task::WORK_PER_NS,
    vcpu::{LINE_BYTES, Vcpu},
};
use crate::{
    bpf::{self, TaskId},
    mix::{self, Guest},
    time::{NS_PER_S, Ns},
};

/// Time until the daemon has read a message and set up a vCPU.
const DAEMON_NS: Ns = 200_000;

/// ID of a VM's process.
fn process_of(vm: u32) -> i32 {
    i32::try_from(vm).unwrap_or(0) + 1_000_000
}

/// The record of a VM, as the daemon sets it up: the defaults of the policy, and no home node.
#[must_use]
pub fn record_of(vm: u32) -> pc_vm {
    let of = |config| pc_vm_threads { config, ..pc_vm_threads::default() };
    let threads = [of(paracord_policy::defaults()), of(paracord_policy::io_defaults())];
    pc_vm { threads, tgid: process_of(vm).unsigned_abs(), ..pc_vm::default() }
}

impl Kernel {
    /// Starts the mix's VMs of a kind.
    pub(super) fn start_vms(&mut self, kind: usize) {
        let mix = Rc::clone(&self.mix);
        let what = &mix.vms[kind];
        let before: u32 = mix.vms[..kind].iter().map(|vm| vm.count).sum();
        for number in 0..what.count {
            let vm = before + number;
            if self.sensed {
                self.native.write_vm(vm, &record_of(vm));
            }
            for vcpu in 0..what.vcpus {
                let name = format!("{}.{number}/{vcpu}", what.name);
                let new = self.new_vcpu(kind, what, vm, vcpu, name.into());
                self.fork_from_somewhere(|k| k.fork(new));
            }
        }
    }

    fn new_vcpu(
        &mut self,
        kind: usize,
        what: &mix::Vm,
        vm: u32,
        number: u32,
        name: Rc<str>,
    ) -> New {
        let (line_at, line) = self.native.shared_page(LINE_BYTES as usize);
        let exit_in = self.draw_exit(what.exits_per_s);
        let vcpu = Vcpu {
            tgid: process_of(vm),
            vm,
            number,
            guest: what.guest,
            exits_per_s: what.exits_per_s,
            line,
            line_at,
            exit_in,
            period_at: self.now,
            busy: !matches!(what.guest, Guest::Idle),
            boosted_ns: 0,
            latency: (0, 0, 0),
            fired_at: None,
        };
        vcpu.say(matches!(what.guest, Guest::Hold), matches!(what.guest, Guest::Hold));
        New {
            kind,
            name,
            policy: mix::Policy::Other,
            nice: 0,
            cookie: 0,
            cpus: what.cpus,
            group: what.group.map_or(0, |group| group + 1),
            program: Program::Guest(vcpu),
        }
    }

    /// Draws the running time until an exit: 0.5 to 1.5 times the average.
    fn draw_exit(&mut self, exits_per_s: u32) -> Ns {
        let mean = NS_PER_S / Ns::from(exits_per_s.max(1));
        self.rng.between(mean / 2, mean + mean / 2)
    }

    fn vcpu(&mut self, task: TaskId) -> &mut Vcpu {
        match &mut self.tasks[task].program {
            Program::Guest(vcpu) => vcpu,
            _ => unreachable!("only vCPU threads come here"),
        }
    }

    /// Makes the next step of a guest that has done its work. Returns false if the guest sleeps.
    pub(super) fn guest_step(&mut self, cpu: usize, task: TaskId) -> bool {
        let now = self.now;
        let vcpu = self.vcpu(task);
        if let Some(fired) = vcpu.fired_at.take() {
            let (sum, count, longest) = vcpu.latency;
            vcpu.latency = (sum + (now - fired), count + 1, longest.max(now - fired));
        }
        match (vcpu.guest, vcpu.busy) {
            (Guest::Spin | Guest::Hold, _) => {
                self.tasks[task].work = mix::FOREVER;
                true
            }
            (Guest::Periodic { busy_ns, .. }, true) => {
                vcpu.busy = false;
                vcpu.say(true, false);
                self.tasks[task].work = busy_ns * WORK_PER_NS;
                true
            }
            (Guest::Periodic { period_ns, .. }, false) => {
                vcpu.period_at = (vcpu.period_at + period_ns).max(now);
                let at = vcpu.period_at;
                vcpu.say(false, false);
                self.halt(cpu, task);
                self.arm_timer(task, at);
                false
            }
            (Guest::Idle, _) => {
                self.halt(cpu, task);
                self.arm_timer(task, now + NS_PER_S);
                false
            }
        }
    }

    /// The guest halts: the vCPU makes a VM exit, and its thread sleeps (`kvm_vcpu_halt()`).
    fn halt(&mut self, cpu: usize, task: TaskId) {
        self.tell_exit(cpu);
        self.block(cpu, task);
    }

    /// The guest's timer fires: KVM kicks the vCPU and wakes its thread.
    pub(super) fn guest_timer(&mut self, task: TaskId) {
        let now = self.now;
        let vcpu = self.vcpu(task);
        vcpu.busy = !matches!(vcpu.guest, Guest::Idle);
        vcpu.fired_at = Some(now);
        if self.sensed {
            let at = self.at();
            bpf::kvm_kick(self, at, task);
        }
        self.wake_up(task, false);
    }

    /// Sets the time of the next VM exit of the running vCPU.
    pub(super) fn arm_exit(&mut self, cpu: usize) {
        let curr = self.rqs[cpu].curr;
        let Program::Guest(vcpu) = &self.tasks[curr].program else { return };
        let (in_ns, often) = (vcpu.exit_in, vcpu.exits_per_s > 0);
        let rq = &mut self.rqs[cpu];
        rq.exit_seq = rq.exit_seq.wrapping_add(1);
        if often {
            let event = Event::VmExit { cpu: short(cpu), seq: rq.exit_seq };
            self.events.push(rq.work_from.max(self.now) + in_ns, event);
        }
    }

    pub(super) fn vm_exit(&mut self, cpu: usize, seq: u32) {
        let curr = self.rqs[cpu].curr;
        if self.rqs[cpu].exit_seq != seq || !matches!(self.tasks[curr].program, Program::Guest(_)) {
            return;
        }
        self.this_cpu = cpu;
        self.update_curr(cpu);
        let exits_per_s = self.vcpu(curr).exits_per_s;
        let next = self.draw_exit(exits_per_s);
        self.vcpu(curr).exit_in = next;
        let exit_ns = self.machine.costs.exit_ns;
        let rq = &mut self.rqs[cpu];
        rq.work_from = rq.work_from.max(self.now) + exit_ns;
        self.tell_exit(cpu);
        self.arm_run_end(cpu);
        self.arm_exit(cpu);
    }

    fn tell_exit(&mut self, cpu: usize) {
        if self.sensed {
            let at = bpf::At { cpu, now_ns: self.now, current: self.rqs[cpu].curr };
            bpf::kvm_exit(self, at);
            self.tell_daemon();
        }
    }

    /// A host interrupt takes a CPU out of the guest that runs there, by a VM exit.
    pub(super) fn interrupts_guest(&mut self, cpu: usize) {
        if matches!(self.tasks[self.rqs[cpu].curr].program, Program::Guest(_)) {
            self.tell_exit(cpu);
        }
    }

    /// A vCPU has run. Counts the time if the vCPU was boosted.
    pub(super) fn note_boosted(&mut self, cpu: usize, task: TaskId, ran_ns: Ns) {
        if self.sensed && self.native.is_boosted(task) {
            self.vcpu(task).boosted_ns += ran_ns;
            self.rqs[cpu].boosted_ns += ran_ns;
        }
    }

    /// Time for which boosted vCPUs have run on a CPU, including the one that runs now.
    #[must_use]
    pub fn boosted_ns(&self, cpu: usize) -> Ns {
        let rq = &self.rqs[cpu];
        let guest = matches!(self.tasks[rq.curr].program, Program::Guest(_));
        let runs_ns = if self.sensed && guest && self.native.is_boosted(rq.curr) {
            self.now.saturating_sub(rq.exec_start)
        } else {
            0
        };
        rq.boosted_ns + runs_ns
    }

    /// The daemon acts on the sensor's messages a little later.
    pub(super) fn tell_daemon(&mut self) {
        if self.native.has_messages() && !self.daemon_due {
            self.daemon_due = true;
            self.events.push(self.now + DAEMON_NS, Event::Daemon);
        }
    }

    pub(super) fn daemon(&mut self) {
        self.daemon_due = false;
        self.this_cpu = self.active.next(0).unwrap_or(0);
        for message in self.native.messages() {
            match message.kind {
                PC_MSG_NEW => self.adopt(message.vcpu, message.tid),
                PC_MSG_GONE => self.native.release(message.vcpu),
                _ => {}
            }
        }
    }

    fn adopt(&mut self, index: u32, tid: u32) {
        let pid = i32::try_from(tid).unwrap_or(0);
        let found = (self.machine.cpus..self.tasks.len()).find(|id| {
            self.native.task(*id).pid.get() == pid && self.tasks[*id].state != State::Dead
        });
        let Some(task) = found else { return };
        if let Program::Guest(vcpu) = &self.tasks[task].program {
            self.native.adopt(index, vcpu.vm, vcpu.line_at, LINE_BYTES);
        }
    }

    /// A timer of the BPF programs fires.
    pub(super) fn bpf_timer(&mut self, timer: usize, seq: u32) {
        self.this_cpu = self.active.next(0).unwrap_or(0);
        let at = self.at();
        bpf::timer(self, at, timer, seq);
    }
}
