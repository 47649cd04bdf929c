// SPDX-License-Identifier: GPL-2.0-only
//! Draws rows as lines of the screen. A wider screen shows more columns.

use paracord_host::settings::{Mode, Reason};
use paracord_host::snapshot::BoostState;
use paracord_sys::clock::NS_PER_S;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::keys::{View, help};
use super::model::{Group, History, Latency, Row};
use crate::units;

/// A column, which appears if the screen is at least `from` characters wide.
struct Column {
    heading: &'static str,
    width: usize,
    from: u16,
    left: bool,
    cell: fn(&Row) -> Span<'static>,
}

const fn number(
    heading: &'static str,
    width: usize,
    from: u16,
    cell: fn(&Row) -> Span<'static>,
) -> Column {
    Column { heading, width, from, left: false, cell }
}

const fn word(
    heading: &'static str,
    width: usize,
    from: u16,
    cell: fn(&Row) -> Span<'static>,
) -> Column {
    Column { heading, width, from, left: true, cell }
}

/// The columns of the table. Those that always appear (`from` is 0) fit into 80 characters: their
/// widths and gaps add up to 74 and one for each reason.
const COLUMNS: &[Column] = &[
    number("vCPU", 5, 0, |r| Span::raw(r.vcpu_id.to_string())),
    number("CPU", 4, 0, |r| Span::raw(r.cpu.to_string())),
    word("STATE", 9, 0, state),
    word("WHY", Reason::COUNT, 0, |r| Span::raw(flags(r))),
    word("CAUSE", 8, 124, |r| Span::raw(r.throttle_cause.clone().unwrap_or_default())),
    number("ASKS", 9, 136, |r| Span::raw(r.asks.clone())),
    number("SPEED", 5, 136, |r| Span::raw(r.speed.clone())),
    number("RUN%", 4, 0, |r| Span::raw(r.running_pct.to_string())),
    number("BST%", 4, 90, |r| Span::raw(r.boosted_pct.to_string())),
    number("BST/s", 5, 0, |r| rate(r.boosts_per_s)),
    number("THR", 4, 0, throttles),
    number("EXIT/s", 6, 0, |r| rate(r.exits_per_s)),
    number("WAKE/s", 6, 100, |r| rate(r.wakeups_per_s)),
    number("on p50", 6, 0, |r| latency(r.boosted.p50_ns)),
    number("p99", 6, 0, |r| latency(r.boosted.p99_ns)),
    number("off p50", 7, 0, |r| latency(r.unboosted.p50_ns)),
    number("p99", 6, 0, |r| latency(r.unboosted.p99_ns)),
    word("BOOSTS", 30, 150, |r| Span::styled(bars(&r.boost_history), Color::Green)),
];

fn state(r: &Row) -> Span<'static> {
    match r.state {
        BoostState::Off => Span::raw("off").dim(),
        BoostState::Boosted => Span::raw("boosted").green().bold(),
        BoostState::Throttled => Span::raw("throttled").red().bold(),
    }
}

fn flags(r: &Row) -> String {
    if r.state == BoostState::Throttled {
        return "!".to_owned();
    }
    if r.not_boosted && r.state == BoostState::Off {
        return "Q".to_owned();
    }
    if r.reasons.is_empty() {
        return String::new();
    }
    let flag = |reason: Reason| if r.reasons.contains(&reason) { reason.letter() } else { '·' };
    Reason::ALL.into_iter().map(flag).collect()
}

fn rate(n: u64) -> Span<'static> {
    if n == 0 { Span::raw("0").dim() } else { Span::raw(units::count(n)) }
}

fn throttles(r: &Row) -> Span<'static> {
    let text = units::count(r.throttles);
    if r.throttles == 0 { Span::raw(text).dim() } else { Span::raw(text).red() }
}

