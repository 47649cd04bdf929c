// SPDX-License-Identifier: GPL-2.0-only
//! Measures the cost of a policy decision: `decision_cost [DECISIONS]` prints one line of JSON per
//! case, with nanoseconds per decision. bench/costs also runs this program under callgrind, to
//! count instructions.

use std::{hint::black_box, time::Instant};

use paracord_policy::{
    PC_EV_EXIT, PC_EV_PREEMPT, PC_EV_RUN, PC_EV_SLEEP, defaults, pc_boost_obs, pc_boost_state,
    pc_bucket, pc_guest_view, step,
};

/// Events of one vCPU. Each entry has the time before the event, the event, and whether the vCPU
/// then runs.
type Trace = [(u64, u32, bool)];

fn main() {
    let decisions: u64 =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20_000_000);
    let guest = pc_guest_view { valid: 1, rt: 1, ..pc_guest_view::default() };
    let nothing = pc_guest_view { valid: 1, ..pc_guest_view::default() };
    // A boosted guest that behaves like an audio player; an unboosted guest without reasons; exits
    // of a boosted guest.
    let cases: [(&str, pc_guest_view, &Trace); 3] = [
        (
            "wake_cycle",
            guest,
            &[
                (700_000, PC_EV_RUN, true),
                (100_000, PC_EV_EXIT, true),
                (200_000, PC_EV_SLEEP, false),
            ],
        ),
        (
            "unboosted_preempt",
            nothing,
            &[(3_000_000, PC_EV_PREEMPT, false), (3_000_000, PC_EV_RUN, true)],
        ),
        ("boosted_exit", guest, &[(10_000, PC_EV_EXIT, true)]),
    ];
    let mut cfg = defaults();
    for reason in &mut cfg.reason {
        reason.grant_max_ns = u64::MAX;
        reason.budget_ns = cfg.period_ns;
    }
    (cfg.vcpu_budget_ns, cfg.vm_budget_ns, cfg.cpu_kept_ns) = (cfg.period_ns, cfg.period_ns, 0);
    for (name, guest, trace) in cases {
        let (mut state, mut vm, mut cpu) =
            (pc_boost_state::default(), pc_bucket::default(), pc_bucket::default());
        let (mut now_ns, mut boosted) = (1_000_000_000, 0);
        let preempted =
            pc_boost_obs { events: PC_EV_PREEMPT, running: 0, alone: 0, refused: 0, guest };
        step(&cfg, &mut state, &mut vm, &mut cpu, &preempted, now_ns);
        let start = Instant::now();
        for (after, events, running) in trace.iter().cycle().take(decisions as usize) {
            now_ns += after;
            let obs = pc_boost_obs {
                events: *events,
                running: u32::from(*running),
                alone: 0,
                refused: 0,
                guest,
            };
            black_box(step(&cfg, &mut state, &mut vm, &mut cpu, black_box(&obs), now_ns));
            boosted += u64::from(state.boosted);
        }
        let ns = start.elapsed().as_nanos() as f64 / decisions as f64;
        println!(
            r#"{{"bench": "policy_decision", "case": "{name}", "decisions": {decisions}, "boosted": {:.3}, "ns": {ns:.2}}}"#,
            boosted as f64 / decisions as f64
        );
    }
}
