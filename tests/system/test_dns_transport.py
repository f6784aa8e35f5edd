"""Queries as name servers see them: under load, and from two daemons that were sandboxed alike."""
import threading
from collections import Counter

import pytest
from socks import OK

GOOD4 = "93.184.215.14"
LEASE = """lease ls_one
guest require source
guest source {source}/32
mode allowlist
allow tcp://*.wild.test:7000 as wild
limit names 5000 lookups_per_s 5000 connects_per_s 5000 connections 2000
"""
OPTIONS = "name_servers = 93.184.215.16\ndns_channels = 64\n"
NAMES = 150


def ask_all(one, tail, names, threads=10):
    """Ask for many names at once; all must resolve."""
    replies = []

    def some(first):
        for i in range(first, NAMES, threads):
            with one.guest() as guest:
                replies.append(guest.open(f"n{i}.{tail}", 7000))

    running = [threading.Thread(target=some, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert Counter(replies) == {OK: NAMES}
    return [q for q in names.queries if q.name.endswith("." + tail)]


@pytest.fixture
def queries_of_two(egress, names):
    """What two daemons asked, sandboxed and started alike, one after the other and each under load."""
    seen = []
    for tail in ("first.wild.test", "second.wild.test"):
        names.zone["*." + tail] = {"A": [GOOD4]}
        one = egress(leases={"one.policy": LEASE.format(source="10.200.0.2")}, daemon=OPTIONS + "workers = 1\n")
        seen.append(ask_all(one, tail, names))
    return seen


def test_each_lookup_has_a_port_of_its_own_and_no_two_daemons_share_ids(queries_of_two):
    for queries in queries_of_two:
        ports, ids = [q.port for q in queries], [q.id for q in queries]
        assert len(queries) == 2 * NAMES
        # Chosen by chance out of 45,000 ports: a few meet again, but none serves a second lookup because it was kept.
        assert len(set(ports)) >= 2 * NAMES - 10, Counter(ports).most_common(3)
        assert len(set(ids)) >= 2 * NAMES - 10
    first, second = ([q.id for q in queries] for queries in queries_of_two)
    assert first[:20] != second[:20]
    # 300 ids each out of 65,536: one or two in common by chance, and the same sequence by none.
    assert len(set(first) & set(second)) <= 12
    assert sum(a == b for a, b in zip(first, second)) <= 2


def test_letter_case_is_mixed_anew_for_each_query(queries_of_two):
    for queries in queries_of_two:
        assert len({q.raw_name for q in queries}) >= 2 * NAMES - 10
        assert all(q.raw_name.lower() == q.name for q in queries)
        patterns = Counter(tuple(c.isupper() for c in q.raw_name.split(".", 1)[1]) for q in queries)
        assert patterns.most_common(1)[0][1] <= 10, "the tail is the same in all, its case is not"
