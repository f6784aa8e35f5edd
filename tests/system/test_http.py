"""Clear HTTP under an http rule: every request names the host, every redirect is judged, refusals are said in band."""
import json

import pytest
from socks import OK, Socks

LEASE = """lease ls_http
guest require source
guest source 10.200.0.2/32
mode allowlist
allow http://plain.test as plain
allow http://only4.test as other
allow ws://allowed.test:80 as sockets
allow https://allowed.test as web
"""
GET = b"GET /%s HTTP/1.1\r\nHost: plain.test\r\n\r\n"


def opened(lab, host="plain.test", port=80):
    s = Socks(lab)
    assert s.open(host, port) == OK
    return s


def read_response(s):
    data = b""
    while b"\r\n\r\n" not in data:
        more = s.sock.recv(65536)
        if not more:
            return data, b""
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            want = int(line.split(b":")[1])
            while len(body) < want:
                body += s.sock.recv(65536)
    return head, body


def test_a_request_is_relayed(lab, egress):
    egress(leases={"http.policy": LEASE})
    with opened(lab) as s:
        s.send(b"GET /hello HTTP/1.1\r\nHost: plain.test\r\n\r\n", one_by_one=True)
        head, body = read_response(s)
        assert head.startswith(b"HTTP/1.1 200") and body == b"http /hello\n"


@pytest.mark.parametrize("request_bytes, reason", [
    (b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "http_host_mismatch"),
    (b"GET / HTTP/1.1\r\n\r\n", "http_host_missing"),
    (b"GET / HTTP/1.1\r\nHost: plain.test\r\nHost: plain.test\r\n\r\n", "http_host_mismatch"),
    (b"GET / HTTP/1.1\r\nHost: plain.test:81\r\n\r\n", "http_host_mismatch"),
    (b"GET http://evil.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", "http_target_mismatch"),
    (b"CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test\r\n\r\n", "http_target_mismatch"),
    (b"GET / HTTP/1.1\nHost: plain.test\n\n", "http_malformed"),
    (b"GET /\r\n", "http_malformed"),
    (b"POST / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "http_framing"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http_malformed"),
])
def test_a_refused_request_is_answered_with_403_and_never_reaches_the_origin(lab, egress, request_bytes, reason):
    e = egress(leases={"http.policy": LEASE})
    before = len(lab.origin_lines())
    with opened(lab) as s:
        s.send(request_bytes)
        head, body = read_response(s)
        assert head.startswith(b"HTTP/1.1 403"), head
        said = json.loads(body)
        assert said["reason"] == reason and "fix_action" not in said
        assert s.rest() == b""
    assert e.wait_record(status_code=reason)["metadata"]["correlation_uid"] == said["decision"]
    assert not [line for line in lab.origin_lines()[before:] if line.startswith("request")]


def test_a_later_pipelined_request_is_refused_after_the_first_answer(lab, egress):
    e = egress(leases={"http.policy": LEASE})
    with opened(lab) as s:
        s.send(b"GET /keep HTTP/1.1\r\nHost: plain.test\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        data = s.rest()
    assert data.startswith(b"HTTP/1.1 200") and b"http /keep\n" in data
    assert b"HTTP/1.1 403" in data and data.index(b"403") > data.index(b"/keep")
    assert e.wait_record(status_code="http_host_mismatch")


def test_tls_and_ssh_on_an_http_rule_are_refused(lab, egress):
    e = egress(leases={"http.policy": LEASE})
    for first in (bytes.fromhex("16030100050100000100"), b"SSH-2.0-x\r\n"):
        with opened(lab) as s:
            s.send(first)
            s.rest()
    assert e.wait_record(status_code="scheme_mismatch")
