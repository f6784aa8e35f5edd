"""SOCKS5 on the wire (RFC 1928, RFC 1929): any cut of the bytes, every refusal of the handshake, listeners of all kinds."""
import hashlib
import socket
import struct
import time

import pytest
from lab import wait_for
from socks import ADDRESS, COMMAND, FAILURE, NOT_ALLOWED, OK, Socks, request

RULES = """mode allowlist
allow tcp://allowed.test:7000 as echo
allow tcp://only4.test:7000 as echo-4
allow tcp://only6.test:7000 as echo-6
allow https://allowed.test as web
"""
LEASE = "lease ls_one\nguest require source\nguest source 10.200.0.2/32 source fd77::2/128\n" + RULES
GREETING = b"\x05\x01\x00"
REFUSED = b"\x05\x02\x00\x01" + bytes(6)


@pytest.fixture(scope="module")
def e(module_egress):
    return module_egress(leases={"one.policy": LEASE})


def lookups(e):
    return e.metric("egress_dns_queries_total")


# --- chunks ---

WHOLE = GREETING + request("allowed.test", 7000) + b"hello"
ANSWER = b"\x05\x00" + b"\x05\x00\x00\x01" + bytes(6) + b"hello"


def test_a_handshake_of_one_byte_per_segment_is_served(e):
    with e.guest() as s:
        s.send(WHOLE, one_by_one=True)
        assert s.take(len(ANSWER)) == ANSWER


def test_a_handshake_and_first_flight_in_one_segment_is_served(e):
    with e.guest() as s:
        s.send(WHOLE)
        assert s.take(len(ANSWER)) == ANSWER


def test_every_cut_into_two_segments_is_served(e):
    for cut in range(1, len(WHOLE)):
        with e.guest() as s:
            s.send(WHOLE[:cut])
            time.sleep(0.003)
            s.send(WHOLE[cut:])
            assert s.take(len(ANSWER)) == ANSWER, cut


def test_a_first_flight_that_fills_the_handshake_arrives_whole(e):
    payload = bytes(range(256)) * 60
    with e.guest() as s:
        s.send(GREETING + request("allowed.test", 7000) + payload)
        assert s.take(12 + len(payload)) == ANSWER[:12] + payload


def test_a_first_flight_beyond_what_a_handshake_holds_arrives_whole(e):
    payload = bytes(range(256)) * 400
    with e.guest() as s:
        s.send(GREETING + request("allowed.test", 7000) + payload)
        assert s.take(12 + len(payload)) == ANSWER[:12] + payload


def test_a_guest_that_ends_its_side_with_its_request_is_answered(e):
    with e.guest() as s:
        s.send(WHOLE)
        s.sock.shutdown(socket.SHUT_WR)
        assert s.rest() == ANSWER


# --- methods ---

@pytest.mark.parametrize("greeting", [b"\x05\x00", b"\x05\x01\x01", b"\x05\x03\x01\x03\x80", b"\x05\x01\xff", b"\x05\xff" + b"\x01" * 255])
def test_no_usable_method_is_answered_with_ff_and_a_close(e, greeting):
    with e.decides("auth_required"), e.guest() as s:
        s.send(greeting)
        assert s.rest() == b"\x05\xff"


def test_the_method_without_a_password_is_chosen_among_all(e):
    with e.guest() as s:
        assert s.greet(bytes(range(255))) == b"\x05\x00"


def test_a_password_nobody_asked_for_is_taken_where_arrival_is_enough(e):
    with e.guest() as s:
        assert s.open("allowed.test", 7000, "whoever", "whatever") == OK


# --- requests ---

