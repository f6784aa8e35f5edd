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

static void remember(struct session *s, enum scheme scheme, const struct target *target)
{
	struct lease_home *h = s->home;
	struct redirect_seen *r = &h->redirects[h->redirect_count++ % REDIRECT_REMEMBERED_MAX];

	*r = (struct redirect_seen){ .scheme = scheme, .target = *target, .at_ms = loop_now_ms(s->worker->loop) };
	memcpy(r->from, s->id, sizeof(r->from));
}

enum reason redirect_judge(struct session *s, struct text reference)
{
	struct url base = base_of(s), to;
	struct judge j = session_judge(s);
	struct target target;
	struct verdict v;

	text_escape(reference, s->tunnel->redirect_to, sizeof(s->tunnel->redirect_to));
	if (!url_resolve(reference, &base, &to))
		return REASON_REDIRECT_DENIED; /* what we do not understand, a client may understand in its own way */
	target = target_of(&to.host);
	if (to.scheme == SCHEME_HTTP && target_equal(&target, &s->target)) {
		s->tunnel->redirect_to[0] = '\0';
		return REASON_ALLOWED; /* the authority that was decided already */
	}
	s->phase = PHASE_REDIRECT;
	v = judge_redirect(&j, to.scheme, &target);
	if (!v.allow)
		return REASON_REDIRECT_DENIED;
	s->tunnel->redirect_to[0] = '\0';
	remember(s, to.scheme, &target);
	return REASON_ALLOWED;
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
		    (s->verdict.schemes & BIT(r->scheme)) != 0)
			return r->from;
	}
	return NULL;
}
