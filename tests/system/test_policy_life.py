"""Policy from its files to live sessions: changes, faults, removals in every phase, lost and stopped control, restarts, drain, expiry."""
import json
import os
import signal
import time

import pytest
from lab import wait_for
from netns import run
from socks import FAILURE, NOT_ALLOWED, OK, TTL, request

RULES = """allow tcp://allowed.test:7000 as echo
allow tcp://plain.test:7000 as second
allow https://allowed.test as web
allow tcp://black.test:7000 as nowhere
allow tcp://mute.test:7000 as unheard
"""
WHO = "lease ls_one\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\n"
LEASE = WHO + RULES
OTHER = "lease ls_two\nguest require source\nguest source 10.200.1.2/32\nmode allowlist\nallow tcp://allowed.test:7000 as echo\n"
BLACK_HOLE, GOOD = "93.184.216.50", "93.184.215.14"


@pytest.fixture(scope="module", autouse=True)
def zone(names):
    names.zone.update({"allowed.test": {"A": [GOOD]}, "plain.test": {"A": [GOOD]}, "black.test": {"A": [BLACK_HOLE]}, "mute.test": None})


OPTIONS = "name_servers = 93.184.215.16\ndns_total_ms = 30000\nconnect_ms = 30000\n"
SHORT = OPTIONS + "refuse_after_s = 2\ncut_after_s = 4\n"


def opened(e, host="allowed.test", port=7000, guest="guest"):
    s = e.guest(guest)
    assert s.open(host, port) == OK
    return s


def lives(s):
    s.send(b"ping")
    return s.take(4) == b"ping"


def ask(e, host="allowed.test", port=7000, guest="guest"):
    with e.guest(guest) as s:
        return s.open(host, port)


def is_shut(e, to=None):
    """Does nobody listen there any more?"""
    def look():
        try:
            e.guest(to=to).close()
            return False
        except ConnectionRefusedError:
            return True
        except ConnectionResetError: # it was in the queue of a socket that closes
            return False
    return look


# --- files ---

def test_a_changed_file_is_in_force_without_a_restart(egress):
    e = egress(leases={"one.policy": WHO + "allow tcp://plain.test:7000\n"}, daemon=OPTIONS)
    assert ask(e) == NOT_ALLOWED
    e.write("leases/one.policy", LEASE)
    wait_for(lambda: ask(e) == OK, 5)
    e.write("leases/one.policy", WHO + "deny allowed.test\n" + RULES)
    wait_for(lambda: ask(e) == NOT_ALLOWED, 5)
    assert ask(e, "plain.test") == OK


def test_a_file_written_in_place_is_taken_when_it_is_closed(egress):
    e = egress(leases={"one.policy": WHO + "allow tcp://plain.test:7000\n"}, daemon=OPTIONS)
    with open(e.root / "leases/one.policy", "w", encoding="ascii") as file:
        for line in LEASE.splitlines(keepends=True):
            file.write(line)
            file.flush()
            time.sleep(0.01)
    wait_for(lambda: ask(e) == OK, 5)


def test_a_faulty_lease_is_quarantined_with_its_place_and_the_others_live(egress):
    e = egress(leases={"one.policy": LEASE, "two.policy": OTHER}, daemon=OPTIONS)
    with opened(e) as cut, opened(e, guest="guest2") as kept:
        e.write("leases/one.policy", LEASE + "allow ftp://allowed.test\n")
        assert cut.rest() == b"RESET"
        assert e.record_of(cut, activity_id=3)["status_code"] == "policy_invalid"
        assert ask(e) == NOT_ALLOWED
        assert e.wait_record(status_code="policy_invalid", activity_id=5)["policy"]["uid"] == "ls_one"
        assert lives(kept)
    place = f"leases/one.policy:{len(LEASE.splitlines()) + 1}:7"
    line, = [line for line in e.log("egress-sidecar").splitlines() if place in line]
    assert "error" in line and "https" in line
    assert place in e.ctl("sidecar").stdout
    e.publish("leases/one.policy", LEASE)
    assert ask(e) == OK


