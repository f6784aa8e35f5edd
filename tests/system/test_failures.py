"""Faults of control and fleet on real processes: what fails closed, by time alone, and comes back by itself. FAULTS says which test shows which."""
import json
import os
import re
import signal
import time

import pytest
from control import CELL, Control
from lab import BUILD, HERE, wait_for
from netns import run
from socks import FAILURE, NOT_ALLOWED, OK
from test_signed import LEASE_A, LEASE_A2, LEASE_B, fleet  # noqa: F401 (a fixture)


def second_sidecar(f):
    """Another process on the same configuration."""
    first, f.e.sidecar = f.e.sidecar, None
    f.e.start_sidecar()
    f.e.sidecar, second = first, f.e.sidecar
    return second

# Fault: the tests that show its outcome ("file test").
FAULTS = {
    "etcd or control down: stale, cut, back by itself": [
        "test_signed test_a_lease_works_until_control_is_gone", "test_etcd test_a_dead_store_is_stale_by_time_alone_and_comes_back",
        "test_https test_silence_and_errors_are_stale_by_time_alone_and_end_with_the_next_beat"],
    "control is slow": ["test_failures test_beats_that_come_late_are_as_good_as_none"],
    "the bounds of the default options": ["test_failures test_the_bounds_that_hold_when_none_is_set"],
    "a minority member serves the watch": [
        "test_etcd test_a_member_that_was_cut_off_is_left_for_one_that_has_the_quorum", "test_etcd test_freeze_three_a_member_without_quorum_is_left",
        "test_etcd test_one_member_of_three_may_die"],
    "etcd restored from an older backup": ["test_etcd test_freeze_two_a_store_from_the_past_is_noticed_and_its_documents_refused"],
    "a watch from a compacted revision": ["test_etcd test_freeze_one_a_compacted_watch_is_left_and_everything_listed"],
    "one delete withheld": ["test_signed test_a_withheld_delete_ends_in_refusal", "test_hostile_store test_one_withheld_delete_is_looked_for_and_ends_in_refusal"],
    "an old lease replayed": [
        "test_signed test_an_old_revision_changes_nothing", "test_hostile_store test_old_revisions_in_real_etcd_change_nothing",
        "test_failures test_what_is_replayed_to_a_successor_in_the_second_of_a_kill_brings_no_lease_back"],
    "a bad signature on one lease, on all": ["test_failures test_one_lease_with_a_bad_signature_is_refused_alone_and_with_all_of_them_time_decides"],
    "an unknown field, an unknown mode": [
        "test_signed test_a_key_that_nobody_knows_quarantines_its_lease_alone", "test_failures test_an_unknown_mode_allows_nothing_and_the_others_live",
        "test_https test_status_reports_say_what_is_applied_and_what_is_refused_and_where"],
    "the clock steps an hour": ["test_signed test_a_clock_step_refuses_and_lengthens_nothing", "test_failures test_a_clock_set_back_an_hour_lengthens_no_lease"],
    "sidecar killed, stopped": ["test_policy_life test_lost_control_refuses_after_its_bound_and_then_cuts"],
    "sidecar replaced by another": [
        "test_policy_life test_a_successor_within_the_bound_refuses_nobody", "test_failures test_a_second_sidecar_names_who_holds_the_state_and_changes_nothing"],
    "a lease that ends while nobody says so": ["test_failures test_a_lease_ends_in_its_hour_though_the_sidecar_is_dead"],
    "daemon killed while a snapshot is on its way": ["test_failures test_a_daemon_killed_while_policy_is_on_its_way_never_serves_what_was_before"],
    "two controls write at once": ["test_serve test_of_two_publishers_the_newer_manifest_stays", "test_serve test_two_publishers_of_one_folder_do_not_quarrel"],
    "no room for floors": ["test_failures test_a_full_disk_halts_until_there_is_room", "test_signed test_floors_that_cannot_be_read_halt"],
    "a whole fleet starts at once": ["test_failures test_who_comes_back_after_control_was_lost_waits_a_time_of_its_own_and_a_new_one_does_not"],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_there_is_a_test_for(fault):
    for shown in FAULTS[fault]:
        file, name = shown.split()
        assert f"\ndef {name}(" in (HERE / f"{file}.py").read_text(), shown


def kill_sidecar(f):
    f.e.may_fail.add("egress-sidecar")
    f.e.sidecar.send_signal(signal.SIGKILL)
    f.e.sidecar.wait()


def test_a_second_sidecar_names_who_holds_the_state_and_changes_nothing(fleet):  # noqa: F811
    f = fleet().start()
    with f.e.guest() as tunnel:
        assert tunnel.open("allowed.test", 7000) == OK
        second = second_sidecar(f)
        assert second.wait(timeout=20) == 2
        said = re.search(r"(\S+)/lock is held by process (\d+)", f.e.log("egress-sidecar"))
        assert (said[1], int(said[2])) == (str(f.e.state), f.e.sidecar.pid)
        assert f.e.is_ready() and f.opens() == OK
        tunnel.send(b"x")
        assert tunnel.take(1) == b"x"
    # Killed, it holds nothing: the next one starts at once.
    kill_sidecar(f)
    before = f.e.health()["snapshot"]
    f.e.start_sidecar()
    wait_for(lambda: f.e.health()["snapshot"] != before and f.e.is_ready())
    assert f.opens() == OK


def test_what_is_replayed_to_a_successor_in_the_second_of_a_kill_brings_no_lease_back(fleet):  # noqa: F811
    f = fleet().start()
    assert f.opens() == OK
    old = f.authority.documents()  # all good, and the beat not yet too old
    f.authority.write("a.policy", LEASE_A2)
    wait_for(lambda: f.opens() == NOT_ALLOWED, every=0.005)
    kill_sidecar(f)
    f.store.tell(lambda documents: old)
    f.e.start_sidecar()
    until = time.monotonic() + 4
    while time.monotonic() < until:
        assert f.opens() != OK
        time.sleep(0.05)
    assert f.count("manifest", "rollback") > 0 and f.count("lease", "rollback") > 0
    f.store.tell()
    wait_for(lambda: f.opens(port=7001) == OK)


def test_who_comes_back_after_control_was_lost_waits_a_time_of_its_own_and_a_new_one_does_not(egress):
    e = egress(autostart=False, source="etcd://127.0.0.1:9")
    keys = e.folder / "keys.json"
    keys.write_text(json.dumps(Control().root()))
    e.sidecar_options = f"cell = {CELL}\nkeys = {keys}\nceiling = {e.root}/ceiling.policy\n"
    e.configure()
    e.may_fail.add("egress-sidecar")

    def run_once():
        """A sidecar until it asked its store; how long it said it would wait first, and did."""
        log = e.folder / "egress-sidecar.log"
        log.unlink(missing_ok=True)
        e.start_sidecar()
        wait_for(lambda: "store_not_reached" in log.read_text(), every=0.01)
        e.sidecar.kill()
        e.sidecar.wait()
        said = re.search(r"^\S+:([\d.]+)Z.* first_list_waits ms=(\d+)", log.read_text(), re.MULTILINE)
        if said is None:
            return 0
        asked = re.search(r"^\S+:([\d.]+)Z.* store_not_reached", log.read_text(), re.MULTILINE)
        waited = (float(asked[1]) - float(said[1])) % 60 * 1000
        assert waited >= int(said[2]) - 2
        return int(said[2])
    assert run_once() == 0, "it is new"
    assert run_once() == 0, "it takes over"
    waits = []
    for _ in range(3):
        os.utime(e.state / "floors", (time.time() - 120,) * 2)
        waits.append(run_once())
    assert all(0 <= ms <= 5000 for ms in waits) and len(set(waits)) > 1, waits
    e.sidecar = None


def spoilt(envelope):
    """The same bytes under a signature that is none."""
    head, payload = envelope.split(b"\n", 1)
    at = head.index(b'"sig":"') + 10
    return head[:at] + (b"A" if head[at:at + 1] != b"A" else b"B") + head[at + 1:] + b"\n" + payload


def test_one_lease_with_a_bad_signature_is_refused_alone_and_with_all_of_them_time_decides(fleet):  # noqa: F811
    f = fleet()
    f.store.tell(lambda documents: {k: spoilt(v) if k == "l/ls_a" else v for k, v in documents.items()})
    f.e.start()
    assert (f.opens(), f.opens("guest2")) == (NOT_ALLOWED, OK)
    assert f.count("lease", "signature") > 0 and f.state() == "live"
    f.store.tell()
    wait_for(lambda: f.opens() == OK)
    before = [f.count(kind, "signature") for kind in ("lease", "manifest", "beat")]
    f.store.tell(lambda documents: {k: spoilt(v) for k, v in documents.items()})
    wait_for(lambda: f.opens() == FAILURE and f.opens("guest2") == FAILURE)
    f.authority.write("b.policy", LEASE_B + "deny evil.test\n")
    for kind, count in zip(("lease", "manifest", "beat"), before):
        f.counts(kind, "signature", count)
    f.store.tell()
    wait_for(lambda: f.opens() == OK and f.opens("guest2") == OK)


def test_an_unknown_mode_allows_nothing_and_the_others_live(fleet):  # noqa: F811
    f = fleet().start()
    assert f.opens() == OK
    f.store.tell(f.forge(lambda lease: lease["network"].update(mode="surprise")))
    wait_for(lambda: f.opens() == NOT_ALLOWED)
    assert f.e.wait_record(status_code="scope_undeclared")
    assert f.opens("guest2") == OK and f.state() == "live"


def test_a_clock_set_back_an_hour_lengthens_no_lease(fleet):  # noqa: F811
    f = fleet(sandbox=False, daemon="refuse_after_s = 60\ncut_after_s = 90\n")
    clock, ends = f.e.folder / "clock", int(time.time()) + 8
    text = time.strftime("expires %Y-%m-%dT%H:%M:%SZ\n", time.gmtime(ends))
    f.authority.write("a.policy", LEASE_A.replace("mode", text + "mode", 1))
    wait_for(lambda: f"{ends}000".encode() in f.authority.documents().get("l/ls_a", b""))
    f.store.tell()
    f.start_with_a_clock(clock)
    with f.e.guest() as tunnel:
        assert tunnel.open("allowed.test", 7000) == OK
        clock.write_text("-1h")
        # What is shipped after the step knows no later end either.
        f.authority.write("b.policy", LEASE_B + "deny evil.test\n")
        assert tunnel.rest() in (b"", b"RESET")
        assert f.e.record_of(tunnel, activity_id=3)["status_code"] == "lease_expired"
    assert ends <= time.time() < ends + 10
    assert f.opens("guest2") == OK, "nothing else had ended"


def test_a_daemon_killed_while_policy_is_on_its_way_never_serves_what_was_before(egress):
    def lease(host):
        return f"lease ls_one\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\nallow tcp://{host}:7000\n"

    def ask(host):
        try:
            with e.guest() as s:
                return s.request(host, 7000) if s.greet() == b"\x05\x00" else None
        except OSError:
            return None
    more = {f"m{i}.policy": f"lease ls_m{i}\nguest require source\nguest source 10.201.0.{i + 1}/32\nmode allowlist\nallow https://h{i}.test\n" for i in range(200)}
    e = egress(leases={"one.policy": lease("allowed.test"), **more})
    e.may_fail.add("egressd")
    hosts = ["allowed.test", "plain.test"]
    for turn in range(6):
        assert ask(hosts[0]) == OK
        hosts.reverse()
        e.write("leases/one.policy", lease(hosts[0]))
        time.sleep(0.03 + turn * 0.006)  # from the settling time of a file to where the snapshot is being adopted
        e.daemon.kill()
        e.daemon.wait()
        e.start_daemon()

        def served():
            assert ask(hosts[1]) != OK
            return ask(hosts[0]) == OK
        wait_for(served)


def test_a_full_disk_halts_until_there_is_room(fleet):  # noqa: F811
    f = fleet()
    run("mount", "-t", "tmpfs", "-o", "size=128k,mode=700,uid=65534,gid=65534", "tmpfs", f.e.state)
    try:
        f.start()
        with f.e.guest() as tunnel:
            assert tunnel.open("allowed.test", 7000) == OK
            with open(f.e.state / "filled", "wb", buffering=0) as filled:
                try:
                    while filled.write(b"x" * 4096):
                        pass
                except OSError:
                    pass
            wait_for(lambda: f.opens() == FAILURE)
            assert f.e.wait_record(status_code="control_halt")
            assert f.state() == "halt"
            assert re.search("control_halt on=1 floors_broken=1", f.e.log("egress-sidecar"))
            assert tunnel.rest() in (b"", b"RESET")
        (f.e.state / "filled").unlink()
        wait_for(lambda: f.opens() == OK)
        f.authority.write("a.policy", LEASE_A2)
        wait_for(lambda: f.opens() == NOT_ALLOWED)
    finally:
        run("umount", "-l", f.e.state)


def test_the_bounds_that_hold_when_none_is_set(egress):
    """The default: refused after 10 s, cut after 30 s."""
    e = egress(leases={"one.policy": "lease ls_one\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\nallow tcp://allowed.test:7000\n"})
    with e.guest() as tunnel:
        assert tunnel.open("allowed.test", 7000) == OK
        e.may_fail.add("egress-sidecar")
        e.sidecar.kill()
        e.sidecar.wait()
        lost = time.monotonic()

        def refused():
            with e.guest() as s:
                return s.open("allowed.test", 7000) == FAILURE
        wait_for(refused)
        # The last beat was up to two seconds old.
        assert 7 < time.monotonic() - lost < 14
        tunnel.send(b"x")
        assert tunnel.take(1) == b"x"
        tunnel.sock.settimeout(40)
        assert tunnel.rest() in (b"", b"RESET")
        assert 27 < time.monotonic() - lost < 36
        e.start_sidecar()  # it finds the records in the ring
        assert e.record_of(tunnel, activity_id=3)["status_code"] == "control_stale"


def test_beats_that_come_late_are_as_good_as_none(fleet):  # noqa: F811
    f = fleet().start()
    assert f.opens() == OK
    kept = []

    def slow(documents):
        """Everything is told, beats six seconds after they were due."""
        if "beat" in documents:
            kept.append((time.monotonic() + 6, documents["beat"]))
        due = [beat for at, beat in kept if at < time.monotonic()]
        return dict(documents, beat=(due or [kept[0][1]])[-1])
    before = f.count("beat", "clock")
    f.store.tell(slow)
    wait_for(lambda: f.opens() == FAILURE)
    f.counts("beat", "clock", before + 1)
    assert f.opens() == FAILURE and f.state() in ("stale", "cut")
    f.store.tell()
    wait_for(lambda: f.opens() == OK)


def test_a_lease_ends_in_its_hour_though_the_sidecar_is_dead(egress):
    ends = int(time.time()) + 5
    e = egress(leases={"one.policy": "lease ls_one\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\nallow tcp://allowed.test:7000\n"
                                     + time.strftime("expires %Y-%m-%dT%H:%M:%SZ\n", time.gmtime(ends))})
    with e.guest() as tunnel:
        assert tunnel.open("allowed.test", 7000) == OK
        e.may_fail.add("egress-sidecar")
        e.sidecar.kill()
        e.sidecar.wait()
        assert tunnel.rest() in (b"", b"RESET")
        assert ends - 0.1 <= time.time() < ends + 4
        # Whoever comes next finds the record of it.
        e.start_sidecar()
        assert e.record_of(tunnel, activity_id=3)["status_code"] == "lease_expired"


def test_a_daemon_that_does_not_look_at_its_bound_would_be_found(egress):
    """The sample of tests/planted/bounds that always runs."""
    run("make", "-s", "-C", BUILD, "egressd_planted", timeout=300)
    e = egress(autostart=False, daemon="refuse_after_s = 2\ncut_after_s = 20\n",
               leases={"one.policy": "lease ls_one\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\nallow tcp://allowed.test:7000\n"})
    e.program = BUILD / "egressd_planted"
    e.may_fail.add("egress-sidecar")
    e.start()
    e.sidecar.kill()
    e.sidecar.wait()
    time.sleep(4)
    with e.guest() as s:
        assert s.open("allowed.test", 7000) == OK, "the sound one refuses: test_lost_control_refuses_after_its_bound_and_then_cuts"
    e.sidecar = None


@pytest.mark.parametrize("planted", sorted(path.name for path in (HERE.parent / "planted/bounds").glob("*.patch")))
def test_the_planted_fault_still_fits_and_names_who_finds_it(planted):
    top = HERE.parent.parent
    patch = top / "tests/planted/bounds" / planted
    run("patch", "--dry-run", "-s", "-f", "-p1", "-d", top, "-i", patch)
    named = re.search(r"^found-by: (.+)$", patch.read_text(), re.MULTILINE)[1].split()
    for test in named:
        file, _, name = test.partition("::")
        assert not name or f"\ndef {name}(" in (top / file).read_text(), test
