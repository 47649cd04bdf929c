// SPDX-License-Identifier: GPL-2.0-only
//! How other threads (the control socket, metrics) ask the daemon.
//!
//! A [`DaemonHandle`] sends a message to the daemon's main thread and waits for
//! the answer. [`channel`] makes both ends, so a test can play the daemon.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, channel as queue, sync_channel,
};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::command_error::CommandError;
use crate::control::Request;
use crate::snapshot::Snapshot;

/// An answer is waited for at most this long; the main thread never blocks nearly as long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What another thread asks of the daemon, with the place where the answer goes.
#[derive(Debug)]
pub enum Message {
    /// Take a snapshot.
    Snapshot(SyncSender<Box<Snapshot>>),
    /// Carry a request out. The answer is the result that a client of the control socket gets.
    Request(Request, SyncSender<Result<serde_json::Value, CommandError>>),
}

/// Asks the daemon; cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct DaemonHandle {
    messages: Sender<Message>,
    wake: Arc<OwnedFd>,
}

/// The daemon's end: readable [`fd`](MessageReceiver::fd) when messages wait.
#[derive(Debug)]
pub struct MessageReceiver {
    messages: Receiver<Message>,
    wake: Arc<OwnedFd>,
}

/// Both ends of the channel.
///
/// # Errors
/// When the kernel has no file descriptor left.
pub fn channel() -> std::io::Result<(DaemonHandle, MessageReceiver)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = queue();
    Ok((
        DaemonHandle { messages: sender, wake: Arc::clone(&wake) },
        MessageReceiver { messages: receiver, wake },
    ))
}

impl DaemonHandle {
    fn send(&self, message: Message) -> Result<(), CommandError> {
        self.messages.send(message).map_err(|_| CommandError::NoAnswer)?;
        // A full eventfd counter already wakes the reader.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        Ok(())
    }

    fn ask<T>(&self, message: impl FnOnce(SyncSender<T>) -> Message) -> Result<T, CommandError> {
        let (sender, receiver) = sync_channel(1);
        self.send(message(sender))?;
        receiver.recv_timeout(ANSWER_TIMEOUT).map_err(|e| match e {
            RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected => CommandError::NoAnswer,
        })
    }

    /// The state of everything.
    ///
    /// # Errors
    /// [`CommandError::NoAnswer`].
    pub fn snapshot(&self) -> Result<Snapshot, CommandError> {
        self.ask(Message::Snapshot).map(|snapshot| *snapshot)
    }

    /// Carries a request out.
    ///
    /// # Errors
    /// Any [`CommandError`].
    pub fn request(&self, request: Request) -> Result<serde_json::Value, CommandError> {
        self.ask(|answer| Message::Request(request, answer))?
    }
}

impl MessageReceiver {
    /// Readable when messages may wait.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The next waiting message; clears the readable state first, so none is missed.
    pub fn next(&self) -> Option<Message> {
        let mut counter = [0u8; 8];
        let _ = rustix::io::read(&*self.wake, &mut counter);
        self.messages.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_reach_the_daemon_and_answers_come_back() {
        let (handle, receiver) = channel().unwrap();
        let daemon = std::thread::spawn(move || {
            let mut poll =
                [rustix::event::PollFd::new(&receiver.wake, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut poll, None).unwrap();
            match receiver.next() {
                Some(Message::Request(Request::VmPlaceGet { vm }, answer)) => {
                    answer.send(Err(CommandError::NoSuchVm(vm))).unwrap();
                }
                other => panic!("{other:?}"),
            }
        });
        let got = handle.request(Request::VmPlaceGet { vm: "web".into() });
        assert_eq!(got, Err(CommandError::NoSuchVm("web".into())));
        daemon.join().unwrap();
        assert_eq!(handle.snapshot(), Err(CommandError::NoAnswer));
    }
}
