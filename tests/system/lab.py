"""A laboratory: namespaces, a real name server (knot), origins, and egressd with its sidecar as real processes."""
import json
import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from netns import Net, run
from socks import Socks

HERE = Path(__file__).parent
BUILD = Path(os.environ.get("EGRESS_BUILDDIR", HERE.parent.parent / "build-tests"))

ZONE = """
$TTL 60
@ SOA ns hostmaster 1 3600 600 86400 30
@ NS ns
ns A 93.184.215.14
allowed A 93.184.215.14
allowed AAAA 2606:2800:21f:cb07::14
plain A 93.184.215.14
only4 A 93.184.215.15
only6 AAAA 2606:2800:21f:cb07::14
*.wild A 93.184.215.14
blocked.wild A 93.184.215.14
private A 10.1.1.1
mixed A 93.184.215.14
mixed A 10.0.0.1
private6 A 93.184.215.14
private6 AAAA fd00:1::1
mapped AAAA ::ffff:127.0.0.1
metadata A 169.254.169.254
azure A 168.63.129.16
loopback A 127.0.0.1
cgnat A 100.64.1.1
own A 93.184.215.1
guestnet A 10.200.0.2
alias CNAME allowed
inward CNAME private
loop1 CNAME loop2
loop2 CNAME loop1
nodata TXT "no address here"
black A 93.184.216.50
script A 93.184.215.17
*.script A 93.184.215.17
two A 93.184.215.99
two A 93.184.215.14
nat64 AAAA 64:ff9b::5db8:d70e
nat64a AAAA 64:ff9b::5db8:d70e
nat64a A 93.184.215.14
"""


def wait_for(what, seconds=20, every=0.02):
    """Wait until `what()` is true; returns it. A bound, not a measurement."""
    until = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"did not happen within {seconds} s: {getattr(what, '__name__', what)}")
        time.sleep(every)


