#!/usr/bin/env python3
"""Write a tiny database in the MaxMind DB format 2.0: make_mmdb.py country|asn OUTPUT.

Just enough for the tests: a search tree of 24-bit records over IPv6 (IPv4 lies under ::/96), then the records. The
format is described at https://maxmind.github.io/MaxMind-DB/; all figures here are invented.
"""
import ipaddress
import struct
import sys

COUNTRIES = {
    "9.9.9.0/24": {"country": {"iso_code": "DE"}},
    "9.9.8.0/24": {"country": {"iso_code": "CH"}, "registered_country": {"iso_code": "US"}},
    "9.9.7.0/24": {"registered_country": {"iso_code": "US"}},
    "9.9.6.0/24": {"country": {"iso_code": "de"}},
    "9.9.5.0/24": {"country": {"iso_code": "DEU"}},
    "9.9.4.0/24": {"country": {"iso_code": 49}},
    "9.9.3.0/24": {"country": "DE"},
    "9.9.2.0/24": {"country": {"iso_code": "dE"}},
    "9.9.1.0/24": {"country": {"iso_code": "D1"}},
    "2a00:1::/32": {"country": {"iso_code": "FR"}},
}
ASNS = {
    "9.9.9.0/24": {"autonomous_system_number": 64500},
    "9.9.8.0/24": {"autonomous_system_number": "64501"},
    "9.9.7.0/24": {"autonomous_system_organization": "nobody"},
    "2a00:1::/32": {"autonomous_system_number": 4200000000},
}
MAP, STRING, UINT16, UINT32, UINT64, ARRAY = 7, 2, 5, 6, 9, 11


def control(kind, size):
    short = min(size, 29)
    head = bytes([kind << 5 | short]) if kind < 8 else bytes([short, kind - 7])
    return head if size < 29 else head + bytes([size - 29])


def number(kind, value):
    octets = value.to_bytes(8, "big").lstrip(b"\0")
    return control(kind, len(octets)) + octets


def encode(value):
    if isinstance(value, dict):
        return control(MAP, len(value)) + b"".join(encode(k) + encode(v) for k, v in value.items())
    if isinstance(value, list):
        return control(ARRAY, len(value)) + b"".join(encode(v) for v in value)
    if isinstance(value, str):
        return control(STRING, len(value)) + value.encode("ascii")
    if isinstance(value, tuple):
        return number(*value)
    return number(UINT32, value)


def bits_of(text):
    network = ipaddress.ip_network(text)
    if network.version == 4:
        return format(int(network.network_address), "0128b")[: 96 + network.prefixlen]
    return format(int(network.network_address), "0128b")[: network.prefixlen]


def build(records, kind):
    nodes, data = [[None, None]], b""
    for text, value in records.items():
        at, bits = 0, bits_of(text)
        for bit in bits[:-1]:
            if nodes[at][int(bit)] is None:
                nodes.append([None, None])
                nodes[at][int(bit)] = len(nodes) - 1
            at = nodes[at][int(bit)]
        nodes[at][int(bits[-1])] = ("data", len(data))
        data += encode(value)
    tree = b""
    for node in nodes:
        for record in node:
            if record is None:
                record = len(nodes)
            elif isinstance(record, tuple):
                record = len(nodes) + 16 + record[1]
            tree += struct.pack(">I", record)[1:]
    metadata = {
        "binary_format_major_version": (UINT16, 2),
        "binary_format_minor_version": (UINT16, 0),
        "build_epoch": (UINT64, 1796050000),
        "database_type": kind,
        "description": {"en": "test"},
        "ip_version": (UINT16, 6),
        "languages": ["en"],
        "node_count": len(nodes),
        "record_size": (UINT16, 24),
    }
    return tree + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + encode(metadata)


def main():
    records, kind = {"country": (COUNTRIES, "Test-Country"), "asn": (ASNS, "Test-ASN")}[sys.argv[1]]
    octets = build(records, kind)
    with open(sys.argv[2], "wb") as file:
        file.write(octets)


if __name__ == "__main__":
    main()
