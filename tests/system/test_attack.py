"""Attacks on the whole product, each of which once worked or was close to it: policy that changes under way, slots and names that are reused, floods."""
import hashlib
import socket
import subprocess
import threading
import time

from lab import BUILD, wait_for
from socks import OK, request

SOURCE = "guest require source\nguest source 10.200.0.2/32\nmode allowlist\n"


class Reluctant:
    """A listener of the origin that lets no connection through until it is told to: its queue is full."""

    def __init__(self, lab, address, port):
        with lab.net.inside("origin"):
            self.listener = socket.create_server((address, port), backlog=0)
            self.fillers = []
            for _ in range(3):
                s = socket.socket()
                s.setblocking(False)
                s.connect_ex((address, port))
                self.fillers.append(s)
        time.sleep(0.1)

    def let_in(self):
        """Take what waits; returns the first connection that is none of the fillers."""
        own = {s.getsockname() for s in self.fillers}
        self.listener.settimeout(20)
        while True:
            conn, peer = self.listener.accept()
            if peer not in own:
                return conn
            conn.close()

    def close(self):
        for s in [self.listener, *self.fillers]:
            s.close()


def test_a_policy_that_asks_for_tls_meanwhile_is_not_passed_by_a_connect_under_way(lab, egress):
    e = egress(leases={"one.policy": "lease ls_one\n" + SOURCE + "allow tcp://only4.test:9443\n"}, daemon="family = only4")
    origin = Reluctant(lab, "93.184.215.15", 9443)
    with e.guest() as s:
        s.greet()
        s.send(request("only4.test", 9443))
        e.wait_state("connecting")
        e.publish("leases/one.policy", "lease ls_one\n" + SOURCE + "allow https://only4.test:9443\n")
        conn = origin.let_in()
        conn.settimeout(5)
        reply = s.reply()
        if reply == OK:
            s.send(b"no TLS at all")
        try:
            assert conn.recv(100) == b""
        except ConnectionResetError:
            pass
        assert reply != OK
    origin.close()


def hammer(e, stop):
    """Refusals without end, each of which lingers: the lease is never without a session."""
    held = []
    while not stop.is_set():
        s = e.guest(timeout=5)
        s.sock.sendall(b"\x05\x01\x00" + request("refused.test", 1))
        held.append(s)
        if len(held) > 40:
            held.pop(0).close()
        time.sleep(0.01)


def test_a_lease_in_a_slot_given_back_a_moment_ago_is_served(lab, egress):
    def one(i):
        return f"lease ls_{i}\n" + SOURCE + "allow tcp://allowed.test:7000\n"
    e = egress(leases={"one.policy": one(0)}, daemon="workers = 1\nconnects_per_s = 100000\nfirst_flight_ms = 60000")
    stop = threading.Event()
    thread = threading.Thread(target=hammer, args=(e, stop))
    thread.start()
    try:
        for i in range(1, 25, 2):
            for k in (i, i + 1):  # the second one gets the slot of the one before the first
                before = e.health()["snapshot"]
                e.write("leases/one.policy", one(k))
                wait_for(lambda: e.health()["snapshot"] > before, every=0.001)
            wait_for(e.is_ready)
            with e.guest() as s:
                assert s.open("allowed.test", 7000) == OK
    finally:
        stop.set()
        thread.join()


def test_as_many_new_leases_as_there_are_slots_replace_as_many_old_ones(lab, egress):
    old = {f"{n}.policy": f"lease ls_{n}\nguest require source\nguest source 10.200.{n}.2/32\nmode allowlist\nallow tcp://allowed.test:7000\n" for n in (0, 1)}
    e = egress(leases=old, daemon="leases_max = 2")
    before = e.health()["snapshot"]
    for name, text in old.items():
        e.write("leases/" + name, text.replace("lease ls_", "lease ls_new_"))
    wait_for(lambda: e.health()["snapshot"] > before and e.is_ready())
    for guest in ("guest", "guest2"):
        with e.guest(guest) as s:
            assert s.open("allowed.test", 7000) == OK


