"""What is written down and told: decision records against their schema, folding, probes and metrics, and the words and exit statuses of the tool."""
import json
import os
import re
import socket
import time
from contextlib import suppress

import jsonschema
import pytest
from lab import HERE, wait_for
from socks import FAILURE, NOT_ALLOWED, OK, request

SCHEMA = json.loads((HERE.parent.parent / "policy/schema/record.schema.json").read_text())
WHO = "lease ls_one\ntenant ws_acme run run_7 class code\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\n"
RULES = """allow tcp://allowed.test:7000-7005 as raw
allow https://allowed.test as web
allow tcp://private.test:80 as inside
allow tcp://metadata.test:80 as cloud
allow tcp://nx.test:80 as gone
allow tcp://plain.test:81 as shut
allow tcp://nat64a.test:7000 as translated
deny  blocked.test as no-blocked
"""
LEASE = WHO + RULES


@pytest.fixture(scope="module")
def e(module_egress):
    return module_egress(leases={"one.policy": LEASE}, daemon="connects_per_s = 100000\nhandshake_ms = 1500\n")


def ask(e, host, port=7000):
    with e.guest() as s:
        return s.open(host, port)


def all_kinds(e):
    """One of every kind of event that a guest can cause alone."""
    for host, port in (("evil.test", 443), ("blocked.test", 80), ("private.test", 80), ("metadata.test", 80), ("nx.test", 80), ("plain.test", 81),
                       ("allowed.test", 9), ("9.9.9.9", 443), ("fd12::1", 443), ("10.0.0.1", 443), (b"a\0\xff\"\\b", 443), (b"0x7f.1", 443),
                       ("nat64a.test", 7000), ("allowed.test", 7004), ("localhost", 80)):
        ask(e, host, port)
    with e.guest() as s:
        s.greet(b"\x09")
    with e.guest() as s:
        s.send(b"GET / HTTP/1.0\r\n\r\n")
        s.rest()
    with e.guest() as s:
        s.rest()  # handshake_timeout
    with e.guest() as s:
        assert s.open("allowed.test", 443) == OK
        s.send(b"no tls at all\n")
        s.rest()
    with e.guest() as s:
        assert s.open("allowed.test", 443) == OK
        s.send(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")
        s.rest()
    with e.guest() as s:
        s.greet()
        s.send(request("allowed.test", 443, command=2))
        s.rest()
    with e.guest() as s:
        assert s.open("allowed.test", 7000) == OK
        s.send(b"hello")
        s.take(5)


def test_every_record_fits_the_schema_and_none_is_lost(e):
    all_kinds(e)
    wait_for(lambda: e.records(status_code="handshake_timeout"))
    with e.guest() as s:
        assert s.open("allowed.test", 7000) == OK
        e.publish("leases/one.policy", LEASE.replace("allow tcp://allowed.test:7000-7005 as raw\n", ""))
        s.rest()
    e.publish("leases/one.policy", LEASE)
    wait_for(lambda: e.records(activity_id=3))
    wait_for(lambda: e.records(activity_id=2))
    raw = e.records_file.read_bytes()
    assert all(0x20 <= byte < 0x7f or byte == 0x0a for byte in raw)
    check = jsonschema.Draft7Validator(SCHEMA)
    records = e.records()
    for one in records:
        check.validate(one)
    assert {r["activity_id"] for r in records} == {1, 2, 3, 4, 5}
    assert [r["metadata"]["sequence"] for r in records] == list(range(1, len(records) + 1))
    uids = [r["metadata"]["uid"] for r in records]
    assert [r for r in records if uids.count(r["metadata"]["uid"]) > 1] == []


def test_a_record_tells_the_whole_story_of_its_request(e):
    with e.guest() as s:
        assert s.open("allowed.test", 7000) == OK
        s.send(b"hello")
        s.take(5)
        decision = e.record_of(s, activity_id=1)
        s.close()
        close = e.record_of(s, activity_id=2)
    assert decision["policy"] == {"uid": "ls_one", "version": "0"} and decision["firewall_rule"] == {"uid": "raw", "type": "lease"}
    assert decision["metadata"]["tenant_uid"] == "ws_acme" and decision["unmapped"]["run"] == "run_7" and decision["unmapped"]["environment_class"] == "code"
    assert decision["src_endpoint"] == {"ip": "10.200.0.2", "port": s.port, "uid": "main"}
    assert decision["dst_endpoint"]["hostname"] == "allowed.test" and decision["dst_endpoint"]["port"] == 7000
    assert close["metadata"]["correlation_uid"] == decision["metadata"]["uid"]
    assert close["traffic"]["bytes"] == 10 and close["duration"] >= 0
    assert abs(decision["time"] - time.time() * 1000) < 60000 and close["time"] >= decision["time"]


def test_a_refused_address_stands_in_the_record_with_its_class(e):
    with e.guest() as s:
        assert s.open("private.test", 80) == NOT_ALLOWED
    said = e.wait_record(status_code="special_address", host="private.test")
    assert said["unmapped"]["refused_ip"] == "10.1.1.1" and said["unmapped"]["addr_class"] == "private" and said["unmapped"]["phase"] == "address"


def test_repeated_denials_become_one_record_with_a_count(e):
    for _ in range(7):
        ask(e, "folded.test", 443)
    ask(e, "other.test", 443)
    wait_for(lambda: e.records(host="folded.test"))
    assert len(e.records(host="folded.test")) == 1 and e.wait_record(host="other.test")
    wait_for(lambda: len(e.records(host="folded.test")) == 2, 20)
    first, folded = e.records(host="folded.test")
    assert "count" not in first["unmapped"] and folded["unmapped"]["count"] == 6
    assert folded["unmapped"]["first_time"] <= folded["time"]
    jsonschema.Draft7Validator(SCHEMA).validate(folded)


def test_folded_denials_are_written_when_the_daemon_ends(egress):
    e = egress(leases={"one.policy": LEASE})
    for _ in range(4):
        ask(e, "folded.test", 443)
    e.stop()
    counts = [r["unmapped"].get("count", 1) for r in e.records(host="folded.test")]
    assert sum(counts) == 4 and len(counts) == 2


def test_a_moved_records_file_is_followed_by_a_new_one(egress):
    e = egress(leases={"one.policy": LEASE})
    assert ask(e, "one.test", 443) == NOT_ALLOWED
    e.wait_record(host="one.test")
    moved = e.records_file.rename(e.records_file.with_suffix(".1"))
    wait_for(e.records_file.exists)
    for i in range(50):
        ask(e, f"two{i}.test", 443)
    hosts = set()
    wait_for(lambda: e.records(host="two49.test"))
    for file in (moved, e.records_file):
        hosts |= {json.loads(line)["dst_endpoint"]["hostname"] for line in file.read_text().splitlines()}
    assert hosts == {"one.test", *(f"two{i}.test" for i in range(50))}


def test_without_a_records_file_guests_are_served_and_losses_counted(egress):
    e = egress(leases={"one.policy": LEASE}, daemon="records = \n")
    assert ask(e, "allowed.test") == OK
    wait_for(lambda: 'egress_decision_log_records_total{result="dropped"} 0' not in e.admin("/metrics")[1])


# --- probes and metrics ---

def test_probes_and_metrics_answer_on_the_admin_socket(e):
    assert e.admin("/livez") == (200, "ok\n") and e.admin("/readyz") == (200, "ok\n") and e.admin("/startupz") == (200, "ok\n")
    assert e.admin("/")[0] == 404 and e.admin("/metricsx")[0] == 404
    status, text = e.admin("/metrics")
    assert status == 200
    sample = re.compile(r'[a-z_]+(_bucket|_sum|_count)?(\{[a-z_]+="[^"\\\n]*"(,[a-z_]+="[^"\\\n]*")*\})? -?[0-9.e+]+(\n|$)|[a-z_]+\{[a-z_,="+.0-9A-Za-z]*\} [0-9.e+]+')
    families, seen = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in families
            families[name] = kind
        elif not line.startswith("#"):
            assert sample.match(line), line
            series = line.rsplit(" ", 1)[0]
            assert series not in seen
            seen.add(series)
            assert any(series.startswith(name) for name in families), series
    assert families["egress_connections_total"] == "counter" and families["egress_handshake_duration_seconds"] == "histogram"
    assert 'egress_control_state{state="live"} 1' in text and "egress_leases 1" in text
    for word in ("ls_one", "allowed.test", "10.200", "93.184", "ws_acme"):
        assert word not in text


def test_the_admin_socket_serves_get_and_bounds_what_it_reads(e):
    def say(data):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(str(e.folder / "admin.sock"))
            answer = b""
            try:
                s.sendall(data)
                while more := s.recv(65536):
                    answer += more
            except (BrokenPipeError, ConnectionResetError):
                pass
            return answer
    assert b" 405 " in say(b"POST /metrics HTTP/1.1\r\n\r\n")
    assert b"200 OK" not in say(b"GET /" + b"x" * 10000 + b"\r\n\r\n")
    before = e.descriptors()
    held = [socket.socket(socket.AF_UNIX) for _ in range(60)]
    for s in held:
        s.connect(str(e.folder / "admin.sock"))
        with suppress(BrokenPipeError):  # those beyond its bound are closed at once
            s.sendall(b"GET /met")
    for s in held:
        s.close()
    wait_for(lambda: e.descriptors() <= before)
    assert e.admin("/livez")[0] == 200


def test_guests_do_not_reach_the_admin_address(egress, lab):
    e = egress(leases={"one.policy": LEASE + "allow tcp://127.0.0.1:9100\nallow tcp://localhost:9100\n"}, daemon="admin = tcp:127.0.0.1:9100\n")
    with lab.net.inside("proxy"):
        own = socket.create_connection(("127.0.0.1", 9100), timeout=10)
    own.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
    assert b"200 OK" in own.recv(4096)
    own.close()
    for host in ("127.0.0.1", b"127.0.0.1", b"localhost", b"::1", "::ffff:127.0.0.1", "10.200.0.1", "93.184.215.1"):
        assert ask(e, host, 9100) == NOT_ALLOWED
    with lab.net.inside("guest"):
        for address in ("10.200.0.1", "10.200.1.1", "93.184.215.1"):
            s = socket.socket()
            s.settimeout(5)
            with pytest.raises(OSError):
                s.connect((address, 9100))
            s.close()


# --- the tool ---

def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_why_tells_the_last_refusals_typed_and_with_the_narrowest_rule(e):
    ask(e, "files.example.org", 443)
    ask(e, "private.test", 80)
    done = e.ctl("why", "ls_one", "--json")
    assert done.returncode == 0
    told = {t["what"]: t for t in lines(done)}
    missing, = [t for t in told.values() if "files.example.org" in t["what"]]
    assert missing["code"] == "network_destination_denied" and missing["reason"] == "no_rule" and missing["lease"] == "ls_one"
    assert missing["fix_action"] == {"action": "widen_network_policy", "rule": "https://files.example.org"}
    assert missing["rule_reference"]["kind"] == "lease" and missing["environment_class"] == "code" and missing["set_by"] == "egress"
    assert e.wait_record(host="files.example.org")["metadata"]["uid"] == missing["decision"]
    inside, = [t for t in told.values() if "private.test" in t["what"]]
    assert inside["reason"] == "special_address" and "fix_action" not in inside
    text = e.ctl("why").stdout
    assert "to allow it: allow https://files.example.org" in text
    assert e.ctl("why", "ls_nobody").stdout == ""


def test_sessions_tell_who_talks_to_whom(e):
    with e.guest() as s:
        assert s.open("allowed.test", 7000) == OK
        s.send(b"12345")
        s.take(5)
        row, = [row for row in e.sessions("ls_one") if row["state"] == "relaying"]
        assert row["target"] == "allowed.test:7000" and row["source"] == f"10.200.0.2:{s.port}" and row["listener"] == "main"
        assert row["bytes_up"] == 5 and row["bytes_down"] == 5 and row["upstream"].endswith(":7000")
        assert "allowed.test:7000" in e.ctl("sessions").stdout
        assert e.sessions("ls_other") == []
    e.wait_idle()


def test_leases_pins_health_sidecar_and_top_answer_people_and_programs(e):
    assert ask(e, "allowed.test") == OK
    assert [(row["lease"], row["state"], row["tenant"]) for row in lines(e.ctl("leases", "--json"))] == [("ls_one", "live", "ws_acme")]
    pins = [line for line in lines(e.ctl("pins", "ls_one", "--json")) if "name" in line]
    assert any(p["name"] == "allowed.test" and p["type"] == "A" and p["addresses"] == ["93.184.215.14"] for p in pins)
    health = e.health()
    assert health["ready"] is True and health["control"] == "LIVE" and health["sidecar"] is True and 0 < health["refuse_in_ms"] <= 10000
    sidecar = lines(e.ctl("sidecar", "--json"))[0]
    assert sidecar["state"] == "live" and sidecar["active"] == 1 and sidecar["quarantined"] == 0
    top = lines(e.ctl("top", "--json"))[0]
    assert top["accepted"] > 0
    for words in (("leases",), ("pins",), ("health",), ("sidecar",), ("top",), ("sessions",), ("why",)):
        done = e.ctl(*words)
        assert done.returncode == 0 and done.stdout, words


@pytest.mark.parametrize("words", [("nonsense",), ("leases", "extra"), ("revoke",), ("pins", "a", "b", "c"), ("explain",), ("lint",), ("health", "x"), ("token", "old")])
def test_wrong_words_end_with_status_two(e, words):
    done = e.ctl(*words)
    assert done.returncode == 2 and done.stderr


def test_without_a_daemon_the_tool_fails_and_says_where_it_looked(e):
    done = e.ctl("health", "--socket", "/nowhere/control.sock", socket_option=False)
    assert done.returncode == 2 and "/nowhere/control.sock" in done.stderr


def test_only_the_owner_revokes_and_drains(e):
    os.chmod(e.control, 0o666)
    from lab import BUILD, run
    for words in (("revoke", "ls_one"), ("drain",)):
        done = run("setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups", BUILD / "egressctl", *words, "--socket", e.control, check=False)
        assert done.returncode == 2, done.stdout + done.stderr
    assert ask(e, "allowed.test") == OK


def explain(e, *words):
    return e.ctl("explain", *words, "--config", e.config, socket_option=False)


@pytest.mark.parametrize("target, addresses, status, reason", [
    ("tcp://allowed.test:7000", ["93.184.215.14"], 0, "allowed"), ("https://allowed.test", ["93.184.215.14"], 0, "allowed"),
    ("https://allowed.test/path?x=1", ["93.184.215.14"], 0, "allowed"), ("https://evil.test", [], 1, "no_rule"), ("tcp://blocked.test:80", [], 1, "rule_deny"),
    ("tcp://private.test:80", ["10.1.1.1"], 1, "special_address"), ("tcp://metadata.test:80", ["169.254.169.254"], 1, "metadata_address"),
    ("tcp://allowed.test:7000", ["10.200.1.2"], 1, "own_address"), ("tcp://allowed.test:9", [], 1, "port_not_allowed"),
    ("http://allowed.test:443", ["93.184.215.14"], 1, "scheme_not_allowed"), ("tcp://9.9.9.9:443", [], 1, "literal_not_listed"),
    ("tcp://127.0.0.1:443", [], 1, "special_address"), ("https://localhost", [], 1, "name_special"),
])
def test_explain_says_what_the_daemon_would_do(e, target, addresses, status, reason):
    done = explain(e, "ls_one", target, *(word for a in addresses for word in ("--address", a)), "--json")
    assert done.returncode == status, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert reason in json.dumps(said["verdict"] if "verdict" in said else said)
    assert reason in explain(e, "ls_one", target, *(word for a in addresses for word in ("--address", a))).stdout or status == 0


def test_lint_tells_place_and_cure_and_ends_with_one(e, tmp_path):
    bad = e.root / "leases" / "bad.txt"
    bad.write_text(LEASE + "allow htps://x.test\nallow https://*\nlimit conections 5\n")
    policy = bad.rename(e.folder / "bad.policy")
    done = e.ctl("lint", "--root", e.root, policy, socket_option=False)
    assert done.returncode == 1
    at = len(LEASE.splitlines())
    for line, column in ((at + 1, 7), (at + 2, 15), (at + 3, 7)):
        assert f"{policy}:{line}:{column}: error:" in done.stdout, done.stdout
    assert "did you mean" in done.stdout
    told = lines(e.ctl("lint", "--root", e.root, policy, "--json", socket_option=False))
    assert [t["line"] for t in told if t["severity"] == "error"] == [at + 1, at + 2, at + 3]
    assert e.ctl("lint", e.root / "leases/one.policy", socket_option=False).returncode == 0
    assert e.ctl("lint", "/nowhere.policy", socket_option=False).returncode == 2
