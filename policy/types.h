/* SPDX-License-Identifier: GPL-2.0-only */
/* Integer types for the three builds of policy/: BPF, native C and bindgen. */
#ifndef PARACORD_POLICY_TYPES_H
#define PARACORD_POLICY_TYPES_H
#ifndef PARACORD_HAVE_KERNEL_TYPES	/* BPF includes kernel_types.h or vmlinux.h first */
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
#endif

/*
 * Each macro makes one access of the variable's full width, as in the kernel. The compiler neither splits nor repeats this
 * access.
 */
#define READ_ONCE(x)		(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value)	(*(volatile __typeof__(x) *)&(x) = (value))
#endif
