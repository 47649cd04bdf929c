/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef JUNO_R2_SPEED_H
#define JUNO_R2_SPEED_H

#include <linux/types.h>

int board_speed_start(void);
void board_speed_stop(void);

/* 0..1024; in any context. */
void board_speed_set(int cpu, u32 speed);

#endif
