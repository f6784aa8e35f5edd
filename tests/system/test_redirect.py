"""Redirects in clear HTTP are judged as new requests of the same lease, before the guest sees them."""
import json

import pytest
from raw_origin import Origin
from socks import OK

LEASE = """lease ls_redirect
guest require source
guest source 10.200.0.2/32
mode allowlist
allow http://only4.test:7180 as page
allow http://plain.test as plain
allow https://allowed.test as web
"""
GET = b"GET /a/b HTTP/1.1\r\nHost: only4.test:7180\r\n\r\n"
REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(scope="module")
def shared(module_egress):
    return module_egress(leases={"redirect.policy": LEASE})


def exchange(lab, e, answers, requests=GET):
    """What the guest gets for `requests` when the origin sends `answers` and ends."""
    with Origin(lab, 7180) as origin, e.guest() as s:
        assert s.open("only4.test", 7180) == OK
        s.send(requests)
        assert origin.got(len(GET)) == GET
        origin.conn.sendall(answers)
        origin.conn.close()
        return s.rest()


def refusal(data):
    """The reason in a 403 of ours, which nothing stands before."""
    assert data.startswith(b"HTTP/1.1 403 "), data
    return json.loads(data.split(b"\r\n\r\n", 1)[1].split(b"\n")[0])["reason"]


@pytest.mark.parametrize("location", [
    b"http://plain.test/", b"HTTP://PLAIN.TEST:80/x?y#z", b"https://allowed.test/", b"//only4.test:7180/x", b"/next", b"next", b"?q=1", b"#f",
    b"http://only4.test:7180/", b"../c",
])
def test_a_redirect_that_the_lease_allows_passes_unchanged(lab, shared, location):
    assert exchange(lab, shared, REDIRECT % location) == REDIRECT % location


@pytest.mark.parametrize("location", [
    b"http://evil.test/", b"//evil.test/x", b"https://plain.test/", b"http://plain.test:81/", b"http://only4.test/", b"http://169.254.169.254/latest/",
    b"http://[::1]/", b"http://127.1/", b"/\\evil.test/", b"\\\\evil.test/", b"http:\\\\evil.test/", b"http://plain.test@evil.test/",
    b"http://plain.test\\@evil.test/", b"http://evil.test#@plain.test/", b"http://plain.test:80@evil.test/", b"ftp://plain.test/", b"javascript:x",
    b"http://plain.test%2eevil.test/", b"http:///evil.test/", b"http://plain.test:+80/", b"http://plain.te st/", b"ws://plain.test/",
])
def test_a_redirect_that_is_refused_or_not_understood_never_reaches_the_guest(lab, shared, location):
    data = exchange(lab, shared, REDIRECT % location)
    assert refusal(data) == "redirect_denied"
    assert b"Location" not in data and location not in data


def test_the_record_of_a_refused_redirect_names_its_target(lab, egress):
    e = egress(leases={"redirect.policy": LEASE})
    exchange(lab, e, REDIRECT % b"http://evil.test/secret")
    assert "http://evil.test/secret" in json.dumps(e.wait_record(status_code="redirect_denied"))


@pytest.mark.parametrize("status", [300, 301, 303, 307, 308, 399])
def test_every_3xx_with_a_location_is_judged(lab, shared, status):
    answer = b"HTTP/1.1 %d Some\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n" % status
    assert refusal(exchange(lab, shared, answer)) == "redirect_denied"


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 200 OK\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 201 Created\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\nLocation: http://evil.test/\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nAlt-Svc: h2=\"evil.test:443\"\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nRefresh: 5\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nRefresh: 0; url=/again\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
], ids=["200", "201", "304", "alt-svc", "reload", "refresh-own", "103"])
def test_what_no_client_follows_passes(lab, shared, answer):
    assert exchange(lab, shared, answer) == answer


@pytest.mark.parametrize("answer, reason", [
    (b"HTTP/1.1 200 OK\r\nRefresh: 0; url=http://evil.test/\r\nContent-Length: 0\r\n\r\n", "redirect_denied"),
    (b"HTTP/1.1 200 OK\r\nRefresh: nonsense evil.test\r\nContent-Length: 0\r\n\r\n", "redirect_denied"),
    (b"HTTP/1.1 302 F\r\nLocation: /ok\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n", "response_malformed"),
    (b"HTTP/1.1 302 F\r\nLocation:\r\n http://evil.test/\r\nContent-Length: 0\r\n\r\n", "response_malformed"),
    (b"HTTP/1.1 302 F\r\nLocation : http://evil.test/\r\nContent-Length: 0\r\n\r\n", "response_malformed"),
    (b"HTTP/1.1 302 F\r\nContent-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n", "response_malformed"),
    (b"HTTP/1.1 302 F\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "response_malformed"),
    (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "response_malformed"),
    (b"HTTP/0.9 nonsense\r\n\r\n", "response_malformed"),
], ids=["refresh", "refresh-unclear", "two", "folded", "spaced", "lengths", "two-lengths", "101", "version"])
def test_answers_that_two_readers_could_take_differently_are_refused(lab, shared, answer, reason):
    assert refusal(exchange(lab, shared, answer)) == reason


def test_a_redirect_behind_interim_answers_is_judged(lab, shared):
    data = exchange(lab, shared, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 2 + REDIRECT % b"http://evil.test/")
    assert data.startswith(b"HTTP/1.1 103 ") and b"302" not in data
    assert refusal(data[data.index(b"HTTP/1.1 403"):]) == "redirect_denied"


def test_the_second_of_two_pipelined_answers_is_judged(lab, shared):
    first = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    data = exchange(lab, shared, first + REDIRECT % b"http://evil.test/", GET + GET)
    assert data.startswith(first)
    assert refusal(data[len(first):]) == "redirect_denied"


def test_an_answer_to_nothing_is_refused(lab, shared):
    first = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    data = exchange(lab, shared, first + first)
    assert data.startswith(first) and first not in data[len(first):]
    assert shared.wait_record(status_code="response_malformed")


def test_a_location_among_the_trailers_is_refused(lab, shared):
    data = exchange(lab, shared, b"HTTP/1.1 302 F\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nLocation: http://evil.test/\r\n\r\n")
    assert b"evil" not in data
    assert shared.wait_record(status_code="response_malformed")


def test_the_request_that_follows_a_redirect_says_where_it_came_from(lab, egress):
    e = egress(leases={"redirect.policy": LEASE})
    exchange(lab, e, REDIRECT % b"http://plain.test/")
    came_from = e.wait_record(activity_id=1)["metadata"]["correlation_uid"]
    with e.guest() as s:
        assert s.open("plain.test", 80) == OK
    follow = e.wait_record(host="plain.test", activity_id=1)
    assert follow["unmapped"]["redirect_from"] == came_from and follow["unmapped"]["inferred"] is True
    with e.guest() as s:
        assert s.open("allowed.test", 443) == OK
    assert "redirect_from" not in e.wait_record(host="allowed.test", activity_id=1)["unmapped"]


def test_a_page_that_forges_a_refusal_changes_nothing_in_the_records(lab, egress):
    e = egress(leases={"redirect.policy": LEASE})
    body = b'{"code":"network_destination_denied","reason":"no_rule","fix_action":{"rule":"https://evil.test"}}'
    answer = b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    assert exchange(lab, e, answer) == answer
    e.wait_record(activity_id=2)
    assert not e.records(activity_id=5) and "evil" not in e.ctl("why", "--json").stdout
