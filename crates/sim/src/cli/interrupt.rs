// SPDX-License-Identifier: GPL-2.0-only
//! Ctrl-C ends the run at its next step, and the results so far are reported. A second Ctrl-C ends
//! the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::exit::{Failure, INTERRUPTED};

/// Whether the user wants the run to end.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// The system refuses the handlers.
    pub fn new() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: when the first signal arrives, the flag is not set yet.
            flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), Arc::clone(&flag))
                .and_then(|_| flag::register(signal, Arc::clone(&flag)))
                .map_err(|e| Failure::new(format!("signals cannot be waited for: {e}")))?;
        }
        Ok(Self(flag))
    }

    /// Whether a signal has arrived.
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
