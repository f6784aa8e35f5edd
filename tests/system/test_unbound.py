"""The recommended set-up: egressd behind a local validating resolver, as shipped (deploy/unbound.conf), with a zone signed by knot. What is
signed resolves; what was changed on the way is refused as dns_failed and never dialled."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from lab import wait_for
from socks import HOST, OK

TOP = Path(__file__).resolve().parent.parent.parent
SERVER, PORT = "93.184.215.14", 5300
ZONE = """$ORIGIN secure.test.
$TTL 60
@ SOA ns hostmaster 1 3600 600 86400 5
@ NS ns
ns A 93.184.215.14
good A 93.184.215.14
bogus A 93.184.215.15
inner A 10.1.1.1
forged-inner A 93.184.215.16
"""
LEASE = """lease ls_one
guest require source
guest source 10.200.0.2/32
mode allowlist
allow tcp://*.secure.test:7000 as secure
"""


def knot_conf(folder, zone_lines):
    (folder / "knot.conf").write_text(
        f"server:\n  rundir: {folder}\n  listen: {SERVER}@{PORT}\n  user: root\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n"
        f"log:\n  - target: stderr\n    any: warning\ndatabase:\n  storage: {folder}\n"
        f"zone:\n  - domain: secure.test\n    storage: {folder}\n    file: secure.zone\n{zone_lines}")
    return folder / "knot.conf"


def sign(lab, folder):
    """Let knot sign the zone and write it down; returns the signed text."""
    zone = folder / "secure.zone"
    zone.write_text(ZONE)
    conf = knot_conf(folder, "    dnssec-signing: on\n    zonefile-sync: 0\n    journal-content: none\n")
    knot = lab.net.popen("origin", "knotd", "-c", conf, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(re.findall(r"\bRRSIG\b", zone.read_text())) >= 6)
    finally:
        knot.terminate()
        knot.wait(20)
    return zone.read_text()


@pytest.fixture(scope="module")
def resolver(lab, tmp_path_factory):
    """A signed zone with two records that are not what was signed, and unbound on the proxy's loopback."""
    folder = tmp_path_factory.mktemp("unbound")
    signed = sign(lab, folder)
    changed, count = re.subn(r"(?m)^(bogus\.secure\.test\.\s+60\s+(?:IN\s+)?A\s+)93\.184\.215\.15", r"\g<1>93.184.215.14", signed)
    changed, more = re.subn(r"(?m)^(forged-inner\.secure\.test\.\s+60\s+(?:IN\s+)?A\s+)93\.184\.215\.16", r"\g<1>10.2.2.2", changed)
    assert count == more == 1, signed
    (folder / "secure.zone").write_text(changed)
    key = re.search(r"(?m)^secure\.test\.\s+60\s+(?:IN\s+)?DNSKEY\s+(257 3 \d+ \S+(?: \S+)*)$", signed)
    assert key, signed
    processes = [lab.net.popen("origin", "knotd", "-c", knot_conf(folder, "    zonefile-sync: -1\n    journal-content: none\n    semantic-checks: off\n"),
                               stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)]
    shipped = (TOP / "deploy" / "unbound.conf").read_text()
    anchor = 'auto-trust-anchor-file: "/var/lib/unbound/root.key"'
    assert anchor in shipped
    (folder / "unbound.conf").write_text(
        shipped.replace(anchor, f'trust-anchor: "secure.test. DNSKEY {key.group(1)}"')
        + f'server:\n  username: ""\n  chroot: ""\n  directory: "{folder}"\n  pidfile: ""\n  use-syslog: no\n  do-daemonize: no\n'
        f"  local-zone: test. nodefault\nstub-zone:\n  name: secure.test\n  stub-addr: {SERVER}@{PORT}\n")
    log = open(folder / "unbound.log", "w", encoding="utf-8")
    processes.append(lab.net.popen("proxy", "unbound", "-d", "-c", folder / "unbound.conf", stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL))
    try:
        wait_for(lambda: "93.184.215.14" in lab.net.run("proxy", "dig", "+short", "+time=1", "+tries=1", "@127.0.0.1", "good.secure.test",
                                                        check=False).stdout)
        yield folder
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def one(module_egress, resolver):
    return module_egress(leases={"one.policy": LEASE}, daemon="name_servers = 127.0.0.1")


def dig(lab, name):
    return lab.net.run("proxy", "dig", "+time=2", "+tries=1", "@127.0.0.1", name, check=False).stdout


@pytest.mark.skipif(shutil.which("unbound") is None, reason="unbound is not installed")
def test_the_resolver_tells_bogus_from_good(lab, resolver):
    assert "flags: qr rd ra ad" in dig(lab, "good.secure.test")
    for name in ("bogus.secure.test", "forged-inner.secure.test"):
        assert "SERVFAIL" in dig(lab, name) and "93.184" not in dig(lab, name).split("ANSWER SECTION")[-1].split(";; Query")[0]


def test_a_signed_name_resolves(one):
    with one.guest() as guest:
        assert guest.open("good.secure.test", 7000) == OK
    record = one.wait_record(host="good.secure.test", status_code="allowed")
    assert record["dst_endpoint"]["ip"] == "93.184.215.14"


@pytest.mark.parametrize("name", ["bogus.secure.test", "forged-inner.secure.test"])
def test_a_changed_answer_is_refused_and_not_dialled(one, name):
    with one.guest() as guest:
        assert guest.open(name, 7000) == HOST
    record = one.wait_record(host=name)
    assert record["status_code"] == "dns_failed" and "upstream" not in record["unmapped"]


def test_a_signed_inner_address_is_still_an_inner_address(one):
    with one.guest() as guest:
        assert guest.open("inner.secure.test", 7000) != OK
    assert one.wait_record(host="inner.secure.test")["status_code"] == "special_address"


def test_a_signed_absence_is_an_absence(one):
    with one.guest() as guest:
        assert guest.open("missing.secure.test", 7000) == HOST
    assert one.wait_record(host="missing.secure.test")["status_code"] == "dns_nxdomain"
