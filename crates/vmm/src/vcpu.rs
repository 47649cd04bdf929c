// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! One thread per vCPU: it runs the vCPU, and handles the guest's accesses to devices.

use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Barrier};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use kvm_bindings::{KVM_SYSTEM_EVENT_CRASH, KVM_SYSTEM_EVENT_RESET, KVM_SYSTEM_EVENT_SHUTDOWN};
use kvm_ioctls::{VcpuExit, VcpuFd};
use rustix::thread::{CpuSet, Pid, gettid, sched_setaffinity};
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

use crate::bus::Bus;
use crate::error::{self, Error};
use crate::interrupts::Interrupts;
use crate::pci::window::Window;
use crate::pmu::{self, Pmu, VcpuPmu};
use crate::signal_mask;
use crate::stop::{End, Stop};

/// How often the signal is sent again. A signal that arrives just before its thread enters the
/// guest has no effect.
const KICK_AGAIN: Duration = Duration::from_millis(5);

/// What vCPU threads share.
#[derive(Clone)]
pub struct Shared {
    /// Memory-mapped devices.
    pub mmio: Arc<Bus>,
    /// x86's I/O ports.
    pub ports: Arc<Bus>,
    /// Location of the region's registers.
    pub registers: Arc<Window>,
    /// The interrupts of the region, if it has any.
    pub interrupts: Option<Arc<Interrupts>>,
    /// Counters for the guest.
    pub pmu: Option<Arc<Pmu>>,
    /// The end of the VM.
    pub stop: Arc<Stop>,
}

impl Shared {
    /// If the address is in the interrupt table: the interrupts, and the offset in the table.
    fn interrupt_table(&self, address: u64) -> Option<(&Interrupts, u64)> {
        let interrupts = self.interrupts.as_ref()?;
        Some((interrupts, interrupts.window.find(address)?))
    }
}

/// Threads of all vCPUs, which wait for [`Threads::run`].
pub struct Threads {
    threads: Vec<JoinHandle<()>>,
    gate: Arc<Barrier>,
    stop: Arc<Stop>,
    tids: Vec<Pid>,
}

