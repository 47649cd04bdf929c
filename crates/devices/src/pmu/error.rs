// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Why a counter is not served, in one line that says what to do. None of them allocates: a guest can cause most.

use std::fmt;
use std::io;

use super::pool::{COUNTERS, EVENTS};

/// Of include/uapi/asm-generic/errno-base.h and errno.h.
mod errno {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const ESRCH: i32 = 3;
    pub const EIO: i32 = 5;
    pub const EACCES: i32 = 13;
    pub const EBUSY: i32 = 16;
    pub const ENODEV: i32 = 19;
    pub const EINVAL: i32 = 22;
    pub const ENFILE: i32 = 23;
    pub const EMFILE: i32 = 24;
    pub const ENOSYS: i32 = 38;
    pub const EOPNOTSUPP: i32 = 95;
}

/// Why a counter is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A guest's, beyond the last one.
    #[error("counter {0} of {COUNTERS}")]
    NoSuchCounter(u32),
    /// A guest's, beyond the last one on offer.
    #[error("event {0} is not on offer")]
    NoSuchEvent(u32),
    /// A guest's that no event takes.
    #[error("a period of {0}: it has to be below 2^63")]
    Period(u64),
    /// The VM has used up its budget.
    #[error(
        "the VM has used up its budget of openings or of time in calls: try again in the next period"
    )]
    Budget,
    /// More counters than events.
    #[error("counters have all {EVENTS} events")]
    NoPlace,
    /// The host refuses a call.
    #[error("{event}: cannot {call} a perf event: {refusal}")]
    Host {
        /// The event's name.
        event: &'static str,
        /// What the pool did to it.
        call: Call,
        /// What the host says.
        refusal: Refusal,
    },
}

/// What is done to a host event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// perf_event_open(2).
    Open,
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
    /// An event that the kernel has given up reads nothing, without an error number.
    fn from(error: io::Error) -> Refusal {
        Refusal { errno: error.raw_os_error().unwrap_or(errno::EIO) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.errno {
            errno::EPERM | errno::EACCES => {
                "not permitted; set kernel.perf_event_paranoid to 1 or less, or give the VMM CAP_PERFMON"
            }
            errno::ENOENT | errno::ENODEV | errno::EOPNOTSUPP => "this host does not have it",
            errno::ENOSYS => {
                "the kernel has no perf events (CONFIG_PERF_EVENTS), or seccomp forbids them"
            }
            errno::EINVAL => "this host cannot count it this way",
            errno::ESRCH => "the vCPU's thread has ended",
            errno::EBUSY => "somebody else has the hardware's counters",
            errno::EMFILE | errno::ENFILE => {
                "no file descriptor is left; raise the VMM's limit (RLIMIT_NOFILE) by 32 per vCPU"
            }
            errno::EIO => "the kernel has given it up: somebody else has the hardware's counters",
            other => return io::Error::from_raw_os_error(other).fmt(f),
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
            (errno::EACCES, "perf_event_paranoid"),
            (errno::EPERM, "CAP_PERFMON"),
            (errno::EMFILE, "RLIMIT_NOFILE"),
            (errno::ENOENT, "does not have it"),
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
        assert!(refusal.to_string().contains("given it up"));
    }
}
