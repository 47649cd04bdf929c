// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_net: requests and answers over UDP.
 *
 *	pc_net serve PORT [--priority N]                       answers until a signal ends it
 *	pc_net ask ADDRESS PORT [--period_us N] [--seconds N] [--priority N]
 *
 * Who asks waits for each answer, for a second at most. Output, one JSON line: "answers", "lost", "avg_us", "p99_us", "max_us" from
 * a request to its answer.
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "answers.h"
#include "options.h"

#define BYTES 64

static int fail(const char *what)
{
	fprintf(stderr, "pc_net: %s: %s\n", what, strerror(errno));
	return 1;
}

static struct sockaddr_in address_of(const char *host, long port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	if (host && inet_pton(AF_INET, host, &address.sin_addr) != 1) {
		fprintf(stderr, "pc_net: %s is no IPv4 address\n", host);
		exit(2);
	}
	return address;
}

static long port_of(const char *text)
{
	long port = 0;
	const struct number_option option = { "PORT", &port, 1, 65535 };

	set_number(&option, text);
	return port;
}

static int serve(int argc, char **argv)
{
	struct sockaddr_in address = address_of(NULL, port_of(argv[2]));
	int one = socket(AF_INET, SOCK_DGRAM, 0);
	long priority = 0;
	const struct number_option options[] = { { "--priority", &priority, 0, 99 } };

	parse_numbers(argc, argv, 3, options, 1);
	if (one < 0 || bind(one, (struct sockaddr *)&address, sizeof(address)))
		return fail(argv[2]);
	be_realtime(priority);
	for (;;) {
		char text[BYTES];
		struct sockaddr_in from;
		socklen_t size = sizeof(from);
		ssize_t got = recvfrom(one, text, sizeof(text), 0, (struct sockaddr *)&from, &size);

		if (got >= 0)
			sendto(one, text, (size_t)got, 0, (struct sockaddr *)&from, size);
	}
}

static int ask(int argc, char **argv)
{
	static struct answers answers;
	struct sockaddr_in address = address_of(argv[2], port_of(argv[3]));
	struct timeval patience = { .tv_sec = 1 };
	long period_us = 3000, seconds = 3, priority = 0, lost = 0;
	const struct number_option options[] = {
		{ "--period_us", &period_us, 0, 10000000 },
		{ "--seconds", &seconds, 1, 3600 },
		{ "--priority", &priority, 0, 99 },
	};
	uint64_t next_ns, end_ns, asked = 0;
	int one = socket(AF_INET, SOCK_DGRAM, 0);

	parse_numbers(argc, argv, 4, options, sizeof(options) / sizeof(options[0]));
	if (one < 0 || connect(one, (struct sockaddr *)&address, sizeof(address)) ||
	    setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		return fail(argv[2]);
	be_realtime(priority);
	next_ns = monotonic_ns();
	end_ns = next_ns + (uint64_t)seconds * NS_PER_S;
	while (next_ns < end_ns) {
		uint64_t begin_ns = monotonic_ns();
		char text[BYTES] = { 0 };
		ssize_t got;

		asked++;
		memcpy(text, &asked, sizeof(asked));
		if (send(one, text, sizeof(text), 0) != sizeof(text))
			return fail("send");
		/* An answer that came too late is not this one's. */
		do
			got = recv(one, text, sizeof(text), 0);
		while (got == sizeof(text) && memcmp(text, &asked, sizeof(asked)));
		if (got == sizeof(text))
			note_answer(&answers, monotonic_ns() - begin_ns);
		else
			lost++;
		next_ns = next_period(next_ns, period_us);
	}
	if (!answers.count) {
		fprintf(stderr, "pc_net: %s:%s does not answer\n", argv[2], argv[3]);
		return 1;
	}
	printf("{\"program\": \"pc_net\", \"answers\": %ld, \"lost\": %ld, ", answers.count, lost);
	print_answers(&answers);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "serve"))
		return serve(argc, argv);
	if (argc > 3 && !strcmp(argv[1], "ask"))
		return ask(argc, argv);
	fprintf(stderr, "pc_net serve PORT [--priority N]\npc_net ask ADDRESS PORT [--period_us N] [--seconds N] [--priority N]\n");
	return 2;
}
