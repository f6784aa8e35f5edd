"""Names, literals, wildcards, addresses and answers of name servers, judged by the real daemon: tables of what a guest asks for, what DNS
says, and what becomes of it. One egressd serves nearly all rows; each row has a name of its own, so that no pin of another helps it."""
import itertools
import json
import socket
import threading
from pathlib import Path

import pytest
from lab import wait_for
from nameserver import NXDOMAIN, REFUSED, SERVFAIL, record, rdata
from socks import HOST, NOT_ALLOWED, OK, TTL

GOOD4, GOOD4B, GOOD6 = "93.184.215.14", "93.184.215.15", "2606:2800:21f:cb07::14"
LONGEST = ".".join(["c" * 56, "a" * 63, "a" * 63, "b" * 63]) + ".test"
LEASE = f"""lease ls_one
guest require source
guest source 10.200.0.2/32
mode allowlist
allow https://allowed.test as allowed
allow https://*.wild.test as wild
allow https://xn--bcher-kva.test as a-label
allow https://kiosk.test as kiosk
allow https://{LONGEST} as longest
allow https://{"d" * 63}.test as long-label
allow https://_under-score.test as underscore
allow tcp://10.9.9.9:443 as private-literal
allow tcp://127.0.0.1:443 as loopback-literal
allow tcp://169.254.169.254:80 as metadata-literal
allow tcp://93.184.215.1:443 as own-literal
allow tcp://93.184.215.14:443 as literal
allow tcp://[{GOOD6}]:443 as literal-6
allow tcp://93.184.215.64/28:7000 as prefix
allow https://intranet as single
allow https://foo.localhost as special-1
allow https://localhost as special-2
allow https://printer.local as special-3
allow https://db.internal as special-4
allow https://abc.onion as special-5
allow https://nas.home.arpa as special-6
allow https://x.invalid as special-7
allow https://*.blocked.wild.test as covered
deny  blocked.wild.test as no-blocked
deny  *.blocked.wild.test as no-blocked-children
deny  secret.wild.test:22 as one-port
"""
OPTIONS = """name_servers = 93.184.215.16
dns_total_ms = 1500
dns_try_ms = 500
connects_per_s = 100000
lookups_per_s = 100000
lookup_failures_per_s = 100000
nat_addresses = 93.184.217.9, 2a00:1234::/32
guest_networks = 10.200.0.0/16, fd77::/16, 93.184.218.0/24, 2a09:77::/32
"""
fresh = (f"n{i}.wild.test" for i in itertools.count())


@pytest.fixture(scope="module")
def e(module_egress, names):
    return module_egress(leases={"one.policy": LEASE}, daemon=OPTIONS)


@pytest.fixture
def anywhere(lab):
    """anywhere(address): the origins answer at that address, too. The route is for neighbours who ask whose it is."""
    table, routes = "anywhere", []
    lab.net.run("origin", "nft", f"add table inet {table}")
    lab.net.run("origin", "nft", f"add chain inet {table} arrivals {{ type nat hook prerouting priority dstnat ; }}")

    def answer_at(address):
        family, origin = ("ip6", GOOD6) if ":" in address else ("ip", GOOD4)
        lab.net.run("origin", "nft", f"add rule inet {table} arrivals {family} daddr {address} tcp dport 1-65535 dnat {family} to {origin}")
        routes.append([*(["-6"] if family == "ip6" else []), "route", "add", "local", address, "dev", "lo"])
        lab.net.run("origin", "ip", *routes[-1])
    yield answer_at
    for route in routes:
        lab.net.run("origin", "ip", *["del" if word == "add" else word for word in route], check=False)
    lab.net.run("origin", "nft", f"delete table inet {table}")


def ask(e, host, port=443):
    with e.guest() as s:
        assert s.greet() == b"\x05\x00"
        return s.request(host, port)


def refuses(e, host, reason, port=443, reply=NOT_ALLOWED):
    with e.decides(reason):
        assert ask(e, host, port) == reply


def resolves_to(e, names, answer, reason=None, reply=NOT_ALLOWED):
    """A fresh name with this zone entry ends in `reason`; None: allowed."""
    host = next(fresh)
    names.zone[host] = answer
    with e.decides(reason or "allowed"):
        assert ask(e, host) == (reply if reason else OK), answer


# --- names ---

