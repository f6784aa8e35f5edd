"""The running programs behind their doors: who they are, what they hold, and that a door left open is said aloud."""
import contextlib
import os
import signal
from pathlib import Path

import pytest
from lab import BUILD, wait_for
from socks import NOT_ALLOWED, OK

LEASE = "lease ls_one\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\nallow tcp://allowed.test:7000\nallow https://allowed.test country=DE\n"
NOBODY = "65534"


@pytest.fixture(scope="module")
def e(module_egress):
    one = module_egress(leases={"one.policy": LEASE}, daemon="workers = 3\n")
    with one.guest() as s:
        assert s.open("allowed.test", 7000) == OK
    return one


def pid_of(e, program):
    return (e.daemon if program == "egressd" else e.sidecar).pid


def threads(pid):
    return [dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line) for task in Path(f"/proc/{pid}/task").iterdir()]


@pytest.mark.parametrize("program, count", [("egressd", 4), ("egress-sidecar", 1)])
def test_every_thread_is_nobody_special_and_filtered(e, program, count):
    seen = threads(pid_of(e, program))
    assert len(seen) >= count
    for status in seen:
        assert status["Uid"].split() == [NOBODY] * 4 and status["Gid"].split() == [NOBODY] * 4 and status["Groups"].split() == []
        assert {int(status[cap], 16) for cap in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"


@pytest.mark.parametrize("program", ["egressd", "egress-sidecar"])
def test_nothing_is_left_of_the_environment(e, program):
    assert Path(f"/proc/{pid_of(e, program)}/environ").read_bytes().strip(b"\0") == b""


def links(e, program):
    """What it holds; what it closes while we look is not among it."""
    found = set()
    for entry in Path(f"/proc/{pid_of(e, program)}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(entry))
    return found


def test_the_daemon_holds_no_file_but_its_log_its_records_and_received_memory(e):
    files = {link for link in links(e, "egressd") if link.startswith("/") and not link.startswith("/memfd:")}
    assert files <= {"/dev/null", str(e.folder / "egressd.log"), str(e.records_file)}


def test_the_sidecar_holds_no_guest_socket(e, lab):
    inodes = {link[8:-1] for link in links(e, "egress-sidecar") if link.startswith("socket:")}
    tcp = {line.split()[9] for table in ("tcp", "tcp6") for line in lab.net.run("proxy", "cat", f"/proc/net/{table}").stdout.splitlines()[1:]}
    assert inodes and not inodes & tcp


@pytest.mark.parametrize("program", ["egressd", "egress-sidecar"])
def test_no_memory_is_writable_and_executable(e, program):
    assert not [line for line in Path(f"/proc/{pid_of(e, program)}/maps").read_text().splitlines() if "wx" in line.split()[1]]


@pytest.mark.parametrize("program", ["egressd", "egress-sidecar"])
def test_the_log_says_which_mechanisms_hold(e, program):
    line, = [line for line in e.log(program).splitlines() if "event=sandbox " in line]
    assert f"uid={NOBODY}" in line and "seccomp=on" in line and ("landlock=0" in line) == ("event=sandbox_absent" in e.log(program))


def test_the_daemon_links_no_parser_of_policy_and_no_http(lab):
    needed = lab.net.run("proxy", "ldd", BUILD / "egressd").stdout
    for library in ("jansson", "curl", "psl", "idn2"):
        assert f"lib{library}" not in needed


def test_the_sidecar_opens_no_file_outside_of_its_options(egress):
    e = egress(leases={"one.policy": LEASE})
    e.configure("geo_country = /usr/bin/env\n")  # anybody may read that, but no option named it when the door shut
    e.sidecar.send_signal(signal.SIGHUP)
    wait_for(lambda: any("file_not_opened" in line and "errno=13" in line for line in e.log("egress-sidecar").splitlines()))
    with e.decides("geo_unavailable"), e.guest() as s:
        assert s.open("allowed.test", 443) == NOT_ALLOWED


def test_a_daemon_without_its_sandbox_says_so_and_leaks_nothing(egress):
    e = egress(leases={"one.policy": LEASE}, sandbox=False)
    assert "state=off" in e.log()
    for host, reply in (("allowed.test", OK), ("evil.test", NOT_ALLOWED)):
        with e.guest() as s:
            assert s.open(host, 7000) == reply
            if reply == OK:
                s.send(b"x" * 100000)
                assert len(s.take(100000)) == 100000
    e.publish("leases/one.policy", LEASE + "allow tcp://plain.test:7000\n")
    e.stop()  # the leak check runs at its end; a report fails the test
    assert e.daemon.returncode == 0
