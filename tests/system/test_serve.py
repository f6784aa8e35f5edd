"""The sidecar that serves: what the real authority writes, in real etcd and over HTTPS, through crashes, quarrels and rude clients."""
import base64
import gzip
import hashlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest
from authority import Authority, Serving, manifest_root, payload_of
from control import Etcd
from lab import BUILD, wait_for
from netns import run
from socks import NOT_ALLOWED, OK
from test_https import tls  # noqa: F401 (a fixture)

LEASE = "lease {name}\nguest require source\nguest source {source}\nmode allowlist\nallow tcp://{host}:7000 as echo\n"
CELL = "c-1"
PORT = 42463


class Fleet:
    """An authority, a store or a server of its documents, and a proxy that believes its root."""

    def __init__(self, egress, lab):
        self.egress, self.lab = egress, lab
        self.folder = egress.folder / "fleet"
        self.folder.mkdir()
        self.authority = Authority(self.folder, CELL)
        self.lease()
        self.servings, self.etcd, self.e = [], None, None

    def lease(self, name="ls_one", host="allowed.test", source="10.200.0.2/32"):
        self.authority.write(f"{name}.policy", LEASE.format(name=name, host=host, source=source))

    def leases(self, count, host="allowed.test"):
        for i in range(count):
            self.lease(f"ls_{i}", host, f"10.201.{i // 250}.{i % 250 + 1}/32")

    def store(self, **options):
        self.etcd = Etcd(self.lab, self.folder / "etcd", **options)
        self.etcd.start()

    def serve(self, name="serve", documents=None, start=True, **options):
        one = Serving(self.lab, self.folder / name, documents or self.authority.out, **options)
        self.servings.append(one)
        return one.start() if start else one

    def publish(self, **options):
        return self.serve(etcd=f"etcd://{self.etcd.members()}", **options)

    def https(self, tls, wait=CELL, **options):  # noqa: F811
        """Serve to proxies that the authority of `tls` vouches for."""
        self.tls = self.folder / "tls"
        if not self.tls.exists():
            self.tls.mkdir()
            for path in tls.iterdir():
                (self.tls / path.name).write_bytes(path.read_bytes())
        options = {"certificate": self.tls / "server.pem", "key": self.tls / "server.key", "client_ca": self.tls / "ca.pem", **options}
        one = self.serve(https=f"tcp:127.0.0.1:{PORT}", **options)
        wait_for(lambda: self.is_served(cell=wait), 20)
        return one

    def is_served(self, who="client", cell=CELL):
        try:
            return self.reader(who).get(f"/v1/cells/{cell}/stream", prefer="wait=0").startswith(b"HTTP/1.1 200")
        except OSError:
            return False

    def reader(self, who="client", timeout=10):
        return Reader(self, who, timeout)

    def https_proxy(self, options=""):
        return self.proxy(f"https://127.0.0.1:{PORT}", f"tls_ca = {self.tls}/ca.pem\ntls_certificate = {self.tls}/client.pem\n"
                                                       f"tls_key = {self.tls}/client.key\nproxy = px-1\n{options}")

    def proxy(self, source, options="", cell=CELL):
        self.e = self.egress(autostart=False, source=source)
        keys = self.e.folder / "keys.json"
        keys.write_bytes((self.authority.keys / "root.json").read_bytes())
        self.e.sidecar_options = f"cell = {cell}\nkeys = {keys}\nceiling = {self.e.root}/ceiling.policy\n{options}"
        self.e.configure("refuse_after_s = 6\ncut_after_s = 30\n")
        return self.e.start()

    def ask(self, host="allowed.test"):
        with self.e.guest() as s:
            return s.request(host, 7000) if s.greet() == b"\x05\x00" else None

    def stored(self):
        """Short key to envelope, as the store has them."""
        def b64(text):
            return base64.b64encode(text.encode()).decode()
        found, after = {}, "/egress/v1/"
        while True:
            page = self.etcd.post("/v3/kv/range", {"key": b64(after), "range_end": b64("/egress/v10"), "limit": "200"})
            for pair in page.get("kvs", []):
                after = base64.b64decode(pair["key"]).decode()
                found[after.removeprefix("/egress/v1/")] = base64.b64decode(pair["value"])
                after += "\0"
            if not page.get("more"):
                return found

    def is_stored(self):
        """Does the store hold what the folder holds, no more and no less?"""
        prefix = f"c/{CELL}/"
        folder = self.authority.documents()
        stored = self.stored()
        cell = {key.removeprefix(prefix): value for key, value in stored.items() if key.startswith(prefix)}
        folder.pop("beat", None)
        return "m" in folder and folder.pop("keyset") == stored.get("keyset") and folder == cell

    def stop(self):
        self.authority.stop()
        for one in self.servings:
            one.stop()
        if self.etcd is not None:
            self.etcd.kill()