NAMES = [
    # NUL, line ends, control and 8-bit bytes
    (b"evil.test\0.wild.test", "name_invalid"), (b"allowed.test\0", "name_invalid"), (b"\0", "name_invalid"),
    (b"allowed.test\r\nx: y", "name_invalid"), (b"a\nb.wild.test", "name_invalid"), (b"a b.wild.test", "name_invalid"),
    (b"a\x1b[2J.wild.test", "name_invalid"), (b"a\x7f.wild.test", "name_invalid"), (b"a\xff.wild.test", "name_invalid"),
    (b"a\t.wild.test", "name_invalid"),
    # what other grammars read into a name
    (rb"evil.test\000.wild.test", "name_invalid"), (rb"evil\046test.wild.test", "name_invalid"), (b"allowed.test@evil.test", "name_invalid"),
    (b"evil.test@allowed.test", "name_invalid"), (b"allowed.test:443", "name_invalid"), (b"allowed.test:22", "name_invalid"),
    (b"allowed.test/", "name_invalid"), (b"https://allowed.test", "name_invalid"), (b"[allowed.test]", "name_invalid"),
    (b"[blocked.wild.test]", "name_invalid"), (b"allowed%2etest", "name_invalid"), (b"*.wild.test", "name_invalid"), (b"a,b.wild.test", "name_invalid"),
    # dots
    (b"allowed.test..", "name_invalid"), (b"a..wild.test", "name_invalid"), (b".wild.test", "name_invalid"), (b".", "name_invalid"), (b"..", "name_invalid"),
    (b"blocked.wild.test.", "rule_deny"),
    # letters
    (b"BLOCKED.wild.TEST", "rule_deny"), ("bücher.wild.test".encode(), "name_invalid"), ("allowed\u3002test".encode(), "name_invalid"),
    ("allowed\uff0etest".encode(), "name_invalid"), ("\u212aiosk.test".encode(), "name_invalid"), ("k\u0131osk.test".encode(), "name_invalid"),
    # length
    (b"e" * 64 + b".test", "name_invalid"), (LONGEST.encode()[:-4] + b"xtest", "name_invalid"), (b".".join([b"a" * 63] * 4), "name_invalid"),
    # wildcards
    (b"wild.test", "no_rule"), (b"evilwild.test", "no_rule"), (b"xwild.test", "no_rule"), (b"a.wild.test.evil.test", "no_rule"),
    (b"allowed.test.evil.test", "no_rule"), (b"allowedxtest.test", "no_rule"), (b"allowedxtest.evil.test", "no_rule"), (b"sub.allowed.test", "no_rule"),
    (b"blocked.wild.test", "rule_deny"), (b"x.blocked.wild.test", "rule_deny"), (b"x.y.blocked.wild.test", "rule_deny"), (b"test", "name_special"),
    # special names, listed or not
    (b"intranet", "name_special"), (b"localhost", "name_special"), (b"LOCALHOST", "name_special"), (b"localhost.", "name_special"),
    (b"foo.localhost", "name_special"), (b"foo.localhost.", "name_special"), (b"localhost.localdomain", "no_rule"), (b"printer.local", "name_special"),
    (b"db.internal", "name_special"), (b"abc.onion", "name_special"), (b"nas.home.arpa", "name_special"), (b"1.0.0.10.in-addr.arpa", "name_special"),
    (b"x.invalid", "name_special"), (b"metadata.google.internal", "name_special"), (b"metadata.google.internal.", "name_special"),
    (b"instance-data", "name_special"), (b"metadata", "name_special"), (b"metadata.azure.internal", "name_special"),
    # addresses in odd spellings
    (b"2130706433", "literal_in_name"), (b"127.1", "literal_in_name"), (b"10.1.1", "literal_in_name"), (b"0", "literal_in_name"),
    (b"0177.0.0.1", "literal_in_name"), (b"0x7f.0.0.1", "literal_in_name"), (b"0x7f000001", "literal_in_name"), (b"256.0.0.1", "literal_in_name"),
    (b"1.2.3.4.5", "literal_in_name"), (b"foo.0x4", "literal_in_name"), (b"foo.09", "literal_in_name"), (b"a.wild.test.1", "literal_in_name"),
    (b"127.0.0.1.", "literal_in_name"), (b"93.184.215.014", "literal_in_name"), (b"127.0.0.1 x.wild.test", "name_invalid"),
    ("\u2460\u2461\u2466.0.0.1".encode(), "name_invalid"), (b"::1%lo", "name_invalid"), (b"[::1", "name_invalid"), (b"[[::1]]", "name_invalid"),
    (b"fe80::1%eth0", "name_invalid"), (b"[127.0.0.1]", "name_invalid"), (b":::", "name_invalid"),
    # canonical addresses as a name: judged as the address
    (b"127.0.0.1", "special_address"), (b"::1", "special_address"), (b"[::1]", "special_address"), (b"::ffff:127.0.0.1", "special_address"),
    (b"10.9.9.9", "special_address"), (b"203.0.113.77", "special_address"), (b"9.9.9.9", "literal_not_listed"), (b"2620:fe::fe", "literal_not_listed"),
    (b"169.254.169.254", "metadata_address"), (b"93.184.215.1", "own_address"),
]


def test_a_name_that_is_refused_has_its_reason_and_asks_no_name_server(e, names):
    names.zone["*.test"] = {"A": [GOOD4]}
    before = len(names.queries)
    wrong = []
    for host, reason in NAMES:
        seen = e.decisions()
        reply = ask(e, host)
        now = e.decisions()
        said = [word for word, count in now.items() if count != seen.get(word, 0)]
        if reply != NOT_ALLOWED or said != [reason]:
            wrong.append((host, reply, said, reason))
    assert not wrong
    assert [q.name for q in names.queries[before:]] == []


@pytest.mark.parametrize("host, canonical", [
    ("allowed.test", "allowed.test"), ("allowed.test.", "allowed.test"), ("ALLOWED.Test", "allowed.test"), ("xn--bcher-kva.test", "xn--bcher-kva.test"),
    ("a.wild.test", "a.wild.test"), ("a.b.wild.test", "a.b.wild.test"), ("A.b.C.d.Wild.TEST.", "a.b.c.d.wild.test"), ("xn--nonsense-.wild.test", "xn--nonsense-.wild.test"),
    (LONGEST, LONGEST), ("d" * 63 + ".test", "d" * 63 + ".test"), ("_under-score.test", "_under-score.test"),
    ("127.0.0.wild.test", "127.0.0.wild.test"), ("secret.wild.test", "secret.wild.test"),
])
def test_a_listed_name_is_allowed_in_any_spelling_and_recorded_in_one(e, names, host, canonical):
    names.zone[canonical] = {"A": [GOOD4]}
    with e.guest() as s:
        s.greet()
        assert s.request(host, 443) == OK
        assert e.record_of(s)["dst_endpoint"]["hostname"] == canonical
    assert {q.name for q in names.asked(canonical)} == {canonical}


