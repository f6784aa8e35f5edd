"""Signed policy out of real etcd: changes, the three ways in which a watch freezes in silence, lost quorum, tokens that end, and a store that lies."""
import json
import re
import signal
import time

import pytest
from control import CELL, RULES, Control, Etcd, StoreFault
from lab import wait_for
from socks import FAILURE, NOT_ALLOWED, OK
from test_https import tls  # noqa: F401 (a fixture)

BOUND_S = 6  # refuse_after_s and what a loaded machine needs
DAEMON = "refuse_after_s = 4\ncut_after_s = 30\n"


class Fleet:
    """A control, its etcd, and one proxy."""

    def __init__(self, egress, lab, tmp_path):
        self.egress, self.lab, self.folder = egress, lab, tmp_path
        self.control = self.etcd = self.e = None

    def start(self, members=1, arguments=(), sidecar="", prepare=None, host="127.0.0.1", tls=None, store=None, daemon=DAEMON):
        self.etcd = store or Etcd(self.lab, self.folder / "etcd", members, arguments, tls)
        self.etcd.start()
        self.control = Control(self.etcd)
        self.control.start(ls_one=RULES)
        if prepare is not None:
            prepare()
        self.e = self.egress(autostart=False, daemon=daemon, source=f"etcd://{self.etcd.members(host)}")
        keys = self.e.folder / "keys.json"
        keys.write_text(json.dumps(self.control.root()))
        self.e.sidecar_options = f"cell = {CELL}\nkeys = {keys}\nceiling = {self.e.root}/ceiling.policy\n{sidecar}"
        self.e.configure(daemon)
        self.e.start()
        return self

    def ask(self, host="allowed.test", guest="guest"):
        """The reply; None when this guest is nobody's, so that no method is offered."""
        with self.e.guest(guest) as s:
            return s.request(host, 7000) if s.greet() == b"\x05\x00" else None

    def log(self):
        return self.e.log("egress-sidecar")

    def wait_stale(self):
        wait_for(lambda: self.ask() == FAILURE, BOUND_S + 4)
        self.e.wait_record(status_code="control_stale")

    def stop(self):
        if self.control is not None:
            self.control.stop()
        if self.etcd is not None:
            self.etcd.kill()


@pytest.fixture
def fleet(egress, lab, tmp_path):
    one = Fleet(egress, lab, tmp_path)
    yield one
    one.stop()


def test_a_changed_lease_is_in_force_and_a_removed_one_closes(fleet):
    f = fleet.start()
    assert f.ask() == OK
    live = f.e.guest()
    assert live.open("allowed.test", 7000) == OK
    f.control.change(ls_one=[{"id": "other", "allow": "tcp://plain.test:7000"}])
    wait_for(lambda: f.ask() == NOT_ALLOWED, 5)
    assert live.rest() in (b"", b"RESET")
    f.control.change(ls_one=RULES)
    wait_for(lambda: f.ask() == OK, 5)
    live = f.e.guest()
    assert live.open("allowed.test", 7000) == OK
    f.control.change(ls_one=None)
    assert live.rest() in (b"", b"RESET")
    wait_for(lambda: f.ask() is None, 5)


def test_a_member_may_be_a_name_that_is_looked_up_behind_the_sandbox(fleet):
    f = fleet.start(host="localhost")
    assert f.ask() == OK


def test_a_dead_store_is_stale_by_time_alone_and_comes_back(fleet):
    f = fleet.start()
    f.etcd.kill()
    f.wait_stale()
    f.etcd.start()
    wait_for(lambda: f.ask() == OK, 15)


def test_a_store_whose_control_fell_silent_is_stale_though_the_watch_lives(fleet):
    f = fleet.start(arguments=["--experimental-watch-progress-notify-interval", "1s"])
    f.control.stop()
    f.wait_stale()
    f.control.beat()
    wait_for(lambda: f.ask() == OK, 5)


def test_freeze_one_a_compacted_watch_is_left_and_everything_listed(fleet):
    f = fleet.start()
    f.e.sidecar.send_signal(signal.SIGSTOP)
    f.etcd.kill()
    f.etcd.start()
    f.control.change(ls_one=[{"id": "other", "allow": "tcp://plain.test:7000"}])
    f.etcd.compact()
    f.e.sidecar.send_signal(signal.SIGCONT)
    wait_for(lambda: f.ask() == NOT_ALLOWED, 15)
    assert "why=compacted" in f.log()


