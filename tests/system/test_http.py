"""Clear HTTP under http and ws rules: every request names the host, bodies relay byte for byte, refusals are said in band."""
import base64
import hashlib
import json
import time

import pytest
from lab import wait_for
from scripted import Scripted
from socks import OK, Socks

LEASE = """lease ls_http
guest require source
guest source 10.200.0.2/32
mode allowlist
limit connects_per_s 10000 connects_per_s_destination 10000
allow http://script.test as script
allow http://plain.test as plain
allow ws://sock.script.test:80 as sockets
allow http://both.script.test as both-http
allow ws://both.script.test:80 as both-ws
allow https://allowed.test as web
allow http://93.184.215.17 as literal
"""
FAST = "first_flight_ms = 1500\n"
SHARED, OWN = 1180, 1080  # ports of the fixtures


@pytest.fixture
def origin(lab):
    with Scripted(lab) as one:
        yield one


@pytest.fixture(scope="module")
def shared(module_egress):
    """One egressd for all tests that change no policy."""
    return module_egress(leases={"http.policy": LEASE}, daemon=FAST)


def opened(lab, host="script.test", port=80, proxy=SHARED):
    s = Socks(lab, to=("10.200.0.1", proxy))
    assert s.open(host, port) == OK
    return s


def send_in_two(s, data, cut):
    s.send(data[:cut])
    if 0 < cut < len(data):
        time.sleep(0.003)
    s.send(data[cut:])


def refusal(data):
    """The 403 that `data` starts with, as what it says."""
    head, body = data.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 403 Forbidden\r\n") and b"Content-Type: application/problem+json" in head
    length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    assert len(body) == length, data
    said = json.loads(body)
    assert set(said) == {"type", "title", "status", "code", "reason", "detail", "decision"}
    return said


# --- what passes ---