@pytest.mark.parametrize("message, reply, reason", [
    (b"\x05\x01\x00\x02" + bytes(4) + b"\x01\xbb", ADDRESS, "socks_address_type"),
    (b"\x05\x01\x00\x05\x0callowed.test\x01\xbb", ADDRESS, "socks_address_type"),
    (b"\x05\x01\x00\x00\x01\xbb", ADDRESS, "socks_address_type"),
    (b"\x05\x01\x00\xff", ADDRESS, "socks_address_type"),
    (b"\x05\x01\x01\x03\x0callowed.test\x01\xbb", FAILURE, "socks_malformed"),
    (b"\x05\x01\xff\x01" + bytes(4) + b"\x01\xbb", FAILURE, "socks_malformed"),
    (b"\x04\x01\x00\x03\x0callowed.test\x01\xbb", FAILURE, "socks_version"),
    (request("allowed.test", 443, command=2), COMMAND, "socks_command"),
    (request("allowed.test", 443, command=3), COMMAND, "socks_command"),
    (request("0.0.0.0", 0, command=3), COMMAND, "socks_command"),
    (request("allowed.test", 443, command=0), COMMAND, "socks_command"),
    (request("allowed.test", 443, command=0x7f), COMMAND, "socks_command"),
    (request("evil.test", 443, command=2), COMMAND, "socks_command"),
    (request(b"", 443), NOT_ALLOWED, "name_invalid"),
    (request(b".".join([b"a" * 63] * 3) + b"." + b"b" * 63, 443), NOT_ALLOWED, "name_invalid"),
    (request("allowed.test", 0), NOT_ALLOWED, "port_not_allowed"),
    (request("allowed.test", 22), NOT_ALLOWED, "port_not_allowed"),
    (request("allowed.test", 8443), NOT_ALLOWED, "port_not_allowed"),
    (request("allowed.test", 7001), NOT_ALLOWED, "port_not_allowed"),
])
def test_a_bad_request_is_refused_in_ten_bytes_without_a_lookup(e, message, reply, reason):
    before = lookups(e)
    with e.decides(reason), e.guest() as s:
        assert s.greet() == b"\x05\x00"
        s.send(message)
        rest = s.rest()
    assert rest == (b"" if reason == "socks_version" else b"\x05" + bytes([reply]) + b"\x00\x01" + bytes(6))
    assert lookups(e) == before


def test_a_reply_comes_in_one_segment_of_ten_bytes(e):
    for host, code in (("allowed.test", OK), ("evil.test", NOT_ALLOWED)):
        with e.guest() as s:
            s.greet()
            s.send(request(host, 7000))
            assert s.sock.recv(64) == b"\x05" + bytes([code]) + b"\x00\x01" + bytes(6)


def test_bytes_behind_a_refused_request_do_no_harm(e):
    with e.guest() as s:
        s.send(GREETING + request("evil.test", 443) + b"x" * 8000)
        assert s.rest() == b"\x05\x00" + REFUSED


def test_a_second_request_on_the_connection_is_only_payload(e):
    again = request("allowed.test", 7000)
    with e.guest() as s:
        s.send(GREETING + again + again)
        assert s.take(12 + len(again)) == ANSWER[:12] + again


# --- foreign protocols ---

