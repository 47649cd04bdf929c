// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_sound: plays silence on the first sound card, period by period, and looks when the card asks for the next one.
 * In a guest the card is a thread of the VMM, which wakes by a timer for each piece that it plays.
 *
 *	pc_sound [--period_us N] [--periods N] [--seconds N] [--priority N]
 *
 * Output, one JSON line: "periods", and "avg_us", "p99_us", "max_us" by which a period came later after the one before
 * than it should have; those that came earlier, catching up, are not late. A card that stops to play, so that the kernel
 * gives up, ends the stream. What was played until then is printed; fewer than PERIODS_LEAST periods are an error.
 *
 * Source: include/uapi/sound/asound.h.
 */
#include <fcntl.h>
#include <sound/asound.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "answers.h"
#include "options.h"

#define CARD "/dev/snd/pcmC0D0p"
#define RATE 48000
#define CHANNELS 2
#define PERIODS_LEAST 20

static int fail(const char *what)
{
	fprintf(stderr, "pc_sound: %s: %s\n", what, strerror(errno));
	return 1;
}

static void choose(struct snd_pcm_hw_params *params, int mask, unsigned int value)
{
	struct snd_mask *bits = &params->masks[mask - SNDRV_PCM_HW_PARAM_FIRST_MASK];

	memset(bits, 0, sizeof(*bits));
	bits->bits[value / 32] = 1u << (value % 32);
}

static void want(struct snd_pcm_hw_params *params, int interval, unsigned int value)
{
	struct snd_interval *wanted = &params->intervals[interval - SNDRV_PCM_HW_PARAM_FIRST_INTERVAL];

	*wanted = (struct snd_interval){ .min = value, .max = value, .integer = 1 };
}

/* Stereo of 16 bits, `periods` of `frames` each; what the card cannot do is an error. */
static int set_up(int card, unsigned int frames, unsigned int periods)
{
	struct snd_pcm_hw_params params = { .rmask = ~0u };
	struct snd_pcm_sw_params software = { 0 };

	memset(params.masks, 0xff, sizeof(params.masks));
	for (size_t n = 0; n < sizeof(params.intervals) / sizeof(params.intervals[0]); n++)
		params.intervals[n].max = ~0u;
	choose(&params, SNDRV_PCM_HW_PARAM_ACCESS, SNDRV_PCM_ACCESS_RW_INTERLEAVED);
	choose(&params, SNDRV_PCM_HW_PARAM_FORMAT, SNDRV_PCM_FORMAT_S16_LE);
	want(&params, SNDRV_PCM_HW_PARAM_CHANNELS, CHANNELS);
	want(&params, SNDRV_PCM_HW_PARAM_RATE, RATE);
	want(&params, SNDRV_PCM_HW_PARAM_PERIOD_SIZE, frames);
	want(&params, SNDRV_PCM_HW_PARAM_PERIODS, periods);
	if (ioctl(card, SNDRV_PCM_IOCTL_HW_PARAMS, &params))
		return fail("the card has no such format");
	/* It plays from the first full buffer on, and goes on through all gaps. */
	software.avail_min = frames;
	software.start_threshold = (snd_pcm_uframes_t)frames * periods;
	for (software.boundary = software.start_threshold; software.boundary < 1ul << 30;)
		software.boundary *= 2;
	software.stop_threshold = software.boundary;
	software.period_step = 1;
	if (ioctl(card, SNDRV_PCM_IOCTL_SW_PARAMS, &software) || ioctl(card, SNDRV_PCM_IOCTL_PREPARE))
		return fail("set-up");
	return 0;
}

int main(int argc, char **argv)
{
	static int16_t silence[RATE * CHANNELS];
	static struct answers late;
	long period_us = 10000, periods = 4, seconds = 3, priority = 0, played = 0;
	const struct number_option options[] = {
		{ "--period_us", &period_us, 1000, 1000000 },
		{ "--periods", &periods, 2, 32 },
		{ "--seconds", &seconds, 1, 3600 },
		{ "--priority", &priority, 0, 99 },
	};
	uint64_t before_ns = 0, end_ns;
	struct snd_xferi piece;
	int card;

	parse_numbers(argc, argv, 1, options, sizeof(options) / sizeof(options[0]));
	card = open(CARD, O_RDWR);
	if (card < 0)
		return fail(CARD);
	piece = (struct snd_xferi){ .buf = silence, .frames = (unsigned long)period_us * RATE / 1000000 };
	if (set_up(card, (unsigned int)piece.frames, (unsigned int)periods))
		return 1;
	be_realtime(priority);
	end_ns = monotonic_ns() + (uint64_t)seconds * NS_PER_S;
	while (monotonic_ns() < end_ns) {
		uint64_t now_ns, due_ns;

		if (ioctl(card, SNDRV_PCM_IOCTL_WRITEI_FRAMES, &piece)) {
			bool gave_up = errno == EIO;

			fail("write");
			if (!gave_up || late.count < PERIODS_LEAST)
				return 1;
			break;
		}
		now_ns = monotonic_ns();
		due_ns = before_ns + (uint64_t)period_us * NS_PER_US;
		/* The buffer is filled at once, and the first period is as long as it takes to begin. */
		if (++played > periods + 1)
			note_answer(&late, now_ns > due_ns ? now_ns - due_ns : 0);
		before_ns = now_ns;
	}
	if (!late.count) {
		fprintf(stderr, "pc_sound: %s plays nothing: %ld periods in %ld s\n", CARD, played, seconds);
		return 1;
	}
	printf("{\"program\": \"pc_sound\", \"periods\": %ld, ", late.count);
	print_answers(&late);
	return 0;
}
