// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Why a counter is not served, and what to do about it, in one line. Making an error does not
//! allocate, because a guest can cause most of the errors.

use std::fmt;
use std::io;

use paracord_policy::{PC_PMU_COUNTERS, PC_PMU_EVENTS};
use rustix::io::Errno;

/// Why a counter is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The guest named a counter beyond the last one.
    #[error("counter {0} does not exist: there are {PC_PMU_COUNTERS}")]
    NoSuchCounter(u32),
    /// The guest named an event beyond the last one on offer.
    #[error("event {0} is not on offer")]
    NoSuchEvent(u32),
    /// The guest gave a period that the event does not accept.
    #[error("a period of {0}: it must be at least the event's shortest, and below 2^63")]
    Period(u64),
    /// The VM has used up its budget.
    #[error(
        "the VM has used up its budget of openings or of time in calls: try again in the next period"
    )]
    Budget,
    /// All events of the pool already serve counters.
    #[error("all {PC_PMU_EVENTS} events serve other counters")]
    NoPlace,
    /// The host refuses a system call.
    #[error("{event}: cannot {call} a perf event: {refusal}")]
    Host {
        /// The event's name.
        event: &'static str,
        /// The operation that the pool tried.
        call: Call,
        /// The host's answer.
        refusal: Refusal,
    },
}

/// An operation on a host event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// perf_event_open(2).
    Open,
    /// mmap(2), fcntl(2).
    Watch,
    /// PERF_EVENT_IOC_PERIOD.
    SetPeriod,
    /// PERF_EVENT_IOC_ENABLE.
    Enable,
    /// PERF_EVENT_IOC_DISABLE.
    Disable,
    /// read(2).
    Read,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Call::Open => "open",
            Call::Watch => "watch the overflows of",
            Call::SetPeriod => "set the period of",
            Call::Enable => "switch on",
            Call::Disable => "switch off",
            Call::Read => "read",
        })
    }
}

/// The host's answer, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The error number.
    pub errno: i32,
}

impl From<io::Error> for Refusal {
    /// If the kernel has put an event into its error state, read(2) returns 0 bytes and no error
    /// number.
    fn from(error: io::Error) -> Refusal {
        Refusal { errno: error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match Errno::from_raw_os_error(self.errno) {
            Errno::PERM | Errno::ACCESS => {
                "not permitted; set kernel.perf_event_paranoid to 1 or less, or give the VMM CAP_PERFMON"
            }
            Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP => "this host does not have it",
            Errno::NOSYS => {
                "the kernel has no perf events (CONFIG_PERF_EVENTS), or seccomp forbids them"
            }
            Errno::INVAL => "this host cannot count it this way",
            Errno::SRCH => "the vCPU's thread has ended",
            Errno::BUSY => "another program uses the hardware's counters",
            Errno::MFILE | Errno::NFILE => {
                "no file descriptor is left; raise the VMM's limit (RLIMIT_NOFILE) by 32 per vCPU"
            }
            Errno::IO => "the kernel gave up the event: another program uses the counters",
            other => return io::Error::from(other).fmt(f),
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_says_is_one_line_that_tells_what_to_do() {
        for (errno, part) in [
            (Errno::ACCESS.raw_os_error(), "perf_event_paranoid"),
            (Errno::PERM.raw_os_error(), "CAP_PERFMON"),
            (Errno::MFILE.raw_os_error(), "RLIMIT_NOFILE"),
            (Errno::NOENT.raw_os_error(), "does not have it"),
            (12, "memory"),
        ] {
            let error =
                Error::Host { event: "cycles", call: Call::Open, refusal: Refusal { errno } };
            let text = error.to_string();
            assert!(text.starts_with("cycles: cannot open a perf event: "), "{text}");
            assert!(text.contains(part) && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn an_event_that_reads_nothing_was_given_up() {
        let refusal = Refusal::from(io::Error::from(io::ErrorKind::UnexpectedEof));
        assert!(refusal.to_string().contains("gave up the event"));
    }
}
