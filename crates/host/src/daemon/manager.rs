// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon tells the service manager that runs it.

use std::time::Duration;

/// A service manager, such as systemd (sd_notify(3)). The main thread calls these methods, so none
/// of them may block.
pub trait Manager {
    /// The daemon is ready. Either the BPF programs are loaded and the actuator is in force, or
    /// there is no KVM, and therefore no VM for which to load them. `state` is one line about the
    /// daemon's state. Called again when KVM has come.
    fn ready(&mut self, state: &str) {
        let _ = state;
    }

    /// The daemon's state has changed.
    fn status(&mut self, state: &str) {
        let _ = state;
    }

    /// The daemon begins to read its configuration again. [`Manager::reloaded`] follows.
    fn reloading(&mut self) {}

    /// The daemon is as ready as before the reload, whether the reload has succeeded or failed.
    fn reloaded(&mut self) {}

    /// The daemon begins to end.
    fn stopping(&mut self, state: &str) {
        let _ = state;
    }

    /// Longest time between two calls of [`Manager::alive`]. `None` if the manager has no watchdog.
    fn alive_interval(&self) -> Option<Duration> {
        None
    }

    /// The main thread does not hang.
    fn alive(&mut self) {}
}

/// No service manager.
impl Manager for () {}
