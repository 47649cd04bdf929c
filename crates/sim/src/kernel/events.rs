// SPDX-License-Identifier: GPL-2.0-only
//! What is going to happen, and when: a heap. Events at the same time happen in the order of their making.

use std::{cmp::Ordering, collections::BinaryHeap};

use crate::{bpf::TaskId, time::Ns};

/// Something that happens on a CPU. Where a sequence number is given and another one is in force by then, the event
/// was cancelled.
#[allow(missing_docs, reason = "numbers of CPUs, tasks and the like")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The task that runs has done its phase's work.
    RunEnd { cpu: u32, seq: u32 },
    /// The periodic tick.
    Tick { cpu: u32, seq: u32 },
    /// Another CPU's request to look who runs next arrives.
    Resched { cpu: u32 },
    /// A sleeper's timer fires.
    Timer { task: u32, seq: u32 },
    /// A vCPU's guest leaves to the host.
    VmExit { cpu: u32, seq: u32 },
    /// A timer of a BPF program fires.
    BpfTimer { timer: u32, seq: u32 },
    /// The reserve for ordinary tasks beside real-time ones.
    Server { cpu: u32, seq: u32 },
    /// An interrupt of the mix (index).
    Irq { irq: u32 },
    /// Tasks of a kind begin.
    Start { kind: u32 },
    /// VMs of a kind begin.
    StartVm { kind: u32 },
    /// A change of the mix (index).
    Change { change: u32 },
    /// The daemon reads its messages.
    Daemon,
    /// sched_ext's watchdog looks.
    Watchdog,
    /// A task's slice is over (stock).
    Hrtick { cpu: u32, seq: u32 },
    /// A group's quota is refilled (stock).
    Period { group: u32, seq: u32 },
    /// A group's unused quota goes back (stock).
    Slack { group: u32 },
    /// Shares are measured from here on.
    Warmup,
}

/// So many events are no ordinary mix's: a CPU switches again and again, and each time cancels what it waited for.
const MANY: usize = 1 << 20;

/// An event in the heap. Its order is one comparison: the heap is a good part of a run's time.
struct Due {
    /// The time in the upper half, below it how many events were made before.
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

/// The earliest is the greatest: the heap gives that one first.
impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        other.when.cmp(&self.when)
    }
}

/// The heap.
#[derive(Default)]
pub struct Events {
    heap: BinaryHeap<Due>,
    made: u64,
    taken: u64,
    /// What was left when cancelled ones were last taken out.
    kept: usize,
}

impl Events {
    /// Something happens at a time.
    pub fn push(&mut self, at_ns: Ns, event: Event) {
        self.made += 1;
        let when = u128::from(at_ns) << 64 | u128::from(self.made);
        self.heap.push(Due { when, event });
    }

    /// When the next one happens.
    #[must_use]
    pub fn next_ns(&self) -> Option<Ns> {
        self.heap.peek().map(Due::at_ns)
    }

    /// The next one.
    pub fn pop(&mut self) -> Option<(Ns, Event)> {
        let due = self.heap.pop()?;
        self.taken += 1;
        Some((due.at_ns(), due.event))
    }

    /// Whether there are so many that cancelled ones should go before their time.
    #[must_use]
    pub fn are_many(&self) -> bool {
        self.heap.len() >= MANY.max(2 * self.kept)
    }

    /// Takes out all that are cancelled.
    pub fn retain(&mut self, is_due: impl Fn(Event) -> bool) {
        self.heap.retain(|due| is_due(due.event));
        self.kept = self.heap.len();
    }

    /// How many have happened.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

/// A task's number in an event.
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