def test_rules_that_are_too_wide_quarantine_only_their_lease(egress):
    wide = {f"w{i}.policy": OTHER.replace("ls_two", f"ls_w{i}").replace("10.200.1.2", f"10.200.9.{i}") + f"allow {rule}\n"
            for i, rule in enumerate(("https://*", "https://*.com", "https://*.co.uk", "https://metadata.google.internal", "tcp://allowed.test", "https://1.2.3.4"))}
    e = egress(leases={"one.policy": LEASE, **wide}, daemon=OPTIONS)
    states = {row["lease"]: row["state"] for row in map(json.loads, e.ctl("leases", "--json").stdout.splitlines())}
    assert states == {"ls_one": "live", **{f"ls_w{i}": "policy_invalid" for i in range(len(wide))}}
    assert ask(e) == OK


def test_two_files_of_one_lease_are_a_fault_of_that_lease(egress):
    e = egress(leases={"one.policy": LEASE, "two.policy": OTHER}, daemon=OPTIONS)
    e.publish("leases/again.policy", LEASE)
    assert ask(e) == NOT_ALLOWED
    assert ask(e, guest="guest2") == OK
    e.remove("leases/again.policy")
    assert ask(e) == OK


def test_a_changed_preset_reaches_the_leases_that_use_it(egress):
    preset = "allow tcp://allowed.test:7000 as echo\n"
    e = egress(leases={"one.policy": WHO + "use common\nallow tcp://plain.test:7000\n", "two.policy": OTHER}, presets={"common": preset}, daemon=OPTIONS)
    with opened(e) as cut, opened(e, "plain.test") as own, opened(e, guest="guest2") as kept:
        e.write("presets/common.policy", "allow https://allowed.test\n")
        assert cut.rest() == b"RESET"
        assert lives(own) and lives(kept)
        assert ask(e) == NOT_ALLOWED
    e.publish("presets/common.policy", preset)
    assert ask(e) == OK


def test_a_missing_preset_quarantines_its_leases_until_it_is_there(egress):
    e = egress(leases={"one.policy": WHO + "use common\n", "two.policy": OTHER}, daemon=OPTIONS)
    assert ask(e) == NOT_ALLOWED and ask(e, guest="guest2") == OK
    e.publish("presets/common.policy", "allow tcp://allowed.test:7000\n")
    assert ask(e) == OK


def test_a_faulty_ceiling_shuts_everything_until_it_is_mended(egress):
    e = egress(leases={"one.policy": LEASE, "two.policy": OTHER}, daemon=OPTIONS)
    with opened(e) as one, opened(e, guest="guest2") as two:
        e.write("ceiling.policy", "allow any\nallow nonsense\n")
        assert one.rest() == b"RESET" and two.rest() == b"RESET"
        with e.decides("policy_invalid", "policy_invalid"):
            assert ask(e) == NOT_ALLOWED and ask(e, guest="guest2") == NOT_ALLOWED
    assert "ceiling.policy:2:" in e.log("egress-sidecar")
    e.publish("ceiling.policy", "allow any\n")
    assert ask(e) == OK and ask(e, guest="guest2") == OK


def test_a_ceiling_that_narrows_closes_what_it_now_refuses(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS)
    with opened(e) as cut, opened(e, "plain.test") as kept:
        e.write("ceiling.policy", "allow any\ndeny allowed.test as no-more\n")
        assert cut.rest() == b"RESET"
        assert e.record_of(cut, activity_id=3)["status_code"] == "policy_changed"
        assert lives(kept)
        with e.decides("ceiling_deny"):
            assert ask(e) == NOT_ALLOWED


def test_a_replaced_root_is_noticed_and_a_missing_one_ends_in_refusal(egress):
    e = egress(leases={"one.policy": WHO + "allow tcp://plain.test:7000\n"}, daemon=SHORT)
    assert ask(e) == NOT_ALLOWED
    fresh = e.folder / "fresh"
    (fresh / "leases").mkdir(parents=True)
    (fresh / "ceiling.policy").write_text("allow any\n")
    (fresh / "leases/one.policy").write_text(LEASE)
    e.root.rename(e.folder / "old")
    fresh.rename(e.root)
    wait_for(lambda: ask(e) == OK, 10)
    e.root.rename(e.folder / "away")
    wait_for(lambda: ask(e) == FAILURE, 15)
    assert e.wait_record(status_code="control_stale")
    (e.folder / "away").rename(e.root)
    wait_for(lambda: ask(e) == OK, 10)


