/*
 * The four questions. Each builds its facts and asks the matcher; what the matcher cannot see (the lease's own times, the bytes of the
 * stream) is added here, in the order of the reasons. Keeps nothing between calls. Called by proxy, analysis and the tools.
 */
#include "judge/judge.h"

#include "facts/special_names.h"
#include "policy/match.h"

#define HTTP_LIKE (BIT(SCHEME_HTTP) | BIT(SCHEME_WS))

static enum reason lease_reason(const struct judge *j)
{
	const struct layout_lease *l;
	enum reason why;

	if (j->snapshot == NULL || j->lease == NULL)
		return REASON_INTERNAL;
	l = segment_lease(j->lease->lease->segment);
	why = lease_table_is_live(j->lease, j->wall_ms);
	/* A lease that wants to be report-only where the operator does not allow it is a fault, not a wish. */
	if ((l->options & LAYOUT_OPTION_REPORT) != 0 && !snapshot_report_allowed(j->snapshot))
		why = reason_stronger(why, REASON_POLICY_INVALID);
	return why;
}

static struct verdict refuse(const struct judge *j, enum reason why)
{
	struct verdict v = verdict_refuse(why);

	v.snapshot = j->snapshot == NULL ? 0 : snapshot_version(j->snapshot);
	return v;
}

static void know_address(const struct judge *j, const struct addr *address, struct facts *f)
{
	f->address_known = true;
	f->address = *address;
	addr_classify(address, j->site, &f->finding);
	/* Behind a declared NAT64 prefix the origin is where its IPv4 address is. */
	geoip_find(j->geoip, f->finding.by_declared_nat64 ? &f->finding.inner : address, &f->place);
}

static struct facts build_facts(const struct judge *j, enum facts_phase phase,
				const struct target *target)
{
	struct facts f = {
		.phase = phase,
		.target = *target,
		.name_class = NAME_ORDINARY,
		.slot = j->lease->slot,
		.generation = j->generation,
	};

	if (target->kind == TARGET_NAME) {
		f.name_class = special_names_classify(&target->name);
		f.ech_public = special_names_is_ech_public(&target->name);
	} else {
		know_address(j, &target->addr, &f);
	}
	return f;
}

static struct verdict ask(const struct judge *j, const struct facts *f, struct permit *out_permit)
{
	return policy_match(j->snapshot, j->lease->lease, f, j->trace, out_permit);
}

struct verdict judge_request(const struct judge *j, const struct target *target)
{
	enum reason why = lease_reason(j);
	struct facts f;

	if (why != REASON_ALLOWED)
		return refuse(j, why);
	f = build_facts(j, PHASE_REQUEST, target);
	return ask(j, &f, NULL);
}

/* What an earlier phase found goes on: the stricter of both, and what it only reported. */
static void carry(const struct verdict *before, struct verdict *v)
{
	v->pin = before->pin > v->pin ? before->pin : v->pin;
	v->ech_refuse |= before->ech_refuse;
	v->place_required |= before->place_required;
	if (v->allow && before->would_deny) {
		v->would_deny = true;
		v->reason = reason_stronger(v->reason, before->reason);
	}
}

struct verdict judge_address(const struct judge *j, const struct target *target,
			     const struct verdict *request, const struct addr *address,
			     struct addr_finding *out_finding, struct permit *out_permit)
{
	enum reason why = lease_reason(j);
	struct permit permit;
	struct verdict v;
	struct facts f;

	addr_classify(address, j->site, out_finding);
	if (!request->allow)
		return refuse(j, REASON_INTERNAL);
	if (why != REASON_ALLOWED)
		return refuse(j, why);
	f = build_facts(j, PHASE_ADDRESS, target);
	know_address(j, address, &f);
	v = ask(j, &f, &permit);
	if (!v.allow)
		return v;
	/* A policy that changed since the request may allow the target for other bytes than were promised. */
	v.schemes &= request->schemes;
	if (v.schemes == 0)
		return refuse(j, REASON_POLICY_CHANGED);
	carry(request, &v);
	*out_permit = permit;
	return v;
}

/* Which of the request's candidates may carry what was seen? 0: none. */
static unsigned stream_schemes(const struct verdict *request, const struct judge_stream *seen)
{
	if (request->schemes == BIT(SCHEME_TCP))
		return request->schemes;
	if (!seen->scheme_known)
		return 0;
	if (seen->scheme == SCHEME_HTTP)
		return request->schemes & HTTP_LIKE;
	return request->schemes & BIT(seen->scheme);
}

