"""Signed policy from a control plane over HTTPS with mutual TLS: changes, resumption, 410, bye, long polls, lies, and silence."""
import json

import pytest
from control import CELL, RULES, Control, Stream, packed
from lab import wait_for
from netns import run
from socks import FAILURE, NOT_ALLOWED, OK

DAEMON = "refuse_after_s = 4\ncut_after_s = 30\n"
OTHER = [{"id": "other", "allow": "tcp://plain.test:7000"}]


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """An authority, the control plane's certificate, ours, and one of a stranger's authority."""
    folder = tmp_path_factory.mktemp("tls")
    for who in ("ca", "stranger"):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={who}",
            "-keyout", folder / f"{who}.key", "-out", folder / f"{who}.pem")
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    for who, by in (("server", "ca"), ("client", "ca"), ("intruder", "stranger")):
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={who}", "-keyout", folder / f"{who}.key",
            "-out", folder / f"{who}.csr")
        run("openssl", "x509", "-req", "-in", folder / f"{who}.csr", "-CA", folder / f"{by}.pem", "-CAkey", folder / f"{by}.key", "-CAcreateserial",
            "-days", "2", "-extfile", folder / "ext", "-out", folder / f"{who}.pem")
    return folder


class Plane:
    """A control behind HTTPS and one proxy that trusts it."""

    def __init__(self, egress, lab, tls):
        self.egress, self.lab, self.tls = egress, lab, tls
        self.streams, self.control, self.e = [], None, None

    def start(self, client="client", authority="ca", mode="stream", wait=True, ports=(42443,), dead=()):
        self.streams = [Stream(self.lab, port, (self.tls / "server.pem", self.tls / "server.key"), self.tls / "ca.pem") for port in ports]
        self.stream = self.streams[-1]
        self.stream.mode = mode
        self.control = Control(self.stream)
        self.control.start(ls_one=RULES)
        urls = ",".join(f"https://127.0.0.1:{port}" for port in (*dead, *ports))
        self.e = self.egress(autostart=False, source=urls)
        keys, secrets = self.e.folder / "keys.json", self.e.folder / "tls"
        secrets.mkdir()
        for name in (f"{client}.pem", f"{client}.key", f"{authority}.pem"):
            (secrets / name).write_bytes((self.tls / name).read_bytes())
        keys.write_text(json.dumps(self.control.root()))
        self.e.sidecar_options = (f"cell = {CELL}\nkeys = {keys}\nceiling = {self.e.root}/ceiling.policy\ntls_ca = {secrets}/{authority}.pem\n"
                                  "proxy = px-1\n"
                                  f"tls_certificate = {secrets}/{client}.pem\ntls_key = {secrets}/{client}.key\n")
        self.e.configure(DAEMON)
        self.e.start(wait)
        return self

    def ask(self, host="allowed.test"):
        with self.e.guest() as s:
            return s.request(host, 7000) if s.greet() == b"\x05\x00" else None

    def log(self):
        return self.e.log("egress-sidecar")

    def stop(self):
        if self.control is not None:
            self.control.stop()
        for stream in self.streams:
            stream.close()


@pytest.fixture
def plane(egress, lab, tls):
    one = Plane(egress, lab, tls)
    yield one
    one.stop()


def test_changes_are_in_force_and_a_lost_stream_goes_on_from_its_cursor(plane):
    p = plane.start()
    assert p.ask() == OK
    p.control.change(ls_one=OTHER)
    wait_for(lambda: p.ask() == NOT_ALLOWED, 5)
    p.stream.hang_up()
    wait_for(lambda: len(p.stream.requests) == 2, 5)
    assert "?cursor=e1." in p.stream.requests[1][0] and p.stream.requests[0][0].endswith("/stream")
    p.control.change(ls_one=RULES)
    wait_for(lambda: p.ask() == OK, 5)
    live = p.e.guest()
    assert live.open("allowed.test", 7000) == OK
    p.control.change(ls_one=None)
    assert live.rest() in (b"", b"RESET")
    wait_for(lambda: p.ask() is None, 5)


