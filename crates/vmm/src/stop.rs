// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The end of a VM. The first request determines the reason, and all threads see the request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::wake::Wake;

/// Why a VM ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest powered off.
    PoweredOff,
    /// The guest restarts. Whoever started the VM may start a new one.
    Restarted,
    /// A signal requested the end.
    Told,
    /// The VM cannot continue.
    Failed(String),
}

/// The request for the end. Everything that may end the VM shares it.
pub struct Stop {
    end: Mutex<Option<End>>,
    requested: AtomicBool,
    wake: Arc<Wake>,
}

impl Stop {
    /// Makes a state without a request. `wake` wakes the thread that will end the VM.
    pub fn new(wake: Arc<Wake>) -> Stop {
        Stop { end: Mutex::new(None), requested: AtomicBool::new(false), wake }
    }

    /// Requests the end. Only the first reason is kept.
    pub fn request(&self, end: End) {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(end);
        self.requested.store(true, Ordering::Release);
        self.wake.notify();
    }

    /// Whether the end was requested.
    pub fn requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// The reason for the end.
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
