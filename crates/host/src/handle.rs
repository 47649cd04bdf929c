// SPDX-License-Identifier: GPL-2.0-only
//! How other threads (the control socket, metrics) command the daemon.
//!
//! A [`DaemonHandle`] sends a command to the daemon's main thread and waits for
//! the answer. [`channel`] makes both ends, so a test can play the daemon.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, channel as queue, sync_channel,
};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::clamps::{ClampOrder, ClampReport};
use crate::command_error::CommandError;
use crate::place::{PlaceOrder, PlaceReport};
use crate::settings::{Mode, Override, Settings};
use crate::snapshot::Snapshot;

/// A command waits at most this long; the main thread never blocks nearly as long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// One command with the place where its answer goes.
#[derive(Debug)]
pub enum Command {
    /// Take a snapshot.
    Snapshot(SyncSender<Box<Snapshot>>),
    /// Use these settings from now on; boosts in force stay if still allowed.
    Reload(Box<Settings>, SyncSender<Result<(), CommandError>>),
    /// Override keys of one running VM, by name, uuid or pid, until the next reload.
    SetVm(String, Vec<Override>, SyncSender<Result<(), CommandError>>),
    /// Change the global mode until the next reload.
    SetMode(Mode, SyncSender<Result<(), CommandError>>),
    /// Look at clamps, or set one.
    Clamp(ClampOrder, SyncSender<Result<Vec<ClampReport>, CommandError>>),
    /// Look where the vCPUs of a VM, by name, uuid or pid, run, or place them.
    Place(String, PlaceOrder, SyncSender<Result<PlaceReport, CommandError>>),
    /// Restore every thread and end.
    Shutdown,
}

/// Commands the daemon; cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct DaemonHandle {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
}

/// The daemon's end: readable [`fd`](CommandReceiver::fd) when commands wait.
#[derive(Debug)]
pub struct CommandReceiver {
    commands: Receiver<Command>,
    wake: Arc<OwnedFd>,
}

/// Both ends of the command channel.
///
/// # Errors
/// When the kernel has no file descriptor left.
pub fn channel() -> std::io::Result<(DaemonHandle, CommandReceiver)> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = queue();
    Ok((
        DaemonHandle { commands: sender, wake: Arc::clone(&wake) },
        CommandReceiver { commands: receiver, wake },
    ))
}

impl DaemonHandle {
    fn send(&self, command: Command) -> Result<(), CommandError> {
        self.commands.send(command).map_err(|_| CommandError::NoAnswer)?;
        // A full eventfd counter already wakes the reader.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        Ok(())
    }

    fn ask<T>(&self, command: impl FnOnce(SyncSender<T>) -> Command) -> Result<T, CommandError> {
        let (sender, receiver) = sync_channel(1);
        self.send(command(sender))?;
        receiver.recv_timeout(ANSWER_TIMEOUT).map_err(|e| match e {
            RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected => CommandError::NoAnswer,
        })
    }

    /// The state of everything.
    ///
    /// # Errors
    /// [`CommandError::NoAnswer`].
    pub fn snapshot(&self) -> Result<Snapshot, CommandError> {
        self.ask(Command::Snapshot).map(|snapshot| *snapshot)
    }

    /// Uses `settings` from now on. Boosts in force stay if still allowed.
    ///
    /// # Errors
    /// [`CommandError::Invalid`] when a value cannot change while the daemon runs.
    pub fn reload(&self, settings: Settings) -> Result<(), CommandError> {
        self.ask(|answer| Command::Reload(Box::new(settings), answer))?
    }

    /// Overrides keys of one running VM, named by its name, uuid or pid, until the next reload.
    ///
    /// # Errors
    /// [`CommandError::NoSuchVm`], [`CommandError::Invalid`].
    pub fn set_vm(&self, name: &str, overrides: Vec<Override>) -> Result<(), CommandError> {
        self.ask(|answer| Command::SetVm(name.to_owned(), overrides, answer))?
    }

    /// Changes the global mode until the next reload.
    ///
    /// # Errors
    /// [`CommandError::NoAnswer`].
    pub fn set_mode(&self, mode: Mode) -> Result<(), CommandError> {
        self.ask(|answer| Command::SetMode(mode, answer))?
    }

    /// Looks at clamps, or sets one.
    ///
    /// # Errors
    /// [`CommandError::Invalid`], [`CommandError::NoSuchVm`].
    pub fn clamp(&self, order: ClampOrder) -> Result<Vec<ClampReport>, CommandError> {
        self.ask(|answer| Command::Clamp(order, answer))?
    }

    /// Looks where the vCPUs of a VM, named by its name, uuid or pid, run, or places them.
    ///
    /// # Errors
    /// [`CommandError::Invalid`], [`CommandError::NoSuchVm`].
    pub fn place(&self, vm: &str, order: PlaceOrder) -> Result<PlaceReport, CommandError> {
        self.ask(|answer| Command::Place(vm.to_owned(), order, answer))?
    }

    /// Asks the daemon to restore every thread and end; does not wait for it.
    ///
    /// # Errors
    /// [`CommandError::NoAnswer`] when it already ended.
    pub fn shutdown(&self) -> Result<(), CommandError> {
        self.send(Command::Shutdown)
    }
}

impl CommandReceiver {
    /// Readable when commands may wait.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// The next waiting command; clears the readable state first, so none is missed.
    pub fn next(&self) -> Option<Command> {
        let mut counter = [0u8; 8];
        let _ = rustix::io::read(&*self.wake, &mut counter);
        self.commands.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_reach_the_daemon_and_answers_come_back() {
        let (handle, receiver) = channel().unwrap();
        let daemon = std::thread::spawn(move || {
            let mut poll =
                [rustix::event::PollFd::new(&receiver.wake, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut poll, None).unwrap();
            match receiver.next() {
                Some(Command::SetVm(name, _, answer)) => {
                    answer.send(Err(CommandError::NoSuchVm(name))).unwrap();
                }
                other => panic!("{other:?}"),
            }
        });
        let got = handle.set_vm("web", Vec::new());
        assert_eq!(got, Err(CommandError::NoSuchVm("web".into())));
        daemon.join().unwrap();
        assert_eq!(handle.snapshot(), Err(CommandError::NoAnswer));
    }
}
