"""What an address is, by walking the tables of policy/addresses row by row. Slow on purpose: no index, no bucket, nothing shared with
the C classifier but the tables themselves. Used by oracle.py."""
import ipaddress
import pathlib

FLOOR = {"own", "metadata", "loopback", "unspecified"}
REOPENABLE = {"private", "shared", "link_local", "unique_local", "documentation", "benchmark", "protocol", "anycast", "multicast",
              "reserved"}


class Finding:
    def __init__(self, word, inner=None, declared=False):
        self.word, self.inner, self.declared = word, inner, declared


def rows_of(path, columns):
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            cells = [cell.strip() for cell in line.split("|")]
            assert len(cells) == columns, line
            yield cells


class Tables:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.rows = [(ipaddress.ip_network(prefix), word) for name in ("ipv4.txt", "ipv6.txt", "metadata.txt")
                     for prefix, word, _, _ in rows_of(folder / name, 4)]
        names = (folder.parent / "ech_public_names").read_text().splitlines()
        self.ech_public = {line for line in names if line and not line.startswith("#")}
        self.forms = [(ipaddress.ip_network(prefix), int(at), inverted == "inverted")
                      for prefix, at, inverted, _ in rows_of(folder / "embedded.txt", 4)]

    def row(self, address):
        """The most specific row that holds the address: (prefix, class) or None."""
        best = None
        for prefix, word in self.rows:
            if prefix.version == address.version and address in prefix and (best is None or prefix.prefixlen > best[0].prefixlen):
                best = (prefix, word)
        if best is None and address.version == 6 and address not in ipaddress.ip_network("2000::/3"):
            return (ipaddress.ip_network("::/0"), "reserved")
        return best


class Site:
    """What the operator declared: the host's own networks and NAT64 prefixes."""

    def __init__(self, own=(), nat64=()):
        self.own = [ipaddress.ip_network(p) for p in own]
        self.nat64 = [ipaddress.ip_network(p) for p in nat64]

    def owns(self, address):
        return any(p.version == address.version and address in p for p in self.own)


def plain_word(address, tables, site):
    row = tables.row(address)
    if row is not None and row[1] in ("loopback", "unspecified"):
        return row[1]
    if site.owns(address):
        return "own"
    return "public" if row is None else row[1]


def octets_behind(address, prefix_len):
    """RFC 6052: the four octets follow the prefix but for octet 8, which is zero like all that comes after; None if not so."""
    octets = address.packed
    if octets[8] != 0:
        return None
    rest = [octets[i] for i in range(prefix_len // 8, 16) if i != 8]
    if any(rest[4:]):
        return None
    return ipaddress.IPv4Address(bytes(rest[:4]))


def classify(address, tables, site):
    word = plain_word(address, tables, site)
    if address.version == 4 or word in FLOOR:
        return Finding(word)
    declared = [p for p in site.nat64 if address in p]
    if declared:
        inner = octets_behind(address, max(p.prefixlen for p in declared))
        if inner is None:
            return Finding("invalid")
        return Finding(plain_word(inner, tables, site), inner, True)
    row = tables.row(address)
    octets = address.packed
    for prefix, at, inverted in tables.forms:
        if row is not None and row[0] == prefix:
            four = bytes(octet ^ (255 if inverted else 0) for octet in octets[at:at + 4])
            return wrapped(ipaddress.IPv4Address(four), row[1], tables, site)
    if (word == "public" or word in REOPENABLE) and octets[8:12] in (b"\0\0\x5e\xfe", b"\2\0\x5e\xfe"):
        inner = ipaddress.IPv4Address(octets[12:])
        if plain_word(inner, tables, site) != "public":
            return wrapped(inner, "embedded", tables, site)
    return Finding(word)


def wrapped(inner, word, tables, site):
    """A form that only wraps an address is refused; what lies on the floor also gives it its name."""
    inside = plain_word(inner, tables, site)
    return Finding(inside if inside in FLOOR else word, inner)
