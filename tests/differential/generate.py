"""Requests and responses from a seed: plain ones, odd ones and hostile ones. Each is followed by a marker message, so that readers which see
the end of the first at different places see different second ones."""
import random

# What may stand in a place: plain, and odd.
METHODS = [b"GET", b"GET", b"POST", b"HEAD", b"PUT", b"OPTIONS", b"DELETE", b"PATCH"], [b"get", b"M-SEARCH", b"QUERY", b"CONNECT", b"PRI", b"G\tT", b""]
HOSTS = [b"a.test", b"a.test:80", b"A.Test"], [b"a.test.", b"b.test", b"", b"a.test, b.test", b"a@b.test", b"[::1]", b"a.test:080"]
TARGETS = [b"/", b"/x?y=z", b"//b.test/", b"http://a.test/"], [b"http://b.test/", b"*", b"a.test:80", b"/#f", b"", b"/\xe9", b"/a b", b"\\x"]
VERSIONS = [b"HTTP/1.1"] * 9 + [b"HTTP/1.0"], [b"HTTP/0.9", b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"HTTP/1.10", b"HTTP/ 1.1", b""]
BLANKS = [b" "], [b"  ", b"\t", b" \t"]
ENDS = [b"\r\n"], [b"\n", b"\r", b"\r\r\n", b"\n\r", b" \r\n", b"\r\n ", b"\x00\r\n", b"\x0b\r\n", b"\x85\r\n"]
COLONS = [b": ", b": ", b":"], [b":\t", b" : ", b"\t: ", b":  ", b" :", b"", b"::", b":\r\n "]
LENGTHS = [b"%d"], [b"0%d", b"+%d", b"-%d", b"%d, %d", b"%d ", b"0x%d", b"%d.0", b"1%d", b"", b"9" * 25, b"%d\t", b"%d;x", b'"%d"']
CODINGS = [b"chunked"], [b"Chunked", b"chunked, chunked", b"identity", b"gzip, chunked", b"chunked, identity", b"xchunked", b"chunked;q=1", b"\x0bchunked",
                         b"", b"chunked,", b",chunked", b"gzip", b"chunked "]
SIZES = [b"%x", b"%X", b"0%x"], [b"+%x", b" %x", b"0x%x", b"%x ", b"%xg", b"-%x", b"%x\t"]
EXTENSIONS = [b"", b"", b";a=b", b";a"], [b' ;a="b"', b";", b"; a=\"\r\n\"", b"\x00", b";\n", b";" + b"e" * 300]
LAST_SIZES = [b"0", b"0", b"00", b"0;x"], [b"0 ", b"", b"-0"]
TRAILERS = [b"", b"", b"X: y\r\n"], [b"Host: b.test\r\n", b"Content-Length: 9\r\n", b"Location: http://b.test/\r\n", b" folded\r\n", b"X: y\n", b"bad\r\n"]
OTHERS = [b"Accept: */*", b"X-Y: z", b"Cookie: a=b", b"X:y", b"Trailer: X", b"X: " + b"y" * 300, b"X-Forwarded-Host: b.test", b"TE: trailers", b"X: \xff"], [
    b"Connection: close", b"Connection: keep-alive", b"Connection: Host", b"Connection: , close", b"Transfer-encodinG: chunked", b"Content_Length: 3",
    b"Expect: 100-continue", b"Content-Length : 3", b"Upgrade: websocket", b"Connection: upgrade", b"Host : b.test", b"X\x00: y", b"X: \x00", b"X: \x7f",
    b"X\xff: y", b": empty", b"no colon here", b" leading: blank", b"(odd): name"]
STATUSES = [200, 200, 200, 201, 204, 301, 302, 303, 304, 307, 308, 404, 500], [399, 100, 103, 101, 999, 99, 600]
REASONS = [b" OK", b" OK", b" Not Found"], [b"", b" ", b" Not\tFound", b" \xe9", b"  two", b" a\x00b", b" a\rb"]
LOCATIONS = [b"http://a.test/", b"/next", b"//b.test/", b"http://b.test:81/x", b"?q"], [b"https://u@b.test/", b"", b"\\\\b.test", b"http://a.test/ b", b"x:y"]


