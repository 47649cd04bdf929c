// SPDX-License-Identifier: GPL-2.0-only
//! Limits on log lines that guests and users can cause. If lines are left out, a later line says
//! how many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::info;

/// Maximum number of lines per [`WINDOW`] about one VM, or of one kind.
const LINES_MAX: u32 = 10;
/// Maximum number of lines per [`WINDOW`] about the VMs of one user. This limit is higher than
/// [`LINES_MAX`], because a management daemon starts many VMs at once.
const LINES_OF_USER_MAX: u32 = 100;
const WINDOW: Duration = Duration::from_secs(60);
/// Number of users with a limit of their own. All other users share one limit.
const USERS_MAX: usize = 256;

/// A limit on the number of log lines per minute.
#[derive(Debug)]
pub struct LogLimit {
    lines_max: u32,
    since: Option<Instant>,
    lines: u32,
}

impl Default for LogLimit {
    fn default() -> LogLimit {
        LogLimit { lines_max: LINES_MAX, since: None, lines: 0 }
    }
}

impl LogLimit {
    fn of_user() -> LogLimit {
        LogLimit { lines_max: LINES_OF_USER_MAX, ..LogLimit::default() }
    }

    /// Returns whether one more line may be written. If a new window begins, first logs how many
    /// lines were left out in the previous window.
    pub fn allow(&mut self) -> bool {
        let (allowed, left_out) = self.allow_at(Instant::now());
        if left_out > 0 {
            info!("{left_out} lines like the next one were left out");
        }
        allowed
    }

    /// Like [`allow`](LogLimit::allow), but for a line of which only the latest version matters. A
    /// line that is refused here is not counted as left out, because the caller asks again later.
    pub fn allow_next(&mut self) -> bool {
        let now = Instant::now();
        (self.is_over(now) || self.lines < self.lines_max) && self.allow()
    }

    /// Returns whether a line may be written at `now`, and, if a new window begins, the number of
    /// lines that were left out in the previous window (otherwise 0).
    fn allow_at(&mut self, now: Instant) -> (bool, u32) {
        let mut left_out = 0;
        if self.is_over(now) {
            left_out = self.lines.saturating_sub(self.lines_max);
            self.since = Some(now);
            self.lines = 0;
        }
        self.lines = self.lines.saturating_add(1);
        (self.lines <= self.lines_max, left_out)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.since.is_none_or(|since| now.duration_since(since) >= WINDOW)
    }
}

/// The limit of one user. All clones share the limit. Everything that logs lines about the user's
/// VMs has a clone.
#[derive(Clone, Debug)]
pub struct UserLog(Arc<Mutex<LogLimit>>);

impl Default for UserLog {
    fn default() -> UserLog {
        UserLog(Arc::new(Mutex::new(LogLimit::of_user())))
    }
}

impl PartialEq for UserLog {
    fn eq(&self, other: &UserLog) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for UserLog {}

impl UserLog {
    /// Whether one more line about this user's VMs may be written.
    pub fn allow(&self) -> bool {
        self.with(LogLimit::allow)
    }

    fn with<T>(&self, what: impl FnOnce(&mut LogLimit) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether nothing depends on this limit any more: no VM has it, and its window is over.
    fn is_unused(&self, now: Instant) -> bool {
        Arc::strong_count(&self.0) == 1 && self.with(|limit| limit.is_over(now))
    }
}

/// One limit per user, for lines that a user can cause by starting and ending VMs.
#[derive(Debug, Default)]
pub struct UserLogs {
    by_user: BTreeMap<u32, UserLog>,
    others: UserLog,
}

impl UserLogs {
    /// The limit of a user.
    pub fn of(&mut self, uid: u32) -> UserLog {
        self.of_at(uid, Instant::now())
    }

    fn of_at(&mut self, uid: u32, now: Instant) -> UserLog {
        // Management daemons run as root, so root gets a limit of its own, however many users there
        // are.
        if uid != 0 && self.by_user.len() >= USERS_MAX && !self.by_user.contains_key(&uid) {
            self.by_user.retain(|_, log| !log.is_unused(now));
            if self.by_user.len() >= USERS_MAX {
                return self.others.clone();
            }
        }
        self.by_user.entry(uid).or_default().clone()
    }
}

/// The limit of one VM, for lines that its guest can cause. These lines also count against the
/// limit of the VM's user, because a VM that is started again has a new limit.
#[derive(Debug)]
pub struct VmLog {
    own: LogLimit,
    user: UserLog,
}

impl VmLog {
    /// The limit of a VM of this user.
    pub fn new(user: UserLog) -> VmLog {
        VmLog { own: LogLimit::default(), user }
    }

    /// Whether one more line about this VM may be written.
    pub fn allow(&mut self) -> bool {
        self.own.allow() && self.user.allow()
    }

    /// The limit of the VM's user.
    pub fn user(&self) -> &UserLog {
        &self.user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_ten_lines_a_minute_and_their_number() {
        let (mut limit, start) = (LogLimit::default(), Instant::now());
        let passed =
            (0..60_000).filter(|ms| limit.allow_at(start + Duration::from_millis(*ms)).0).count();
        assert_eq!(passed, 10);
        assert_eq!(limit.allow_at(start + WINDOW), (true, 59_990));
        assert_eq!(limit.allow_at(start + 2 * WINDOW), (true, 0));
    }

    #[test]
    fn users_have_limits_of_their_own_and_a_crowd_shares_one() {
        let (mut logs, start) = (UserLogs::default(), Instant::now());
        let mut passed = |uid, lines: u32, now| {
            let log = logs.of_at(uid, now);
            (0..lines).filter(|_| log.with(|limit| limit.allow_at(now)).0).count()
        };
        assert_eq!(passed(0, 1000, start), 100);
        assert_eq!(passed(1000, 5, start), 5);
        // The first 254 of these users have a limit of their own. The other users share one limit.
        let crowd: usize = (2000..3000).map(|uid| passed(uid, 1, start)).sum();
        assert_eq!(crowd, 254 + 100);
        assert_eq!(passed(4000, 200, start + WINDOW), 100);
        assert!(logs.by_user.len() <= USERS_MAX + 1);
    }

    #[test]
    fn a_vm_that_is_started_again_has_no_more_lines_than_its_user() {
        let mut logs = UserLogs::default();
        let passed: usize = (0..1000)
            .map(|_| {
                let mut vm = VmLog::new(logs.of(1000));
                (0..100).filter(|_| vm.allow()).count()
            })
            .sum();
        assert_eq!(passed, 100);
    }
}
