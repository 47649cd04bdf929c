// SPDX-License-Identifier: GPL-2.0-only
//! Takes a [`Snapshot`] from the sensor's memory and the actuator's counters.

use paracord_abi::layout::PARACORD_ABI_MAJOR;
use paracord_abi::{HostPlace, feature_names};
use paracord_policy::{
    PC_GROUP_DEPTH_MAX, PC_GROUPS_MAX, PC_IO_THREADS, PC_THROTTLE_CPU, PC_THROTTLE_REASON,
    PC_THROTTLE_VCPU, PC_THROTTLE_VM, PC_VCPUS, PC_VCPUS_MAX, pc_boost_state, pc_vcpu_counters,
};
use paracord_sensor::{
    AnnouncementCounts, HostLineCounts, Refusals, Sensor, Vcpu, scheduler::Unrecorded,
};
use paracord_sys::clock::{NS_PER_US, now_ns};

use crate::boosts::actuator::ActuatorStats;
use crate::followers::Followers;
use crate::place::Places;
use crate::regions::announced;
use crate::settings::{Mode, Reason, Settings};
use crate::snapshot::{
    ActuatorSnapshot, AnnouncementsSnapshot, BoostState, Capability, Histogram, HostLinesSnapshot,
    HostPlaceSnapshot, IoThreadSnapshot, IoTotals, RegionSnapshot, RequestSnapshot,
    SNAPSHOT_SCHEMA, Snapshot, VcpuCounters, VcpuSnapshot, VmSnapshot,
};
use crate::vms::io_threads::IoThread;
use crate::vms::{Vm, Vms};

/// State that does not change while the daemon runs.
#[derive(Clone, Debug)]
pub struct Constants {
    /// Start of the daemon, CLOCK_MONOTONIC.
    pub started_ns: u64,
    /// Capabilities of the host.
    pub capabilities: Vec<Capability>,
}

/// The parts of the daemon that a snapshot describes.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub settings: &'a Settings,
    pub vms: &'a Vms,
    pub followers: &'a Followers,
    pub places: &'a Places,
    pub sensor: &'a Sensor,
    pub stats: &'a ActuatorStats,
}

/// Takes a snapshot of the whole daemon.
pub(crate) fn snapshot(constants: &Constants, parts: Parts<'_>) -> Snapshot {
    let Parts { settings, vms, sensor, stats, .. } = parts;
    let vms_now: Vec<VmSnapshot> = vms.iter().map(|vm| vm_snapshot(vm, parts)).collect();
    let mut actuator = stats.snapshot();
    add_unreported(&mut actuator, vms, sensor);
    let observing = vms_now.iter().filter(|vm| vm.mode == Mode::Observe);
    let groups = sensor.unrecorded();
    actuator.observed =
        observing.flat_map(|vm| &vm.vcpus).flat_map(|vcpu| vcpu.counters.boosts).sum();
    Snapshot {
        schema: SNAPSHOT_SCHEMA,
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        taken_ns: now_ns(),
        started_ns: constants.started_ns,
        mode: settings.mode,
        conditions: conditions(parts, &vms_now),
        vcpus_refused: refused(sensor),
        vms_refused: vms.refused(),
        groups_unrecorded: u64::from(groups.full) + u64::from(groups.deep),
        capabilities: constants.capabilities.clone(),
        actuator,
        vms: vms_now,
    }
}

/// Adds the boosts by paracord's scheduler of which no message has told the actuator.
fn add_unreported(actuator: &mut ActuatorSnapshot, vms: &Vms, sensor: &Sensor) {
    let (boosts, unboosts) = sensor.unreported();
    let vcpus = vms.iter().flat_map(|vm| vm.vcpus.keys().copied());
    let threads = vcpus.chain(vms.io_indices()).filter_map(|index| sensor.vcpus().get(index));
    actuator.boosted_now += threads.filter(Vcpu::boosted_unreported).count() as u32;
    actuator.boosts += boosts;
    actuator.unboosts += unboosts;
}

fn refused(sensor: &Sensor) -> u64 {
    let Refusals { of_users, full } = sensor.refusals();
    of_users + full
}