@pytest.mark.parametrize("first, answer", [
    (bytes.fromhex("040101bb0000000100616c6c6f7765642e7465737400"), b"\x00\x5b" + bytes(6)),
    (b"\x04", b"\x00\x5b" + bytes(6)),
    (b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n", b"HTTP/1.1 501 "),
    (b"GET http://allowed.test/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 501 "),
    (bytes.fromhex("1603010005"), b""),
    (b"\x00", b""),
    (b"\x06\x01\x00", b""),
])
def test_another_protocol_is_told_in_its_own_words_or_closed(e, first, answer):
    with e.decides("socks_version"), e.guest() as s:
        s.send(first)
        rest = s.rest()
    assert rest.startswith(answer) and (answer[:4] == b"HTTP" or rest == answer)


# --- time ---

@pytest.fixture(scope="module")
def quick(module_egress):
    return module_egress(leases={"one.policy": LEASE}, daemon="handshake_ms = 700\n")


@pytest.mark.parametrize("half", [b"", b"\x05", b"\x05\x02\x00", GREETING, GREETING + request("allowed.test", 7000)[:-1]])
def test_an_unfinished_handshake_is_closed_at_its_deadline(quick, half):
    with quick.decides("handshake_timeout"), quick.guest() as s:
        s.send(half)
        assert s.rest() == (b"\x05\x00" if half[:3] == GREETING else b"")


def test_trickled_bytes_do_not_move_the_deadline(quick):
    begun = time.monotonic()
    with quick.decides("handshake_timeout"), quick.guest() as s:
        with pytest.raises(OSError):
            for byte in WHOLE + b"x" * 100:
                s.sock.sendall(bytes([byte]))
                time.sleep(0.1)
    assert time.monotonic() - begun < 15


def test_idle_half_handshakes_do_not_keep_a_good_one_waiting(e):
    before = e.descriptors()
    held = []
    try:
        for i in range(200):
            held.append(e.guest())
            if i % 2:
                held[-1].send(b"\x05")
        with e.guest() as s:
            assert s.open("allowed.test", 7000) == OK
    finally:
        for s in held:
            s.close()
    wait_for(lambda: e.descriptors() <= before)


# --- listeners ---

def test_a_guest_over_ipv6_is_served(e):
    with e.guest(to=e.six) as s:
        assert s.open("allowed.test", 7000) == OK
        assert e.record_of(s)["src_endpoint"]["ip"] == "fd77::2"


def test_the_truthful_bound_address_is_the_one_the_origin_sees(lab, egress):
    e = egress(leases={"one.policy": LEASE}, daemon="bound_address = truthful\n")
    for host in ("only4.test", "only6.test"):
        with e.guest() as s:
            assert s.open(host, 7000) == OK
            if len(s.bound) == 6:
                family, ours = socket.AF_INET, "93.184.215.1"
            else:
                family, ours = socket.AF_INET6, "2606:2800:21f:cb07::1"
            address, port = socket.inet_ntop(family, s.bound[:-2]), struct.unpack(">H", s.bound[-2:])[0]
            assert address == ours
            wait_for(lambda: any(line.startswith("accept 7000") and line.endswith(f" {port}") for line in lab.origin_lines()))
    assert e.wait_record(status_code="allowed")


def test_a_reply_with_an_ipv6_address_has_22_bytes(egress):
    e = egress(leases={"one.policy": LEASE}, daemon="bound_address = truthful\n")
    with e.guest() as s:
        s.greet()
        s.send(request("only6.test", 7000))
        reply = s.sock.recv(64)
        assert len(reply) == 22 and reply[:4] == b"\x05\x00\x00\x04"


def test_a_guest_on_a_unix_socket_is_served(lab, egress):
    lease = "lease ls_unix\nguest require listener\nguest listener vm\n" + RULES
    e = egress(leases={"u.policy": lease}, listeners={"vm": "unix:FOLDER/vm.sock"})
    with Socks(lab, to=str(e.folder / "vm.sock")) as s:
        s.send(WHOLE)
        assert s.take(len(ANSWER)) == ANSWER
    said = e.wait_record(lease="ls_unix", activity_id=1)
    assert said["src_endpoint"] == {"uid": "vm"}


def test_a_template_socket_comes_and_goes_with_its_lease(lab, egress):
    lease = "lease ls_{0}\nguest require listener\nguest listener vm-{0}\n" + RULES
    e = egress(leases={"a.policy": lease.format("a")}, listeners={"vms": "unix:FOLDER/{listener}.sock"})
    wait_for((e.folder / "vm-a.sock").exists)
    assert not (e.folder / "vm-b.sock").exists()
    e.write("leases/b.policy", lease.format("b"))
    wait_for((e.folder / "vm-b.sock").exists)
    with Socks(lab, to=str(e.folder / "vm-b.sock")) as s:
        assert s.open("allowed.test", 7000) == OK
        (e.root / "leases/b.policy").unlink()
        s.rest()
    wait_for(lambda: not (e.folder / "vm-b.sock").exists())
    with Socks(lab, to=str(e.folder / "vm-a.sock")) as s:
        assert s.open("allowed.test", 7000) == OK


def test_a_template_over_tcp_gives_each_lease_its_port(lab, egress):
    lease = "lease ls_{0}\nguest require listener\nguest listener vm-{0}\n" + RULES
    e = egress(leases={f"{x}.policy": lease.format(x) for x in "ab"}, listeners={"vms": "tcp:10.200.0.1:2090-2099"})
    ports = {}

    def opened():
        for line in e.log("egress-sidecar").splitlines():
            if "listener_opened" in line:
                words = dict(w.split("=", 1) for w in line.split() if "=" in w)
                ports[words["name"]] = int(words["at"].rsplit(":", 1)[1])
        return len(ports) == 2
    wait_for(opened)
    assert len(set(ports.values())) == 2
    for name, port in ports.items():
        with Socks(lab, to=("10.200.0.1", port)) as s:
            assert s.open("allowed.test", 7000) == OK
            assert e.record_of(s)["policy"]["uid"] == name.replace("vm-", "ls_")


def test_the_tag_behind_the_lease_id_is_recorded(egress):
    token = "v1." + "A" * 43
    lease = f"lease ls_tok\nguest require token\nguest token sha256:{hashlib.sha256(token.encode()).hexdigest()}\n" + RULES
    e = egress(leases={"t.policy": lease})
    for user, tag in (("ls_tok", None), ("ls_tok/step-7", "step-7"), ("ls_tok/" + "x" * 32, "x" * 32)):
        with e.guest() as s:
            assert s.open("allowed.test", 7000, user, token) == OK
            assert e.record_of(s)["unmapped"].get("tag") == tag
    with e.guest() as s:
        assert s.greet(b"\x02") == b"\x05\x02"
        assert s.login("ls_tok/" + "x" * 33, token) == b"\x01\x01"