def test_raw_bytes_of_a_name_never_reach_record_or_log(e):
    ask(e, b"x\x1b[2J\r\n\xff.evil.test")
    wait_for(lambda: e.records(status_code="name_invalid"))
    for text in (e.records_file.read_bytes(), e.log().encode("utf-8", "replace")):
        assert b"\x1b" not in text and b"\r" not in text and b"\xff" not in text


# --- literals ---

def test_address_requests_have_their_reasons(e, names):
    before = len(names.queries)
    for host, port, reason in (
            ("9.9.9.9", 443, "literal_not_listed"), ("10.9.9.9", 443, "special_address"), ("fd12::1", 443, "special_address"),
            ("::ffff:10.0.0.1", 443, "special_address"), ("::ffff:9.9.9.9", 443, "special_address"), ("127.0.0.1", 443, "special_address"),
            ("0.0.0.0", 443, "special_address"), ("::", 443, "special_address"), ("::1", 443, "special_address"), ("255.255.255.255", 443, "special_address"),
            ("169.254.169.254", 80, "metadata_address"), ("93.184.215.1", 443, "own_address"), ("2606:2800:21f:cb07::1", 443, "own_address"),
            ("10.200.1.2", 80, "own_address"), ("93.184.215.14", 444, "port_not_allowed"), ("93.184.215.80", 7000, "literal_not_listed"),
            ("93.184.215.63", 7000, "literal_not_listed"), ("2001:4860:4860::8888", 443, "literal_not_listed")):
        with e.decides(reason):
            assert ask(e, host, port) == NOT_ALLOWED, host
    assert len(names.queries) == before


def test_listed_addresses_and_prefixes_are_reached(e, anywhere):
    for host in ("93.184.215.64", "93.184.215.79"):
        anywhere(host)
    for host, port in ((GOOD4, 443), (GOOD6, 443), ("93.184.215.64", 7000), ("93.184.215.79", 7000), (b"93.184.215.14", 443), (b"[" + GOOD6.encode() + b"]", 443)):
        with e.decides("allowed"):
            assert ask(e, host, port) == OK


def test_the_address_behind_an_allowed_name_is_not_allowed_as_a_literal(e, names):
    names.zone["b.wild.test"] = {"A": [GOOD4B]}
    with e.decides("allowed", "literal_not_listed"):
        assert ask(e, "b.wild.test") == OK
        assert ask(e, GOOD4B) == NOT_ALLOWED


# --- addresses in answers ---

SPECIAL4 = """127.0.0.1 127.0.0.2 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.0 10.255.255.255 100.64.0.1 100.127.255.255 172.16.0.0 172.31.255.255
    192.0.0.1 192.0.0.8 192.0.0.170 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1 192.88.99.2 192.168.0.0 192.168.255.255 192.175.48.1 198.18.0.1
    198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 169.254.0.1"""
METADATA4 = "169.254.169.254 168.63.129.16 100.100.100.200 169.254.170.2 192.0.0.192"
SPECIAL6 = """:: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.5 ::ffff:9.9.9.9 ::7f00:1 ::9:9:9 ::ffff:0:9.9.9.9 64:ff9b::909:909 64:ff9b::a00:1
    64:ff9b:1::1 100::1 100:0:0:1::1 2001::1 2001:2::1 2001:10::1 2001:1ff:ffff::1 2001:db8::1 2002:7f00:1:: 2002:808:808::1 200::1 3fff::1 3fff:fff:ffff::1
    4000::1 5f00::1 8000::1 fc12:3456::1 fd12:3456:789a::1 fdff:ffff::1 fe00::1 fe80::1 febf:ffff::1 fec0::1 feff:ffff::1 ff02::1 ff0e::1
    2a01::5efe:a00:1 2a01::200:5efe:7f00:1"""
METADATA6 = "::ffff:169.254.169.254 ::a9fe:a9fe fd00:ec2::254 fe80::a9fe:a9fe 64:ff9b::c000:c0 2002:a9fe:a9fe::1"
PUBLIC4 = """1.0.0.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0
    172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255"""
PUBLIC6 = "2400::1 2600::1 2a00:9999::1 2c00::1 2001:200::1 2001:4860::1 2003::1"


def test_every_special_ipv4_address_in_an_answer_refuses_the_name(e, names):
    for address in SPECIAL4.split():
        resolves_to(e, names, {"A": [address]}, "special_address")
    for address in METADATA4.split():
        resolves_to(e, names, {"A": [address]}, "metadata_address")


def test_every_special_ipv6_address_in_an_answer_refuses_the_name(e, names):
    for address in SPECIAL6.split():
        resolves_to(e, names, {"AAAA": [address]}, "special_address")
    for address in METADATA6.split():
        resolves_to(e, names, {"AAAA": [address]}, "metadata_address")


def test_the_public_neighbours_of_special_blocks_are_dialled(e, names, anywhere):
    for address in PUBLIC4.split():
        anywhere(address)
        resolves_to(e, names, {"A": [address]})
    for address in PUBLIC6.split():
        anywhere(address)
        resolves_to(e, names, {"AAAA": [address]})