/// Describes in one line the vCPU threads that got no record; `None` if there are none. The threads
/// are counted since the start of the daemon. The sensor does not check a thread a second time, so
/// it is not known which of these threads still run.
pub fn refusals(refused: Refusals) -> Option<String> {
    let parts = counted([
        (refused.of_users, "their user had all that vcpus_per_user allows".to_owned()),
        (refused.full, format!("{PC_VCPUS_MAX} ran already")),
    ])?;
    Some(format!("vCPU threads left to stock scheduling so far, each until it ends: {parts}"))
}

/// Formats each count that is not 0, with its reason. `None` if all counts are 0.
fn counted(all: [(u64, String); 2]) -> Option<String> {
    let parts = all.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, why)| format!("{count}, as {why}")).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Describes in one line the control groups for which paracord's scheduler has no record; `None` if
/// there are none.
pub fn unrecorded(groups: Unrecorded) -> Option<String> {
    let parts = counted([
        (groups.full.into(), format!("{} others have records", PC_GROUPS_MAX - 1)),
        (groups.deep.into(), format!("they lie more than {PC_GROUP_DEPTH_MAX} levels deep")),
    ])?;
    Some(format!(
        "control groups whose own weight, quota and cpu.idle have no effect, so that their tasks count as the next group's above: {parts}"
    ))
}

fn conditions(parts: Parts<'_>, vms_now: &[VmSnapshot]) -> Vec<String> {
    let Parts { settings, vms, followers, sensor, stats, .. } = parts;
    let mut conditions = Vec::new();
    conditions.extend(refusals(sensor.refusals()));
    conditions.extend(unrecorded(sensor.unrecorded()));
    conditions.extend(vms.refused_line(settings));
    conditions.extend(followers.counters_lacking());
    conditions.extend(left_out(vms_now));
    if let (errors @ 1.., errno) = stats.errors() {
        let last = std::io::Error::from_raw_os_error(errno);
        conditions.push(format!("{errors} changes of threads failed, the last one: {last}"));
    }
    if stats.lacks_clamps() {
        conditions.push(
            "this kernel has no utilisation clamps (CONFIG_UCLAMP_TASK): what guests ask for has no effect with actuator rt"
                .into(),
        );
    }
    conditions
}

fn vm_snapshot(vm: &Vm, parts: Parts<'_>) -> VmSnapshot {
    let Parts { vms, followers, places, sensor, stats, .. } = parts;
    let vcpu = |(&index, &vcpu_id): (&u32, &u32)| {
        let snapshot = vcpu_snapshot(index, vcpu_id, sensor, stats)?;
        let place = followers.place_of(index).map(place_snapshot);
        let (cpu_quota, not_boosted) = followers.quota_of(vm, index);
        let placement = places.snapshot(index);
        Some(VcpuSnapshot { place, placement, cpu_quota, not_boosted, ..snapshot })
    };
    let mut vcpus: Vec<VcpuSnapshot> = vm.vcpus.iter().filter_map(vcpu).collect();
    vcpus.sort_by_key(|vcpu| vcpu.vcpu_id);
    let io = vms.io_of(vm).filter_map(|(index, thread)| {
        let not_boosted = !vm.config.io || followers.quota_of(vm, index).1;
        Some(IoThreadSnapshot { not_boosted, ..io_snapshot(index, thread, sensor)? })
    });
    let mut io_threads: Vec<IoThreadSnapshot> = io.collect();
    io_threads.sort_by_key(|thread| thread.tid);
    let record = sensor.vms().get(vm.index);
    let left_of = |threads| record.as_ref().map_or(0, |record| record.budget(threads).left_ns);
    let io_total = io_threads.iter().map(|thread| thread.did).fold(vm.io_gone, IoTotals::plus);
    VmSnapshot {
        name: vm.identity.name.clone(),
        uuid: vm.identity.uuid.clone(),
        pid: vm.identity.pid,
        vmm: vm.identity.vmm.clone(),
        uid: vm.identity.uid,
        mode: vm.config.mode,
        region: region_snapshot(vm, sensor),
        announcements: announcements(vm.index, sensor),
        region_refused: vm.region_refused.clone(),
        place_refused: places.refused((vm.identity.pid, vm.identity.start_ticks)),
        not_boosted: followers.not_boosted(vm),
        pmu: followers.pmu_of(vm),
        vcpus,
        io_threads,
        io_total,
        budget_left_ns: left_of(PC_VCPUS),
        budget_ns: vm.config.vm_budget_us.saturating_mul(NS_PER_US),
        io_budget_left_ns: left_of(PC_IO_THREADS),
        io_budget_ns: vm.config.io_budget_us.saturating_mul(NS_PER_US),
        period_ns: vm.config.period_us.saturating_mul(NS_PER_US),
    }
}

