// SPDX-License-Identifier: GPL-2.0-only
//! The helpers of bpf(2) that programs call (include/uapi/linux/bpf.h), as declared in
//! native/include/bpf/bpf_helpers.h.

use std::{
    ffi::{c_char, c_ulong, c_void},
    ptr,
};

use super::{
    lend::{lent, point},
    maps::Timer,
    native,
    objects::{GroupSlot, STORAGE_BYTES, TaskStruct},
};

/// The error of a helper whose callers only test for failure.
const FAILED: i64 = -1;
/// The values of hash maps are 64-bit numbers.
const HASH_VALUE_BYTES: usize = 8;
/// `BPF_NOEXIST`.
const NOEXIST: u64 = 1;
/// `BPF_MAP_TYPE_PERCPU_ARRAY`.
const PERCPU_ARRAY: u32 = 6;

#[unsafe(no_mangle)]
extern "C" fn sim_at_point() {
    lent().at_point();
}

/// Reads memory of the VMM. A guest's line is in the machine's memory, and address 0 is not mapped.
#[unsafe(no_mangle)]
unsafe extern "C" fn bpf_probe_read_user(to: *mut u8, bytes: u32, from: *const u8) -> i64 {
    // SAFETY: the caller guarantees the same as for `bpf_probe_read_kernel()`.
    unsafe { bpf_probe_read_kernel(to, bytes, from) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bpf_probe_read_kernel(to: *mut u8, bytes: u32, from: *const u8) -> i64 {
    point();
    if from.is_null() {
        // SAFETY: `to` is the program's buffer, which has this many bytes.
        unsafe { to.write_bytes(0, bytes as usize) };
        return FAILED;
    }
    // SAFETY: `from` points into a kernel object or comes from `Native::shared_page`.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes as usize) };
    0
}

/// As in the kernel, the length includes the NUL.
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
        // SAFETY: `to` is the program's buffer, which has this many bytes.
        unsafe { to.write_bytes(0, bytes as usize) };
        return FAILED;
    }
    let mut length = 0;
    while length + 1 < bytes as usize {
        let at = from.wrapping_add(length);
        // SAFETY: the loop does not read beyond the end of the string or of the buffer.
        let character = unsafe { at.read() };
        let copy = to.wrapping_add(length);
        // SAFETY: the index is below `bytes`.
        unsafe { copy.write(character) };
        if character == 0 {
            return length as i64 + 1;
        }
        length += 1;
    }
    let end = to.wrapping_add(length);
    // SAFETY: this is the last byte of the buffer.
    unsafe { end.write(0) };
    bytes.into()
}

/// Does nothing, because the simulator has no reader of the iterator over tasks.
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
    // SAFETY: the pointer is to a member of the map.
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
    // SAFETY: the program's value has `value_bytes` bytes, and the place has room for one value.
    unsafe { ptr::copy_nonoverlapping(value, place.as_ptr(), value_bytes as usize) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn sim_hash_delete(map: *mut c_void, key: u64) -> i64 {
    if lent().native().maps.delete(map as usize, key) { 0 } else { FAILED }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sim_queue_pop(map: *mut c_void, value: *mut u32, value_bytes: u32) -> i64 {
    // SAFETY: the function only returns an address.
    let known = unsafe { native::sim_free_indices() };
    assert!(ptr::eq(map, known) && value_bytes == 4, "a queue that the simulator does not know");
    match lent().native().maps.pop_index() {
        Some(index) => {
            // SAFETY: `value` points to the program's variable.
            unsafe { value.write(index) };
            0
        }
        None => FAILED,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sim_queue_push(map: *mut c_void, value: *const u32, value_bytes: u32) -> i64 {
    // SAFETY: the function only returns an address.
    let known = unsafe { native::sim_free_indices() };
    assert!(ptr::eq(map, known) && value_bytes == 4, "a queue that the simulator does not know");
    // SAFETY: `value` points to the program's variable.
    lent().native().maps.offer(unsafe { value.read() });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sim_ring_reserve(map: *mut c_void, bytes: u64) -> *mut c_void {
    // SAFETY: the function only returns an address.
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

/// Rings a bell. Does nothing, because no worker serves guests' counters in the simulator.
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
    // SAFETY: programs get pointers to groups only from the kernel.
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
            // SAFETY: programs call bpf_timer_set_callback() with a function of this signature, or
            // with null.
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
            // Like hrtimer_start(), this moves a timer that is pending.
            timers[index].seq += 1;
            let seq = timers[index].seq;
            kernel.timer_start(index, seq, after_ns);
            0
        }
        None => FAILED,
    }
}

/// Does nothing, because operations are not preempted in the simulator.
#[unsafe(no_mangle)]
extern "C" fn bpf_preempt_disable() {}

#[unsafe(no_mangle)]
extern "C" fn bpf_preempt_enable() {}

/// Does nothing, because the simulator has no interrupts.
#[unsafe(no_mangle)]
extern "C" fn bpf_local_irq_save(_flags: *mut c_ulong) {}

#[unsafe(no_mangle)]
extern "C" fn bpf_local_irq_restore(_flags: *mut c_ulong) {}

/// Does nothing, because nothing is freed while a program runs.
#[unsafe(no_mangle)]
extern "C" fn bpf_rcu_read_lock() {}

#[unsafe(no_mangle)]
extern "C" fn bpf_rcu_read_unlock() {}
