"""egressd beside other SOCKS servers, in one run: tests/bench/compare.py [--build DIR] [--seconds N] [--only NAME]...

Three namespaces (guest, proxy, origin) for each relay anew, all relays unprivileged alike; CPU is that of the relay's processes. These
machines are noisy: compare ratios within one run. Needs root and `deploy/install-packages bench`."""
import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))
from figures import cpu_s, pids_below, rss_kb  # noqa: E402
from netns import Net, run  # noqa: E402

LISTEN, ORIGIN = "10.200.0.1:1080", "93.184.215.14:7000"
CEILING = "allow any\n"
LEASE = """lease bench
guest require source
guest source 10.200.0.2/32
mode allowlist
allow tcp://93.184.215.14:7000 as origin
limit connections 20000 connects_per_s 1000000
"""
DANTE = """logoutput: stderr
internal: 10.200.0.1 port = 1080
external: 93.184.215.1
socksmethod: none
clientmethod: none
user.privileged: root
user.unprivileged: nobody
client pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 }}
socks pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 }}
"""


class Bench:
    def __init__(self, build, seconds):
        self.build, self.seconds = Path(build), seconds
        self.folder = Path(tempfile.mkdtemp(prefix="egress-bench."))
        os.chmod(self.folder, 0o755)
        self.load = self.folder / "load"
        run("gcc", "-O2", "-o", self.load, HERE / "load.c")

    def egressd(self, net):
        root = self.folder / "policy"
        (root / "leases").mkdir(parents=True, exist_ok=True)
        (root / "presets").mkdir(exist_ok=True)
        (root / "ceiling.policy").write_text(CEILING)
        (root / "leases/bench.policy").write_text(LEASE)
        (self.folder / "state").mkdir(exist_ok=True)
        config = self.folder / "egressd.conf"
        config.write_text(f"[daemon]\ncontrol = {self.folder}/control.sock\nname_servers = 93.184.215.14\nworkers = 2\nuser = nobody\n"
                          f"connections_per_lease = 20000\nconnects_per_s = 1000000\n[listener main]\nbind = tcp:{LISTEN}\n"
                          f"[sidecar]\nsource = file:{root}\ntrust = local\nstate = {self.folder}/state\n")
        log = open(self.folder / "egressd.log", "w", encoding="utf-8")
        daemon = net.popen("proxy", self.build / "egressd", "--config", config, stderr=log)
        time.sleep(0.5)
        sidecar = net.popen("proxy", self.build / "egress-sidecar", "--config", config, stderr=log)
        for _ in range(200):
            if run(self.build / "egressctl", "health", "--socket", self.folder / "control.sock", check=False).returncode == 0:
                return [daemon, sidecar]
            time.sleep(0.05)
        raise SystemExit("egressd did not get ready:\n" + Path(log.name).read_text())

    def microsocks(self, net):
        return [net.popen("proxy", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "microsocks", "-i", "10.200.0.1", "-p", "1080", stderr=subprocess.DEVNULL)]

    def danted(self, net):
        config = self.folder / "danted.conf"
        config.write_text(DANTE.format())
        return [net.popen("proxy", "danted", "-f", config, stderr=subprocess.DEVNULL)]

    def measure(self, name):
        net = Net(f"eb{os.getpid()}")
        net.up()
        server = net.popen("origin", self.load, "serve", *ORIGIN.split(":"))
        relays = getattr(self, name)(net)
        time.sleep(1)
        try:
            for words in (["bulk", "-c", "8"], ["up", "-c", "8"], ["rate", "-c", "64"], ["rr", "-c", "1"]):
                self.one(net, name, relays[0].pid, words)
            self.idle(net, name, relays[0].pid)
        finally:
            for process in (*relays, server):
                process.send_signal(signal.SIGTERM)
            for process in (*relays, server):
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
            net.down()

    def one(self, net, name, pid, words):
        before = cpu_s(pid)
        done = net.run("guest", self.load, words[0], "-p", LISTEN, "-d", ORIGIN, *words[1:], "-t", str(self.seconds),
                       check=False, timeout=self.seconds + 60)
        cpu = cpu_s(pid) - before
        if done.returncode != 0:
            print(f"{name:<11} {words[0]:<5} {done.stderr.strip()}", flush=True)
            return
        pairs = done.stdout.split()
        got = {key: float(value) for key, value in zip(pairs[::2], pairs[1::2])}
        if words[0] in ("bulk", "up"):
            text = f"{got['bytes'] * 8e-9 / got['seconds']:8.2f} Gbit/s  {cpu / (got['bytes'] / 1e9):8.3f} CPU-s/GB"
        else:
            text = (f"{got['done'] / got['seconds']:8.0f} /s      {cpu * 1e6 / max(got['done'], 1):8.1f} CPU us each"
                    f"  p50 {got['p50_us']:.0f} us  p99 {got['p99_us']:.0f} us")
        print(f"{name:<11} {words[0]:<5} {text}", flush=True)

    def idle(self, net, name, pid, count=2000):
        before = rss_kb(pids_below(pid))
        holder = net.popen("guest", self.load, "idle", "-p", LISTEN, "-d", ORIGIN, "-n", count, "-t", 30,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        opened = int(holder.stdout.readline().split()[5])
        time.sleep(3)
        grown = rss_kb(pids_below(pid)) - before
        print(f"{name:<11} idle  {opened:8} open    {grown * 1024 / max(opened, 1):8.0f} bytes of RSS each", flush=True)
        holder.stdin.close()
        holder.wait()

    def change(self):
        """From a rename in the policy root to the first request that the new rule lets through."""
        net = Net(f"eb{os.getpid()}")
        net.up()
        server = net.popen("origin", self.load, "serve", *ORIGIN.split(":"))
        relays = self.egressd(net)
        lease = self.folder / "policy/leases/bench.policy"
        from socks import OK, Socks

        class Lab:
            pass
        lab = Lab()
        lab.net = net
        times = []
        try:
            for i in range(40):
                open_rule = i % 2 == 1
                aside = lease.with_name(".new")
                aside.write_text(LEASE if open_rule else LEASE.replace("allow tcp", "# allow tcp"))
                begun = time.monotonic()
                aside.rename(lease)
                while True:
                    with Socks(lab) as s:
                        if (s.open("93.184.215.14", 7000) == OK) == open_rule:
                            break
                    if time.monotonic() - begun > 5:
                        raise SystemExit("a change was not in force within 5 s")
                times.append((time.monotonic() - begun) * 1000)
                time.sleep(0.1)
        finally:
            for process in (*relays, server):
                process.terminate()
                process.wait()
            net.down()
        times.sort()
        print(f"change      a changed file in force: median {statistics.median(times):.0f} ms, p99 {times[-1]:.0f} ms of {len(times)}", flush=True)


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--build", default=str(HERE.parent.parent / "build"))
    words.add_argument("--seconds", type=float, default=3)
    words.add_argument("--only", action="append", choices=["egressd", "microsocks", "danted", "change"])
    chosen = words.parse_args()
    bench = Bench(chosen.build, chosen.seconds)
    try:
        for name in chosen.only or ["egressd", "microsocks", "danted", "egressd", "microsocks", "danted", "change"]:
            if name == "change":
                bench.change()
            else:
                bench.measure(name)
    finally:
        shutil.rmtree(bench.folder, ignore_errors=True)


main()
