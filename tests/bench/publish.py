"""What publishing costs as leases grow: tests/bench/publish.py [--build DIR] [--source NAME]... [--leases N]... [--json]

For each source and number of leases (sharing 200 rulesets of 100 rules): cold start of daemon and sidecar on one core, from a change of one lease
at the source to the first request that is answered by it, memory, and what both use while nothing happens."""
import time

import bed

TARGET = "tcp://93.184.215.14:7000"


def allowing(is_allowed):
    """An edit of a lease: whether the probe's target is among its rules."""
    def edit(doc):
        rules = [rule for rule in doc["network"]["rules"] if rule.get("allow") != TARGET]
        doc["network"]["rules"] = rules + ([{"id": "probe", "allow": TARGET}] if is_allowed else [])
    return edit


def flips(guests, source, leases, rounds):
    """Milliseconds from before each write until the answer to the same question is another; each lease in turn is shut and opened."""
    times = []
    for i in range(rounds):
        lease, is_allowed = leases[(i // 2) % len(leases)], i % 2 == 1
        act = source.change(lease, allowing(is_allowed))
        guests.flip(is_allowed, lease, "93.184.215.14")
        time.sleep(0.02)
        before_ns = act()[0]
        times.append((guests.flipped() - before_ns) / 1e6)
        time.sleep(0.03)
    return times


def idle(egress, seconds):
    """Percent of one core that the daemon and the sidecar use by themselves."""
    from figures import cpu_s
    pids = (egress.daemon.pid, egress.sidecar.pid)
    before = [cpu_s(pid) for pid in pids]
    time.sleep(seconds)
    return [round((cpu_s(pid) - was) / seconds * 100, 1) for pid, was in zip(pids, before)]


def measure(ground, source, chosen, report, size):
    from figures import memory_mb, spread
    from many import lease_name
    from netns import run
    egress = ground.egress(source, prefix=("taskset", "-c", "0"))
    seconds, daemon_s, sidecar_s = ground.start(egress)
    name = f"{source.name}, {size} leases"
    report.row(f"{name}: cold start on one core", seconds=round(seconds, 2), daemon_cpu_s=round(daemon_s, 2), sidecar_cpu_s=round(sidecar_s, 2),
               **({"signed_in_s": round(source.signed_s, 1)} if hasattr(source, "signed_s") else {}))
    for pid in (egress.daemon.pid, egress.sidecar.pid):
        run("taskset", "-apc", "0-63", str(pid))
    report.row(f"{name}: memory after start, MB (and of no file)", daemon=memory_mb(egress.daemon.pid), sidecar=memory_mb(egress.sidecar.pid))
    before = time.monotonic()
    used = cpu_pair(egress)
    times = flips(ground.guests(), source, [lease_name(i) for i in range(chosen.changed)], chosen.rounds)
    took = time.monotonic() - before
    report.row(f"{name}: one change in force, ms", **spread(times))
    report.row(f"{name}: CPU ms for each change", daemon=round((cpu_pair(egress)[0] - used[0]) * 1000 / chosen.rounds, 1),
               sidecar=round((cpu_pair(egress)[1] - used[1]) * 1000 / chosen.rounds, 1), rounds_took_s=round(took, 1))
    report.row(f"{name}: memory after changes, MB (and of no file)", daemon=memory_mb(egress.daemon.pid), sidecar=memory_mb(egress.sidecar.pid))
    daemon, sidecar = idle(egress, chosen.idle)
    report.row(f"{name}: idle, % of a core", daemon=daemon, sidecar=sidecar)


def cpu_pair(egress):
    from figures import cpu_s
    return cpu_s(egress.daemon.pid), cpu_s(egress.sidecar.pid)


def main():
    words = bed.arguments(__doc__)
    words.add_argument("--source", action="append", choices=list(bed.SOURCES))
    words.add_argument("--leases", action="append", type=int)
    words.add_argument("--rounds", type=int, default=100)
    words.add_argument("--changed", type=int, default=50, help="different leases that are changed in turn")
    words.add_argument("--idle", type=float, default=10, help="seconds")
    chosen = bed.parse(words)
    from figures import Report
    report = Report(chosen.json)
    for name in chosen.source or ("file", "signed", "etcd"):
        for size in chosen.leases or (100, 1000, 10000):
            with bed.Bed() as ground:
                measure(ground, bed.SOURCES[name](ground, size, as_json=chosen.changed), chosen, report, size)
    report.close()


if __name__ == "__main__":
    main()