fn region_snapshot(vm: &Vm, sensor: &Sensor) -> Option<RegionSnapshot> {
    let mapped = vm.region.as_ref().map(|region| (region.name.as_str(), &region.layout));
    let announced = vm.announced.as_ref().map(|region| (announced::NAME, &region.layout));
    let (name, layout) = mapped.or(announced)?;
    let (slow_accesses, left_out_ns) = vm.region.as_ref().map_or((0, 0), |region| region.slow_io());
    Some(RegionSnapshot {
        name: name.to_owned(),
        slots: layout.slot_count,
        bytes: layout.region_bytes,
        guest_abi: vm.driver.map(|d| format!("{PARACORD_ABI_MAJOR}.{}", d.abi_minor)),
        features: feature_names(vm.driver.map_or(0, |driver| driver.features))
            .into_iter()
            .map(str::to_owned)
            .collect(),
        slow_accesses,
        left_out_ns,
        host_lines: vm.has_host_line_in_memory().then(|| host_lines(vm, sensor)),
    })
}

fn host_lines(vm: &Vm, sensor: &Sensor) -> HostLinesSnapshot {
    let vcpus = vm.vcpus.keys().filter_map(|&index| sensor.vcpus().get(index));
    let mut sum = HostLinesSnapshot::default();
    for HostLineCounts { writes, write_errors, changed } in vcpus.map(|v| v.host_line_counts()) {
        sum.writes += writes;
        sum.errors += write_errors;
        sum.left_alone += changed;
    }
    sum
}

fn announcements(vm: u32, sensor: &Sensor) -> AnnouncementsSnapshot {
    let AnnouncementCounts { all, ignored, unreadable } = sensor.announcements().counts(vm);
    AnnouncementsSnapshot { all, ignored, unreadable }
}

/// Describes in one line the VMs with a region to which accesses are paused now; `None` if there
/// are none.
fn left_out(vms: &[VmSnapshot]) -> Option<String> {
    let of = |vm: &VmSnapshot| vm.region.as_ref().is_some_and(|region| region.left_out_ns > 0);
    let names: Vec<&str> = vms.iter().filter(|vm| of(vm)).map(|vm| vm.name.as_str()).collect();
    let (first, rest) = names.split_first()?;
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    Some(format!(
        "regions left out for a while, because accesses to them waited for memory: {first}{more}"
    ))
}

fn vcpu_snapshot(
    index: u32,
    vcpu_id: u32,
    sensor: &Sensor,
    stats: &ActuatorStats,
) -> Option<VcpuSnapshot> {
    let vcpu = sensor.vcpus().get(index)?;
    let (state, counters) = (vcpu.state(), vcpu.counters());
    let histogram = |buckets: &[u64]| Histogram { buckets: buckets.to_vec() };
    Some(VcpuSnapshot {
        vcpu_id,
        tid: vcpu.tid(),
        cpu: vcpu.cpu(),
        running: vcpu.on_cpu(),
        state: boost_state(&state),
        reasons: Reason::from_mask(if state.boosted != 0 { state.reasons } else { 0 }),
        actuated: stats.is_actuated(index) || vcpu.boosted_unreported(),
        throttle_cause: throttle_cause(&state),
        throttled_until_ns: if state.throttled != 0 { state.throttled_until_ns } else { 0 },
        strikes: state.strikes,
        budget_left_ns: state.vcpu.left_ns,
        request: vcpu.guest_request().map(|(request, limit)| RequestSnapshot { request, limit }),
        place: None,
        placement: None,
        cpu_quota: None,
        not_boosted: false,
        counters: vcpu_counters(&counters),
        wakeup_latency_unboosted: histogram(&counters.wakeup_latency[0]),
        wakeup_latency_boosted: histogram(&counters.wakeup_latency[1]),
    })
}

