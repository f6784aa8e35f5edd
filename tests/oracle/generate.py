"""Policies and questions out of a seed, from so small an alphabet that rules meet, hide and contradict each other all the time. Used by
test_oracle.py; makes only what the language allows, but for a few faults on purpose."""
import ipaddress

NAMES = ["a.test", "b.a.test", "c.b.a.test", "x.a.test", "b.test", "ab.test", "a.example", "b.a.example",
         "public.tls-ech.dev", "x.tls-ech.dev"]
SPECIAL = ["single", "box.local", "a.internal", "b.a.internal", "x.home.arpa", "a.localhost", "onion.onion"]
METADATA = ["metadata.google.internal", "x.metadata.google.internal", "instance-data", "metadata.azure.com"]
NETS = ["93.184.0.0/16", "93.184.216.0/24", "93.184.216.34/32", "8.8.8.0/24", "8.8.8.8/32", "10.0.0.0/8", "10.20.0.0/16",
        "192.168.0.0/16", "100.64.0.0/10", "0.0.0.0/0", "2600::/12", "2600:1406::/32", "2600:1406::1/128", "fd00:20::/32", "::/0"]
EXCEPTIONS = ["10.20.0.0/16", "10.0.0.0/8", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "fd00:20::/32", "fc00::/7",
              "203.0.113.0/24", "2001:db8::/32", "240.0.0.0/4"]
ADDRESSES = ["93.184.216.34", "93.184.216.35", "93.184.1.1", "8.8.8.8", "8.8.8.9", "1.1.1.1", "10.20.1.1", "10.1.1.1",
             "192.168.1.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "0.0.0.0", "169.254.1.1", "169.254.169.254", "168.63.129.16",
             "203.0.113.9", "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.0.9",
             "2600:1406::1", "2600:1406::2", "2600::1", "2a00::1", "::1", "::", "::ffff:93.184.216.34", "::ffff:127.0.0.1",
             "64:ff9b::5db8:d822", "64:ff9b::a14:101", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:5db8:d822::1",
             "2002:7f00:1::1", "2001:0:1:2:3:4:a247:27dd", "fd00:20::1", "fd00:21::1", "fd00:ec2::254", "fe80::1", "ff02::1",
             "2001:db8::1", "2600::5efe:a14:101", "2600::200:5efe:a9fe:a9fe", "2600::5efe:5db8:d822", "2600:64::5db8:d822",
             "2600:64::a14:101", "2600:64::0:1:0:0", "3fff::1", "5f00::1", "4000::1"]
PORTS = [22, 80, 443, 8080, 25]
SCHEMES = ["https", "http", "ws", "ssh", "tcp"]
DEFAULT = {"https": 443, "http": 80, "ws": 80, "ssh": 22}


def bracketed(net):
    return f"[{net}]" if ":" in net else net


def host(rng, special):
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(NAMES)
    if kind < 0.7:
        return "*." + rng.choice(["a.test", "b.a.test", "a.example", "tls-ech.dev"])
    if kind < 0.8 and special:
        return rng.choice(SPECIAL[1:])
    return None


def ports(rng):
    some = rng.sample(PORTS, rng.randint(1, 2))
    if rng.random() < 0.3:
        some.append("%d-%d" % tuple(sorted(rng.sample([1, 79, 80, 442, 443, 8000, 8080, 65535], 2))))
    return ",".join(map(str, some))


def allow(rng, ceiling, report):
    scheme = rng.choice(SCHEMES)
    where = host(rng, True)
    if where is None and scheme in ("https", "ws"):
        scheme = rng.choice(["http", "ssh", "tcp"])
    where = where or bracketed(rng.choice(NETS))
    line = f"allow {scheme}://{where}"
    if scheme == "tcp" or rng.random() < 0.4:
        line += ":" + ports(rng)
    return line + options(rng, report and not ceiling)


def deny(rng, ceiling, report):
    line = "deny " + (host(rng, True) or bracketed(rng.choice(NETS[1:9] + NETS[10:-1])))
    if rng.random() < 0.5:
        line += ":" + ports(rng)
    return line + (" report" if report and not ceiling and rng.random() < 0.3 else "")


def options(rng, report):
    line = ""
    if rng.random() < 0.06:
        line += rng.choice([" country=DE", " asn=64500"])
    if rng.random() < 0.2:
        line += rng.choice([" pin=lease", " pin=connection", " ech=refuse"])
    if report and rng.random() < 0.25:
        line += " report"
    return line


def rules(rng, count, ceiling, report):
    lines = []
    for _ in range(count):
        line = deny(rng, ceiling, report) if rng.random() < 0.15 else allow(rng, ceiling, report)
        head, *rest = line.split(" ")
        lines.append(" ".join([head] + rest[:1] + [f"as r{len(lines)}"] + rest[1:]))
    return lines