fn latency(ns: Option<u64>) -> Span<'static> {
    match ns {
        None => Span::raw("-").dim(),
        // A delay that is longer than an audio buffer is audible.
        Some(ns) if ns >= 5_000_000 => Span::raw(units::duration(ns)).yellow(),
        Some(ns) => Span::raw(units::duration(ns)),
    }
}

fn bars(values: &[u64]) -> String {
    let max = values.iter().copied().max().unwrap_or(0).max(1);
    let levels: Vec<char> = " ▁▂▃▄▅▆▇█".chars().collect();
    values.iter().map(|v| levels[usize::try_from(v * 8 / max).unwrap_or(0).min(8)]).collect()
}

fn columns(width: u16) -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(move |c| width >= c.from)
}

fn padded(span: Span<'static>, c: &Column) -> Vec<Span<'static>> {
    // A cell that is too long is cut, so that the next columns stay in place.
    let text: String = span.content.chars().take(c.width).collect();
    let gap = " ".repeat(c.width - text.chars().count());
    let cell = Span::styled(text, span.style);
    let space = Span::raw(" ");
    if c.left { vec![space, cell, Span::raw(gap)] } else { vec![space, Span::raw(gap), cell] }
}

fn heading(width: u16) -> Line<'static> {
    let cells = columns(width).flat_map(|c| padded(Span::raw(c.heading), c));
    Line::from_iter(cells).style(Style::new().add_modifier(Modifier::REVERSED))
}

fn meter(pct: u64, cells: usize) -> Span<'static> {
    let full = usize::try_from(pct).unwrap_or(usize::MAX).min(100) * cells / 100;
    let bar = "█".repeat(full) + &"░".repeat(cells - full);
    match pct {
        0..75 => Span::raw(bar).green(),
        75..100 => Span::raw(bar).yellow(),
        _ => Span::raw(bar).red(),
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "off",
        Mode::Observe => "observe",
        Mode::On => "on",
    }
}

fn group_line(g: &Group, width: u16) -> Line<'static> {
    let mut spans = vec![
        Span::raw(g.name.clone()).bold().cyan(),
        Span::raw("  budget "),
        meter(g.budget_used_pct, 10),
        Span::raw(format!(" {}%", g.budget_used_pct)),
        // A narrow screen cuts the end of the line, so the least important part comes last.
        Span::raw(format!("  mode {}  region {}", mode(g.mode), g.region)),
    ];
    if width >= 100 {
        spans.push(Span::raw(format!("  {} {}", g.vmm, g.pid)).dim());
    }
    Line::from(spans)
}

/// The lines of the table below its heading.
fn body(groups: &[Group], width: u16) -> Vec<Line<'static>> {
    if groups.is_empty() {
        return vec![Line::raw(" no VM runs").dim()];
    }
    let rows = |g: &Group| -> Vec<Line<'static>> {
        let line = |r: &Row| Line::from_iter(columns(width).flat_map(|c| padded((c.cell)(r), c)));
        g.rows.iter().map(line).collect()
    };
    groups.iter().flat_map(|g| std::iter::once(group_line(g, width)).chain(rows(g))).collect()
}

