/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/* The control groups of a plan, below the root group, as the plan's paths say. */
#ifndef LAB_PLAY_GROUP_H
#define LAB_PLAY_GROUP_H

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "play_plan.h"

#define CGROUPS "/sys/fs/cgroup"

__attribute__((noreturn)) static void fail(const char *what, const char *name)
{
	fprintf(stderr, "pc_play: %s %s: %s\n", what, name, strerror(errno));
	exit(1);
}

/* A file of the kernel's. Return: whether it took the text; errno otherwise. */
static int write_text(const char *path, const char *text)
{
	ssize_t length = (ssize_t)strlen(text);
	int fd = open(path, O_WRONLY | O_CLOEXEC), taken;

	if (fd < 0)
		return 0;
	taken = write(fd, text, (size_t)length) == length;
	close(fd);
	return taken;
}

/* of -1: the root group. */
static void write_group(int64_t of, const char *file, const char *format, ...)
{
	char path[PATH_BYTES + 64], text[128];
	va_list arguments;

	snprintf(path, sizeof(path), CGROUPS "/%s/%s", of < 0 ? "" : plan.groups[of].path, file);
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (!write_text(path, text))
		fail("cannot write", path);
}

/* pid 0: who calls. One that has ended meanwhile is in no group. */
static void join_group(int64_t of, pid_t pid)
{
	if (!pid || !kill(pid, 0))
		write_group(of, "cgroup.procs", "%d", pid);
}

/* The kernel refuses a quota below the burst that is in force. */
static void set_quota(int64_t of, const struct quota *quota)
{
	write_group(of, "cpu.max.burst", "0");
	if (quota->quota_ns < 0)
		write_group(of, "cpu.max", "max %" PRId64, quota->period_ns / 1000);
	else
		write_group(of, "cpu.max", "%" PRId64 " %" PRId64, quota->quota_ns / 1000, quota->period_ns / 1000);
	write_group(of, "cpu.max.burst", "%" PRId64, quota->burst_ns / 1000);
}

static int has_children(int64_t of)
{
	size_t length = strlen(plan.groups[of].path);

	for (int n = 0; n < plan.group_count; n++)
		if (!strncmp(plan.groups[n].path, plan.groups[of].path, length) && plan.groups[n].path[length] == '/')
			return 1;
	return 0;
}

static int groups_made;

/* From the last one on: children come after their parents. */
static void remove_groups(void)
{
	char path[PATH_BYTES + 64];

	while (groups_made > 0) {
		snprintf(path, sizeof(path), CGROUPS "/%s", plan.groups[--groups_made].path);
		/* The last of its tasks may still be on its way out. */
		for (int tries = 0; rmdir(path) && errno == EBUSY && tries < 500; tries++)
			usleep(10000);
	}
}

static void make_groups(void)
{
	char path[PATH_BYTES + 64];

	if (!plan.group_count)
		return;
	write_group(-1, "cgroup.subtree_control", "+cpu");
	for (int n = 0; n < plan.group_count; n++) {
		const struct group *group = &plan.groups[n];

		snprintf(path, sizeof(path), CGROUPS "/%s", group->path);
		if (mkdir(path, 0755))
			fail("cannot make the group", path);
		groups_made = n + 1;
		if (group->idle)
			write_group(n, "cpu.idle", "1");
		else
			write_group(n, "cpu.weight", "%" PRId64, group->weight);
		set_quota(n, &group->quota);
		if (has_children(n))
			write_group(n, "cgroup.subtree_control", "+cpu");
	}
}

#endif
