"""The whole decision, a second time: lease, ceiling, target and DNS answers to a verdict, in plain lists and sets, written from the
contract. Knows no index and no segment; if it and the product differ, one of them is wrong."""
import ipaddress

import addresses as addr
from policy_text import DEFAULT_PORT, Invalid, Number, canonical_name, split_host

# The order of the reasons is their precedence (contract section 5), as far as they occur here.
ORDER = ["lease_expired", "policy_invalid", "scope_undeclared", "scope_none", "literal_in_name", "name_invalid", "name_special", "own_address", "metadata_address",
         "special_address", "rule_deny", "ceiling_deny", "literal_not_listed", "port_not_allowed", "no_rule", "scheme_not_allowed",
         "geo_unavailable", "allowed"]
METADATA_NAMES = ["metadata", "metadata.google.internal", "metadata.goog", "metadata.azure.internal", "metadata.azure.com",
                  "metadata.tencentyun.com", "metadata.platformequinix.com", "metadata.packet.net", "instance-data",
                  "instance-data.ec2.internal", "rancher-metadata"]
SPECIAL_NAMES = ["localhost", "local", "internal", "home.arpa", "arpa", "onion", "invalid"]
ALL_SCHEMES = set(DEFAULT_PORT)
NOW = "2026-11-30"


def within(name, suffixes):
    return any(name == s or name.endswith("." + s) for s in suffixes)


class Verdict:
    def __init__(self, reason, would_deny=False, rules=None, schemes=frozenset(), dropped=False):
        self.allow = reason == "allowed" or would_deny
        self.reason, self.would_deny, self.schemes, self.dropped = reason, would_deny, set(schemes), dropped
        self.rules = rules  # the rules of which the first may be named; None: none is named


class Target:
    def __init__(self, text):
        """"scheme://host[:port][/path]" or "host:port"; Invalid otherwise."""
        scheme, mark, rest = text.partition("://")
        if not mark:
            scheme, rest = None, text
        elif scheme not in DEFAULT_PORT:
            raise Invalid("scheme")
        else:
            for end in "/?#":
                rest = rest.split(end)[0]
        host, port = split_host(rest)
        port = port or (DEFAULT_PORT[scheme] if scheme else None)
        if port is None or not str(port).isdigit() or not 1 <= int(port) <= 65535 or not host:
            raise Invalid("port")
        self.scheme, self.port, self.name, self.address = scheme, int(port), None, None
        try:
            self.address = ipaddress.ip_address(host)
        except ValueError:
            self.name = canonical_name(host)
        if self.address is not None and scheme in ("https", "ws"):
            self.scheme = None  # no rule can be written so; explain asks for the address alone


def faulty_name(text):
    """The reason for a host that no guest may ask for, whatever the rules say; Invalid when this is no target at all."""
    scheme, mark, rest = text.partition("://")
    port = None
    if not mark:
        rest = text
        if "/" in text:
            raise Invalid(text)
    elif scheme in DEFAULT_PORT:
        port = DEFAULT_PORT[scheme]
        for end in "/?#":
            rest = rest.split(end)[0]
    else:
        raise Invalid("scheme")
    host, _, digits = rest.rpartition(":")
    if host and digits.isdigit() and 1 <= int(digits) <= 65535:
        port = int(digits)
    else:
        host = rest
    if port is None or not host or ":" in host or "@" in host:
        raise Invalid(text)
    try:
        canonical_name(host)
    except Number:
        return "literal_in_name"
    except Invalid:
        return "name_invalid"
    raise Invalid(text)