fn summary(history: &History, groups: &[Group], view: &View) -> Vec<Line<'static>> {
    let Some(s) = history.now() else { return Vec::new() };
    let vcpus = |state: Option<BoostState>| {
        let all = groups.iter().flat_map(|g| &g.rows);
        all.filter(|r| state.is_none_or(|s| r.state == s)).count()
    };
    let up_s = s.taken_ns.saturating_sub(s.started_ns) / NS_PER_S;
    let mut first = vec![
        Span::raw("paracord").bold(),
        Span::raw(format!(" {}  mode {}  up {}", s.version, mode(s.mode), units::uptime(up_s))),
        Span::raw(format!("  {} VMs, {} vCPUs: ", groups.len(), vcpus(None))),
        Span::raw(format!("{} boosted", vcpus(Some(BoostState::Boosted)))).green(),
        Span::raw(", "),
        Span::raw(format!("{} throttled", vcpus(Some(BoostState::Throttled)))).red(),
    ];
    if view.paused {
        first.push(Span::raw("  PAUSED").yellow().bold());
    }
    let a = &s.actuator;
    let l = Latency {
        p50_ns: a.actuation_latency.percentile_ns(500),
        p99_ns: a.actuation_latency.percentile_ns(990),
    };
    let shown = |ns: Option<u64>| ns.map_or("-".to_owned(), units::duration);
    let mut lines = vec![
        Line::from(first),
        Line::raw(format!(
            "actuator {}: {} boosts/s, decision to action p50 {} p99 {}, {} errors",
            a.kind,
            units::count(history.actuations_per_s()),
            shown(l.p50_ns),
            shown(l.p99_ns),
            a.errors
        )),
    ];
    let troubles = view.lost.iter().chain(&s.conditions);
    lines.extend(troubles.take(2).map(|t| Line::raw(t.clone()).yellow()));
    lines
}

/// Formats everything as text without colours, for a width of `width` characters.
pub fn text(history: &History, view: &View, width: u16) -> String {
    let groups = history.groups(view.sort);
    let mut lines = summary(history, &groups, view);
    lines.push(heading(width));
    lines.extend(body(&groups, width));
    lines.iter().map(|l| format!("{}\n", l.to_string().trim_end())).collect()
}

/// Draws the screen. Reduces `view.scroll` if it is beyond the end of the table.
pub fn frame(frame: &mut Frame, history: &History, view: &mut View) {
    let area = frame.area();
    let groups = history.groups(view.sort);
    let top = summary(history, &groups, view);
    let top_height = u16::try_from(top.len()).unwrap_or(0);
    let [summary_area, heading_area, table_area, footer_area] = Layout::vertical([
        Constraint::Length(top_height),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    let lines = body(&groups, area.width);
    let total = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    view.page = table_area.height.max(1);
    view.scroll = view.scroll.min(total.saturating_sub(view.page));
    let below = total.saturating_sub(view.scroll.saturating_add(view.page));
    frame.render_widget(Paragraph::new(top), summary_area);
    frame.render_widget(Paragraph::new(heading(area.width)), heading_area);
    frame.render_widget(Paragraph::new(lines).scroll((view.scroll, 0)), table_area);
    frame.render_widget(Paragraph::new(footer(view, below)), footer_area);
    if view.help {
        draw_help(frame, area);
    }
}

fn footer(view: &View, below: u16) -> Line<'static> {
    let key = |k: &'static str, text: String| [Span::raw(k).bold(), Span::raw(text).dim()];
    let mut spans: Vec<Span> = Vec::new();
    spans.extend(key("q", " quit  ".into()));
    spans.extend(key("p", " pause  ".into()));
    spans.extend(key("s", format!(" sort: {}  ", view.sort.word())));
    spans.extend(key("+-", format!(" every {:.2}s  ", view.interval.as_secs_f32())));
    spans.extend(key("h", " help".into()));
    if below > 0 {
        spans.push(Span::raw(format!("  ↓ {below} more")).dim());
    }
    Line::from(spans)
}

fn draw_help(frame: &mut Frame, area: Rect) {
    let help = help();
    let key_width = help.iter().map(|(k, _)| k.chars().count()).max().unwrap_or(0);
    let lines: Vec<Line> = help
        .into_iter()
        .map(|(k, what)| {
            let gap = " ".repeat(key_width - k.chars().count() + 2);
            Line::from(vec![Span::raw(k).bold(), Span::raw(gap), Span::raw(what)])
        })
        .collect();
    let width = lines.iter().map(Line::width).max().unwrap_or(0) + 4;
    let (width, height) = (u16::try_from(width).unwrap_or(u16::MAX), lines.len() as u16 + 2);
    let (width, height) = (width.min(area.width), height.min(area.height));
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(" keys ").padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Paragraph::new(lines).block(block), place);
}