def test_many_changes_leave_neither_descriptors_nor_memory(egress):
    e = egress(leases={"one.policy": LEASE, "two.policy": OTHER}, daemon=OPTIONS)

    def change(count):
        for i in range(count):
            e.publish("leases/two.policy", OTHER + "".join(f"allow https://h{k}.n{i}.test\n" for k in range(200)))
    change(10)
    before, memory = e.descriptors(), e.memory_kb()
    sidecar = len(os.listdir(f"/proc/{e.sidecar.pid}/fd"))
    with opened(e) as s:
        change(40)
        assert lives(s)
    e.wait_idle()
    assert e.descriptors() <= before and len(os.listdir(f"/proc/{e.sidecar.pid}/fd")) <= sidecar
    assert e.memory_kb() - memory < 4 * 1024


def test_a_report_only_lease_needs_the_operator_s_leave(egress):
    e = egress(leases={"one.policy": WHO + "enforcement report\n" + RULES}, daemon=OPTIONS)
    with e.decides("policy_invalid"):
        assert ask(e) == NOT_ALLOWED


def test_a_report_only_lease_lets_through_and_records_what_it_would_deny(egress, names):
    names.zone.update({"unlisted.test": {"A": [GOOD]}, "inside.test": {"A": ["10.0.0.1"]}})
    e = egress(leases={"one.policy": WHO + "enforcement report\n" + RULES}, daemon=OPTIONS + "report_allowed = on\n")
    with e.guest() as s:
        assert s.open("unlisted.test", 7000) == OK
        said = e.record_of(s)
        assert said["unmapped"]["would_deny"] is True and said["status_code"] == "no_rule"
    with e.decides("special_address"):
        assert ask(e, "inside.test") == NOT_ALLOWED


# --- live sessions ---

def test_a_removed_lease_ends_its_sessions_in_every_phase(egress, lab):
    e = egress(leases={"one.policy": LEASE, "two.policy": OTHER}, daemon=OPTIONS)
    before = e.descriptors()
    phases = {}
    for state, host, port in (("resolving", "mute.test", 7000), ("connecting", "black.test", 7000)):
        s = phases[state] = e.guest()
        s.greet()
        s.send(request(host, port))
        e.wait_state(state)
    silent, held = opened(e, port=443), opened(e, port=443)
    held.send(b"\x16\x03\x01\x02\x00\x01")
    relaying = opened(e)
    assert lives(relaying)
    greeted = e.guest()
    assert greeted.greet() == b"\x05\x00"
    with opened(e, guest="guest2") as kept:
        (e.root / "leases/one.policy").unlink()
        for s in (*phases.values(), silent, held, relaying):
            assert s.rest() == b"RESET"
            assert e.record_of(s, status_code="lease_revoked")
        greeted.send(request("allowed.test", 7000))
        assert greeted.reply() in (NOT_ALLOWED, None)
        assert lives(kept)
        assert {s["lease"] for s in e.sessions()} <= {"ls_two", "-"}
        for s in (*phases.values(), silent, held, relaying, greeted):
            s.close()
    wait_for(lambda: e.descriptors() <= before)


def test_a_late_answer_for_a_removed_lease_opens_nothing(egress, names, lab):
    held = []
    names.zone["late.test"] = lambda query: held.append(query) or []
    e = egress(leases={"one.policy": LEASE + "allow tcp://late.test:7000\n", "two.policy": OTHER}, daemon=OPTIONS)
    with e.guest() as s:
        s.greet()
        s.send(request("late.test", 7000))
        wait_for(lambda: len({q.type for q in held}) == 2)
        (e.root / "leases/one.policy").unlink()
        assert s.rest() == b"RESET"
        accepted = len(lab.origin_lines())
        for query in held:
            names.udp.sendto(query.answer(GOOD) if query.type == "A" else query.nothing(), ("93.184.215.1", query.port))
        assert ask(e, guest="guest2") == OK
        assert len([line for line in lab.origin_lines()[accepted:] if line.startswith("accept")]) <= 1