def test_a_listener_name_of_a_lease_takes_no_socket_of_the_proxy_itself(lab, egress):
    lease = "lease ls_{0}\nguest require listener\nguest listener {0}\nmode allowlist\nallow tcp://allowed.test:7000\n"
    e = egress(leases={f"{n}.policy": lease.format(n) for n in ("control", "admin", "fine", "x-fine")},
               listeners={"vms": "unix:FOLDER/{listener}.sock", "xs": "unix:FOLDER/x-{listener}.sock"})
    time.sleep(2)
    assert e.ctl("health").returncode == 0
    assert e.admin("/livez")[0] == 200
    (e.root / "leases" / "control.policy").unlink()
    (e.root / "leases" / "admin.policy").unlink()
    time.sleep(2)
    assert e.ctl("health").returncode == 0
    assert e.admin("/livez")[0] == 200


def cpu_ticks(process):
    fields = open(f"/proc/{process.pid}/stat", encoding="ascii").read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_no_descriptors_left_neither_spins_nor_floods_the_log(lab, egress):
    e = egress(leases={"one.policy": "lease ls_0\n" + SOURCE + "allow tcp://allowed.test:7000\n"}, limits="ulimit -n 100", wait=False,
               listeners={f"n{i}": f"tcp:10.200.0.1:{5000 + i}" for i in range(30)})
    time.sleep(2)
    fds = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(60)]
    for s in fds:
        s.setblocking(False)
        s.connect_ex(str(e.control))
    before, lines = cpu_ticks(e.daemon), len(e.log().splitlines())
    time.sleep(3)
    used, said = cpu_ticks(e.daemon) - before, len(e.log().splitlines()) - lines
    for s in fds:
        s.close()
    assert used < 100 and said < 40


def test_a_second_signal_ends_it_at_once_and_cleanly(lab, egress):
    e = egress(leases={"one.policy": "lease ls_0\n" + SOURCE + "allow tcp://allowed.test:7000\n"})
    held = [e.guest() for _ in range(20)]
    for s in held:
        assert s.open("allowed.test", 7000) == OK
    e.daemon.terminate()
    e.daemon.terminate()
    time.sleep(0.02)
    e.daemon.terminate()
    e.daemon.wait(10)
    for s in held:
        s.close()


def test_a_token_taken_away_between_login_and_request_opens_nothing(lab, egress):
    tokens = ["v1." + c * 43 for c in "ab"]

    def one(token):
        digest = hashlib.sha256(token.encode()).hexdigest()
        return f"lease ls_one\nguest require token\nguest token sha256:{digest}\nmode allowlist\nallow tcp://allowed.test:7000\n"
    e = egress(leases={"one.policy": one(tokens[0])})
    late = [e.guest() for _ in range(4)]  # of both workers
    for s in late:
        assert s.greet(b"\x02") == b"\x05\x02" and s.login("ls_one", tokens[0]) == b"\x01\x00"
    e.publish("leases/one.policy", one(tokens[1]))
    for s in late:
        assert s.request("allowed.test", 7000) != OK
    assert e.wait_record(status_code="policy_changed")
    with e.guest() as s:
        assert s.open("allowed.test", 7000, "ls_one", tokens[1]) == OK


def test_tools_that_only_sit_there_do_not_keep_the_sidecar_out(lab, egress):
    e = egress(leases={"one.policy": "lease ls_0\n" + SOURCE + "allow tcp://allowed.test:7000\n"})
    script = ("import os, socket, sys, time\nos.setuid(12345)\nheld = []\nfor _ in range(80):\n s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
              " s.connect(sys.argv[1])\n held.append(s)\nprint('held', flush=True)\ntime.sleep(60)\n")
    e.control.chmod(0o666)
    sitters = subprocess.Popen(["/usr/bin/python3", "-c", script, str(e.control)], stdout=subprocess.PIPE)
    try:
        assert sitters.stdout.readline() == b"held\n"
        e.may_fail.add("egress-sidecar")
        e.sidecar.kill()
        e.sidecar.wait()
        e.start_sidecar()
        wait_for(lambda: e.log("egress-sidecar").count("policy_adopted") >= 2)
        assert e.ctl("health").returncode == 0
    finally:
        sitters.kill()
        sitters.wait()


