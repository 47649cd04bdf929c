// SPDX-License-Identifier: GPL-2.0-only
//! `paracord top`: a live view of VMs and vCPUs.
//!
//! [`model`] computes rates from snapshots, and [`draw`] shows them as text with colours. Neither
//! module uses the terminal, the clock or the daemon.

mod draw;
mod keys;
mod model;
#[cfg(test)]
mod tests;
mod watch;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::args::SnapshotSource;
use crate::exit::Failure;
use crate::output::print;
use crate::status::fetch;
use keys::{Action, View};
use model::History;
use watch::Watch;

/// Width of the printed table in characters.
const PRINTED_COLUMNS: u16 = 110;

/// `paracord top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub query: SnapshotSource,
    /// Time between two refreshes in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub interval_ms: u64,
    /// Print one table and exit; this is the default if the output is not a terminal
    #[arg(long)]
    pub once: bool,
}

/// Shows the live view until the user presses `q` or a signal arrives. With `--once`, or if
/// standard output is not a terminal, prints one table instead.
pub fn top(args: &TopArgs) -> Result<ExitCode, Failure> {
    let interval = Duration::from_millis(args.interval_ms);
    let mut history = History::default();
    history.push(fetch(&args.query)?);
    if args.once || !std::io::stdout().is_terminal() {
        if args.query.from.is_none() {
            std::thread::sleep(interval);
            history.push(fetch(&args.query)?);
        }
        return print(&draw::text(&history, &View::default(), PRINTED_COLUMNS));
    }
    let fail = |e: std::io::Error| Failure::new(format!("terminal: {e}"));
    let watch = Watch::start().map_err(fail)?;
    let mut terminal = ratatui::try_init().map_err(fail)?;
    let result = live(&mut terminal, args, interval, &mut history, &watch);
    ratatui::restore();
    result.map(|()| ExitCode::SUCCESS)
}

fn live(
    terminal: &mut ratatui::DefaultTerminal,
    args: &TopArgs,
    interval: Duration,
    history: &mut History,
    watch: &Watch,
) -> Result<(), Failure> {
    let fail = |e: std::io::Error| Failure::new(format!("terminal: {e}"));
    let mut view = View { interval, ..View::default() };
    let mut next = Instant::now() + view.interval;
    while !watch.has_ended() {
        terminal.draw(|frame| draw::frame(frame, history, &mut view)).map_err(fail)?;
        // The wait is short, so that a signal ends the loop soon.
        let wait = next.saturating_duration_since(Instant::now()).min(Duration::from_millis(250));
        if event::poll(wait).map_err(fail)? {
            let action = match event::read().map_err(fail)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => keys::action(&key),
                _ => None,
            };
            match action {
                Some(Action::Quit) => return Ok(()),
                Some(action) => view.apply(action),
                None => {}
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + view.interval;
            if !view.paused && args.query.from.is_none() {
                match fetch(&args.query) {
                    Ok(snapshot) => {
                        history.push(snapshot);
                        view.lost = None;
                    }
                    Err(e) => view.lost = Some(e.message().to_owned()),
                }
            }
        }
    }
    Ok(())
}
