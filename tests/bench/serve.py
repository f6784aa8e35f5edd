"""An authority and what hands its documents on: tests/bench/serve.py [--build DIR] [--leases N] [--cells N] [--rounds N] [--json]

From a folder of policies to one real etcd member and to a reader over HTTPS. Times are milliseconds from before the rename of one
lease's file to the moment at which the store, or the reader, has its new document; CPU is of all of a process."""
import argparse
import base64
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from pathlib import Path

ETCD, HTTPS = 45379, 45443
LEASE = ("lease ls_{n}\nguest require source\nguest source 10.{a}.{b}.{c}/32\nmode allowlist\nuse p{p}\n"
         "allow https://own{n}.example.org as own\nallow https://{x}.example.org as changed\n")


class Ground:
    """Keys, policies, certificates, and the processes in a folder of their own."""

    def __init__(self, chosen):
        self.chosen, self.folder = chosen, Path(tempfile.mkdtemp(prefix="egress-bench-"))
        self.folder.chmod(0o755)
        self.processes = {}
        self.root, self.out = self.folder / "root", self.folder / "out"
        (self.root / "presets").mkdir(parents=True)
        for p in range(20):
            (self.root / "presets" / f"p{p}.policy").write_text("".join(f"allow https://h{i}.p{p}.example.org\n" for i in range(100)))
        for cell in range(chosen.cells):
            for n in range(chosen.leases // chosen.cells):
                self.write(cell, n, "first")
        self.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=bench",
                 "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.folder / "tls.key", "-out", self.folder / "tls.pem")
        (self.folder / "tls.key").chmod(0o644)
        self.ctl("keygen", self.folder / "keys")
        self.ctl("sign", self.folder / "keys", self.out)

    def write(self, cell, n, x):
        leases = self.root / "cells" / f"c-{cell}" / "leases"
        leases.mkdir(parents=True, exist_ok=True)
        aside, path = leases / ".aside", leases / f"ls_{n}.policy"
        aside.write_text(LEASE.format(n=n, a=n >> 16, b=n >> 8 & 255, c=n & 255, p=n % 20, x=x))
        began = time.monotonic()
        aside.rename(path)
        return began

    def run(self, *words):
        subprocess.run([str(w) for w in words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ctl(self, *words):
        self.run(self.chosen.build / "egressctl", "authority", *words)

    def start(self, name, *words):
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            self.processes[name] = subprocess.Popen([str(w) for w in words], stdout=log, stderr=log)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def cpu_s(self, name):
        fields = Path(f"/proc/{self.processes[name].pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self, name):
        return int(Path(f"/proc/{self.processes[name].pid}/statm").read_text().split()[1]) * 4 / 1024

    def store(self, key, **more):
        connection = http.client.HTTPConnection("127.0.0.1", ETCD, timeout=10)
        connection.request("POST", "/v3/kv/range", json.dumps({"key": base64.b64encode(key.encode()).decode(), **more}))
        return json.loads(connection.getresponse().read())

    def end(self):
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
            process.wait()
        shutil.rmtree(self.folder)


def until(holds, seconds=120):
    stop = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > stop:
            raise SystemExit("it took more than two minutes")
        time.sleep(0.002)
    return time.monotonic()


class Reader:
    """The stream of one cell."""

    def __init__(self, ground, cell):
        context = ssl.create_default_context(cafile=ground.folder / "tls.pem")
        self.sock = context.wrap_socket(socket.create_connection(("127.0.0.1", HTTPS), 60), server_hostname="127.0.0.1")
        self.sock.sendall(f"GET /v1/cells/c-{cell}/stream HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        self.rest = b""
        self.wait(lambda line: b'"f":"mark"' in line)

    def wait(self, holds):
        while True:
            line, end, rest = self.rest.partition(b"\n")
            if not end:
                self.rest += self.sock.recv(1 << 20)
                continue
            self.rest = rest
            if holds(line):
                return time.monotonic()

    def wait_lease(self, text):
        def names(line):
            return line.startswith(b'{"f":"put"') and text in base64.b64decode(json.loads(line)["env"])
        return self.wait(names)


def measure(ground, chosen):
    rows, folder = {}, ground.folder
    began = time.monotonic()
    ground.start("authority", chosen.build / "egressctl", "authority", "run", folder / "keys", ground.root, ground.out, "--cells")
    rows["all leases signed, s"] = until(lambda: "published" in ground.log("authority")) - began
    ground.start("etcd", "etcd", "--data-dir", folder / "etcd", "--listen-client-urls", f"http://127.0.0.1:{ETCD}", "--advertise-client-urls",
                 f"http://127.0.0.1:{ETCD}", "--listen-peer-urls", f"http://127.0.0.1:{ETCD + 1}", "--log-level", "error")

    def is_up():
        try:
            return ground.store("x")
        except OSError:
            return False
    until(is_up)
    (folder / "serve.conf").write_text(f"[serve]\nfolder = {ground.out}\netcd = etcd://127.0.0.1:{ETCD}\nhttps = tcp:127.0.0.1:{HTTPS}\n"
                                       f"certificate = {folder}/tls.pem\nkey = {folder}/tls.key\n")
    began = time.monotonic()
    ground.start("serve", chosen.build / "egress-sidecar", "--config", folder / "serve.conf")
    end = base64.b64encode(b"/egress/v1/c0").decode()
    want = chosen.leases // chosen.cells * chosen.cells
    until(lambda: int(ground.store("/egress/v1/c/", range_end=end, count_only=True).get("count", 0)) >= want + chosen.cells)
    rows["all of them in etcd, s"] = time.monotonic() - began
    reader, times = Reader(ground, 0), {"etcd": [], "https": []}
    cpu = {name: ground.cpu_s(name) for name in ("authority", "serve")}
    for i in range(chosen.rounds):
        time.sleep(0.3)
        text = f"x{i}.example.org".encode()
        began = ground.write(0, i % 7, f"x{i}")
        times["https"].append((reader.wait_lease(text) - began) * 1000)
        key = f"/egress/v1/c/c-0/l/ls_{i % 7}"
        times["etcd"].append((until(lambda: text in base64.b64decode(ground.store(key)["kvs"][0]["value"])) - began) * 1000)
    for name, values in times.items():
        values.sort()
        rows[f"one lease to {name}, ms p50"] = values[len(values) // 2]
        rows[f"one lease to {name}, ms max"] = values[-1]
    for name, before in cpu.items():
        rows[f"CPU of {name} for each change, ms"] = (ground.cpu_s(name) - before) * 1000 / chosen.rounds
    cpu = {name: ground.cpu_s(name) for name in cpu}
    time.sleep(10)
    for name, before in cpu.items():
        rows[f"idle CPU of {name}, %"] = (ground.cpu_s(name) - before) * 10
    rows["memory of serve, MB"] = ground.memory_mb("serve")
    return rows


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--build", type=Path, default=Path(__file__).resolve().parents[2] / "build")
    arguments.add_argument("--leases", type=int, default=10000)
    arguments.add_argument("--cells", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument("--json", action="store_true")
    chosen = arguments.parse_args()
    ground = Ground(chosen)
    try:
        rows = measure(ground, chosen)
    finally:
        ground.end()
    if chosen.json:
        print(json.dumps(rows))
    for name, value in rows.items() if not chosen.json else ():
        print(f"{name:40} {value:10.1f}")


if __name__ == "__main__":
    main()