def test_freeze_two_a_store_from_the_past_is_noticed_and_its_documents_refused(fleet):
    f = fleet.start()
    f.control.stop()
    f.etcd.save("past")
    f.control.change(ls_one=[{"id": "other", "allow": "tcp://plain.test:7000"}])
    for _ in range(20):
        f.control.beat()
    wait_for(lambda: f.ask() == NOT_ALLOWED, 15)
    f.etcd.kill()
    f.etcd.restore("past")
    f.etcd.start()
    wait_for(lambda: "why=rollback" in f.log(), 15)
    assert f.ask() != OK
    f.wait_stale()
    wait_for(lambda: "store_rolled_back" in f.log(), 15)
    f.control.change(ls_one=RULES)
    wait_for(lambda: f.ask() == OK, 10)


def test_freeze_three_a_member_without_quorum_is_left(fleet):
    f = fleet.start(members=3)
    f.etcd.kill(1, 2)
    f.wait_stale()
    wait_for(lambda: "why=no_leader" in f.log(), 30)
    assert f.etcd.processes[0].poll() is None
    f.etcd.start(1, 2)
    wait_for(lambda: f.ask() == OK, 20)


def test_a_member_that_was_cut_off_is_left_for_one_that_has_the_quorum(fleet):
    f = fleet.start(members=3)
    f.etcd.part()

    def changed():
        """The others may be electing: what was on its way to the old leader is lost, and is said again."""
        try:
            f.control.change(ls_one=[{"id": "other", "allow": "tcp://plain.test:7000"}])
        except (OSError, StoreFault):
            return False
        return True
    try:
        # What was under way to it still arrives; then it notices, or we do that no beat comes any more.
        wait_for(lambda: re.search(rf"why=(no_leader|closed|timeout) member=http://127.0.0.1:{f.etcd.client[0]}", f.log()), 30)
        wait_for(changed, 30)
        wait_for(lambda: f.ask() == NOT_ALLOWED, 30)
        assert f.ask("plain.test") == OK
        assert f.etcd.processes[0].poll() is None
    finally:
        f.etcd.join()


def test_one_member_of_three_may_die(fleet):
    f = fleet.start(members=3)
    f.etcd.kill(0)
    time.sleep(BOUND_S)
    wait_for(lambda: f.ask() == OK, 20)
    f.control.change(ls_one=[{"id": "other", "allow": "tcp://plain.test:7000"}])
    wait_for(lambda: f.ask() == NOT_ALLOWED, 10)


def test_a_member_that_hangs_is_left_before_anybody_is_refused(fleet):
    f = fleet.start(members=3, daemon="refuse_after_s = 10\n")
    f.etcd.lead(1)
    time.sleep(1)
    f.etcd.processes[0].send_signal(signal.SIGSTOP)
    try:
        until = time.monotonic() + 12
        while time.monotonic() < until:
            assert f.ask() == OK
            time.sleep(0.1)
        f.control.change(ls_one=[{"id": "other", "allow": "tcp://plain.test:7000"}])
        wait_for(lambda: f.ask() == NOT_ALLOWED, 10)
        assert f"why=timeout member=http://127.0.0.1:{f.etcd.client[0]}" in f.log()
    finally:
        f.etcd.processes[0].send_signal(signal.SIGCONT)


def test_a_token_that_ends_is_asked_for_again(fleet):
    def enable():
        post, key, end = fleet.etcd.post, b"/egress/v1/", b"/egress/v10"
        post("/v3/auth/role/add", {"name": "reads"})
        post("/v3/auth/role/grant", {"name": "reads", "perm": {"permType": "READ", "key": Etcd._64(key), "range_end": Etcd._64(end)}})
        for user, secret, role in (("root", "everything", "root"), ("proxy", "reading", "reads")):
            post("/v3/auth/user/add", {"name": user, "password": secret})
            post("/v3/auth/user/grant", {"user": user, "role": role})
        post("/v3/auth/enable", {})
        fleet.etcd.user = ("root", "everything")
        fleet.etcd.login()

    folder = fleet.egress.folder / "secret"
    folder.mkdir()
    (folder / "password").write_text("reading\n")
    f = fleet.start(arguments=["--auth-token-ttl", "2"], sidecar=f"etcd_user = proxy\netcd_password = {folder}/password\n", prepare=enable)
    time.sleep(5)
    assert f.ask() == OK
    # The watch outlives its token: nothing was lost, and what changes now comes through it.
    f.control.change(ls_one=[{"id": "other", "allow": "tcp://plain.test:7000"}])
    wait_for(lambda: f.ask() == NOT_ALLOWED, 5)
    assert "store_stream_lost" not in f.log()
    f.control.change(ls_one=RULES)
    wait_for(lambda: f.ask() == OK, 5)
    f.etcd.kill()
    f.etcd.start()
    wait_for(lambda: f.ask() == OK, 15)
    f.control.change(ls_one=[{"id": "other", "allow": "tcp://plain.test:7000"}])
    wait_for(lambda: f.ask() == NOT_ALLOWED, 10)
    assert "why=denied" in f.log()


