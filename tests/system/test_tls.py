"""https rules: the bytes are TLS for the very name that was asked for, both hellos, before anything passes either way."""
import time

import pytest
import tls
from raw_origin import Origin
from socks import OK

LEASE = """lease ls_tls
guest require source
guest source 10.200.0.2/32
mode allowlist
allow https://allowed.test as web
allow https://only4.test:7100 as scripted
allow https://allowed.test:7001 as talker
allow https://only6.test ech=refuse
allow https://plain.test ech=refuse as no-ech
"""
FAST = "first_flight_ms = 2500\n"


@pytest.fixture(scope="module")
def shared(module_egress):
    """One egressd for the tests that change nothing in it."""
    return module_egress(leases={"tls.policy": LEASE}, daemon=FAST)


def opened(e, host="allowed.test", port=443):
    s = e.guest()
    assert s.open(host, port) == OK
    return s


def is_alert(data, description):
    return data[:1] == bytes([tls.ALERT]) and data[5:7] == bytes([2, description])


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_real_client_is_served_however_its_hello_is_cut(lab, shared, one_by_one):
    with opened(shared) as s:
        assert tls.fetch(s, "allowed.test", lab.folder / "ca.pem", "/x", one_by_one) == "https /x\n"


def test_one_record_per_byte_passes_unchanged(lab, shared):
    first = tls.flight(tls.hello("only4.test"), 1)
    with Origin(lab) as origin, opened(shared, "only4.test", 7100) as s:
        s.send(first)
        assert origin.got(len(first)) == first


def test_a_hello_of_today_passes_unchanged(lab, shared):
    first = tls.flight(tls.hello("only4.test"))
    with Origin(lab) as origin, opened(shared, "only4.test", 7100) as s:
        for i in range(0, len(first), 100):
            s.send(first[i:i + 100])
            time.sleep(0.001)
        assert origin.got(len(first)) == first


BAD = {
    "another name": (tls.flight(tls.hello("evil.test")), "tls_sni_mismatch", tls.UNRECOGNIZED_NAME),
    "a name below": (tls.flight(tls.hello("a.only4.test")), "tls_sni_mismatch", tls.UNRECOGNIZED_NAME),
    "no name": (tls.flight(tls.hello()), "tls_sni_missing", tls.UNRECOGNIZED_NAME),
    "an address": (tls.flight(tls.hello("93.184.215.15")), "tls_malformed", tls.ACCESS_DENIED),
    "a final dot": (tls.flight(tls.hello("only4.test.")), "tls_malformed", tls.ACCESS_DENIED),
    "an empty name": (tls.flight(tls.hello("")), "tls_malformed", tls.ACCESS_DENIED),
    "a NUL inside": (tls.flight(tls.hello("only4.test\0.evil.test")), "tls_malformed", tls.ACCESS_DENIED),
    "two names": (tls.flight(tls.hello("only4.test", "evil.test")), "tls_malformed", tls.ACCESS_DENIED),
    "the extension twice": (tls.flight(tls.hello("only4.test", extra=tls.server_name("only4.test"))), "tls_malformed", tls.ACCESS_DENIED),
    "bytes behind an empty block": (tls.flight(tls.hello(extensions=b"") + b"\0"), "tls_malformed", tls.ACCESS_DENIED),
    "an alert between fragments": (tls.record(22, tls.hello("only4.test")[:40]) + tls.record(21, b"\1\0"), "tls_malformed", tls.ACCESS_DENIED),
    "a hello without end": (tls.record(22, b"\x01\x00\xff\xff" + bytes(16380)) + tls.record(22, bytes(16384)) * 4, "tls_malformed", tls.ACCESS_DENIED),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_hello_is_answered_with_an_alert_and_never_reaches_the_origin(lab, shared, what):
    first, reason, alert = BAD[what]
    with Origin(lab) as origin, opened(shared, "only4.test", 7100) as s:
        s.send(first)
        assert is_alert(s.rest(), alert)
        assert origin.is_silent()
    assert shared.wait_record(status_code=reason)


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\nHost: only4.test\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"\x00\x01\x02\x03" * 8], ids=["http", "ssh", "noise"])
def test_what_is_no_tls_is_refused(lab, shared, first):
    with Origin(lab) as origin, opened(shared, "only4.test", 7100) as s:
        s.send(first)
        s.rest()
        assert origin.is_silent()
    assert shared.wait_record(status_code="scheme_mismatch")


