// SPDX-License-Identifier: GPL-2.0-only
//! Ends the live view when a signal arrives, or when its terminal goes away.
//!
//! A separate thread does this, because the thread of the view may hang. If the terminal is gone,
//! crossterm repeats its read forever. If the terminal accepts no output, a write to it blocks. If
//! the daemon does not answer, a request to it blocks.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::crossterm::terminal::disable_raw_mode;
use rustix::event::{PollFd, PollFlags, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How long the view may take to end by itself and to restore its terminal. The view never blocks
/// for this long at a time.
const PATIENCE: Duration = Duration::from_millis(700);

/// Tells the view when to end.
pub struct Watch {
    ended: Arc<AtomicBool>,
}

enum Why {
    Signal,
    TerminalGone,
}

impl Watch {
    /// Starts a thread that watches until the process ends.
    ///
    /// # Errors
    /// If there is no terminal, or if a signal handler or the thread cannot be created.
    pub fn start() -> io::Result<Watch> {
        let terminal = terminal()?;
        let (signals, input) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            signal_hook::low_level::pipe::register(signal, input.try_clone()?)?;
        }
        let ended = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&ended);
        let watch = move || match wait(&signals, &terminal) {
            // There is no terminal to restore. Exit immediately, because crossterm's loop may
            // occupy a whole CPU until then.
            Why::TerminalGone => std::process::exit(0),
            Why::Signal => {
                theirs.store(true, Ordering::Relaxed);
                std::thread::sleep(PATIENCE);
                let _ = disable_raw_mode();
                std::process::exit(0);
            }
        };
        std::thread::Builder::new().name("watch".into()).spawn(watch)?;
        Ok(Watch { ended })
    }

    /// Whether the view must end.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// The terminal that crossterm reads.
fn terminal() -> io::Result<OwnedFd> {
    let input = io::stdin();
    if input.is_terminal() {
        return input.as_fd().try_clone_to_owned();
    }
    File::open("/dev/tty").map(OwnedFd::from)
}

fn wait(signals: &UnixStream, terminal: &OwnedFd) -> Why {
    loop {
        // For the terminal, only hang-up and error matter. poll(2) reports them even if no event is
        // requested.
        let mut fds =
            [PollFd::new(signals, PollFlags::IN), PollFd::new(terminal, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(_) if !fds[1].revents().is_empty() => return Why::TerminalGone,
            Ok(_) if !fds[0].revents().is_empty() => return Why::Signal,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Why::Signal,
        }
    }
}
