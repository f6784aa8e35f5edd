"""A control plane of the tests: keys, signed documents, a beat; and the stores that carry them: etcd, a stream over HTTPS."""
import base64
import hashlib
import http.client
import http.server
import json
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from lab import wait_for

CELL = "c-0161"
RULES = [{"id": "echo", "allow": "tcp://allowed.test:7000"}]


def group(cell):
    return hashlib.sha256(cell.encode()).digest()[0] % 32


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def packed(value):
    return json.dumps(value, separators=(",", ":")).encode()


class Control:
    """Signs what the tests want said and publishes it as one change; beats by itself."""

    def __init__(self, store=None):
        self.keys = {name: Ed25519PrivateKey.generate() for name in ("r1", "r2", "r3", "bt", "mf", "ls")}
        self.store, self.leases, self.revs = store, {}, {}
        self.manifest_seq, self.beat_seq, self.manifest = 0, int(time.time() * 1000), b""
        self.lock, self.running, self.thread = threading.RLock(), False, None

    def public(self, name):
        return url64(self.keys[name].public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def root(self):
        return {"threshold": 2, "keys": {name: self.public(name) for name in ("r1", "r2", "r3")}}

    def envelope(self, kind, payload, *signers):
        typ = f"egress.{kind}/1"
        signed = b"DSSEv1 %d %s %d %s" % (len(typ), typ.encode(), len(payload), payload)
        sigs = [{"kid": name, "sig": url64(self.keys[name].sign(signed))} for name in signers]
        return packed({"typ": typ, "sigs": sigs}) + b"\n" + payload

    def keyset(self, version=1):
        roles = {"beat": ["bt"], "manifest": ["mf"], "lease": ["ls"]}
        return self.envelope("keyset", packed({
            "typ": "egress.keyset/1", "ver": version, "exp_ms": int(time.time() * 1000) + 86400000, "epoch_min": 1, "root": self.root(),
            "roles": roles, "keys": {name: self.public(name) for name in ("bt", "mf", "ls")}}), "r1", "r2")

    def lease_payload(self, name, rev, rules=None, cell=CELL, source="10.200.0.2/32"):
        return packed({
            "typ": "egress.lease/1", "epoch": 1, "cell": cell, "lease": name, "rev": rev, "state": "active", "nbf_ms": 1,
            "exp_ms": int(time.time() * 1000) + 3600000, "guest": {"require": ["source"], "sources": [source]},
            "network": {"mode": "allowlist", "claimed_scope": "declared", "enforcement": "enforce", "rulesets": [], "rules": RULES if rules is None else rules}})

    def change(self, **leases):
        """Publish leases (name=rules, None removes) with their manifest, and a beat that names it."""
        with self.lock:
            puts, dels = {}, []
            for name, rules in leases.items():
                if rules is None:
                    del self.leases[name]
                    dels.append("l/" + name)
                    continue
                self.revs[name] = self.revs.get(name, 0) + 1
                payload = self.lease_payload(name, self.revs[name], rules)
                self.leases[name] = (self.revs[name], payload)
                puts["l/" + name] = self.envelope("lease", payload, "ls")
            self.manifest_seq += 1
            root = hashlib.sha256()
            for name, (rev, payload) in sorted(self.leases.items()):
                root.update(name.encode() + b"\0" + struct.pack(">Q", rev) + hashlib.sha256(payload).digest())
            self.manifest = packed({"typ": "egress.manifest/1", "epoch": 1, "cell": CELL, "seq": self.manifest_seq,
                                    "iat_ms": int(time.time() * 1000), "leases": len(self.leases), "root": url64(root.digest())})
            puts["m"] = self.envelope("manifest", self.manifest, "mf")
            self.store.change(puts, dels)
            self.beat()

    def all(self):
        """Every document of now but the beat, by key."""
        documents = {"l/" + name: self.envelope("lease", payload, "ls") for name, (_, payload) in self.leases.items()}
        return {"keyset": self.keyset(), "m": self.envelope("manifest", self.manifest, "mf"), **documents}

    def beat(self):
        with self.lock:
            self.beat_seq += 1
            self.store.change({"beat": self.envelope("beat", self.beat_payload(self.beat_seq, int(time.time() * 1000)), "bt")}, [])

    def beat_payload(self, seq, iat):
        return packed({"typ": "egress.beat/1", "epoch": 1, "group": group(CELL), "seq": seq, "iat_ms": iat, "exp_ms": iat + 30000, "keyset": 1,
                       "cells": {CELL: [self.manifest_seq, url64(hashlib.sha256(self.manifest).digest())]}})

    def start(self, **leases):
        self.store.change({"keyset": self.keyset()}, [])
        self.change(**leases)
        self.running = True
        self.thread = threading.Thread(target=self._beats, daemon=True)
        self.thread.start()

    def _beats(self):
        while self.running:
            try:
                self.beat()
            except (OSError, http.client.HTTPException, StoreFault):
                pass  # the store is down: that is what the test is about
            time.sleep(0.5)

    def stop(self):
        self.running = False
        if self.thread is not None:
            self.thread.join()
            self.thread = None


class StoreFault(Exception):
    """The store said no."""


class Etcd:
    """One or three real members in the proxy's namespace; everything through the gateway. `tls`: a folder with server, client and ca.pem."""

    ALONE = 4711  # group of member 0, so that its packets can be told from the others'

    def __init__(self, lab, folder, members=1, arguments=(), tls=None):
        self.lab, self.folder, self.arguments, self.tls = lab, folder, list(arguments), tls
        self.scheme = "https" if tls else "http"
        if tls:
            self.arguments += ["--cert-file", tls / "server.pem", "--key-file", tls / "server.key", "--client-cert-auth", "--trusted-ca-file", tls / "ca.pem"]
            self.context = ssl.create_default_context(cafile=tls / "ca.pem")
            self.context.load_cert_chain(tls / "client.pem", tls / "client.key")
        self.client = [42379 + 10 * i for i in range(members)]
        self.peer = [42380 + 10 * i for i in range(members)]
        self.processes = [None] * members
        self.user = self.token = None
        self.first = 0  # member that is written to, if it lives
        folder.mkdir()

    def members(self, host="127.0.0.1"):
        return ",".join(f"{host}:{port}" for port in self.client)

    def start(self, *which):
        cluster = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(self.peer))
        for i in which or range(len(self.client)):
            own, peer = f"{self.scheme}://127.0.0.1:{self.client[i]}", f"http://127.0.0.1:{self.peer[i]}"
            log = open(self.folder / f"m{i}.log", "a", encoding="utf-8")
            self.processes[i] = self.lab.net.popen(
                "proxy", *self._as_whom(i), "etcd", "--name", f"m{i}", "--data-dir", self.folder / f"m{i}", "--listen-client-urls", own, "--advertise-client-urls", own,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster, "--log-level", "error",
                "--heartbeat-interval", "100", "--election-timeout", "1000", *self.arguments, stdout=log, stderr=subprocess.STDOUT)
        wait_for(self.is_healthy, 30)

    def is_healthy(self):
        try:
            return self.post("/v3/kv/range", {"key": self._64(b"x")}) is not None
        except (OSError, http.client.HTTPException):
            return False
        except StoreFault as fault:
            return "user name is empty" in str(fault)

    def kill(self, *which):
        for i in which or range(len(self.client)):
            if self.processes[i] is not None:
                self.processes[i].kill()
                self.processes[i].wait()
                self.processes[i] = None

    def _as_whom(self, i):
        """Member 0 of several has a group of its own."""
        return [] if len(self.client) == 1 or i > 0 else ["setpriv", f"--regid={self.ALONE}", "--clear-groups"]

    def part(self):
        """Cut member 0 off from the others; its clients still reach it. Writes go to the others from now on."""
        ports = ", ".join(map(str, self.peer))
        rules = ["add table ip parted", "add chain ip parted out { type filter hook output priority 0; }",
                 f"add rule ip parted out meta skgid {self.ALONE} tcp dport {{ {ports} }} drop",
                 f"add rule ip parted out meta skgid {self.ALONE} tcp sport {{ {ports} }} drop",
                 f"add rule ip parted out tcp dport {self.peer[0]} drop"]
        self.lab.net.run("proxy", "nft", "-f", "-", input="\n".join(rules) + "\n")
        self.first = 1

    def join(self):
        self.lab.net.run("proxy", "nft", "delete table ip parted")
        self.first = 0

    def lead(self, member):
        """Make this member the leader."""
        status = [json.loads(self.ctl("endpoint", "status", "-w", "json", member=i).stdout)[0]["Status"] for i in range(len(self.client))]
        ids = [one["header"]["member_id"] for one in status]
        leader = ids.index(status[0]["leader"])
        if leader != member:
            self.ctl("move-leader", f"{ids[member]:x}", member=leader)
        self.first = member

    def ctl(self, *words, endpoint=True, member=0):
        at = ["--endpoints", f"{self.scheme}://127.0.0.1:{self.client[member]}"] if endpoint else []
        return self.lab.net.run("proxy", "env", "ETCDCTL_API=3", "etcdctl", *at, *words)

    def save(self, name):
        """A backup, as operators make it."""
        self.ctl("snapshot", "save", self.folder / name)

    def restore(self, name):
        """Of a dead single member."""
        shutil.rmtree(self.folder / "m0")
        peer = f"http://127.0.0.1:{self.peer[0]}"
        self.ctl("snapshot", "restore", self.folder / name, "--name", "m0", "--data-dir", self.folder / "m0", "--initial-cluster", f"m0={peer}",
                 "--initial-advertise-peer-urls", peer, endpoint=False)

    @staticmethod
    def _64(data):
        return base64.b64encode(data).decode()

    def post(self, path, body):
        alive = [i for i, process in enumerate(self.processes) if process is not None and i >= self.first]
        connection = http.client.HTTPConnection("127.0.0.1", self.client[alive[0]] if alive else 1, timeout=5)
        with self.lab.net.inside("proxy"):
            connection.sock = socket.create_connection(("127.0.0.1", connection.port), 5)
        if self.tls:
            connection.sock = self.context.wrap_socket(connection.sock, server_hostname="127.0.0.1")
        headers = {"Authorization": self.token} if self.token else {}
        try:
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status == 401 and self.user and path != "/v3/auth/authenticate":
            self.login()
            return self.post(path, body)
        if answer.status != 200:
            raise StoreFault(text.decode())
        return json.loads(text)

    def login(self):
        self.token = None
        self.token = self.post("/v3/auth/authenticate", {"name": self.user[0], "password": self.user[1]})["token"]

    @staticmethod
    def key(short, cell=CELL):
        path = {"keyset": "keyset", "beat": f"beat/{group(cell)}"}.get(short, f"c/{cell}/{short}")
        return ("/egress/v1/" + path).encode()

    def transaction(self, puts, dels, cell=CELL):
        operations = [{"requestPut": {"key": self._64(self.key(k, cell)), "value": self._64(v)}} for k, v in puts.items()]
        return {"success": operations + [{"requestDeleteRange": {"key": self._64(self.key(k, cell))}} for k in dels]}

    def change(self, puts, dels):
        return self.post("/v3/kv/txn", self.transaction(puts, dels))

    def revision(self):
        return int(self.post("/v3/kv/range", {"key": self._64(b"x")})["header"]["revision"])

    def compact(self):
        self.post("/v3/kv/compaction", {"revision": str(self.revision()), "physical": True})


