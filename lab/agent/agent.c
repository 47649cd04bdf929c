// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * lab-agent: runs commands for the lab at the other end of a byte stream.
 *
 *   lab-agent [-p RT_PRIORITY] PORT     PORT: a virtio-serial device, a serial port, fd:N, or - (stdin and stdout)
 *
 * The same program serves the emulated host (L1), the guest (L2, as PID 1) and,
 * in native mode, the machine itself. It sleeps in poll() without a timeout
 * while nobody talks to it, so that it never disturbs a measurement.
 *
 * A frame is a 12-byte little-endian header and a payload:
 *
 *   u32 payload_bytes | u32 job | u32 type | payload
 *
 * job is chosen by the lab; types are in enum frame_type. A job is a shell command
 * in a session of its own; signals go to the whole process group.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum frame_type {
	FRAME_HELLO = 1,	/* both ways; payload: protocol version, u32 */
	FRAME_EXEC = 2,		/* lab: shell command */
	FRAME_STDIN = 3,	/* lab: bytes; no bytes: end of file */
	FRAME_SIGNAL = 4,	/* lab: u32 signal number */
	FRAME_STARTED = 5,	/* agent: u32 pid */
	FRAME_STDOUT = 6,	/* agent: bytes */
	FRAME_STDERR = 7,	/* agent: bytes */
	FRAME_EXIT = 8,		/* agent: i32 exit code, or minus the signal number */
	FRAME_EXEC_URGENT = 9,	/* lab: shell command, at real-time priority from its first instruction */
};

#define PROTOCOL_VERSION	2
#define HEADER_BYTES		12
#define JOBS_MAX		64
/* The lab never sends more; a longer frame means that the stream is broken. */
#define PAYLOAD_MAX_BYTES	(1u << 20)
#define CHUNK_BYTES		16384
/* Before ordinary work and before loops of the lowest real-time priority. */
#define URGENT_PRIORITY		2
/* While nobody is connected at the other end: how often to look. */
#define DISCONNECTED_POLL_MS	100

struct job {
	uint32_t id;
	pid_t pid;		/* 0: the slot is free */
	int in, out, err;	/* -1: closed */
	int in_eof;		/* close `in` once pending is written */
	int exited, status;
	char *pending;		/* bytes for `in` */
	size_t pending_bytes;
};

static struct job jobs[JOBS_MAX];
static int port_in, port_out;

