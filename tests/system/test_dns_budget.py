"""DNS as a channel: what a lease may tell the owner of a wildcard's zone, how it is seen, and that its neighbour does not suffer."""
import json
import random
import shutil
import string
import subprocess

import pytest
from lab import wait_for
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


HOSTS = 45


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_full_of_hosts_stays_within_the_defaults(lab, egress, names, tmp_path):
    """A page with many hosts, all at once: a small part of the budget of names, and nothing is refused for it."""
    names.zone["*.wild.test"] = {"A": [GOOD4]}
    one = egress(leases={"one.policy": "lease ls_one\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\nallow http://*.wild.test\n"},
                 daemon=OPTIONS)
    page = "data:text/html," + "".join(f"<img src=http://cdn-{i:02}-static-assets.wild.test/{i}.png>" for i in range(HOSTS))
    with open(tmp_path / "browser.log", "w", encoding="utf-8") as log:
        browser = lab.net.popen("guest", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                                f"--user-data-dir={tmp_path}/profile", f"--proxy-server=socks5://10.200.0.1:{one.main[1]}",
                                "--remote-debugging-port=0", page, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            wait_for(lambda: len({q.name for q in names.queries if q.name.startswith("cdn-")}) == HOSTS, 60)
        finally:
            browser.kill()
            browser.wait()
    decisions = one.decisions()
    assert decisions["dns_budget"] == 0
    assert decisions["allowed"] >= HOSTS
    assert budget(one, "ls_one")["names"] >= HOSTS