def test_own_nat_and_guest_addresses_are_refused(e, names):
    for kind, address in (("A", "93.184.215.1"), ("AAAA", "2606:2800:21f:cb07::1"), ("A", "10.200.0.1"), ("A", "10.200.7.7"), ("AAAA", "fd77:5::1"),
                          ("A", "93.184.217.9"), ("AAAA", "2a00:1234:5::1"), ("A", "93.184.218.200"), ("AAAA", "2a09:77::1")):
        resolves_to(e, names, {kind: [address]}, "own_address")


def test_an_address_that_becomes_ours_is_refused_and_its_flows_are_cut(lab, e, names, anywhere):
    address = "93.184.219.77"
    anywhere(address)
    names.zone["moves.wild.test"] = {"A": [address]}
    with e.guest() as s:
        s.greet()
        assert s.request("moves.wild.test", 443) == OK
        lab.net.run("proxy", "ip", "addr", "add", f"{address}/32", "dev", "lo")
        try:
            assert s.rest() == b"RESET"
            assert e.record_of(s, activity_id=3)["status_code"] == "policy_changed"
            refuses(e, "moves.wild.test", "own_address")
        finally:
            lab.net.run("proxy", "ip", "addr", "del", f"{address}/32", "dev", "lo")
    wait_for(lambda: ask(e, "moves.wild.test") == OK)


# --- sets and families ---

def test_one_bad_address_spoils_the_answer(e, names):
    for answer in ({"A": [GOOD4, "10.0.0.5"]}, {"A": ["10.0.0.5", GOOD4]}, {"A": [GOOD4], "AAAA": ["fd12::1"]}, {"A": ["10.0.0.5"], "AAAA": [GOOD6]},
                   {"AAAA": [GOOD6, "::1"]}, {"A": [GOOD4], "AAAA": ["::ffff:93.184.215.14"]}, {"A": [GOOD4, GOOD4B, "255.255.255.255"]}):
        resolves_to(e, names, answer, "special_address")
    resolves_to(e, names, {"A": [GOOD4], "AAAA": ["fd00:ec2::254"]}, "metadata_address")
    resolves_to(e, names, {"A": [GOOD4, "93.184.215.1"]}, "own_address")


def test_undeclared_nat64_beside_a_good_set_is_dropped_and_recorded(e, names):
    asked = {}

    def translated_first(query):
        """The passing set comes when the other has come: what is later than its time is neither seen nor recorded."""
        asked[query.type] = query
        if len(asked) == 2:
            for kind, text in (("AAAA", "64:ff9b::5db8:d70e"), ("A", GOOD4)):
                names.udp.sendto(asked[kind].answer(text), ("93.184.215.1", asked[kind].port))
        return []
    names.zone["nat.wild.test"] = translated_first
    with e.guest() as s:
        s.greet()
        assert s.request("nat.wild.test", 443) == OK
        said = e.record_of(s)
        assert said["dst_endpoint"]["ip"] == GOOD4 and said["unmapped"]["nat64_dropped"] is True


def test_declared_nat64_is_judged_by_the_address_inside(egress, names, anywhere):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS + "nat64 = well-known\n")
    anywhere("64:ff9b::5db8:d70e")
    resolves_to(e, names, {"AAAA": ["64:ff9b::5db8:d70e"]})
    resolves_to(e, names, {"AAAA": ["64:ff9b::a00:1"]}, "special_address")
    resolves_to(e, names, {"AAAA": ["64:ff9b::a9fe:a9fe"]}, "metadata_address")
    resolves_to(e, names, {"AAAA": ["64:ff9b::5db8:d701"]}, "own_address")


def test_the_failure_of_one_family_does_not_refuse_the_other(e, names):
    def only(kind, otherwise):
        def reply(query):
            if query.type == kind:
                return [query.answer(GOOD4 if kind == "A" else GOOD6)]
            return [] if otherwise is None else [query.nothing(otherwise)]
        return reply
    for kind in ("A", "AAAA"):
        for otherwise in (SERVFAIL, REFUSED, 0, None):
            resolves_to(e, names, only(kind, otherwise))


def test_a_family_that_answers_late_is_not_waited_for(e, names):
    def late(query):
        if query.type == "A":
            return [query.answer(GOOD4)]
        threading.Timer(0.8, lambda: [names.udp.sendto(query.answer("fd12::1"), ("93.184.215.1", query.port))]).start()
        return []
    resolves_to(e, names, late)


def test_the_second_address_is_tried_when_the_first_refuses(lab, e, names, anywhere):
    anywhere("93.184.219.80")
    lab.net.run("origin", "ip", "route", "add", "unreachable", "93.184.219.81")
    try:
        resolves_to(e, names, {"A": ["93.184.219.81", "93.184.219.80"]})
    finally:
        lab.net.run("origin", "ip", "route", "del", "unreachable", "93.184.219.81")


# --- one lookup, one decision ---

def test_the_address_that_was_judged_is_the_one_dialled(e, names):
    def flips(query):
        first = len([q for q in names.asked(query.name) if q.type == query.type]) == 1
        return [query.answer(GOOD4 if first else "127.0.0.1", ttl=0) if query.type == "A" else query.nothing()]
    names.zone["flip.wild.test"] = flips
    with e.guest() as s:
        s.greet()
        assert s.request("flip.wild.test", 443) == OK
        assert e.record_of(s)["dst_endpoint"]["ip"] == GOOD4
    assert [q.type for q in names.asked("flip.wild.test")].count("A") == 1


