/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Replaces libbpf's header of this name when bpf/ is compiled natively. The helpers of bpf(2) are functions of the
 * simulator (crates/sim/src/bpf/helpers.rs), and libbpf's macros have no sections and relocations.
 *
 * A map is a variable whose members are pointers, which describe the map to libbpf's loader. Two members are used
 * here: `value` points to the elements of a machine, and `max_entries` is their number, or NULL. The first access sets
 * both (sim_map_create()), and they are saved with all other globals.
 */
#ifndef PARACORD_SIM_BPF_HELPERS_H
#define PARACORD_SIM_BPF_HELPERS_H

#include "sim_context.h"

#define SEC(name)
#define __uint(name, val)	int (*name)[val]
#define __type(name, val)	__typeof__(val) *name
#define __array(name, val)	__typeof__(val) *value
#define __always_inline		inline __attribute__((always_inline))
#define __noinline		__attribute__((noinline))
#define __arg_trusted
#define __ksym
#define __kptr
#define __weak

/* Which functions and types the kernel has. Set by crates/sim/src/bpf. */
#define bpf_ksym_exists(sym)	(sim_kernel.sym)

#define bpf_for(i, start, end)	for ((i) = (start); (i) < (end); (i)++)

/* Called before every helper, kfunc and atomic operation: another CPU may continue here (races). */
#define sim_point()		do { if (__builtin_expect(sim_context.watched, 0)) sim_at_point(); } while (0)

static inline u64 bpf_ktime_get_ns(void)
{
	sim_point();
	return sim_context.now_ns;
}

static inline u32 bpf_get_smp_processor_id(void)
{
	return sim_context.cpu;
}

static inline struct task_struct *bpf_get_current_task_btf(void)
{
	return sim_context.current;
}

static inline u64 bpf_get_current_task(void)
{
	return (u64)sim_context.current;
}

/* The user ID of root, who has no quota of records. */
static inline u64 bpf_get_current_uid_gid(void)
{
	return 0;
}

/* VMs have no memory slots here, so no address is translated. */
static inline long bpf_find_vma(struct task_struct *task, u64 address, void *callback, void *context, u64 flags)
{
	return -1;
}

static inline long bpf_probe_write_user(void *to, const void *from, u32 bytes)
{
	return -1;
}

long bpf_probe_read_user(void *to, u32 bytes, const void *from);
long bpf_probe_read_kernel(void *to, u32 bytes, const void *from);
long bpf_probe_read_kernel_str(void *to, u32 bytes, const void *from);
long bpf_seq_write(struct seq_file *file, const void *from, u32 bytes);

/* Maps. */
#define sim_map_type(map)	(sizeof(*(map)->type) / sizeof(int))
#define sim_map_entries(map)	(sizeof(*(map)->max_entries) / sizeof(int))

void sim_map_create(void *map, u32 type, u32 entries, u32 value_bytes, void **values, void **count);
void *sim_hash_lookup(void *map, u64 key);
long sim_hash_update(void *map, u64 key, const void *value, u32 value_bytes, u64 flags);
long sim_hash_delete(void *map, u64 key);
long sim_queue_pop(void *map, void *value, u32 value_bytes);
long sim_queue_push(void *map, const void *value, u32 value_bytes);
void *sim_ring_reserve(void *map, u64 bytes);
void sim_ring_submit(void *record);
long sim_ring_output(void *map, const void *data, u64 bytes);
void *sim_task_storage(void *map, struct task_struct *task, u32 bytes, u64 flags);
void *sim_cgroup_storage(void *map, struct cgroup *cgrp, u32 bytes, u64 flags);

/* Keys of hash maps are numbers of four or eight bytes. */
static inline __attribute__((always_inline)) u64 sim_key(const void *key, u32 key_bytes)
{
	return key_bytes == sizeof(u32) ? *(const u32 *)key : *(const u64 *)key;
}

static inline __attribute__((always_inline)) void *
sim_lookup(void *map, u32 type, u32 entries, u32 value_bytes, void **values, void **count, const void *key,
	   u32 key_bytes)
{
	u32 index;

	sim_point();
	if (type == BPF_MAP_TYPE_HASH)
		return sim_hash_lookup(map, sim_key(key, key_bytes));
	if (__builtin_expect(!*values, 0))
		sim_map_create(map, type, entries, value_bytes, values, count);
	index = *(const u32 *)key;
	if (index >= (u64)*count)
		return NULL;
	if (type == BPF_MAP_TYPE_PERCPU_ARRAY)
		index += sim_context.cpu * entries;
	return (char *)*values + (u64)index * value_bytes;
}

/* Errors of the kernel's array_map_update_elem() and array_map_delete_elem(). */
#define SIM_E2BIG	7
#define SIM_EEXIST	17
#define SIM_EINVAL	22
#define SIM_NOEXIST	1	/* BPF_NOEXIST */

