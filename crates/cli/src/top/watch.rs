// SPDX-License-Identifier: GPL-2.0-only
//! Ends the live view when a signal says so, or when its terminal goes away.
//!
//! A thread of its own, since the view may hang where it hears of nothing: crossterm repeats a read of a terminal that
//! is gone for ever, a write to one that takes nothing waits, and so does a question to a daemon that does not answer.

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

/// How long the view may take to end by itself, its terminal as it was before. Its own waits are shorter.
const PATIENCE: Duration = Duration::from_millis(700);

/// Tells the view to end.
pub struct Watch {
    ended: Arc<AtomicBool>,
}

enum Why {
    Signal,
    TerminalGone,
}

impl Watch {
    /// Watches from now on, until the process ends.
    ///
    /// # Errors
    /// No terminal, no signal handler, no thread.
    pub fn start() -> io::Result<Watch> {
        let terminal = terminal()?;
        let (signals, input) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGHUP, SIGINT] {
            signal_hook::low_level::pipe::register(signal, input.try_clone()?)?;
        }
        let ended = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&ended);
        let watch = move || match wait(&signals, &terminal) {
            // Nothing is left to be given back, and every moment more is one of a loop at full speed.
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

    /// Whether the view shall end.
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
        // Of a terminal only what cannot be masked: hang-up and error.
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