def test_a_pin_outlives_a_ttl_of_nought_and_a_flush_ends_it(e, names):
    names.zone["pin.wild.test"] = lambda query: [query.answer(GOOD4, ttl=0) if query.type == "A" else query.nothing()]
    assert ask(e, "pin.wild.test") == OK
    names.zone["pin.wild.test"] = {"A": ["10.0.0.1"]}
    assert ask(e, "pin.wild.test") == OK
    assert any("pin.wild.test" in line for line in e.ctl("pins").stdout.splitlines())
    assert e.ctl("pins", "flush", "ls_one").returncode == 0
    refuses(e, "pin.wild.test", "special_address")


def test_service_binding_records_are_never_asked_for(e, names):
    assert names.queries and {q.type for q in names.queries} <= {"A", "AAAA"}


def test_equal_questions_of_one_lease_at_one_time_are_asked_once(e, names):
    held = []

    def waits(query):
        held.append(query)
        return []
    names.zone["same.wild.test"] = waits
    clients = [e.guest() for _ in range(8)]
    for s in clients:
        s.greet()
        s.send(b"\x05\x01\x00\x03\x0esame.wild.test\x01\xbb")
    wait_for(lambda: len({q.type for q in held}) == 2)
    e.wait_state("resolving", 8)
    names.zone["same.wild.test"] = {"A": [GOOD4]}
    for query in list(held):
        names.udp.sendto(query.answer(GOOD4) if query.type == "A" else query.nothing(), ("93.184.215.1", query.port))
    for s in clients:
        assert s.reply() == OK
        s.close()


def queries(names, host, kind=None):
    return len([q for q in names.asked(host) if kind in (None, q.type)])


def test_what_is_not_an_address_is_remembered_for_a_while_too(e, names):
    for host, answer, reason in (("gone.wild.test", NXDOMAIN, "dns_nxdomain"), ("empty.wild.test", {}, "dns_no_address"), ("sick.wild.test", SERVFAIL, "dns_failed")):
        names.zone[host] = answer
        refuses(e, host, reason, reply=HOST)
        asked = queries(names, host)
        refuses(e, host, reason, reply=HOST)
        assert queries(names, host) == asked >= 2, host


def test_pins_live_as_their_rule_says(egress, names):
    rules = "allow https://ttl.wild.test\nallow https://lease.wild.test pin=lease\nallow https://each.wild.test pin=connection\n"
    e = egress(leases={"one.policy": "lease ls_one\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\n" + rules}, daemon=OPTIONS)
    for host in ("ttl.wild.test", "lease.wild.test", "each.wild.test"):
        names.zone[host] = lambda query: [query.answer(GOOD4, ttl=0) if query.type == "A" else query.nothing()]
        before = queries(names, host, "A")
        for _ in range(3):
            with e.decides("allowed"):
                assert ask(e, host) == OK
        assert queries(names, host, "A") - before == (3 if host == "each.wild.test" else 1), host
    left = {p["name"]: p["left_s"] for p in map(json.loads, e.ctl("pins", "--json").stdout.splitlines()) if p.get("type") == "A"}
    assert left["lease.wild.test"] == "lease" and 0 < int(left["ttl.wild.test"]) <= 30 and "each.wild.test" not in left


def test_a_lease_keeps_so_many_names_and_no_more(egress, names):
    e = egress(leases={"one.policy": LEASE + "limit names 3\n"}, daemon=OPTIONS)
    names.zone["*.few.wild.test"] = {"A": [GOOD4]}
    assert [ask(e, f"n{i}.few.wild.test") for i in range(6)] == [OK] * 3 + [NOT_ALLOWED] * 3
    assert e.decisions()["dns_budget"] == 3
    assert ask(e, "n0.few.wild.test") == OK
    pinned = {p["name"] for p in map(json.loads, e.ctl("pins", "--json").stdout.splitlines()) if "name" in p}
    assert pinned == {f"n{i}.few.wild.test" for i in range(3)}


def test_a_pin_whose_address_fails_is_asked_for_again(lab, e, names, anywhere):
    anywhere("93.184.219.90")
    names.zone["moved.wild.test"] = {"A": ["93.184.219.90"]}
    assert ask(e, "moved.wild.test") == OK
    lab.net.run("proxy", "ip", "route", "add", "unreachable", "93.184.219.90")
    try:
        names.zone["moved.wild.test"] = {"A": [GOOD4B]}
        with e.guest() as s:
            s.greet()
            assert s.request("moved.wild.test", 443) == OK
            assert e.record_of(s)["dst_endpoint"]["ip"] == GOOD4B
    finally:
        lab.net.run("proxy", "ip", "route", "del", "unreachable", "93.184.219.90")


def test_an_answer_that_asks_again_is_judged_again(lab, e, names, anywhere):
    anywhere("93.184.219.91")
    names.zone["trap.wild.test"] = {"A": ["93.184.219.91"]}
    assert ask(e, "trap.wild.test") == OK
    lab.net.run("proxy", "ip", "route", "add", "unreachable", "93.184.219.91")
    try:
        names.zone["trap.wild.test"] = {"A": ["10.0.0.1"]}
        refuses(e, "trap.wild.test", "special_address")
    finally:
        lab.net.run("proxy", "ip", "route", "del", "unreachable", "93.184.219.91")


