// SPDX-License-Identifier: GPL-2.0-only
// Generated from bpf/sensor_shared.h, policy/pmu_pool_types.h by `make generate`. Do not edit.

pub const PC_REASONS: u32 = 4;
pub const PC_MODE_OFF: u32 = 0;
pub const PC_MODE_OBSERVE: u32 = 1;
pub const PC_MODE_ON: u32 = 2;
pub const PC_PERIOD_MIN_MS: u32 = 10;
pub const PC_PERIOD_MAX_MS: u32 = 10000;
pub const PC_PENALTY_MAX_PERIODS: u32 = 65536;
pub const PC_BOOSTS_AT_ONCE: u32 = 8;
pub const PC_THROTTLE_NONE: u32 = 0;
pub const PC_THROTTLE_REASON: u32 = 1;
pub const PC_THROTTLE_VCPU: u32 = 2;
pub const PC_THROTTLE_VM: u32 = 3;
pub const PC_THROTTLE_CPU: u32 = 4;
pub const PC_EV_EXIT: u32 = 1;
pub const PC_EV_PREEMPT: u32 = 2;
pub const PC_EV_SLEEP: u32 = 4;
pub const PC_EV_RUN: u32 = 8;
pub const PC_EV_WAKEUP: u32 = 16;
pub const PC_EV_IRQ: u32 = 32;
pub const PC_EV_TICK: u32 = 64;
pub const PC_EV_CONFIG: u32 = 128;
pub const PC_LEVEL_NONE: u32 = 0;
pub const PC_LEVEL_IRQ: u32 = 1;
pub const PC_LEVEL_FULL: u32 = 2;
pub const PC_KEEP: u32 = 0;
pub const PC_BOOST: u32 = 1;
pub const PC_UNBOOST: u32 = 2;
pub const PC_CAPACITY_SHIFT: u32 = 10;
pub const PC_CAPACITY: u32 = 1024;
pub const PC_DOMAINS_MAX: u32 = 8;
pub const PC_POINTS_MAX: u32 = 32;
pub const PC_PLACE_CPUS_MAX: u32 = 64;
pub const PC_VCPUS_MAX: u32 = 4096;
pub const PC_VMS_MAX: u32 = 1024;
pub const PC_CPUS_MAX: u32 = 4096;
pub const PC_HIST_BUCKETS: u32 = 32;
pub const PC_VCPU_FREE: u32 = 0;
pub const PC_VCPU_NEW: u32 = 1;
pub const PC_VCPU_READY: u32 = 2;
pub const PC_VCPU_GONE: u32 = 3;
pub const PC_HOST_LINE_WORDS: u32 = 8;
pub const PC_HOST_LINE_AGAIN: u32 = 1;
pub const PC_DOMAIN_WORDS: u32 = 24;
pub const PC_REFUSED_RT: u32 = 1;
pub const PC_REFUSED_ALL: u32 = 3;
pub const PC_WRITE_LINE: u32 = 1;
pub const PC_WRITE_DOMAINS: u32 = 2;
pub const PC_PMU_ASK_BYTES: u32 = 320;
pub const PC_PMU_ANSWER_BYTES: u32 = 576;
pub const PC_RESERVES_MAX: u32 = 4096;
pub const PC_RESERVE_DEPTH_MAX: u32 = 8;
pub const PC_ENTERED_NO: u32 = 0;
pub const PC_ENTERED_YES: u32 = 1;
pub const PC_ENTERED_REFUSED: u32 = 2;
pub const PC_USERS_MAX: u32 = 4096;
pub const PC_UID_OTHERS: u32 = 4294967295;
pub const PC_VCPUS: u32 = 0;
pub const PC_IO_THREADS: u32 = 1;
pub const PC_HEADER_BYTES: u32 = 128;
pub const PC_NO_INDEX: u32 = 4294967295;
pub const PC_NO_QUEUE: u32 = 4294967295;
pub const PC_AT_WHERE: u32 = 65535;
pub const PC_AT_STATE_SHIFT: u32 = 16;
pub const PC_AT_STATE: u32 = 458752;
pub const PC_AT_READS: u32 = 1048576;
pub const PC_AT_WEIGHT_SHIFT: u32 = 32;
pub const PC_AT_NOWHERE: u32 = 0;
pub const PC_AT_QUEUE: u32 = 1;
pub const PC_AT_RELEASED: u32 = 2;
pub const PC_AT_PARKED: u32 = 3;
pub const PC_AT_LOCAL: u32 = 4;
pub const PC_AT_RUN: u32 = 5;
pub const PC_AT_LEAVE: u32 = 6;
pub const PC_BIRTH_NEW: u32 = 1;
pub const PC_BIRTH_CHILDLESS: u32 = 2;
pub const PC_GROUPS_MAX: u32 = 8192;
pub const PC_GROUP_ROOT: u32 = 0;
pub const PC_GROUP_DEPTH_MAX: u32 = 32;
pub const PC_PERF_TRACK: u32 = 1;
pub const PC_PERF_REQUEST: u32 = 2;
pub const PC_PERF_CARRY: u32 = 4;
pub const PC_PERF_CHARGE: u32 = 8;
pub const PC_PERF_SHARED: u32 = 16;
pub const PC_PERF_PLACE: u32 = 32;
pub const PC_PERF_HOLD: u32 = 64;
pub const PC_RUNS_NOTHING: u32 = 0;
pub const PC_RUNS_TASK: u32 = 1;
pub const PC_RUNS_VCPU: u32 = 2;
pub const PC_TURN_WHOLE: u32 = 0;
pub const PC_TURN_LEAST: u32 = 1;
pub const PC_TURN_OWED: u32 = 2;
pub const PC_TURN_BOOST: u32 = 3;
pub const PC_TICKLESS: u32 = 1;
pub const PC_TICKLESS_TURNS: u32 = 2;
pub const PC_CALLS_ELSEWHERE: u32 = 1;
pub const PC_CALLS_HERE: u32 = 2;
pub const PC_NEAR_CACHE: u32 = 0;
pub const PC_NEAR_NODE: u32 = 1;
pub const PC_NEAR_ALL: u32 = 2;
pub const PC_NEAR_LEVELS: u32 = 3;
pub const PC_NODES_MAX: u32 = 64;
pub const PC_CACHES_MAX: u32 = 512;
pub const PC_NO_CACHE: u32 = 65535;
pub const PC_NO_NODE: u32 = 65535;
pub const PC_CLAMP_TASK: u32 = 1;
pub const PC_CLAMP_GROUP: u32 = 2;
pub const PC_CLAMP_UNSET: u32 = 4294967295;
pub const PC_TICK_MAX: u32 = 16;
pub const PC_WHERE_MAX: u32 = 16;
pub const PC_MSG_NEW: u32 = 1;
pub const PC_MSG_BOOST: u32 = 2;
pub const PC_MSG_UNBOOST: u32 = 3;
pub const PC_MSG_GONE: u32 = 4;
pub const PC_MSG_EXEC: u32 = 7;
pub const PC_MSG_EXT_GONE: u32 = 5;
pub const PC_MSG_ASKS: u32 = 6;
pub const PC_MSG_THREADS: u32 = 8;
pub const PC_PMU_COUNTERS: u32 = 16;
pub const PC_PMU_EVENTS: u32 = 32;
pub const PC_PMU_SLICE_NS: u32 = 10000000;
pub const PC_PMU_EXCLUDE_USER: u32 = 1;
pub const PC_PMU_EXCLUDE_KERNEL: u32 = 2;
pub const PC_PMU_EXCLUDE_HOST: u32 = 4;
pub const PC_PMU_SAMPLES: u32 = 8;
pub const PC_PMU_KEYED: u32 = 0;
pub const PC_PMU_LAST: u32 = 1;
pub const PC_PMU_RECREATE: u32 = 2;
pub const PC_PMU_NOTHING: u32 = 0;
pub const PC_PMU_USE: u32 = 1;
pub const PC_PMU_OPEN: u32 = 2;
pub const PC_PMU_REPLACE: u32 = 3;
pub const PC_PMU_PAUSE: u32 = 4;
pub const PC_PMU_CLOSE: u32 = 5;
pub const PC_PMU_NO_SUCH_COUNTER: u32 = 1;
pub const PC_PMU_BUSY: u32 = 2;
pub const PC_PMU_NO_PLACE: u32 = 3;
pub const PC_PMU_NO_BUDGET: u32 = 4;
pub const PC_PMU_ALLOW_NOTHING: u32 = 0;
pub const PC_PMU_ALLOW_REUSE: u32 = 1;
pub const PC_PMU_ALLOW_OPEN: u32 = 2;
pub type u8_ = u8;
pub type u16_ = u16;
pub type u32_ = u32;
pub type u64_ = u64;
pub type s32 = i32;
pub type s64 = i64;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_reason_config {
    pub enabled: u32_,
    pub reserved: u32_,
    pub grant_max_ns: u64_,
    pub budget_ns: u64_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_reason_config"][::core::mem::size_of::<pc_reason_config>() - 24usize];
    [
        "Alignment of pc_reason_config",
    ][::core::mem::align_of::<pc_reason_config>() - 8usize];
    [
        "Offset of field: pc_reason_config::enabled",
    ][::core::mem::offset_of!(pc_reason_config, enabled) - 0usize];
    [
        "Offset of field: pc_reason_config::reserved",
    ][::core::mem::offset_of!(pc_reason_config, reserved) - 4usize];
    [
        "Offset of field: pc_reason_config::grant_max_ns",
    ][::core::mem::offset_of!(pc_reason_config, grant_max_ns) - 8usize];
    [
        "Offset of field: pc_reason_config::budget_ns",
    ][::core::mem::offset_of!(pc_reason_config, budget_ns) - 16usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_boost_config {
    pub mode: u32_,
    pub penalty_max_periods: u32_,
    pub hints_at_exit: u32_,
    pub reserved: u32_,
    pub period_ns: u64_,
    pub vcpu_budget_ns: u64_,
    pub vm_budget_ns: u64_,
    pub cpu_kept_ns: u64_,
    pub actuation_min_ns: u64_,
    pub reason: [pc_reason_config; 4usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_boost_config"][::core::mem::size_of::<pc_boost_config>() - 152usize];
    [
        "Alignment of pc_boost_config",
    ][::core::mem::align_of::<pc_boost_config>() - 8usize];
    [
        "Offset of field: pc_boost_config::mode",
    ][::core::mem::offset_of!(pc_boost_config, mode) - 0usize];
    [
        "Offset of field: pc_boost_config::penalty_max_periods",
    ][::core::mem::offset_of!(pc_boost_config, penalty_max_periods) - 4usize];
    [
        "Offset of field: pc_boost_config::hints_at_exit",
    ][::core::mem::offset_of!(pc_boost_config, hints_at_exit) - 8usize];
    [
        "Offset of field: pc_boost_config::reserved",
    ][::core::mem::offset_of!(pc_boost_config, reserved) - 12usize];
    [
        "Offset of field: pc_boost_config::period_ns",
    ][::core::mem::offset_of!(pc_boost_config, period_ns) - 16usize];
    [
        "Offset of field: pc_boost_config::vcpu_budget_ns",
    ][::core::mem::offset_of!(pc_boost_config, vcpu_budget_ns) - 24usize];
    [
        "Offset of field: pc_boost_config::vm_budget_ns",
    ][::core::mem::offset_of!(pc_boost_config, vm_budget_ns) - 32usize];
    [
        "Offset of field: pc_boost_config::cpu_kept_ns",
    ][::core::mem::offset_of!(pc_boost_config, cpu_kept_ns) - 40usize];
    [
        "Offset of field: pc_boost_config::actuation_min_ns",
    ][::core::mem::offset_of!(pc_boost_config, actuation_min_ns) - 48usize];
    [
        "Offset of field: pc_boost_config::reason",
    ][::core::mem::offset_of!(pc_boost_config, reason) - 56usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_bucket {
    pub period_start_ns: u64_,
    pub left_ns: s64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_bucket"][::core::mem::size_of::<pc_bucket>() - 16usize];
    ["Alignment of pc_bucket"][::core::mem::align_of::<pc_bucket>() - 8usize];
    [
        "Offset of field: pc_bucket::period_start_ns",
    ][::core::mem::offset_of!(pc_bucket, period_start_ns) - 0usize];
    [
        "Offset of field: pc_bucket::left_ns",
    ][::core::mem::offset_of!(pc_bucket, left_ns) - 8usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_boost_state {
    pub boosted: u8_,
    pub reasons: u8_,
    pub throttled: u8_,
    pub throttle_cause: u8_,
    pub strikes: u32_,
    pub charging: u8_,
    pub irq_wanted: u8_,
    pub has_boosted: u8_,
    pub reserved: [u8_; 5usize],
    pub throttled_until_ns: u64_,
    pub grant_used_ns: [u64_; 4usize],
    pub last_charge_ns: u64_,
    pub quiet_ns: u64_,
    pub last_irq_ns: u64_,
    pub boosts_due_ns: u64_,
    pub vcpu: pc_bucket,
    pub reason: [pc_bucket; 4usize],
    pub scratch: u64_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_boost_state"][::core::mem::size_of::<pc_boost_state>() - 176usize];
    ["Alignment of pc_boost_state"][::core::mem::align_of::<pc_boost_state>() - 8usize];
    [
        "Offset of field: pc_boost_state::boosted",
    ][::core::mem::offset_of!(pc_boost_state, boosted) - 0usize];
    [
        "Offset of field: pc_boost_state::reasons",
    ][::core::mem::offset_of!(pc_boost_state, reasons) - 1usize];
    [
        "Offset of field: pc_boost_state::throttled",
    ][::core::mem::offset_of!(pc_boost_state, throttled) - 2usize];
    [
        "Offset of field: pc_boost_state::throttle_cause",
    ][::core::mem::offset_of!(pc_boost_state, throttle_cause) - 3usize];
    [
        "Offset of field: pc_boost_state::strikes",
    ][::core::mem::offset_of!(pc_boost_state, strikes) - 4usize];
    [
        "Offset of field: pc_boost_state::charging",
    ][::core::mem::offset_of!(pc_boost_state, charging) - 8usize];
    [
        "Offset of field: pc_boost_state::irq_wanted",
    ][::core::mem::offset_of!(pc_boost_state, irq_wanted) - 9usize];
    [
        "Offset of field: pc_boost_state::has_boosted",
    ][::core::mem::offset_of!(pc_boost_state, has_boosted) - 10usize];
    [
        "Offset of field: pc_boost_state::reserved",
    ][::core::mem::offset_of!(pc_boost_state, reserved) - 11usize];
    [
        "Offset of field: pc_boost_state::throttled_until_ns",
    ][::core::mem::offset_of!(pc_boost_state, throttled_until_ns) - 16usize];
    [
        "Offset of field: pc_boost_state::grant_used_ns",
    ][::core::mem::offset_of!(pc_boost_state, grant_used_ns) - 24usize];
    [
        "Offset of field: pc_boost_state::last_charge_ns",
    ][::core::mem::offset_of!(pc_boost_state, last_charge_ns) - 56usize];
    [
        "Offset of field: pc_boost_state::quiet_ns",
    ][::core::mem::offset_of!(pc_boost_state, quiet_ns) - 64usize];
    [
        "Offset of field: pc_boost_state::last_irq_ns",
    ][::core::mem::offset_of!(pc_boost_state, last_irq_ns) - 72usize];
    [
        "Offset of field: pc_boost_state::boosts_due_ns",
    ][::core::mem::offset_of!(pc_boost_state, boosts_due_ns) - 80usize];
    [
        "Offset of field: pc_boost_state::vcpu",
    ][::core::mem::offset_of!(pc_boost_state, vcpu) - 88usize];
    [
        "Offset of field: pc_boost_state::reason",
    ][::core::mem::offset_of!(pc_boost_state, reason) - 104usize];
    [
        "Offset of field: pc_boost_state::scratch",
    ][::core::mem::offset_of!(pc_boost_state, scratch) - 168usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_guest_view {
    pub valid: u8_,
    pub rt: u8_,
    pub irq: u8_,
    pub critical: u8_,
    pub halting: u8_,
    pub urgent: u8_,
    pub reserved: [u8_; 2usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_guest_view"][::core::mem::size_of::<pc_guest_view>() - 8usize];
    ["Alignment of pc_guest_view"][::core::mem::align_of::<pc_guest_view>() - 1usize];
    [
        "Offset of field: pc_guest_view::valid",
    ][::core::mem::offset_of!(pc_guest_view, valid) - 0usize];
    [
        "Offset of field: pc_guest_view::rt",
    ][::core::mem::offset_of!(pc_guest_view, rt) - 1usize];
    [
        "Offset of field: pc_guest_view::irq",
    ][::core::mem::offset_of!(pc_guest_view, irq) - 2usize];
    [
        "Offset of field: pc_guest_view::critical",
    ][::core::mem::offset_of!(pc_guest_view, critical) - 3usize];
    [
        "Offset of field: pc_guest_view::halting",
    ][::core::mem::offset_of!(pc_guest_view, halting) - 4usize];
    [
        "Offset of field: pc_guest_view::urgent",
    ][::core::mem::offset_of!(pc_guest_view, urgent) - 5usize];
    [
        "Offset of field: pc_guest_view::reserved",
    ][::core::mem::offset_of!(pc_guest_view, reserved) - 6usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_boost_obs {
    pub events: u32_,
    pub running: u32_,
    pub alone: u32_,
    pub refused: u32_,
    pub guest: pc_guest_view,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_boost_obs"][::core::mem::size_of::<pc_boost_obs>() - 24usize];
    ["Alignment of pc_boost_obs"][::core::mem::align_of::<pc_boost_obs>() - 4usize];
    [
        "Offset of field: pc_boost_obs::events",
    ][::core::mem::offset_of!(pc_boost_obs, events) - 0usize];
    [
        "Offset of field: pc_boost_obs::running",
    ][::core::mem::offset_of!(pc_boost_obs, running) - 4usize];
    [
        "Offset of field: pc_boost_obs::alone",
    ][::core::mem::offset_of!(pc_boost_obs, alone) - 8usize];
    [
        "Offset of field: pc_boost_obs::refused",
    ][::core::mem::offset_of!(pc_boost_obs, refused) - 12usize];
    [
        "Offset of field: pc_boost_obs::guest",
    ][::core::mem::offset_of!(pc_boost_obs, guest) - 16usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_boost_decision {
    pub action: u8_,
    pub reasons: u8_,
    pub forced: u8_,
    pub cause: u8_,
    pub throttled: u8_,
    pub suppressed: u8_,
    pub reserved: [u8_; 2usize],
    pub charged_ns: u64_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_boost_decision"][::core::mem::size_of::<pc_boost_decision>() - 16usize];
    [
        "Alignment of pc_boost_decision",
    ][::core::mem::align_of::<pc_boost_decision>() - 8usize];
    [
        "Offset of field: pc_boost_decision::action",
    ][::core::mem::offset_of!(pc_boost_decision, action) - 0usize];
    [
        "Offset of field: pc_boost_decision::reasons",
    ][::core::mem::offset_of!(pc_boost_decision, reasons) - 1usize];
    [
        "Offset of field: pc_boost_decision::forced",
    ][::core::mem::offset_of!(pc_boost_decision, forced) - 2usize];
    [
        "Offset of field: pc_boost_decision::cause",
    ][::core::mem::offset_of!(pc_boost_decision, cause) - 3usize];
    [
        "Offset of field: pc_boost_decision::throttled",
    ][::core::mem::offset_of!(pc_boost_decision, throttled) - 4usize];
    [
        "Offset of field: pc_boost_decision::suppressed",
    ][::core::mem::offset_of!(pc_boost_decision, suppressed) - 5usize];
    [
        "Offset of field: pc_boost_decision::reserved",
    ][::core::mem::offset_of!(pc_boost_decision, reserved) - 6usize];
    [
        "Offset of field: pc_boost_decision::charged_ns",
    ][::core::mem::offset_of!(pc_boost_decision, charged_ns) - 8usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_pelt {
    pub last_ns: u64_,
    pub util_sum: u32_,
    pub util_avg: u32_,
    pub period_units: u32_,
    pub reserved: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_pelt"][::core::mem::size_of::<pc_pelt>() - 24usize];
    ["Alignment of pc_pelt"][::core::mem::align_of::<pc_pelt>() - 8usize];
    [
        "Offset of field: pc_pelt::last_ns",
    ][::core::mem::offset_of!(pc_pelt, last_ns) - 0usize];
    [
        "Offset of field: pc_pelt::util_sum",
    ][::core::mem::offset_of!(pc_pelt, util_sum) - 8usize];
    [
        "Offset of field: pc_pelt::util_avg",
    ][::core::mem::offset_of!(pc_pelt, util_avg) - 12usize];
    [
        "Offset of field: pc_pelt::period_units",
    ][::core::mem::offset_of!(pc_pelt, period_units) - 16usize];
    [
        "Offset of field: pc_pelt::reserved",
    ][::core::mem::offset_of!(pc_pelt, reserved) - 20usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_clamp {
    pub min: u32_,
    pub max: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_clamp"][::core::mem::size_of::<pc_clamp>() - 8usize];
    ["Alignment of pc_clamp"][::core::mem::align_of::<pc_clamp>() - 4usize];
    ["Offset of field: pc_clamp::min"][::core::mem::offset_of!(pc_clamp, min) - 0usize];
    ["Offset of field: pc_clamp::max"][::core::mem::offset_of!(pc_clamp, max) - 4usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_perf_task {
    pub demand: pc_pelt,
    pub contribution: u32_,
    pub carry_level: u32_,
    pub slept_ns: u64_,
    pub window_start_ns: u64_,
    pub window_ran_ns: u64_,
    pub carry_armed: u8_,
    pub carry_in_force: u8_,
    pub carry_due: u8_,
    pub carry_wasted: u8_,
    pub confirmed: u8_,
    pub asked: u8_,
    pub reserved: [u8_; 2usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_perf_task"][::core::mem::size_of::<pc_perf_task>() - 64usize];
    ["Alignment of pc_perf_task"][::core::mem::align_of::<pc_perf_task>() - 8usize];
    [
        "Offset of field: pc_perf_task::demand",
    ][::core::mem::offset_of!(pc_perf_task, demand) - 0usize];
    [
        "Offset of field: pc_perf_task::contribution",
    ][::core::mem::offset_of!(pc_perf_task, contribution) - 24usize];
    [
        "Offset of field: pc_perf_task::carry_level",
    ][::core::mem::offset_of!(pc_perf_task, carry_level) - 28usize];
    [
        "Offset of field: pc_perf_task::slept_ns",
    ][::core::mem::offset_of!(pc_perf_task, slept_ns) - 32usize];
    [
        "Offset of field: pc_perf_task::window_start_ns",
    ][::core::mem::offset_of!(pc_perf_task, window_start_ns) - 40usize];
    [
        "Offset of field: pc_perf_task::window_ran_ns",
    ][::core::mem::offset_of!(pc_perf_task, window_ran_ns) - 48usize];
    [
        "Offset of field: pc_perf_task::carry_armed",
    ][::core::mem::offset_of!(pc_perf_task, carry_armed) - 56usize];
    [
        "Offset of field: pc_perf_task::carry_in_force",
    ][::core::mem::offset_of!(pc_perf_task, carry_in_force) - 57usize];
    [
        "Offset of field: pc_perf_task::carry_due",
    ][::core::mem::offset_of!(pc_perf_task, carry_due) - 58usize];
    [
        "Offset of field: pc_perf_task::carry_wasted",
    ][::core::mem::offset_of!(pc_perf_task, carry_wasted) - 59usize];
    [
        "Offset of field: pc_perf_task::confirmed",
    ][::core::mem::offset_of!(pc_perf_task, confirmed) - 60usize];
    [
        "Offset of field: pc_perf_task::asked",
    ][::core::mem::offset_of!(pc_perf_task, asked) - 61usize];
    [
        "Offset of field: pc_perf_task::reserved",
    ][::core::mem::offset_of!(pc_perf_task, reserved) - 62usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_perf_cpu {
    pub runnable: u32_,
    pub peak: u32_,
    pub window_ns: u64_,
    pub peak_before: u32_,
    pub reserved: u32_,
    pub sleeping: u64_,
    pub sleeping_ns: u64_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_perf_cpu"][::core::mem::size_of::<pc_perf_cpu>() - 40usize];
    ["Alignment of pc_perf_cpu"][::core::mem::align_of::<pc_perf_cpu>() - 8usize];
    [
        "Offset of field: pc_perf_cpu::runnable",
    ][::core::mem::offset_of!(pc_perf_cpu, runnable) - 0usize];
    [
        "Offset of field: pc_perf_cpu::peak",
    ][::core::mem::offset_of!(pc_perf_cpu, peak) - 4usize];
    [
        "Offset of field: pc_perf_cpu::window_ns",
    ][::core::mem::offset_of!(pc_perf_cpu, window_ns) - 8usize];
    [
        "Offset of field: pc_perf_cpu::peak_before",
    ][::core::mem::offset_of!(pc_perf_cpu, peak_before) - 16usize];
    [
        "Offset of field: pc_perf_cpu::reserved",
    ][::core::mem::offset_of!(pc_perf_cpu, reserved) - 20usize];
    [
        "Offset of field: pc_perf_cpu::sleeping",
    ][::core::mem::offset_of!(pc_perf_cpu, sleeping) - 24usize];
    [
        "Offset of field: pc_perf_cpu::sleeping_ns",
    ][::core::mem::offset_of!(pc_perf_cpu, sleeping_ns) - 32usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_point {
    pub cost: u64_,
    pub capacity: u32_,
    pub reserved: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_point"][::core::mem::size_of::<pc_point>() - 16usize];
    ["Alignment of pc_point"][::core::mem::align_of::<pc_point>() - 8usize];
    [
        "Offset of field: pc_point::cost",
    ][::core::mem::offset_of!(pc_point, cost) - 0usize];
    [
        "Offset of field: pc_point::capacity",
    ][::core::mem::offset_of!(pc_point, capacity) - 8usize];
    [
        "Offset of field: pc_point::reserved",
    ][::core::mem::offset_of!(pc_point, reserved) - 12usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_domain {
    pub point: [pc_point; 32usize],
    pub points: u32_,
    pub reserved: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_domain"][::core::mem::size_of::<pc_domain>() - 520usize];
    ["Alignment of pc_domain"][::core::mem::align_of::<pc_domain>() - 8usize];
    [
        "Offset of field: pc_domain::point",
    ][::core::mem::offset_of!(pc_domain, point) - 0usize];
    [
        "Offset of field: pc_domain::points",
    ][::core::mem::offset_of!(pc_domain, points) - 512usize];
    [
        "Offset of field: pc_domain::reserved",
    ][::core::mem::offset_of!(pc_domain, reserved) - 516usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_energy {
    pub domain: [pc_domain; 8usize],
    pub cpus: u32_,
    pub small: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_energy"][::core::mem::size_of::<pc_energy>() - 4168usize];
    ["Alignment of pc_energy"][::core::mem::align_of::<pc_energy>() - 8usize];
    [
        "Offset of field: pc_energy::domain",
    ][::core::mem::offset_of!(pc_energy, domain) - 0usize];
    [
        "Offset of field: pc_energy::cpus",
    ][::core::mem::offset_of!(pc_energy, cpus) - 4160usize];
    [
        "Offset of field: pc_energy::small",
    ][::core::mem::offset_of!(pc_energy, small) - 4164usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_domain_load {
    pub peak: u32_,
    pub total: u32_,
    pub best_sum: u32_,
    pub best_cpu: s32,
    pub cpus: u32_,
    pub capacity: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_domain_load"][::core::mem::size_of::<pc_domain_load>() - 24usize];
    ["Alignment of pc_domain_load"][::core::mem::align_of::<pc_domain_load>() - 4usize];
    [
        "Offset of field: pc_domain_load::peak",
    ][::core::mem::offset_of!(pc_domain_load, peak) - 0usize];
    [
        "Offset of field: pc_domain_load::total",
    ][::core::mem::offset_of!(pc_domain_load, total) - 4usize];
    [
        "Offset of field: pc_domain_load::best_sum",
    ][::core::mem::offset_of!(pc_domain_load, best_sum) - 8usize];
    [
        "Offset of field: pc_domain_load::best_cpu",
    ][::core::mem::offset_of!(pc_domain_load, best_cpu) - 12usize];
    [
        "Offset of field: pc_domain_load::cpus",
    ][::core::mem::offset_of!(pc_domain_load, cpus) - 16usize];
    [
        "Offset of field: pc_domain_load::capacity",
    ][::core::mem::offset_of!(pc_domain_load, capacity) - 20usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_place {
    pub domain: [pc_domain_load; 8usize],
    pub request: u32_,
    pub prev: s32,
    pub prev_domain: u32_,
    pub prev_sum: u32_,
    pub prev_fits: u32_,
    pub prev_room: s32,
    pub prev_capacity: u32_,
    pub widest_cpu: s32,
    pub widest_room: s32,
    pub widest_capacity: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_place"][::core::mem::size_of::<pc_place>() - 232usize];
    ["Alignment of pc_place"][::core::mem::align_of::<pc_place>() - 4usize];
    [
        "Offset of field: pc_place::domain",
    ][::core::mem::offset_of!(pc_place, domain) - 0usize];
    [
        "Offset of field: pc_place::request",
    ][::core::mem::offset_of!(pc_place, request) - 192usize];
    [
        "Offset of field: pc_place::prev",
    ][::core::mem::offset_of!(pc_place, prev) - 196usize];
    [
        "Offset of field: pc_place::prev_domain",
    ][::core::mem::offset_of!(pc_place, prev_domain) - 200usize];
    [
        "Offset of field: pc_place::prev_sum",
    ][::core::mem::offset_of!(pc_place, prev_sum) - 204usize];
    [
        "Offset of field: pc_place::prev_fits",
    ][::core::mem::offset_of!(pc_place, prev_fits) - 208usize];
    [
        "Offset of field: pc_place::prev_room",
    ][::core::mem::offset_of!(pc_place, prev_room) - 212usize];
    [
        "Offset of field: pc_place::prev_capacity",
    ][::core::mem::offset_of!(pc_place, prev_capacity) - 216usize];
    [
        "Offset of field: pc_place::widest_cpu",
    ][::core::mem::offset_of!(pc_place, widest_cpu) - 220usize];
    [
        "Offset of field: pc_place::widest_room",
    ][::core::mem::offset_of!(pc_place, widest_room) - 224usize];
    [
        "Offset of field: pc_place::widest_capacity",
    ][::core::mem::offset_of!(pc_place, widest_capacity) - 228usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_quota {
    pub quota_ns: u64_,
    pub period_ns: u64_,
    pub burst_ns: u64_,
    pub left_ns: s64,
    pub period_at_ns: u64_,
    pub above: u32_,
    pub generation: u32_,
    pub parked: s32,
    pub reserved: u32_,
    pub look_ns: u64_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_quota"][::core::mem::size_of::<pc_quota>() - 64usize];
    ["Alignment of pc_quota"][::core::mem::align_of::<pc_quota>() - 8usize];
    [
        "Offset of field: pc_quota::quota_ns",
    ][::core::mem::offset_of!(pc_quota, quota_ns) - 0usize];
    [
        "Offset of field: pc_quota::period_ns",
    ][::core::mem::offset_of!(pc_quota, period_ns) - 8usize];
    [
        "Offset of field: pc_quota::burst_ns",
    ][::core::mem::offset_of!(pc_quota, burst_ns) - 16usize];
    [
        "Offset of field: pc_quota::left_ns",
    ][::core::mem::offset_of!(pc_quota, left_ns) - 24usize];
    [
        "Offset of field: pc_quota::period_at_ns",
    ][::core::mem::offset_of!(pc_quota, period_at_ns) - 32usize];
    [
        "Offset of field: pc_quota::above",
    ][::core::mem::offset_of!(pc_quota, above) - 40usize];
    [
        "Offset of field: pc_quota::generation",
    ][::core::mem::offset_of!(pc_quota, generation) - 44usize];
    [
        "Offset of field: pc_quota::parked",
    ][::core::mem::offset_of!(pc_quota, parked) - 48usize];
    [
        "Offset of field: pc_quota::reserved",
    ][::core::mem::offset_of!(pc_quota, reserved) - 52usize];
    [
        "Offset of field: pc_quota::look_ns",
    ][::core::mem::offset_of!(pc_quota, look_ns) - 56usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_reserve {
    pub left_ns: s64,
    pub above: u32_,
    pub reserved: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_reserve"][::core::mem::size_of::<pc_reserve>() - 16usize];
    ["Alignment of pc_reserve"][::core::mem::align_of::<pc_reserve>() - 8usize];
    [
        "Offset of field: pc_reserve::left_ns",
    ][::core::mem::offset_of!(pc_reserve, left_ns) - 0usize];
    [
        "Offset of field: pc_reserve::above",
    ][::core::mem::offset_of!(pc_reserve, above) - 8usize];
    [
        "Offset of field: pc_reserve::reserved",
    ][::core::mem::offset_of!(pc_reserve, reserved) - 12usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_vcpu_counters {
    pub exits: u64_,
    pub wakeups: u64_,
    pub irqs: u64_,
    pub boosts: [u64_; 4usize],
    pub unboosts: u64_,
    pub forced: u64_,
    pub throttles: u64_,
    pub boosted_ns: u64_,
    pub running_ns: u64_,
    pub guest_read_errors: u64_,
    pub actuations_dropped: u64_,
    pub suppressed: u64_,
    pub evaluations: u64_,
    pub requests: u64_,
    pub wakeup_latency: [[u64_; 32usize]; 2usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_vcpu_counters"][::core::mem::size_of::<pc_vcpu_counters>() - 648usize];
    [
        "Alignment of pc_vcpu_counters",
    ][::core::mem::align_of::<pc_vcpu_counters>() - 8usize];
    [
        "Offset of field: pc_vcpu_counters::exits",
    ][::core::mem::offset_of!(pc_vcpu_counters, exits) - 0usize];
    [
        "Offset of field: pc_vcpu_counters::wakeups",
    ][::core::mem::offset_of!(pc_vcpu_counters, wakeups) - 8usize];
    [
        "Offset of field: pc_vcpu_counters::irqs",
    ][::core::mem::offset_of!(pc_vcpu_counters, irqs) - 16usize];
    [
        "Offset of field: pc_vcpu_counters::boosts",
    ][::core::mem::offset_of!(pc_vcpu_counters, boosts) - 24usize];
    [
        "Offset of field: pc_vcpu_counters::unboosts",
    ][::core::mem::offset_of!(pc_vcpu_counters, unboosts) - 56usize];
    [
        "Offset of field: pc_vcpu_counters::forced",
    ][::core::mem::offset_of!(pc_vcpu_counters, forced) - 64usize];
    [
        "Offset of field: pc_vcpu_counters::throttles",
    ][::core::mem::offset_of!(pc_vcpu_counters, throttles) - 72usize];
    [
        "Offset of field: pc_vcpu_counters::boosted_ns",
    ][::core::mem::offset_of!(pc_vcpu_counters, boosted_ns) - 80usize];
    [
        "Offset of field: pc_vcpu_counters::running_ns",
    ][::core::mem::offset_of!(pc_vcpu_counters, running_ns) - 88usize];
    [
        "Offset of field: pc_vcpu_counters::guest_read_errors",
    ][::core::mem::offset_of!(pc_vcpu_counters, guest_read_errors) - 96usize];
    [
        "Offset of field: pc_vcpu_counters::actuations_dropped",
    ][::core::mem::offset_of!(pc_vcpu_counters, actuations_dropped) - 104usize];
    [
        "Offset of field: pc_vcpu_counters::suppressed",
    ][::core::mem::offset_of!(pc_vcpu_counters, suppressed) - 112usize];
    [
        "Offset of field: pc_vcpu_counters::evaluations",
    ][::core::mem::offset_of!(pc_vcpu_counters, evaluations) - 120usize];
    [
        "Offset of field: pc_vcpu_counters::requests",
    ][::core::mem::offset_of!(pc_vcpu_counters, requests) - 128usize];
    [
        "Offset of field: pc_vcpu_counters::wakeup_latency",
    ][::core::mem::offset_of!(pc_vcpu_counters, wakeup_latency) - 136usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_host_line {
    pub image: [u64_; 8usize],
    pub sequence: u32_,
    pub written: u32_,
    pub announcement: u32_,
    pub known: u32_,
    pub changes: u32_,
    pub changes_written: u32_,
    pub boosts: u32_,
    pub barrier: u32_,
    pub there: [u64_; 8usize],
    pub writes: u64_,
    pub write_errors: u64_,
    pub changed: u64_,
    pub left_ns: u64_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_host_line"][::core::mem::size_of::<pc_host_line>() - 192usize];
    ["Alignment of pc_host_line"][::core::mem::align_of::<pc_host_line>() - 8usize];
    [
        "Offset of field: pc_host_line::image",
    ][::core::mem::offset_of!(pc_host_line, image) - 0usize];
    [
        "Offset of field: pc_host_line::sequence",
    ][::core::mem::offset_of!(pc_host_line, sequence) - 64usize];
    [
        "Offset of field: pc_host_line::written",
    ][::core::mem::offset_of!(pc_host_line, written) - 68usize];
    [
        "Offset of field: pc_host_line::announcement",
    ][::core::mem::offset_of!(pc_host_line, announcement) - 72usize];
    [
        "Offset of field: pc_host_line::known",
    ][::core::mem::offset_of!(pc_host_line, known) - 76usize];
    [
        "Offset of field: pc_host_line::changes",
    ][::core::mem::offset_of!(pc_host_line, changes) - 80usize];
    [
        "Offset of field: pc_host_line::changes_written",
    ][::core::mem::offset_of!(pc_host_line, changes_written) - 84usize];
    [
        "Offset of field: pc_host_line::boosts",
    ][::core::mem::offset_of!(pc_host_line, boosts) - 88usize];
    [
        "Offset of field: pc_host_line::barrier",
    ][::core::mem::offset_of!(pc_host_line, barrier) - 92usize];
    [
        "Offset of field: pc_host_line::there",
    ][::core::mem::offset_of!(pc_host_line, there) - 96usize];
    [
        "Offset of field: pc_host_line::writes",
    ][::core::mem::offset_of!(pc_host_line, writes) - 160usize];
    [
        "Offset of field: pc_host_line::write_errors",
    ][::core::mem::offset_of!(pc_host_line, write_errors) - 168usize];
    [
        "Offset of field: pc_host_line::changed",
    ][::core::mem::offset_of!(pc_host_line, changed) - 176usize];
    [
        "Offset of field: pc_host_line::left_ns",
    ][::core::mem::offset_of!(pc_host_line, left_ns) - 184usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_domain_image {
    pub words: [u64_; 24usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_domain_image"][::core::mem::size_of::<pc_domain_image>() - 192usize];
    [
        "Alignment of pc_domain_image",
    ][::core::mem::align_of::<pc_domain_image>() - 8usize];
    [
        "Offset of field: pc_domain_image::words",
    ][::core::mem::offset_of!(pc_domain_image, words) - 0usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_domain_pass {
    pub hva: u64_,
    pub kvm: u64_,
    pub generation: u64_,
    pub announced_ns: u64_,
    pub is_due: u32_,
    pub next: u32_,
    pub announcement: u32_,
    pub reserved: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_domain_pass"][::core::mem::size_of::<pc_domain_pass>() - 48usize];
    ["Alignment of pc_domain_pass"][::core::mem::align_of::<pc_domain_pass>() - 8usize];
    [
        "Offset of field: pc_domain_pass::hva",
    ][::core::mem::offset_of!(pc_domain_pass, hva) - 0usize];
    [
        "Offset of field: pc_domain_pass::kvm",
    ][::core::mem::offset_of!(pc_domain_pass, kvm) - 8usize];
    [
        "Offset of field: pc_domain_pass::generation",
    ][::core::mem::offset_of!(pc_domain_pass, generation) - 16usize];
    [
        "Offset of field: pc_domain_pass::announced_ns",
    ][::core::mem::offset_of!(pc_domain_pass, announced_ns) - 24usize];
    [
        "Offset of field: pc_domain_pass::is_due",
    ][::core::mem::offset_of!(pc_domain_pass, is_due) - 32usize];
    [
        "Offset of field: pc_domain_pass::next",
    ][::core::mem::offset_of!(pc_domain_pass, next) - 36usize];
    [
        "Offset of field: pc_domain_pass::announcement",
    ][::core::mem::offset_of!(pc_domain_pass, announcement) - 40usize];
    [
        "Offset of field: pc_domain_pass::reserved",
    ][::core::mem::offset_of!(pc_domain_pass, reserved) - 44usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_vcpu_setup {
    pub vm: u32_,
    pub hints_at_exit: u32_,
    pub slot_hva: u64_,
    pub guest_line_bytes: u32_,
    pub guest_features: u32_,
    pub guest_requests: u32_,
    pub refused: u32_,
    pub asked_hva: u64_,
    pub reserve: u32_,
    pub io: u32_,
    pub may_announce: u32_,
    pub writes: u32_,
    pub region_gpa: u64_,
    pub slot_gpa: u64_,
    pub counts: u32_,
    pub reserved32: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_vcpu_setup"][::core::mem::size_of::<pc_vcpu_setup>() - 80usize];
    ["Alignment of pc_vcpu_setup"][::core::mem::align_of::<pc_vcpu_setup>() - 8usize];
    [
        "Offset of field: pc_vcpu_setup::vm",
    ][::core::mem::offset_of!(pc_vcpu_setup, vm) - 0usize];
    [
        "Offset of field: pc_vcpu_setup::hints_at_exit",
    ][::core::mem::offset_of!(pc_vcpu_setup, hints_at_exit) - 4usize];
    [
        "Offset of field: pc_vcpu_setup::slot_hva",
    ][::core::mem::offset_of!(pc_vcpu_setup, slot_hva) - 8usize];
    [
        "Offset of field: pc_vcpu_setup::guest_line_bytes",
    ][::core::mem::offset_of!(pc_vcpu_setup, guest_line_bytes) - 16usize];
    [
        "Offset of field: pc_vcpu_setup::guest_features",
    ][::core::mem::offset_of!(pc_vcpu_setup, guest_features) - 20usize];
    [
        "Offset of field: pc_vcpu_setup::guest_requests",
    ][::core::mem::offset_of!(pc_vcpu_setup, guest_requests) - 24usize];
    [
        "Offset of field: pc_vcpu_setup::refused",
    ][::core::mem::offset_of!(pc_vcpu_setup, refused) - 28usize];
    [
        "Offset of field: pc_vcpu_setup::asked_hva",
    ][::core::mem::offset_of!(pc_vcpu_setup, asked_hva) - 32usize];
    [
        "Offset of field: pc_vcpu_setup::reserve",
    ][::core::mem::offset_of!(pc_vcpu_setup, reserve) - 40usize];
    [
        "Offset of field: pc_vcpu_setup::io",
    ][::core::mem::offset_of!(pc_vcpu_setup, io) - 44usize];
    [
        "Offset of field: pc_vcpu_setup::may_announce",
    ][::core::mem::offset_of!(pc_vcpu_setup, may_announce) - 48usize];
    [
        "Offset of field: pc_vcpu_setup::writes",
    ][::core::mem::offset_of!(pc_vcpu_setup, writes) - 52usize];
    [
        "Offset of field: pc_vcpu_setup::region_gpa",
    ][::core::mem::offset_of!(pc_vcpu_setup, region_gpa) - 56usize];
    [
        "Offset of field: pc_vcpu_setup::slot_gpa",
    ][::core::mem::offset_of!(pc_vcpu_setup, slot_gpa) - 64usize];
    [
        "Offset of field: pc_vcpu_setup::counts",
    ][::core::mem::offset_of!(pc_vcpu_setup, counts) - 72usize];
    [
        "Offset of field: pc_vcpu_setup::reserved32",
    ][::core::mem::offset_of!(pc_vcpu_setup, reserved32) - 76usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct pc_pmu_mail {
    pub asked: u32_,
    pub answered: u32_,
    pub written: u32_,
    pub barrier: u32_,
    pub asked_ns: u64_,
    pub rung_ns: u64_,
    pub gpa: u64_,
    pub kvm: u64_,
    pub generation: u64_,
    pub left_ns: u64_,
    pub ask: [u8_; 320usize],
    pub answer: [u8_; 576usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_pmu_mail"][::core::mem::size_of::<pc_pmu_mail>() - 960usize];
    ["Alignment of pc_pmu_mail"][::core::mem::align_of::<pc_pmu_mail>() - 8usize];
    [
        "Offset of field: pc_pmu_mail::asked",
    ][::core::mem::offset_of!(pc_pmu_mail, asked) - 0usize];
    [
        "Offset of field: pc_pmu_mail::answered",
    ][::core::mem::offset_of!(pc_pmu_mail, answered) - 4usize];
    [
        "Offset of field: pc_pmu_mail::written",
    ][::core::mem::offset_of!(pc_pmu_mail, written) - 8usize];
    [
        "Offset of field: pc_pmu_mail::barrier",
    ][::core::mem::offset_of!(pc_pmu_mail, barrier) - 12usize];
    [
        "Offset of field: pc_pmu_mail::asked_ns",
    ][::core::mem::offset_of!(pc_pmu_mail, asked_ns) - 16usize];
    [
        "Offset of field: pc_pmu_mail::rung_ns",
    ][::core::mem::offset_of!(pc_pmu_mail, rung_ns) - 24usize];
    [
        "Offset of field: pc_pmu_mail::gpa",
    ][::core::mem::offset_of!(pc_pmu_mail, gpa) - 32usize];
    [
        "Offset of field: pc_pmu_mail::kvm",
    ][::core::mem::offset_of!(pc_pmu_mail, kvm) - 40usize];
    [
        "Offset of field: pc_pmu_mail::generation",
    ][::core::mem::offset_of!(pc_pmu_mail, generation) - 48usize];
    [
        "Offset of field: pc_pmu_mail::left_ns",
    ][::core::mem::offset_of!(pc_pmu_mail, left_ns) - 56usize];
    [
        "Offset of field: pc_pmu_mail::ask",
    ][::core::mem::offset_of!(pc_pmu_mail, ask) - 64usize];
    [
        "Offset of field: pc_pmu_mail::answer",
    ][::core::mem::offset_of!(pc_pmu_mail, answer) - 384usize];
};
impl Default for pc_pmu_mail {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_vcpu {
    pub life: u32_,
    pub tid: u32_,
    pub tgid: u32_,
    pub vcpu_id: u32_,
    pub start_ns: u64_,
    pub kvm_vcpu: u64_,
    pub task: u64_,
    pub cpu: u32_,
    pub lock: u32_,
    pub pending: u32_,
    pub on_cpu: u32_,
    pub actuated: u32_,
    pub asleep: u32_,
    pub level: u32_,
    pub asks: u32_,
    pub waited_before_ns: u64_,
    pub wakeup_ns: u64_,
    pub run_since_ns: u64_,
    pub told_ns: u64_,
    pub told_asks: u32_,
    pub asked: u32_,
    pub deaf_until_ns: u64_,
    pub guest: pc_guest_view,
    pub preempt_count_hva: u64_,
    pub preempt_count_gpa: u64_,
    pub line_hva: u64_,
    pub line_gpa: u64_,
    pub slots_kvm: u64_,
    pub slots_generation: u64_,
    pub translate_ns: u64_,
    pub announced_ns: u64_,
    pub announced_ran_ns: u64_,
    pub translate: u32_,
    pub line_writable: u32_,
    pub uid: u32_,
    pub charged: u32_,
    pub ran_boosted: u32_,
    pub entered: u32_,
    pub unreported: u32_,
    pub reserved32: u32_,
    pub state: pc_boost_state,
    pub counters: pc_vcpu_counters,
    pub setup: pc_vcpu_setup,
    pub line: pc_host_line,
    pub domains: pc_domain_pass,
    pub requested_ns: u64_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_vcpu"][::core::mem::size_of::<pc_vcpu>() - 1384usize];
    ["Alignment of pc_vcpu"][::core::mem::align_of::<pc_vcpu>() - 8usize];
    ["Offset of field: pc_vcpu::life"][::core::mem::offset_of!(pc_vcpu, life) - 0usize];
    ["Offset of field: pc_vcpu::tid"][::core::mem::offset_of!(pc_vcpu, tid) - 4usize];
    ["Offset of field: pc_vcpu::tgid"][::core::mem::offset_of!(pc_vcpu, tgid) - 8usize];
    [
        "Offset of field: pc_vcpu::vcpu_id",
    ][::core::mem::offset_of!(pc_vcpu, vcpu_id) - 12usize];
    [
        "Offset of field: pc_vcpu::start_ns",
    ][::core::mem::offset_of!(pc_vcpu, start_ns) - 16usize];
    [
        "Offset of field: pc_vcpu::kvm_vcpu",
    ][::core::mem::offset_of!(pc_vcpu, kvm_vcpu) - 24usize];
    ["Offset of field: pc_vcpu::task"][::core::mem::offset_of!(pc_vcpu, task) - 32usize];
    ["Offset of field: pc_vcpu::cpu"][::core::mem::offset_of!(pc_vcpu, cpu) - 40usize];
    ["Offset of field: pc_vcpu::lock"][::core::mem::offset_of!(pc_vcpu, lock) - 44usize];
    [
        "Offset of field: pc_vcpu::pending",
    ][::core::mem::offset_of!(pc_vcpu, pending) - 48usize];
    [
        "Offset of field: pc_vcpu::on_cpu",
    ][::core::mem::offset_of!(pc_vcpu, on_cpu) - 52usize];
    [
        "Offset of field: pc_vcpu::actuated",
    ][::core::mem::offset_of!(pc_vcpu, actuated) - 56usize];
    [
        "Offset of field: pc_vcpu::asleep",
    ][::core::mem::offset_of!(pc_vcpu, asleep) - 60usize];
    [
        "Offset of field: pc_vcpu::level",
    ][::core::mem::offset_of!(pc_vcpu, level) - 64usize];
    ["Offset of field: pc_vcpu::asks"][::core::mem::offset_of!(pc_vcpu, asks) - 68usize];
    [
        "Offset of field: pc_vcpu::waited_before_ns",
    ][::core::mem::offset_of!(pc_vcpu, waited_before_ns) - 72usize];
    [
        "Offset of field: pc_vcpu::wakeup_ns",
    ][::core::mem::offset_of!(pc_vcpu, wakeup_ns) - 80usize];
    [
        "Offset of field: pc_vcpu::run_since_ns",
    ][::core::mem::offset_of!(pc_vcpu, run_since_ns) - 88usize];
    [
        "Offset of field: pc_vcpu::told_ns",
    ][::core::mem::offset_of!(pc_vcpu, told_ns) - 96usize];
    [
        "Offset of field: pc_vcpu::told_asks",
    ][::core::mem::offset_of!(pc_vcpu, told_asks) - 104usize];
    [
        "Offset of field: pc_vcpu::asked",
    ][::core::mem::offset_of!(pc_vcpu, asked) - 108usize];
    [
        "Offset of field: pc_vcpu::deaf_until_ns",
    ][::core::mem::offset_of!(pc_vcpu, deaf_until_ns) - 112usize];
    [
        "Offset of field: pc_vcpu::guest",
    ][::core::mem::offset_of!(pc_vcpu, guest) - 120usize];
    [
        "Offset of field: pc_vcpu::preempt_count_hva",
    ][::core::mem::offset_of!(pc_vcpu, preempt_count_hva) - 128usize];
    [
        "Offset of field: pc_vcpu::preempt_count_gpa",
    ][::core::mem::offset_of!(pc_vcpu, preempt_count_gpa) - 136usize];
    [
        "Offset of field: pc_vcpu::line_hva",
    ][::core::mem::offset_of!(pc_vcpu, line_hva) - 144usize];
    [
        "Offset of field: pc_vcpu::line_gpa",
    ][::core::mem::offset_of!(pc_vcpu, line_gpa) - 152usize];
    [
        "Offset of field: pc_vcpu::slots_kvm",
    ][::core::mem::offset_of!(pc_vcpu, slots_kvm) - 160usize];
    [
        "Offset of field: pc_vcpu::slots_generation",
    ][::core::mem::offset_of!(pc_vcpu, slots_generation) - 168usize];
    [
        "Offset of field: pc_vcpu::translate_ns",
    ][::core::mem::offset_of!(pc_vcpu, translate_ns) - 176usize];
    [
        "Offset of field: pc_vcpu::announced_ns",
    ][::core::mem::offset_of!(pc_vcpu, announced_ns) - 184usize];
    [
        "Offset of field: pc_vcpu::announced_ran_ns",
    ][::core::mem::offset_of!(pc_vcpu, announced_ran_ns) - 192usize];
    [
        "Offset of field: pc_vcpu::translate",
    ][::core::mem::offset_of!(pc_vcpu, translate) - 200usize];
    [
        "Offset of field: pc_vcpu::line_writable",
    ][::core::mem::offset_of!(pc_vcpu, line_writable) - 204usize];
    ["Offset of field: pc_vcpu::uid"][::core::mem::offset_of!(pc_vcpu, uid) - 208usize];
    [
        "Offset of field: pc_vcpu::charged",
    ][::core::mem::offset_of!(pc_vcpu, charged) - 212usize];
    [
        "Offset of field: pc_vcpu::ran_boosted",
    ][::core::mem::offset_of!(pc_vcpu, ran_boosted) - 216usize];
    [
        "Offset of field: pc_vcpu::entered",
    ][::core::mem::offset_of!(pc_vcpu, entered) - 220usize];
    [
        "Offset of field: pc_vcpu::unreported",
    ][::core::mem::offset_of!(pc_vcpu, unreported) - 224usize];
    [
        "Offset of field: pc_vcpu::reserved32",
    ][::core::mem::offset_of!(pc_vcpu, reserved32) - 228usize];
    [
        "Offset of field: pc_vcpu::state",
    ][::core::mem::offset_of!(pc_vcpu, state) - 232usize];
    [
        "Offset of field: pc_vcpu::counters",
    ][::core::mem::offset_of!(pc_vcpu, counters) - 408usize];
    [
        "Offset of field: pc_vcpu::setup",
    ][::core::mem::offset_of!(pc_vcpu, setup) - 1056usize];
    [
        "Offset of field: pc_vcpu::line",
    ][::core::mem::offset_of!(pc_vcpu, line) - 1136usize];
    [
        "Offset of field: pc_vcpu::domains",
    ][::core::mem::offset_of!(pc_vcpu, domains) - 1328usize];
    [
        "Offset of field: pc_vcpu::requested_ns",
    ][::core::mem::offset_of!(pc_vcpu, requested_ns) - 1376usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_adoption {
    pub per_user: u32_,
    pub own_boosts: u32_,
    pub refused: u64_,
    pub full: u64_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_adoption"][::core::mem::size_of::<pc_adoption>() - 24usize];
    ["Alignment of pc_adoption"][::core::mem::align_of::<pc_adoption>() - 8usize];
    [
        "Offset of field: pc_adoption::per_user",
    ][::core::mem::offset_of!(pc_adoption, per_user) - 0usize];
    [
        "Offset of field: pc_adoption::own_boosts",
    ][::core::mem::offset_of!(pc_adoption, own_boosts) - 4usize];
    [
        "Offset of field: pc_adoption::refused",
    ][::core::mem::offset_of!(pc_adoption, refused) - 8usize];
    [
        "Offset of field: pc_adoption::full",
    ][::core::mem::offset_of!(pc_adoption, full) - 16usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_adopt_call {
    pub tid: u32_,
    pub index: u32_,
    pub found: u32_,
    pub tgid: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_adopt_call"][::core::mem::size_of::<pc_adopt_call>() - 16usize];
    ["Alignment of pc_adopt_call"][::core::mem::align_of::<pc_adopt_call>() - 4usize];
    [
        "Offset of field: pc_adopt_call::tid",
    ][::core::mem::offset_of!(pc_adopt_call, tid) - 0usize];
    [
        "Offset of field: pc_adopt_call::index",
    ][::core::mem::offset_of!(pc_adopt_call, index) - 4usize];
    [
        "Offset of field: pc_adopt_call::found",
    ][::core::mem::offset_of!(pc_adopt_call, found) - 8usize];
    [
        "Offset of field: pc_adopt_call::tgid",
    ][::core::mem::offset_of!(pc_adopt_call, tgid) - 12usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_vm_threads {
    pub config: pc_boost_config,
    pub budget: pc_bucket,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_vm_threads"][::core::mem::size_of::<pc_vm_threads>() - 168usize];
    ["Alignment of pc_vm_threads"][::core::mem::align_of::<pc_vm_threads>() - 8usize];
    [
        "Offset of field: pc_vm_threads::config",
    ][::core::mem::offset_of!(pc_vm_threads, config) - 0usize];
    [
        "Offset of field: pc_vm_threads::budget",
    ][::core::mem::offset_of!(pc_vm_threads, budget) - 152usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_vm {
    pub threads: [pc_vm_threads; 2usize],
    pub tgid: u32_,
    pub home: u32_,
    pub new_threads: u32_,
    pub reserved: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_vm"][::core::mem::size_of::<pc_vm>() - 352usize];
    ["Alignment of pc_vm"][::core::mem::align_of::<pc_vm>() - 8usize];
    [
        "Offset of field: pc_vm::threads",
    ][::core::mem::offset_of!(pc_vm, threads) - 0usize];
    ["Offset of field: pc_vm::tgid"][::core::mem::offset_of!(pc_vm, tgid) - 336usize];
    ["Offset of field: pc_vm::home"][::core::mem::offset_of!(pc_vm, home) - 340usize];
    [
        "Offset of field: pc_vm::new_threads",
    ][::core::mem::offset_of!(pc_vm, new_threads) - 344usize];
    [
        "Offset of field: pc_vm::reserved",
    ][::core::mem::offset_of!(pc_vm, reserved) - 348usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct pc_announcement {
    pub lock: u32_,
    pub sequence: u32_,
    pub gpa: u64_,
    pub kvm: u64_,
    pub announced_ns: u64_,
    pub looked_ns: u64_,
    pub count: u64_,
    pub ignored: u64_,
    pub unreadable: u64_,
    pub header: [u8_; 128usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_announcement"][::core::mem::size_of::<pc_announcement>() - 192usize];
    [
        "Alignment of pc_announcement",
    ][::core::mem::align_of::<pc_announcement>() - 8usize];
    [
        "Offset of field: pc_announcement::lock",
    ][::core::mem::offset_of!(pc_announcement, lock) - 0usize];
    [
        "Offset of field: pc_announcement::sequence",
    ][::core::mem::offset_of!(pc_announcement, sequence) - 4usize];
    [
        "Offset of field: pc_announcement::gpa",
    ][::core::mem::offset_of!(pc_announcement, gpa) - 8usize];
    [
        "Offset of field: pc_announcement::kvm",
    ][::core::mem::offset_of!(pc_announcement, kvm) - 16usize];
    [
        "Offset of field: pc_announcement::announced_ns",
    ][::core::mem::offset_of!(pc_announcement, announced_ns) - 24usize];
    [
        "Offset of field: pc_announcement::looked_ns",
    ][::core::mem::offset_of!(pc_announcement, looked_ns) - 32usize];
    [
        "Offset of field: pc_announcement::count",
    ][::core::mem::offset_of!(pc_announcement, count) - 40usize];
    [
        "Offset of field: pc_announcement::ignored",
    ][::core::mem::offset_of!(pc_announcement, ignored) - 48usize];
    [
        "Offset of field: pc_announcement::unreadable",
    ][::core::mem::offset_of!(pc_announcement, unreadable) - 56usize];
    [
        "Offset of field: pc_announcement::header",
    ][::core::mem::offset_of!(pc_announcement, header) - 64usize];
};
impl Default for pc_announcement {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_cpu {
    pub boosted: pc_bucket,
    pub running: u32_,
    pub reserved32: u32_,
    pub boosts: u64_,
    pub unboosts: u64_,
    pub reserved: [u64_; 3usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_cpu"][::core::mem::size_of::<pc_cpu>() - 64usize];
    ["Alignment of pc_cpu"][::core::mem::align_of::<pc_cpu>() - 8usize];
    [
        "Offset of field: pc_cpu::boosted",
    ][::core::mem::offset_of!(pc_cpu, boosted) - 0usize];
    [
        "Offset of field: pc_cpu::running",
    ][::core::mem::offset_of!(pc_cpu, running) - 16usize];
    [
        "Offset of field: pc_cpu::reserved32",
    ][::core::mem::offset_of!(pc_cpu, reserved32) - 20usize];
    [
        "Offset of field: pc_cpu::boosts",
    ][::core::mem::offset_of!(pc_cpu, boosts) - 24usize];
    [
        "Offset of field: pc_cpu::unboosts",
    ][::core::mem::offset_of!(pc_cpu, unboosts) - 32usize];
    [
        "Offset of field: pc_cpu::reserved",
    ][::core::mem::offset_of!(pc_cpu, reserved) - 40usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_task {
    pub vcpu: u32_,
    pub queue: u32_,
    pub vtime: u64_,
    pub waits_ns: u64_,
    pub inverse: u32_,
    pub group: u32_,
    pub counted: u32_,
    pub known: u8_,
    pub shares: u8_,
    pub children: u16_,
    pub seen_ns: u64_,
    pub own: pc_clamp,
    pub clamp: pc_clamp,
    pub perf: pc_perf_task,
    pub placed_ns: u64_,
    pub weight: u32_,
    pub sync: u8_,
    pub reads: u8_,
    pub birth: u8_,
    pub lazy: u8_,
    pub limited: u32_,
    pub at: u64_,
    pub generation: u32_,
    pub debit_ns: u32_,
    pub unused_ns: u32_,
    pub credit_ns: u32_,
    pub number: u16_,
    pub called: u8_,
    pub reserved8: u8_,
    pub last_child: u32_,
    pub after_ns: s32,
    pub owed_ns: u32_,
    pub called_ns: u64_,
    pub stands_ns: u64_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_task"][::core::mem::size_of::<pc_task>() - 208usize];
    ["Alignment of pc_task"][::core::mem::align_of::<pc_task>() - 8usize];
    ["Offset of field: pc_task::vcpu"][::core::mem::offset_of!(pc_task, vcpu) - 0usize];
    [
        "Offset of field: pc_task::queue",
    ][::core::mem::offset_of!(pc_task, queue) - 4usize];
    [
        "Offset of field: pc_task::vtime",
    ][::core::mem::offset_of!(pc_task, vtime) - 8usize];
    [
        "Offset of field: pc_task::waits_ns",
    ][::core::mem::offset_of!(pc_task, waits_ns) - 16usize];
    [
        "Offset of field: pc_task::inverse",
    ][::core::mem::offset_of!(pc_task, inverse) - 24usize];
    [
        "Offset of field: pc_task::group",
    ][::core::mem::offset_of!(pc_task, group) - 28usize];
    [
        "Offset of field: pc_task::counted",
    ][::core::mem::offset_of!(pc_task, counted) - 32usize];
    [
        "Offset of field: pc_task::known",
    ][::core::mem::offset_of!(pc_task, known) - 36usize];
    [
        "Offset of field: pc_task::shares",
    ][::core::mem::offset_of!(pc_task, shares) - 37usize];
    [
        "Offset of field: pc_task::children",
    ][::core::mem::offset_of!(pc_task, children) - 38usize];
    [
        "Offset of field: pc_task::seen_ns",
    ][::core::mem::offset_of!(pc_task, seen_ns) - 40usize];
    ["Offset of field: pc_task::own"][::core::mem::offset_of!(pc_task, own) - 48usize];
    [
        "Offset of field: pc_task::clamp",
    ][::core::mem::offset_of!(pc_task, clamp) - 56usize];
    ["Offset of field: pc_task::perf"][::core::mem::offset_of!(pc_task, perf) - 64usize];
    [
        "Offset of field: pc_task::placed_ns",
    ][::core::mem::offset_of!(pc_task, placed_ns) - 128usize];
    [
        "Offset of field: pc_task::weight",
    ][::core::mem::offset_of!(pc_task, weight) - 136usize];
    [
        "Offset of field: pc_task::sync",
    ][::core::mem::offset_of!(pc_task, sync) - 140usize];
    [
        "Offset of field: pc_task::reads",
    ][::core::mem::offset_of!(pc_task, reads) - 141usize];
    [
        "Offset of field: pc_task::birth",
    ][::core::mem::offset_of!(pc_task, birth) - 142usize];
    [
        "Offset of field: pc_task::lazy",
    ][::core::mem::offset_of!(pc_task, lazy) - 143usize];
    [
        "Offset of field: pc_task::limited",
    ][::core::mem::offset_of!(pc_task, limited) - 144usize];
    ["Offset of field: pc_task::at"][::core::mem::offset_of!(pc_task, at) - 152usize];
    [
        "Offset of field: pc_task::generation",
    ][::core::mem::offset_of!(pc_task, generation) - 160usize];
    [
        "Offset of field: pc_task::debit_ns",
    ][::core::mem::offset_of!(pc_task, debit_ns) - 164usize];
    [
        "Offset of field: pc_task::unused_ns",
    ][::core::mem::offset_of!(pc_task, unused_ns) - 168usize];
    [
        "Offset of field: pc_task::credit_ns",
    ][::core::mem::offset_of!(pc_task, credit_ns) - 172usize];
    [
        "Offset of field: pc_task::number",
    ][::core::mem::offset_of!(pc_task, number) - 176usize];
    [
        "Offset of field: pc_task::called",
    ][::core::mem::offset_of!(pc_task, called) - 178usize];
    [
        "Offset of field: pc_task::reserved8",
    ][::core::mem::offset_of!(pc_task, reserved8) - 179usize];
    [
        "Offset of field: pc_task::last_child",
    ][::core::mem::offset_of!(pc_task, last_child) - 180usize];
    [
        "Offset of field: pc_task::after_ns",
    ][::core::mem::offset_of!(pc_task, after_ns) - 184usize];
    [
        "Offset of field: pc_task::owed_ns",
    ][::core::mem::offset_of!(pc_task, owed_ns) - 188usize];
    [
        "Offset of field: pc_task::called_ns",
    ][::core::mem::offset_of!(pc_task, called_ns) - 192usize];
    [
        "Offset of field: pc_task::stands_ns",
    ][::core::mem::offset_of!(pc_task, stands_ns) - 200usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_group {
    pub active: s64,
    pub factor: u64_,
    pub factor_ns: u64_,
    pub weight: u32_,
    pub parent: u32_,
    pub used: u32_,
    pub idle: u8_,
    pub lazy: u8_,
    pub limited: u16_,
    pub own: pc_clamp,
    pub clamp: pc_clamp,
    pub counted: u32_,
    pub generation: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_group"][::core::mem::size_of::<pc_group>() - 64usize];
    ["Alignment of pc_group"][::core::mem::align_of::<pc_group>() - 8usize];
    [
        "Offset of field: pc_group::active",
    ][::core::mem::offset_of!(pc_group, active) - 0usize];
    [
        "Offset of field: pc_group::factor",
    ][::core::mem::offset_of!(pc_group, factor) - 8usize];
    [
        "Offset of field: pc_group::factor_ns",
    ][::core::mem::offset_of!(pc_group, factor_ns) - 16usize];
    [
        "Offset of field: pc_group::weight",
    ][::core::mem::offset_of!(pc_group, weight) - 24usize];
    [
        "Offset of field: pc_group::parent",
    ][::core::mem::offset_of!(pc_group, parent) - 28usize];
    [
        "Offset of field: pc_group::used",
    ][::core::mem::offset_of!(pc_group, used) - 32usize];
    [
        "Offset of field: pc_group::idle",
    ][::core::mem::offset_of!(pc_group, idle) - 36usize];
    [
        "Offset of field: pc_group::lazy",
    ][::core::mem::offset_of!(pc_group, lazy) - 37usize];
    [
        "Offset of field: pc_group::limited",
    ][::core::mem::offset_of!(pc_group, limited) - 38usize];
    ["Offset of field: pc_group::own"][::core::mem::offset_of!(pc_group, own) - 40usize];
    [
        "Offset of field: pc_group::clamp",
    ][::core::mem::offset_of!(pc_group, clamp) - 48usize];
    [
        "Offset of field: pc_group::counted",
    ][::core::mem::offset_of!(pc_group, counted) - 56usize];
    [
        "Offset of field: pc_group::generation",
    ][::core::mem::offset_of!(pc_group, generation) - 60usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_unrecorded {
    pub full: u32_,
    pub deep: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_unrecorded"][::core::mem::size_of::<pc_unrecorded>() - 8usize];
    ["Alignment of pc_unrecorded"][::core::mem::align_of::<pc_unrecorded>() - 4usize];
    [
        "Offset of field: pc_unrecorded::full",
    ][::core::mem::offset_of!(pc_unrecorded, full) - 0usize];
    [
        "Offset of field: pc_unrecorded::deep",
    ][::core::mem::offset_of!(pc_unrecorded, deep) - 4usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_near {
    pub next: [u16_; 3usize],
    pub within: u16_,
    pub node: u16_,
    pub cache: u16_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_near"][::core::mem::size_of::<pc_near>() - 12usize];
    ["Alignment of pc_near"][::core::mem::align_of::<pc_near>() - 2usize];
    ["Offset of field: pc_near::next"][::core::mem::offset_of!(pc_near, next) - 0usize];
    [
        "Offset of field: pc_near::within",
    ][::core::mem::offset_of!(pc_near, within) - 6usize];
    ["Offset of field: pc_near::node"][::core::mem::offset_of!(pc_near, node) - 8usize];
    [
        "Offset of field: pc_near::cache",
    ][::core::mem::offset_of!(pc_near, cache) - 10usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_rq {
    pub base: u64_,
    pub cur_vtime: u64_,
    pub cur_since_ns: u64_,
    pub cur_inverse: u32_,
    pub runs: u32_,
    pub queued: s32,
    pub promotes: u32_,
    pub expired: u32_,
    pub slice_ns: u32_,
    pub cur_cap: u32_,
    pub cur_speed: u32_,
    pub features: u32_,
    pub requested: u32_,
    pub perf: pc_perf_cpu,
    pub left: u64_,
    pub removed: u64_,
    pub search_ns: u64_,
    pub sum_ns: u64_,
    pub near: pc_near,
    pub victim: [u16_; 3usize],
    pub looks: u16_,
    pub domain: u16_,
    pub capacity: u16_,
    pub offline: u16_,
    pub search: u8_,
    pub direct: u8_,
    pub asks: u16_,
    pub turn: u16_,
    pub tickless: u16_,
    pub put_back: u8_,
    pub aged: u8_,
    pub readers: s32,
    pub taken: u32_,
    pub calls: u32_,
    pub pace: u64_,
    pub pace_ns: u64_,
    pub waiting: s64,
    pub balanced_ns: u64_,
    pub portion_ns: s64,
    pub paying: u32_,
    pub paying_generation: u32_,
    pub until_ns: u64_,
    pub timer_ns: u64_,
    pub turn_vtime: u64_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_rq"][::core::mem::size_of::<pc_rq>() - 256usize];
    ["Alignment of pc_rq"][::core::mem::align_of::<pc_rq>() - 8usize];
    ["Offset of field: pc_rq::base"][::core::mem::offset_of!(pc_rq, base) - 0usize];
    [
        "Offset of field: pc_rq::cur_vtime",
    ][::core::mem::offset_of!(pc_rq, cur_vtime) - 8usize];
    [
        "Offset of field: pc_rq::cur_since_ns",
    ][::core::mem::offset_of!(pc_rq, cur_since_ns) - 16usize];
    [
        "Offset of field: pc_rq::cur_inverse",
    ][::core::mem::offset_of!(pc_rq, cur_inverse) - 24usize];
    ["Offset of field: pc_rq::runs"][::core::mem::offset_of!(pc_rq, runs) - 28usize];
    ["Offset of field: pc_rq::queued"][::core::mem::offset_of!(pc_rq, queued) - 32usize];
    [
        "Offset of field: pc_rq::promotes",
    ][::core::mem::offset_of!(pc_rq, promotes) - 36usize];
    [
        "Offset of field: pc_rq::expired",
    ][::core::mem::offset_of!(pc_rq, expired) - 40usize];
    [
        "Offset of field: pc_rq::slice_ns",
    ][::core::mem::offset_of!(pc_rq, slice_ns) - 44usize];
    [
        "Offset of field: pc_rq::cur_cap",
    ][::core::mem::offset_of!(pc_rq, cur_cap) - 48usize];
    [
        "Offset of field: pc_rq::cur_speed",
    ][::core::mem::offset_of!(pc_rq, cur_speed) - 52usize];
    [
        "Offset of field: pc_rq::features",
    ][::core::mem::offset_of!(pc_rq, features) - 56usize];
    [
        "Offset of field: pc_rq::requested",
    ][::core::mem::offset_of!(pc_rq, requested) - 60usize];
    ["Offset of field: pc_rq::perf"][::core::mem::offset_of!(pc_rq, perf) - 64usize];
    ["Offset of field: pc_rq::left"][::core::mem::offset_of!(pc_rq, left) - 104usize];
    [
        "Offset of field: pc_rq::removed",
    ][::core::mem::offset_of!(pc_rq, removed) - 112usize];
    [
        "Offset of field: pc_rq::search_ns",
    ][::core::mem::offset_of!(pc_rq, search_ns) - 120usize];
    [
        "Offset of field: pc_rq::sum_ns",
    ][::core::mem::offset_of!(pc_rq, sum_ns) - 128usize];
    ["Offset of field: pc_rq::near"][::core::mem::offset_of!(pc_rq, near) - 136usize];
    [
        "Offset of field: pc_rq::victim",
    ][::core::mem::offset_of!(pc_rq, victim) - 148usize];
    ["Offset of field: pc_rq::looks"][::core::mem::offset_of!(pc_rq, looks) - 154usize];
    [
        "Offset of field: pc_rq::domain",
    ][::core::mem::offset_of!(pc_rq, domain) - 156usize];
    [
        "Offset of field: pc_rq::capacity",
    ][::core::mem::offset_of!(pc_rq, capacity) - 158usize];
    [
        "Offset of field: pc_rq::offline",
    ][::core::mem::offset_of!(pc_rq, offline) - 160usize];
    [
        "Offset of field: pc_rq::search",
    ][::core::mem::offset_of!(pc_rq, search) - 162usize];
    [
        "Offset of field: pc_rq::direct",
    ][::core::mem::offset_of!(pc_rq, direct) - 163usize];
    ["Offset of field: pc_rq::asks"][::core::mem::offset_of!(pc_rq, asks) - 164usize];
    ["Offset of field: pc_rq::turn"][::core::mem::offset_of!(pc_rq, turn) - 166usize];
    [
        "Offset of field: pc_rq::tickless",
    ][::core::mem::offset_of!(pc_rq, tickless) - 168usize];
    [
        "Offset of field: pc_rq::put_back",
    ][::core::mem::offset_of!(pc_rq, put_back) - 170usize];
    ["Offset of field: pc_rq::aged"][::core::mem::offset_of!(pc_rq, aged) - 171usize];
    [
        "Offset of field: pc_rq::readers",
    ][::core::mem::offset_of!(pc_rq, readers) - 172usize];
    ["Offset of field: pc_rq::taken"][::core::mem::offset_of!(pc_rq, taken) - 176usize];
    ["Offset of field: pc_rq::calls"][::core::mem::offset_of!(pc_rq, calls) - 180usize];
    ["Offset of field: pc_rq::pace"][::core::mem::offset_of!(pc_rq, pace) - 184usize];
    [
        "Offset of field: pc_rq::pace_ns",
    ][::core::mem::offset_of!(pc_rq, pace_ns) - 192usize];
    [
        "Offset of field: pc_rq::waiting",
    ][::core::mem::offset_of!(pc_rq, waiting) - 200usize];
    [
        "Offset of field: pc_rq::balanced_ns",
    ][::core::mem::offset_of!(pc_rq, balanced_ns) - 208usize];
    [
        "Offset of field: pc_rq::portion_ns",
    ][::core::mem::offset_of!(pc_rq, portion_ns) - 216usize];
    [
        "Offset of field: pc_rq::paying",
    ][::core::mem::offset_of!(pc_rq, paying) - 224usize];
    [
        "Offset of field: pc_rq::paying_generation",
    ][::core::mem::offset_of!(pc_rq, paying_generation) - 228usize];
    [
        "Offset of field: pc_rq::until_ns",
    ][::core::mem::offset_of!(pc_rq, until_ns) - 232usize];
    [
        "Offset of field: pc_rq::timer_ns",
    ][::core::mem::offset_of!(pc_rq, timer_ns) - 240usize];
    [
        "Offset of field: pc_rq::turn_vtime",
    ][::core::mem::offset_of!(pc_rq, turn_vtime) - 248usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_clamp_call {
    pub kind: u32_,
    pub set: u32_,
    pub id: u64_,
    pub own: pc_clamp,
    pub clamp: pc_clamp,
    pub found: u32_,
    pub reserved: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_clamp_call"][::core::mem::size_of::<pc_clamp_call>() - 40usize];
    ["Alignment of pc_clamp_call"][::core::mem::align_of::<pc_clamp_call>() - 8usize];
    [
        "Offset of field: pc_clamp_call::kind",
    ][::core::mem::offset_of!(pc_clamp_call, kind) - 0usize];
    [
        "Offset of field: pc_clamp_call::set",
    ][::core::mem::offset_of!(pc_clamp_call, set) - 4usize];
    [
        "Offset of field: pc_clamp_call::id",
    ][::core::mem::offset_of!(pc_clamp_call, id) - 8usize];
    [
        "Offset of field: pc_clamp_call::own",
    ][::core::mem::offset_of!(pc_clamp_call, own) - 16usize];
    [
        "Offset of field: pc_clamp_call::clamp",
    ][::core::mem::offset_of!(pc_clamp_call, clamp) - 24usize];
    [
        "Offset of field: pc_clamp_call::found",
    ][::core::mem::offset_of!(pc_clamp_call, found) - 32usize];
    [
        "Offset of field: pc_clamp_call::reserved",
    ][::core::mem::offset_of!(pc_clamp_call, reserved) - 36usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_kernel_clamp {
    pub tid: u32_,
    pub min: u32_,
    pub max: u32_,
    pub reserved: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_kernel_clamp"][::core::mem::size_of::<pc_kernel_clamp>() - 16usize];
    [
        "Alignment of pc_kernel_clamp",
    ][::core::mem::align_of::<pc_kernel_clamp>() - 4usize];
    [
        "Offset of field: pc_kernel_clamp::tid",
    ][::core::mem::offset_of!(pc_kernel_clamp, tid) - 0usize];
    [
        "Offset of field: pc_kernel_clamp::min",
    ][::core::mem::offset_of!(pc_kernel_clamp, min) - 4usize];
    [
        "Offset of field: pc_kernel_clamp::max",
    ][::core::mem::offset_of!(pc_kernel_clamp, max) - 8usize];
    [
        "Offset of field: pc_kernel_clamp::reserved",
    ][::core::mem::offset_of!(pc_kernel_clamp, reserved) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct pc_ext_exit {
    pub kind: u32_,
    pub reserved: u32_,
    pub code: s64,
    pub reason: [core::ffi::c_char; 128usize],
    pub message: [core::ffi::c_char; 1024usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_ext_exit"][::core::mem::size_of::<pc_ext_exit>() - 1168usize];
    ["Alignment of pc_ext_exit"][::core::mem::align_of::<pc_ext_exit>() - 8usize];
    [
        "Offset of field: pc_ext_exit::kind",
    ][::core::mem::offset_of!(pc_ext_exit, kind) - 0usize];
    [
        "Offset of field: pc_ext_exit::reserved",
    ][::core::mem::offset_of!(pc_ext_exit, reserved) - 4usize];
    [
        "Offset of field: pc_ext_exit::code",
    ][::core::mem::offset_of!(pc_ext_exit, code) - 8usize];
    [
        "Offset of field: pc_ext_exit::reason",
    ][::core::mem::offset_of!(pc_ext_exit, reason) - 16usize];
    [
        "Offset of field: pc_ext_exit::message",
    ][::core::mem::offset_of!(pc_ext_exit, message) - 144usize];
};
impl Default for pc_ext_exit {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_tick {
    pub events: u32_,
    pub count: u32_,
    pub index: [u32_; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_tick"][::core::mem::size_of::<pc_tick>() - 72usize];
    ["Alignment of pc_tick"][::core::mem::align_of::<pc_tick>() - 4usize];
    [
        "Offset of field: pc_tick::events",
    ][::core::mem::offset_of!(pc_tick, events) - 0usize];
    [
        "Offset of field: pc_tick::count",
    ][::core::mem::offset_of!(pc_tick, count) - 4usize];
    [
        "Offset of field: pc_tick::index",
    ][::core::mem::offset_of!(pc_tick, index) - 8usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_where_one {
    pub vcpu: u32_,
    pub cpu: u32_,
    pub frequency: u32_,
    pub reserved: u32_,
    pub waited_ns: u64_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_where_one"][::core::mem::size_of::<pc_where_one>() - 24usize];
    ["Alignment of pc_where_one"][::core::mem::align_of::<pc_where_one>() - 8usize];
    [
        "Offset of field: pc_where_one::vcpu",
    ][::core::mem::offset_of!(pc_where_one, vcpu) - 0usize];
    [
        "Offset of field: pc_where_one::cpu",
    ][::core::mem::offset_of!(pc_where_one, cpu) - 4usize];
    [
        "Offset of field: pc_where_one::frequency",
    ][::core::mem::offset_of!(pc_where_one, frequency) - 8usize];
    [
        "Offset of field: pc_where_one::reserved",
    ][::core::mem::offset_of!(pc_where_one, reserved) - 12usize];
    [
        "Offset of field: pc_where_one::waited_ns",
    ][::core::mem::offset_of!(pc_where_one, waited_ns) - 16usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_where {
    pub count: u32_,
    pub reserved: u32_,
    pub invariance_key: u64_,
    pub of: [pc_where_one; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_where"][::core::mem::size_of::<pc_where>() - 400usize];
    ["Alignment of pc_where"][::core::mem::align_of::<pc_where>() - 8usize];
    [
        "Offset of field: pc_where::count",
    ][::core::mem::offset_of!(pc_where, count) - 0usize];
    [
        "Offset of field: pc_where::reserved",
    ][::core::mem::offset_of!(pc_where, reserved) - 4usize];
    [
        "Offset of field: pc_where::invariance_key",
    ][::core::mem::offset_of!(pc_where, invariance_key) - 8usize];
    ["Offset of field: pc_where::of"][::core::mem::offset_of!(pc_where, of) - 16usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_msg {
    pub kind: u32_,
    pub vcpu: u32_,
    pub tid: u32_,
    pub reasons: u8_,
    pub forced: u8_,
    pub cause: u8_,
    pub level: u8_,
    pub now_ns: u64_,
    pub asks: u32_,
    pub reserved: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_msg"][::core::mem::size_of::<pc_msg>() - 32usize];
    ["Alignment of pc_msg"][::core::mem::align_of::<pc_msg>() - 8usize];
    ["Offset of field: pc_msg::kind"][::core::mem::offset_of!(pc_msg, kind) - 0usize];
    ["Offset of field: pc_msg::vcpu"][::core::mem::offset_of!(pc_msg, vcpu) - 4usize];
    ["Offset of field: pc_msg::tid"][::core::mem::offset_of!(pc_msg, tid) - 8usize];
    [
        "Offset of field: pc_msg::reasons",
    ][::core::mem::offset_of!(pc_msg, reasons) - 12usize];
    [
        "Offset of field: pc_msg::forced",
    ][::core::mem::offset_of!(pc_msg, forced) - 13usize];
    ["Offset of field: pc_msg::cause"][::core::mem::offset_of!(pc_msg, cause) - 14usize];
    ["Offset of field: pc_msg::level"][::core::mem::offset_of!(pc_msg, level) - 15usize];
    [
        "Offset of field: pc_msg::now_ns",
    ][::core::mem::offset_of!(pc_msg, now_ns) - 16usize];
    ["Offset of field: pc_msg::asks"][::core::mem::offset_of!(pc_msg, asks) - 24usize];
    [
        "Offset of field: pc_msg::reserved",
    ][::core::mem::offset_of!(pc_msg, reserved) - 28usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_pmu_key {
    pub config: u64_,
    pub type_: u32_,
    pub flags: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_pmu_key"][::core::mem::size_of::<pc_pmu_key>() - 16usize];
    ["Alignment of pc_pmu_key"][::core::mem::align_of::<pc_pmu_key>() - 8usize];
    [
        "Offset of field: pc_pmu_key::config",
    ][::core::mem::offset_of!(pc_pmu_key, config) - 0usize];
    [
        "Offset of field: pc_pmu_key::type_",
    ][::core::mem::offset_of!(pc_pmu_key, type_) - 8usize];
    [
        "Offset of field: pc_pmu_key::flags",
    ][::core::mem::offset_of!(pc_pmu_key, flags) - 12usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_pmu_event {
    pub key: pc_pmu_key,
    pub turn: u64_,
    pub idle_slices: u32_,
    pub open: u8_,
    pub counter: u8_,
    pub had_by: u8_,
    pub reserved: u8_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_pmu_event"][::core::mem::size_of::<pc_pmu_event>() - 32usize];
    ["Alignment of pc_pmu_event"][::core::mem::align_of::<pc_pmu_event>() - 8usize];
    [
        "Offset of field: pc_pmu_event::key",
    ][::core::mem::offset_of!(pc_pmu_event, key) - 0usize];
    [
        "Offset of field: pc_pmu_event::turn",
    ][::core::mem::offset_of!(pc_pmu_event, turn) - 16usize];
    [
        "Offset of field: pc_pmu_event::idle_slices",
    ][::core::mem::offset_of!(pc_pmu_event, idle_slices) - 24usize];
    [
        "Offset of field: pc_pmu_event::open",
    ][::core::mem::offset_of!(pc_pmu_event, open) - 28usize];
    [
        "Offset of field: pc_pmu_event::counter",
    ][::core::mem::offset_of!(pc_pmu_event, counter) - 29usize];
    [
        "Offset of field: pc_pmu_event::had_by",
    ][::core::mem::offset_of!(pc_pmu_event, had_by) - 30usize];
    [
        "Offset of field: pc_pmu_event::reserved",
    ][::core::mem::offset_of!(pc_pmu_event, reserved) - 31usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_pmu_pool {
    pub mode: u32_,
    pub release_slices: u32_,
    pub turn: u64_,
    pub event: [pc_pmu_event; 32usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_pmu_pool"][::core::mem::size_of::<pc_pmu_pool>() - 1040usize];
    ["Alignment of pc_pmu_pool"][::core::mem::align_of::<pc_pmu_pool>() - 8usize];
    [
        "Offset of field: pc_pmu_pool::mode",
    ][::core::mem::offset_of!(pc_pmu_pool, mode) - 0usize];
    [
        "Offset of field: pc_pmu_pool::release_slices",
    ][::core::mem::offset_of!(pc_pmu_pool, release_slices) - 4usize];
    [
        "Offset of field: pc_pmu_pool::turn",
    ][::core::mem::offset_of!(pc_pmu_pool, turn) - 8usize];
    [
        "Offset of field: pc_pmu_pool::event",
    ][::core::mem::offset_of!(pc_pmu_pool, event) - 16usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_pmu_decision {
    pub action: u8_,
    pub event: u8_,
    pub cause: u8_,
    pub reserved: u8_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_pmu_decision"][::core::mem::size_of::<pc_pmu_decision>() - 4usize];
    [
        "Alignment of pc_pmu_decision",
    ][::core::mem::align_of::<pc_pmu_decision>() - 1usize];
    [
        "Offset of field: pc_pmu_decision::action",
    ][::core::mem::offset_of!(pc_pmu_decision, action) - 0usize];
    [
        "Offset of field: pc_pmu_decision::event",
    ][::core::mem::offset_of!(pc_pmu_decision, event) - 1usize];
    [
        "Offset of field: pc_pmu_decision::cause",
    ][::core::mem::offset_of!(pc_pmu_decision, cause) - 2usize];
    [
        "Offset of field: pc_pmu_decision::reserved",
    ][::core::mem::offset_of!(pc_pmu_decision, reserved) - 3usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_pmu_quota {
    pub calls_ns_per_sec: u64_,
    pub opens_per_sec: u32_,
    pub reserved: u32_,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_pmu_quota"][::core::mem::size_of::<pc_pmu_quota>() - 16usize];
    ["Alignment of pc_pmu_quota"][::core::mem::align_of::<pc_pmu_quota>() - 8usize];
    [
        "Offset of field: pc_pmu_quota::calls_ns_per_sec",
    ][::core::mem::offset_of!(pc_pmu_quota, calls_ns_per_sec) - 0usize];
    [
        "Offset of field: pc_pmu_quota::opens_per_sec",
    ][::core::mem::offset_of!(pc_pmu_quota, opens_per_sec) - 8usize];
    [
        "Offset of field: pc_pmu_quota::reserved",
    ][::core::mem::offset_of!(pc_pmu_quota, reserved) - 12usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq)]
pub struct pc_pmu_budget {
    pub calls: pc_bucket,
    pub opens: pc_bucket,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of pc_pmu_budget"][::core::mem::size_of::<pc_pmu_budget>() - 32usize];
    ["Alignment of pc_pmu_budget"][::core::mem::align_of::<pc_pmu_budget>() - 8usize];
    [
        "Offset of field: pc_pmu_budget::calls",
    ][::core::mem::offset_of!(pc_pmu_budget, calls) - 0usize];
    [
        "Offset of field: pc_pmu_budget::opens",
    ][::core::mem::offset_of!(pc_pmu_budget, opens) - 16usize];
};
