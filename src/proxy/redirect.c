/* Location and Refresh: read as strictly as url does, judged by the matcher, remembered per lease. Called by tunnel_http. */
#include "proxy/redirect.h"

#include <string.h>

#include "proxy/tunnel_internal.h"
#include "proxy/worker.h"
#include "wire/url.h"

/* The page that the guest asked for, as a base for references. */
static struct url base_of(const struct session *s)
{
	struct url base = { .scheme = SCHEME_HTTP, .host = { .port = s->target.port } };

	base.host.is_address = s->target.kind == TARGET_ADDRESS;
	if (base.host.is_address)
		base.host.addr = s->target.addr;
	else
		base.host.name = s->target.name;
	return base;
}

static struct target target_of(const struct url_host *host)
{
	struct target t = { .kind = host->is_address ? TARGET_ADDRESS : TARGET_NAME, .port = host->port };

	if (host->is_address)
		t.addr = host->addr;
	else
		t.name = host->name;
	return t;
}

/* One entry for each place, and the newest decision that led there. */
static void remember(struct session *s, enum scheme scheme, const struct target *target)
{
	struct lease_home *h = s->home;
	struct redirect_seen *r = NULL;

	for (size_t i = 0; i < REDIRECT_REMEMBERED_MAX && r == NULL; i++) {
		if (h->redirects[i].at_ms != 0 && h->redirects[i].scheme == scheme && target_equal(&h->redirects[i].target, target))
			r = &h->redirects[i];
	}
	if (r == NULL)
		r = &h->redirects[h->redirect_count++ % REDIRECT_REMEMBERED_MAX];
	*r = (struct redirect_seen){ .scheme = scheme, .target = *target, .at_ms = loop_now_ms(s->worker->loop) };
	memcpy(r->from, s->id, sizeof(r->from));
}

/* The authority of the page itself was decided already, and relative references lead there. */
static bool leads_elsewhere(const struct session *s, enum scheme scheme, const struct target *target)
{
	return scheme != SCHEME_HTTP || !target_equal(target, &s->target);
}

enum reason redirect_judge(struct session *s, struct text reference)
{
	enum facts_phase before = s->phase;
	struct url base = base_of(s), to;
	struct judge j = session_judge(s);
	struct target target;

	text_escape(reference, s->tunnel->redirect_to, sizeof(s->tunnel->redirect_to));
	s->phase = PHASE_REDIRECT;
	if (!url_resolve(reference, &base, &to))
		return REASON_REDIRECT_DENIED; /* what we do not understand, a client may understand in its own way */
	target = target_of(&to.host);
	if (leads_elsewhere(s, to.scheme, &target) && !judge_redirect(&j, to.scheme, &target).allow)
		return REASON_REDIRECT_DENIED;
	s->phase = before;
	s->tunnel->redirect_to[0] = '\0';
	remember(s, to.scheme, &target);
	return REASON_ALLOWED;
}

/* Bytes under a tcp rule may be those of any scheme. */
static bool may_be(const struct session *s, enum scheme scheme)
{
	return (s->verdict.schemes & (BIT(scheme) | BIT(SCHEME_TCP))) != 0;
}

const char *redirect_find(const struct session *s)
{
	const struct lease_home *h = s->home;
	uint64_t now_ms = loop_now_ms(s->worker->loop);

	if (h == NULL || !s->target_known)
		return NULL;
	for (size_t i = 0; i < REDIRECT_REMEMBERED_MAX; i++) {
		const struct redirect_seen *r = &h->redirects[i];

		if (r->at_ms != 0 && now_ms - r->at_ms <= REDIRECT_REMEMBER_MS && target_equal(&r->target, &s->target) &&
		    may_be(s, r->scheme))
			return r->from;
	}
	return NULL;
}