class Stream:
    """The store of an HTTPS control plane: all frames since a cursor, for ever, to whom its certificate vouches for."""

    def __init__(self, lab, port, certificate=None, authority=None):
        self.documents, self.beat, self.history, self.generation = {}, b"", [], 0
        self.condition, self.requests, self.reports, self.port = threading.Condition(), [], [], port
        self.gone_below, self.mode, self.extra = 0, "stream", []
        store = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                try:
                    body = self.rfile.read(int(self.headers["Content-Length"]))
                    with store.condition:
                        store.reports.append((self.path, json.loads(body)))
                    self.send_response(204)
                    self.end_headers()
                except (OSError, ssl.SSLError):
                    pass

            def do_GET(self):
                try:
                    store.serve(self)
                except (OSError, ssl.SSLError):
                    pass
                self.close_connection = True

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            address_family = socket.AF_INET

            def handle_error(self, *_):
                pass
        with lab.net.inside("proxy"):
            self.server = Server(("127.0.0.1", port), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            context.load_verify_locations(authority)
            context.verify_mode = ssl.CERT_REQUIRED
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.hang_up()
        self.server.shutdown()
        self.server.server_close()

    def hang_up(self):
        """End every stream that runs."""
        with self.condition:
            self.generation += 1
            self.condition.notify_all()

    def change(self, puts, dels):
        with self.condition:
            at = f"e1.{len(self.history) + 1}"
            lines = []
            for key, envelope in puts.items():
                coded = base64.b64encode(envelope).decode()
                if key == "beat":
                    self.beat = envelope
                    lines.append({"f": "mark", "env": coded, "cursor": at})
                else:
                    self.documents[key] = envelope
                    lines.append({"f": "put", "k": key, "env": coded, "cursor": at})
            for key in dels:
                del self.documents[key]
                lines.append({"f": "del", "k": key, "cursor": at})
            self.history.append(lines)
            self.condition.notify_all()

    def snapshot(self):
        lines = [{"f": "snap_begin"}]
        lines += [{"f": "put", "k": key, "env": base64.b64encode(value).decode()} for key, value in self.documents.items()]
        lines += [{"f": "mark", "env": base64.b64encode(self.beat).decode()}]
        return lines + [{"f": "snap_end", "cursor": f"e1.{len(self.history)}"}]

    def serve(self, handler):
        cursor = handler.path.partition("?cursor=e1.")[2]
        polls = "Prefer" in handler.headers
        with self.condition:
            self.requests.append((handler.path, handler.headers.get("Prefer")))
            gone = cursor and int(cursor) < self.gone_below
            mode = self.mode
            self.generation += 1  # of several streams only the last one goes on
            generation = self.generation
        if gone or (mode == "poll" and not polls) or mode == "error":
            handler.send_response(410 if gone else 406 if mode == "poll" else 500)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        handler.send_response(200)
        handler.send_header("Content-Type", "application/x-ndjson")
        handler.send_header("Connection", "close")
        handler.end_headers()
        at = self.write(handler, int(cursor) if cursor else None)
        while not polls:
            with self.condition:
                self.condition.wait_for(lambda: len(self.history) > at or self.extra or self.generation != generation, 30)
                if self.generation != generation:
                    return
                extra, self.extra = self.extra, []
            for line in extra:
                handler.wfile.write(line)
            at = self.write(handler, at)
        if polls:
            with self.condition:
                self.condition.wait_for(lambda: len(self.history) > at, 1)
            self.write(handler, at)

    def write(self, handler, at):
        with self.condition:
            lines = self.snapshot() if at is None else [line for change in self.history[at:] for line in change]
            now = len(self.history)
        handler.wfile.write(b"".join(packed(line) + b"\n" for line in lines))
        handler.wfile.flush()
        return now
