// SPDX-License-Identifier: GPL-2.0-only
//! Tells the service manager about the daemon (sd_notify(3)).
//!
//! `sd-notify` blocks while the manager's queue is full. A separate thread therefore sends the
//! messages, so that a manager that hangs does not block the daemon.

use std::convert::Infallible;
use std::process::Command;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::Duration;

use paracord_host::daemon::Manager;
use sd_notify::NotifyState;

/// How long an ending daemon waits until the manager has taken the last messages.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum number of messages in the queue of the thread. While the manager hangs, further messages
/// are lost.
const MESSAGES_MAX: usize = 16;
/// Size of the thread's stack. The daemon locks its memory, so a stack of the default size would
/// occupy 2 MiB.
const STACK_BYTES: usize = 128 << 10;

/// The service manager that the environment names, or none.
pub fn manager() -> Box<dyn Manager> {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return Box::new(());
    }
    let watchdog = sd_notify::watchdog_enabled().filter(|interval| !interval.is_zero());
    match Notify::start(watchdog) {
        Ok(notify) => Box::new(notify),
        Err(error) => {
            tracing::warn!("the service manager is not told when the daemon is ready: {error}");
            Box::new(())
        }
    }
}

/// Prepares `command`, which starts the daemon, so that the daemon answers the watchdog in place of
/// the supervisor.
///
/// `WATCHDOG_PID` names the main process, which is the supervisor. The watchdog has to notice if
/// the daemon's main thread hangs, but the daemon's pid is not known before the daemon starts.
/// `WATCHDOG_PID` is therefore removed: without it, `WATCHDOG_USEC` is valid for any process that
/// has this variable. If `WATCHDOG_PID` names a third process, the watchdog is not for paracord,
/// and `WATCHDOG_USEC` is also removed.
pub fn hand_on_watchdog(command: &mut Command) {
    let is_ours = sd_notify::watchdog_enabled().is_some();
    command.env_remove("WATCHDOG_PID");
    if !is_ours {
        command.env_remove("WATCHDOG_USEC");
    }
}

/// A message to the manager.
enum Message {
    Ready(String),
    Status(String),
    Reloading(NotifyState<'static>),
    Reloaded,
    Stopping(String),
    Alive,
}

struct Notify {
    messages: Option<SyncSender<Message>>,
    /// Disconnected when the thread has ended.
    ended: Receiver<Infallible>,
    watchdog: Option<Duration>,
}

impl Notify {
    fn start(watchdog: Option<Duration>) -> std::io::Result<Notify> {
        let (messages, queue) = sync_channel(MESSAGES_MAX);
        let (alive, ended) = channel::<Infallible>();
        let has_watchdog = watchdog.is_some();
        let thread = std::thread::Builder::new().name("notify".into()).stack_size(STACK_BYTES);
        thread.spawn(move || {
            let _alive = alive;
            let mut has_failed = false;
            for message in queue {
                let Err(error) = tell(&message, has_watchdog) else { continue };
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!("the service manager cannot be told: {error}");
                }
            }
        })?;
        Ok(Notify { messages: Some(messages), ended, watchdog })
    }

    fn send(&self, message: Message) {
        if let Some(messages) = &self.messages {
            let _ = messages.try_send(message);
        }
    }
}

/// Sends a message. This blocks while the manager's queue is full.
fn tell(message: &Message, has_watchdog: bool) -> std::io::Result<()> {
    use NotifyState::{Ready, Status, Stopping, Watchdog};
    match message {
        // When the supervisor restarts the daemon, the service stays ready in systemd's view.
        // `READY=1` alone would then not start a new interval of the watchdog.
        Message::Ready(state) if has_watchdog => {
            sd_notify::notify(&[Ready, Status(state), Watchdog])
        }
        Message::Ready(state) => sd_notify::notify(&[Ready, Status(state)]),
        Message::Status(state) => sd_notify::notify(&[Status(state)]),
        Message::Reloading(since) => sd_notify::notify(&[NotifyState::Reloading, since.clone()]),
        Message::Reloaded => sd_notify::notify(&[Ready]),
        Message::Stopping(state) => sd_notify::notify(&[Stopping, Status(state)]),
        Message::Alive => sd_notify::notify(&[Watchdog]),
    }
}

impl Manager for Notify {
    fn ready(&mut self, state: &str) {
        self.send(Message::Ready(state.to_owned()));
    }

    fn status(&mut self, state: &str) {
        self.send(Message::Status(state.to_owned()));
    }

    fn reloading(&mut self) {
        // Take the time here: the reload begins now, but the thread may send the message later.
        if let Ok(now) = NotifyState::monotonic_usec_now() {
            self.send(Message::Reloading(now));
        }
    }

    fn reloaded(&mut self) {
        self.send(Message::Reloaded);
    }

    fn stopping(&mut self, state: &str) {
        self.send(Message::Stopping(state.to_owned()));
    }

    /// Half of the watchdog's interval, as sd_watchdog_enabled(3) recommends.
    fn alive_interval(&self) -> Option<Duration> {
        self.watchdog.map(|interval| interval / 2)
    }