class Lab:
    """What all tests of a session share: the network, the name server and the origins."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.net = Net(f"eg{os.getpid()}")
        self.processes = []

    def up(self):
        self.net.up()
        self._make_certificates()
        self._start_knot()
        self._start_origin()

    def _make_certificates(self):
        """An authority and one certificate for all names of the zone."""
        f = self.folder
        hosts = {line.split()[0] for line in ZONE.splitlines() if line and line[0] not in "$@"}
        names = ",".join(f"DNS:{host}.test" for host in sorted(hosts))
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests", "-keyout", f / "ca.key", "-out", f / "ca.pem")
        run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=origin", "-keyout", f / "origin.key", "-out", f / "origin.csr")
        (f / "ext").write_text(f"subjectAltName={names}\n")
        run("openssl", "x509", "-req", "-in", f / "origin.csr", "-CA", f / "ca.pem", "-CAkey", f / "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", f / "ext", "-out", f / "origin.pem")

    def _start_knot(self):
        f = self.folder / "knot"
        f.mkdir()
        (f / "test.zone").write_text("$ORIGIN test.\n" + ZONE)
        (f / "knot.conf").write_text(
            f"server:\n  rundir: {f}\n  listen: 93.184.215.14@53\n  user: root\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n"
            f"log:\n  - target: stderr\n    any: warning\ndatabase:\n  storage: {f}\n"
            f"zone:\n  - domain: test\n    storage: {f}\n    file: test.zone\n    journal-content: none\n    zonefile-sync: -1\n")
        self._start("origin", "knotd", "-c", f / "knot.conf")
        wait_for(self._knot_answers)

    def _knot_answers(self):
        return "93.184.215.14" in self.net.run("proxy", "dig", "+short", "+time=1", "+tries=1", "@93.184.215.14", "allowed.test", check=False).stdout

    def _start_origin(self):
        ready = self.folder / "origin.ready"
        self.origin_log = self.folder / "origin.log"
        self._start("origin", "/usr/bin/python3", HERE / "origin.py", self.folder / "origin.pem", self.folder / "origin.key", ready, log=self.origin_log)
        wait_for(ready.exists)

    def _start(self, where, *words, log=None):
        out = open(log or self.folder / f"{Path(str(words[0])).name}.log", "w", encoding="utf-8")
        self.processes.append(self.net.popen(where, *words, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL))
        return self.processes[-1]

    def origin_lines(self):
        return self.origin_log.read_text().splitlines()

    def down(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.net.down()


LEASE = """lease {id}
guest require {require}
{guest}
mode allowlist
{rules}
"""

CEILING = "allow any\n"


class Egress:
    """
    egressd and its sidecar on a policy root of one test. Behind their sandbox no leak can be looked for: with EGRESS_WITHOUT_SANDBOX set
    all tests run without it (those of the sandbox itself fail then).
    """

    def __init__(self, lab, folder, leases=None, ceiling=CEILING, presets=None, daemon="", listeners=None, sandbox=True, sidecar="", limits="", port=1080,
                 source=None):
        self.lab, self.folder, self.limits = lab, Path(folder), limits
        self.sandbox = sandbox and "EGRESS_WITHOUT_SANDBOX" not in os.environ
        self.root = self.folder / "policy"
        for name in ("leases", "presets"):
            (self.root / name).mkdir(parents=True)
        self.control = self.folder / "control.sock"
        self.records_file = self.folder / "records.ndjson"
        self.state = self.folder / "state"
        self.state.mkdir()
        if self.sandbox:
            os.chown(self.folder, 65534, 65534)  # the sidecar makes its sockets there
        self.daemon = self.sidecar = None
        self.program = BUILD / "egressd"
        self.may_fail = set()  # names of programs that the test kills, or that must not start
        self.write("ceiling.policy", ceiling)
        for name, text in (presets or {}).items():
            self.write(f"presets/{name}.policy", text)
        for name, text in (leases or {}).items():
            self.write(f"leases/{name}", text)
        self.main, self.second, self.six = ("10.200.0.1", port), ("10.200.1.1", port), ("fd77::1", port)
        self.listeners = listeners or {"main": f"tcp:10.200.0.1:{port}", "second": f"tcp:10.200.1.1:{port}", "six": f"tcp:[fd77:0::1]:{port}"}
        self.sidecar_options = sidecar
        self.source = f"source = {source}\ntrust = signed" if source else f"source = file:{self.root}\ntrust = local"
        self.config = self.folder / "egressd.conf"
        self.configure(daemon)

    def configure(self, daemon=""):
        """Write the configuration: `daemon` lines replace defaults of the same key, one without a value leaves it out; FOLDER in a binding is the test's folder."""
        options = {
            "control": self.control, "name_servers": "93.184.215.14", "records": self.records_file, "guest_networks": "10.200.0.0/16, fd77::/16",
            "admin": f"unix:{self.folder}/admin.sock", "workers": "2",
        }
        for line in daemon.splitlines():
            if line.strip():
                key, value = line.split("=", 1)
                options[key.strip()] = value.strip()
        self.config.write_text(
            "[daemon]\n" + "".join(f"{key} = {value}\n" for key, value in options.items() if value)
            + "".join(f"[listener {name}]\nbind = {bind.replace('FOLDER', str(self.folder))}\n" for name, bind in self.listeners.items())
            + f"[sidecar]\n{self.source}\nstate = {self.state}\n{self.sidecar_options}\n")

    def write(self, name, text):
        """Publish as the manual says: write aside, then rename."""
        path = self.root / name
        aside = path.with_name("." + path.name + ".new")
        aside.write_text(text)
        aside.rename(path)

    def start(self, wait=True):
        self.start_daemon()
        self.start_sidecar()
        if wait:
            wait_for(self.is_ready)
        return self

    def _env(self):
        return {"PATH": os.environ["PATH"], "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=1", "UBSAN_OPTIONS": "print_stacktrace=1"}

    def start_daemon(self):
        words = [self.program, "--config", self.config] + ([] if self.sandbox else ["--without-sandbox"])
        if self.limits:
            words = ["sh", "-c", f"{self.limits}; exec \"$@\"", "sh", *words]
        self.daemon = self._popen("egressd", words)
        wait_for(self.control.exists)

    def start_sidecar(self):
        self.sidecar = self._popen("egress-sidecar", [BUILD / "egress-sidecar", "--config", self.config] + ([] if self.sandbox else ["--without-sandbox"]))

    def _popen(self, name, words):
        out = open(self.folder / f"{name}.log", "a", encoding="utf-8")
        return self.lab.net.popen("proxy", *words, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=self._env())

    def log(self, name="egressd"):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def ctl(self, *words, check=False, socket_option=True):
        words = [BUILD / "egressctl", *words] + (["--socket", self.control] if socket_option else [])
        return run(*words, check=check, env=self._env())

    def is_ready(self):
        if self.daemon.poll() is not None:
            raise AssertionError("egressd ended: " + self.log())
        if self.sidecar is not None and self.sidecar.poll() is not None:
            raise AssertionError("egress-sidecar ended: " + self.log("egress-sidecar"))
        return self.ctl("health").returncode == 0

    def records(self, **match):
        """Decision records so far, those with the given status_code, lease … only."""
        if not self.records_file.exists():
            return []
        whole = self.records_file.read_text().rpartition("\n")[0]
        lines = [json.loads(line) for line in whole.splitlines()]
        return [r for r in lines if all(_find(r, key) == value for key, value in match.items())]

    def wait_record(self, **match):
        def there():
            return self.records(**match)
        there.__name__ = f"a record with {match}; have {[(r.get('activity_id'), r.get('status_code')) for r in self.records()]}"
        return wait_for(there)[-1]

    def guest(self, name="guest", to=None, **options):
        """A client in a guest's namespace, connected to its listener."""
        return Socks(self.lab, name, to or (self.second if name == "guest2" else self.main), **options)

    def record_of(self, client, **match):
        """The last record of the connection of this Socks client. Its port may have been another's before or after: time and decision tell them apart."""
        def there():
            own = [r for r in self.records() if r["time"] >= client.since_ms - 50
                   and (r["src_endpoint"].get("ip"), r["src_endpoint"].get("port")) == (client.address, client.port)]
            first = own[0]["metadata"]["correlation_uid"] if own else None
            return [r for r in own if r["metadata"]["correlation_uid"] == first and all(_find(r, key) == value for key, value in match.items())]
        there.__name__ = f"a record of the connection from port {client.port} with {match}"
        return wait_for(there)[-1]

    def decisions(self):
        """Decisions so far, by reason."""
        text = self.admin("/metrics")[1]
        rows = [line for line in text.splitlines() if line.startswith("egress_decisions_total{")]
        return {row.split('"')[1]: int(row.rsplit(" ", 1)[1]) for row in rows}

    @contextmanager
    def decides(self, *reasons):
        """What happens inside makes exactly these decisions, in any order."""
        before = self.decisions()

        def made():
            now = self.decisions()
            return sorted(r for r, count in now.items() for _ in range(count - before.get(r, 0)))
        yield
        try:
            wait_for(lambda: len(made()) >= len(reasons))
        except AssertionError:
            pass
        assert made() == sorted(reasons)

    def sessions(self, lease=None):
        """What `egressctl sessions` says, line by line."""
        done = self.ctl("sessions", *([lease] if lease else []), "--json")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def wait_idle(self, seconds=20):
        wait_for(lambda: not self.sessions(), seconds)

    def wait_state(self, state, count=1, seconds=20):
        """Wait until `count` sessions are in `state`."""
        wait_for(lambda: sum(s["state"] == state for s in self.sessions()) == count, seconds)

    def health(self):
        return json.loads(self.ctl("health", "--json").stdout)

    def publish(self, name, text):
        """Write a file of the policy root and wait until every worker judges by it."""
        before = self.health()["snapshot"]
        self.write(name, text)
        wait_for(lambda: self.health()["snapshot"] > before and self.is_ready())

    def remove(self, name):
        before = self.health()["snapshot"]
        (self.root / name).unlink()
        wait_for(lambda: self.health()["snapshot"] > before and self.is_ready())

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon.pid}/fd"))

    def memory_kb(self):
        for line in Path(f"/proc/{self.daemon.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return 0

    def metric(self, name):
        text = self.admin("/metrics")[1]
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name) and line[len(name)] in " {")

    def admin(self, path):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(str(self.folder / "admin.sock"))
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: admin\r\n\r\n".encode())
            data = b""
            while more := s.recv(65536):
                data += more
        head, body = data.decode().split("\r\n\r\n", 1)
        return int(head.split(" ")[1]), body

    def stop(self):
        """Stop both; fails on a sanitizer report or a bad exit."""
        for process in (self.sidecar, self.daemon):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        faults = []
        for name, process in (("egress-sidecar", self.sidecar), ("egressd", self.daemon)):
            if process is None:
                continue
            try:
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:  # a failed test left its clients open: the second signal ends a drain
                    process.terminate()
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                faults.append(f"{name} did not end on SIGTERM")
            if process.returncode != 0 and name not in self.may_fail:
                faults.append(f"{name} ended with {process.returncode}:\n{self.log(name)[-3000:]}")
            text = self.log(name)
            if "Sanitizer" in text or "runtime error:" in text:
                faults.append(text[-6000:])
        assert not faults, "\n".join(faults)


def _find(record, key):
    short = {"lease": ("policy", "uid"), "host": ("dst_endpoint", "hostname"), "rule": ("firewall_rule", "uid")}
    for step in short.get(key, (key,)):
        record = record.get(step) if isinstance(record, dict) else None
    return record
