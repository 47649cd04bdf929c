// SPDX-License-Identifier: GPL-2.0-only
//! The helpers of bpf(2) that programs call (include/uapi/linux/bpf.h), as native/include/bpf/bpf_helpers.h
//! declares them.

use std::{
    ffi::{c_char, c_void},
    ptr,
};

use super::{
    lend::{lent, point},
    maps::Timer,
    native,
    objects::{GroupSlot, STORAGE_BYTES, TaskStruct},
};

/// A helper's error that programs only test for.
const FAILED: i64 = -1;
/// Values of hash maps are numbers.
const HASH_VALUE_BYTES: usize = 8;
/// `BPF_NOEXIST`.
const NOEXIST: u64 = 1;
/// `BPF_MAP_TYPE_PERCPU_ARRAY`.
const PERCPU_ARRAY: u32 = 6;

#[unsafe(no_mangle)]
extern "C" fn sim_at_point() {
    lent().at_point();
}

/// Memory of the VMM. A guest's line lies in the machine's memory; 0 is not mapped.
#[unsafe(no_mangle)]
unsafe extern "C" fn bpf_probe_read_user(to: *mut u8, bytes: u32, from: *const u8) -> i64 {
    // SAFETY: the caller's.
    unsafe { bpf_probe_read_kernel(to, bytes, from) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bpf_probe_read_kernel(to: *mut u8, bytes: u32, from: *const u8) -> i64 {
    point();
    if from.is_null() {
        // SAFETY: the program's buffer.
        unsafe { to.write_bytes(0, bytes as usize) };
        return FAILED;
    }
    // SAFETY: addresses come from kernel objects and from `Native::shared_page`.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes as usize) };
    0
}

/// The length counts the NUL, as the kernel's.
#[unsafe(no_mangle)]
unsafe extern "C" fn bpf_probe_read_kernel_str(
    to: *mut c_char,
    bytes: u32,
    from: *const c_char,
) -> i64 {
    point();
    if bytes == 0 {
        return FAILED;
    }
    if from.is_null() {
        // SAFETY: the program's buffer.
        unsafe { to.write_bytes(0, bytes as usize) };
        return FAILED;
    }
    let mut length = 0;
    while length + 1 < bytes as usize {
        let at = from.wrapping_add(length);
        // SAFETY: up to the string's end, or the buffer's.
        let character = unsafe { at.read() };
        let copy = to.wrapping_add(length);
        // SAFETY: below `bytes`.
        unsafe { copy.write(character) };
        if character == 0 {
            return length as i64 + 1;
        }
        length += 1;
    }
    let end = to.wrapping_add(length);
    // SAFETY: the last byte.
    unsafe { end.write(0) };
    bytes.into()
}

/// Nobody reads from the iterator over tasks here.
#[unsafe(no_mangle)]
extern "C" fn bpf_seq_write(_file: *const c_void, _from: *const c_void, _bytes: u32) -> i64 {
    FAILED
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sim_map_create(
    _map: *mut c_void,
    kind: u32,
    entries: u32,
    value_bytes: u32,
    values: *mut *mut u8,
    count: *mut usize,
) {
    let native = lent().native();
    let copies = if kind == PERCPU_ARRAY { native.maps.cpus } else { 1 };
    let bytes = entries as usize * value_bytes as usize * copies;
    let memory = native.allocate(bytes, 4096).expect("memory for a BPF map");
    // SAFETY: the map's own members.
    unsafe { values.write(memory.as_ptr()) };
    // SAFETY: as above.
    unsafe { count.write(entries as usize) };
}

#[unsafe(no_mangle)]
extern "C" fn sim_hash_lookup(map: *mut c_void, key: u64) -> *mut u8 {
    let found = lent().native().maps.lookup(map as usize, key);
    found.map_or(ptr::null_mut(), |value| value.as_ptr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sim_hash_update(
    map: *mut c_void,
    key: u64,
    value: *const u8,
    value_bytes: u32,
    flags: u64,
) -> i64 {
    assert!(
        value_bytes as usize <= HASH_VALUE_BYTES,
        "a value that the simulator's hash maps do not hold"
    );
    let native = lent().native();
    let found = native.maps.lookup(map as usize, key);
    if found.is_some() && flags == NOEXIST {
        return FAILED;
    }
    let place = match found.or_else(|| native.maps.free_value()) {
        Some(place) => Some(place),
        None => native.allocate(HASH_VALUE_BYTES, HASH_VALUE_BYTES),
    };
    let Some(place) = place else { return FAILED };
    native.maps.insert(map as usize, key, place);
    // SAFETY: room for one value, which the program gives.
    unsafe { ptr::copy_nonoverlapping(value, place.as_ptr(), value_bytes as usize) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn sim_hash_delete(map: *mut c_void, key: u64) -> i64 {
    if lent().native().maps.delete(map as usize, key) { 0 } else { FAILED }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sim_queue_pop(map: *mut c_void, value: *mut u32, value_bytes: u32) -> i64 {
    // SAFETY: an address.
    let known = unsafe { native::sim_free_indices() };
    assert!(ptr::eq(map, known) && value_bytes == 4, "a queue that the simulator does not know");
    match lent().native().maps.pop_index() {
        Some(index) => {
            // SAFETY: the program's variable.
            unsafe { value.write(index) };
            0
        }
        None => FAILED,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sim_queue_push(map: *mut c_void, value: *const u32, value_bytes: u32) -> i64 {
    // SAFETY: an address.
    let known = unsafe { native::sim_free_indices() };
    assert!(ptr::eq(map, known) && value_bytes == 4, "a queue that the simulator does not know");
    // SAFETY: the program's variable.
    lent().native().maps.offer(unsafe { value.read() });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sim_ring_reserve(map: *mut c_void, bytes: u64) -> *mut c_void {
    // SAFETY: an address.
    let known = unsafe { native::sim_messages() };
    assert!(
        ptr::eq(map, known) && bytes as usize == size_of::<paracord_policy::pc_msg>(),
        "a ring that the simulator does not know"
    );
    let record = lent().native().maps.messages.reserve();
    record.map_or(ptr::null_mut(), |record| record.as_ptr().cast())
}

#[unsafe(no_mangle)]
extern "C" fn sim_ring_submit(record: *mut c_void) {
    lent().native().maps.messages.submit(record.cast());
}

/// Bells: no worker serves guests' counters here.
#[unsafe(no_mangle)]
extern "C" fn sim_ring_output(_map: *mut c_void, _data: *const c_void, _bytes: u64) -> i64 {
    FAILED
}

#[unsafe(no_mangle)]
extern "C" fn sim_task_storage(
    _map: *mut c_void,
    task: *const TaskStruct,
    bytes: u32,
    _flags: u64,
) -> *mut u8 {
    assert!(bytes as usize <= STORAGE_BYTES, "a task's record has outgrown STORAGE_BYTES");
    lent().native().make_task_storage(task)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sim_cgroup_storage(
    _map: *mut c_void,
    group: *const GroupSlot,
    bytes: u32,
    flags: u64,
) -> *mut u8 {
    point();
    assert!(bytes as usize <= STORAGE_BYTES, "a group's record has outgrown STORAGE_BYTES");
    // SAFETY: programs have groups' pointers from the kernel alone.
    let slot = unsafe { &*group };
    if slot.has_storage.get() == 0 {
        if flags == 0 {
            return ptr::null_mut();
        }
        slot.storage.set([0; STORAGE_BYTES]);
        slot.has_storage.set(1);
    }
    slot.storage.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn bpf_timer_init(timer: *mut c_void, map: *mut c_void, _flags: u64) -> i64 {
    point();
    let timers = &mut lent().native().maps.timers;
    if timers.iter().any(|known| known.timer == timer) {
        return FAILED;
    }
    timers.push(Timer { timer, map, callback: None, seq: 0 });
    0
}

#[unsafe(no_mangle)]
extern "C" fn sim_timer_set_callback(timer: *mut c_void, callback: *const c_void) -> i64 {
    point();
    let timers = &mut lent().native().maps.timers;
    match timers.iter_mut().find(|known| known.timer == timer) {
        Some(known) => {
            // SAFETY: bpf_timer_set_callback() is given functions of this signature, or none.
            known.callback = unsafe {
                std::mem::transmute::<
                    *const c_void,
                    Option<unsafe extern "C" fn(*mut c_void, *mut u32, *mut c_void) -> i32>,
                >(callback)
            };
            0
        }
        None => FAILED,
    }
}

#[unsafe(no_mangle)]
extern "C" fn bpf_timer_start(timer: *mut c_void, after_ns: u64, _flags: u64) -> i64 {
    point();
    let kernel = lent();
    let timers = &mut kernel.native().maps.timers;
    match timers.iter().position(|known| known.timer == timer) {
        Some(index) => {
            // hrtimer_start() of one that is pending moves it.
            timers[index].seq += 1;
            let seq = timers[index].seq;
            kernel.timer_start(index, seq, after_ns);
            0
        }
        None => FAILED,
    }
}

/// Operations are never preempted here.
#[unsafe(no_mangle)]
extern "C" fn bpf_preempt_disable() {}

#[unsafe(no_mangle)]
extern "C" fn bpf_preempt_enable() {}

/// Nothing is freed while a program runs.
#[unsafe(no_mangle)]
extern "C" fn bpf_rcu_read_lock() {}

#[unsafe(no_mangle)]
extern "C" fn bpf_rcu_read_unlock() {}
