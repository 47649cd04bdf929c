/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR BSD-3-Clause */
/*
 * How fast a board's CPUs would be: a page that the board's driver writes. A program's CPU time counts at that rate, so that
 * work takes as long as it would on the board (an emulated CPU is as fast at any frequency).
 *
 * /dev/board_speed, mapped, is the page of the CPUs. A page of another process' threads is kept by the same driver for whoever
 * writes struct board_speed_threads to that file, as long as it stays open: for vCPUs, whose guest maps the page as
 * the memory of a device.
 */
#ifndef BOARD_SPEED_H
#define BOARD_SPEED_H

#include <linux/types.h>

#define BOARD_SPEED_MAGIC	0x4445455053445242ULL
#define BOARD_SPEED_ENTRIES	64
#define BOARD_FULL_SPEED	1024

struct board_speed_page {
	__u64 magic;				/* BOARD_SPEED_MAGIC */
	__u32 speed[BOARD_SPEED_ENTRIES];	/* by CPU or thread: 0..1024, 1024: the fastest at its highest frequency */
	__u32 cpu[BOARD_SPEED_ENTRIES];		/* that it is */
};

struct board_speed_threads {
	__u64 page;				/* address in the writer, of a whole page of shared memory */
	__u32 count;				/* 1..BOARD_SPEED_ENTRIES */
	__u32 tids[BOARD_SPEED_ENTRIES];
};

#endif
