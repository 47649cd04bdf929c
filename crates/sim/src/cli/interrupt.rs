// SPDX-License-Identifier: GPL-2.0-only
//! Ctrl-C: the run ends at its next step and says what there is. A second one ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::exit::{Failure, INTERRUPTED};

/// Whether somebody wants the run to end.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From here on signals are waited for.
    ///
    /// # Errors
    /// The system refuses handlers.
    pub fn new() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down.
            flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), Arc::clone(&flag))
                .and_then(|_| flag::register(signal, Arc::clone(&flag)))
                .map_err(|e| Failure::new(format!("signals cannot be waited for: {e}")))?;
        }
        Ok(Self(flag))
    }

    /// Whether there was one.
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
