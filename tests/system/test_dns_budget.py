"""DNS as a channel: what a lease may tell the owner of a wildcard's zone, how it is seen, and that its neighbour does not suffer."""
import json
import random
import string

import pytest
from socks import NOT_ALLOWED, OK

GOOD4 = "93.184.215.14"
LEASE = """lease ls_{name}
guest require source
guest source {source}/32
mode allowlist
allow tcp://*.wild.test:7000 as wild
limit lookups_per_s 5000 lookup_failures_per_s 5000 connects_per_s 5000 {more}
"""
OPTIONS = "name_servers = 93.184.215.16\n"


@pytest.fixture
def one(egress, names):
    names.zone["*.wild.test"] = {"A": [GOOD4]}
    return egress(leases={"one.policy": LEASE.format(name="one", source="10.200.0.2", more=""),
                          "two.policy": LEASE.format(name="two", source="10.200.1.2", more="names 20")}, daemon=OPTIONS)


def ask(one, name, guest="guest"):
    with one.guest(guest) as client:
        return client.open(name, 7000)


def budget(one, lease):
    lines = [json.loads(line) for line in one.ctl("pins", lease, "--json").stdout.splitlines()]
    return next(line for line in lines if "names_max" in line)


def test_data_in_labels_is_cut_off_recorded_and_visible(one, names):
    """Case C146, and C273 for the neighbour."""
    chance = random.Random(1)
    hosts = ["".join(chance.choice(string.ascii_lowercase) for _ in range(60)) + ".wild.test" for _ in range(200)]
    replies = [ask(one, host) for host in hosts]
    through = replies.count(OK)
    assert 50 < through < 130 and replies == [OK] * through + [NOT_ALLOWED] * (200 - through)
    assert one.decisions()["dns_budget"] == 200 - through
    assert one.wait_record(host=hosts[-1])["status_code"] == "dns_budget"
    assert not names.asked(hosts[-1]), "what is over the budget is not asked for"
    seen = budget(one, "ls_one")
    assert seen["names"] == through and seen["lookups_refused"] == 200 - through
    assert seen["label_bits_max"] - 400 < seen["label_bits"] <= seen["label_bits_max"]
    # A name it had stays, and so does the neighbour.
    assert ask(one, hosts[0]) == OK
    assert ask(one, "x.wild.test", "guest2") == OK


def test_the_number_of_names_is_exact(one):
    replies = [ask(one, f"n{i}.wild.test", "guest2") for i in range(25)]
    assert replies == [OK] * 20 + [NOT_ALLOWED] * 5
    assert budget(one, "ls_two")["names"] == budget(one, "ls_two")["names_max"] == 20
