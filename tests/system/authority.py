"""Control of the tests: `egressctl authority` as a real process, and between it and the sidecar a store that can lie."""
import base64
import functools
import hashlib
import json
import os
import signal
import subprocess
import threading
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from lab import BUILD


@functools.lru_cache
def private_key(path):
    return Ed25519PrivateKey.from_private_bytes(base64.urlsafe_b64decode(path.read_text().strip() + "="))


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Authority:
    """Keys, a policy root and the folder of documents; `run` keeps it current."""

    def __init__(self, folder, cell="c-1", keys=None):
        self.folder, self.cell, self.process = folder, cell, None
        self.keys, self.out = keys or folder / "keys", folder / f"out-{cell}"
        self.root = folder / f"root-{cell}"
        for name in ("leases", "presets"):
            (self.root / name).mkdir(parents=True)
        if keys is None:
            self.ctl("keygen", self.keys)
        self.sign()

    def ctl(self, *words, seconds=60):
        done = subprocess.run([BUILD / "egressctl", "authority", *map(str, words)], capture_output=True, text=True, check=False, timeout=seconds)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sign(self, *words):
        return self.ctl("sign", self.keys, self.out, *words)

    def write(self, name, text):
        path = self.root / "leases" / name
        aside = path.with_name("." + name)
        aside.write_text(text)
        aside.rename(path)

    def run(self):
        with open(self.folder / f"authority-{self.cell}.log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([BUILD / "egressctl", "authority", "run", self.keys, self.root, self.out, "--cell", self.cell],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def once(self, seconds=60):
        self.ctl("run", self.keys, self.root, self.out, "--cell", self.cell, "--once", seconds=seconds)

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=20)
            self.process = None

    def documents(self):
        """Key to envelope, as they stand."""
        found = {}
        for path in sorted(self.out.rglob("*")):
            key = str(path.relative_to(self.out))
            if path.is_file() and not path.name.startswith("."):
                try:
                    found[key] = path.read_bytes()
                except FileNotFoundError:
                    pass
        return found

    def envelope(self, kind, payload, key_id):
        """Sign anything, as who holds the key could."""
        key = private_key(self.keys / f"{key_id}.key")
        signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
        return json.dumps({"typ": kind, "sigs": [{"kid": key_id, "sig": b64(key.sign(signed))}]}).encode() + b"\n" + payload


def payload_of(envelope):
    return envelope.split(b"\n", 1)[1]


def manifest_root(documents):
    """The hash of the leases in these documents, told a second time."""
    told = b""
    for key in sorted(k for k in documents if k.startswith("l/")):
        payload = payload_of(documents[key])
        told += key[2:].encode() + b"\0" + json.loads(payload)["rev"].to_bytes(8, "big") + hashlib.sha256(payload).digest()
    return b64(hashlib.sha256(told).digest())


class Store:
    """Copies the authority's documents for the sidecar to find; `lie` may change them on the way."""

    def __init__(self, authority, folder):
        self.authority, self.folder = authority, folder
        for name in ("l", "r"):
            (folder / name).mkdir(parents=True)
        os.chmod(folder, 0o755)
        self.lie = lambda documents: documents
        self.rounds = 0
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._copy, daemon=True)
        self.thread.start()

    def _copy(self):
        held = {}
        while not self.ending.is_set():
            documents = self.lie(self.authority.documents())
            for key in [k for k in held if k not in documents]:
                (self.folder / key).unlink(missing_ok=True)
                del held[key]
            order = sorted(documents, key=lambda k: (k == "beat", k == "m", k == "keyset", k))
            for key in order:
                if held.get(key) != documents[key]:
                    aside = self.folder / ".fresh"
                    aside.write_bytes(documents[key])
                    aside.rename(self.folder / key)
                    held[key] = documents[key]
            self.rounds += 1
            time.sleep(0.02)

    def tell(self, lie=None, rounds=2):
        """From now on this lie (or the truth), and it has been told."""
        self.lie = lie or (lambda documents: documents)
        until = self.rounds + rounds
        while self.rounds < until:
            time.sleep(0.01)

    def close(self):
        self.ending.set()
        self.thread.join()


class Serving:
    """`egress-sidecar` that serves: what an authority wrote goes into etcd, over HTTPS, or both."""

    def __init__(self, lab, folder, documents, **options):
        self.lab, self.folder, self.process, self.may_fail = lab, folder, None, False
        self.sandbox = "EGRESS_WITHOUT_SANDBOX" not in os.environ
        folder.mkdir()
        self.config = folder / "serve.conf"
        self.configure(folder=documents, **options)

    def configure(self, **options):
        self.config.write_text("[serve]\n" + "".join(f"{key} = {value}\n" for key, value in options.items()))

    def start(self):
        words = [BUILD / "egress-sidecar", "--config", self.config] + ([] if self.sandbox else ["--without-sandbox"])
        env = {"PATH": os.environ["PATH"], "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
        with open(self.folder / "serve.log", "a", encoding="utf-8") as log:
            self.process = self.lab.net.popen("proxy", *words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        return self

    def log(self):
        return (self.folder / "serve.log").read_text(errors="replace")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        status = self.process.wait(timeout=20)
        self.process = None
        text = self.log()
        assert (status == 0 or self.may_fail) and "Sanitizer" not in text and "runtime error:" not in text, text[-6000:]