class Reader:
    """A client of the server, byte by byte."""

    def __init__(self, fleet, who, timeout):
        context = ssl.create_default_context(cafile=fleet.tls / "ca.pem")
        if who:
            context.load_cert_chain(fleet.tls / f"{who}.pem", fleet.tls / f"{who}.key")
        with fleet.lab.net.inside("proxy"):
            plain = socket.create_connection(("127.0.0.1", PORT), timeout)
        self.data = b""
        self.sock = context.wrap_socket(plain, server_hostname="127.0.0.1")

    def send(self, data):
        self.sock.sendall(data)

    def ask(self, target, prefer=None):
        self.send(f"GET {target} HTTP/1.1\r\nHost: x\r\n{f'Prefer: {prefer}{chr(13)}{chr(10)}' if prefer else ''}\r\n".encode())

    def post(self, target, body, *fields):
        head = "".join(f"{field}\r\n" for field in fields)
        self.send(f"POST {target} HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return self.until(lambda: b"\r\n\r\n" in self.data)

    def until(self, holds):
        while not holds():
            more = self.sock.recv(65536)
            if not more:
                break
            self.data += more
        data, self.data = self.data, b""
        return data

    def rest(self):
        try:
            return self.until(lambda: False)
        except (ConnectionResetError, ssl.SSLError):
            return self.data

    def get(self, target, prefer=None):
        self.ask(target, prefer)
        return self.until(lambda: self.data.endswith(b"0\r\n\r\n") or (b"problem+json" in self.data and self.data.endswith(b"}\n")))

    def frames(self, holds):
        """Read the stream until a frame holds; all frames so far."""
        seen = []

        def look():
            lines = self.data.split(b"\n")
            seen[:] = [json.loads(line) for line in lines[:-1] if line.startswith(b"{")]
            return any(holds(frame) for frame in seen)
        self.until(look)
        return seen

    def close(self):
        self.sock.close()


def frames_of(answer):
    return [json.loads(line) for line in answer.split(b"\n") if line.startswith(b"{")]


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


@pytest.fixture
def fleet(egress, lab):
    one = Fleet(egress, lab)
    yield one
    one.stop()


def told_root(documents):
    return json.loads(payload_of(documents["m"]))["root"]


def test_a_change_in_the_folder_is_in_the_store_and_in_force(fleet):
    fleet.store()
    fleet.authority.run()
    fleet.publish()
    e = fleet.proxy(f"etcd://{fleet.etcd.members()}")
    assert (fleet.ask(), fleet.ask("plain.test")) == (OK, NOT_ALLOWED)
    fleet.lease(host="plain.test")
    wait_for(lambda: (fleet.ask(), fleet.ask("plain.test")) == (NOT_ALLOWED, OK), 10)
    assert fleet.is_stored()
    live = e.guest()
    assert live.open("plain.test", 7000) == OK
    (fleet.authority.root / "leases" / "ls_one.policy").unlink()
    assert live.rest() in (b"", b"RESET")
    wait_for(lambda: fleet.ask("plain.test") is None and fleet.is_stored(), 10)


def test_a_thousand_leases_go_in_pieces_and_no_manifest_stands_before_its_leases(fleet):
    """Every revision of the store is looked at: at each, the leases that are there are those of its manifest, or the change goes on."""
    fleet.leases(450)
    fleet.authority.once()
    fleet.store()
    fleet.publish()
    wait_for(fleet.is_stored, 30)
    fleet.leases(120, "plain.test")
    (fleet.authority.root / "leases" / "ls_449.policy").unlink()
    first = fleet.etcd.revision()
    fleet.authority.once()
    wait_for(fleet.is_stored, 30)
    last = fleet.etcd.revision()

    def at(revision):
        key, end = (base64.b64encode(f"/egress/v1/c/{CELL}{c}".encode()).decode() for c in "/0")
        pairs = fleet.etcd.post("/v3/kv/range", {"key": key, "range_end": end, "revision": str(revision)})["kvs"]
        return {base64.b64decode(p["key"]).decode().removeprefix(f"/egress/v1/c/{CELL}/"): base64.b64decode(p["value"]) for p in pairs}
    before, told, whole = at(first), set(), 0
    for revision in range(first, last + 1):
        documents = at(revision)
        is_old = told_root(documents) == told_root(before)
        whole += not is_old
        assert is_old or manifest_root(documents) == told_root(documents), "a manifest before its leases"
        told.add(told_root(documents))
    assert len(told) == 2 and whole >= 1


def test_killed_in_the_middle_and_started_again_it_writes_the_rest(fleet):
    fleet.leases(700)
    fleet.authority.once()
    fleet.store()
    one = fleet.publish()
    wait_for(lambda: len(fleet.stored()) > 100, 20)
    one.kill()
    there = fleet.stored()
    assert f"c/{CELL}/m" not in there
    before = fleet.etcd.revision()
    one.start()
    wait_for(fleet.is_stored, 30)
    # What was there already was not written again.
    assert fleet.etcd.revision() - before <= (700 - len(there)) // 100 + 4
    one.kill()
    (fleet.authority.root / "leases" / "ls_7.policy").unlink()
    fleet.authority.once()
    one.start()
    wait_for(fleet.is_stored, 30)


def test_a_store_that_is_away_is_caught_up_with_and_no_guest_notices(fleet):
    fleet.store()
    fleet.authority.run()
    one = fleet.publish()
    e = fleet.proxy(f"etcd://{fleet.etcd.members()}")
    live = e.guest()
    assert live.open("allowed.test", 7000) == OK
    fleet.etcd.kill()
    fleet.lease("ls_two", source="10.200.1.2/32")
    wait_for(lambda: "store_not_written" in one.log(), 10)
    fleet.etcd.start()
    wait_for(fleet.is_stored, 20)
    wait_for(lambda: fleet.ask() == OK, 20)
    live.send(b"still")
    assert live.take(5) == b"still"
    live.close()


def test_of_two_publishers_the_newer_manifest_stays(fleet):
    """A second authority with the same keys: whoever signed last is in the store, the other one says so and waits."""
    fleet.store()
    fleet.authority.once()
    other = Authority(fleet.folder / "other", CELL, keys=fleet.authority.keys) if (fleet.folder / "other").mkdir() is None else None
    old, new = fleet.publish(name="old"), None
    wait_for(fleet.is_stored, 20)
    other.write("ls_one.policy", LEASE.format(name="ls_one", host="plain.test", source="10.200.0.2/32"))
    (other.out / "keyset").write_bytes((fleet.authority.out / "keyset").read_bytes())
    other.run()
    new = fleet.publish(name="new", documents=other.out)

    def newest():
        return b"plain.test" in fleet.stored()[f"c/{CELL}/l/ls_one"]
    wait_for(newest, 20)
    fleet.authority.run()
    wait_for(lambda: "store_is_newer" in old.log(), 20)
    for _ in range(10):
        assert newest()
        time.sleep(0.1)
    beat = json.loads(payload_of(fleet.stored()["beat/6"]))
    assert beat["cells"][CELL][0] == json.loads(payload_of(fleet.stored()[f"c/{CELL}/m"]))["seq"]
    # The next change of the first one is the newest of all, and the second one waits.
    fleet.lease(host="allowed.test")
    fleet.lease("ls_two", source="10.200.1.2/32")
    wait_for(fleet.is_stored, 20)
    wait_for(lambda: "store_is_newer" in new.log(), 20)
    other.stop()


def test_two_publishers_of_one_folder_do_not_quarrel(fleet):
    fleet.store()
    fleet.authority.run()
    both = [fleet.publish(name=name) for name in ("a", "b")]
    wait_for(fleet.is_stored, 20)
    for host in ("plain.test", "allowed.test") * 3:
        fleet.lease(host=host)
        wait_for(lambda: host.encode() in fleet.stored()[f"c/{CELL}/l/ls_one"] and fleet.is_stored(), 10)
    assert not any("store_is_newer" in one.log() for one in both)


def test_what_somebody_else_broke_is_mended_after_a_start(fleet):
    fleet.store()
    fleet.authority.once()
    one = fleet.publish()
    wait_for(fleet.is_stored, 20)
    one.kill()
    fleet.etcd.post("/v3/kv/put", {"key": Etcd._64(f"/egress/v1/c/{CELL}/l/stranger".encode()), "value": Etcd._64(b"x")})
    fleet.etcd.post("/v3/kv/put", {"key": Etcd._64(b"/egress/v1/keyset"), "value": Etcd._64(b"rubbish")})
    fleet.etcd.post("/v3/kv/deleterange", {"key": Etcd._64(f"/egress/v1/c/{CELL}/l/ls_one".encode())})
    assert not fleet.is_stored()
    one.start()
    wait_for(fleet.is_stored, 20)


def test_a_user_and_tokens_that_end(fleet):
    fleet.store(arguments=["--auth-token-ttl", "2"])
    post = fleet.etcd.post
    post("/v3/auth/role/add", {"name": "writes"})
    post("/v3/auth/role/grant", {"name": "writes", "perm": {"permType": "READWRITE", "key": Etcd._64(b"/egress/v1/"), "range_end": Etcd._64(b"/egress/v10")}})
    for user, secret, role in (("root", "everything", "root"), ("authority", "writing", "writes")):
        post("/v3/auth/user/add", {"name": user, "password": secret})
        post("/v3/auth/user/grant", {"user": user, "role": role})
    post("/v3/auth/enable", {})
    fleet.etcd.user = ("root", "everything")
    fleet.etcd.login()
    password = fleet.folder / "password"
    password.write_text("writing\n")
    fleet.authority.run()
    fleet.publish(etcd_user="authority", etcd_password=password)
    wait_for(fleet.is_stored, 20)
    time.sleep(5)
    fleet.lease(host="plain.test")
    wait_for(lambda: fleet.is_stored() and b"plain.test" in fleet.stored()[f"c/{CELL}/l/ls_one"], 20)


def test_over_https_a_change_is_in_force_and_the_proxy_reports_it(fleet, tls):  # noqa: F811
    fleet.authority.run()
    reports = fleet.folder / "reports"
    fleet.https(tls, reports=reports)
    e = fleet.https_proxy(f"decisions = https://127.0.0.1:{PORT}\n")
    assert (fleet.ask(), fleet.ask("plain.test")) == (OK, NOT_ALLOWED)
    fleet.lease(host="plain.test")
    wait_for(lambda: (fleet.ask(), fleet.ask("plain.test")) == (NOT_ALLOWED, OK), 10)

    def refused():
        records = gzip.decompress((reports / "decisions.ndjson.gz").read_bytes()).decode().splitlines()
        told = [record for record in map(json.loads, records) if record.get("status_code") == "no_rule"]
        return bool(told) and told[0]["proxy_endpoint"]["uid"] == "px-1" and told[0]["unmapped"]["scope"] == "declared"
    wait_for(refused, 15)
    live = e.guest()
    assert live.open("plain.test", 7000) == OK
    seq = json.loads((fleet.authority.out / "m").read_bytes().split(b"\n", 1)[1])["seq"]
    last = reports / "status" / "px-1.json"
    wait_for(lambda: last.exists() and json.loads(last.read_bytes()).get("manifest_seq") == seq, 15)
    (fleet.authority.root / "leases" / "ls_one.policy").unlink()
    assert live.rest() in (b"", b"RESET")
    told = [json.loads(line) for line in (reports / "status.ndjson").read_text().splitlines()]
    assert all(line["proxy"] == "px-1" and line["client"] == "client" and line["status"]["cell"] == CELL for line in told)


@pytest.mark.parametrize("who", ["intruder", ""])
def test_who_shows_no_good_certificate_is_told_nothing(fleet, tls, who):  # noqa: F811
    fleet.authority.once()
    one = fleet.https(tls)
    try:
        reader = fleet.reader(who)
        reader.ask(f"/v1/cells/{CELL}/stream")
        assert reader.rest() == b""
    except (ssl.SSLError, ConnectionResetError):
        pass
    wait_for(lambda: 'client_refused why="certificate verify failed"' in one.log() if who else "peer did not return a certificate" in one.log(), 10)


def test_a_certificate_may_name_the_one_cell_that_is_read_with_it(fleet, tls):  # noqa: F811
    fleet.authority.once()
    one = fleet.https(tls)
    for who, subject, names in (("cn", CELL, "IP:127.0.0.1"), ("uri", "px", f"URI:spiffe://example.test/cell/{CELL}"), ("tail", "px", f"URI:spiffe://x/cell/x{CELL}")):
        (fleet.tls / "ext").write_text(f"subjectAltName={names}\n")
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={subject}", "-keyout", fleet.tls / f"{who}.key",
            "-out", fleet.tls / f"{who}.csr")
        run("openssl", "x509", "-req", "-in", fleet.tls / f"{who}.csr", "-CA", fleet.tls / "ca.pem", "-CAkey", fleet.tls / "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", fleet.tls / "ext", "-out", fleet.tls / f"{who}.pem")
    one.stop()
    one.config.write_text(one.config.read_text() + "client_cells = named\n")
    one.start()
    wait_for(lambda: fleet.is_served("cn"), 10)
    answers = {who: status_of(fleet.reader(who).get(f"/v1/cells/{CELL}/stream", "wait=0")) for who in ("cn", "uri", "tail", "client")}
    assert answers == {"cn": 200, "uri": 200, "tail": 403, "client": 403}
    assert f'request_refused status=403 why=other-cell client="client" of={CELL}' in one.log() and "client_refused" not in one.log()
    one.stop()
    (fleet.tls / "server.key").chmod(0o600)
    one.may_fail = True
    one.start()
    wait_for(lambda: "server.key: Permission denied" in one.log(), 10)