class Maker:
    """Takes from the odd as often as this message is odd."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.oddness = 0.0

    def begin(self):
        self.oddness = self.rng.choice([0.0, 0.0, 0.01, 0.03, 0.1])

    def happens(self):
        return self.rng.random() < self.oddness

    def pick(self, choices):
        plain, odd = choices
        return self.rng.choice(odd if self.happens() else plain)


def chunked(m, body):
    """The body in chunks."""
    out, at = b"", 0
    while at < len(body):
        size = m.rng.randint(1, len(body) - at)
        out += m.pick(SIZES) % size + m.pick(EXTENSIONS) + m.pick(ENDS) + body[at:at + size] + m.pick(ENDS)
        at += size
    return out + m.pick(LAST_SIZES) + m.pick(ENDS) + m.pick(TRAILERS) + m.pick(ENDS)


def framing(m, fields):
    """A body, and fields that say where it ends: one way, or two ways at once."""
    body = bytes(m.rng.choice(b"abc\r\n0GET ") for _ in range(m.rng.randint(0, 30)))
    how = m.rng.choice(["none", "length", "chunked"])
    if how == "none":
        return body if m.happens() else b""
    if how == "length" or m.happens():
        shown = m.rng.randint(0, 50) if m.happens() else len(body)
        fields.append(b"Content-Length" + m.pick(COLONS) + m.pick(LENGTHS).replace(b"%d", b"%d" % shown))
        if m.happens():
            fields.append(b"Content-Length: %d" % m.rng.choice([shown, shown + 1]))
    if how == "chunked":
        fields.append(b"Transfer-Encoding" + m.pick(COLONS) + m.pick(CODINGS))
        if m.happens():
            fields.append(b"Transfer-Encoding: chunked")
        body = chunked(m, body)
    return body


def spoil(m, message):
    """Now and then, a few bytes that no template has."""
    if not m.happens() and not m.happens():
        return message
    data = bytearray(message)
    for _ in range(m.rng.randint(1, 3)):
        at = m.rng.randrange(len(data))
        how = m.rng.random()
        if how < 0.4:
            data[at] = m.rng.choice(b"\x00\t\n\r :;,/\x7f\x80\xffaA0")
        elif how < 0.7:
            data.insert(at, m.rng.choice(b"\x00\t\n\r :;,0"))
        else:
            del data[at]
    return bytes(data)


def lines(m, first, fields):
    m.rng.shuffle(fields)
    return b"".join(line + m.pick(ENDS) for line in [first, *fields]) + m.pick(ENDS)


def request(m):
    fields = [m.rng.choice([b"Host", b"host", b"HOST"]) + m.pick(COLONS) + m.pick(HOSTS)]
    if m.happens():
        fields = fields * m.rng.choice([0, 2])
    body = framing(m, fields)
    fields += [m.pick(OTHERS) for _ in range(m.rng.randint(0, 3))]
    first = m.pick(METHODS) + m.pick(BLANKS) + m.pick(TARGETS) + m.pick(BLANKS) + m.pick(VERSIONS)
    return spoil(m, lines(m, first, fields) + body)


def response(m):
    fields = []
    body = framing(m, fields)
    fields += [m.pick(OTHERS) for _ in range(m.rng.randint(0, 3))]
    status = m.pick(STATUSES)
    if status == 204 and not m.happens():
        body, fields = b"", []  # a body is forbidden there
    for _ in range(m.rng.choice([0, 1, 1 + m.happens()])):
        fields.append(m.rng.choice([b"Location", b"location"]) + m.pick(COLONS) + m.pick(LOCATIONS))
    return spoil(m, lines(m, m.pick(VERSIONS) + b" %d" % status + m.pick(REASONS), fields) + body)


def frames(seed, count):
    """(kind, asked, bytes) for `count` requests and `count` responses."""
    m, out = Maker(seed), []
    for number in range(count):
        m.begin()
        out.append((b"q", b"G", request(m) + b"GET /marker-%d HTTP/1.1\r\nHost: marker.test\r\n\r\n" % number))
        out.append((b"s", m.rng.choice([b"G", b"G", b"G", b"H"]), response(m) + b"HTTP/1.1 200 Marker\r\nContent-Length: 0\r\nX-Marker: %d\r\n\r\n" % number))
    return out