/* The scheme that the rules are asked for. HTTP where only a WebSocket may be opened goes on as one: plain HTTP may be the ceiling's to refuse. */
static enum scheme asked_scheme(unsigned schemes, const struct judge_stream *seen)
{
	if (schemes == BIT(SCHEME_TCP))
		return SCHEME_TCP;
	return (schemes & BIT(seen->scheme)) != 0 ? seen->scheme : SCHEME_WS;
}

static enum reason tls_reason(const struct target *target, const struct verdict *so_far,
			      const struct judge_stream *seen)
{
	if ((!seen->name_known && !seen->name_missing) || !seen->tls12_offered)
		return REASON_TLS_MALFORMED;
	if (seen->name_missing)
		return REASON_TLS_SNI_MISSING;
	if (target->kind != TARGET_NAME || !dname_equal(&seen->name, &target->name))
		return REASON_TLS_SNI_MISMATCH;
	return seen->has_ech && so_far->ech_refuse ? REASON_TLS_ECH : REASON_ALLOWED;
}

static enum reason http_reason(const struct target *target, const struct judge_stream *seen)
{
	/* Host of an address target is no name; whoever reads the head compares it. */
	if (target->kind != TARGET_NAME)
		return REASON_ALLOWED;
	if (!seen->name_known)
		return seen->name_missing ? REASON_HTTP_HOST_MISSING : REASON_HTTP_MALFORMED;
	return dname_equal(&seen->name, &target->name) ? REASON_ALLOWED : REASON_HTTP_HOST_MISMATCH;
}

/* Do name and options hold for bytes that are one of the typed `schemes`? */
static enum reason stream_reason(const struct target *target, const struct verdict *so_far,
				 const struct judge_stream *seen, unsigned schemes)
{
	if ((schemes & BIT(SCHEME_HTTPS)) != 0)
		return tls_reason(target, so_far, seen);
	if ((schemes & HTTP_LIKE) != 0)
		return http_reason(target, seen);
	return REASON_ALLOWED;
}

static struct verdict ask_scheme(const struct judge *j, enum facts_phase phase,
				 const struct target *target, enum scheme scheme)
{
	struct facts f = build_facts(j, phase, target);

	f.scheme_known = true;
	f.scheme = scheme;
	return ask(j, &f, NULL);
}

/* Bytes that no candidate takes: a lease that only reports lets them through where the ceiling does. */
static struct verdict mismatch(const struct judge *j, const struct target *target,
			       const struct verdict *request, const struct judge_stream *seen)
{
	struct verdict v = ask_scheme(j, PHASE_STREAM, target,
				      seen->scheme_known ? seen->scheme : SCHEME_TCP);

	if (!v.allow || !v.would_deny) {
		v = refuse(j, REASON_SCHEME_MISMATCH);
		v.source = request->source;
		return v;
	}
	if (v.reason == REASON_SCHEME_NOT_ALLOWED)
		v.reason = REASON_SCHEME_MISMATCH;
	v.schemes = BIT(SCHEME_TCP);
	carry(request, &v);
	return v;
}

struct verdict judge_stream(const struct judge *j, const struct target *target,
			    const struct verdict *request, const struct judge_stream *seen)
{
	enum reason why = lease_reason(j);
	unsigned schemes = stream_schemes(request, seen);
	struct verdict v;

	if (!request->allow)
		return refuse(j, REASON_INTERNAL);
	if (why != REASON_ALLOWED)
		return refuse(j, why);
	if (schemes == 0)
		return mismatch(j, target, request, seen);
	v = ask_scheme(j, PHASE_STREAM, target, asked_scheme(schemes, seen));
	if (!v.allow && v.reason == REASON_SCHEME_NOT_ALLOWED)
		v.reason = REASON_SCHEME_MISMATCH;
	if (!v.allow)
		return v;
	carry(request, &v);
	why = stream_reason(target, &v, seen, schemes);
	if (why != REASON_ALLOWED) {
		v.allow = v.would_deny = false;
		v.reason = why;
		return v;
	}
	v.schemes = schemes;
	return v;
}

struct verdict judge_redirect(const struct judge *j, enum scheme scheme, const struct target *target)
{
	enum reason why = lease_reason(j);

	return why != REASON_ALLOWED ? refuse(j, why) :
				       ask_scheme(j, PHASE_REDIRECT, target, scheme);
}