@pytest.mark.parametrize("family, asked, dialled", [("only4", {"A"}, GOOD4), ("only6", {"AAAA"}, GOOD6), ("prefer4", {"A", "AAAA"}, GOOD4), ("prefer6", {"A", "AAAA"}, GOOD6)])
def test_the_family_option_decides_what_is_asked_and_dialled(egress, names, family, asked, dialled):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS + f"family = {family}\n")
    host = f"{family}.wild.test"
    names.zone[host] = {"A": [GOOD4], "AAAA": [GOOD6]}
    with e.guest() as s:
        s.greet()
        assert s.request(host, 443) == OK
        assert e.record_of(s)["dst_endpoint"]["ip"] == dialled
    assert {q.type for q in names.asked(host)} == asked


def test_the_source_address_of_the_options_is_used(lab, egress, names):
    lab.net.run("proxy", "ip", "addr", "add", "93.184.215.2/24", "dev", "px")
    try:
        e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS + "source4 = 93.184.215.2\nbound_address = truthful\n")
        names.zone["from.wild.test"] = {"A": [GOOD4]}
        with e.guest() as s:
            s.greet()
            assert s.request("from.wild.test", 443) == OK
            assert socket.inet_ntoa(s.bound[:4]) == "93.184.215.2"
    finally:
        lab.net.run("proxy", "ip", "addr", "del", "93.184.215.2/24", "dev", "px")


# --- aliases ---

def test_alias_chains_end_in_the_verdict_of_their_address(e, names):
    names.zone.update({"c0.test": {"A": [GOOD4]}, "db.corp.test": {"A": ["10.0.0.5"]}, "own.corp.test": {"A": ["93.184.215.1"]}})
    for i in range(1, 40):
        names.zone[f"c{i}.test"] = {"CNAME": [f"c{i - 1}.test"]}
    resolves_to(e, names, {"CNAME": ["c0.test"]})
    resolves_to(e, names, {"CNAME": ["c11.test"]})
    resolves_to(e, names, {"CNAME": ["db.corp.test"]}, "special_address")
    resolves_to(e, names, {"CNAME": ["own.corp.test"]}, "own_address")
    resolves_to(e, names, {"CNAME": ["c12.test"]}, "dns_malformed", HOST)
    resolves_to(e, names, {"CNAME": ["c39.test"]}, "dns_malformed", HOST)
    resolves_to(e, names, {"CNAME": ["localhost"]}, "dns_no_address", HOST)


def test_an_alias_loop_is_refused(e, names):
    def loop(query):
        return [query.message([record(b"\xc0\x0c", "CNAME", rdata("CNAME", query.name))])]
    resolves_to(e, names, loop, "dns_malformed", HOST)


# --- failures ---

def test_failures_of_name_servers_have_their_words(e, names):
    resolves_to(e, names, NXDOMAIN, "dns_nxdomain", HOST)
    resolves_to(e, names, SERVFAIL, "dns_failed", HOST)
    resolves_to(e, names, REFUSED, "dns_failed", HOST)
    resolves_to(e, names, None, "dns_timeout", TTL)
    resolves_to(e, names, {}, "dns_no_address", HOST)


def test_a_name_that_does_not_exist_is_asked_for_as_it_is_and_no_more(e, names):
    before = len(names.queries)
    resolves_to(e, names, NXDOMAIN, "dns_nxdomain", HOST)
    asked = names.queries[before:]
    assert len({q.name for q in asked}) == 1 and sorted(q.type for q in asked) == ["A", "AAAA"]


# --- messages byte by byte ---

def good(q):
    return rdata(q.type, GOOD4 if q.type == "A" else GOOD6)


def bad(q):
    return rdata(q.type, "10.0.0.1" if q.type == "A" else "fd00::1")


def pointer(to):
    return bytes([0xc0 | to >> 8, to & 0xff])


def a_record(owner=b"\xc0\x0c", data=socket.inet_aton(GOOD4)):
    return lambda query: [query.message([record(owner, query.type, data)])]


# each breaks the answers of both families
MALFORMED = {
    "more addresses than anybody needs": lambda q: [q.message([record(b"\xc0\x0c", "A", bytes((93, 184, 220, i))) for i in range(33)] if q.type == "A" else [b"\x03aaaa"])],
    "an owner that points to itself": lambda q: [q.message([record(pointer(12 + len(q.question)), q.type, good(q))])],
    "an owner that points forward": a_record(pointer(0x3ff)),
    "an owner that points into the header": a_record(pointer(4)),
    "an owner without an end": lambda q: [q.message([b"\x03aaaa"])],
    "a label of a kind not in use": a_record(b"\x80abc\0"),
    "data longer than the message": lambda q: [q.message([record(b"\xc0\x0c", q.type, bytes(4))[:-6] + b"\x00\x10" + bytes(4)])],
    "data too short": a_record(data=b"\x5d\xb8\xd7"),
    "data too long": a_record(data=bytes(17)),
    "more answers promised than there are": lambda q: [q.message([record(b"\xc0\x0c", q.type, good(q))], counts=(1, 500, 0, 0))],
    "two aliases of one name": lambda q: [q.message([record(b"\xc0\x0c", "CNAME", rdata("CNAME", "c0.test")), record(b"\xc0\x0c", "CNAME", rdata("CNAME", "c1.test"))])],
}


@pytest.mark.parametrize("fault", MALFORMED)
def test_a_malformed_answer_refuses(e, names, fault):
    resolves_to(e, names, MALFORMED[fault], "dns_malformed", HOST)


# each of these gives no address to the asked name
def beside(section):
    def reply(q):
        return [q.message(**{section: [record(q.name, q.type, good(q))]})]
    return reply