def test_a_cursor_goes_on_also_after_a_restart_and_an_unknown_one_is_gone(fleet, tls):  # noqa: F811
    fleet.leases(20)
    fleet.authority.once()
    one = fleet.https(tls)
    path = f"/v1/cells/{CELL}/stream"
    first = frames_of(fleet.reader().get(path, "wait=0"))
    cursor = first[-1]["cursor"]
    assert first[0]["f"] == "snap_begin" and sum(f["f"] == "put" for f in first) == 23
    fleet.lease("ls_3", "plain.test", "10.201.0.4/32")
    (fleet.authority.root / "leases" / "ls_4.policy").unlink()
    fleet.authority.once()
    wait_for(lambda: frames_of(fleet.reader().get(path, "wait=0"))[-1]["cursor"] != cursor, 10)
    changes = frames_of(fleet.reader().get(f"{path}?cursor={cursor}", "wait=0"))
    assert [(f["f"], f.get("k")) for f in changes] == [("put", "l/ls_3"), ("del", "l/ls_4"), ("put", "m"), ("mark", None)]
    assert "cursor" not in changes[0] and changes[2]["cursor"] == changes[3]["cursor"] != cursor
    one.kill()
    one.start()
    wait_for(fleet.is_served, 10)
    assert [f["f"] for f in frames_of(fleet.reader().get(f"{path}?cursor={changes[3]['cursor']}", "wait=0"))] == ["mark"]
    for gone in (cursor, "nonsense"):
        assert status_of(fleet.reader().get(f"{path}?cursor={gone}", "wait=0")) == 410


