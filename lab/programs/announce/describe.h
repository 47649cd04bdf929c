/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/* The header of a region in the guest's own memory, as an honest guest would write it: for modules and programs. */
#ifndef PC_DESCRIBE_H
#define PC_DESCRIBE_H

#include "paracord_abi.h"

/* Describes a region with host lines and with room for all domains. The memory at `h` must be zero. */
static inline void describe_region(struct paracord_header *h, __u32 slots, __u32 stride)
{
	h->magic = PARACORD_MAGIC;
	h->abi_major = PARACORD_ABI_MAJOR;
	h->abi_minor = PARACORD_ABI_MINOR;
	h->header_bytes = PARACORD_HEADER_BYTES;
	h->slot_offset_bytes = PARACORD_SLOT_OFFSET_BYTES;
	h->slot_stride_bytes = stride;
	h->slot_count = slots;
	h->region_bytes = PARACORD_SLOT_OFFSET_BYTES + (__u64)slots * stride;
	h->host_features = PARACORD_ANNOUNCED_FEATURES;
	h->host_line_bytes = sizeof(struct paracord_host_line);
	h->domain_offset_bytes = PARACORD_DOMAIN_OFFSET_BYTES;
	h->domain_count = PARACORD_DOMAINS_MAX;
	h->domain_stride_bytes = PARACORD_DOMAIN_STRIDE_BYTES;
}

/* Declares a driver to the host. */
static inline void declare_driver(struct paracord_header *h, __u32 features)
{
	h->guest_features = features;
	h->guest_abi_major = PARACORD_ABI_MAJOR;
	h->guest_abi_minor = PARACORD_ABI_MINOR;
	h->guest_line_bytes = sizeof(struct paracord_guest_line);
}

#endif
