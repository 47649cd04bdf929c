// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The end of a VM: who asks for it first says why, and everybody hears of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::wake::Wake;

/// Why a VM ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest powered off.
    PoweredOff,
    /// The guest restarts; a VM is started again by whoever started it.
    Restarted,
    /// A signal told the VM to end.
    Told,
    /// It cannot go on.
    Failed(String),
}

/// Shared by everything that may end the VM.
pub struct Stop {
    end: Mutex<Option<End>>,
    requested: AtomicBool,
    wake: Arc<Wake>,
}

impl Stop {
    /// Nobody asked yet. `wake` wakes the thread that will end the VM.
    pub fn new(wake: Arc<Wake>) -> Stop {
        Stop { end: Mutex::new(None), requested: AtomicBool::new(false), wake }
    }

    /// Asks for the end; the first reason stays.
    pub fn request(&self, end: End) {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(end);
        self.requested.store(true, Ordering::Release);
        self.wake.notify();
    }

    /// Whether somebody asked.
    pub fn requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// The reason.
    pub fn end(&self) -> Option<End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stays() {
        let stop = Stop::new(Arc::new(Wake::new().unwrap()));
        assert!(!stop.requested() && stop.end().is_none());
        stop.request(End::PoweredOff);
        stop.request(End::Failed("later".to_owned()));
        assert!(stop.requested());
        assert_eq!(stop.end(), Some(End::PoweredOff));
    }
}
