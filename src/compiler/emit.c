/* Tree to segment: tables are filled in source order or sorted, so that the same tree gives the same bytes. See emit.h, image/layout.h. */
#include "compiler/emit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/emit_internal.h"

/* Where segments that are emitted here keep their count: emitter_finish leaves room. */
static unsigned *others(const struct emitted *e)
{
	return (void *)(e->bytes + e->len);
}

void emitted_finish(struct emitted *e)
{
	if (e->bytes == NULL || !e->is_counted || (*others(e))-- == 0)
		alloc_free(e->bytes);
	*e = (struct emitted){ 0 };
}

enum err emitted_share(const struct emitted *e, struct emitted *out_shared)
{
	struct emitted shared = *e;

	if (e->is_counted)
		(*others(e))++;
	else if ((shared.bytes = alloc_copy(e->bytes, e->len)) == NULL)
		return ERR_NO_MEMORY;
	*out_shared = shared;
	return ERR_OK;
}

/* Rules of `policy` and, for a ceiling, of the presets merged into it. */
static void add_policies(struct emitter *e, const struct policy *policy, const struct policy *const *presets, size_t preset_count)
{
	emitter_add_rules(e, policy, policy->kind == POLICY_PRESET ? policy->name : "");
	for (size_t i = 0; i < preset_count; i++)
		emitter_add_rules(e, presets[i], presets[i]->name);
	emitter_index_labels(e);
	emitter_index_prefixes(e);
}

enum err emit_ruleset(const struct policy *policy, struct emitted *out_segment)
{
	struct emitter e;
	enum err err;

	emitter_init(&e, LAYOUT_RULESET);
	add_policies(&e, policy, NULL, 0);
	err = emitter_seal(&e, out_segment);
	emitter_finish(&e);
	return err;
}

/* What the mode says; what control claims is kept beside it, and the stricter counts. */
static enum layout_scope scope_of(const struct policy *policy)
{
	enum layout_scope derived = LAYOUT_SCOPE_UNDECLARED;

	if (policy->mode == POLICY_MODE_DENY_ALL)
		derived = LAYOUT_SCOPE_NONE;
	if (policy->mode == POLICY_MODE_ALLOWLIST || policy->mode == POLICY_MODE_PROVISIONING)
		derived = LAYOUT_SCOPE_DECLARED;
	return derived;
}

static uint64_t bound(uint64_t wanted, uint64_t most)
{
	return most != 0 && (wanted == 0 || wanted > most) ? most : wanted;
}

/* A lease is intersected with the ceiling: a limit it does not name is the ceiling's. */
static struct layout_limits limits_of(const struct policy *policy, const struct policy *ceiling)
{
	struct layout_limits limits = policy->limits;

	if (ceiling == NULL)
		return limits;
#define LIMIT(name, least, most) limits.name = bound(limits.name, ceiling->limits.name);
#include "document/limits.def"
#undef LIMIT
	return limits;
}

static uint32_t options_of(const struct policy *policy, const struct policy *ceiling)
{
	const uint32_t narrowing = LAYOUT_OPTION_NAMES_ONLY | LAYOUT_OPTION_ECH_REFUSE;
	const uint32_t widening = LAYOUT_OPTION_RESOLVE | LAYOUT_OPTION_WHY;
	uint32_t options = policy->options | (policy->report ? LAYOUT_OPTION_REPORT : 0u);

	if (ceiling == NULL)
		return options;
	return (options | (ceiling->options & narrowing)) & ~(ceiling->options_off & widening);
}

/* Who is asking. Only what is there is required, so that a quarantined lease stays well formed. */
static void add_guest(struct emitter *e, const struct policy *policy, struct layout_lease *lease)
{
	lease->require = (uint8_t)policy->require;
	if (policy->sources == NULL)
		lease->require &= (uint8_t)~LAYOUT_REQUIRE_SOURCE;
	if (policy->tokens == NULL)
		lease->require &= (uint8_t)~LAYOUT_REQUIRE_TOKEN;
	if (policy->listener[0] == '\0')
		lease->require &= (uint8_t)~LAYOUT_REQUIRE_LISTENER;
	lease->listener = emitter_text(e, policy->listener);
	for (const struct policy_source *s = policy->sources; s != NULL; s = s->next) {
		struct layout_source source = { .family = s->prefix.addr.family, .len = s->prefix.len };

		memcpy(source.octets, s->prefix.addr.octets, sizeof(source.octets));
		emitter_add(e, LAYOUT_SOURCES, &source, 1);
	}
	for (const struct policy_token *t = policy->tokens; t != NULL; t = t->next) {
		struct layout_token token = { .exp_ms = t->exp_ms, .id = emitter_text(e, t->id) };

		memcpy(token.digest, t->sha256, sizeof(token.digest));
		emitter_add(e, LAYOUT_TOKENS, &token, 1);
	}
}

static void add_identity(struct emitter *e, const struct policy *policy, struct layout_lease *lease)
{
	lease->tenant = emitter_text(e, policy->tenant);
	lease->run = emitter_text(e, policy->run);
	lease->environment_class = emitter_text(e, policy->environment_class);
	lease->rev = policy->rev;
	lease->epoch = policy->epoch;
	lease->nbf_ms = policy->nbf_ms;
	lease->exp_ms = policy->exp_ms;
	add_guest(e, policy, lease);
}

