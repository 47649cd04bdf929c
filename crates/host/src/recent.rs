// SPDX-License-Identifier: GPL-2.0-only
//! Values that clients request repeatedly. Each value is reused for a while, so that the daemon
//! need not compute it for every client.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A value is reused until it is this old.
const AGE_MAX: Duration = Duration::from_millis(50);

/// The value that was taken last. However many clients ask, a new value is taken at most once per
/// [`AGE_MAX`].
#[derive(Debug)]
pub(crate) struct Recent<T>(Mutex<Option<(Instant, T)>>);

impl<T> Default for Recent<T> {
    fn default() -> Recent<T> {
        Recent(Mutex::new(None))
    }
}

impl<T: Clone> Recent<T> {
    /// Returns the last value, or takes a new value if the last one is too old. Clients that ask
    /// while a new value is being taken wait for that value.
    ///
    /// # Errors
    /// The errors of `take`. The last value is then kept.
    pub(crate) fn get<E>(&self, take: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, value)) = last.as_ref().filter(|(taken, _)| taken.elapsed() < AGE_MAX) {
            return Ok(value.clone());
        }
        let value = take()?;
        *last = Some((Instant::now(), value.clone()));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_taken_once_for_all_who_ask_in_time() {
        let recent = Recent::default();
        assert_eq!(recent.get(|| Err("no answer")), Err("no answer"));
        let begun = Instant::now();
        assert_eq!(recent.get(|| Ok::<_, ()>(1)), Ok(1));
        let again = recent.get(|| Ok::<_, ()>(2)).unwrap();
        // If the machine stalls for [`AGE_MAX`], a new value may be taken.
        assert!(again == 1 || begun.elapsed() >= AGE_MAX);
        std::thread::sleep(AGE_MAX);
        assert_eq!(recent.get(|| Ok::<_, ()>(3)), Ok(3));
    }
}