static void die(const char *what)
{
	fprintf(stderr, "lab-agent: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void write_all(const void *data, size_t bytes)
{
	const char *p = data;

	while (bytes) {
		ssize_t n = write(port_out, p, bytes);

		if (n < 0 && errno == EAGAIN) {
			struct pollfd wait = { .fd = port_out, .events = POLLOUT };

			poll(&wait, 1, DISCONNECTED_POLL_MS);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("write to the lab");
		p += n;
		bytes -= (size_t)n;
	}
}

static void send_frame(uint32_t id, uint32_t type, const void *data, size_t bytes)
{
	static char frame[HEADER_BYTES + CHUNK_BYTES];
	uint32_t header[3] = { (uint32_t)bytes, id, type };

	memcpy(frame, header, sizeof(header));
	memcpy(frame + HEADER_BYTES, data, bytes);
	write_all(frame, HEADER_BYTES + bytes);
}

static struct job *find_job(uint32_t id)
{
	for (int i = 0; i < JOBS_MAX; i++)
		if (jobs[i].pid && jobs[i].id == id)
			return &jobs[i];
	return NULL;
}

static void start_failed(uint32_t id, const char *what)
{
	char text[128];
	int32_t code = 126;
	int n = snprintf(text, sizeof(text), "lab-agent: %s\n", what);

	send_frame(id, FRAME_STDERR, text, (size_t)n);
	send_frame(id, FRAME_EXIT, &code, sizeof(code));
}

static void start_job(uint32_t id, const char *command, int urgent)
{
	const struct sched_param param = { .sched_priority = URGENT_PRIORITY };
	int in[2], out[2], err[2];
	struct job *job = NULL;
	uint32_t pid_le;
	pid_t pid;

	for (int i = 0; i < JOBS_MAX && !job; i++)
		if (!jobs[i].pid)
			job = &jobs[i];
	if (!job)
		return start_failed(id, "too many jobs at once");
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		die("pipe");

	pid = fork();
	if (pid < 0) {
		close(in[0]), close(in[1]), close(out[0]), close(out[1]), close(err[0]), close(err[1]);
		return start_failed(id, strerror(errno));
	}
	if (!pid) {
		sigset_t none;

		setsid();
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		/* The agent ignores SIGPIPE; whoever started it in a background may have the others ignored. */
		signal(SIGPIPE, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		signal(SIGQUIT, SIG_DFL);
		dup2(in[0], 0), dup2(out[1], 1), dup2(err[1], 2);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	/* Not in the child, which may not run for seconds where ordinary work starves. Unprivileged: an ordinary job. */
	if (urgent && sched_setscheduler(pid, SCHED_RR, &param) && errno != EPERM)
		die("sched_setscheduler of an urgent job");
	close(in[0]), close(out[1]), close(err[1]);
	fcntl(in[1], F_SETFL, O_NONBLOCK);
	*job = (struct job){ .id = id, .pid = pid, .in = in[1], .out = out[0], .err = err[0] };
	pid_le = (uint32_t)pid;
	send_frame(id, FRAME_STARTED, &pid_le, sizeof(pid_le));
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void write_stdin(struct job *job)
{
	while (job->in >= 0 && job->pending_bytes) {
		ssize_t n = write(job->in, job->pending, job->pending_bytes);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			close_fd(&job->in);
			job->pending_bytes = 0;
			return;
		}
		job->pending_bytes -= (size_t)n;
		memmove(job->pending, job->pending + n, job->pending_bytes);
	}
	if (job->in_eof)
		close_fd(&job->in);
}

static void handle_frame(uint32_t id, uint32_t type, char *data, uint32_t bytes)
{
	const uint32_t version = PROTOCOL_VERSION;
	struct job *job = find_job(id);
	uint32_t number;

	switch (type) {
	case FRAME_HELLO:
		send_frame(id, FRAME_HELLO, &version, sizeof(version));
		break;
	case FRAME_EXEC:
	case FRAME_EXEC_URGENT:
		start_job(id, data, type == FRAME_EXEC_URGENT); /* the reader put a NUL behind the payload */
		break;
	case FRAME_STDIN:
		if (!job || job->in < 0)
			break;
		if (!bytes) {
			job->in_eof = 1;
		} else {
			job->pending = realloc(job->pending, job->pending_bytes + bytes);
			if (!job->pending)
				die("memory for a job's input");
			memcpy(job->pending + job->pending_bytes, data, bytes);
			job->pending_bytes += bytes;
		}
		write_stdin(job);
		break;
	case FRAME_SIGNAL:
		if (job && bytes == sizeof(number)) {
			memcpy(&number, data, sizeof(number));
			/* It has no group yet if it has not run since the fork. */
			if (kill(-job->pid, (int)number) && errno == ESRCH)
				kill(job->pid, (int)number);
		}
		break;
	}
}

/* One read from the lab. False: the other end is not connected. */
static int read_port(void)
{
	static char buffer[HEADER_BYTES + PAYLOAD_MAX_BYTES + 1];
	static size_t have;
	size_t used = 0;
	ssize_t n = read(port_in, buffer + have, sizeof(buffer) - 1 - have);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 1;
	if (n <= 0)
		return 0;
	have += (size_t)n;
	while (have - used >= HEADER_BYTES) {
		uint32_t header[3];
		char *data = buffer + used + HEADER_BYTES, saved;

		memcpy(header, buffer + used, sizeof(header));
		if (header[0] > PAYLOAD_MAX_BYTES) {
			fprintf(stderr, "lab-agent: frame of %u bytes: the stream is broken\n", header[0]);
			exit(1);
		}
		if (have - used < HEADER_BYTES + header[0])
			break;
		saved = data[header[0]];
		data[header[0]] = '\0';
		handle_frame(header[1], header[2], data, header[0]);
		data[header[0]] = saved;
		used += HEADER_BYTES + header[0];
	}
	memmove(buffer, buffer + used, have - used);
	have -= used;
	return 1;
}

static void reap(void)
{
	int status;
	pid_t pid;

	/* As PID 1 it also inherits what jobs left behind: reap everything. */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < JOBS_MAX; i++)
			if (jobs[i].pid == pid) {
				jobs[i].exited = 1;
				jobs[i].status = status;
			}
}

static void drain(struct job *job, int *fd, uint32_t type)
{
	char chunk[CHUNK_BYTES];
	ssize_t n = read(*fd, chunk, sizeof(chunk));

	if (n > 0)
		send_frame(job->id, type, chunk, (size_t)n);
	else if (!(n < 0 && (errno == EINTR || errno == EAGAIN)))
		close_fd(fd);
}

/*
 * The job is over when its shell is: what a background child of it would still
 * write is not waited for, only what is in the pipes already.
 */
static void finish(struct job *job)
{
	int *fds[] = { &job->out, &job->err };
	uint32_t types[] = { FRAME_STDOUT, FRAME_STDERR };
	int32_t code;

	for (int i = 0; i < 2; i++) {
		if (*fds[i] >= 0)
			fcntl(*fds[i], F_SETFL, O_NONBLOCK);
		while (*fds[i] >= 0) {
			struct pollfd ready = { .fd = *fds[i], .events = POLLIN };

			if (poll(&ready, 1, 0) != 1)
				break;
			drain(job, fds[i], types[i]);
		}
		close_fd(fds[i]);
	}
	close_fd(&job->in);
	code = WIFEXITED(job->status) ? WEXITSTATUS(job->status) : -WTERMSIG(job->status);
	send_frame(job->id, FRAME_EXIT, &code, sizeof(code));
	free(job->pending);
	memset(job, 0, sizeof(*job));
}

/*
 * A serial port carries frames only once its terminal changes nothing and echoes nothing. The other end sends
 * nothing before it hears that.
 */
static void open_terminal(void)
{
	const uint32_t version = PROTOCOL_VERSION;
	struct termios mode;

	if (tcgetattr(port_in, &mode))
		return; /* no terminal */
	cfmakeraw(&mode);
	mode.c_cflag |= CLOCAL | CREAD;
	if (tcsetattr(port_in, TCSANOW, &mode))
		die("tcsetattr");
	send_frame(0, FRAME_HELLO, &version, sizeof(version));
}

static void kill_jobs(void)
{
	for (int i = 0; i < JOBS_MAX; i++)
		if (jobs[i].pid)
			kill(-jobs[i].pid, SIGKILL);
}

int main(int argc, char **argv)
{
	struct sched_param param = { 0 };
	int option, signals, is_fd;
	sigset_t child;

	while ((option = getopt(argc, argv, "p:")) != -1)
		if (option == 'p')
			param.sched_priority = atoi(optarg);
	if (optind + 1 != argc) {
		fprintf(stderr, "usage: lab-agent [-p RT_PRIORITY] PORT\n");
		return 2;
	}
	is_fd = !strncmp(argv[optind], "fd:", 3) || !strcmp(argv[optind], "-");
	if (!strcmp(argv[optind], "-"))
		port_in = 0;
	else if (is_fd)
		port_in = atoi(argv[optind] + 3);
	else
		port_in = open(argv[optind], O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (port_in < 0)
		die(argv[optind]);
	fcntl(port_in, F_SETFD, FD_CLOEXEC);
	port_out = strcmp(argv[optind], "-") ? port_in : 1;
	if (!is_fd)
		open_terminal();
	/* The agent must answer on a host that is full of real-time work; jobs start as normal tasks. */
	if (param.sched_priority && sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param))
		die("sched_setscheduler");
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		die("signalfd");

	for (int connected = 1;;) {
		struct pollfd fds[2 + 3 * JOBS_MAX];
		struct { struct job *job; int what; } owner[2 + 3 * JOBS_MAX];
		nfds_t count = 2;

		fds[0] = (struct pollfd){ .fd = connected ? port_in : -1, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = signals, .events = POLLIN };
		for (int i = 0; i < JOBS_MAX; i++) {
			struct job *job = &jobs[i];
			int by_what[] = { job->pending_bytes ? job->in : -1, job->out, job->err };

			for (int what = 0; job->pid && what < 3; what++) {
				if (by_what[what] < 0)
					continue;
				owner[count].job = job;
				owner[count].what = what;
				fds[count++] = (struct pollfd){ .fd = by_what[what],
								.events = what ? POLLIN : POLLOUT };
			}
		}
		if (poll(fds, count, connected ? -1 : DISCONNECTED_POLL_MS) < 0 && errno != EINTR)
			die("poll");
		connected = 1;
		for (nfds_t i = 2; i < count; i++) {
			if (!fds[i].revents)
				continue;
			if (owner[i].what == 0)
				write_stdin(owner[i].job);
			else if (owner[i].what == 1)
				drain(owner[i].job, &owner[i].job->out, FRAME_STDOUT);
			else
				drain(owner[i].job, &owner[i].job->err, FRAME_STDERR);
		}
		if (fds[1].revents) {
			struct signalfd_siginfo info;

			while (read(signals, &info, sizeof(info)) > 0)
				;
			reap();
		}
		for (int i = 0; i < JOBS_MAX; i++)
			if (jobs[i].pid && jobs[i].exited)
				finish(&jobs[i]);
		if (fds[0].revents && !read_port()) {
			if (is_fd) { /* the lab is gone */
				kill_jobs();
				return 0;
			}
			connected = 0;
		}
	}
}
