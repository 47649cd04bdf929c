// SPDX-License-Identifier: GPL-2.0-only
//! Where the log lines of the daemon and its supervisor go.

use tracing::Subscriber;
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::journal::{Journal, is_stream};

/// Environment variable that contains the filter for log lines, in the format of `RUST_LOG`:
/// `debug`, `paracord_host=debug`, …
const LOG_VARIABLE: &str = "PARACORD_LOG";

type Boxed<S> = Box<dyn Layer<S> + Send + Sync>;

/// Starts to log: to the journal if standard error is a stream to the journal, and otherwise to
/// standard error.
pub fn start() {
    let filter = EnvFilter::builder()
        .with_env_var(LOG_VARIABLE)
        .with_default_directive(tracing::Level::INFO.into())
        .from_env_lossy();
    tracing_subscriber::registry().with(filter).with(lines()).init();
}

/// Returns the layer that writes log lines.
pub fn lines<S>() -> Boxed<S>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let stream = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    if !is_stream(&stream, std::io::stderr()) {
        return standard_error();
    }
    match Journal::new(standard_error()) {
        // `tracing_journald` panics at an event in a span whose beginning it has not seen. This
        // filter removes spans.
        Ok(journal) => journal.with_filter(filter_fn(|metadata| metadata.is_event())).boxed(),
        Err(standard_error) => standard_error,
    }
}

/// Writes lines without time stamps, because the reader of standard error adds them.
fn standard_error<S>() -> Boxed<S>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // If internal errors were logged, a line that cannot be written would cause a panic, even
        // in the process that restores threads.
        .log_internal_errors(false)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .boxed()
}
