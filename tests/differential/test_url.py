#!/usr/bin/env python3
"""
Wherever our reader says where a Location leads, a browser's (the URL Standard) and a library's (RFC 3986, Python's) lead to the same scheme,
host and port, or fail. test_url.py [COUNT [SEED]].
"""
import ipaddress
import os
import random
import subprocess
import sys
from pathlib import Path
from urllib.parse import urljoin, urlsplit

HERE = Path(__file__).parent
BUILD = Path(os.environ.get("EGRESS_BUILDDIR", "."))
BASE = "http://a.test/d/x"
PORTS = {"http": 80, "https": 443, "ws": 80, "ssh": 22}
PARTS = [b"http:", b"https:", b"HTTP:", b"ws:", b"javascript:", b"ftp:", b"x:", b"//", b"/", b"/", b"\\", b"///", b"a.test", b"b.test", b"B.Test", b"b.test.",
         b"b.test..", b"127.0.0.1", b"127.1", b"0x7f.1", b"2130706433", b"1.2.3.4.5", b"[::1]", b"[::ffff:127.0.0.1]", b"[::1%25lo]", b"@", b":", b":80", b":443",
         b":0080", b":", b":65536", b":+80", b"?", b"#", b"?q=//b.test", b"#@b.test", b".", b"..", b"/../", b"/./", b"%2e", b"%2e%2e", b"%2f", b"%5c", b"%00",
         b"%40", b"path", b" ", b"\t", b"\r", b"\n", b"\x00", b"\x7f", b"\xe9", b"\xc3\xa9", b"\xe3\x80\x82", b"u", b"u:p@", b";", b"_", b"-", b"xn--bcher-kva", b"*", b"|",
         b"^", b"<", b"'", b'"', b"`", b"{", b"&", b"=", b",", b"+", b"!", b"~", b"()"]
PLAIN = [b"http://b.test/x", b"https://b.test:444/", b"//b.test/y?z#w", b"/next", b"next/page", b"?q", b"#f", b"", b"http://127.0.0.1:81/", b"../up", b"http://[::1]/"]


def references(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        if rng.random() < 0.3:
            yield rng.choice(PLAIN)
        elif rng.random() < 0.5:
            data = bytearray(rng.choice(PLAIN))
            for _ in range(rng.randint(1, 2)):
                at = rng.randint(0, len(data))
                data[at:at + rng.choice([0, 0, 1])] = rng.choice(PARTS)
            yield bytes(data)
        else:
            yield b"".join(rng.choice(PARTS) for _ in range(rng.randint(1, 7)))


def by_python(reference):
    try:
        parts = urlsplit(urljoin(BASE, reference.decode("latin-1")))
        host = (parts.hostname or "").removesuffix(".")
        user = " user" if parts.username is not None else ""
        return f"{parts.scheme} {host} {parts.port if parts.port is not None else PORTS.get(parts.scheme, 0)}{user}"
    except ValueError:
        return "-"


def same(where):
    """One spelling of each address."""
    words = where.split(" ")
    if len(words) > 1 and ":" in words[1]:
        words[1] = str(ipaddress.ip_address(words[1]))
    return " ".join(words)


def by_program(*words, stream):
    return subprocess.run([str(w) for w in words], input=stream, stdout=subprocess.PIPE, check=True, text=True, timeout=500).stdout.splitlines()


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    inputs = list(references(seed, count))
    stream = "".join(r.hex() + "\n" for r in inputs)
    ours = by_program(BUILD / "tests/differential/read_url", stream=stream)
    browser = by_program("node", HERE / "read_url.js", stream=stream)
    taken = [i for i, where in enumerate(ours) if where != "-"]
    faults = []
    for i in taken:
        for name, theirs in (("browser", browser[i]), ("python", by_python(inputs[i]))):
            if theirs != "-" and same(theirs) != same(ours[i]):
                faults.append(f"{inputs[i]!r}: ours {ours[i]}, {name} {theirs}")
    print("\n".join(sorted(set(faults))[:20]))
    print(f"{count} references, {len(taken)} understood, {len(faults)} led elsewhere")
    assert len(taken) > count // 4, "too little was compared"
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
