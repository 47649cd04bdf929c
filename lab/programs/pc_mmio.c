// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * Accesses to a device's registers, of any width, through /dev/mem: for devices that no driver has taken.
 *
 *   pc_mmio ADDRESS BYTES ACCESS...      ACCESS: WIDTH@OFFSET reads, WIDTH@OFFSET=VALUE writes; widths in bytes
 *
 * ADDRESS and BYTES: of the device. Prints a line per read, the value in decimal.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t load(const volatile void *at, unsigned int width)
{
	switch (width) {
	case 1:
		return *(const volatile uint8_t *)at;
	case 2:
		return *(const volatile uint16_t *)at;
	case 4:
		return *(const volatile uint32_t *)at;
	default:
		return *(const volatile uint64_t *)at;
	}
}

static void store(volatile void *at, unsigned int width, uint64_t value)
{
	switch (width) {
	case 1:
		*(volatile uint8_t *)at = (uint8_t)value;
		break;
	case 2:
		*(volatile uint16_t *)at = (uint16_t)value;
		break;
	case 4:
		*(volatile uint32_t *)at = (uint32_t)value;
		break;
	default:
		*(volatile uint64_t *)at = value;
	}
}

int main(int argc, char **argv)
{
	uint64_t address, bytes;
	volatile char *registers;
	int fd;

	if (argc < 4) {
		fputs("usage: pc_mmio ADDRESS BYTES WIDTH@OFFSET[=VALUE]...\n", stderr);
		return 2;
	}
	address = strtoull(argv[1], NULL, 0);
	bytes = strtoull(argv[2], NULL, 0);
	fd = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
	registers = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)address);
	if (registers == MAP_FAILED) {
		fprintf(stderr, "pc_mmio: /dev/mem at %#" PRIx64 ": %s\n", address, strerror(errno));
		return 1;
	}
	for (int i = 3; i < argc; i++) {
		unsigned int width;
		uint64_t offset, value;
		int values = sscanf(argv[i], "%u@%" SCNi64 "=%" SCNi64, &width, (int64_t *)&offset, (int64_t *)&value);

		if (values < 2 || !width || width > 8 || width & (width - 1) || offset % width || offset > bytes - width) {
			fprintf(stderr, "pc_mmio: %s: not WIDTH@OFFSET[=VALUE], aligned and inside the device\n", argv[i]);
			return 2;
		}
		if (values == 3)
			store(registers + offset, width, value);
		else
			printf("%" PRIu64 "\n", load(registers + offset, width));
	}
	return 0;
}
