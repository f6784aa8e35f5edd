/*
 * Health of name servers as arithmetic over the times it is given. Promises that a mute server costs one try to few lookups and
 * not the first try of every lookup. Refuses to let the answers to one name decide: SERVFAIL counts as being heard.
 */
#include "net/name_servers.h"

#include <string.h>

enum err name_servers_set(struct name_servers *s, const struct endpoint *servers, size_t count)
{
	bool same = count == s->count && s->generation != 0;

	if (count > NAME_SERVERS_MAX)
		return ERR_LIMIT;
	for (size_t i = 0; i < count; i++) {
		if (servers[i].port == 0 ||
		    (servers[i].addr.family != ADDR_V4 && servers[i].addr.family != ADDR_V6))
			return ERR_INVALID;
		same = same && endpoint_equal(&servers[i], &s->list[i].at);
	}
	if (same)
		return ERR_OK;
	memset(s->list, 0, sizeof(s->list));
	for (size_t i = 0; i < count; i++)
		s->list[i].at = servers[i];
	s->count = count;
	s->generation++;
	return ERR_OK;
}

static void adopt(const struct name_servers *s, struct name_servers_round *round)
{
	if (round->generation == s->generation)
		return;
	*round = (struct name_servers_round){ .generation = s->generation };
}

static bool is_ruled_out(const struct name_servers_round *round, size_t index)
{
	return (round->ruled_out & BIT(index)) != 0;
}

static bool is_avoided(const struct name_server *server, uint64_t now_ms)
{
	return server->is_dead && now_ms < server->chance_at_ms;
}

static void take_chance(struct name_server *server, uint64_t now_ms)
{
	server->retry_ms = server->retry_ms * 2 < NAME_SERVERS_RETRY_MAX_MS ? server->retry_ms * 2 :
									      NAME_SERVERS_RETRY_MAX_MS;
	server->chance_at_ms = now_ms + server->retry_ms;
}

bool name_servers_pick(struct name_servers *s, struct name_servers_round *round, uint64_t now_ms, size_t *out_index)
{
	size_t best = NAME_SERVERS_MAX;
	unsigned best_rank = 0;

	adopt(s, round);
	for (size_t i = 0; i < s->count; i++) {
		unsigned rank = round->tries[i] * 2u + is_avoided(&s->list[i], now_ms);

		if (is_ruled_out(round, i) || (best < NAME_SERVERS_MAX && rank >= best_rank))
			continue;
		best = i;
		best_rank = rank;
	}
	if (best == NAME_SERVERS_MAX)
		return false;
	/* The chance is this lookup's; the others go on avoiding the server until it has answered. */
	if (s->list[best].is_dead && now_ms >= s->list[best].chance_at_ms)
		take_chance(&s->list[best], now_ms);
	if (round->tries[best] < UINT8_MAX)
		round->tries[best]++;
	*out_index = best;
	return true;
}

bool name_servers_is_open(const struct name_servers *s, const struct name_servers_round *round)
{
	if (round->generation != s->generation)
		return s->count > 0;
	for (size_t i = 0; i < s->count; i++) {
		if (!is_ruled_out(round, i))
			return true;
	}
	return false;
}

void name_servers_rule_out(struct name_servers_round *round, size_t index)
{
	round->ruled_out |= BIT(index);
}

void name_servers_heard(struct name_servers *s, size_t index, bool echoed, uint64_t now_ms)
{
	struct name_server *server = &s->list[index];

	server->is_dead = false;
	server->retry_ms = 0;
	server->heard_at_ms = now_ms;
	server->echoes_case = server->echoes_case || echoed;
}

static void bury(struct name_server *server, uint64_t now_ms)
{
	/* Already dead: only a chance taken makes the next one rarer, not everybody who was still waiting. */
	if (server->is_dead)
		return;
	server->is_dead = true;
	server->retry_ms = NAME_SERVERS_RETRY_FIRST_MS;
	server->chance_at_ms = now_ms + server->retry_ms;
}

void name_servers_missed(struct name_servers *s, size_t index, uint64_t asked_at_ms, uint64_t now_ms)
{
	if (s->list[index].heard_at_ms < asked_at_ms)
		bury(&s->list[index], now_ms);
}

void name_servers_lost(struct name_servers *s, size_t index, uint64_t now_ms)
{
	bury(&s->list[index], now_ms);
}