def ceiling(rng):
    lines = ["allow any as any"] if rng.random() < 0.7 else []
    lines += rules(rng, rng.randint(0 if lines else 3, 8), True, False)
    for _ in range(rng.randint(0, 4)):
        prefix = rng.choice(EXCEPTIONS)
        who = host(rng, True)
        if who is None:
            inner = ipaddress.ip_network(prefix)
            who = str(rng.choice(list(inner.subnets(prefixlen_diff=1)))) if rng.random() < 0.6 else prefix
            who = bracketed(who)
        lines.append(f"exception {prefix} for {who}")
    if rng.random() < 0.5:
        lines.append("exception " + rng.choice(SPECIAL))
    if rng.random() < 0.5:
        lines.append("provisioning p0")
    return lines


def lease(rng, number, report):
    mode = rng.choices(["allowlist", "dependency_provisioning", "deny_all", "whatever"], [30, 4, 1, 1])[0]
    lines = [f"lease l{number}", "guest require source", f"guest source 192.0.2.{number + 1}", f"mode {mode}"]
    if rng.random() < 0.03:
        lines.append("expires 2020-01-01T00:00:00Z")
    if report and rng.random() < 0.3:
        lines.append("enforcement report")
    if rng.random() < 0.2:
        lines.append("use p%d" % rng.randint(0, 1))
    if rng.random() < 0.15:
        lines.append("option names_only on")
    if rng.random() < 0.04:
        lines.append("option country DE")
    lines += rules(rng, rng.randint(0, 10), False, report)
    if rng.random() < 0.03:
        lines.append(rng.choice(["allow https://*.com", "deny", "allow ftp://a.test", "allow tcp://a.test"]))
    return lines


def write_root(rng, folder, leases, report):
    """A whole root; returns its leases: id to lines."""
    (folder / "leases").mkdir()
    (folder / "presets").mkdir()

    def put(path, lines):
        (folder / path).write_text("\n".join(lines) + "\n")

    put("ceiling.policy", ceiling(rng))
    put("presets/p0.policy", rules(rng, 3, False, False))
    put("presets/p1.policy", ["use p0"] + rules(rng, 2, False, False))
    made = {f"l{number}": lease(rng, number, report) for number in range(leases)}
    for name, lines in made.items():
        put(f"leases/{name}.policy", lines)
    return made


def spelled(rng, name):
    """The same name, as guests also write it."""
    if rng.random() < 0.15:
        name = "".join(c.upper() if rng.random() < 0.5 else c for c in name)
    return name + "." if rng.random() < 0.1 else name


def meant(rng, lines):
    """A target that one of the lease's rules was written for; None without one."""
    allows = [line.split()[1] for line in lines if line.startswith("allow ") and "://" in line]
    if not allows:
        return None
    scheme, _, rest = rng.choice(allows).partition("://")
    where, colon, port = rest.rpartition(":")
    if not colon or where.count("[") != where.count("]"):
        where, port = rest, ""
    where = where.replace("*.", rng.choice(["w.", "w.w."])).split("/")[0]
    where += "]" if where.startswith("[") and not where.endswith("]") else ""
    port = port.replace("-", ",").split(",")[0]
    return f"{scheme}://{spelled(rng, where) if where[0].isalpha() else where}" + (f":{port}" if port else "")


def question(rng, leases):
    """A lease, a target and what its name resolved to."""
    lease_id = rng.choice(list(leases))
    kind = rng.random()
    if kind < 0.68:
        where = spelled(rng, rng.choice(NAMES) if rng.random() < 0.8 else "y." + rng.choice(NAMES))
    elif kind < 0.78:
        where = spelled(rng, rng.choice(SPECIAL + METADATA))
    elif kind < 0.98:
        where = bracketed(rng.choice(ADDRESSES))
    else:
        where = rng.choice(["1.2.3", "0x7f.1", "a..test", "a_b.test", "-a.test", "x" * 64 + ".test", "2130706433", "a.test:0", "a b.test"])
    scheme = rng.choice(SCHEMES + [None])
    text = where if scheme is None else f"{scheme}://{where}"
    if scheme in (None, "tcp") or rng.random() < 0.5:
        text += f":{rng.choice(PORTS)}"
    if rng.random() < 0.6:
        text = meant(rng, leases[lease_id]) or text
    answers = []
    if rng.random() < 0.7:
        pool = ADDRESSES if rng.random() < 0.25 else ADDRESSES[:5] + ["2600:1406::1", "2600::1", "64:ff9b::5db8:d822"]
        answers = rng.sample(pool, rng.randint(1, 4))
    return {"lease": lease_id, "target": text, "addresses": answers}