def test_a_guest_that_uses_up_descriptors_does_not_part_daemon_and_sidecar(lab, egress, names):
    names.zone = {"many.test": {"A": [f"93.184.216.{i}" for i in range(50, 56)], "AAAA": []}}
    one = "lease ls_one\n" + SOURCE + "allow tcp://many.test:1-9000\n"
    e = egress(leases={"one.policy": one}, limits="ulimit -n 600", daemon="name_servers = 93.184.215.16\nconnections_per_lease = 10000\nconnects_per_s = 100000")
    held = []
    for i in range(180):
        s = e.guest()
        s.send(b"\x05\x01\x00" + request("many.test", 100 + i))
        held.append(s)
    time.sleep(2)
    e.write("leases/one.policy", one + "deny other.test\n")
    time.sleep(1)
    lost = e.log().count("event=sidecar_lost")
    for s in held:
        s.close()
    wait_for(lambda: e.is_ready() and e.health()["snapshot"] >= 2)
    assert lost == 0


def test_a_lease_taken_away_is_gone_although_somebody_writes_beside_it_without_end(lab, egress):
    e = egress(leases={"one.policy": "lease ls_one\n" + SOURCE + "allow tcp://allowed.test:7000\n",
                       "two.policy": "lease ls_two\nguest require source\nguest source 10.200.1.2/32\nmode allowlist\nallow tcp://allowed.test:7000\n"})
    live = e.guest()
    assert live.open("allowed.test", 7000) == OK
    stop = threading.Event()

    def write():
        with open(e.root / "leases" / "busy.log", "w", encoding="ascii") as file:
            while not stop.is_set():
                file.write("x")
                file.flush()
                time.sleep(0.005)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        time.sleep(0.2)
        (e.root / "leases" / "one.policy").unlink()
        assert live.rest() == b"RESET"
        assert e.health()["control"] in ("LIVE", "LAG")
        with e.guest("guest2") as s:
            assert s.open("allowed.test", 7000) == OK
    finally:
        stop.set()
        writer.join()


def test_a_user_that_does_not_exist_is_named(lab, egress):
    e = egress(autostart=False, daemon="user = nosuchuser")
    e.may_fail.add("egressd")
    e.daemon = e._popen("egressd", [BUILD / "egressd", "--config", e.config])
    assert e.daemon.wait(20) == 2
    assert "user_unknown user=nosuchuser" in e.log()


def test_what_one_lease_has_held_back_leaves_room_for_the_others(lab, egress):
    http = "guest require source\nguest source {}/32\nmode allowlist\nallow http://allowed.test:7002\nallow tcp://allowed.test:7000\nlimit connections 1000\n"
    e = egress(leases={"one.policy": "lease ls_one\n" + http.format("10.200.0.2"), "two.policy": "lease ls_two\n" + http.format("10.200.1.2")},
               daemon="workers = 1\nconnects_per_s = 100000\nfirst_flight_ms = 60000")
    # A head that is not at its end yet, almost as long as one may be.
    head = b"GET / HTTP/1.1\r\nHost: allowed.test:7002\r\nX-Long: "
    hoard = []
    for _ in range(300):
        s = e.guest()
        hoard.append(s)
        assert s.open("allowed.test", 7002) == OK
        try:
            s.send(head + b"x" * 32000)
        except (BrokenPipeError, ConnectionResetError):
            pass
    wait_for(lambda: e.records(status_code="resource"))
    assert {r["policy"]["uid"] for r in e.records(status_code="resource")} == {"ls_one"}
    with e.guest("guest2") as s:
        assert s.open("allowed.test", 7002) == OK
        s.send(head + b"x" * 32000 + b"\r\nConnection: close\r\n\r\n")
        s.sock.settimeout(1)
        try:
            assert b"403" not in s.rest()
        except TimeoutError:
            pass
    for s in hoard:
        s.close()