class Oracle:
    def __init__(self, root, tables, site):
        self.root, self.tables, self.site = root, tables, site
        self.ech_public = tables.ech_public

    # --- lease and target -----------------------------------------------------------------------------------------------------

    def lease_reason(self, lease):
        found = []
        if lease.expires is not None and lease.expires < NOW:
            found.append("lease_expired")
        if lease.fault or self.root.ceiling.fault:
            found.append("policy_invalid")
        if lease.mode == "deny_all":
            found.append("scope_none")
        elif lease.mode not in ("allowlist", "dependency_provisioning"):
            found.append("scope_undeclared")
        return min(found, key=ORDER.index, default="allowed")

    def host_is_excepted(self, host, target):
        if target.name is None:
            return host.prefix is not None and host.covers_address(target.address)
        return host.prefix is None and host.covers_name(target.name)

    def name_reason(self, target):
        if within(target.name, METADATA_NAMES):
            return "name_special"
        if "." in target.name and not within(target.name, SPECIAL_NAMES):
            return "allowed"
        excepted = any(self.host_is_excepted(host, target) for _, host in self.root.ceiling.exceptions)
        return "allowed" if excepted else "name_special"

    def address_reason(self, target, address, finding):
        if finding.word == "public":
            return "allowed"
        if finding.word in ("own", "metadata"):
            return finding.word + "_address"
        if finding.word in addr.REOPENABLE:
            judged = finding.inner if finding.declared else address
            for prefixes, host in self.root.ceiling.exceptions:
                inside = any(p.version == judged.version and judged in p for p in prefixes)
                if target.name is None:
                    # Written for addresses, it holds where both prefixes do.
                    inside = inside and host.prefix is not None and host.covers_address(judged)
                else:
                    inside = inside and self.host_is_excepted(host, target)
                if inside:
                    return "allowed"
        return "special_address"

    # --- rules ----------------------------------------------------------------------------------------------------------------

    def covers(self, rule, target):
        return rule.host.covers_name(target.name) if target.name is not None else rule.host.covers_address(target.address)

    def lets(self, rule, target):
        """As covers, for allow rules: no wildcard covers a name that only stands before an encrypted one."""
        if target.name in self.ech_public and rule.host.below is not None:
            return False
        return self.covers(rule, target)

    def denies(self, rules, target, address, finding):
        """Deny rules that apply: those of the host, and of each address that it would come to."""
        found = []
        for rule in rules:
            if rule.allow or not rule.has_port(target.port):
                continue
            also = []
            if address is not None:
                also.append(address)
                if finding.inner is not None:
                    also.append(finding.inner)
            if self.covers(rule, target) or any(rule.host.covers_address(a) for a in also):
                found.append(rule)
        return found

    def rules_say(self, lease, target, scheme, address, finding):
        """The groups rule and place, for the request, one address of it, or its bytes of a known scheme."""
        ceiling = self.root.ceiling.rules
        reports = lease.report and self.root.report_allowed
        listed = [r for r in lease.rules if r.allow and self.lets(r, target)]
        here = [r for r in listed if r.has_port(target.port)]
        typed = [r for r in here if r.scheme != "tcp" and not r.report]
        opaque = [r for r in here if r.scheme == "tcp" and not r.report]
        typed_reported = [r for r in here if r.scheme != "tcp" and r.report]
        opaque_reported = [r for r in here if r.scheme == "tcp" and r.report]
        denies = self.denies(lease.rules, target, address, finding)
        enforced_denies = [r for r in denies if not r.report]

        # Typed candidates beat tcp ones; enforce goes before report.
        if typed:
            candidates = typed + typed_reported
        else:
            candidates = opaque or typed_reported or opaque_reported
        schemes = {r.scheme for r in candidates}
        if scheme is not None and schemes and schemes != {"tcp"}:
            schemes = self.narrow(schemes, scheme)

        if enforced_denies:
            why = "rule_deny"
        elif target.name is None and lease.names_only:
            why = "literal_not_listed"
        elif not candidates:
            why = self.unlisted(target, listed)
        else:
            why = "allowed" if schemes else "scheme_not_allowed"

        # The ceiling must let in one of the candidates; without any, whatever was asked for.
        wanted = schemes or ({scheme} if scheme else ALL_SCHEMES)
        ceiling_denies = self.denies(ceiling, target, address, finding)
        open_rules = [r for r in ceiling if r.allow and not r.report and self.lets(r, target) and r.has_port(target.port)]
        covered = set().union(*(self.scheme_cover(r) for r in open_rules)) & wanted

        if why == "rule_deny" and not reports:
            return Verdict(why, rules=enforced_denies)
        if ceiling_denies or not covered:
            return Verdict("ceiling_deny", rules=ceiling_denies or None)
        if why != "allowed" and not reports:
            return Verdict(why)
        would = "allowed"
        if why != "allowed":
            would = why
        elif [r for r in denies if r.report]:
            would = "rule_deny"
        elif not typed and not opaque:
            would = self.unlisted(target, [r for r in listed if not r.report])
        elif scheme is not None and typed and not schemes & {r.scheme for r in typed}:
            would = "scheme_not_allowed"
        placed = [r for r in candidates + [r for r in open_rules if self.scheme_cover(r) & wanted] if r.placed]
        if (placed or lease.placed) and address is not None:
            return Verdict("geo_unavailable")
        named = denies if would == "rule_deny" else candidates or None
        return Verdict(would, would != "allowed", named, {"tcp"} if "tcp" in covered else covered)

    def narrow(self, schemes, scheme):
        if scheme in schemes:
            return {scheme}
        return schemes & {"ws"} if scheme == "http" else set()

    def scheme_cover(self, rule):
        return ALL_SCHEMES if rule.scheme in (None, "tcp") else {rule.scheme}

    def unlisted(self, target, listed):
        if listed:
            return "port_not_allowed"
        return "no_rule" if target.name is not None else "literal_not_listed"

    # --- the phases -----------------------------------------------------------------------------------------------------------

    def request(self, lease, target):
        reason = self.lease_reason(lease)
        finding = None
        if reason == "allowed" and target.name is not None:
            reason = self.name_reason(target)
        elif reason == "allowed":
            finding = addr.classify(target.address, self.tables, self.site)
            reason = self.address_reason(target, target.address, finding)
        if reason != "allowed":
            return Verdict(reason)
        return self.rules_say(lease, target, None, target.address, finding)

    def one_address(self, lease, target, request, address):
        finding = addr.classify(address, self.tables, self.site)
        reason = self.address_reason(target, address, finding)
        if reason != "allowed":
            return Verdict(reason), finding
        verdict = self.rules_say(lease, target, None, address, finding)
        if verdict.allow and request.would_deny:
            verdict = Verdict(min(verdict.reason, request.reason, key=ORDER.index), True, verdict.rules, verdict.schemes)
        return verdict, finding

    def stream(self, lease, target, so_far):
        """A guest that keeps to the scheme: its bytes are of it and name the target."""
        seen = "http" if target.scheme == "ws" else target.scheme
        schemes = so_far.schemes
        if schemes != {"tcp"}:
            schemes = schemes & ({"http", "ws"} if seen == "http" else {seen})
            if seen == "tcp":
                schemes = set()
        finding = None if target.name is not None else addr.classify(target.address, self.tables, self.site)
        if not schemes:
            verdict = self.rules_say(lease, target, seen, target.address, finding)
            if not (verdict.allow and verdict.would_deny):
                return Verdict("scheme_not_allowed")
        else:
            # Bytes choose among what lease and ceiling both let in: HTTP where only a WebSocket may be opened goes on as one.
            scheme = seen if seen in schemes else next(iter(schemes))
            verdict = self.rules_say(lease, target, scheme, target.address, finding)
            if verdict.allow and target.scheme == "ws" and not schemes & {"ws", "tcp"}:
                return Verdict("scheme_not_allowed")  # its bytes are HTTP until the answer that switches, which is refused
        if verdict.allow and so_far.would_deny:
            verdict = Verdict(min(verdict.reason, so_far.reason, key=ORDER.index), True, verdict.rules, verdict.schemes)
        return verdict

    def decide(self, lease_id, text, answers=()):
        """The last word on a target whose name resolved to `answers`."""
        lease = self.root.leases[lease_id]
        try:
            target = Target(text)
        except Invalid:
            return Verdict(min(faulty_name(text), self.lease_reason(lease), key=ORDER.index))
        verdict = request = self.request(lease, target)
        if not request.allow:
            return request
        answers = [target.address] if target.address is not None else [ipaddress.ip_address(a) for a in answers]
        judged = [(a,) + self.one_address(lease, target, request, a) for a in answers]
        v4 = [v for a, v, _ in judged if a.version == 4]
        if v4 and all(v.allow for v in v4):
            # An undeclared NAT64 answer beside a passing A set is dropped.
            judged = [(a, v, f) for a, v, f in judged if v.allow or f.word != "nat64"]
        refused = [v for _, v, _ in judged if not v.allow]
        if refused:
            return min(refused, key=lambda v: ORDER.index(v.reason))
        if judged:
            # What one address would be denied for is told of all; the strongest reason speaks.
            verdict = min((v for _, v, _ in judged), key=lambda v: ORDER.index(v.reason))
            verdict.schemes = set.intersection(*(v.schemes for _, v, _ in judged))
        if target.scheme is None:
            return verdict
        return self.stream(lease, target, verdict)