EMPTY = {
    "records of another owner": lambda q: [q.message([record("other.example", q.type, good(q))])],
    "records in the additional section": beside("additional"),
    "records in the authority section": beside("authority"),
    "an alias to nowhere and a record of another": lambda q: [q.message([record(b"\xc0\x0c", "CNAME", rdata("CNAME", "gone.test")),
                                                                        record("third.test", q.type, good(q))])],
    "records of the other type": lambda q: [q.message([record(b"\xc0\x0c", "AAAA" if q.type == "A" else "A", rdata("AAAA" if q.type == "A" else "A", GOOD6 if q.type == "A" else GOOD4))])],
}


@pytest.mark.parametrize("case", EMPTY)
def test_what_the_asked_name_does_not_own_is_no_answer(e, names, case):
    host = next(fresh)
    names.zone[host] = EMPTY[case]
    before = e.decisions()
    assert ask(e, host) == HOST
    said = {word for word, count in e.decisions().items() if count != before.get(word, 0)}
    assert said <= {"dns_no_address", "dns_malformed"} and said


def other_question(q):
    return q.question.replace(q.raw_name.split(".")[0].encode(), b"x" * len(q.raw_name.split(".")[0]))


# datagrams that answer no question of ours: dropped, and the true answer behind them is taken
MISFITS = {
    "another identifier": lambda q: q.message([record(b"\xc0\x0c", q.type, bad(q))], identifier=q.id ^ 1),
    "another question": lambda q: q.message([record(b"\xc0\x0c", q.type, bad(q))], question=other_question(q)),
    "no response but a query": lambda q: q.message(flags=0x0100),
    "another letter case": lambda q: q.message([record(b"\xc0\x0c", q.type, bad(q))],
                                               question=q.question.swapcase()[:-4] + q.question[-4:]),
    "a header that is cut": lambda q: q.message()[:11],
    "nothing at all": lambda q: b"",
    "another type asked": lambda q: q.message(question=q.question[:-4] + b"\x00\x10\x00\x01"),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_a_datagram_that_fits_no_query_is_dropped_and_the_query_goes_on(e, names, misfit):
    before = e.metric("egress_dns_misfits_total")
    resolves_to(e, names, lambda q: [MISFITS[misfit](q), q.answer(GOOD4) if q.type == "A" else q.nothing()])
    wait_for(lambda: e.metric("egress_dns_misfits_total") > before)


def test_an_answer_from_another_port_is_not_heard(lab, e, names):
    with lab.net.inside("origin"):
        stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stranger.bind(("93.184.215.16", 5353))

    def spoofed(q):
        stranger.sendto(q.answer("10.0.0.1" if q.type == "A" else "fd00::1"), ("93.184.215.1", q.port))
        return [q.answer(GOOD4) if q.type == "A" else q.nothing()]
    with stranger:
        resolves_to(e, names, spoofed)


def test_an_answer_in_the_letter_case_of_the_name_is_dropped_when_the_query_mixed_it(e, names):
    def normalises(q):
        name = b"".join(bytes([len(label)]) + label.encode() for label in q.name.split(".")) + b"\0"
        return [q.message([record(b"\xc0\x0c", q.type, good(q))], question=name + q.question[-4:])]
    host = "so-many-letters-that-chance-will-never-leave-it-lower-case." + next(fresh)
    names.zone[host] = normalises
    with e.decides("dns_timeout"):
        assert ask(e, host) == TTL
    assert all(q.raw_name != q.name for q in names.asked(host))


def test_a_truncated_answer_is_asked_again_over_tcp(e, names):
    before = len(names.queries)
    names.zone["big.wild.test"] = lambda q: ([q.answer(GOOD4) if q.type == "A" else q.nothing()] if q.over_tcp else [q.message(flags=0x8380)])
    assert ask(e, "big.wild.test") == OK
    assert {q.over_tcp for q in names.queries[before:]} == {False, True}


@pytest.mark.parametrize("how", ["trickles", "cut", "mute", "lies"])
def test_a_tcp_answer_that_does_not_come_refuses_in_time(e, names, how):
    over_tcp = {
        "trickles": lambda q: [bytearray(b"\xff\xff"), bytearray(b"\x00")],
        "cut": lambda q: [bytearray(b"\x00\x40\x00"), None],
        "mute": lambda q: [],
        "lies": lambda q: [bytearray(b"\x00\x05" + q.message()[:5])],
    }[how]
    host = next(fresh)
    names.zone[host] = lambda q: over_tcp(q) if q.over_tcp else [q.message(flags=0x8380)]
    before = e.decisions()
    assert ask(e, host) in (HOST, TTL)
    said = {word for word, count in e.decisions().items() if count != before.get(word, 0)}
    assert said <= {"dns_timeout", "dns_failed", "dns_malformed"} and len(said) == 1


def test_identifiers_and_ports_of_queries_are_drawn_by_chance(e, names):
    names.zone["*.many.wild.test"] = {"A": [GOOD4]}
    before = len(names.queries)
    with e.guest() as s:
        s.greet()
    for i in range(60):
        assert ask(e, f"r{i}.many.wild.test") == OK
    seen = names.queries[before:]
    ids, ports = [q.id for q in seen], [q.port for q in seen]
    assert len(seen) == 120
    assert len(set(ids)) >= 115 and len(set(ports)) >= 100
    steps = [(b - a) % 65536 for a, b in zip(ids, ids[1:])]
    assert max(steps.count(step) for step in set(steps)) <= 4
    assert all(30 < sum(i >> bit & 1 for i in ids) < 90 for bit in range(16))
    assert 20 < sum(sum(c.isupper() for c in q.raw_name) > sum(c.islower() for c in q.raw_name) for q in seen) < 100
    assert len({q.raw_name for q in seen}) >= 110


# --- surroundings of the resolver ---

@pytest.fixture
def surroundings(lab):
    """Files that the proxy sees in /etc: ip netns exec mounts them there."""
    folder = Path("/etc/netns") / lab.net.ns("proxy")
    folder.mkdir(parents=True)

    def put(name, text):
        (folder / name).write_text(text)
    yield put
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def test_neither_hosts_file_nor_search_list_has_a_say(egress, names, surroundings):
    surroundings("hosts", f"10.0.0.5 h.wild.test\n{GOOD4B} h.wild.test\n{GOOD4B} gone.wild.test\n")
    surroundings("resolv.conf", "nameserver 93.184.215.16\nsearch wild.test corp.test\noptions ndots:5 use-vc\n")
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS.replace("name_servers = 93.184.215.16", "name_servers = "))
    names.zone.update({"h.wild.test": {"A": [GOOD4]}, "gone.wild.test": NXDOMAIN, "intranet.corp.test": {"A": [GOOD4]}})
    before = len(names.queries)
    with e.guest() as s:
        s.greet()
        assert s.request("h.wild.test", 443) == OK
        assert e.record_of(s)["dst_endpoint"]["ip"] == GOOD4
    refuses(e, "gone.wild.test", "dns_nxdomain", reply=HOST)
    refuses(e, "intranet", "name_special")
    assert {q.name for q in names.queries[before:]} == {"h.wild.test", "gone.wild.test"}


