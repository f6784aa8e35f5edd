"""Reads `.policy` files into plain rules, as far as the oracle's own policies and the repository's tables use the language. Anything it
does not know is an error here, not a guess. Used by oracle.py."""
import ipaddress
import pathlib
import shlex

DEFAULT_PORT = {"https": 443, "http": 80, "ws": 80, "ssh": 22, "tcp": None}
NAME_CHARS = set("abcdefghijklmnopqrstuvwxyz0123456789-_.")


class Invalid(Exception):
    pass


class Number(Invalid):
    """An address in a spelling that only some would read as one."""


def canonical_name(text):
    """The one canonical form of a name, or Invalid (contract section 1)."""
    if any(ord(c) > 127 for c in text):
        text = ".".join(label if label.isascii() else "xn--" + label.encode("punycode").decode() for label in text.split("."))
    if text.endswith("."):
        text = text[:-1]
    text = text.lower()
    labels = text.split(".")
    if len(text) > 253 or set(text) - NAME_CHARS or any(not 1 <= len(label) <= 63 for label in labels):
        raise Invalid("no name: " + text)
    last = labels[-1]
    if last.isdigit() or (last.startswith("0x") and all(c in "0123456789abcdef" for c in last[2:])):
        raise Number("a number: " + text)
    return text


def read_ports(text):
    ports = []
    for item in text.split(","):
        first, _, last = item.partition("-")
        first, last = int(first), int(last or first)
        if not 1 <= first <= last <= 65535:
            raise Invalid("ports " + text)
        ports.append((first, last))
    return ports


def split_host(text):
    """"host[:ports]" to (host, ports or None)."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        if rest and not rest.startswith(":"):
            raise Invalid(text)
        return host, rest[1:] or None
    host, _, ports = text.partition(":")
    return host, ports or None


class Host:
    """One of: a name, a wildcard below a name, a prefix, anything."""

    def __init__(self, text):
        self.name = self.below = self.prefix = None
        self.any = text == "any"
        if self.any:
            return
        try:
            self.prefix = ipaddress.ip_network(text)
        except ValueError:
            if text.startswith("*."):
                self.below = canonical_name(text[2:])
                if "." not in self.below:
                    raise Invalid("a public suffix: " + text)
            else:
                self.name = canonical_name(text)

    def covers_name(self, name):
        return self.any or name == self.name or (self.below is not None and name.endswith("." + self.below))

    def covers_address(self, address):
        return self.any or (self.prefix is not None and self.prefix.version == address.version and address in self.prefix)


class Rule:
    def __init__(self, allow, text, options):
        self.allow, self.id, self.report, self.placed = allow, None, False, False
        self.scheme = None
        if allow and text != "any":
            self.scheme, mark, text = text.partition("://")
            if not mark or self.scheme not in DEFAULT_PORT:
                raise Invalid("scheme of " + text)
        host, ports = split_host(text)
        self.host = Host(host)
        if self.host.prefix is not None and self.scheme in ("https", "ws"):
            raise Invalid("an address under " + self.scheme)
        if ports is not None:
            self.ports = read_ports(ports)
        elif self.scheme is not None:
            if DEFAULT_PORT[self.scheme] is None:
                raise Invalid("no port: " + text)
            self.ports = [(DEFAULT_PORT[self.scheme],) * 2]
        else:
            self.ports = [(0, 65535)]
        self.read_options(options)

    def read_options(self, words):
        words = list(words)
        while words:
            word = words.pop(0)
            if word == "as":
                self.id = words.pop(0)
            elif word == "note":
                words.pop(0)
            elif word == "report":
                self.report = True
            elif word.startswith(("country=", "asn=")):
                self.placed = True
            elif not word.startswith(("pin=", "ech=")):
                raise Invalid("option " + word)

    def has_port(self, port):
        return any(first <= port <= last for first, last in self.ports)


class Policy:
    def __init__(self):
        self.id, self.mode, self.report, self.names_only = None, "", False, False
        self.placed = False
        self.expires = None
        self.rules, self.uses, self.provisioning, self.exceptions = [], [], [], []
        self.fault = False

    def read(self, text):
        for line in text.splitlines():
            words = shlex.split(line, comments=True)
            if words:
                try:
                    self.statement(words[0], words[1:])
                except (Invalid, ValueError, IndexError):
                    self.fault = True
        return self

    def statement(self, word, values):
        if word in ("allow", "deny"):
            self.rules.append(Rule(word == "allow", values[0], values[1:]))
        elif word == "use":
            self.uses += values
        elif word == "provisioning":
            self.provisioning += values
        elif word == "exception":
            self.exception(values)
        elif word == "mode":
            self.mode = values[0]
        elif word == "enforcement":
            self.report = values[0] == "report"
        elif word == "option":
            for key, value in zip(values[::2], values[1::2]):
                self.names_only |= key == "names_only" and value == "on"
                self.placed |= key in ("country", "asn")
        elif word in ("lease", "tenant", "run", "class", "expires"):
            for key, value in zip([word] + values[1::2], values[::2]):
                self.id = value if key == "lease" else self.id
                self.expires = value if key == "expires" else self.expires
        elif word not in ("guest", "limit"):
            raise Invalid(word)

    def exception(self, values):
        prefixes = [] if len(values) == 1 else [ipaddress.ip_network(p.strip("[]")) for p in values[0].split(",")]
        self.exceptions.append((prefixes, Host(values[-1].strip("[]"))))


class Root:
    """A policy root: leases by id, presets by name, the ceiling."""

    def __init__(self, folder, report_allowed=False):
        folder = pathlib.Path(folder)
        self.report_allowed = report_allowed
        self.ceiling = Policy().read((folder / "ceiling.policy").read_text())
        self.presets = {p.stem: Policy().read(p.read_text()) for p in folder.glob("presets/*.policy")}
        self.ceiling.rules = self.all_rules(self.ceiling, set())
        self.leases = {}
        for path in folder.glob("leases/*.policy"):
            lease = Policy().read(path.read_text())
            lease.rules = self.all_rules(lease, set())
            if lease.mode == "dependency_provisioning":
                for name in self.ceiling.provisioning:
                    lease.rules = lease.rules + self.all_rules(self.presets[name], {name})
            lease.fault |= not report_allowed and (lease.report or any(r.report for r in lease.rules))
            self.leases[lease.id] = lease

    def all_rules(self, policy, seen):
        rules = list(policy.rules)
        for name in policy.uses:
            if name not in seen:
                seen.add(name)
                rules += self.all_rules(self.presets[name], seen)
        return rules
