// SPDX-License-Identifier: GPL-2.0-only
//! Properties of the policy. Each test names the mechanism that it guards.
#![allow(clippy::unwrap_used)]

use paracord_policy::{
    PC_BOOST, PC_BOOSTS_AT_ONCE, PC_EV_EXIT, PC_EV_IRQ, PC_EV_PREEMPT, PC_EV_RUN, PC_EV_SLEEP,
    PC_EV_TICK, PC_EV_WAKEUP, PC_KEEP, PC_LEVEL_FULL, PC_LEVEL_IRQ, PC_LEVEL_NONE, PC_MODE_OBSERVE,
    PC_MODE_OFF, PC_THROTTLE_CPU, PC_THROTTLE_VCPU, PC_UNBOOST, defaults, guest_view,
    invariants::Inputs, is_quiet, left_ns, level, note_irq, pc_boost_config, pc_boost_decision,
    pc_boost_obs, pc_boost_state, pc_bucket, pc_guest_view, resume, step, wants_view,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
const WAKE: usize = 0;
const IRQ: usize = 1;
const RT: usize = 2;
const HOST_TICK: u64 = 4 * MS;

const EVERYTHING: pc_guest_view =
    pc_guest_view { valid: 1, rt: 1, irq: 1, critical: 1, halting: 0, urgent: 1, reserved: [0; 2] };
const NOTHING: pc_guest_view =
    pc_guest_view { valid: 1, rt: 0, irq: 0, critical: 0, halting: 0, urgent: 0, reserved: [0; 2] };
const UNMODIFIED: pc_guest_view =
    pc_guest_view { valid: 0, rt: 0, irq: 0, critical: 0, halting: 0, urgent: 0, reserved: [0; 2] };

/// The view of a guest that publishes any class, nice -20 or 0, and any flags but `halting`, each
/// by a bit of the word. Of the classes, 6 and 7 are invalid.
fn any_hints(word: u64) -> pc_guest_view {
    let prio = if word & 1 << 8 == 0 { 120 } else { 100 };
    guest_view(word & 0x0101_0101_0007 | prio << 8, 0, 0)
}

/// One vCPU. It is the only vCPU of its VM, and the only one on its CPU.
struct Bench {
    cfg: pc_boost_config,
    state: pc_boost_state,
    vm: pc_bucket,
    cpu: pc_bucket,
    now: u64,
    /// Whether the vCPU waits and no normal task competes for its CPU.
    alone: bool,
    /// Whether a boost would bypass a limit of the host.
    refused: bool,
}

impl Bench {
    fn new(cfg: pc_boost_config) -> Self {
        Self {
            cfg,
            state: pc_boost_state::default(),
            vm: pc_bucket::default(),
            cpu: pc_bucket::default(),
            now: 1_000_000 * MS,
            alone: false,
            refused: false,
        }
    }

    /// Reports an event `after` nanoseconds later.
    fn see(
        &mut self,
        after: u64,
        events: u32,
        running: bool,
        guest: pc_guest_view,
    ) -> pc_boost_decision {
        self.now = self.now.wrapping_add(after);
        let (alone, refused) = (u32::from(self.alone), u32::from(self.refused));
        let obs = pc_boost_obs { events, running: u32::from(running), alone, refused, guest };
        step(&self.cfg, &mut self.state, &mut self.vm, &mut self.cpu, &obs, self.now)
    }

    /// Sleeps, wakes immediately, and then runs for `running` nanoseconds with an exit every
    /// millisecond. Returns the charged time.
    fn wake_and_run(&mut self, running: u64, guest: pc_guest_view) -> u64 {
        let mut charged = self.see(0, PC_EV_SLEEP, false, guest).charged_ns;
        charged += self.see(0, PC_EV_RUN, true, guest).charged_ns;
        let mut left = running;
        while left > 0 {
            let slice = left.min(MS);
            charged += self.see(slice, PC_EV_EXIT, true, guest).charged_ns;
            left -= slice;
        }
        charged
    }
}

fn arbitrary_inputs() -> impl Strategy<Value = Inputs> {
    // Random bytes in the state, a random configuration or the default one, and any time.
    (prop::collection::vec(any::<u8>(), Inputs::BYTES), any::<bool>(), any::<bool>()).prop_map(
        |(bytes, with_defaults, near)| {
            let mut inputs = Inputs::from_bytes(&bytes);
            if with_defaults {
                inputs.cfg = defaults();
            }
            if near {
                inputs.state.last_charge_ns = inputs.now_ns.wrapping_sub(u64::from(bytes[0]) * MS);
                inputs.state.vcpu.period_start_ns =
                    inputs.now_ns.wrapping_sub(u64::from(bytes[1]) * MS);
                inputs.state.vcpu.left_ns %= 100_000_000;
            }
            inputs
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Guards the clamping of times, buckets, periods and strikes. A trap in the C code also fails
    /// the test.
    #[test]
    fn any_bytes_keep_the_invariants(inputs in arbitrary_inputs()) {
        inputs.check();
    }

    /// Guards that every byte of the guest's word is checked. The fields of the result can only be
    /// 0 or 1.
    #[test]
    fn any_guest_word_gives_a_clean_view(word in any::<u64>(), count in any::<u32>(), mask in any::<u32>()) {
        let view = guest_view(word, count, mask);
        for flag in [view.valid, view.rt, view.irq, view.critical, view.halting, view.urgent] {
            prop_assert!(flag <= 1);
        }
        if word.to_le_bytes()[0] > 5 {
            prop_assert_eq!(view, pc_guest_view::default());
        }
    }
}

/// The host must see interrupts in preempt_count, because the module has no hook for some of them.
/// An interrupted idle task counts as an interrupt, but not as a critical section. Merely disabled
/// softirqs do not count as an interrupt.
#[test]
fn interrupts_are_seen_in_preempt_count() {
    const NORMAL: u64 = 2;
    const IDLE: u64 = 1;
    // To Linux 7.2, and since 7.3. Bit 31 of the first is x86's inverted "reschedule". Bits 16 to 23
    // of the second count disabled interrupts.
    const MASK: u32 = 0x00ff_ffff;
    const IDLE_MASK: u32 = 0x00ff_ff00;
    const MASK_7_3: u32 = 0xff00_ffff;
    const IDLE_MASK_7_3: u32 = 0xff00_ff00;
    for (class, mask, count, irq, critical) in [
        (NORMAL, MASK, 0x0001_0000, 1, 1),
        (NORMAL, MASK, 0x0000_0100, 1, 1),
        (NORMAL, MASK, 0x0010_0000, 1, 1),
        (NORMAL, MASK, 0x0000_0200, 0, 1),
        (NORMAL, MASK, 0x0000_0001, 0, 1),
        (NORMAL, MASK, 0x8000_0000, 0, 0),
        (IDLE, IDLE_MASK, 0x0001_0001, 1, 0),
        (IDLE, IDLE_MASK, 0x0000_0001, 0, 0),
        (NORMAL, 0, 0x0001_0000, 0, 0),
        (NORMAL, MASK_7_3, 0x0100_0001, 1, 1),
        (NORMAL, MASK_7_3, 0x1000_0000, 1, 1),
        (NORMAL, MASK_7_3, 0x8000_0000, 1, 1),
        (NORMAL, MASK_7_3, 0x0000_0100, 1, 1),
        (NORMAL, MASK_7_3, 0x0001_0000, 0, 0),
        (IDLE, IDLE_MASK_7_3, 0x0100_0001, 1, 0),
        (IDLE, IDLE_MASK_7_3, 0x0001_0001, 0, 0),
    ] {
        let view = guest_view(class, count, mask);
        assert_eq!(
            (view.irq, view.critical),
            (irq, critical),
            "class {class}, preempt_count {count:#x}"
        );
    }
}

/// Guards the view of a task of nice -20 (`task_prio` 100): only a normal task counts.
#[test]
fn a_normal_task_of_nice_minus_20_is_urgent() {
    for (class, prio, urgent) in
        [(2, 100, 1), (2, 101, 0), (2, 120, 0), (2, 0, 0), (1, 100, 0), (3, 100, 0)]
    {
        let view = guest_view(class | prio << 8, 0, 0);
        assert_eq!((view.valid, view.urgent, view.irq), (1, urgent, 0), "{class}, {prio}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Guards grants. From any state, a running vCPU whose guest sets every hint is unboosted
    /// within the longest grant plus two host ticks.
    #[test]
    fn a_held_hint_always_ends(inputs in arbitrary_inputs()) {
        let mut bench = Bench { cfg: defaults(), state: inputs.state, vm: inputs.vm, cpu: inputs.cpu, now: inputs.now_ns, alone: false, refused: false };
        bench.see(0, PC_EV_EXIT, true, EVERYTHING);
        let limit = bench.cfg.reason.iter().map(|reason| reason.grant_max_ns).max().unwrap() + 2 * HOST_TICK;
        let mut ran = 0;
        while bench.state.boosted == 1 {
            bench.see(HOST_TICK, PC_EV_EXIT, true, EVERYTHING);
            ran += HOST_TICK;
            prop_assert!(ran <= limit, "still boosted after {ran} ns: {:?}", bench.state);
        }
    }

    /// Guards the end of a boost by a timer: when the time that is left has passed, the boost of a
    /// guest without hints has ended, and not before unless a budget is used up.
    #[test]
    fn a_boost_ends_when_nothing_is_left_of_its_grants(
        inputs in arbitrary_inputs(), wakes in any::<bool>(), early in 1..100 * US,
    ) {
        let mut bench = Bench { cfg: defaults(), state: inputs.state, vm: inputs.vm, cpu: inputs.cpu, now: inputs.now_ns, alone: false, refused: false };
        bench.see(0, if wakes { PC_EV_SLEEP } else { PC_EV_IRQ }, false, UNMODIFIED);
        bench.see(MS, PC_EV_RUN, true, UNMODIFIED);
        let left = left_ns(&bench.cfg, &bench.state, bench.now);
        prop_assert_eq!(left > 0, bench.state.boosted == 1);
        prop_assert_eq!(left_ns(&bench.cfg, &bench.state, bench.now + left / 2), (left - left / 2).max(left.min(1)));
        bench.see(left.saturating_sub(early), PC_EV_EXIT, true, UNMODIFIED);
        let rest = left_ns(&bench.cfg, &bench.state, bench.now);
        prop_assert!(rest == 0 || rest == early.min(left));
        bench.see(rest, PC_EV_EXIT, true, UNMODIFIED);
        prop_assert_eq!(bench.state.boosted, 0);
    }

    /// Guards quiet exits, at which the caller skips the step: the step would have kept the boost,
    /// whatever the guest says.
    #[test]
    fn a_quiet_exit_never_ends_a_boost(
        inputs in arbitrary_inputs(), after in 0..2 * MS, rt in 0..2u8, irq in 0..2u8, critical in 0..2u8,
        urgent in 0..2u8,
    ) {
        let mut bench = Bench { cfg: defaults(), state: inputs.state, vm: inputs.vm, cpu: inputs.cpu, now: inputs.now_ns, alone: false, refused: false };
        bench.see(0, PC_EV_SLEEP, false, NOTHING);
        bench.see(MS, PC_EV_RUN, true, NOTHING);
        let quiet = is_quiet(&bench.state, bench.now.wrapping_add(after));
        let view = pc_guest_view { valid: 1, rt, irq, critical, halting: 0, urgent, reserved: [0; 2] };
        let decision = bench.see(after, PC_EV_EXIT, true, view);
        prop_assert!(!quiet || (u32::from(decision.action) == PC_KEEP && bench.state.boosted == 1));
    }

    /// Guards the short step of a vCPU that serves a wakeup. If the event comes together with a
    /// tick, the whole step runs. The short step and the whole step must decide and charge the
    /// same.
    #[test]
    fn a_short_step_decides_as_the_whole_one(
        inputs in arbitrary_inputs(), sane in any::<bool>(), second in any::<bool>(), after in 0..2 * MS, running in any::<bool>(),
        event in prop::sample::select(vec![PC_EV_RUN, PC_EV_PREEMPT, PC_EV_SLEEP]), word in any::<u64>(),
    ) {
        let mut short = Bench { cfg: inputs.cfg, state: inputs.state, vm: inputs.vm, cpu: inputs.cpu, now: inputs.now_ns, alone: false, refused: false };
        if sane {
            short = Bench::new(defaults());
            short.see(0, PC_EV_SLEEP, false, UNMODIFIED);
            short.see(MS, PC_EV_RUN, true, UNMODIFIED);
            // The vCPU wakes up, and an exit shows a real-time task.
            if second {
                short.see(MS / 2, PC_EV_EXIT, true, EVERYTHING);
            }
        }
        // If a second reason holds, both benches take the whole step, except at a sleep, which ends
        // the second reason. So the reasons of the two benches may differ only if WAKE alone holds
        // and the vCPU does not sleep.
        let same_reasons = short.state.reasons != 1 << WAKE || event == PC_EV_SLEEP;
        let mut whole = Bench { cfg: short.cfg, state: short.state, vm: short.vm, cpu: short.cpu, now: short.now, alone: false, refused: false };
        let guest = any_hints(word);
        let (one, other) = (
            short.see(after, event, running, guest),
            whole.see(after, event | PC_EV_TICK, running, guest),
        );
        prop_assert_eq!((one.action, one.charged_ns, one.forced), (other.action, other.charged_ns, other.forced));
        prop_assert_eq!((short.state.boosted, short.state.throttled), (whole.state.boosted, whole.state.throttled));
        prop_assert_eq!(level(u32::from(short.state.reasons)), level(u32::from(whole.state.reasons)));
        prop_assert_eq!((short.state.vcpu, short.vm, short.cpu), (whole.state.vcpu, whole.vm, whole.cpu));
        prop_assert!(!same_reasons || short.state.reasons == whole.state.reasons);
        if event == PC_EV_SLEEP {
            prop_assert_eq!(short.state.grant_used_ns, whole.state.grant_used_ns);
        }
        prop_assert!(short.state.quiet_ns <= whole.state.quiet_ns || short.state.boosted == 0);
    }

    /// Guards preemptions at which the policy does not read the guest's line. At such a preemption,
    /// two guests with different hints are treated in the same way, even if other vCPUs have used
    /// up a shared budget in the meantime.
    #[test]
    fn an_unread_view_changes_no_preemption(
        second in any::<bool>(), after in 0..2 * MS, left_ms in -5..50_i64, word in any::<u64>(), other_word in any::<u64>(),
    ) {
        let cfg = defaults();
        let preempted = |word: u64| {
            let mut bench = Bench::new(cfg);
            bench.see(0, PC_EV_SLEEP, false, UNMODIFIED);
            bench.see(MS, PC_EV_RUN, true, UNMODIFIED);
            if second {
                bench.see(MS / 2, PC_EV_EXIT, true, EVERYTHING);
            }
            bench.vm.left_ns = left_ms * MS as i64;
            let wanted = wants_view(&bench.state, bench.now + after);
            let action = bench.see(after, PC_EV_PREEMPT, false, any_hints(word)).action;
            (wanted, action, bench.state.boosted, bench.state.reasons)
        };
        let (one, other) = (preempted(word), preempted(other_word));
        prop_assert!(one.0 || one == other, "{one:?} {other:?}");
        prop_assert!(!second || one.0, "RT ends if the guest's hint ends");
    }

    /// Guards ticks: they detect the end of a grant if the vCPU does not exit and its guest gives
    /// no hints.
    #[test]
    fn a_vcpu_without_exits_is_unboosted_by_ticks(inputs in arbitrary_inputs()) {
        let mut bench = Bench { cfg: defaults(), state: inputs.state, vm: inputs.vm, cpu: inputs.cpu, now: inputs.now_ns, alone: false, refused: false };
        bench.see(0, PC_EV_TICK, true, UNMODIFIED);
        let mut ran = 0;
        while bench.state.boosted == 1 {
            bench.see(10 * MS, PC_EV_TICK, true, UNMODIFIED);
            ran += 10 * MS;
            prop_assert!(ran <= 70 * MS, "{:?}", bench.state);
        }
    }

    /// Guards charging with debt. Whatever the events, n periods pay at most n + 1 budgets and one
    /// overrun. This applies to the vCPU, to each reason, and to the CPU.
    #[test]
    fn budgets_hold_over_any_sequence(
        events in prop::collection::vec((0_u64..12 * MS, 0_u32..256, any::<bool>(), any::<u64>()), 1..600),
        budget_ms in 1_u64..100,
    ) {
        let mut cfg = defaults();
        cfg.vcpu_budget_ns = budget_ms * MS;
        let mut bench = Bench::new(cfg);
        let start = bench.now;
        let (mut charged, mut overrun) = (0, 0);
        for (after, mask, running, word) in events {
            let spent = bench.see(after, mask, running, any_hints(word)).charged_ns;
            charged += spent;
            overrun = overrun.max(spent);
        }
        let periods = (bench.now - start) / cfg.period_ns + 1;
        prop_assert!(charged <= (periods + 1) * cfg.vcpu_budget_ns + overrun);
        let cpu_budget = cfg.period_ns - cfg.cpu_kept_ns;
        prop_assert!(charged <= (periods + 1) * cpu_budget + overrun);
    }

    /// Guards the `enabled` switch of each reason.
    #[test]
    fn a_disabled_reason_never_boosts(
        events in prop::collection::vec((0_u64..2 * MS, 0_u32..256, any::<bool>(), any::<u64>()), 1..200),
        reason in 0_usize..4,
    ) {
        let mut cfg = defaults();
        cfg.reason[reason].enabled = 0;
        let mut bench = Bench::new(cfg);
        for (after, mask, running, word) in events {
            bench.see(after, mask, running, any_hints(word));
            prop_assert_eq!(bench.state.reasons & (1 << reason), 0);
        }
    }

    /// Guards the wrap-around of the 64-bit clock, which must change nothing.
    #[test]
    fn behaviour_does_not_depend_on_the_time_of_day(
        offset in any::<u64>(),
        events in prop::collection::vec((1_u64..2 * MS, 0_u32..256, any::<bool>(), any::<u64>()), 1..200),
    ) {
        let mut runs = [0, offset].map(|offset| {
            let mut bench = Bench::new(defaults());
            bench.now = bench.now.wrapping_add(offset);
            // A new period is due at the first step, so the periods of both runs begin at the same
            // step.
            for bucket in bench.state.reason.iter_mut().chain([&mut bench.state.vcpu, &mut bench.vm, &mut bench.cpu]) {
                bucket.period_start_ns = bench.now.wrapping_sub(bench.cfg.period_ns);
            }
            bench.state.throttled_until_ns = bench.now;
            events.iter().map(|(after, mask, running, word)| {
                let decision = bench.see(*after, *mask, *running, any_hints(*word));
                (decision.action, decision.reasons, decision.charged_ns)
            }).collect::<Vec<_>>()
        }).into_iter();
        prop_assert_eq!(runs.next(), runs.next());
    }
}

/// Guards that WAKE begins with a sleep, is renewed by each sleep, and ends with its grant.
#[test]
fn wake_lasts_its_grant_and_is_renewed_by_sleep() {
    let mut bench = Bench::new(defaults());
    assert_eq!(u32::from(bench.see(0, PC_EV_SLEEP, false, UNMODIFIED).action), PC_BOOST);
    for _ in 0..1000 {
        bench.see(400 * US, PC_EV_RUN, true, UNMODIFIED);
        bench.see(600 * US, PC_EV_SLEEP, false, UNMODIFIED);
        assert_eq!(bench.state.boosted, 1, "60% of the vCPU, but never longer than the grant");
    }
    bench.see(0, PC_EV_RUN, true, UNMODIFIED);
    let end = bench.see(MS, PC_EV_EXIT, true, UNMODIFIED);
    assert_eq!((u32::from(end.action), end.forced), (PC_UNBOOST, 0));
}

/// Guards the defaults. A guest uses 60% of its vCPU for a timer of 500 us and is boosted all the
/// time. It is never throttled in ten minutes.
#[test]
fn an_honest_guest_is_never_throttled() {
    for guest in [UNMODIFIED, EVERYTHING] {
        let mut bench = Bench::new(defaults());
        for round in 0..1_200_000 {
            bench.see(200 * US, PC_EV_RUN, true, guest);
            bench.see(150 * US, PC_EV_EXIT, true, guest);
            let sleep = bench.see(150 * US, PC_EV_SLEEP, false, guest);
            assert_eq!(
                (sleep.cause, bench.state.throttled),
                (0, 0),
                "round {round}: {:?}",
                bench.state
            );
        }
        assert_eq!(bench.state.boosted, 1);
    }
}

/// Guards boosts for an interrupt. Such a boost only overtakes normal tasks. Without normal tasks,
/// it would cost time and gain nothing.
#[test]
fn an_interrupt_boosts_nobody_who_has_nobody_to_overtake() {
    for (alone, action) in [(true, PC_KEEP), (false, PC_BOOST)] {
        let mut bench = Bench { alone, ..Bench::new(defaults()) };
        bench.see(0, PC_EV_RUN, true, UNMODIFIED);
        assert_eq!(bench.see(MS, PC_EV_IRQ, false, UNMODIFIED).action, action as u8);
    }
    // The interrupt is remembered until a normal task competes and the vCPU is preempted.
    let mut bench = Bench { alone: true, ..Bench::new(defaults()) };
    bench.see(0, PC_EV_IRQ, false, UNMODIFIED);
    bench.alone = false;
    assert_eq!(bench.see(MS / 10, PC_EV_PREEMPT, false, UNMODIFIED).reasons, 1 << IRQ);
    // A boost for a wakeup or for a guest's hint overtakes more than normal tasks, so it begins in
    // any case.
    let mut bench = Bench { alone: true, ..Bench::new(defaults()) };
    assert_eq!(bench.see(0, PC_EV_IRQ | PC_EV_WAKEUP, false, UNMODIFIED).action, PC_BOOST as u8);
    let mut bench = Bench { alone: true, ..Bench::new(defaults()) };
    let rt = pc_guest_view { valid: 1, rt: 1, ..UNMODIFIED };
    assert_eq!(bench.see(0, PC_EV_PREEMPT, false, rt).action, PC_BOOST as u8);
}

/// Guards the reason IRQ of a preempted vCPU, and the grant of this reason.
#[test]
fn a_kick_boosts_a_preempted_vcpu_once_per_grant() {
    let mut bench = Bench::new(defaults());
    bench.see(0, PC_EV_RUN, true, UNMODIFIED);
    assert_eq!(bench.see(MS, PC_EV_PREEMPT, false, UNMODIFIED).action, 0, "there is no reason yet");
    assert_eq!(bench.see(MS, PC_EV_IRQ, false, UNMODIFIED).reasons, 1 << IRQ);
    bench.see(MS, PC_EV_RUN, true, UNMODIFIED);
    bench.see(400 * US, PC_EV_EXIT, true, UNMODIFIED);
    assert_eq!(bench.state.boosted, 1);
    bench.see(100 * US, PC_EV_EXIT, true, UNMODIFIED);
    assert_eq!(bench.state.boosted, 0);
}

/// Guards the levels: the tick of a guest that computes does not have the priority of another
/// guest's wakeup.
#[test]
fn an_interrupt_alone_is_a_lower_boost_until_the_guest_shows_a_real_time_task() {
    assert_eq!((level(0), level(1 << 4)), (PC_LEVEL_NONE, PC_LEVEL_NONE));
    for reasons in 1..16 {
        let expected = if reasons == 1 << IRQ { PC_LEVEL_IRQ } else { PC_LEVEL_FULL };
        assert_eq!(level(reasons), expected, "{reasons:#x}");
    }
    let mut bench = Bench::new(defaults());
    let hint = pc_guest_view { rt: 1, ..NOTHING };
    let reasons = bench.see(0, PC_EV_IRQ, false, NOTHING).reasons;
    assert_eq!(level(reasons.into()), PC_LEVEL_IRQ);
    bench.see(MS, PC_EV_RUN, true, NOTHING);
    bench.see(50 * US, PC_EV_EXIT, true, hint);
    assert_eq!(level(bench.state.reasons.into()), PC_LEVEL_FULL);
}

/// Guards the case in which a guest timer expires together with the host's tick. The vCPU is
/// preempted before the interrupt is injected, and the last grant of IRQ is used up.
#[test]
fn a_kick_just_before_a_preemption_is_not_lost() {
    for guest in [UNMODIFIED, NOTHING] {
        let mut bench = Bench::new(defaults());
        bench.see(0, PC_EV_IRQ, false, guest);
        bench.see(MS, PC_EV_RUN, true, guest);
        bench.see(600 * US, PC_EV_EXIT, true, guest);
        assert_eq!(bench.state.boosted, 0);
        bench.see(600 * US, PC_EV_IRQ, true, UNMODIFIED);
        assert_eq!(bench.see(20 * US, PC_EV_PREEMPT, false, guest).reasons, 1 << IRQ);
    }
}

/// Guards that, with a guest driver, IRQ ends as soon as the guest has served the interrupt.
#[test]
fn a_served_interrupt_ends_the_irq_boost() {
    let mut bench = Bench::new(defaults());
    bench.see(0, PC_EV_IRQ, false, NOTHING);
    bench.see(MS, PC_EV_RUN, true, NOTHING);
    bench.see(120 * US, PC_EV_EXIT, true, NOTHING);
    assert_eq!(bench.state.boosted, 0);
}

/// A disk's request goes through kblockd, a worker of nice -20, between two interrupts. Guards that
/// such a task is boosted at a preemption, keeps the boost of an interrupt, and does not keep it
/// longer than it runs.
#[test]
fn an_urgent_task_is_boosted_like_an_interrupt_handler() {
    let urgent = pc_guest_view { urgent: 1, ..NOTHING };
    let mut bench = Bench::new(defaults());
    bench.see(0, PC_EV_RUN, true, UNMODIFIED);
    assert_eq!(bench.see(MS, PC_EV_EXIT, true, urgent).action, PC_KEEP as u8);
    assert_eq!(bench.see(MS, PC_EV_PREEMPT, false, urgent).reasons, 1 << IRQ);
    bench.see(MS, PC_EV_RUN, true, UNMODIFIED);
    bench.see(200 * US, PC_EV_EXIT, true, urgent);
    assert_eq!(bench.state.boosted, 1);
    bench.see(20 * US, PC_EV_EXIT, true, NOTHING);
    assert_eq!(bench.state.boosted, 0);

    bench.cfg.hints_at_exit = 1;
    assert_eq!(bench.see(MS, PC_EV_EXIT, true, urgent).reasons, 1 << IRQ, "eager");
}

/// Guards an interrupt that comes while a task of nice -20 runs: an exit in this task does not forget
/// it.
#[test]
fn an_urgent_task_does_not_serve_an_interrupt() {
    let urgent = pc_guest_view { urgent: 1, ..NOTHING };
    let mut bench = Bench::new(defaults());
    bench.see(0, PC_EV_IRQ, false, NOTHING);
    bench.see(MS, PC_EV_RUN, true, UNMODIFIED);
    bench.see(200 * US, PC_EV_IRQ, true, UNMODIFIED);
    bench.see(20 * US, PC_EV_EXIT, true, urgent);
    assert_eq!((bench.state.boosted, bench.state.irq_wanted), (1, 1));
}

/// Guards that interrupts still find a grant and half of the budget after a task of nice -20 that
/// never ends.
#[test]
fn an_urgent_task_leaves_a_grant_and_half_of_the_budget_to_interrupts() {
    let urgent = pc_guest_view { urgent: 1, ..NOTHING };
    let mut bench = Bench::new(defaults());
    let mut boosts = 0;
    bench.see(0, PC_EV_RUN, true, UNMODIFIED);
    for _ in 0..30 {
        let decision = bench.see(250 * US, PC_EV_PREEMPT, false, urgent);
        boosts += u32::from(decision.action == PC_BOOST as u8);
        bench.see(250 * US, PC_EV_RUN, true, UNMODIFIED);
        bench.see(600 * US, PC_EV_EXIT, true, urgent);
        assert_eq!(bench.state.boosted, 0, "the grant is used up");
    }
    let irq = &bench.cfg.reason[IRQ];
    let left = bench.state.reason[IRQ].left_ns;
    assert!(boosts >= 5 && left > irq.budget_ns as i64 / 3, "{boosts}, {left}");
    let handler = pc_guest_view { irq: 1, ..NOTHING };
    assert_eq!(bench.see(250 * US, PC_EV_PREEMPT, false, handler).reasons, 1 << IRQ);
}

/// Guards RT: it begins at a preemption, lasts while the hint is set, and ends at the first exit
/// without the hint.
#[test]
fn rt_is_taken_at_preemption_and_dropped_when_the_hint_drops() {
    let rt = pc_guest_view { rt: 1, ..NOTHING };
    let mut bench = Bench::new(defaults());
    bench.see(0, PC_EV_RUN, true, UNMODIFIED);
    assert_eq!(bench.see(MS, PC_EV_EXIT, true, rt).action, 0, "an exit alone does not boost");
    assert_eq!(bench.see(MS, PC_EV_PREEMPT, false, rt).reasons, 1 << RT);
    bench.see(MS, PC_EV_RUN, true, UNMODIFIED);
    bench.see(5 * MS, PC_EV_EXIT, true, rt);
    assert_eq!(bench.state.boosted, 1);
    let end = bench.see(MS, PC_EV_EXIT, true, NOTHING);
    assert_eq!((u32::from(end.action), end.forced), (PC_UNBOOST, 0));

    bench.cfg.hints_at_exit = 1;
    assert_eq!(
        bench.see(MS, PC_EV_EXIT, true, rt).reasons,
        1 << RT,
        "with `eager`, an exit is enough"
    );
}

/// Guards CRITICAL: it begins at a preemption, and ends at the next exit without the hint.
#[test]
fn critical_ends_at_the_first_exit_outside_the_section() {
    let critical = pc_guest_view { critical: 1, ..NOTHING };
    let mut bench = Bench::new(defaults());
    bench.see(0, PC_EV_RUN, true, UNMODIFIED);
    assert_eq!(bench.see(MS, PC_EV_PREEMPT, false, critical).reasons, 1 << 3);
    bench.see(MS, PC_EV_RUN, true, UNMODIFIED);
    bench.see(50 * US, PC_EV_EXIT, true, critical);
    assert_eq!(bench.state.boosted, 1);
    bench.see(50 * US, PC_EV_EXIT, true, NOTHING);
    assert_eq!(bench.state.boosted, 0);
}

/// Guards that the idle task is not in a critical section, although it runs with preemption
/// disabled.
#[test]
fn an_idle_guest_is_not_critical() {
    assert_eq!(guest_view(1, 1, 0xff).critical, 0);
    assert_eq!(guest_view(2, 1, 0xff).critical, 1);
}

/// Guards the penalty. Each exhaustion in a row throttles at least as long as the one before, up to
/// the limit. A throttled vCPU is not boosted for any reason.
#[test]
fn throttles_grow_to_the_limit() {
    let mut bench = Bench::new(defaults());
    let mut lengths = Vec::new();
    while lengths.len() < 10 {
        bench.wake_and_run(MS, EVERYTHING);
        if bench.state.throttled == 0 {
            continue;
        }
        let start = bench.now;
        assert_eq!(u32::from(bench.state.throttle_cause), PC_THROTTLE_VCPU);
        while bench.state.throttled == 1 {
            for events in [PC_EV_SLEEP, PC_EV_WAKEUP, PC_EV_IRQ, PC_EV_PREEMPT] {
                bench.see(MS / 4, events, false, EVERYTHING);
                assert!(bench.state.throttled == 0 || bench.state.boosted == 0);
            }
        }
        lengths.push((bench.now - start).div_ceil(bench.cfg.period_ns));
    }
    assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 64, 64, 64, 64]);
}

/// Guards forgiveness. If the vCPU is quiet for some time after a throttle, the next penalty is
/// lower.
#[test]
fn strikes_are_forgiven() {
    let mut bench = Bench::new(defaults());
    let mut exhaust = |quiet_periods: u64| {
        bench.see(quiet_periods * 100 * MS, PC_EV_TICK, false, UNMODIFIED);
        while bench.state.throttled == 0 {
            bench.wake_and_run(MS, UNMODIFIED);
        }
        let length = bench.state.throttled_until_ns - bench.now;
        bench.see(length, PC_EV_TICK, false, UNMODIFIED);
        length.div_ceil(100 * MS)
    };
    assert_eq!([exhaust(0), exhaust(0), exhaust(0)], [1, 2, 4]);
    assert_eq!(exhaust(100), 1);
}

/// Guards the kept share of the host CPU, which ends a boost without a strike.
#[test]
fn the_kept_share_ends_a_boost_without_a_strike() {
    let mut bench = Bench::new(pc_boost_config { cpu_kept_ns: 90 * MS, ..defaults() });
    let mut cause = 0;
    for _ in 0..30 {
        bench.see(0, PC_EV_SLEEP, false, UNMODIFIED);
        bench.see(0, PC_EV_RUN, true, UNMODIFIED);
        cause = cause.max(bench.see(900 * US, PC_EV_EXIT, true, UNMODIFIED).cause);
    }
    assert_eq!(u32::from(cause), PC_THROTTLE_CPU);
    assert_eq!((bench.state.throttled, bench.state.strikes), (0, 0));
}

/// Guards that the vCPUs of a VM share its budget.
#[test]
fn vcpus_of_a_vm_share_its_budget() {
    let mut bench = Bench::new(pc_boost_config { vm_budget_ns: 20 * MS, ..defaults() });
    let mut other = pc_boost_state::default();
    let mut charged = 0;
    for _ in 0..90 {
        charged += bench.wake_and_run(500 * US, UNMODIFIED);
        std::mem::swap(&mut bench.state, &mut other);
    }
    assert!(charged <= 21 * MS, "{charged}");
}

/// A rate limit of one boost per 5 ms, with budgets that are never used up.
fn rate_limited() -> Bench {
    let mut cfg = pc_boost_config { actuation_min_ns: 5 * MS, cpu_kept_ns: 0, ..defaults() };
    cfg.vcpu_budget_ns = cfg.period_ns;
    for reason in &mut cfg.reason {
        reason.budget_ns = cfg.period_ns;
    }
    Bench::new(cfg)
}

/// Lets a vCPU request a boost for `event` every 1.1 ms. Returns the number of boosts, and the
/// number of boosts that were held back.
fn boosts_of(bench: &mut Bench, event: u32, times: u32) -> (u64, u32) {
    let (mut boosts, mut suppressed) = (0, 0);
    for _ in 0..times {
        let decision = bench.see(100 * US, event, false, UNMODIFIED);
        suppressed += u32::from(decision.suppressed);
        boosts += u64::from(u32::from(decision.action) == PC_BOOST);
        bench.see(0, PC_EV_RUN, true, UNMODIFIED);
        bench.see(MS, PC_EV_EXIT, true, UNMODIFIED);
    }
    (boosts, suppressed)
}

/// Guards the rate limit of boosts. It limits the average rate, allows a few boosts in a row, and
/// counts the boosts that it holds back.
#[test]
fn boosts_keep_their_distance() {
    let mut bench = rate_limited();
    let at_once = u64::from(PC_BOOSTS_AT_ONCE);
    assert_eq!(boosts_of(&mut bench, PC_EV_IRQ, 8), (at_once, 0));
    let (boosts, suppressed) = boosts_of(&mut bench, PC_EV_IRQ, 10_000);
    let expected = 10_000 * 1100 / 5000;
    assert!((expected - 2..=expected + 2).contains(&boosts), "{boosts}");
    assert!(suppressed > 1000, "{suppressed}");
    // After a second without boosts, boosts are allowed again.
    bench.now += 1000 * MS;
    assert_eq!(boosts_of(&mut bench, PC_EV_IRQ, 8), (at_once, 0));
}

/// Guards that boosts for interrupts do not delay boosts for wakeups, which last until their grant
/// is used up.
#[test]
fn a_wakeup_is_not_held_back() {
    let mut bench = rate_limited();
    assert!(boosts_of(&mut bench, PC_EV_IRQ, 1000).1 > 0);
    assert_eq!(boosts_of(&mut bench, PC_EV_SLEEP, 1000), (1000, 0));
    // Boosts for wakeups still count toward the limit of other boosts.
    assert_eq!(boosts_of(&mut bench, PC_EV_IRQ, 1), (0, 1));
}

/// Guards against an invalid time stamp: it holds boosts back for one interval, but not forever.
#[test]
fn a_corrupt_stamp_of_the_rate_limit_passes() {
    let mut bench = rate_limited();
    (bench.state.boosts_due_ns, bench.state.has_boosted) = (u64::MAX / 2, 1);
    assert_eq!(boosts_of(&mut bench, PC_EV_IRQ, 1), (0, 1));
    bench.now += 5 * MS;
    assert_eq!(boosts_of(&mut bench, PC_EV_IRQ, 1), (1, 0));
}

/// Guards against two actuations for one real-time task. If the guest goes idle after the task has
/// done its work, the vCPU keeps the boost for its next wakeup. If the guest reports the end of the
/// task and continues to compute, the vCPU loses the boost when the grant of a wakeup ends.
#[test]
fn a_boost_outlives_the_way_into_sleep() {
    let idle = pc_guest_view { halting: 1, ..NOTHING };
    let mut bench = Bench::new(defaults());
    bench.see(0, PC_EV_RUN, true, NOTHING);
    let boosted = |bench: &mut Bench| {
        let decision = bench.see(MS, PC_EV_PREEMPT, false, EVERYTHING);
        assert_eq!(u32::from(decision.action), PC_BOOST);
        bench.see(MS, PC_EV_RUN, true, EVERYTHING);
    };
    boosted(&mut bench);
    let decision = bench.see(100 * US, PC_EV_EXIT, true, idle);
    assert_eq!((u32::from(decision.action), decision.reasons), (PC_KEEP, 1 << WAKE));
    let decision = bench.see(10 * US, PC_EV_SLEEP, false, idle);
    assert_eq!((u32::from(decision.action), decision.reasons), (PC_KEEP, 1 << WAKE));

    bench.see(MS, PC_EV_RUN, true, NOTHING);
    bench.see(2 * MS, PC_EV_EXIT, true, NOTHING);
    boosted(&mut bench);
    let ended = (0..40)
        .position(|_| u32::from(bench.see(100 * US, PC_EV_EXIT, true, idle).action) == PC_UNBOOST)
        .expect("it ends");
    assert!((9..=11).contains(&ended), "a wakeup's grant is 1 ms: {ended}");
}

/// Guards the modes.
#[test]
fn mode_off_unboosts_and_observe_decides() {
    let mut bench = Bench::new(pc_boost_config { mode: PC_MODE_OBSERVE, ..defaults() });
    assert_eq!(u32::from(bench.see(0, PC_EV_SLEEP, false, UNMODIFIED).action), PC_BOOST);
    assert_eq!(bench.state.reasons, 1 << WAKE);
    bench.cfg.mode = PC_MODE_OFF;
    assert_eq!(u32::from(bench.see(0, PC_EV_TICK, false, UNMODIFIED).action), PC_UNBOOST);
}

/// Guards a limit of the host that a boost would exceed. The limit ends an active boost at any
/// event, even at an event that usually takes the short step. Claims while the limit applies leave
/// no debt.
#[test]
fn a_refused_vcpu_is_unboosted_and_boosted_again_when_it_no_longer_is() {
    for event in [PC_EV_RUN, PC_EV_PREEMPT, PC_EV_SLEEP, PC_EV_EXIT, PC_EV_TICK] {
        let mut bench = Bench::new(defaults());
        bench.see(0, PC_EV_SLEEP, false, EVERYTHING);
        bench.refused = true;
        let decision = bench.see(0, event, false, EVERYTHING);
        assert_eq!((u32::from(decision.action), decision.forced), (PC_UNBOOST, 0), "{event}");
        for _ in 0..100 {
            let decision = bench.see(MS, PC_EV_SLEEP, true, EVERYTHING);
            assert_eq!((bench.state.boosted, decision.charged_ns), (0, 0));
        }
        bench.refused = false;
        let decision = bench.see(0, PC_EV_SLEEP, false, EVERYTHING);
        assert_eq!((u32::from(decision.action), bench.state.strikes), (PC_BOOST, 0));
    }
}

/// Guards the short step at a wakeup: the running time is charged, and the boost ends with the
/// grant.
#[test]
fn a_wakeup_served_in_short_is_charged() {
    let mut bench = Bench::new(defaults());
    bench.see(0, PC_EV_SLEEP, false, NOTHING);
    bench.now += 5 * MS;
    assert!(note_irq(&mut bench.state, bench.now));
    assert!(resume(&mut bench.state, &bench.cpu, bench.now));
    assert!(is_quiet(&bench.state, bench.now + 999 * US));
    assert!(!is_quiet(&bench.state, bench.now + MS), "the grant of 1 ms is over");
    let decision = bench.see(600 * US, PC_EV_SLEEP, false, NOTHING);
    assert_eq!(decision.charged_ns, 600 * US);
    assert!(!is_quiet(&bench.state, bench.now), "the vCPU does not run");
}

/// Guards the budget of a CPU on which boosted vCPUs run one after another.
#[test]
fn a_cpu_without_budget_takes_no_boost_over_in_short() {
    let mut bench = Bench::new(defaults());
    bench.see(0, PC_EV_SLEEP, false, NOTHING);
    bench.cpu.left_ns = 0;
    assert!(!resume(&mut bench.state, &bench.cpu, bench.now));
    let decision = bench.see(0, PC_EV_RUN, true, NOTHING);
    assert_eq!((u32::from(decision.action), decision.forced), (PC_UNBOOST, 1));
}

/// Guards that the policy remembers an interrupt that comes during a wakeup's boost. If the vCPU is
/// then preempted, the interrupt's handler is boosted.
#[test]
fn an_interrupt_noted_in_short_boosts_at_preemption() {
    let mut bench = Bench::new(pc_boost_config { actuation_min_ns: 0, ..defaults() });
    bench.see(0, PC_EV_SLEEP, false, UNMODIFIED);
    assert!(resume(&mut bench.state, &bench.cpu, bench.now));
    bench.now += 980 * US;
    assert!(note_irq(&mut bench.state, bench.now));
    assert_eq!(u32::from(bench.see(30 * US, PC_EV_EXIT, true, UNMODIFIED).action), PC_UNBOOST);
    let decision = bench.see(10 * US, PC_EV_PREEMPT, false, UNMODIFIED);
    assert_eq!((u32::from(decision.action), decision.reasons), (PC_BOOST, 1 << IRQ));
}

/// Guards the case in which a spinning guest is kicked all the time and uses up the IRQ budget.
/// This happens in normal operation, so it causes no throttle and no strike, and wakeups are still
/// boosted.
#[test]
fn an_empty_irq_budget_only_drops_its_reason() {
    let mut bench = Bench::new(defaults());
    for _ in 0..60 {
        bench.see(MS, PC_EV_IRQ, false, UNMODIFIED);
        bench.see(0, PC_EV_RUN, true, UNMODIFIED);
        bench.see(500 * US, PC_EV_EXIT, true, UNMODIFIED);
        bench.see(0, PC_EV_PREEMPT, false, UNMODIFIED);
    }
    assert!(bench.state.reason[IRQ].left_ns <= 0, "{:?}", bench.state);
    bench.see(MS, PC_EV_IRQ, false, UNMODIFIED);
    assert_eq!((bench.state.boosted, bench.state.throttled, bench.state.strikes), (0, 0, 0));
    assert_eq!(bench.see(MS, PC_EV_SLEEP, false, UNMODIFIED).reasons, 1 << WAKE);
}

/// Guards that a guest that exceeds its RT budget is throttled for every reason and gets a strike.
#[test]
fn an_empty_rt_budget_is_an_exhaustion() {
    let rt = pc_guest_view { rt: 1, ..NOTHING };
    let mut cfg = defaults();
    cfg.reason[RT].budget_ns = 10 * MS;
    let mut bench = Bench::new(cfg);
    bench.see(0, PC_EV_RUN, true, UNMODIFIED);
    bench.see(MS, PC_EV_PREEMPT, false, rt);
    bench.see(MS, PC_EV_RUN, true, UNMODIFIED);
    let end = bench.see(12 * MS, PC_EV_EXIT, true, rt);
    assert_eq!((u32::from(end.action), end.throttled), (PC_UNBOOST, 1));
    assert_eq!((bench.state.throttled, bench.state.strikes), (1, 1));
    assert_eq!(u32::from(bench.see(MS, PC_EV_SLEEP, false, rt).action), PC_KEEP);
}
