"""Faults of control and fleet on real processes: what fails closed, by time alone, and comes back by itself."""
import json
import os
import re
import signal
import time

from control import CELL, Control
from lab import wait_for
from socks import NOT_ALLOWED, OK
from test_signed import LEASE_A2, fleet  # noqa: F401 (a fixture)


def second_sidecar(f):
    """Another process on the same configuration."""
    first, f.e.sidecar = f.e.sidecar, None
    f.e.start_sidecar()
    f.e.sidecar, second = first, f.e.sidecar
    return second


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
    for _ in range(4):
        os.utime(e.state / "floors", (time.time() - 120,) * 2)
        waits.append(run_once())
    assert all(0 <= ms <= 5000 for ms in waits) and len(set(waits)) > 1, waits
    e.sidecar = None