def test_a_hang_up_that_replaces_the_source_goes_on_where_it_was(fleet):
    f = fleet.start()
    live = f.e.guest()
    assert live.open("allowed.test", 7000) == OK
    f.control.change(ls_two=[])
    f.e.configure(DAEMON + "report_allowed = on\n")
    f.e.sidecar.send_signal(signal.SIGHUP)
    wait_for(lambda: "configuration_read" in f.log())
    assert "first_list_waits" not in f.log()
    f.control.change(ls_two=None)
    f.control.change(ls_one=[*RULES, {"id": "more", "allow": "tcp://plain.test:7000"}])
    wait_for(lambda: f.ask("plain.test") == OK, 10)
    live.send(b"x")
    assert live.take(1) == b"x"
    live.close()
    # The new source alone moves deadlines.
    f.control.stop()
    f.wait_stale()


def test_members_behind_mutual_tls(fleet, tls):  # noqa: F811
    shared = fleet.egress.folder / "tls"
    shared.mkdir()
    for name in ("ca.pem", "client.pem", "client.key", "intruder.pem", "intruder.key"):
        (shared / name).write_bytes((tls / name).read_bytes())

    def options(who):
        return f"tls_ca = {shared}/ca.pem\ntls_certificate = {shared}/{who}.pem\ntls_key = {shared}/{who}.key\n"
    f = fleet.start(tls=tls, sidecar=options("client"))
    assert f.ask() == OK
    f.control.change(ls_one=[{"id": "other", "allow": "tcp://plain.test:7000"}])
    wait_for(lambda: f.ask() == NOT_ALLOWED, 5)
    # A certificate of nobody's authority gets nothing, and what was held runs out.
    f.e.sidecar.terminate()
    assert f.e.sidecar.wait(20) == 0
    f.e.sidecar_options = f.e.sidecar_options.replace("/client.", "/intruder.")
    f.e.configure(DAEMON)
    f.e.start_sidecar()
    wait_for(lambda: f.ask("plain.test") == FAILURE, 15)
    assert "store_not_reached" in f.log()


def test_a_store_that_lies_changes_nothing(fleet):
    f = fleet.start()
    c, wide = f.control, [{"id": "w", "allow": "tcp://plain.test:7000"}, *RULES]
    other, first_manifest = Control(), c.all()["m"]
    c.change(ls_one=RULES)

    def both():
        return f.ask(), f.ask("plain.test")
    wait_for(lambda: both() == (OK, NOT_ALLOWED), 5)
    lies = [
        ("lease", "signature", {"l/ls_one": other.envelope("lease", c.lease_payload("ls_one", 9, wide), "ls")}),
        ("lease", "envelope", {"l/ls_one": b"hello"}),
        ("lease", "cell", {"l/ls_two": c.envelope("lease", c.lease_payload("ls_two", 1, wide, cell="c-0162"), "ls")}),
        ("lease", "ok", {"l/ls_three": c.envelope("lease", c.lease_payload("ls_three", 1, wide, source="10.200.1.2/32"), "ls")}),
        ("lease", "equivocation", {"l/ls_one": c.envelope("lease", c.lease_payload("ls_one", c.revs["ls_one"], wide), "ls")}),
        ("manifest", "cell", {"m": c.envelope("manifest", c.manifest.replace(CELL.encode(), b"c-0162").replace(b'"seq":2', b'"seq":9'), "mf")}),
        ("beat", "clock", {"beat": c.envelope("beat", c.beat_payload(seq=c.beat_seq + 1000, iat=int(time.time() * 1000) - 3600000), "bt")}),
        ("manifest", "envelope", {"m": c.envelope("lease", c.lease_payload("ls_one", 9, wide), "ls")}),
        ("manifest", "rollback", {"m": first_manifest}),
        ("beat", "signature", {"beat": other.envelope("beat", b"{}", "bt")}),
        ("keyset", "signature", {"keyset": other.keyset(2)}),
        ("lease", "envelope", {"l/ls_long": b"x" * 700000}),
    ]
    good = c.all()
    for kind, result, puts in lies:
        name = f'egress_control_documents_total{{type="{kind}",result="{result}"}}'
        before = f.e.metric(name)
        f.etcd.change(puts, [])
        wait_for(lambda: f.e.metric(name) > before, 5)
        for _ in range(3):
            assert both()[1] != OK, (kind, result)
        f.etcd.change({k: good[k] for k in puts if k in good}, [k for k in puts if k not in good and k != "beat"])
        wait_for(lambda: both() == (OK, NOT_ALLOWED), 15)
    assert f.ask("plain.test", "guest2") != OK
