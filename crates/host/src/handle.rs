// SPDX-License-Identifier: GPL-2.0-only
//! The channel on which other threads (control socket, metrics) send requests to the daemon.
//!
//! A [`DaemonHandle`] sends a message to the daemon's main thread and waits for the answer.
//! [`channel`] creates both ends, so that a test can take the place of the daemon.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, channel as queue, sync_channel,
};
use std::time::Duration;

use crate::command_error::CommandError;
use crate::control::Request;
use crate::snapshot::Snapshot;
use crate::wake::{clear_wake, eventfd, wake};

/// Longest wait for an answer. The main thread never blocks for nearly as long as this.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A request from another thread, with the channel for the answer.
#[derive(Debug)]
pub enum Message {
    /// Take a snapshot.
    Snapshot(SyncSender<Box<Snapshot>>),
    /// Execute a request. The answer is the result that the client of the control socket gets.
    Request(Request, SyncSender<Result<serde_json::Value, CommandError>>),
}

/// The end that sends requests. It is cheap to clone and usable from any thread.
#[derive(Clone, Debug)]
pub struct DaemonHandle {
    messages: Sender<Message>,
    wake: Arc<OwnedFd>,
}

/// The daemon's end. Its [`fd`](MessageReceiver::fd) is readable when messages may be waiting.
#[derive(Debug)]
pub struct MessageReceiver {
    messages: Receiver<Message>,
    wake: Arc<OwnedFd>,
}

/// Creates both ends of the channel.
///
/// # Errors
/// If no file descriptor is left.
pub fn channel() -> std::io::Result<(DaemonHandle, MessageReceiver)> {
    let wake = Arc::new(eventfd()?);
    let (sender, receiver) = queue();
    Ok((
        DaemonHandle { messages: sender, wake: Arc::clone(&wake) },
        MessageReceiver { messages: receiver, wake },
    ))
}

impl DaemonHandle {
    fn send(&self, message: Message) -> Result<(), CommandError> {
        self.messages.send(message).map_err(|_| CommandError::NoAnswer)?;
        wake(&self.wake);
        Ok(())
    }

    fn ask<T>(&self, message: impl FnOnce(SyncSender<T>) -> Message) -> Result<T, CommandError> {
        let (sender, receiver) = sync_channel(1);
        self.send(message(sender))?;
        receiver.recv_timeout(ANSWER_TIMEOUT).map_err(|e| match e {
            RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected => CommandError::NoAnswer,
        })
    }

    /// Requests a snapshot of the daemon's state.
    ///
    /// # Errors
    /// [`CommandError::NoAnswer`].
    pub fn snapshot(&self) -> Result<Snapshot, CommandError> {
        self.ask(Message::Snapshot).map(|snapshot| *snapshot)
    }

    /// Makes the daemon execute a request.
    ///
    /// # Errors
    /// Any [`CommandError`].
    pub fn request(&self, request: Request) -> Result<serde_json::Value, CommandError> {
        self.ask(|answer| Message::Request(request, answer))?
    }
}

impl MessageReceiver {
    /// A file descriptor that is readable when messages may be waiting.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Returns the next waiting message, or `None` if there is none. Before it looks for a message,
    /// this function makes the file descriptor unreadable, so that no message is missed. Call this
    /// function until it returns `None`.
    pub fn next(&self) -> Option<Message> {
        clear_wake(&*self.wake);
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