def test_a_dead_name_server_does_not_stop_the_next(egress, names):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS.replace("93.184.215.16", "93.184.216.50, 93.184.215.16"))
    for _ in range(3):
        resolves_to(e, names, {"A": [GOOD4]})


def test_the_budget_of_lookups_is_the_lease_s_own(egress, names):
    other = LEASE.replace("ls_one", "ls_two").replace("10.200.0.2", "10.200.1.2")
    e = egress(leases={"one.policy": LEASE + "limit lookups_per_s 3\n", "two.policy": other}, daemon=OPTIONS)
    names.zone["*.flood.wild.test"] = {"A": [GOOD4]}
    replies = [ask(e, f"f{i}.flood.wild.test") for i in range(12)]
    assert OK in replies and NOT_ALLOWED in replies
    assert e.decisions()["dns_budget"] == replies.count(NOT_ALLOWED)
    with e.guest("guest2") as s:
        s.greet()
        assert s.request("x.flood.wild.test", 443) == OK


def test_long_random_names_are_visible_in_records(e, names):
    names.zone["*.data.wild.test"] = {"A": [GOOD4]}
    host = "r2vjcmv0zgf0yxjjcmv0zgf0yxjjcmv0zgf0yxjjcmv0zgf0yxjj.data.wild.test"
    assert ask(e, host) == OK
    assert e.wait_record(host=host, activity_id=1)


# --- exceptions ---

CEILING = """allow any
exception 10.1.0.0/16,192.168.7.0/24 for *.inner.test
exception 169.254.0.0/16 for *.inner.test
exception 100.64.0.0/10 for *.inner.test
exception fd00::/8 for *.inner.test
exception registry.internal
exception 10.1.0.0/16 for registry.internal
"""
INNER = """lease ls_inner
guest require source
guest source 10.200.0.2/32
mode allowlist
allow https://*.inner.test
allow https://other.test
allow https://registry.internal
allow https://second.internal
"""


def test_exceptions_reopen_their_addresses_for_their_hosts_and_nothing_else(egress, names, anywhere):
    e = egress(leases={"inner.policy": INNER}, ceiling=CEILING, daemon=OPTIONS)
    for address in ("10.1.2.3", "192.168.7.7", "fd12::3"):
        anywhere(address)
    hosts = (f"h{i}.inner.test" for i in itertools.count())
    for kind, address in (("A", "10.1.2.3"), ("A", "192.168.7.7"), ("AAAA", "fd12::3")):
        host = next(hosts)
        names.zone[host] = {kind: [address]}
        with e.decides("allowed"):
            assert ask(e, host) == OK, address
    for kind, address, reason in (
            ("A", "10.2.0.1", "special_address"), ("A", "192.168.8.1", "special_address"), ("A", "127.0.0.1", "special_address"),
            ("A", "169.254.169.254", "metadata_address"), ("A", "100.100.100.200", "metadata_address"), ("A", "168.63.129.16", "metadata_address"),
            ("AAAA", "fd00:ec2::254", "metadata_address"), ("AAAA", "::ffff:10.1.2.3", "special_address"), ("AAAA", "64:ff9b::a01:203", "special_address"),
            ("AAAA", "fd77::1", "own_address"), ("AAAA", "::1", "special_address"), ("AAAA", "2002:a01:203::1", "special_address")):
        host = next(hosts)
        names.zone[host] = {kind: [address]}
        refuses(e, host, reason)
    names.zone.update({"other.test": {"A": ["10.1.2.3"]}, "registry.internal": {"A": ["10.1.2.3"]}})
    refuses(e, "other.test", "special_address")
    refuses(e, "second.internal", "name_special")
    with e.decides("allowed"):
        assert ask(e, "registry.internal") == OK
