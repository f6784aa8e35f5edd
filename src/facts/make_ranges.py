#!/usr/bin/env python3
"""Turn policy/addresses/*.txt into special_ranges.def: make_ranges.py FOLDER OUTPUT. A fault in the data fails the build."""
import ipaddress
import os
import sys

FILES = ("ipv4.txt", "ipv6.txt", "metadata.txt")
CLASSES = (
    "metadata loopback unspecified private shared link_local unique_local documentation benchmark "
    "protocol anycast multicast reserved embedded nat64"
).split()


class Fault(Exception):
    """The data breaks a rule; the text says where."""


def lines_of(path, columns):
    """Yield (place, fields) for every row, and ("revision", text) for the head line that names one."""
    with open(path, encoding="ascii") as file:
        for number, line in enumerate(file, 1):
            place = f"{os.path.basename(path)}:{number}"
            if line.startswith("# revision "):
                yield "revision", line[len("# revision "):].strip()
            line = line.split("#")[0].strip()
            if not line:
                continue
            fields = [field.strip() for field in line.split("|")]
            if len(fields) != columns or not all(fields) or '"' in line or "\\" in line:
                raise Fault(f"{place}: expected {columns} columns parted by |")
            yield place, fields


def network_of(place, text):
    try:
        return ipaddress.ip_network(text, strict=True)
    except ValueError as fault:
        raise Fault(f"{place}: {fault}") from fault


def read_ranges(folder):
    """All rows as (network, class, reference, name), most specific first within a family, and the revision."""
    rows, revisions, seen = [], set(), {}
    for name in FILES:
        for place, fields in lines_of(os.path.join(folder, name), 4):
            if place == "revision":
                revisions.add(fields)
                continue
            network = network_of(place, fields[0])
            if fields[1] not in CLASSES:
                raise Fault(f"{place}: no class is called {fields[1]}")
            if network in seen:
                raise Fault(f"{place}: {network} stands in {seen[network]} already")
            seen[network] = place
            rows.append((network, fields[1], fields[2], fields[3]))
    if len(revisions) != 1:
        raise Fault(f"the files name {len(revisions)} registry revisions; one is needed")
    rows.sort(key=lambda row: (row[0].version, -row[0].prefixlen, int(row[0].network_address)))
    return rows, revisions.pop()


def check_outside_unicast(rows):
    """Every address outside 2000::/3 must be inside some row, or a hole in the table would be a way out."""
    left = list(ipaddress.ip_network("::/0").address_exclude(ipaddress.ip_network("2000::/3")))
    for network, *_ in rows:
        rest = []
        for hole in left:
            if network.version != 6 or not network.overlaps(hole):
                rest.append(hole)
            elif hole.prefixlen < network.prefixlen:
                rest.extend(hole.address_exclude(network))
        left = rest
    if left:
        raise Fault(f"ipv6.txt leaves {left[0]} outside 2000::/3 uncovered")


def read_forms(folder, rows):
    """Embedded forms as (row index, first octet, inverted, name)."""
    index_of = {row[0]: index for index, row in enumerate(rows)}
    for place, fields in lines_of(os.path.join(folder, "embedded.txt"), 4):
        if place == "revision":
            continue
        network = network_of(place, fields[0])
        if network not in index_of or network.version != 6:
            raise Fault(f"{place}: {network} is no row of ipv6.txt")
        if rows[index_of[network]][1] not in ("embedded", "nat64"):
            raise Fault(f"{place}: the row's class is {rows[index_of[network]][1]}")
        if not fields[1].isdigit() or int(fields[1]) > 12 or int(fields[1]) * 8 < network.prefixlen:
            raise Fault(f"{place}: the octets at {fields[1]} are not behind the prefix")
        if fields[2] not in ("plain", "inverted"):
            raise Fault(f"{place}: plain or inverted, not {fields[2]}")
        yield index_of[network], int(fields[1]), fields[2] == "inverted", fields[3]


def buckets_of(rows, version):
    """For each first octet the rows that can contain such an address, most specific first."""
    for octet in range(256):
        if version == 4:
            block = ipaddress.IPv4Network((octet << 24, 8))
        else:
            block = ipaddress.IPv6Network((octet << 120, 8))
        yield [i for i, row in enumerate(rows) if row[0].version == version and row[0].overlaps(block)]


def write_buckets(out, rows, version):
    """Candidate lists one behind the other; a bucket is where its list starts and how long it is."""
    flat, known = [], {}
    out.append(f"#ifdef SPECIAL_BUCKET_V{version}")
    for octet, candidates in enumerate(buckets_of(rows, version)):
        key = tuple(candidates)
        if key not in known:
            known[key] = len(flat)
            flat.extend(candidates)
        out.append(f"SPECIAL_BUCKET_V{version}({octet}, {known[key]}, {len(candidates)})")
    if len(flat) > 255:
        raise Fault("more than 255 candidates: a bucket's start is an octet")
    out.append("#endif")
    out.append(f"#ifdef SPECIAL_CANDIDATE_V{version}")
    out.extend(f"SPECIAL_CANDIDATE_V{version}({index})" for index in flat)
    out.append("#endif")


def make(folder):
    rows, revision = read_ranges(folder)
    check_outside_unicast(rows)
    if len(rows) > 255:
        raise Fault("more than 255 rows: the candidate lists count in octets")
    out = [
        "/* Made by src/facts/make_ranges.py from policy/addresses/; do not edit. */",
        "#ifdef SPECIAL_REVISION",
        f'SPECIAL_REVISION("{revision}")',
        "#endif",
        "/* SPECIAL_RANGE(family, length, class, name, reference, octets) */",
        "#ifdef SPECIAL_RANGE",
    ]
    for network, word, reference, name in rows:
        octets = ", ".join(str(octet) for octet in network.network_address.packed)
        out.append(
            f'SPECIAL_RANGE(V{network.version}, {network.prefixlen}, {word.upper()}, "{name}", "{reference}", {octets})'
        )
    out.append("#endif")
    out.append("/* SPECIAL_FORM(row, first octet of the IPv4 address, inverted?, name) */")
    out.append("#ifdef SPECIAL_FORM")
    for row, at, inverted, name in read_forms(folder, rows):
        out.append(f'SPECIAL_FORM({row}, {at}, {"true" if inverted else "false"}, "{name}")')
    out.append("#endif")
    out.append("/* SPECIAL_BUCKET(first octet of an address, start in the candidates, count) */")
    for version in (4, 6):
        write_buckets(out, rows, version)
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: make_ranges.py FOLDER OUTPUT")
    try:
        text = make(sys.argv[1])
    except (Fault, OSError, UnicodeDecodeError) as fault:
        sys.exit(f"make_ranges.py: {fault}")
    temporary = sys.argv[2] + ".new"
    with open(temporary, "w", encoding="ascii") as file:
        file.write(text)
    os.replace(temporary, sys.argv[2])


if __name__ == "__main__":
    main()