fn io_snapshot(index: u32, thread: &IoThread, sensor: &Sensor) -> Option<IoThreadSnapshot> {
    let record = sensor.vcpus().get(index)?;
    let (state, counters) = (record.state(), record.counters());
    let histogram = |buckets: &[u64]| Histogram { buckets: buckets.to_vec() };
    Some(IoThreadSnapshot {
        name: thread.name.clone(),
        tid: thread.tid,
        cpu: record.cpu(),
        running: record.on_cpu(),
        state: boost_state(&state),
        not_boosted: false,
        throttle_cause: throttle_cause(&state),
        wakeups: counters.wakeups,
        did: IoTotals::of(&counters),
        wakeup_latency_unboosted: histogram(&counters.wakeup_latency[0]),
        wakeup_latency_boosted: histogram(&counters.wakeup_latency[1]),
    })
}

fn boost_state(state: &pc_boost_state) -> BoostState {
    match (state.boosted != 0, state.throttled != 0) {
        (true, _) => BoostState::Boosted,
        (false, true) => BoostState::Throttled,
        (false, false) => BoostState::Off,
    }
}

fn place_snapshot(place: HostPlace) -> HostPlaceSnapshot {
    HostPlaceSnapshot {
        capacity: place.capacity,
        frequency: place.frequency,
        cluster: Some(place.cluster).filter(|cluster| *cluster != u32::MAX),
        domain: place.domain,
    }
}

fn throttle_cause(state: &pc_boost_state) -> Option<String> {
    let name = match u32::from(state.throttle_cause) {
        _ if state.throttled == 0 => return None,
        PC_THROTTLE_REASON => "reason",
        PC_THROTTLE_VCPU => "vcpu",
        PC_THROTTLE_VM => "vm",
        PC_THROTTLE_CPU => "cpu",
        _ => return None,
    };
    Some(name.into())
}

fn vcpu_counters(c: &pc_vcpu_counters) -> VcpuCounters {
    VcpuCounters {
        exits: c.exits,
        wakeups: c.wakeups,
        irqs: c.irqs,
        boosts: c.boosts,
        unboosts: c.unboosts,
        forced: c.forced,
        throttles: c.throttles,
        boosted_ns: c.boosted_ns,
        running_ns: c.running_ns,
        guest_read_errors: c.guest_read_errors,
        actuations_dropped: c.actuations_dropped,
        requests: c.requests,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_from_the_start_on_is_not_told_as_if_it_were_so_now() {
        assert_eq!(refusals(Refusals::default()), None);
        let line = refusals(Refusals { of_users: 2, full: 1 }).unwrap();
        let want = "vCPU threads left to stock scheduling so far, each until it ends: 2, as their user had all that vcpus_per_user allows; 1, as 4096 ran already";
        assert_eq!(line, want);
    }

    #[test]
    fn groups_without_a_record_are_told_with_the_reason() {
        assert_eq!(unrecorded(Unrecorded::default()), None);
        let line = unrecorded(Unrecorded { full: 3, deep: 0 }).unwrap();
        assert!(line.ends_with("above: 3, as 8191 others have records"), "{line}");
        let line = unrecorded(Unrecorded { full: 0, deep: 1 }).unwrap();
        assert!(line.ends_with("above: 1, as they lie more than 32 levels deep"), "{line}");
    }

    #[test]
    fn regions_that_are_left_out_are_told_with_their_vm() {
        let vm = |name: &str, left_out_ns| VmSnapshot {
            name: name.into(),
            region: Some(RegionSnapshot { left_out_ns, ..RegionSnapshot::default() }),
            ..VmSnapshot::default()
        };
        assert_eq!(left_out(&[VmSnapshot::default(), vm("web", 0)]), None);
        let line = left_out(&[vm("web", 0), vm("db", 1), vm("mail", 1)]).unwrap();
        assert!(line.ends_with("waited for memory: db and 1 more"), "{line}");
    }
}
