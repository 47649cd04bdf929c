// SPDX-License-Identifier: GPL-2.0-only
//! Future events and their times, in a heap. Events at the same time happen in the order in which
//! they were made.

use std::{cmp::Ordering, collections::BinaryHeap};

use crate::{bpf::TaskId, time::Ns};

/// An event on a CPU. An event with a sequence number is ignored if a newer number was given in the
/// meantime. It was then cancelled.
#[allow(missing_docs, reason = "numbers of CPUs, tasks and the like")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The running task has done the work of its phase.
    RunEnd { cpu: u32, seq: u32 },
    /// The periodic tick.
    Tick { cpu: u32, seq: u32 },
    /// Another CPU's request to select a task arrives.
    Resched { cpu: u32 },
    /// A sleeper's timer fires.
    Timer { task: u32, seq: u32 },
    /// A vCPU makes a VM exit.
    VmExit { cpu: u32, seq: u32 },
    /// A timer of a BPF program fires.
    BpfTimer { timer: u32, seq: u32 },
    /// Starts the reserve for ordinary tasks beside real-time ones.
    Server { cpu: u32, seq: u32 },
    /// An interrupt of the mix (index).
    Irq { irq: u32 },
    /// Tasks of a kind begin.
    Start { kind: u32 },
    /// VMs of a kind begin.
    StartVm { kind: u32 },
    /// A change of the mix (index).
    Change { change: u32 },
    /// The daemon reads the sensor's messages.
    Daemon,
    /// The watchdog of sched_ext checks the tasks.
    Watchdog,
    /// The slice of a task ends (stock).
    Hrtick { cpu: u32, seq: u32 },
    /// A group's quota is refilled (stock).
    Period { group: u32, seq: u32 },
    /// The unused quota of a group is returned (stock).
    Slack { group: u32 },
    /// Shares are measured from now on.
    Warmup,
}

/// An ordinary mix does not have this many events. They come from a CPU that switches again and
/// again, and cancels an event each time.
const MANY: usize = 1 << 20;

/// An event in the heap. It is ordered by one comparison, because the heap takes a large part of a
/// run's time.
struct Due {
    /// The upper half is the time. The lower half is the number of events that were made before.
    when: u128,
    event: Event,
}

impl Due {
    #[allow(clippy::cast_possible_truncation, reason = "the upper half of 128 bits")]
    fn at_ns(&self) -> Ns {
        (self.when >> 64) as Ns
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.when == other.when
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The earliest event is the greatest, because the heap returns the greatest first.
impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        other.when.cmp(&self.when)
    }
}

/// The heap of events.
#[derive(Default)]
pub struct Events {
    heap: BinaryHeap<Due>,
    made: u64,
    taken: u64,
    /// Number of events that were left when cancelled events were last removed.
    kept: usize,
}

impl Events {
    /// Adds an event at a time.
    pub fn push(&mut self, at_ns: Ns, event: Event) {
        self.made += 1;
        let when = u128::from(at_ns) << 64 | u128::from(self.made);
        self.heap.push(Due { when, event });
    }

    /// The time of the next event.
    #[must_use]
    pub fn next_ns(&self) -> Option<Ns> {
        self.heap.peek().map(Due::at_ns)
    }

    /// Removes the next event.
    pub fn pop(&mut self) -> Option<(Ns, Event)> {
        let due = self.heap.pop()?;
        self.taken += 1;
        Some((due.at_ns(), due.event))
    }

    /// Whether there are so many events that cancelled ones should be removed early.
    #[must_use]
    pub fn are_many(&self) -> bool {
        self.heap.len() >= MANY.max(2 * self.kept)
    }

    /// Removes all cancelled events.
    pub fn retain(&mut self, is_due: impl Fn(Event) -> bool) {
        self.heap.retain(|due| is_due(due.event));
        self.kept = self.heap.len();
    }

    /// Number of events that have happened.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

/// The number of a task in an event.
#[must_use]
pub fn short(task: TaskId) -> u32 {
    u32::try_from(task).expect("fewer than 2^32 tasks")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_time_keep_their_order() {
        let mut events = Events::default();
        events.push(5, Event::Daemon);
        events.push(3, Event::Watchdog);
        events.push(5, Event::Warmup);
        let order: Vec<_> = std::iter::from_fn(|| events.pop()).collect();
        assert_eq!(order, [(3, Event::Watchdog), (5, Event::Daemon), (5, Event::Warmup)]);
        assert_eq!(events.taken(), 3);
    }

    #[test]
    fn cancelled_events_do_not_fill_the_memory() {
        let mut events = Events::default();
        for seq in 0..4 * u32::try_from(MANY).expect("some million") {
            events.push(u64::from(seq), Event::RunEnd { cpu: 0, seq });
            if events.are_many() {
                events.retain(|event| event == Event::RunEnd { cpu: 0, seq });
            }
            assert!(events.heap.len() < MANY);
        }
        events.push(0, Event::Daemon);
        assert_eq!(events.pop(), Some((0, Event::Daemon)), "order stays");
    }
}
