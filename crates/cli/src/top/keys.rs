// SPDX-License-Identifier: GPL-2.0-only
//! The state of the view, and the keys that change it.

use std::time::Duration;

use paracord_host::settings::Reason;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The order of VMs, and of vCPUs within a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// By name and vCPU number.
    #[default]
    Name,
    /// Most boosts per second first.
    Boosts,
    /// Most throttles first.
    Throttles,
    /// Most VM exits per second first.
    Exits,
    /// Longest unboosted wakeup latency (99th percentile) first.
    Latency,
}

impl Sort {
    const ALL: [Sort; 5] = [Sort::Name, Sort::Boosts, Sort::Throttles, Sort::Exits, Sort::Latency];

    /// The word that the screen shows.
    pub fn word(self) -> &'static str {
        match self {
            Sort::Name => "name",
            Sort::Boosts => "boosts",
            Sort::Throttles => "throttles",
            Sort::Exits => "exits",
            Sort::Latency => "latency",
        }
    }
}

/// The state of the view.
#[derive(Clone, Debug)]
pub struct View {
    pub sort: Sort,
    pub paused: bool,
    pub help: bool,
    /// Index of the first table line on the screen.
    pub scroll: u16,
    /// Number of lines of the table on the screen. Drawing sets this number, and paging uses it.
    pub page: u16,
    pub interval: Duration,
    /// The reason why the last refresh got no snapshot.
    pub lost: Option<String>,
}

impl Default for View {
    fn default() -> Self {
        View {
            sort: Sort::Name,
            paused: false,
            help: false,
            scroll: 0,
            page: 1,
            interval: Duration::from_secs(1),
            lost: None,
        }
    }
}

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Quit,
    Pause,
    Help,
    NextSort,
    Sort(Sort),
    Scroll(i32),
    Page(i32),
    Home,
    Faster,
    Slower,
}

/// The keys and their actions.
const KEYS: [(&str, &str); 8] = [
    ("q  Esc  Ctrl-C", "quit"),
    ("p  space", "pause"),
    ("s", "next sort order"),
    ("n b t e l", "sort by name, boosts, throttles, exits, latency"),
    ("↑ ↓  j k", "scroll"),
    ("PgUp PgDn Home", "scroll by pages, to the top"),
    ("+ -", "refresh faster, slower"),
    ("h  ?", "this help"),
];

/// The lines of the help: keys and their actions, and the letters of the reasons.
pub fn help() -> Vec<(&'static str, String)> {
    let mut lines: Vec<_> = KEYS.iter().map(|(key, what)| (*key, (*what).to_owned())).collect();
    let reason = |reason: Reason| format!("{} {}", reason.letter(), reason.name());
    let reasons = Reason::ALL.map(reason).join("  ");
    lines.push(("why", format!("{reasons}; ! budget exhausted")));
    lines
}

/// Returns the action of a key, if it has one.
pub fn action(key: &KeyEvent) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Action::Quit);
    }
    Some(match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Action::Quit,
        KeyCode::Char('p' | ' ') => Action::Pause,
        KeyCode::Char('h' | '?') => Action::Help,
        KeyCode::Char('s') => Action::NextSort,
        KeyCode::Char('n') => Action::Sort(Sort::Name),
        KeyCode::Char('b') => Action::Sort(Sort::Boosts),
        KeyCode::Char('t') => Action::Sort(Sort::Throttles),
        KeyCode::Char('e') => Action::Sort(Sort::Exits),
        KeyCode::Char('l') => Action::Sort(Sort::Latency),
        KeyCode::Down | KeyCode::Char('j') => Action::Scroll(1),
        KeyCode::Up | KeyCode::Char('k') => Action::Scroll(-1),
        KeyCode::PageDown => Action::Page(1),
        KeyCode::PageUp => Action::Page(-1),
        KeyCode::Home => Action::Home,
        KeyCode::Char('+') => Action::Faster,
        KeyCode::Char('-') => Action::Slower,
        _ => return None,
    })
}

const INTERVAL_MIN: Duration = Duration::from_millis(250);
const INTERVAL_MAX: Duration = Duration::from_secs(16);

impl View {
    /// Carries out an action other than [`Action::Quit`]. The scroll position may be beyond the end
    /// of the table until the table is drawn.
    pub fn apply(&mut self, action: Action) {
        let scroll = |from: u16, by: i32| {
            u16::try_from((i32::from(from) + by).clamp(0, i32::from(u16::MAX))).unwrap_or(0)
        };
        match action {
            Action::Quit => {}
            Action::Pause => self.paused = !self.paused,
            Action::Help => self.help = !self.help,
            Action::NextSort => {
                let at = Sort::ALL.iter().position(|s| *s == self.sort).unwrap_or(0);
                self.sort = Sort::ALL[(at + 1) % Sort::ALL.len()];
            }
            Action::Sort(sort) => self.sort = sort,
            Action::Scroll(by) => self.scroll = scroll(self.scroll, by),
            Action::Page(by) => self.scroll = scroll(self.scroll, by * i32::from(self.page)),
            Action::Home => self.scroll = 0,
            Action::Faster => self.interval = (self.interval / 2).max(INTERVAL_MIN),
            Action::Slower => self.interval = (self.interval * 2).min(INTERVAL_MAX),
        }
    }
}
