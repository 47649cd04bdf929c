// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
// Generated from abi/paracord_abi.h by `make generate`. Do not edit.

pub const PARACORD_MAGIC: u64 = 4923084492946686288;
pub const PARACORD_ABI_MAJOR: u32 = 1;
pub const PARACORD_ABI_MINOR: u32 = 6;
pub const PARACORD_LINE_BYTES: u32 = 64;
pub const PARACORD_HEADER_BYTES: u32 = 128;
pub const PARACORD_SLOT_STRIDE_BYTES: u32 = 1024;
pub const PARACORD_SLOT_OFFSET_BYTES: u32 = 4096;
pub const PARACORD_SLOTS_MAX: u32 = 4096;
pub const PARACORD_SLOT_STRIDE_MAX_BYTES: u32 = 65536;
pub const PARACORD_DOMAIN_OFFSET_BYTES: u32 = 128;
pub const PARACORD_DOMAIN_STRIDE_BYTES: u32 = 192;
pub const PARACORD_DOMAINS_MAX: u32 = 16;
pub const PARACORD_LEVELS_MAX: u32 = 64;
pub const PARACORD_EVENT_OFFSET_BYTES: u32 = 3200;
pub const PARACORD_EVENT_STRIDE_BYTES: u32 = 32;
pub const PARACORD_EVENTS_MAX: u32 = 28;
pub const PARACORD_EVENT_NAME_BYTES: u32 = 24;
pub const PARACORD_EVENT_LIST: &[u8; 351] = b"cycles instructions cache-references cache-misses branches branch-misses bus-cycles stalled-cycles-frontend stalled-cycles-backend ref-cycles L1-dcache-loads L1-dcache-load-misses L1-icache-load-misses LLC-loads LLC-load-misses dTLB-loads dTLB-load-misses iTLB-load-misses cpu-clock task-clock page-faults context-switches cpu-migrations major-faults\0";
pub const PARACORD_COUNTERS: u32 = 16;
pub const PARACORD_SCALE: u32 = 1024;
pub const PARACORD_IVSHMEM_VENDOR_ID: u32 = 6900;
pub const PARACORD_IVSHMEM_DEVICE_ID: u32 = 4368;
pub const PARACORD_IVSHMEM_BAR: u32 = 2;
pub const PARACORD_DOORBELL_BAR: u32 = 0;
pub const PARACORD_DOORBELL_OFFSET: u32 = 12;
pub const PARACORD_ANNOUNCE_MSR: u32 = 1346587393;
pub const PARACORD_ANNOUNCE_HVC: u32 = 3321909323;
pub const PARACORD_ANNOUNCE_SHIFT: u32 = 12;
pub const PARACORD_ANNOUNCE_MS: u32 = 1000;
pub const PARACORD_KICK_HYPERCALL: u32 = 5260107;
pub const PARACORD_KICK_HVC: u32 = 2248146944;
pub const PARACORD_ANNOUNCED_FEATURES: u32 = 63;
pub const PARACORD_F_BOOST: u32 = 1;
pub const PARACORD_F_PREEMPT_COUNT: u32 = 2;
pub const PARACORD_F_KICK: u32 = 4;
pub const PARACORD_F_PERF_REQUEST: u32 = 8;
pub const PARACORD_F_CAPACITY: u32 = 16;
pub const PARACORD_F_PMU: u32 = 32;
pub const PARACORD_F_PMU_DOORBELL: u32 = 64;
pub const PARACORD_DOMAIN_SHARED: u32 = 1;
pub const PARACORD_TASK_UNKNOWN: u32 = 0;
pub const PARACORD_TASK_IDLE: u32 = 1;
pub const PARACORD_TASK_NORMAL: u32 = 2;
pub const PARACORD_TASK_RT: u32 = 3;
pub const PARACORD_TASK_DEADLINE: u32 = 4;
pub const PARACORD_TASK_STOP: u32 = 5;
pub const PARACORD_BOOST_OFF: u32 = 0;
pub const PARACORD_BOOST_ON: u32 = 1;
pub const PARACORD_BOOST_THROTTLED: u32 = 2;
pub const PARACORD_REASON_WAKE: u32 = 0;
pub const PARACORD_REASON_IRQ: u32 = 1;
pub const PARACORD_REASON_RT: u32 = 2;
pub const PARACORD_REASON_CRITICAL: u32 = 3;
pub const PARACORD_REASONS: u32 = 4;
pub const PARACORD_HOST_COUNTS: u32 = 1;
pub const PARACORD_WANT_USER: u32 = 1;
pub const PARACORD_WANT_KERNEL: u32 = 2;
pub type __u8 = core::ffi::c_uchar;
pub type __u16 = core::ffi::c_ushort;
pub type __u32 = core::ffi::c_uint;
pub type __u64 = core::ffi::c_ulonglong;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct paracord_header {
    pub magic: __u64,
    pub abi_major: __u16,
    pub abi_minor: __u16,
    pub header_bytes: __u32,
    pub region_bytes: __u64,
    pub slot_offset_bytes: __u32,
    pub slot_stride_bytes: __u32,
    pub slot_count: __u32,
    pub host_features: __u32,
    pub host_line_bytes: __u32,
    pub stale_boost_kick_us: __u32,
    pub domain_offset_bytes: __u32,
    pub domain_count: __u16,
    pub domain_stride_bytes: __u16,
    pub event_offset_bytes: __u32,
    pub event_count: __u16,
    pub event_stride_bytes: __u16,
    pub guest_features: __u32,
    pub guest_abi_major: __u16,
    pub guest_abi_minor: __u16,
    pub guest_line_bytes: __u32,
    pub guest_announcements: __u32,
    pub guest_reserved: [__u32; 12usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of paracord_header"][::core::mem::size_of::<paracord_header>() - 128usize];
    [
        "Alignment of paracord_header",
    ][::core::mem::align_of::<paracord_header>() - 8usize];
    [
        "Offset of field: paracord_header::magic",
    ][::core::mem::offset_of!(paracord_header, magic) - 0usize];
    [
        "Offset of field: paracord_header::abi_major",
    ][::core::mem::offset_of!(paracord_header, abi_major) - 8usize];
    [
        "Offset of field: paracord_header::abi_minor",
    ][::core::mem::offset_of!(paracord_header, abi_minor) - 10usize];
    [
        "Offset of field: paracord_header::header_bytes",
    ][::core::mem::offset_of!(paracord_header, header_bytes) - 12usize];
    [
        "Offset of field: paracord_header::region_bytes",
    ][::core::mem::offset_of!(paracord_header, region_bytes) - 16usize];
    [
        "Offset of field: paracord_header::slot_offset_bytes",
    ][::core::mem::offset_of!(paracord_header, slot_offset_bytes) - 24usize];
    [
        "Offset of field: paracord_header::slot_stride_bytes",
    ][::core::mem::offset_of!(paracord_header, slot_stride_bytes) - 28usize];
    [
        "Offset of field: paracord_header::slot_count",
    ][::core::mem::offset_of!(paracord_header, slot_count) - 32usize];
    [
        "Offset of field: paracord_header::host_features",
    ][::core::mem::offset_of!(paracord_header, host_features) - 36usize];
    [
        "Offset of field: paracord_header::host_line_bytes",
    ][::core::mem::offset_of!(paracord_header, host_line_bytes) - 40usize];
    [
        "Offset of field: paracord_header::stale_boost_kick_us",
    ][::core::mem::offset_of!(paracord_header, stale_boost_kick_us) - 44usize];
    [
        "Offset of field: paracord_header::domain_offset_bytes",
    ][::core::mem::offset_of!(paracord_header, domain_offset_bytes) - 48usize];
    [
        "Offset of field: paracord_header::domain_count",
    ][::core::mem::offset_of!(paracord_header, domain_count) - 52usize];
    [
        "Offset of field: paracord_header::domain_stride_bytes",
    ][::core::mem::offset_of!(paracord_header, domain_stride_bytes) - 54usize];
    [
        "Offset of field: paracord_header::event_offset_bytes",
    ][::core::mem::offset_of!(paracord_header, event_offset_bytes) - 56usize];
    [
        "Offset of field: paracord_header::event_count",
    ][::core::mem::offset_of!(paracord_header, event_count) - 60usize];
    [
        "Offset of field: paracord_header::event_stride_bytes",
    ][::core::mem::offset_of!(paracord_header, event_stride_bytes) - 62usize];
    [
        "Offset of field: paracord_header::guest_features",
    ][::core::mem::offset_of!(paracord_header, guest_features) - 64usize];
    [
        "Offset of field: paracord_header::guest_abi_major",
    ][::core::mem::offset_of!(paracord_header, guest_abi_major) - 68usize];
    [
        "Offset of field: paracord_header::guest_abi_minor",
    ][::core::mem::offset_of!(paracord_header, guest_abi_minor) - 70usize];
    [
        "Offset of field: paracord_header::guest_line_bytes",
    ][::core::mem::offset_of!(paracord_header, guest_line_bytes) - 72usize];
    [
        "Offset of field: paracord_header::guest_announcements",
    ][::core::mem::offset_of!(paracord_header, guest_announcements) - 76usize];
    [
        "Offset of field: paracord_header::guest_reserved",
    ][::core::mem::offset_of!(paracord_header, guest_reserved) - 80usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct paracord_domain {
    pub max_khz: __u32,
    pub capacity: __u16,
    pub level_count: __u16,
    pub flags: __u32,
    pub table: __u32,
    pub host_reserved: [__u8; 48usize],
    pub levels: [__u16; 64usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of paracord_domain"][::core::mem::size_of::<paracord_domain>() - 192usize];
    [
        "Alignment of paracord_domain",
    ][::core::mem::align_of::<paracord_domain>() - 4usize];
    [
        "Offset of field: paracord_domain::max_khz",
    ][::core::mem::offset_of!(paracord_domain, max_khz) - 0usize];
    [
        "Offset of field: paracord_domain::capacity",
    ][::core::mem::offset_of!(paracord_domain, capacity) - 4usize];
    [
        "Offset of field: paracord_domain::level_count",
    ][::core::mem::offset_of!(paracord_domain, level_count) - 6usize];
    [
        "Offset of field: paracord_domain::flags",
    ][::core::mem::offset_of!(paracord_domain, flags) - 8usize];
    [
        "Offset of field: paracord_domain::table",
    ][::core::mem::offset_of!(paracord_domain, table) - 12usize];
    [
        "Offset of field: paracord_domain::host_reserved",
    ][::core::mem::offset_of!(paracord_domain, host_reserved) - 16usize];
    [
        "Offset of field: paracord_domain::levels",
    ][::core::mem::offset_of!(paracord_domain, levels) - 64usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct paracord_context {
    pub task_class: __u8,
    pub task_prio: __u8,
    pub hardirq: __u8,
    pub softirq: __u8,
    pub nmi: __u8,
    pub critical: __u8,
    pub halting: __u8,
    pub reserved: __u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of paracord_context"][::core::mem::size_of::<paracord_context>() - 8usize];
    [
        "Alignment of paracord_context",
    ][::core::mem::align_of::<paracord_context>() - 1usize];
    [
        "Offset of field: paracord_context::task_class",
    ][::core::mem::offset_of!(paracord_context, task_class) - 0usize];
    [
        "Offset of field: paracord_context::task_prio",
    ][::core::mem::offset_of!(paracord_context, task_prio) - 1usize];
    [
        "Offset of field: paracord_context::hardirq",
    ][::core::mem::offset_of!(paracord_context, hardirq) - 2usize];
    [
        "Offset of field: paracord_context::softirq",
    ][::core::mem::offset_of!(paracord_context, softirq) - 3usize];
    [
        "Offset of field: paracord_context::nmi",
    ][::core::mem::offset_of!(paracord_context, nmi) - 4usize];
    [
        "Offset of field: paracord_context::critical",
    ][::core::mem::offset_of!(paracord_context, critical) - 5usize];
    [
        "Offset of field: paracord_context::halting",
    ][::core::mem::offset_of!(paracord_context, halting) - 6usize];
    [
        "Offset of field: paracord_context::reserved",
    ][::core::mem::offset_of!(paracord_context, reserved) - 7usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct paracord_guest_line {
    pub __bindgen_anon_1: paracord_guest_line__bindgen_ty_1,
    pub preempt_count_gpa: __u64,
    pub preempt_count_mask: __u32,
    pub perf_request: __u16,
    pub perf_limit: __u16,
    pub runqueue_util: __u16,
    pub guest_reserved16: __u16,
    pub kicks: __u32,
    pub guest_reserved: [__u8; 32usize],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union paracord_guest_line__bindgen_ty_1 {
    pub context: paracord_context,
    pub context_word: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of paracord_guest_line__bindgen_ty_1",
    ][::core::mem::size_of::<paracord_guest_line__bindgen_ty_1>() - 8usize];
    [
        "Alignment of paracord_guest_line__bindgen_ty_1",
    ][::core::mem::align_of::<paracord_guest_line__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: paracord_guest_line__bindgen_ty_1::context",
    ][::core::mem::offset_of!(paracord_guest_line__bindgen_ty_1, context) - 0usize];
    [
        "Offset of field: paracord_guest_line__bindgen_ty_1::context_word",
    ][::core::mem::offset_of!(paracord_guest_line__bindgen_ty_1, context_word) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of paracord_guest_line",
    ][::core::mem::size_of::<paracord_guest_line>() - 64usize];
    [
        "Alignment of paracord_guest_line",
    ][::core::mem::align_of::<paracord_guest_line>() - 8usize];
    [
        "Offset of field: paracord_guest_line::preempt_count_gpa",
    ][::core::mem::offset_of!(paracord_guest_line, preempt_count_gpa) - 8usize];
    [
        "Offset of field: paracord_guest_line::preempt_count_mask",
    ][::core::mem::offset_of!(paracord_guest_line, preempt_count_mask) - 16usize];
    [
        "Offset of field: paracord_guest_line::perf_request",
    ][::core::mem::offset_of!(paracord_guest_line, perf_request) - 20usize];
    [
        "Offset of field: paracord_guest_line::perf_limit",
    ][::core::mem::offset_of!(paracord_guest_line, perf_limit) - 22usize];
    [
        "Offset of field: paracord_guest_line::runqueue_util",
    ][::core::mem::offset_of!(paracord_guest_line, runqueue_util) - 24usize];
    [
        "Offset of field: paracord_guest_line::guest_reserved16",
    ][::core::mem::offset_of!(paracord_guest_line, guest_reserved16) - 26usize];
    [
        "Offset of field: paracord_guest_line::kicks",
    ][::core::mem::offset_of!(paracord_guest_line, kicks) - 28usize];
    [
        "Offset of field: paracord_guest_line::guest_reserved",
    ][::core::mem::offset_of!(paracord_guest_line, guest_reserved) - 32usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct paracord_host_line {
    pub boost_state: __u8,
    pub boost_reasons: __u8,
    pub host_flags: __u8,
    pub host_reserved8: __u8,
    pub boosts: __u32,
    pub throttles: __u32,
    pub capacity: __u16,
    pub frequency: __u16,
    pub physical_cpu: __u32,
    pub cluster: __u32,
    pub pressure: __u16,
    pub domain: __u16,
    pub announcement: __u32,
    pub steal_ns: __u64,
    pub domain_table: __u32,
    pub host_reserved: [__u8; 20usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of paracord_host_line",
    ][::core::mem::size_of::<paracord_host_line>() - 64usize];
    [
        "Alignment of paracord_host_line",
    ][::core::mem::align_of::<paracord_host_line>() - 8usize];
    [
        "Offset of field: paracord_host_line::boost_state",
    ][::core::mem::offset_of!(paracord_host_line, boost_state) - 0usize];
    [
        "Offset of field: paracord_host_line::boost_reasons",
    ][::core::mem::offset_of!(paracord_host_line, boost_reasons) - 1usize];
    [
        "Offset of field: paracord_host_line::host_flags",
    ][::core::mem::offset_of!(paracord_host_line, host_flags) - 2usize];
    [
        "Offset of field: paracord_host_line::host_reserved8",
    ][::core::mem::offset_of!(paracord_host_line, host_reserved8) - 3usize];
    [
        "Offset of field: paracord_host_line::boosts",
    ][::core::mem::offset_of!(paracord_host_line, boosts) - 4usize];
    [
        "Offset of field: paracord_host_line::throttles",
    ][::core::mem::offset_of!(paracord_host_line, throttles) - 8usize];
    [
        "Offset of field: paracord_host_line::capacity",
    ][::core::mem::offset_of!(paracord_host_line, capacity) - 12usize];
    [
        "Offset of field: paracord_host_line::frequency",
    ][::core::mem::offset_of!(paracord_host_line, frequency) - 14usize];
    [
        "Offset of field: paracord_host_line::physical_cpu",
    ][::core::mem::offset_of!(paracord_host_line, physical_cpu) - 16usize];
    [
        "Offset of field: paracord_host_line::cluster",
    ][::core::mem::offset_of!(paracord_host_line, cluster) - 20usize];
    [
        "Offset of field: paracord_host_line::pressure",
    ][::core::mem::offset_of!(paracord_host_line, pressure) - 24usize];
    [
        "Offset of field: paracord_host_line::domain",
    ][::core::mem::offset_of!(paracord_host_line, domain) - 26usize];
    [
        "Offset of field: paracord_host_line::announcement",
    ][::core::mem::offset_of!(paracord_host_line, announcement) - 28usize];
    [
        "Offset of field: paracord_host_line::steal_ns",
    ][::core::mem::offset_of!(paracord_host_line, steal_ns) - 32usize];
    [
        "Offset of field: paracord_host_line::domain_table",
    ][::core::mem::offset_of!(paracord_host_line, domain_table) - 40usize];
    [
        "Offset of field: paracord_host_line::host_reserved",
    ][::core::mem::offset_of!(paracord_host_line, host_reserved) - 44usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct paracord_event {
    pub name: [__u8; 24usize],
    pub min_period: __u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of paracord_event"][::core::mem::size_of::<paracord_event>() - 32usize];
    ["Alignment of paracord_event"][::core::mem::align_of::<paracord_event>() - 8usize];
    [
        "Offset of field: paracord_event::name",
    ][::core::mem::offset_of!(paracord_event, name) - 0usize];
    [
        "Offset of field: paracord_event::min_period",
    ][::core::mem::offset_of!(paracord_event, min_period) - 24usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct paracord_pmu_want {
    pub period: __u64,
    pub event: __u16,
    pub flags: __u16,
    pub elapsed: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of paracord_pmu_want"][::core::mem::size_of::<paracord_pmu_want>() - 16usize];
    [
        "Alignment of paracord_pmu_want",
    ][::core::mem::align_of::<paracord_pmu_want>() - 8usize];
    [
        "Offset of field: paracord_pmu_want::period",
    ][::core::mem::offset_of!(paracord_pmu_want, period) - 0usize];
    [
        "Offset of field: paracord_pmu_want::event",
    ][::core::mem::offset_of!(paracord_pmu_want, event) - 8usize];
    [
        "Offset of field: paracord_pmu_want::flags",
    ][::core::mem::offset_of!(paracord_pmu_want, flags) - 10usize];
    [
        "Offset of field: paracord_pmu_want::elapsed",
    ][::core::mem::offset_of!(paracord_pmu_want, elapsed) - 12usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct paracord_pmu_guest {
    pub asked: __u32,
    pub read: __u32,
    pub guest_reserved: [__u8; 56usize],
    pub want: [paracord_pmu_want; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of paracord_pmu_guest",
    ][::core::mem::size_of::<paracord_pmu_guest>() - 320usize];
    [
        "Alignment of paracord_pmu_guest",
    ][::core::mem::align_of::<paracord_pmu_guest>() - 8usize];
    [
        "Offset of field: paracord_pmu_guest::asked",
    ][::core::mem::offset_of!(paracord_pmu_guest, asked) - 0usize];
    [
        "Offset of field: paracord_pmu_guest::read",
    ][::core::mem::offset_of!(paracord_pmu_guest, read) - 4usize];
    [
        "Offset of field: paracord_pmu_guest::guest_reserved",
    ][::core::mem::offset_of!(paracord_pmu_guest, guest_reserved) - 8usize];
    [
        "Offset of field: paracord_pmu_guest::want",
    ][::core::mem::offset_of!(paracord_pmu_guest, want) - 64usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct paracord_pmu_count {
    pub count: __u64,
    pub enabled_ns: __u64,
    pub running_ns: __u64,
    pub overflows: __u32,
    pub host_reserved: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of paracord_pmu_count",
    ][::core::mem::size_of::<paracord_pmu_count>() - 32usize];
    [
        "Alignment of paracord_pmu_count",
    ][::core::mem::align_of::<paracord_pmu_count>() - 8usize];
    [
        "Offset of field: paracord_pmu_count::count",
    ][::core::mem::offset_of!(paracord_pmu_count, count) - 0usize];
    [
        "Offset of field: paracord_pmu_count::enabled_ns",
    ][::core::mem::offset_of!(paracord_pmu_count, enabled_ns) - 8usize];
    [
        "Offset of field: paracord_pmu_count::running_ns",
    ][::core::mem::offset_of!(paracord_pmu_count, running_ns) - 16usize];
    [
        "Offset of field: paracord_pmu_count::overflows",
    ][::core::mem::offset_of!(paracord_pmu_count, overflows) - 24usize];
    [
        "Offset of field: paracord_pmu_count::host_reserved",
    ][::core::mem::offset_of!(paracord_pmu_count, host_reserved) - 28usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct paracord_pmu_host {
    pub served: __u32,
    pub refused: __u32,
    pub service: __u32,
    pub host_reserved32: __u32,
    pub offered: __u64,
    pub host_reserved: [__u8; 40usize],
    pub counter: [paracord_pmu_count; 16usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of paracord_pmu_host",
    ][::core::mem::size_of::<paracord_pmu_host>() - 576usize];
    [
        "Alignment of paracord_pmu_host",
    ][::core::mem::align_of::<paracord_pmu_host>() - 8usize];
    [
        "Offset of field: paracord_pmu_host::served",
    ][::core::mem::offset_of!(paracord_pmu_host, served) - 0usize];
    [
        "Offset of field: paracord_pmu_host::refused",
    ][::core::mem::offset_of!(paracord_pmu_host, refused) - 4usize];
    [
        "Offset of field: paracord_pmu_host::service",
    ][::core::mem::offset_of!(paracord_pmu_host, service) - 8usize];
    [
        "Offset of field: paracord_pmu_host::host_reserved32",
    ][::core::mem::offset_of!(paracord_pmu_host, host_reserved32) - 12usize];
    [
        "Offset of field: paracord_pmu_host::offered",
    ][::core::mem::offset_of!(paracord_pmu_host, offered) - 16usize];
    [
        "Offset of field: paracord_pmu_host::host_reserved",
    ][::core::mem::offset_of!(paracord_pmu_host, host_reserved) - 24usize];
    [
        "Offset of field: paracord_pmu_host::counter",
    ][::core::mem::offset_of!(paracord_pmu_host, counter) - 64usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct paracord_slot {
    pub guest: paracord_guest_line,
    pub host: paracord_host_line,
    pub pmu: paracord_pmu_guest,
    pub pmu_host: paracord_pmu_host,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of paracord_slot"][::core::mem::size_of::<paracord_slot>() - 1024usize];
    ["Alignment of paracord_slot"][::core::mem::align_of::<paracord_slot>() - 8usize];
    [
        "Offset of field: paracord_slot::guest",
    ][::core::mem::offset_of!(paracord_slot, guest) - 0usize];
    [
        "Offset of field: paracord_slot::host",
    ][::core::mem::offset_of!(paracord_slot, host) - 64usize];
    [
        "Offset of field: paracord_slot::pmu",
    ][::core::mem::offset_of!(paracord_slot, pmu) - 128usize];
    [
        "Offset of field: paracord_slot::pmu_host",
    ][::core::mem::offset_of!(paracord_slot, pmu_host) - 448usize];
};