def test_a_change_of_note_id_or_comment_cuts_nothing(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS)
    with opened(e) as s, opened(e, port=443) as typed:
        typed.send(b"\x16")
        e.publish("leases/one.policy", "# again\n" + LEASE.replace("as echo", 'as other-id note "x"'))
        e.publish("leases/one.policy", LEASE.replace("as web", 'as web-2 note "y"') + "allow https://more.test\n")
        assert lives(s)
        assert any(row["state"] == "first_flight" for row in e.sessions())
    assert not e.records(activity_id=3)


def test_a_change_that_narrows_closes_only_what_it_now_refuses(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS)
    with opened(e) as cut, opened(e, "plain.test") as kept:
        e.write("leases/one.policy", LEASE.replace("allow tcp://allowed.test:7000 as echo\n", ""))
        assert cut.rest() == b"RESET"
        said = e.record_of(cut, activity_id=3)
        assert said["status_code"] == "policy_changed" and said["policy"]["uid"] == "ls_one"
        assert lives(kept)


def test_a_request_that_is_being_answered_is_refused_by_the_new_rules(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS)
    with e.guest() as resolving, e.guest() as connecting:
        for s, host, state in ((resolving, "mute.test", "resolving"), (connecting, "black.test", "connecting")):
            s.greet()
            s.send(request(host, 7000))
            e.wait_state(state)
        e.write("leases/one.policy", WHO + "allow tcp://allowed.test:7000\n")
        assert resolving.reply() == NOT_ALLOWED and connecting.reply() == NOT_ALLOWED
        assert e.record_of(resolving)["status_code"] == "no_rule"