/* The elements of an array exist from the beginning. */
static inline __attribute__((always_inline)) long
sim_update(void *map, u32 type, u32 entries, u32 value_bytes, void **values, void **count, const void *key,
	   u32 key_bytes, const void *value, u64 flags)
{
	void *element;

	if (type == BPF_MAP_TYPE_HASH) {
		sim_point();
		return sim_hash_update(map, sim_key(key, key_bytes), value, value_bytes, flags);
	}
	element = sim_lookup(map, type, entries, value_bytes, values, count, key, key_bytes);
	if (!element)
		return -SIM_E2BIG;
	if (flags == SIM_NOEXIST)
		return -SIM_EEXIST;
	__builtin_memcpy(element, value, value_bytes);
	return 0;
}

#define bpf_map_lookup_elem(map, key_at)							\
	((__typeof__((map)->value))sim_lookup(map, sim_map_type(map), sim_map_entries(map),	\
					      sizeof(*(map)->value), (void **)&(map)->value,	\
					      (void **)&(map)->max_entries, key_at,		\
					      sizeof(*(map)->key)))
#define bpf_map_update_elem(map, key_at, val, flags)							\
	sim_update(map, sim_map_type(map), sim_map_entries(map), sizeof(*(map)->value),			\
		   (void **)&(map)->value, (void **)&(map)->max_entries, key_at, sizeof(*(map)->key),	\
		   val, flags)
#define bpf_map_delete_elem(map, key_at)								\
	(sim_point_value(), sim_map_type(map) != BPF_MAP_TYPE_HASH ? -SIM_EINVAL :			\
			    sim_hash_delete(map, sim_key(key_at, sizeof(*(map)->key))))
#define bpf_map_pop_elem(map, val)		(sim_point_value(), sim_queue_pop(map, val, sizeof(*(map)->value)))
#define bpf_map_push_elem(map, val, flags)	(sim_point_value(), sim_queue_push(map, val, sizeof(*(map)->value)))
#define bpf_ringbuf_reserve(map, bytes, flags)	(sim_point_value(), sim_ring_reserve(map, bytes))
#define bpf_ringbuf_submit(record, flags)	(sim_point_value(), sim_ring_submit(record))
#define bpf_ringbuf_output(map, data, bytes, flags) (sim_point_value(), sim_ring_output(map, data, bytes))
#define bpf_task_storage_get(map, task, init, flags) \
	((__typeof__((map)->value))sim_task_storage_get(map, task, sizeof(*(map)->value), flags))
#define bpf_task_storage_delete(map, task)	sim_task_storage_delete(task)
#define bpf_cgrp_storage_get(map, cgrp, init, flags) \
	((__typeof__((map)->value))sim_cgroup_storage(map, cgrp, sizeof(*(map)->value), flags))

static inline __attribute__((always_inline)) int sim_point_value(void)
{
	sim_point();
	return 0;
}

/* There is one map of this kind. Its records are attached to their tasks. */
static inline __attribute__((always_inline)) void *
sim_task_storage_get(void *map, struct task_struct *task, u32 bytes, u64 flags)
{
	sim_point();
	if (!task)
		return NULL;
	if (task->bpf_storage)
		return task->bpf_storage;
	return flags ? sim_task_storage(map, task, bytes, flags) : NULL;
}

static inline long sim_task_storage_delete(struct task_struct *task)
{
	sim_point();
	task->bpf_storage = NULL;
	return 0;
}

/* A pointer in a map, to an object that programs have made. */
#define bpf_kptr_xchg(at, made) \
	({ __typeof__(*(at)) before_ = *(at); *(at) = (made); before_; })

/* Timers. */
long bpf_timer_init(struct bpf_timer *timer, void *map, u64 flags);
long sim_timer_set_callback(struct bpf_timer *timer, void *callback);
long bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags);
#define bpf_timer_set_callback(timer, callback)	sim_timer_set_callback(timer, (void *)(callback))

/* Per-CPU variables of the kernel: one value for all CPUs. BPF programs write none of them. */
#define bpf_per_cpu_ptr(variable, cpu)		(variable)

/* Atomic operations. Before each of them, another CPU may continue. clang does not trace them, so these macros do. */
#ifdef SIM_TRACED
void sim_at_atomic(const void *p);
#else
static inline void sim_at_atomic(const void *p)
{
}
#endif
#define sim_atomic(p)				(sim_point_value(), sim_at_atomic((const void *)(p)))
#define __sync_fetch_and_add(p, v)		(sim_atomic(p), __sync_fetch_and_add(p, v))
#define __sync_fetch_and_or(p, v)		(sim_atomic(p), __sync_fetch_and_or(p, v))
#define __sync_val_compare_and_swap(p, o, n)	(sim_atomic(p), __sync_val_compare_and_swap(p, o, n))
#define __sync_lock_test_and_set(p, v)		(sim_atomic(p), __sync_lock_test_and_set(p, v))

#endif