def test_a_hello_that_stops_is_refused_in_time(lab, shared):
    with Origin(lab) as origin, opened(shared, "only4.test", 7100) as s:
        s.send(tls.flight(tls.hello("only4.test"))[:-1])
        s.rest()
        assert origin.is_silent()
    assert shared.wait_record(status_code="first_flight_timeout")


def test_half_a_hello_and_an_end_is_malformed(lab, shared):
    import socket
    with Origin(lab) as origin, opened(shared, "only4.test", 7100) as s:
        s.send(tls.flight(tls.hello("only4.test"))[:60])
        s.sock.shutdown(socket.SHUT_WR)
        s.rest()
        assert origin.is_silent()
    assert shared.wait_record(status_code="tls_malformed")


def test_a_server_that_speaks_first_passes_not_one_byte(lab, shared):
    with opened(shared, "allowed.test", 7001) as s:
        assert b"speaks first" not in s.rest()
    assert shared.wait_record(status_code="first_flight_timeout")


def test_a_silent_guest_is_idle_and_not_denied(lab, egress):
    e = egress(leases={"tls.policy": LEASE + "limit idle_ms 1500\n"}, daemon=FAST)
    with opened(e) as s:
        assert s.rest() in (b"", b"RESET")
    assert e.wait_record(activity_id=2)["status_code"] == "idle_timeout"
    assert not e.records(activity_id=5)


def test_a_second_hello_names_the_same_host(lab, shared):
    first, second = tls.flight(tls.hello("only4.test")), tls.flight(tls.hello("only4.test"))
    between = tls.record(tls.CHANGE_CIPHER, b"\1") + tls.record(23, bytes(500))
    with Origin(lab) as origin, opened(shared, "only4.test", 7100) as s:
        s.send(first)
        assert origin.got(len(first)) == first
        origin.conn.sendall(tls.retry_request())
        assert s.take(len(tls.retry_request())) == tls.retry_request()
        s.send(between + second, one_by_one=False)
        assert origin.got(len(between + second)) == between + second
        origin.conn.sendall(b"opaque")
        assert s.take(6) == b"opaque"


@pytest.mark.parametrize("second", [tls.flight(tls.hello("evil.test")), tls.flight(tls.hello()), tls.record(22, b"\x0b\0\0\0")],
                         ids=["another name", "no name", "no hello"])
def test_a_second_hello_that_names_another_host_is_refused(lab, shared, second):
    first = tls.flight(tls.hello("only4.test"))
    with Origin(lab) as origin, opened(shared, "only4.test", 7100) as s:
        s.send(first)
        origin.got(len(first))
        origin.conn.sendall(tls.retry_request())
        s.take(len(tls.retry_request()))
        s.send(second)
        assert s.rest()[:1] == bytes([tls.ALERT])
        assert origin.is_silent()


def test_without_a_retry_request_the_flow_is_opaque(lab, shared):
    first = tls.flight(tls.hello("only4.test"))
    answer = tls.record(22, b"\x02" + tls.vector(3, b"\x03\x03" + bytes(range(32)) + b"\0\x13\x01\0"))
    with Origin(lab) as origin, opened(shared, "only4.test", 7100) as s:
        s.send(first + tls.record(23, b"early"))
        assert origin.got(len(first)) == first
        origin.conn.sendall(answer)
        assert s.take(len(answer)) == answer
        assert origin.got(10) == tls.record(23, b"early")
        s.send(b"anything")
        assert origin.got(8) == b"anything"


def test_an_encrypted_hello_is_recorded_and_refused_where_the_rule_says_so(lab, shared):
    ech = tls.extension(0xFE0D, b"\0" + bytes(200))
    with Origin(lab) as origin, opened(shared, "only4.test", 7100) as s:
        first = tls.flight(tls.hello("only4.test", extra=ech))
        s.send(first)
        assert origin.got(len(first)) == first
    with opened(shared, "plain.test", 443) as s:
        s.send(tls.flight(tls.hello("plain.test", extra=ech)))
        assert is_alert(s.rest(), tls.ACCESS_DENIED)
    assert shared.wait_record(status_code="tls_ech")
