/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/* A PCI device whose memory a program maps, in a guest where no firmware has set it up. */
#ifndef LAB_PCI_DEVICE_H
#define LAB_PCI_DEVICE_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * A device that no driver has taken answers only when it is switched on; one that has a driver is on, and
 * refuses. `resource`: the path of one of its resource files.
 */
static inline void enable_device(const char *resource)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%.*s/enable", (int)(strrchr(resource, '/') - resource), resource);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "1", 1) != 1)
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
	close(fd);
}

#endif