def test_a_poll_waits_for_the_next_beat_and_no_longer_than_it_was_told(fleet, tls):  # noqa: F811
    fleet.authority.once()
    fleet.https(tls)
    path = f"/v1/cells/{CELL}/stream"
    cursor = frames_of(fleet.reader().get(path, "wait=0"))[-1]["cursor"]
    reader = fleet.reader()
    reader.ask(f"{path}?cursor={cursor}", "wait=30")
    fleet.lease("ls_2", source="10.200.1.2/32")
    fleet.authority.once()
    answer = frames_of(reader.until(lambda: reader.data.endswith(b"0\r\n\r\n")))
    assert [(f["f"], f.get("k")) for f in answer][:2] == [("put", "l/ls_2"), ("put", "m")]
    # The connection is good for the next one.
    again = frames_of(reader.get(f"{path}?cursor={answer[-1]['cursor']}", "wait=1"))
    assert again[-1]["f"] == "mark" and all(f["f"] == "mark" for f in again)


def test_rude_and_slow_clients_are_answered_or_left_and_disturb_nobody(fleet, tls):  # noqa: F811
    fleet.leases(3000)
    fleet.authority.run()
    one = fleet.https(tls, reports=fleet.folder / "reports")
    slow = [fleet.reader(timeout=60) for _ in range(20)]
    for reader in slow:
        reader.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.ask(f"/v1/cells/{CELL}/stream")
    watcher = fleet.reader()
    watcher.ask(f"/v1/cells/{CELL}/stream")
    watcher.frames(lambda f: f["f"] == "mark")
    stream = f"/v1/cells/{CELL}/stream"
    rude = [
        (b"GET /v1/cells/nobody/stream HTTP/1.1\r\nHost: x\r\n\r\n", 404), (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /v1/cells/..%2f..%2fetc/stream HTTP/1.1\r\nHost: x\r\n\r\n", 400), (f"GET {stream}?cursor=a%20b HTTP/1.1\r\nHost: x\r\n\r\n".encode(), 400),
        (f"GET {stream} HTTP/1.0\r\nHost: x\r\n\r\n".encode(), 505), (f"DELETE {stream} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), 405),
        (f"GET {stream} HTTP/1.1\r\n\r\n".encode(), 400), (b"\x00\x01\x02\r\n\r\n", 400),
        (b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431), (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 4000 + b"\r\n", 400),
        (b"POST /v1/decisions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /v1/decisions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST /v1/decisions HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"POST /v1/proxies/a%00b/status HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 400),
    ]
    for request, status in rude:
        reader = fleet.reader()
        reader.send(request)
        assert status_of(reader.until(lambda: b"\r\n\r\n" in reader.data)) == status, request[:60]
        reader.close()
    halves = [fleet.reader() for _ in range(20)]
    for i, reader in enumerate(halves):
        reader.send(f"GET {stream} HTTP/1.1\r\nHost: x\r\n\r\n".encode()[:i * 2])
        if i % 2:
            reader.close()
    with fleet.lab.net.inside("proxy"):
        plain = [socket.create_connection(("127.0.0.1", PORT), 10) for _ in range(20)]
    for i, s in enumerate(plain):
        s.sendall(b"GET / HTTP/1.1\r\n\r\n"[:i])
    fleet.lease(host="plain.test")
    watcher.frames(lambda f: f.get("k") == "l/ls_one")
    # Who speaks while it is spoken to is left.
    watcher.send(b"GET / HTTP/1.1\r\n")
    watcher.rest()
    # Who begins and never ends is left, too: ten seconds, all at once.
    for reader in halves[::2]:
        reader.sock.settimeout(20)
        assert reader.rest() == b""
    for s in plain:
        s.close()
    # Who does not read is dropped, with what the kernel held for it.
    wait_for(lambda: "reader_too_slow" in one.log(), 20)
    for reader in slow:
        assert not reader.rest().endswith(b"0\r\n\r\n")
    assert one.process.poll() is None


def test_no_more_clients_than_are_wanted(fleet, tls):  # noqa: F811
    fleet.authority.once()
    one = fleet.https(tls, clients_max=3)
    here = [fleet.reader() for _ in range(3)]
    with pytest.raises((OSError, ssl.SSLError)):
        fleet.reader().get(f"/v1/cells/{CELL}/stream", "wait=0")
    assert "clients_max are here" in one.log()
    here.pop().close()
    wait_for(fleet.is_served, 10)


def test_two_hundred_readers_hear_of_a_change(fleet, tls):  # noqa: F811
    fleet.authority.run()
    one = fleet.https(tls)
    readers = [fleet.reader(timeout=30) for _ in range(200)]
    for reader in readers:
        reader.ask(f"/v1/cells/{CELL}/stream")
    for reader in readers:
        assert any(f["f"] == "snap_end" for f in reader.frames(lambda f: f["f"] == "mark"))
    fleet.lease(host="plain.test")
    for reader in readers:
        reader.frames(lambda f: f["f"] == "put" and f["k"] == "l/ls_one" and b"plain.test" in base64.b64decode(f["env"]))
    one.stop()
    for reader in readers:
        assert b'"f":"bye"' in reader.rest()


def test_reports_are_kept_once_and_survive_a_kill(fleet, tls):  # noqa: F811
    fleet.authority.once()
    reports = fleet.folder / "reports"
    one = fleet.https(tls, reports=reports, reports_mb=1)

    def batch(key, text, *fields):
        return status_of(fleet.reader().post("/v1/decisions", gzip.compress(text), f"Idempotency-Key: {key}", "Content-Encoding: gzip", *fields))

    def kept():
        return gzip.decompress((reports / "decisions.ndjson.gz").read_bytes()).decode().split()
    assert [batch("k1", b"one\n"), batch("k1", b"other\n"), batch('"k2"', b"two\n", "Expect: 100-continue")] == [204, 204, 100]
    wait_for(lambda: kept() == ["one", "two"], 5)
    one.kill()
    # What a crash would leave: a batch without its key, and half a key.
    with open(reports / "decisions.ndjson.gz", "ab") as f:
        f.write(gzip.compress(b"unconfirmed\n")[:-3])
    with open(reports / "decisions.keys", "ab") as f:
        f.write(b"999 hal")
    one.start()
    wait_for(fleet.is_served, 10)
    assert [batch("k2", b"two\n"), batch("k3", b"three\n")] == [204, 204] and kept() == ["one", "two", "three"]
    reader = fleet.reader()
    assert status_of(reader.post("/v1/decisions", b"plain text, long enough", "Idempotency-Key: k4")) == 415
    assert status_of(fleet.reader().post("/v1/proxies/px-9/status", b"no json", "Content-Type: application/json")) == 400
    assert status_of(fleet.reader().post("/v1/proxies/px-9/status", b'{"state":\n"live"}', "Content-Type: application/json")) == 204
    assert json.loads((reports / "status.ndjson").read_text().splitlines()[-1])["status"] == {"state": "live"}
    full = [batch(f"b{i}", os.urandom(150000)) for i in range(8)]
    assert full[0] == 204 and full[-1] == 507 and sorted(full) == full


def test_keys_and_the_root_change_below_a_live_tunnel(fleet, tls):  # noqa: F811
    """A lease key, then the whole root, are replaced while a tunnel is open, two of three signing; the certificate of the server, too."""
    fleet.authority.run()
    one = fleet.https(tls)
    e = fleet.https_proxy()
    live = e.guest()
    assert live.open("allowed.test", 7000) == OK
    keys = fleet.authority.keys
    fleet.authority.ctl("keygen", keys, "--role", "lease")
    fleet.authority.sign()
    wait_for(lambda: b"lease-2" in (fleet.authority.out / "l" / "ls_one").read_bytes().split(b"\n")[0] or fleet.lease(host="allowed.test"), 20)
    (keys / "lease-1.key").unlink()
    fleet.authority.sign()
    fleet.authority.ctl("keygen", keys, "--role", "root")
    (keys / "root-1.key").unlink()
    (keys / "root-4.key").unlink()
    fleet.authority.sign()
    assert all(f'"kid":"root-{i}"'.encode() in (fleet.authority.out / "keyset").read_bytes() for i in (2, 3, 5, 6))
    version = json.loads(payload_of((fleet.authority.out / "keyset").read_bytes()))["ver"]
    wait_for(lambda: f'"keyset":{version}' in payload_of((fleet.authority.out / "beat").read_bytes()).decode(), 10)
    end_s = json.loads(payload_of((fleet.authority.out / "keyset").read_bytes()))["exp_ms"] // 1000
    wait_for(lambda: e.metric("egress_control_keyset_expiry_timestamp_seconds") == end_s, 10)
    for name in ("server.pem", "server.key"):
        (fleet.tls / f"old-{name}").write_bytes((fleet.tls / name).read_bytes())
    run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=renewed", "-keyout", fleet.tls / "server.key",
        "-out", fleet.tls / "server.csr")
    run("openssl", "x509", "-req", "-in", fleet.tls / "server.csr", "-CA", fleet.tls / "ca.pem", "-CAkey", fleet.tls / "ca.key", "-CAcreateserial", "-days", "2",
        "-extfile", fleet.tls / "ext", "-out", fleet.tls / "server.pem")
    (fleet.tls / "server.key").chmod(0o644)
    one.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "configuration_read" in one.log(), 10)
    assert dict(fleet.reader().sock.getpeercert()["subject"][0])["commonName"] == "renewed"
    fleet.lease("ls_two", source="10.200.1.2/32")
    wait_for(lambda: e.guest("guest2").greet() == b"\x05\x00", 15)
    live.send(b"still")
    assert live.take(5) == b"still" and fleet.ask() == OK
    live.close()
    assert "signature" not in e.log("egress-sidecar")


