/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/* A fixed amount of work that neither memory nor the compiler can shorten. */
#ifndef LAB_WORK_H
#define LAB_WORK_H

#include <stdint.h>

/* One chain of dependent multiplications: the same cycles for each loop. */
static __attribute__((noinline)) void work(uint64_t loops)
{
	uint64_t x = loops;

	while (loops--) {
		x *= 6364136223846793005ull;
		__asm__ volatile("" : "+r"(x));
	}
}

#endif