def test_a_lease_ends_in_its_hour_with_its_sessions(egress):
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 4))
    e = egress(leases={"one.policy": LEASE.replace("\n", f"\nexpires {ends}\n", 1), "two.policy": OTHER}, daemon=OPTIONS)
    with opened(e) as s, opened(e, guest="guest2") as kept:
        assert s.rest() == b"RESET"
        assert time.time() >= time.mktime(time.strptime(ends, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone - 0.2
        assert e.record_of(s, activity_id=3)["status_code"] == "lease_expired"
        assert lives(kept)
    with e.decides("lease_expired"):
        assert ask(e) == NOT_ALLOWED


def test_a_lease_that_is_prolonged_in_time_goes_on(egress):
    def ending(seconds):
        return LEASE.replace("\n", "\nexpires " + time.strftime("%Y-%m-%dT%H:%M:%SZ\n", time.gmtime(time.time() + seconds)), 1)
    e = egress(leases={"one.policy": ending(5)}, daemon=OPTIONS)
    with opened(e) as s:
        e.publish("leases/one.policy", ending(3600))
        time.sleep(5.5)
        assert lives(s)


# --- revocation by hand ---

def test_a_revocation_by_hand_closes_and_sticks_until_the_file_changes(egress):
    e = egress(leases={"one.policy": LEASE, "two.policy": OTHER}, daemon=OPTIONS)
    with opened(e) as s, opened(e, guest="guest2") as kept:
        done = e.ctl("revoke", "ls_one")
        assert done.returncode == 0 and "1 sessions closed" in done.stdout
        assert s.rest() == b"RESET"
        assert e.record_of(s, activity_id=3)["status_code"] == "lease_revoked"
        assert lives(kept)
    with e.decides("lease_revoked"):
        assert ask(e) == NOT_ALLOWED
    restart_sidecar(e)
    e.publish("leases/two.policy", OTHER + "# changed\nallow tcp://plain.test:7000\n")
    assert ask(e) == NOT_ALLOWED and ask(e, "plain.test", guest="guest2") == OK
    e.write("leases/one.policy", LEASE + "# signed off again\n")
    wait_for(lambda: ask(e) == OK, 10)


def test_a_revocation_of_nobody_and_without_a_sidecar_fails(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS)
    done = e.ctl("revoke", "ls_nobody")
    assert done.returncode == 2 and "no such lease" in done.stderr
    stop_sidecar(e)
    done = e.ctl("revoke", "ls_one")
    assert done.returncode == 2 and "sidecar" in done.stderr
    assert ask(e) == OK


# --- control that is lost ---

def kill(process, e, name):
    e.may_fail.add(name)
    process.kill()
    process.wait()


def stop_sidecar(e):
    e.sidecar.terminate()
    assert e.sidecar.wait(20) == 0
    e.sidecar = None
    wait_for(lambda: not e.health()["sidecar"])


def restart_sidecar(e):
    stop_sidecar(e)
    before = e.health()["snapshot"]
    e.start_sidecar()
    wait_for(lambda: e.health()["snapshot"] != before and e.is_ready())


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_lost_control_refuses_after_its_bound_and_then_cuts(egress, how):
    e = egress(leases={"one.policy": LEASE}, daemon=SHORT)
    with opened(e) as s:
        if how == "killed":
            kill(e.sidecar, e, "egress-sidecar")
            e.sidecar = None
        else:
            e.sidecar.send_signal(signal.SIGSTOP)
        wait_for(lambda: ask(e) == FAILURE, 10)
        assert e.admin("/readyz")[0] == 503 and e.admin("/livez")[0] == 200
        assert lives(s)
        assert s.rest() == b"RESET"
        if how == "killed":
            e.start_sidecar()
        else:
            e.sidecar.send_signal(signal.SIGCONT)
        wait_for(lambda: ask(e) == OK, 10)
        # What was decided meanwhile waited in the ring.
        assert e.wait_record(status_code="control_stale", activity_id=5)
        assert e.record_of(s, activity_id=3)["status_code"] == "control_stale"


def test_a_successor_within_the_bound_refuses_nobody(egress):
    e = egress(leases={"one.policy": LEASE, "two.policy": OTHER}, daemon=OPTIONS)
    with opened(e) as s:
        kill(e.sidecar, e, "egress-sidecar")
        assert ask(e) == OK
        before = e.health()["snapshot"]
        e.start_sidecar()
        replies = set()
        until = time.monotonic() + 20
        while e.health()["snapshot"] == before and time.monotonic() < until:
            replies.add(ask(e))
            replies.add(ask(e, guest="guest2"))
        for _ in range(10):
            replies.add(ask(e))
        assert replies == {OK}
        assert lives(s)
    assert not e.records(activity_id=3) and e.is_ready()


def test_changes_while_control_was_away_count_from_its_return(egress):
    e = egress(leases={"one.policy": LEASE, "two.policy": OTHER}, daemon=OPTIONS)
    with opened(e) as cut, opened(e, guest="guest2") as kept:
        stop_sidecar(e)
        (e.root / "leases/one.policy").unlink()
        assert lives(cut)
        e.start_sidecar()
        assert cut.rest() == b"RESET"
        assert lives(kept)


def test_sidecars_that_come_and_go_leave_no_descriptor(egress):
    lease = "lease ls_vm\nguest require listener\nguest listener vm-1\nmode allowlist\n" + RULES
    e = egress(leases={"one.policy": LEASE, "vm.policy": lease}, daemon=OPTIONS,
               listeners={"main": "tcp:10.200.0.1:1080", "vms": "unix:FOLDER/{listener}.sock"})
    wait_for((e.folder / "vm-1.sock").exists)
    before = e.descriptors()
    for _ in range(4):
        restart_sidecar(e)
    wait_for(lambda: e.descriptors() <= before)
    assert ask(e) == OK
    with e.guest(to=str(e.folder / "vm-1.sock")) as s:
        assert s.open("allowed.test", 7000) == OK


def test_a_listener_that_left_the_configuration_is_shut_by_the_successor(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS, listeners={"main": "tcp:10.200.0.1:1080", "old": "tcp:10.200.0.1:1089"})
    with e.guest(to=("10.200.0.1", 1089)) as s:
        assert s.open("allowed.test", 7000) == OK
    stop_sidecar(e)
    del e.listeners["old"]
    e.configure(OPTIONS)
    e.start_sidecar()
    wait_for(is_shut(e, ("10.200.0.1", 1089)))
    assert ask(e) == OK


def test_options_that_apply_at_once_do_so_on_a_hang_up(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS)
    e.configure(OPTIONS + "connections_per_lease = 1\n")
    with opened(e) as s:
        e.sidecar.send_signal(signal.SIGHUP)
        wait_for(lambda: ask(e) == FAILURE)
        assert e.wait_record(status_code="limit_connections")
        e.configure(OPTIONS + "connections_per_lease = none\n")
        e.sidecar.send_signal(signal.SIGHUP)
        wait_for(lambda: "configuration_kept" in e.log("egress-sidecar"))
        assert ask(e) == FAILURE and lives(s)


def hang_up(e, daemon):
    e.configure(daemon)
    before = e.log("egress-sidecar").count("configuration_read")
    e.sidecar.send_signal(signal.SIGHUP)
    wait_for(lambda: e.log("egress-sidecar").count("configuration_read") > before)


def test_name_servers_and_their_times_change_on_a_hang_up(egress, names):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS.replace("93.184.215.16", "93.184.216.50") + "dns_try_ms = 20000\n")
    with e.guest() as s:
        s.greet()
        s.send(request("allowed.test", 7000))
        e.wait_state("resolving")
        hang_up(e, OPTIONS.replace("30000", "500", 1) + "dns_try_ms = 200\n")
        wait_for(lambda: ask(e, "plain.test") == OK, 10)
        with e.decides("dns_timeout"):
            assert ask(e, "mute.test") == TTL
        e.wait_state("resolving")  # what was asked before keeps its time
        (e.root / "leases/one.policy").unlink()
        s.rest()


def test_listeners_come_and_go_on_a_hang_up_and_what_they_opened_stays(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS)
    e.listeners["more"] = "tcp:10.200.0.1:1088"
    hang_up(e, OPTIONS)
    wait_for(lambda: not is_shut(e, ("10.200.0.1", 1088))())
    with e.guest(to=("10.200.0.1", 1088)) as s:
        assert s.open("allowed.test", 7000) == OK
        del e.listeners["more"]
        hang_up(e, OPTIONS)
        wait_for(is_shut(e, ("10.200.0.1", 1088)))
        assert lives(s) and ask(e) == OK


def test_guest_networks_that_change_on_a_hang_up_cut_what_they_cover(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS)
    with opened(e) as s:
        hang_up(e, OPTIONS + "guest_networks = 10.200.0.0/16, fd77::/16, 93.184.215.14/32\n")
        assert s.rest() == b"RESET"
        with e.decides("own_address"):
            assert ask(e) == NOT_ALLOWED


# --- start ---

def test_before_the_first_snapshot_every_request_is_refused(egress):
    e = egress(leases={"one.policy": LEASE, "two.policy": OTHER}, daemon=OPTIONS + "leases_max = 1\n", wait=False)
    wait_for(lambda: "snapshot_refused" in e.log())
    with e.decides("not_ready"):
        assert ask(e) == FAILURE
    assert e.admin("/readyz")[0] == 503 and e.admin("/startupz")[0] == 503 and e.admin("/livez")[0] == 200
    assert not e.health()["ready"] and e.ctl("health").returncode == 1
    (e.root / "leases/two.policy").unlink()
    wait_for(lambda: ask(e) == OK)


def start_alone(e, program):
    from lab import BUILD
    return e.lab.net.run("proxy", BUILD / program, "--config", e.config, check=False, timeout=20)


@pytest.mark.parametrize("program", ["egressd", "egress-sidecar"])
def test_a_faulty_configuration_starts_nothing_and_lists_every_fault(egress, program):
    e = egress(leases={"one.policy": LEASE}, autostart=False)
    e.config.write_text("[daemon]\ncontrol = relative/path\nworkers = many\nwokers = 2\nidle_ms = 5\nconnect_ms = 1000\nconnect_ms = 2000\n"
                        "[listener main]\nbind = tcp:nowhere\n[nonsense]\n[sidecar]\nsource = ftp://x\ntrust = blind\n")
    done = start_alone(e, program)
    assert done.returncode == 2
    for place in (":2:", ":3:", ":4:", ":5:", ":7:", ":9:", ":10:", ":12:", ":13:"):
        assert f"{e.config}{place}" in done.stderr, place


@pytest.mark.parametrize("program", ["egressd", "egress-sidecar"])
def test_a_missing_configuration_starts_nothing(egress, program):
    e = egress(leases={"one.policy": LEASE}, autostart=False)
    e.config.unlink()
    done = start_alone(e, program)
    assert done.returncode == 2 and str(e.config) in done.stderr


def test_an_empty_configuration_starts_no_sidecar(egress):
    e = egress(autostart=False)
    e.config.write_text("")
    assert start_alone(e, "egress-sidecar").returncode == 2


@pytest.mark.parametrize("ceiling, said", [(None, "ceiling.policy"), ("", "ceiling.policy"), ("allow\nallow everything\nlease x\n", "ceiling.policy:2:"), ("exception 127.0.0.0/8 for a.test\n", "ceiling.policy:1:"),
                                           ("exception 0.0.0.0/0 for a.test\n", "ceiling.policy:1:")])
def test_without_a_sound_ceiling_the_sidecar_does_not_start(egress, ceiling, said):
    e = egress(leases={"one.policy": LEASE}, autostart=False)
    (e.root / "ceiling.policy").unlink()
    if ceiling is not None:
        e.write("ceiling.policy", ceiling)
    done = start_alone(e, "egress-sidecar")
    assert done.returncode == 2 and said in done.stderr


def test_a_ceiling_that_allows_little_is_above_every_lease(egress):
    e = egress(leases={"one.policy": LEASE}, ceiling="allow tcp://plain.test:7000\n", daemon=OPTIONS)
    with e.decides("ceiling_deny", "allowed"):
        assert ask(e) == NOT_ALLOWED and ask(e, "plain.test") == OK


@pytest.mark.parametrize("what", [".", "leases", "leases/one.policy", "ceiling.policy"])
def test_policy_that_others_can_write_is_not_trusted(egress, what):
    e = egress(leases={"one.policy": LEASE}, autostart=False)
    os.chmod(e.root / what, 0o777)
    if what == "leases/one.policy":
        e.start()
        with e.decides("lease_unknown"), e.guest() as s:
            assert s.rest() == b""
        return
    done = start_alone(e, "egress-sidecar")
    assert done.returncode == 2 and "trust" in done.stderr or "write" in done.stderr, done.stderr


def test_a_policy_root_that_loses_its_trust_ends_in_refusal(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=SHORT)
    assert ask(e) == OK
    os.chmod(e.root, 0o777)
    wait_for(lambda: ask(e) != OK, 15)
    os.chmod(e.root, 0o755)
    wait_for(lambda: ask(e) == OK, 15)


def test_an_admin_address_that_guests_reach_starts_nothing(egress):
    e = egress(leases={"one.policy": LEASE}, autostart=False)
    for bind in ("tcp:10.200.0.1:9000", "tcp:0.0.0.0:9000", "tcp:[::]:9000"):
        e.configure(f"admin = {bind}\n")
        assert start_alone(e, "egress-sidecar").returncode == 2, bind
        assert start_alone(e, "egressd").returncode == 2, bind


# --- stop and restart of the daemon ---

def test_a_drain_serves_out_what_lives_and_takes_nothing_new(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS)
    with opened(e) as s:
        greeted = e.guest()
        greeted.greet()
        e.daemon.terminate()
        wait_for(is_shut(e))
        greeted.send(request("allowed.test", 7000))
        assert greeted.reply() == FAILURE
        greeted.close()
        assert lives(s)
        assert e.daemon.poll() is None
    assert e.daemon.wait(20) == 0
    assert e.wait_record(status_code="draining")


def test_a_drain_that_takes_too_long_ends_at_its_deadline(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS + "drain_ms = 1000\n")
    with opened(e) as s:
        assert e.ctl("drain").returncode == 0
        assert e.daemon.wait(20) == 0
        assert s.rest() == b"RESET"
    assert e.wait_record(activity_id=3, status_code="draining")


def test_a_killed_daemon_starts_again_and_is_handed_everything(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS)
    with opened(e) as s:
        kill(e.daemon, e, "egressd")
        assert s.rest() in (b"", b"RESET")
    e.start_daemon()
    wait_for(lambda: e.ctl("health").returncode == 0)
    assert ask(e) == OK
    assert e.wait_record(status_code="allowed")


def test_a_daemon_whose_socket_is_in_use_does_not_start(egress):
    e = egress(leases={"one.policy": LEASE}, daemon=OPTIONS)
    from lab import BUILD
    done = e.lab.net.run("proxy", "timeout", "10", BUILD / "egressd", "--config", e.config, check=False)
    assert done.returncode not in (0, 124), done.stderr
    assert ask(e) == OK