def test_many_cells_of_one_authority_behind_one_publisher(fleet, tls):  # noqa: F811
    """Two cells of one beat group and one of another, from one process into etcd and over HTTPS; a cell comes while all run."""
    group = {}
    for i in range(200):
        group.setdefault(hashlib.sha256(f"c-{i}".encode()).digest()[0] % 32, []).append(f"c-{i}")
    (first, second, *_), (third, *_) = [cells for cells in group.values() if len(cells) > 1][:2]
    cells = [first, second, third]
    folder = fleet.folder / "many"
    root, out = folder / "root", folder / "out"

    def add(cell, host):
        leases = root / "cells" / cell / "leases"
        leases.mkdir(parents=True)
        aside = leases / ".one"
        aside.write_text(LEASE.format(name="ls_one", host=host, source="10.200.0.2/32"))
        aside.rename(leases / "one.policy")
    add(cells[0], "allowed.test")
    add(cells[2], "plain.test")
    fleet.authority.ctl("sign", fleet.authority.keys, out)
    with open(folder / "authority.log", "a", encoding="utf-8") as log:
        authority = subprocess.Popen([BUILD / "egressctl", "authority", "run", fleet.authority.keys, root, out, "--cells"], stdout=log, stderr=log)
    try:
        fleet.store()
        fleet.authority.out = out
        one = fleet.https(tls, etcd=f"etcd://{fleet.etcd.members()}", wait=cells[0])
        add(cells[1], "plain.test")
        wait_for(lambda: all(f"c/{cell}/m" in fleet.stored() for cell in cells), 15)
        number = hashlib.sha256(first.encode()).digest()[0] % 32
        wait_for(lambda: set(json.loads(payload_of(fleet.stored()[f"beat/{number}"]))["cells"]) == {first, second}, 10)
        for cell in cells:
            frames = frames_of(fleet.reader().get(f"/v1/cells/{cell}/stream", "wait=0"))
            assert any(f.get("k") == "l/ls_one" and cell.encode() in base64.b64decode(f["env"]) for f in frames)
        e = fleet.proxy(f"etcd://{fleet.etcd.members()}", cell=second)
        assert (fleet.ask("plain.test"), fleet.ask()) == (OK, NOT_ALLOWED)
        live = e.guest()
        assert live.open("plain.test", 7000) == OK
        fleet.authority.ctl("sign", fleet.authority.keys, out)
        wait_for(lambda: (out / "cells" / second / "keyset").read_bytes() == (out / "keyset").read_bytes(), 8)  # not the 30 s of a look around
        shutil.rmtree(root / "cells" / second)
        assert live.rest() in (b"", b"RESET")
        assert "cell_without_beats" not in one.log()
    finally:
        authority.terminate()
        authority.wait()
