// SPDX-License-Identifier: GPL-2.0-only
//! Draws snapshots on screens of common sizes.

use paracord_host::settings::{Mode, Reason};
use paracord_host::snapshot::{
    BoostState, HISTOGRAM_BUCKETS, Histogram, RegionSnapshot, Snapshot, VcpuSnapshot, VmSnapshot,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw;
use super::keys::{Action, Sort, View};
use super::model::History;

fn histogram(bucket: usize, count: u64) -> Histogram {
    let mut buckets = vec![0; HISTOGRAM_BUCKETS];
    buckets[bucket] = count;
    Histogram { buckets }
}

/// Two VMs with four vCPUs each, `s` seconds after the start.
fn snapshot(s: u64) -> Snapshot {
    let vcpu = |vm: u32, n: u32| {
        let mut v = VcpuSnapshot {
            vcpu_id: n,
            tid: vm * 100 + n,
            cpu: n,
            wakeup_latency_boosted: histogram(14, 1000 * s),
            wakeup_latency_unboosted: histogram(23, s),
            ..Default::default()
        };
        match n {
            1 => (v.state, v.reasons) = (BoostState::Boosted, vec![Reason::Wake, Reason::Rt]),
            2 => {
                v.state = BoostState::Throttled;
                v.throttle_cause = Some("vcpu".into());
            }
            _ => {}
        }
        v.counters.boosts = [u64::from(n) * 100 * s, 0, 0, u64::from(vm) * s];
        v.counters.exits = 12_345 * s * u64::from(n + 1);
        v.counters.throttles = u64::from(n == 2) * 7;
        v.counters.running_ns = s * 420_000_000;
        v
    };
    let vm = |n: u32, name: &str| VmSnapshot {
        name: name.into(),
        pid: 1000 + n,
        vmm: "qemu-system-x86".into(),
        mode: Mode::On,
        region: Some(RegionSnapshot {
            name: name.into(),
            slots: 4,
            guest_abi: Some("1.0".into()),
            ..Default::default()
        }),
        vcpus: (0..4).map(|i| vcpu(n, i)).collect(),
        budget_left_ns: 38_000_000,
        budget_ns: 100_000_000,
        period_ns: 100_000_000,
        ..Default::default()
    };
    let mut snapshot = Snapshot {
        version: "0.1.0".into(),
        taken_ns: s * 1_000_000_000,
        started_ns: 0,
        vms: vec![vm(1, "web"), vm(2, "audio")],
        ..Default::default()
    };
    snapshot.actuator.kind = "rt".into();
    snapshot.actuator.boosts = 500 * s;
    snapshot
}

fn history(seconds: u64) -> History {
    let mut history = History::default();
    for s in 1..=seconds {
        history.push(snapshot(s));
    }
    history
}

fn screen(history: &History, view: &mut View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::frame(frame, history, view)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(row).collect()
}

#[test]
fn rates_come_from_the_last_interval_and_grouping_from_the_vms() {
    let groups = history(3).groups(Sort::Name);
    assert_eq!(groups.iter().map(|g| g.name.as_str()).collect::<Vec<_>>(), ["audio", "web"]);
    let row = &groups[1].rows[1];
    assert_eq!((row.boosts_per_s, row.exits_per_s, row.running_pct), (101, 24_690, 42));
    assert_eq!((row.boosted.p99_ns, row.unboosted.p50_ns), (Some(1 << 15), Some(1 << 24)));
    assert_eq!(row.boost_history, [101, 101]);
    assert_eq!(groups[1].budget_used_pct, 62);
}

#[test]
fn a_single_snapshot_gives_rates_since_the_start() {
    let groups = history(1).groups(Sort::Name);
    assert_eq!(groups[1].rows[1].exits_per_s, 24_690);
}

#[test]
fn sorting_brings_the_largest_to_the_top() {
    let history = history(2);
    assert_eq!(history.groups(Sort::Exits)[0].rows[0].vcpu_id, 3);
    assert_eq!(history.groups(Sort::Throttles)[0].rows[0].vcpu_id, 2);
    // audio has one more boost per second than web.
    assert_eq!(history.groups(Sort::Boosts)[0].name, "audio");
}

#[test]
fn a_restarted_daemon_starts_a_new_history() {
    let mut history = history(5);
    history.push(Snapshot { started_ns: 7, ..snapshot(9) });
    assert!(history.groups(Sort::Name)[0].rows[0].boost_history.is_empty());
}

#[test]
fn eighty_columns_show_every_needed_column_uncut() {
    let screen = screen(&history(3), &mut View::default(), 80, 24);
    let heading = &screen[2];
    for h in [
        "vCPU", "CPU", "STATE", "WHY", "RUN%", "BST/s", "THR", "EXIT/s", "on p50", "off p50", "p99",
    ] {
        assert!(heading.contains(h), "{h} in {heading}");
    }
    let text = screen.join("\n");
    for part in [
        "2 VMs, 8 vCPUs: 2 boosted, 2 throttled",
        "W·R·",
        "throttled",
        "budget ██████░░░░ 62%",
        "q quit",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(heading.trim_end().ends_with("p99"), "the last column is cut: {heading}");
}

#[test]
fn wide_screens_add_the_history() {
    let screen = screen(&history(31), &mut View::default(), 160, 50).join("\n");
    for part in
        ["CAUSE", "WAKE/s", "BOOSTS", "██████████████████████████████", "qemu-system-x86 1001"]
    {
        assert!(screen.contains(part), "{part} in\n{screen}");
    }
}

#[test]
fn small_screens_scroll_to_the_end_and_not_beyond() {
    let history = history(3);
    let mut view = View::default();
    let first = screen(&history, &mut view, 80, 10);
    assert!(first[9].contains("↓ 4 more"), "{first:?}");
    view.apply(Action::Scroll(100));
    let last = screen(&history, &mut view, 80, 10);
    assert_eq!(view.scroll, 4);
    assert!(!last[9].contains("more"));
    assert!(last[8].trim_start().starts_with('3'), "{last:?}");
}

#[test]
fn any_size_can_be_drawn() {
    let history = history(2);
    for width in [1, 2, 10, 79, 81, 200] {
        for height in [1, 2, 3, 5, 100] {
            let mut view = View { help: true, ..View::default() };
            assert_eq!(screen(&history, &mut view, width, height).len(), usize::from(height));
        }
    }
    screen(&History::default(), &mut View::default(), 80, 24);
}

#[test]
fn help_pause_and_loss_are_seen() {
    let history = history(2);
    let mut view = View::default();
    view.apply(Action::Help);
    view.apply(Action::Pause);
    view.lost = Some("no daemon at /run/x".into());
    let text = screen(&history, &mut view, 80, 24).join("\n");
    for part in ["keys", "sort by name", "PAUSED", "no daemon at /run/x"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn printed_text_has_no_escape_codes() {
    let text = draw::text(&history(2), &View::default(), 110);
    assert!(text.contains("web") && !text.contains('\u{1b}'), "{text}");
}