def test_a_cursor_that_is_gone_starts_over(plane):
    p = plane.start()
    p.stream.gone_below = 10 ** 9
    p.stream.hang_up()
    wait_for(lambda: len(p.stream.requests) >= 3, 10)
    assert p.stream.requests[2][0].endswith("/stream")
    p.control.change(ls_one=OTHER)
    wait_for(lambda: p.ask() == NOT_ALLOWED, 5)
    assert "why=compacted" in p.log()


def test_a_bye_is_followed_and_the_next_endpoint_taken(plane):
    p = plane.start(dead=(42499,))
    p.stream.extra = [packed({"f": "bye", "retry_ms": 50, "why": "drain"}) + b"\n"]
    wait_for(lambda: "why=bye" in p.log(), 10)
    p.control.change(ls_one=OTHER)
    wait_for(lambda: p.ask() == NOT_ALLOWED, 10)


def test_a_server_that_does_not_stream_is_polled(plane):
    p = plane.start(mode="poll")
    assert p.ask() == OK
    p.control.change(ls_one=OTHER)
    wait_for(lambda: p.ask() == NOT_ALLOWED, 10)
    assert any(prefer == "wait=1" for _, prefer in p.stream.requests)


def test_silence_and_errors_are_stale_by_time_alone_and_end_with_the_next_beat(plane):
    p = plane.start()
    p.control.stop()
    wait_for(lambda: p.ask() == FAILURE, 10)
    p.e.wait_record(status_code="control_stale")
    wait_for(lambda: "control_state state=stale guests=refused" in p.log(), 5)
    p.control.beat()
    wait_for(lambda: p.ask() == OK, 5)
    p.stream.mode = "error"
    p.stream.hang_up()
    wait_for(lambda: p.ask() == FAILURE, 10)
    assert "control_refused status=" in p.log() and "control_state state=live guests=served" in p.log()
    p.stream.mode = "stream"
    # Again and again: one beat may be too old by the time the stream is back.
    wait_for(lambda: p.control.beat() or p.ask() == OK, 15)


@pytest.mark.parametrize("client,authority", [("intruder", "ca"), ("client", "stranger")])
def test_who_is_not_vouched_for_is_not_spoken_to(plane, client, authority):
    p = plane.start(client=client, authority=authority, wait=False)
    wait_for(lambda: "why=closed" in p.log(), 15)
    assert p.stream.requests == []
    assert not p.e.ctl("health").returncode == 0


def test_lines_that_are_no_frames_break_the_stream_and_change_nothing(plane):
    p = plane.start()
    lies = [b"what\n", b"{\"f\":\"snap_end\",\"cursor\":\"a\"}\n", b"x" * (2 << 20), b"{\"f\":\"put\",\"k\":\"l/ls_one\",\"env\":\"!\"}\n",
            b"[" * 100000 + b"\n"]
    for line in lies:
        before = len(p.stream.requests)
        p.stream.extra = [line]
        wait_for(lambda: len(p.stream.requests) > before, 15)
        wait_for(lambda: p.ask() == OK, 5)
        assert p.stream.requests[before][0].endswith("/stream"), line[:40]
    assert "why=malformed" in p.log() and "why=too_long" in p.log()


def test_status_reports_say_what_is_applied_and_what_is_refused_and_where(plane):
    p = plane.start()

    def last(**match):
        path, body = p.stream.reports[-1] if p.stream.reports else ("", {})
        return path == "/v1/proxies/px-1/status" and all(body.get(key) == value for key, value in match.items()) and body
    body = wait_for(lambda: last(state="live", applied=True, manifest_seq=1, manifest_held=True, nack=[]), 10)
    assert body["cell"] == CELL and "egress.lease/1" in body["caps"] and body["leases"]["active"] == 1 and body["sw"]
    assert body["records"]["lost"] == 0 and body["records"]["repeats_lost"] == 0
    p.control.change(ls_two=[{"id": "r", "allow": "tcp://plain.test:7000", "pot": 1}])
    body = wait_for(lambda: last(applied=True, manifest_seq=2) and last()["nack"] and last(), 10)
    assert [(n["k"], n["rev"], n["pointer"]) for n in body["nack"]] == [("l/ls_two", 1, "/network/rules/0/pot")]
    p.control.change(ls_two=None)
    wait_for(lambda: last(applied=True, manifest_seq=3, nack=[]), 10)