    fn alive(&mut self) {
        self.send(Message::Alive);
    }
}

impl Drop for Notify {
    fn drop(&mut self) {
        self.messages = None;
        // Wait until the messages are sent: after this process has ended, the manager cannot find
        // out to which service a message belongs.
        let _ = self.ended.recv_timeout(PATIENCE);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::process::{Output, Stdio};
    use std::time::Instant;

    use super::*;

    /// Longest time that a process takes on a busy machine.
    const LONG: Duration = Duration::from_secs(60);

    /// Runs an ignored test of this module as a process of its own. `sd-notify` reads the
    /// environment, which a test must not change in its own process.
    fn run(test: &str, environment: &[(&str, &str)]) -> Output {
        // If WATCHDOG_PID is `self`, the shell replaces it with the pid of the process that it
        // starts, as systemd does.
        let script = "[ \"$WATCHDOG_PID\" != self ] || export WATCHDOG_PID=$$; exec \"$0\" \"$@\"";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &format!("notify::tests::{test}"), "--ignored", "--nocapture"])
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if start.elapsed() > LONG {
                child.kill().unwrap();
                panic!("{test} hangs");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{test}: {output:?}");
        output
    }

    #[test]
    #[ignore = "other tests run it, in an environment of their own"]
    fn sends_every_message() {
        let mut manager = manager();
        println!("interval {:?}", manager.alive_interval());
        manager.ready("watching");
        manager.status("waiting");
        manager.reloading();
        manager.reloaded();
        manager.alive();
        manager.stopping("ending");
    }

    #[test]
    #[ignore = "other tests run it, in an environment of their own"]
    fn starts_a_daemon() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo usec ${WATCHDOG_USEC-none}, pid ${WATCHDOG_PID-none}"]);
        hand_on_watchdog(&mut command);
        assert!(command.status().unwrap().success());
    }

    fn said(output: &Output) -> &str {
        std::str::from_utf8(&output.stdout).unwrap()
    }

    /// A manager's socket, and what the manager has received so far.
    struct Socket(tempfile::TempDir, UnixDatagram);

    impl Socket {
        fn new() -> Socket {
            let dir = tempfile::tempdir().unwrap();
            let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
            socket.set_nonblocking(true).unwrap();
            Socket(dir, socket)
        }

        fn path(&self) -> String {
            self.0.path().join("notify").to_str().unwrap().to_owned()
        }

        fn received(&self) -> Vec<String> {
            let mut bytes = [0; 4096];
            std::iter::from_fn(|| self.1.recv(&mut bytes).ok().map(|n| bytes[..n].to_vec()))
                .map(|bytes| String::from_utf8(bytes).unwrap())
                .collect()
        }
    }

    #[test]
    fn a_manager_receives_every_message_in_order() {
        let socket = Socket::new();
        let (path, usec) = (socket.path(), "6000000");
        let output = run(
            "sends_every_message",
            &[("NOTIFY_SOCKET", &path), ("WATCHDOG_USEC", usec), ("WATCHDOG_PID", "self")],
        );
        assert!(said(&output).contains("interval Some(3s)"), "{output:?}");
        let received = socket.received();
        let reloading = "RELOADING=1\nMONOTONIC_USEC=";
        let now_us =
            received[2].strip_prefix(reloading).unwrap().trim_end().parse::<u64>().unwrap();
        assert!(now_us > 0);
        let others: Vec<&str> = received
            .iter()
            .map(String::as_str)
            .filter(|message| !message.starts_with(reloading))
            .collect();
        assert_eq!(
            others,
            [
                "READY=1\nSTATUS=watching\nWATCHDOG=1\n",
                "STATUS=waiting\n",
                "READY=1\n",
                "WATCHDOG=1\n",
                "STOPPING=1\nSTATUS=ending\n",
            ]
        );
    }

    #[test]
    fn a_manager_that_hangs_does_not_keep_the_daemon() {
        let socket = Socket::new();
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_nonblocking(true).unwrap();
        while sender.send_to(b"X=1", socket.path()).is_ok() {}
        run("sends_every_message", &[("NOTIFY_SOCKET", &socket.path())]);
        assert!(socket.received().iter().all(|message| message == "X=1"));
    }

    #[test]
    fn without_a_manager_nothing_is_said() {
        let output = run("sends_every_message", &[("WATCHDOG_USEC", "6000000")]);
        assert!(said(&output).contains("interval None"), "{output:?}");
        // A missing socket must not make the process fail.
        run("sends_every_message", &[("NOTIFY_SOCKET", "/nonexistent/notify")]);
    }

    #[test]
    fn the_daemon_answers_for_the_watchdog_of_its_supervisor_and_of_nobody_else() {
        let output =
            |pid| run("starts_a_daemon", &[("WATCHDOG_USEC", "6000000"), ("WATCHDOG_PID", pid)]);
        assert!(said(&output("self")).contains("usec 6000000, pid none"));
        assert!(said(&output("1")).contains("usec none, pid none"));
    }
}
