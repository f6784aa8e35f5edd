"""Signed leases: authority, store, sidecar and daemon as real processes. A store that lies changes nothing or shuts the door, and is counted."""
import hashlib
import json
import os
import signal
import subprocess
import time

import pytest
from authority import Authority, Store, b64, manifest_root, payload_of
from lab import BUILD, CEILING, wait_for
from socks import FAILURE, NOT_ALLOWED, OK

SOURCE = "guest require source\nguest source {0}/32\nmode allowlist\n"
LEASE_A = "lease ls_a\n" + SOURCE.format("10.200.0.2") + "allow tcp://allowed.test:7000-7001\n"
LEASE_A2 = "lease ls_a\n" + SOURCE.format("10.200.0.2") + "allow tcp://allowed.test:7001\n"
LEASE_B = "lease ls_b\n" + SOURCE.format("10.200.1.2") + "allow tcp://allowed.test:7000\n"


class Fleet:
    """An authority, a store that may lie, and an egressd that believes signatures."""

    def __init__(self, egress, daemon="", sandbox=True):
        self.e = egress(autostart=False, daemon="refuse_after_s = 5\ncut_after_s = 8\n" + daemon, sandbox=sandbox)
        self.authority = Authority(self.e.folder)
        self.authority.write("a.policy", LEASE_A)
        self.authority.write("b.policy", LEASE_B)
        self.authority.run()
        wait_for((self.authority.out / "beat").exists)
        self.store = Store(self.authority, self.e.folder / "store")
        ceiling, keys = self.e.folder / "bounds", self.e.folder / "trust"
        for folder in (ceiling, keys):
            folder.mkdir(mode=0o755)
        (ceiling / "ceiling.policy").write_text(CEILING)
        (keys / "root.json").write_text((self.authority.keys / "root.json").read_text())
        text = self.e.config.read_text().replace(f"file:{self.e.root}", f"file:{self.store.folder}").replace("trust = local", "trust = signed")
        self.e.config.write_text(text + f"cell = c-1\nceiling = {ceiling}/ceiling.policy\nkeys = {keys}/root.json\n")

    def start(self):
        self.e.start()
        return self

    def opens(self, guest="guest", port=7000):
        """What the guest is told when it asks; no method of identifying oneself is a refusal too."""
        with self.e.guest(guest) as s:
            if s.greet() != b"\x05\x00":
                return NOT_ALLOWED
            return s.request("allowed.test", port)

    def count(self, kind, result):
        for line in self.e.admin("/metrics")[1].splitlines():
            if line.startswith(f'egress_control_documents_total{{type="{kind}",result="{result}"}}'):
                return float(line.rsplit(" ", 1)[1])
        return 0

    def counts(self, kind, result, before):
        wait_for(lambda: self.count(kind, result) > before)

    def forge(self, change):
        """A lie that whoever has the keys could tell: the lease of ls_a as `change` leaves it, one revision on, and all that names it."""
        def lie(documents):
            if not {"m", "beat", "l/ls_a"} <= documents.keys():
                return documents
            lease = json.loads(payload_of(documents["l/ls_a"]))
            lease["rev"] += 1
            change(lease)
            said = dict(documents, **{"l/ls_a": self.authority.envelope("egress.lease/1", json.dumps(lease).encode(), "lease-1")})
            manifest = dict(json.loads(payload_of(documents["m"])), root=manifest_root(said))
            manifest["seq"] += 1
            payload = json.dumps(manifest).encode()
            said["m"] = self.authority.envelope("egress.manifest/1", payload, "manifest-1")
            beat = json.loads(payload_of(documents["beat"]))
            beat["cells"] = {"c-1": [manifest["seq"], b64(hashlib.sha256(payload).digest())]}
            said["beat"] = self.authority.envelope("egress.beat/1", json.dumps(beat).encode(), "beat-1")
            return said
        return lie

    def start_with_a_clock(self, clock):
        """Its sidecar looks at a clock that the test moves."""
        clock.write_text("+0")
        self.e.start_daemon()
        with open(self.e.folder / "egress-sidecar.log", "a", encoding="utf-8") as log:
            environment = dict(self.e._env(), LD_PRELOAD="/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", FAKETIME_TIMESTAMP_FILE=str(clock),
                               FAKETIME_NO_CACHE="1", FAKETIME_DONT_FAKE_MONOTONIC="1")
            environment["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
            self.e.sidecar = self.e.lab.net.popen("proxy", BUILD / "egress-sidecar", "--config", self.e.config, "--without-sandbox", stdout=log, stderr=log,
                                                  stdin=subprocess.DEVNULL, env=environment)
        wait_for(self.e.is_ready)

    def state(self):
        return json.loads(self.e.ctl("sidecar", "--json").stdout)["state"]

    def close(self):
        self.store.close()
        self.authority.stop()


@pytest.fixture
def fleet(egress):
    made = []

    def make(**options):
        made.append(Fleet(egress, **options))
        return made[-1]
    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def calm(module_egress):
    """One fleet for all lies that change nothing."""
    one = Fleet(module_egress).start()
    yield one
    one.close()


@pytest.fixture
def f(calm):
    yield calm
    calm.store.tell()
    wait_for(lambda: calm.e.is_ready() and calm.state() == "live")
    assert calm.opens() == OK


def test_a_lease_works_until_control_is_gone(fleet):
    f = fleet().start()
    assert f.opens() == OK and f.opens("guest2") == OK
    assert f.opens(port=7002) == NOT_ALLOWED
    with f.e.guest() as tunnel:
        assert tunnel.open("allowed.test", 7000) == OK
        tunnel.send(b"x")
        assert tunnel.take(1) == b"x"
        f.authority.stop()
        wait_for(lambda: f.opens() == FAILURE)
        assert f.e.wait_record(status_code="control_stale", activity_id=5)
        # What is open stays open until it is cut.
        tunnel.send(b"y")
        assert tunnel.take(1) == b"y"
        assert tunnel.rest() in (b"", b"RESET")
    assert f.state() == "cut"
    f.authority.run()
    wait_for(lambda: f.opens() == OK)


def test_a_change_and_a_withdrawal_come_into_force(f):
    f.authority.write("a.policy", LEASE_A2)
    wait_for(lambda: f.opens(port=7000) == NOT_ALLOWED)
    assert f.opens(port=7001) == OK
    f.authority.write("a.policy", LEASE_A)
    wait_for(lambda: f.opens(port=7000) == OK)


def test_a_wrong_signature_changes_nothing(f):
    before = f.count("lease", "signature")

    def lie(documents):
        head, body = documents["l/ls_a"].split(b"\n", 1)
        return dict(documents, **{"l/ls_a": head + b"\n" + body.replace(b"7000", b"6000")})
    f.store.tell(lie)
    f.counts("lease", "signature", before)
    assert f.opens() == OK and f.opens(port=6000) == NOT_ALLOWED


def test_an_old_revision_changes_nothing(f):
    old = f.authority.documents()["l/ls_a"]
    f.authority.write("a.policy", LEASE_A2)
    wait_for(lambda: f.opens(port=7000) == NOT_ALLOWED)
    before = f.count("lease", "rollback")
    f.store.tell(lambda documents: dict(documents, **{"l/ls_a": old}))
    f.counts("lease", "rollback", before)
    time.sleep(0.2)
    assert f.opens(port=7000) == NOT_ALLOWED and f.opens(port=7001) == OK
    f.store.tell()
    f.authority.write("a.policy", LEASE_A)
    wait_for(lambda: f.opens(port=7000) == OK)


def test_a_lease_of_another_cell_changes_nothing(f):
    other = Authority(f.e.folder, "c-2", f.authority.keys)
    f.authority.ctl("sign", f.authority.keys, f.authority.out)
    other.write("a.policy", LEASE_A.replace("7000-7001", "6000"))
    other.once()
    swapped = other.documents()["l/ls_a"]
    before = f.count("lease", "cell")
    f.store.tell(lambda documents: dict(documents, **{"l/ls_a": swapped}))
    f.counts("lease", "cell", before)
    assert f.opens() == OK and f.opens(port=6000) == NOT_ALLOWED


def test_an_old_manifest_and_an_old_beat_change_nothing(f):
    old = f.authority.documents()
    f.authority.write("b.policy", LEASE_B + "deny evil.test\n")
    wait_for(lambda: f.authority.documents()["m"] != old["m"] and f.store.rounds)
    f.store.tell(rounds=4)
    time.sleep(1.2)
    before = f.count("manifest", "rollback"), f.count("beat", "rollback")
    f.store.tell(lambda documents: dict(documents, m=old["m"], beat=old["beat"]))
    f.counts("manifest", "rollback", before[0])
    f.counts("beat", "rollback", before[1])
    assert f.opens() == OK


def test_rubbish_is_counted_and_changes_nothing(f):
    before = f.count("lease", "envelope")
    rubbish = {f"l/x{i}": bytes([i]) * (1 + i * 3000) for i in range(100)}
    f.store.tell(lambda documents: dict(documents, **rubbish))
    f.counts("lease", "envelope", before)
    assert f.opens() == OK


def test_a_lease_that_is_left_out_is_cut_and_time_runs(f):
    with f.e.guest("guest2") as tunnel:
        assert tunnel.open("allowed.test", 7000) == OK
        f.store.tell(lambda documents: {k: v for k, v in documents.items() if k != "l/ls_b"})
        assert tunnel.rest() in (b"", b"RESET")
    wait_for(lambda: f.opens("guest2") != OK)
    # The manifest says otherwise: no beat counts until they agree.
    wait_for(lambda: f.opens() == FAILURE)
    assert f.state() in ("stale", "cut")


def test_a_withheld_delete_ends_in_refusal(f):
    held = f.authority.documents()["l/ls_b"]
    f.store.tell(lambda documents: dict(documents, **{"l/ls_b": held}))
    (f.authority.root / "leases/b.policy").unlink()
    wait_for(lambda: f.opens("guest2") == FAILURE)
    f.store.tell()
    wait_for(lambda: f.opens("guest2") == NOT_ALLOWED)
    f.authority.write("b.policy", LEASE_B)
    wait_for(lambda: f.opens("guest2") == OK)


def test_a_key_that_nobody_knows_quarantines_its_lease_alone(fleet):
    f = fleet().start()
    assert f.opens() == OK

    # What a control plane says that is newer than its proxies.
    forge = f.forge(lambda lease: lease["network"]["rules"][0].update(pot=1))
    before = f.count("lease", "schema")
    f.store.tell(forge)
    f.counts("lease", "schema", before)
    wait_for(lambda: f.opens() == NOT_ALLOWED)
    assert f.e.wait_record(status_code="policy_invalid")
    assert "pointer=/network/rules/0/pot" in f.e.log("egress-sidecar")
    assert f.opens("guest2") == OK
    time.sleep(6)
    assert f.opens("guest2") == OK and f.state() == "live", "the others live on"


@pytest.mark.parametrize("step", ["+1h", "-1h"])
def test_a_clock_step_refuses_and_lengthens_nothing(fleet, step):
    f = fleet(sandbox=False)
    clock = f.e.folder / "clock"
    f.start_with_a_clock(clock)
    assert f.opens() == OK
    before = f.count("beat", "clock")
    clock.write_text(step)
    wait_for(lambda: f.opens() == FAILURE)
    f.counts("beat", "clock", before)
    clock.write_text("+0")
    wait_for(lambda: f.opens() == OK)


def test_a_sidecar_that_stops_leaves_deadlines_that_pass(fleet):
    f = fleet().start()
    os.kill(f.e.sidecar.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: f.opens() == FAILURE)
    finally:
        os.kill(f.e.sidecar.pid, signal.SIGCONT)
    wait_for(lambda: f.opens() == OK)


def test_floors_that_cannot_be_read_halt(fleet):
    f = fleet()
    (f.e.state / "floors").write_text("rubbish\n")
    f.e.start(wait=False)
    wait_for(lambda: f.e.control.exists() and "control_halt" in f.e.log("egress-sidecar"))
    time.sleep(1.5)
    assert f.opens() == FAILURE
    assert (f.e.state / "floors").read_text() == "rubbish\n"
