/*
 * The only reader of the machine's clocks. Calendar arithmetic is done here because gmtime and timegm open the time
 * zone file, which the sandbox forbids. Proleptic Gregorian calendar, UTC, no leap seconds.
 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

#define MS_PER_DAY 86400000ULL
#define LAST_WALL_MS 253402300799999ULL /* 9999-12-31T23:59:59.999Z */

static uint64_t real_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static uint64_t real_wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000ULL + (uint64_t)ts.tv_nsec / 1000000ULL;
}

static const struct clock_source real = { real_mono_ns, real_wall_ms };
static const struct clock_source *source = &real;

uint64_t clock_mono_ns(void)
{
	return source->mono_ns();
}

uint64_t clock_mono_ms(void)
{
	return source->mono_ns() / 1000000ULL;
}

uint64_t clock_wall_ms(void)
{
	return source->wall_ms();
}

void clock_use(const struct clock_source *replacement)
{
	source = replacement != NULL ? replacement : &real;
}

static bool is_leap(unsigned year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static unsigned days_in_month(unsigned year, unsigned month)
{
	static const uint8_t days[12] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

	return days[month - 1] + (month == 2 && is_leap(year) ? 1u : 0u);
}

static uint64_t days_before_year(unsigned year)
{
	uint64_t past = year - 1;

	return past * 365 + past / 4 - past / 100 + past / 400;
}

void clock_print_wall(uint64_t wall_ms, char out_text[25])
{
	uint64_t ms = wall_ms > LAST_WALL_MS ? LAST_WALL_MS : wall_ms;
	uint64_t days = ms / MS_PER_DAY + days_before_year(1970);
	unsigned of_day = (unsigned)(ms % MS_PER_DAY);
	unsigned year = (unsigned)(days / 366) + 1; /* never too late; corrected below */
	unsigned month = 1;

	while (days_before_year(year + 1) <= days)
		year++;
	days -= days_before_year(year);
	for (; days >= days_in_month(year, month); month++)
		days -= days_in_month(year, month);
	snprintf(out_text, 25, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year % 10000, month,
		 (unsigned)(days + 1) % 100, of_day / 3600000 % 100, of_day / 60000 % 60,
		 of_day / 1000 % 60, of_day % 1000);
}

/* Exactly `width` digits at `*at`, then the character `after`; steps over both. */
static bool take_number(struct text t, size_t *at, size_t width, char after, unsigned *out_value)
{
	unsigned v = 0;

	if (t.len - *at < width + 1)
		return false;
	for (size_t i = 0; i < width; i++) {
		char c = t.at[*at + i];

		if (!text_is_digit(c))
			return false;
		v = v * 10 + (unsigned)(c - '0');
	}
	if (t.at[*at + width] != after)
		return false;
	*at += width + 1;
	*out_value = v;
	return true;
}

/* What follows the seconds: "Z", or one to nine digits and "Z". */
static bool take_fraction(struct text t, size_t at, unsigned *out_ms)
{
	static const unsigned weight[3] = { 100, 10, 1 };
	size_t digits = t.len - at - 1;
	unsigned ms = 0;

	if (t.at[t.len - 1] != 'Z' || digits < 1 || digits > 9)
		return false;
	for (size_t i = 0; i < digits; i++) {
		if (!text_is_digit(t.at[at + i]))
			return false;
		if (i < 3)
			ms += (unsigned)(t.at[at + i] - '0') * weight[i];
	}
	*out_ms = ms;
	return true;
}

bool clock_parse_wall(struct text t, uint64_t *out_wall_ms)
{
	unsigned year, month, day, hour, minute, second, ms = 0;
	size_t at = 0;
	uint64_t days;

	if (!take_number(t, &at, 4, '-', &year) || !take_number(t, &at, 2, '-', &month) ||
	    !take_number(t, &at, 2, 'T', &day) || !take_number(t, &at, 2, ':', &hour) ||
	    !take_number(t, &at, 2, ':', &minute))
		return false;
	if (take_number(t, &at, 2, '.', &second)) {
		if (at >= t.len || !take_fraction(t, at, &ms))
			return false;
	} else if (!take_number(t, &at, 2, 'Z', &second) || at != t.len) {
		return false;
	}
	if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) ||
	    hour > 23 || minute > 59 || second > 59)
		return false;
	days = days_before_year(year) - days_before_year(1970) + day - 1;
	for (unsigned m = 1; m < month; m++)
		days += days_in_month(year, m);
	*out_wall_ms = days * MS_PER_DAY + hour * 3600000ULL + minute * 60000ULL +
		       second * 1000ULL + ms;
	return true;
}
