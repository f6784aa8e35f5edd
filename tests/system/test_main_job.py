"""The main job, end to end: a guest's request judged, resolved, checked, connected, relayed, recorded."""
from lab import wait_for
from socks import HOST, NOT_ALLOWED, OK, REFUSED, Socks

SOURCE = "lease ls_one\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\n"
RULES = """allow https://allowed.test as web
allow https://*.wild.test as wild
allow tcp://allowed.test:7000-7005 as raw
allow tcp://plain.test:81 as closed-port
allow tcp://private.test:80 as inside
allow tcp://nx.test:80
deny blocked.wild.test as no-blocked
"""


def test_an_allowed_name_is_relayed_and_recorded(lab, egress):
    e = egress(leases={"one.policy": SOURCE + RULES})
    with Socks(lab) as s:
        assert s.open("allowed.test", 7000) == OK
        s.send(b"hello")
        assert s.take(5) == b"hello"
    r = e.wait_record(status_code="allowed", activity_id=1)
    assert r["policy"]["uid"] == "ls_one" and r["firewall_rule"]["uid"] == "raw"
    assert r["dst_endpoint"]["hostname"] == "allowed.test" and r["dst_endpoint"]["port"] == 7000
    closed = e.wait_record(activity_id=2)
    assert closed["traffic"]["bytes_out"] == 5 and closed["traffic"]["bytes_in"] == 5


def test_an_unlisted_name_is_refused_without_a_lookup(lab, egress):
    e = egress(leases={"one.policy": SOURCE + RULES})
    with Socks(lab) as s:
        assert s.open("evil.test", 443) == NOT_ALLOWED
    assert e.wait_record(status_code="no_rule")["dst_endpoint"]["hostname"] == "evil.test"
    assert e.metric("egress_dns_queries_total") == 0


def test_a_name_with_a_private_address_is_refused(lab, egress):
    e = egress(leases={"one.policy": SOURCE + RULES})
    with Socks(lab) as s:
        assert s.open("private.test", 80) == NOT_ALLOWED
    assert e.wait_record(status_code="special_address")


def test_replies_tell_the_truth(lab, egress):
    egress(leases={"one.policy": SOURCE + RULES})
    for host, port, reply in (("plain.test", 81, REFUSED), ("nx.test", 80, HOST), ("blocked.wild.test", 443, NOT_ALLOWED)):
        with Socks(lab) as s:
            assert s.open(host, port) == reply, host


def test_curl_fetches_over_https(lab, egress):
    egress(leases={"one.policy": SOURCE + RULES})
    got = lab.net.run("guest", "curl", "-sS", "--max-time", "10", "--cacert", lab.folder / "ca.pem", "-x", "socks5h://10.200.0.1:1080",
                      "https://allowed.test/hello")
    assert got.stdout == "https /hello\n"


def test_another_server_name_is_refused(lab, egress):
    e = egress(leases={"one.policy": SOURCE + RULES})
    got = lab.net.run("guest", "curl", "-sS", "--max-time", "10", "--cacert", lab.folder / "ca.pem", "-x", "socks5h://10.200.0.1:1080",
                      "--connect-to", "plain.test:443:allowed.test:443", "https://plain.test/hello", check=False)
    assert got.returncode != 0
    assert e.wait_record(status_code="tls_sni_mismatch")


def test_descriptors_come_back(lab, egress):
    e = egress(leases={"one.policy": SOURCE + RULES})
    before = e.descriptors()
    held = [Socks(lab) for _ in range(20)]
    for s in held:
        assert s.open("allowed.test", 7000) == OK
    for s in held:
        s.close()
    wait_for(lambda: e.descriptors() == before)
