// SPDX-License-Identifier: GPL-2.0-only
//! Log lines as entries of systemd's journal, with a priority and fields.

use std::fmt::Debug;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::field::{Field, Value, Visit};
use tracing::{Event, Subscriber};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Fields of log lines that become fields of the journal. The journal's names are in upper case.
/// docs/logging.md explains the fields. `tid` is not among these fields, because TID in the journal
/// is the thread that logs.
pub const FIELDS: [&str; 7] = ["vm", "pid", "region", "mode", "features", "vcpu_id", "cpu"];

/// The journal's socket, which `tracing_journald` sends to.
const SOCKET: &str = "/run/systemd/journal/socket";

/// Whether `file` is the stream to the journal that `value` names. `value` is the content of
/// `JOURNAL_STREAM` (systemd.exec(5)): device and inode in decimal, with a colon in between.
pub fn is_stream(value: &str, file: impl AsFd) -> bool {
    let Some((device, inode)) = value.split_once(':') else { return false };
    let (Ok(device), Ok(inode)) = (device.parse::<u64>(), inode.parse::<u64>()) else {
        return false;
    };
    rustix::fs::fstat(file).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (device, inode))
}

/// Sends events to the journal, or to `fallback` while the journal accepts nothing.
pub struct Journal<L> {
    journal: tracing_journald::Layer,
    fallback: L,
    socket: PathBuf,
}

impl<L> Journal<L> {
    /// Returns `fallback` as the error if there is no journal.
    pub fn new(fallback: L) -> Result<Journal<L>, L> {
        // `tracing_journald::layer` sends an empty message, which blocks while the journal's queue
        // is full.
        if !takes_a_line(Path::new(SOCKET)) {
            return Err(fallback);
        }
        let Ok(journal) = tracing_journald::layer() else { return Err(fallback) };
        // By default, `tracing_journald` gives INFO the priority `notice`, and DEBUG the priority
        // `info`. Lines that reach the journal through standard error have the priority `info`.
        let priorities = PriorityMappings {
            info: Priority::Informational,
            debug: Priority::Debug,
            ..PriorityMappings::new()
        };
        let journal = journal.with_field_prefix(None).with_priority_mappings(priorities);
        Ok(Journal { journal, fallback, socket: SOCKET.into() })
    }
}

/// Whether the journal exists and its queue has room. `tracing_journald` loses a line if there is
/// no journal, and blocks while the queue is full.
fn takes_a_line(socket: &Path) -> bool {
    let connected = UnixDatagram::unbound().and_then(|probe| probe.connect(socket).map(|()| probe));
    let Ok(probe) = connected else { return false };
    let mut fds = [PollFd::new(&probe, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::OUT)
}

/// The values that an event has for [`FIELDS`].
#[derive(Default)]
struct Kept(Vec<(Field, String)>);

impl Visit for Kept {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if FIELDS.contains(&field.name()) {
            self.0.push((field.clone(), format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if FIELDS.contains(&field.name()) {
            self.0.push((field.clone(), value.to_owned()));
        }
    }
}

impl<S, L> Layer<S> for Journal<L>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    L: Layer<S>,
{
    /// Sends the event to the journal, or to the fallback. The text of the entry is the line that
    /// standard error would get, but without the level. It contains all fields of the event,
    /// because `journalctl` shows only the text.
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let fields = event.metadata().fields();
        let Some(message) = fields.field("message").filter(|_| takes_a_line(&self.socket)) else {
            return self.fallback.on_event(event, context);
        };
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = DefaultFields::new().format_fields(Writer::new(&mut text), event);
        let mut kept = Kept::default();
        event.record(&mut kept);
        let mut values: [(&Field, Option<&dyn Value>); FIELDS.len() + 1] =
            [(&message, None); FIELDS.len() + 1];
        values[0].1 = Some(&text);
        for (to, (field, value)) in values[1..].iter_mut().zip(&kept.0) {
            *to = (field, Some(value));
        }
        // `value_set` is hidden in the documentation of `tracing`, because its usual callers are
        // macros.
        self.journal.on_event(&Event::new(event.metadata(), &fields.value_set(&values)), context);
    }
}

#[cfg(test)]
mod tests;