extern "C" fn on_kick(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// Starts a thread for each vCPU, on the CPUs of its affinity (on all CPUs if it has none). No
/// guest runs yet.
///
/// # Errors
/// [`Error::Vcpu`]. All threads have then ended.
pub fn start(
    vcpus: Vec<VcpuFd>,
    affinities: Vec<Vec<u32>>,
    shared: &Shared,
) -> Result<Threads, Error> {
    register_signal_handler(SIGRTMIN(), on_kick)
        .map_err(|e| Error::System { what: "signal handler", source: e.into() })?;
    let gate = Arc::new(Barrier::new(vcpus.len() + 1));
    let (started, results) = std::sync::mpsc::channel();
    let expected = vcpus.len();
    let mut threads = Vec::with_capacity(expected);
    for (index, (vcpu, affinity)) in (0..).zip(vcpus.into_iter().zip(affinities)) {
        let (gate, shared, started) = (gate.clone(), shared.clone(), started.clone());
        let body = move || {
            announce(index, &affinity, &started);
            gate.wait();
            run(index, vcpu, &shared);
        };
        // These are the names that QEMU gives to its vCPU threads. People and programs know these
        // names, including paracord's daemon.
        let thread = Builder::new().name(format!("CPU {index}/KVM")).spawn(body);
        let source = "cannot start its thread";
        // If this fails, the process ends, and with it the threads that were already started.
        threads.push(thread.map_err(|e| Error::Vcpu { vcpu: index, what: source, source: e })?);
    }
    let mut tids = vec![gettid(); expected];
    let mut failure = None;
    for (index, result) in results.iter().take(expected) {
        match result {
            Ok(tid) => tids[index as usize] = tid,
            Err(source) => {
                failure = Some(Error::Vcpu { vcpu: index, what: "--cpu-affinity", source });
            }
        }
    }
    let threads = Threads { threads, gate, stop: shared.stop.clone(), tids };
    match failure {
        Some(failure) => {
            shared.stop.request(End::Told);
            threads.run().end();
            Err(failure)
        }
        None => Ok(threads),
    }
}

/// Binds the calling thread, and sends its thread ID.
fn announce(index: u32, affinity: &[u32], started: &Sender<(u32, io::Result<Pid>)>) {
    let mut cpus = CpuSet::new();
    for cpu in affinity {
        cpus.set(*cpu as usize);
    }
    let bound = if affinity.is_empty() { Ok(()) } else { sched_setaffinity(None, &cpus) };
    // The receiver waits for a message from every thread.
    let _ = started.send((index, bound.map(|()| gettid()).map_err(io::Error::from)));
}

/// Threads that run their vCPUs.
pub struct Running {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<Stop>,
}

impl Threads {
    /// The thread IDs, by vCPU.
    pub fn tids(&self) -> Vec<u32> {
        self.tids.iter().map(|tid| tid.as_raw_nonzero().get().unsigned_abs()).collect()
    }

    /// Starts the guest.
    pub fn run(self) -> Running {
        self.gate.wait();
        Running { threads: self.threads, stop: self.stop }
    }
}

impl Running {
    /// Waits until all threads have ended. Call this after the end was requested.
    pub fn end(mut self) {
        while !self.threads.is_empty() {
            for thread in &self.threads {
                // This fails if the thread has ended in the meantime.
                let _ = thread.kill(SIGRTMIN());
            }
            std::thread::sleep(KICK_AGAIN);
            let (ended, running) = self.threads.into_iter().partition(JoinHandle::is_finished);
            self.threads = running;
            for thread in Vec::<JoinHandle<()>>::into_iter(ended) {
                if thread.join().is_err() {
                    self.stop.request(End::Failed("a vCPU's thread panicked".to_owned()));
                }
            }
        }
    }
}

fn run(index: u32, mut vcpu: VcpuFd, shared: &Shared) {
    let mut pmu = shared.pmu.as_ref().and_then(|pmu| pmu.vcpu(index));
    let overflows = pmu.as_ref().map_or(Ok(()), |_| signal_mask::run_ends_with_sigio(&vcpu));
    if let Err(error) = overflows {
        shared.stop.request(End::Failed(format!("vCPU {index}: {error}")));
        return;
    }
    while !shared.stop.requested() {
        let next = match vcpu.run() {
            Ok(exit) => serve(exit, shared, pmu.as_mut()),
            Err(e) if matches!(e.errno(), libc::EINTR | libc::EAGAIN) => {
                if let Some(pmu) = &mut pmu {
                    pmu.interrupted();
                }
                ControlFlow::Continue(())
            }
            Err(e) => {
                let error = error::kvm("run it")(e);
                ControlFlow::Break(End::Failed(error.to_string()))
            }
        };
        if let Some(pmu) = &mut pmu {
            pmu.came_out();
        }
        if let ControlFlow::Break(end) = next {
            let end = match end {
                End::Failed(why) => End::Failed(format!("vCPU {index}: {why}")),
                end => end,
            };
            shared.stop.request(end);
            return;
        }
    }
}

fn serve(exit: VcpuExit<'_>, shared: &Shared, counters: Option<&mut VcpuPmu>) -> ControlFlow<End> {
    let failed = |why: &str| ControlFlow::Break(End::Failed(why.to_owned()));
    match exit {
        VcpuExit::MmioRead(address, data) => match shared.registers.find(address) {
            Some(_) => data.fill(0),
            None => match shared.interrupt_table(address) {
                Some((interrupts, offset)) => interrupts.read(offset, data),
                None => shared.mmio.read(address, data),
            },
        },
        VcpuExit::MmioWrite(address, data) => match (shared.registers.find(address), counters) {
            (Some(register), Some(counters)) if pmu::rings(register, data) => counters.serve(),
            (Some(_), _) => {}
            (None, _) => match shared.interrupt_table(address) {
                Some((interrupts, offset)) => interrupts.write(offset, data),
                None => shared.mmio.write(address, data),
            },
        },
        VcpuExit::IoIn(port, data) => shared.ports.read(port.into(), data),
        VcpuExit::IoOut(port, data) => shared.ports.write(port.into(), data),
        VcpuExit::SystemEvent(KVM_SYSTEM_EVENT_SHUTDOWN, _) => {
            return ControlFlow::Break(End::PoweredOff);
        }
        VcpuExit::SystemEvent(KVM_SYSTEM_EVENT_RESET, _) => {
            return ControlFlow::Break(End::Restarted);
        }
        VcpuExit::SystemEvent(KVM_SYSTEM_EVENT_CRASH, _) => return failed("the guest crashed"),
        VcpuExit::Shutdown => {
            return failed("triple fault: the guest's kernel is broken, or not built for this VM");
        }
        VcpuExit::FailEntry(reason, _) => {
            return failed(&format!("KVM cannot enter the guest ({reason:#x})"));
        }
        VcpuExit::InternalError => return failed("KVM cannot emulate an instruction of the guest"),
        VcpuExit::MemoryFault { gpa, .. } => {
            return failed(&format!("memory at {gpa:#x} is gone: was the region file shortened?"));
        }
        VcpuExit::Intr | VcpuExit::Hlt | VcpuExit::IrqWindowOpen | VcpuExit::SetTpr => {}
        other => {
            return failed(&format!("KVM stopped with {other:?}, which this VMM does not know"));
        }
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::Wake;

    fn shared() -> Shared {
        let stop = Arc::new(Stop::new(Arc::new(Wake::new().unwrap())));
        let (mmio, ports) = Default::default();
        let registers = Arc::new(Window::new(0x1000));
        Shared { mmio, ports, registers, interrupts: None, pmu: None, stop }
    }

    #[test]
    fn exits_of_guests_end_or_go_on() {
        let shared = shared();
        let ends = |exit| match serve(exit, &shared, None) {
            ControlFlow::Continue(()) => None,
            ControlFlow::Break(end) => Some(end),
        };
        assert_eq!(
            ends(VcpuExit::SystemEvent(KVM_SYSTEM_EVENT_SHUTDOWN, &[])),
            Some(End::PoweredOff)
        );
        assert_eq!(ends(VcpuExit::SystemEvent(KVM_SYSTEM_EVENT_RESET, &[])), Some(End::Restarted));
        assert_eq!(ends(VcpuExit::Hlt), None);
        for exit in [VcpuExit::Shutdown, VcpuExit::InternalError, VcpuExit::Unsupported(99)] {
            assert!(matches!(ends(exit), Some(End::Failed(_))));
        }
        let mut data = [0; 4];
        assert_eq!(ends(VcpuExit::MmioRead(0xdead_0000, &mut data)), None);
        assert_eq!((data, shared.mmio.strays()), ([0xff; 4], 1));
    }

    #[test]
    fn the_regions_registers_are_no_strays() {
        let shared = shared();
        shared.registers.place(Some(0xdead_0000));
        let mut data = [0xff; 4];
        assert!(serve(VcpuExit::MmioRead(0xdead_0000, &mut data), &shared, None).is_continue());
        assert!(serve(VcpuExit::MmioWrite(0xdead_000c, &[1; 4]), &shared, None).is_continue());
        assert_eq!((data, shared.mmio.strays()), ([0; 4], 0));
    }
}
