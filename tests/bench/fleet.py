"""One proxy of a large fleet: tests/bench/fleet.py [--build DIR] [--cells N] [--json]

100,000 leases over 1,000 cells in one real etcd. Measured is the proxy of one cell, alone and while the 999 others are watched too: cold start on
one core, a change of one lease in force, what everybody uses while only beats come, and the same change while other cells change as well."""
import random
import subprocess
import sys
import time

import bed
from publish import allowing, cpu_pair, flips


def watch(ground, fleet):
    """All other cells, watched by one process."""
    others = [name for name in fleet.names if name != fleet.authority.cell]
    process = ground.popen("proxy", sys.executable, bed.HERE / "watchers.py", fleet.etcd.client[0], *others, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        raise SystemExit("the watchers did not get ready")
    return process


def proxy(ground, fleet, chosen, report, what):
    from figures import cpu_s, memory_mb, spread
    from netns import run
    egress = ground.egress(fleet, prefix=("taskset", "-c", "0"))
    seconds, daemon_s, sidecar_s = ground.start(egress)
    report.row(f"{what}: cold start on one core", seconds=round(seconds, 2), daemon_cpu_s=round(daemon_s, 2), sidecar_cpu_s=round(sidecar_s, 2))
    for pid in (egress.daemon.pid, egress.sidecar.pid):
        run("taskset", "-apc", "0-63", str(pid))
    leases = [fleet.lease(len(fleet.cells) // 2, i) for i in range(50)]
    report.row(f"{what}: one change in force, ms", **spread(flips(ground.guests(), fleet, leases, chosen.rounds)))
    pid = fleet.etcd.processes[0].pid
    before, used, begun = cpu_s(pid), cpu_pair(egress), time.monotonic()
    time.sleep(chosen.idle)
    took = (time.monotonic() - begun) / 100
    daemon, sidecar = cpu_pair(egress)
    report.row(f"{what}: beats alone, % of a core", etcd=round((cpu_s(pid) - before) / took, 1), daemon=round((daemon - used[0]) / took, 1),
               sidecar=round((sidecar - used[1]) / took, 1))
    report.row(f"{what}: memory, MB (and of no file)", etcd=memory_mb(pid), daemon=memory_mb(egress.daemon.pid), sidecar=memory_mb(egress.sidecar.pid))
    return egress, leases


def churn(ground, fleet, per_s):
    """From now on leases of other cells change too."""
    def one():
        at = random.randrange(len(fleet.cells))
        if fleet.cells[at] is not fleet.cell:
            lease = fleet.lease(at, random.randrange(fleet.leases_each))
            fleet.etcd.post("/v3/kv/txn", fleet.changing(fleet.cells[at], lease, allowing(random.random() < 0.5)))
    fleet.every(ground, 1 / per_s, one)


def main():
    words = bed.arguments(__doc__)
    words.add_argument("--cells", type=int, default=1000)
    words.add_argument("--leases-each", type=int, default=100)
    words.add_argument("--rounds", type=int, default=100)
    words.add_argument("--churn", type=float, default=20, help="changes of other cells a second, in the last row")
    words.add_argument("--idle", type=float, default=10, help="seconds")
    chosen = bed.parse(words)
    from figures import Report, memory_mb, spread
    report = Report(chosen.json)
    with bed.Bed() as ground:
        fleet = bed.Fleet(ground, chosen.cells, chosen.leases_each)
        size = int(fleet.etcd.post("/v3/maintenance/status", {})["dbSize"])
        report.row(f"{chosen.cells * chosen.leases_each} leases, {chosen.cells} cells: loaded", signed_in_s=round(fleet.signed_s, 1),
                   loaded_in_s=round(fleet.loaded_s, 1), db_mb=round(size / 1e6), etcd_mb=memory_mb(fleet.etcd.processes[0].pid))
        egress, _ = proxy(ground, fleet, chosen, report, "one proxy")
        egress.stop()
        watchers = watch(ground, fleet)
        egress, leases = proxy(ground, fleet, chosen, report, f"beside {chosen.cells - 1} watchers")
        watchers.stdin.write("\n")
        watchers.stdin.flush()
        watchers.stdout.readline()
        churn(ground, fleet, chosen.churn)
        begun = time.monotonic()
        report.row(f"and {chosen.churn:g} changes a second elsewhere: in force, ms", **spread(flips(ground.guests(), fleet, leases, chosen.rounds)))
        watchers.stdin.write("\n")
        watchers.stdin.flush()
        report.row("watchers, kB a second each", kb=round(int(watchers.stdout.readline()) / 1e3 / (time.monotonic() - begun) / (chosen.cells - 1), 2))
    report.close()


if __name__ == "__main__":
    main()
