// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon tells the service manager that runs it.

use std::time::Duration;

/// A service manager, such as systemd (sd_notify(3)). The main thread calls these methods, so none
/// of them may block.
pub trait Manager {
    /// Called when the daemon is ready. Either the BPF programs are loaded and the actuator is
    /// active, or KVM is not loaded, so there is no VM for which to load the programs. In the
    /// second case, this method is called again after KVM has been loaded. `state` is one line
    /// about the daemon's state.
    fn ready(&mut self, state: &str) {
        let _ = state;
    }

    /// Called when the daemon's state has changed.
    fn status(&mut self, state: &str) {
        let _ = state;
    }

    /// Called when the daemon begins to read its configuration again. [`Manager::reloaded`]
    /// follows.
    fn reloading(&mut self) {}

    /// Called after a reload, whether it has succeeded or failed: the daemon is as ready as before.
    fn reloaded(&mut self) {}

    /// Called when the daemon begins to end.
    fn stopping(&mut self, state: &str) {
        let _ = state;
    }

    /// Longest time between two calls of [`Manager::alive`]. `None` if the manager has no watchdog.
    fn alive_interval(&self) -> Option<Duration> {
        None
    }

    /// Called to show that the main thread does not hang.
    fn alive(&mut self) {}
}

/// No service manager.
impl Manager for () {}