GET = b"GET / HTTP/1.1\r\nHost: script.test\r\n\r\n"
HONEST = {
    "a length": (GET, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    "no body": (GET, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "until the end": (GET, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nall \r\n\r\nthat comes"),
    "chunks, extensions, trailers": (
        GET, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n \r\n0\r\nServer-Timing: a\r\nX: y\r\n\r\n"),
    "HEAD with a length": (b"HEAD / HTTP/1.1\r\nHost: script.test\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
    "204": (GET, b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"),
    "304 with a length and a location": (
        GET, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\nLocation: http://evil.test/\r\n\r\n"),
    "hints before the answer": (
        GET, b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    "HTTP/1.0": (b"GET /x HTTP/1.0\r\nHost: script.test\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\nold"),
    "the port in Host": (b"GET / HTTP/1.1\r\nHost: script.test:80\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "Host in other case": (b"GET / HTTP/1.1\r\nhOST: SCRIPT.Test\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "absolute form": (b"GET http://script.test/p?q HTTP/1.1\r\nHost: script.test\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "two slashes are a path": (b"GET //evil.test/x HTTP/1.1\r\nHost: script.test\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "OPTIONS *": (b"OPTIONS * HTTP/1.1\r\nHost: script.test\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "forwarded names are not the authority": (
        b"GET / HTTP/1.1\r\nHost: script.test\r\nX-Forwarded-Host: evil.test\r\nForwarded: host=evil.test\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "an advert is no permission": (
        GET, b"HTTP/1.1 200 OK\r\nAlt-Svc: h3=\":443\", h2=\"evil.test:443\"\r\nContent-Length: 0\r\n\r\n"),
    "a body with a length": (
        b"POST / HTTP/1.1\r\nHost: script.test\r\nContent-Length: 11\r\n\r\nGET / HTTP/", b"HTTP/1.1 201 Created\r\n"
        b"Location: http://evil.test/\r\nContent-Length: 0\r\n\r\n"),
    "a body in chunks": (
        b"PUT / HTTP/1.1\r\nHost: script.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;ext=\"1\"\r\n0123456789\r\n0\r\nX: trailer\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
}


def exchange(lab, origin, request, response, up_cut=0, down_cut=0, host="script.test", proxy=SHARED):
    """One connection, each message in two segments; what came out at either end."""
    number = len(origin.conns)

    def play(conn):
        if conn.take(len(request)) is not None:
            conn.send(response[:down_cut], response[down_cut:])
            conn.finish()
    origin.play = play
    with opened(lab, host, proxy=proxy) as s:
        send_in_two(s, request, up_cut)
        got = s.rest()
    return origin.received(number), got


@pytest.mark.parametrize("kind", HONEST)
def test_honest_messages_relay_byte_for_byte_however_they_are_split(lab, shared, origin, kind):
    request, response = HONEST[kind]
    before = len(shared.records(activity_id=5))
    for cut in range(max(len(request), len(response))):
        up, down = exchange(lab, origin, request, response, cut % len(request), cut % len(response))
        assert up == request and down == response, cut
    assert len(shared.records(activity_id=5)) == before


def test_both_messages_may_come_byte_by_byte(lab, shared, origin):
    request, response = HONEST["a body in chunks"][0], HONEST["chunks, extensions, trailers"][1]

    def play(conn):
        conn.take(len(request))
        conn.send(*(response[i:i + 1] for i in range(len(response))))
    origin.play = play
    with opened(lab) as s:
        s.send(request, one_by_one=True)
        assert s.rest() == response
    assert origin.received() == request


def test_an_address_is_its_own_host(lab, shared, origin):
    request = b"GET / HTTP/1.1\r\nHost: 93.184.215.17\r\n\r\n"
    up, down = exchange(lab, origin, request, b"HTTP/1.1 204 Fine\r\n\r\n", host="93.184.215.17")
    assert up == request and down.startswith(b"HTTP/1.1 204")
    exchange(lab, origin, GET, b"HTTP/1.1 204 Fine\r\n\r\n", host="93.184.215.17")
    assert shared.wait_record(status_code="http_host_mismatch")


def test_many_requests_pass_one_connection_one_after_the_other_and_pipelined(lab, shared, origin):
    requests = [b"GET /%d HTTP/1.1\r\nHost: script.test\r\n\r\n" % i for i in range(100)]
    answers = [(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(str(i)) + b"%d" % i) for i in range(100)]
    origin.answers(*answers)
    with opened(lab) as s:
        for request, answer in zip(requests, answers):
            s.send(request)
            assert s.take(len(answer)) == answer
    origin.answers(*answers, close=True)
    with opened(lab) as s:
        s.send(b"".join(requests))  # more than may be unanswered at a time
        assert s.rest() == b"".join(answers)
    assert origin.received() == b"".join(requests)


def test_a_large_body_streams_both_ways(lab, shared, origin):
    size = 30_000_000
    request = b"POST / HTTP/1.1\r\nHost: script.test\r\nContent-Length: %d\r\n\r\n" % size
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    def play(conn):
        conn.until()
        left = size - (len(conn.received) - conn.read_len)
        while left > 0:
            left -= len(conn.sock.recv(1 << 20))
        conn.send(answer)
        for _ in range(300):
            conn.send(b"186a0\r\n" + b"d" * 100_000 + b"\r\n")
        conn.send(b"0\r\n\r\n")
    origin.play = play
    with opened(lab) as s:
        s.send(request)
        for _ in range(300):
            s.send(b"u" * 100_000)
        assert len(s.rest()) == len(answer) + 300 * 100_009 + 5
    assert shared.memory_kb() < 600_000


def test_a_guest_that_waits_for_100_gets_it(lab, shared, origin):
    head = b"POST / HTTP/1.1\r\nHost: script.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"

    def play(conn):
        conn.until()
        conn.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        conn.take(4)
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        conn.until()
        conn.send(b"HTTP/1.1 204 Second\r\n\r\n")
        conn.drain()
    origin.play = play
    with opened(lab) as s:
        s.send(head)
        assert s.take(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.send(b"body" + GET)
        both = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 204 Second\r\n\r\n"
        assert s.take(len(both)) == both


def test_a_final_answer_instead_of_100_is_the_last_of_the_connection(lab, shared, origin):
    """What follows could be the body that was announced, or a request that nobody judged: the server would choose."""
    head = b"POST / HTTP/1.1\r\nHost: script.test\r\nContent-Length: 40\r\nExpect: 100-continue\r\n\r\n"
    smuggled = b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    for answer in (b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno", b"HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n"):
        origin.answers(answer)
        number = len(origin.conns)
        with opened(lab) as s:
            s.send(head)
            assert s.take(len(answer)) == answer
            s.send(smuggled)
            assert s.rest() == b""
        assert origin.received(number) == head


# --- what is refused ---

def refused(*requests, reason):
    return [pytest.param(r, reason, id=f"{reason}-{i}") for i, r in enumerate(requests)]


def head(*fields, line=b"GET / HTTP/1.1"):
    return b"\r\n".join([line, *fields]) + b"\r\n\r\n"


HOST = b"Host: script.test"
REFUSED = [
    *refused(head(b"Host: evil.test"), head(b"Host: script.test:8080"), head(b"Host: script.test:"), head(b"Host: script.test:080"),
             head(HOST, b"Host: evil.test"), head(HOST, HOST), head(b"host: script.test", b"HOST: script.test"),
             head(b"Host: script.test.evil.test"), head(b"Host: user@script.test"), head(b"Host: script.test, evil.test"),
             head(b"Host: 93.184.215.17"), head(b"Host: script.test/"), head(b"Host: script.test\\"), head(b"Host: [script.test]"),
             head(b"Host: script.test\t80"), reason="http_host_mismatch"),
    *refused(head(), head(b"Host:"), head(b"Host: \t "), head(b"X-Host: script.test"), reason="http_host_missing"),
    *refused(*(head(HOST, line=b"GET " + target + b" HTTP/1.1") for target in (
        b"https://script.test/", b"http://script.test@evil.test/", b"ftp://script.test/", b"http://evil.test/", b"http://script.test:81/",
        b"http:script.test/", b"HTTP://script.test.evil.test/")),
             head(HOST, line=b"CONNECT script.test:80 HTTP/1.1"), reason="http_target_mismatch"),
    *refused(head(HOST, b"Host : evil.test"), head(HOST, b"Host\t: evil.test"), head(b"Host:", b" evil.test", HOST),
             head(HOST, b"X: a", b" Host: evil.test"), head(b" Host: evil.test", HOST), head(b"\tHost: evil.test", HOST),
             b"GET / HTTP/1.1\nHost: script.test\n\n", b"GET / HTTP/1.1\r\nHost: script.test\nHost: evil.test\r\n\r\n",
             b"GET / HTTP/1.1\r\nHost: script.test\r\n\n", b"GET / HTTP/1.1\r\nX: a\rHost: evil.test\r\nHost: script.test\r\n\r\n",
             head(HOST, b": x", b"Transfer-Encoding: chunked"), head(HOST, b"X: a\0b"), head(HOST, b"no colon"), head(HOST, b"X\0: y"),
             b"GET /\r\n", b"GET /\r\n\r\n", head(HOST, line=b"GET / HTTP/1.2"), head(HOST, line=b"GET / http/1.1"),
             head(HOST, line=b"GET / HTTP/2.0"), head(HOST, line=b"GET / HTTP/1.1 "), head(HOST, line=b"GET  / HTTP/1.1"),
             head(HOST, line=b"G\tT / HTTP/1.1"), head(HOST, line=b"get / HTTP/1.1"), head(HOST, line=b"G" * 9000 + b" / HTTP/1.1"),
             head(HOST, line=b"GET /#x HTTP/1.1"), head(HOST, line=b"GET /\xe9 HTTP/1.1"), head(HOST, line=b"GET x HTTP/1.1"),
             b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", head(HOST, *(b"X-%d: y" % i for i in range(300))),
             reason="http_malformed"),
    *refused(head(HOST, b"Content-Length: 4", b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.1"),
             *(head(HOST, *lines, line=b"POST / HTTP/1.1") for lines in (
                 [b"Content-Length: 5", b"Content-Length: 5"], [b"Content-Length: 5, 5"], [b"Content-Length: +5"], [b"Content-Length: 5 x"],
                 [b"Content-Length: -1"], [b"Content-Length: 0x5"], [b"Content-Length: 99999999999999999999"], [b"Content-Length:"],
                 [b"Content_Length: 5"], [b"Transfer-Encoding: xchunked"], [b"Transfer-Encoding: chunked, identity"],
                 [b"Transfer-Encoding: identity"], [b"Transfer-Encoding: gzip, chunked"], [b"Transfer-Encoding: Chunked"],
                 [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"], [b"Transfer-Encoding:"], [b"Transfer_Encoding: chunked"],
                 [b"Connection: close, transfer-encoding", b"Transfer-Encoding: chunked"], [b"Connection: host"])),
             head(HOST, b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.0"), reason="http_framing"),
]


def wait_told(e, said, reason):
    """What the guest was told is on record; denials of a kind are folded, their closes are not."""
    def told():
        return [r for r in e.records(status_code=reason) if said["decision"] in (r["metadata"]["uid"], r["metadata"].get("correlation_uid"))]
    return wait_for(told)


def is_refused_unseen(lab, e, origin, request, reason, one_by_one):
    number = len(origin.conns)
    with opened(lab) as s:
        s.send(request, one_by_one=one_by_one)
        said = refusal(s.rest())
    assert said["reason"] == reason and said["code"] == "network_destination_denied"
    assert origin.received(number) == b""
    wait_told(e, said, reason)


@pytest.mark.parametrize("request_bytes, reason", REFUSED)
def test_a_refused_request_is_answered_with_403_and_never_reaches_the_origin(lab, shared, origin, request_bytes, reason):
    is_refused_unseen(lab, shared, origin, request_bytes, reason, False)
    if len(request_bytes) < 300:
        is_refused_unseen(lab, shared, origin, request_bytes, reason, True)


@pytest.mark.parametrize("request_bytes, reason", [p for p in REFUSED if len(p.values[0]) < 300])
def test_the_same_as_the_second_of_a_pipeline_is_refused_after_the_first_answer(lab, shared, origin, request_bytes, reason):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"
    number = len(origin.conns)
    origin.answers(answer)
    with opened(lab) as s:
        s.send(GET + request_bytes)
        data = s.rest()
    assert data.startswith(answer)
    assert refusal(data[len(answer):])["reason"] == reason
    assert origin.received(number) == GET


def test_a_later_request_on_a_kept_connection_is_refused(lab, shared, origin):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    origin.answers(answer, answer, answer)
    with opened(lab) as s:
        for _ in range(3):
            s.send(GET)
            assert s.take(len(answer)) == answer
        s.send(head(b"Host: evil.test"))
        assert refusal(s.rest())["reason"] == "http_host_mismatch"
    assert origin.received() == GET * 3


BAD_CHUNKS = [b"FFFFFFFFFFFFFFFF1\r\n", b"FFFFFFFFFFFFFFFF\r\n", b"0x5\r\nhello", b"+5\r\nhello", b" 5\r\nhello", b"5\nhello", b"5 \r\nhello",
              b"5\r\nhelloX\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"\r\n", b"0\r\nHost: evil.test\r\n\r\n", b"0\r\nContent-Length: 5\r\n\r\n",
              b"0\r\n Folded: x\r\n\r\n", b"0\r\nno colon\r\n\r\n", b"0\r\nX: y\n\r\n", b"5;\r", b"5\r\rhello"]


@pytest.mark.parametrize("chunks", BAD_CHUNKS, ids=range(len(BAD_CHUNKS)))
def test_a_broken_chunk_ends_the_request_at_once(lab, shared, origin, chunks):
    request = head(HOST, b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.1")
    for one_by_one in (False, True):
        number = len(origin.conns)
        with opened(lab) as s:
            s.send(request)
            s.send(chunks, one_by_one=one_by_one)
            if chunks.endswith(b"\r"):
                s.send(b"x")
            assert refusal(s.rest())["reason"] == "http_framing"
        received = origin.received(number)
        assert received.startswith(request) and b"evil" not in received and b"Folded" not in received


def test_a_broken_body_behind_an_earlier_request_waits_for_its_answer_only(lab, shared, origin):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"
    origin.answers(answer)
    with opened(lab) as s:
        s.send(GET + head(HOST, b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.1") + b"zz\r\n")
        data = s.rest()
    assert data.startswith(answer) and refusal(data[len(answer):])["reason"] == "http_framing"


def test_a_body_that_breaks_while_it_is_answered_says_nothing_into_the_answer(lab, shared, origin):
    def play(conn):
        conn.until()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        conn.drain()
    origin.play = play
    with opened(lab) as s:
        s.send(head(HOST, b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.1"))
        assert s.take(43).endswith(b"half")
        s.send(b"zz\r\n")
        assert s.rest() == b""
    assert shared.wait_record(status_code="http_framing")


def test_a_refusal_waits_for_an_answer_that_ends_with_the_connection_and_adds_nothing(lab, shared, origin):
    answer = b"HTTP/1.1 200 OK\r\n\r\nuntil the end"
    origin.answers(answer, close=True)
    with opened(lab) as s:
        s.send(GET + head(b"Host: evil.test"))
        assert s.rest() == answer
    assert origin.received() == GET


def test_a_slow_reader_gets_the_earlier_answer_whole_before_the_refusal(lab, shared, origin):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n" + b"d" * 400000
    origin.answers(answer)
    with Socks(lab, to=("10.200.0.1", SHARED), receive=4096) as s:
        assert s.open("script.test", 80) == OK
        s.send(GET + head(b"Host: evil.test"))
        data = s.take(150000)
        for _ in range(13):  # longer than a guest may take nothing at all
            time.sleep(1)
            data += s.take(2000)
        data += s.rest()
    assert data.startswith(answer) and refusal(data[len(answer):])["reason"] == "http_host_mismatch"


def test_a_head_of_32_kib_is_the_largest(lab, shared, origin):
    fill = b"X: " + b"y" * 8000
    fits = head(HOST, fill, fill, fill, b"Z: " + b"z" * (32768 - len(head(HOST, fill, fill, fill, b"Z: "))))
    assert len(fits) == 32768
    up, down = exchange(lab, origin, fits, b"HTTP/1.1 204 Fine\r\n\r\n")
    assert up == fits and down.startswith(b"HTTP/1.1 204")
    is_refused_unseen(lab, shared, origin, fits.replace(b"Z: z", b"Z: zz"), "http_malformed", False)
    endless = head(HOST, b"X: " + b"y" * 8_000_000)
    with opened(lab) as s:
        try:
            s.send(endless)
        except OSError:
            pass
        assert b"http_malformed" in s.rest()
    assert shared.memory_kb() < 600_000


def test_a_slow_head_is_timed_as_a_whole(lab, shared, origin):
    with opened(lab) as s:
        s.send(b"GET / HTTP/1.1\r\nHost: script.test\r\n")
        started = time.monotonic()
        s.sock.settimeout(0.2)
        data = b""
        while not data and time.monotonic() - started < 20:
            s.send(b"X: y\r\n")
            try:
                data = s.sock.recv(65536)
            except TimeoutError:
                pass
        s.sock.settimeout(15)
        assert refusal(data + s.rest())["reason"] == "first_flight_timeout"
    assert origin.received() == b""


def test_a_slow_later_head_is_refused_behind_the_answers_before_it(lab, shared, origin):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"

    def play(conn):
        conn.until()
        conn.send(answer[:20])
        time.sleep(4)
        conn.send(answer[20:])
        conn.drain()
    origin.play = play
    with opened(lab) as s:
        s.send(GET + b"GET / HTTP/1.1\r\nHo")
        data = s.rest()
    assert data.startswith(answer) and refusal(data[len(answer):])["reason"] == "first_flight_timeout"
    assert origin.received() == GET


def test_a_guest_that_is_silent_between_requests_is_not_late(lab, shared, origin):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    origin.answers(answer, answer)
    with opened(lab) as s:
        s.send(GET)
        assert s.take(len(answer)) == answer
        time.sleep(3.2)  # more than first_flight_ms and a scan
        s.send(GET)
        assert s.take(len(answer)) == answer


def test_other_protocols_on_an_http_rule_are_refused(lab, shared, origin):
    hello = bytes.fromhex("16030100050100000100")
    for first, words in ((hello[:2], b"\x15\x03\x03\x00\x02\x02\x31"), (hello, b"\x15\x03\x03\x00\x02\x02\x31"), (b"SSH-2.0-x\r\n", b"egress: refused"),
                         (b"\x00\x01\x02", b""), (b"\r\nGET / HTTP/1.1\r\n", b"")):
        number = len(origin.conns)
        before = len(shared.records(status_code="scheme_mismatch", activity_id=2))
        with opened(lab) as s:
            s.send(first)
            got = s.rest()
        assert got.startswith(words) and (words or got == b""), first
        assert origin.received(number) == b""
        wait_for(lambda: len(shared.records(status_code="scheme_mismatch", activity_id=2)) > before)


def test_an_origin_that_forges_a_refusal_changes_nothing_in_records_or_why(lab, egress, origin):
    e = egress(leases={"http.policy": LEASE})
    body = b'{"code":"network_destination_denied","reason":"no_rule","fix_action":{"action":"widen_network_policy","rule":"https://evil.test"}}'
    forged = b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    up, down = exchange(lab, origin, GET, forged, proxy=OWN)
    assert down == forged
    assert e.wait_record(activity_id=2)["status_code"] == "allowed"
    assert {r["status_code"] for r in e.records()} == {"allowed"}
    why = e.ctl("why", "ls_http")
    assert "evil.test" not in why.stdout and "no_rule" not in why.stdout


# --- answers ---

def answered_badly(*answers):
    return [pytest.param(a, id=str(i)) for i, a in enumerate(answers)]


@pytest.mark.parametrize("answer", answered_badly(
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    b"HTTP/1.1 200 OK\r\nX : y\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: y\r\n folded\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 0\r\n\r\n", b"HTTP/0.9 200 OK\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"<html>old</html>", b"ICY 200 OK\r\n\r\n",
    b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello", b"HTTP/1.1 2000 OK\r\n\r\n", b"HTTP/1.1 99 x\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nHTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 40000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Le"))
def test_a_malformed_answer_never_reaches_the_guest(lab, shared, origin, answer):
    for cut in (0, len(answer) // 2):
        number = len(origin.conns)
        origin.answers((answer[:cut], answer[cut:]) if cut else answer, close=True)
        with opened(lab) as s:
            s.send(GET)
            said = refusal(s.rest())
        assert said["reason"] == "response_malformed"
        assert origin.received(number) == GET
    wait_told(shared, said, "response_malformed")


def test_a_broken_chunk_in_an_answer_ends_it_short_without_words(lab, shared, origin):
    good = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    for bad in (b"x\r\n", b"5\r\nhelloX", b"0\r\nLocation: http://evil.test/\r\n\r\n", b"FFFFFFFFFFFFFFFFFF\r\n", b"0\r\nSet-Cookie\r\n\r\n"):
        origin.answers((good, bad), close=True)
        with opened(lab) as s:
            s.send(GET)
            data = s.rest()
        assert data.startswith(good) and b"403" not in data and b"evil" not in data and not data.endswith(b"\r\n\r\n")


def test_bytes_that_answer_nothing_end_the_connection(lab, shared, origin):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    for more in (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake", b"x", b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"):
        before = len(shared.records(status_code="response_malformed", activity_id=2))
        origin.answers((answer, more), close=True)
        with opened(lab) as s:
            s.send(GET)
            assert s.rest() == answer
        wait_for(lambda: len(shared.records(status_code="response_malformed", activity_id=2)) > before)


def test_answers_are_matched_to_requests_by_their_framing(lab, shared, origin):
    """HEAD, 204 and 304 decide where the next answer begins: a redirect behind them is still seen."""
    redirect = b"HTTP/1.1 302 Found\r\nLocation: http://evil.test/\r\nContent-Length: 0\r\n\r\n"
    for request, answer in ((b"HEAD / HTTP/1.1\r\nHost: script.test\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
                            (GET, b"HTTP/1.1 204 No\r\n\r\n"), (GET, b"HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n"),
                            (GET, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")):
        origin.answers(answer, redirect)
        with opened(lab) as s:
            s.send(request + GET)
            data = s.rest()
        assert data.startswith(answer) and refusal(data[len(answer):])["reason"] == "redirect_denied"


# --- upgrades ---

H2C = head(HOST, b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__")
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"


def test_an_offered_upgrade_is_relayed_and_its_101_refused(lab, shared, origin):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    assert exchange(lab, origin, H2C, answer) == (H2C, answer)
    up, down = exchange(lab, origin, H2C, SWITCHED % b"h2c" + b"frames")
    assert up == H2C and refusal(down)["reason"] == "http_upgrade" and b"frames" not in down


def test_nothing_follows_an_offered_upgrade_before_its_answer(lab, shared, origin):
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    number = len(origin.conns)

    def play(conn):
        conn.until()
        conn.sock.settimeout(0.5)
        conn.more()
        early.append(conn.received[len(H2C):])
        conn.ended = False
        conn.sock.settimeout(20)
        conn.send(answer)
        conn.until()
        conn.send(answer)
        conn.drain()
    early = []
    origin.play = play
    with opened(lab) as s:
        s.send(H2C + GET)
        assert s.take(2 * len(answer)) == answer + answer
    assert early == [b""] and origin.received(number) == H2C + GET


def websocket_request(host):
    return b"GET /chat HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n" \
           b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n" % host


def websocket_origin(conn):
    """Accept and echo one small frame (RFC 6455)."""
    request = conn.until()
    key = request.split(b"Sec-WebSocket-Key: ")[1].split(b"\r\n")[0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    conn.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept +
              b"\r\n\r\n\x81\x05hello")
    frame = conn.take(11)
    if frame is not None:
        payload = bytes(b ^ frame[2 + i % 4] for i, b in enumerate(frame[6:]))
        conn.send(b"\x81\x05" + payload)
    conn.drain()


MASKED = b"\x81\x85\x01\x02\x03\x04" + bytes(b ^ (1, 2, 3, 4)[i % 4] for i, b in enumerate(b"world"))


@pytest.mark.parametrize("host", [b"sock.script.test", b"both.script.test"])
def test_a_websocket_opens_under_a_ws_rule(lab, shared, origin, host):
    origin.play = websocket_origin
    request = websocket_request(host)
    for cut in range(0, len(request), 7):
        with opened(lab, host.decode()) as s:
            send_in_two(s, request, cut)
            data = b""
            while not data.endswith(b"\x81\x05hello"):
                data += s.take(1)
            assert data.startswith(b"HTTP/1.1 101 ")
            s.send(MASKED)
            assert s.take(7) == b"\x81\x05world"
    assert shared.wait_record(activity_id=2, host=host.decode())["status_code"] == "allowed"


def test_a_websocket_does_not_open_under_an_http_rule(lab, shared, origin):
    origin.play = websocket_origin
    with opened(lab) as s:
        s.send(websocket_request(b"script.test"))
        assert refusal(s.rest())["reason"] == "http_upgrade"


@pytest.mark.parametrize("answer", [SWITCHED % b"h2c", SWITCHED % b"websocket, h2c", b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n",
                                    b"HTTP/1.0 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"])
def test_only_a_websocket_that_was_asked_for_opens_under_a_ws_rule(lab, shared, origin, answer):
    request = websocket_request(b"sock.script.test")
    up, down = exchange(lab, origin, request, answer, host="sock.script.test")
    assert up == request and refusal(down)["reason"] == "http_upgrade"
    request = request.replace(b"Upgrade: websocket", b"Upgrade: h2c")
    up, down = exchange(lab, origin, request, SWITCHED % b"websocket", host="sock.script.test")
    assert refusal(down)["reason"] == "http_upgrade"
    request = head(b"Host: sock.script.test")
    up, down = exchange(lab, origin, request, SWITCHED % b"websocket", host="sock.script.test")
    assert refusal(down)["reason"] == "response_malformed"


# --- change under way ---

def publish(lab, e, lease, word):
    """Publish with one rule more, and wait until that is in force."""
    e.write("leases/http.policy", lease + f"allow http://{word}.script.test\n")

    def is_in_force():
        with Socks(lab, to=("10.200.0.1", OWN)) as s:
            return s.open(f"{word}.script.test", 80) == OK
    wait_for(is_in_force)


def test_a_policy_that_narrows_cuts_in_every_phase_and_a_new_note_cuts_nothing(lab, egress, origin):
    e = egress(leases={"http.policy": LEASE})
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    origin.answers(answer, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
    silent, partial, between, streaming = (opened(lab, proxy=OWN) for _ in range(4))
    partial.send(GET[:20])
    between.send(GET)
    assert between.take(len(answer)) == answer
    streaming.send(GET)
    assert streaming.take(len(answer)) == answer
    streaming.send(GET)
    assert streaming.take(43).endswith(b"half")

    publish(lab, e, LEASE.replace("as script", 'as renamed note "new"'), "first")
    partial.send(GET[20:])
    assert partial.take(len(answer)) == answer
    between.send(GET)
    assert between.take(43).endswith(b"half")
    assert not e.records(activity_id=6)
    publish(lab, e, LEASE.replace("allow http://script.test as script\n", ""), "second")
    for s in (silent, partial, between, streaming):
        assert s.rest() in (b"", b"RESET")
        s.close()
    cut = wait_for(lambda: [r for r in e.records(status_code="policy_changed")])
    assert len(cut) >= 1


def test_a_websocket_rule_that_goes_closes_what_it_opened_and_opens_no_more(lab, egress, origin):
    e = egress(leases={"http.policy": LEASE})
    origin.play = websocket_origin
    kept, opening = (opened(lab, "both.script.test", proxy=OWN) for _ in range(2))
    kept.send(websocket_request(b"both.script.test"))
    data = b""
    while not data.endswith(b"\x81\x05hello"):
        data += kept.take(1)
    opening.send(websocket_request(b"both.script.test")[:60])
    time.sleep(0.3)
    publish(lab, e, LEASE.replace("allow ws://both.script.test:80 as both-ws\n", ""), "third")
    assert kept.rest() in (b"", b"RESET")
    opening.send(websocket_request(b"both.script.test")[60:])
    assert refusal(opening.rest())["reason"] == "http_upgrade"
    kept.close()
    opening.close()