enum err emit_lease(const struct policy *policy, const struct policy *ceiling, const struct layout_id *rulesets,
		    size_t ruleset_count, bool rulesets_missing, struct emitted *out_segment)
{
	struct layout_lease lease = { 0 };
	struct emitter e;
	enum err err;

	emitter_init(&e, LAYOUT_LEASE);
	lease.id = emitter_text(&e, policy->name);
	add_identity(&e, policy, &lease);
	lease.state = (uint8_t)(rulesets_missing && policy->state == LAYOUT_LEASE_ACTIVE ? LAYOUT_LEASE_RULESET_MISSING : policy->state);
	lease.scope = (uint8_t)scope_of(policy);
	lease.claimed_scope = (uint8_t)policy->claimed_scope;
	lease.options = options_of(policy, ceiling);
	lease.limits = limits_of(policy, ceiling);
	lease.places = emitter_places(&e, policy->places, policy->place_count);
	add_policies(&e, policy, NULL, 0);
	emitter_add(&e, LAYOUT_RULESETS, rulesets, ruleset_count);
	emitter_add(&e, LAYOUT_LEASES, &lease, 1);
	err = lease.require == 0 ? ERR_INVALID : emitter_seal(&e, out_segment);
	emitter_finish(&e);
	return err;
}

enum err emit_quarantined(const char *lease_id, const struct policy *policy, struct emitted *out_segment)
{
	struct layout_lease lease = { .state = LAYOUT_LEASE_INVALID, .scope = LAYOUT_SCOPE_UNDECLARED };
	struct emitter e;
	enum err err;

	emitter_init(&e, LAYOUT_LEASE);
	lease.id = emitter_text(&e, lease_id);
	if (policy != NULL)
		add_identity(&e, policy, &lease);
	if (lease.require == 0)
		lease.require = LAYOUT_REQUIRE_TOKEN;
	emitter_add(&e, LAYOUT_LEASES, &lease, 1);
	err = emitter_seal(&e, out_segment);
	emitter_finish(&e);
	return err;
}

static void add_exceptions(struct emitter *e, const struct policy *policy)
{
	for (const struct policy_exception *x = policy->exceptions; x != NULL; x = x->next) {
		struct layout_exception exception = { .host = (uint8_t)x->host.host, .line = x->place.line };
		const struct prefix *prefix = x->has_prefix ? &x->prefix : NULL;

		if (prefix != NULL) {
			exception.family = prefix->addr.family;
			exception.prefix_len = prefix->len;
			memcpy(exception.octets, prefix->addr.octets, sizeof(exception.octets));
		}
		if (x->host.host != RULE_HOST_PREFIX)
			exception.name = emitter_text(e, x->host.name.text);
		emitter_add(e, LAYOUT_EXCEPTIONS, &exception, 1);
	}
}

enum err emit_ceiling(const struct policy *policy, const struct policy *const *presets, size_t preset_count,
		      struct emitted *out_segment)
{
	struct emitter e;
	enum err err;

	emitter_init(&e, LAYOUT_CEILING);
	if (policy != NULL) {
		add_policies(&e, policy, presets, preset_count);
		add_exceptions(&e, policy);
	}
	err = emitter_seal(&e, out_segment);
	emitter_finish(&e);
	return err;
}

static int compare_root_leases(const void *a, const void *b)
{
	return strcmp(((const struct emit_root_lease *)a)->id, ((const struct emit_root_lease *)b)->id);
}

enum err emit_root(uint64_t version, uint64_t base, const struct layout_id *ceiling, uint32_t flags,
		   const struct emit_root_lease *leases, size_t lease_count, struct emitted *out_segment)
{
	struct layout_root root = { .version = version, .base = base, .ceiling = *ceiling, .flags = flags };
	struct emit_root_lease *sorted = NULL;
	struct emitter e;
	enum err err = ERR_OK;

	emitter_init(&e, LAYOUT_ROOT);
	emitter_add(&e, LAYOUT_ROOT_INFO, &root, 1);
	if (lease_count > 0) {
		sorted = alloc_array(lease_count, sizeof(*sorted));
		if (sorted == NULL) {
			err = ERR_NO_MEMORY;
			goto out;
		}
		memcpy(sorted, leases, lease_count * sizeof(*sorted));
		qsort(sorted, lease_count, sizeof(*sorted), compare_root_leases);
	}
	for (size_t i = 0; i < lease_count; i++) {
		struct layout_root_lease entry = { .segment = sorted[i].segment };

		if (i > 0 && strcmp(sorted[i - 1].id, sorted[i].id) == 0) {
			err = ERR_EXISTS;
			goto out;
		}
		entry.id = emitter_text(&e, sorted[i].id);
		emitter_add(&e, LAYOUT_ROOT_LEASES, &entry, 1);
	}
	err = emitter_seal(&e, out_segment);
out:
	alloc_free(sorted);
	emitter_finish(&e);
	return err;
}
