"""From the write that ends a lease to the last of its closed connections: tests/bench/revoke.py [--build DIR] [--source NAME]... [--json]

10,000 leases, 5,000 idle tunnels, 500 of them of the lease that ends; another lease each round. Times are milliseconds from before the write
at the source (a rename, an unlink, a transaction of etcd) to the moment at which the guests' side has seen the last connection close."""
import time

import bed

SETTLING_MS = 30  # of the file source: what is absent or faulty counts once it has held so long


def revoked(doc):
    doc["state"] = "revoked"


class Rounds:
    def __init__(self, ground, source, egress, chosen, report):
        self.source, self.egress, self.chosen, self.report = source, egress, chosen, report
        self.guests, self.next, self.left_open = ground.guests(), chosen.tunnels // chosen.of_one, 0

    def idle(self):
        """The tunnels of leases that stay."""
        for i in range(self.chosen.tunnels // self.chosen.of_one - 1):
            self.guests.open(f"idle{i}", self.lease(i), self.chosen.of_one, source=f"10.200.0.{100 + i % 100}")

    def lease(self, number):
        from many import lease_name
        return lease_name(number)

    def take(self):
        self.next += 1
        return self.lease(self.next - 1)

    def ended(self, *groups):
        """When the first and the last connection of each group were closed, by group; counts what stayed open."""
        closed = {}
        for group in groups:
            told = self.guests.hear("ended", group, seconds=10)
            if told is None:
                count = self.guests.count(group)
                self.left_open += count["let"] + count["refused"] + count["asked"] - count["ended"]
            else:
                closed[group] = int(told[2]), int(told[3])
            self.guests.drop(group)
        return closed

    def relaying(self, kind, begin):
        """Rounds of idle tunnels; `begin` makes the function that ends a lease."""
        times, firsts, writes = [], [], []
        for _ in range(self.chosen.rounds):
            lease = self.take()
            self.guests.open("one", lease, self.chosen.of_one, source="10.200.0.50")
            time.sleep(0.05)
            before_ns, after_ns = begin(lease)()
            closed = self.ended("one")
            if closed:
                firsts.append((closed["one"][0] - before_ns) / 1e6)
                times.append((closed["one"][1] - before_ns) / 1e6)
                writes.append((after_ns - before_ns) / 1e6)
            self.source.settle()
            time.sleep(0.05)
        from figures import spread
        settling = SETTLING_MS if kind == "file removed" and self.source.where is None else 0
        parts = {"first closed p50": spread([ms - settling for ms in firsts]).get("p50"), "write itself p50": spread(writes).get("p50")}
        self.report.row(f"{self.source.name}: {kind}", **spread([ms - settling for ms in times]), **parts, **({"and settling": settling} if settling else {}))

    def busy(self, rounds=10):
        """Rounds in which connections of the lease are in every phase, and 300 are just arriving."""
        caught = {"resolving": 0, "connecting": 0, "holding": 0, "arriving": 0}
        times = []
        for _ in range(rounds):
            lease = self.take()
            self.guests.open("holding", lease, 40, host="held.test", source="10.200.0.51")
            self.guests.open("resolving", lease, 10, host="slow.test", source="10.200.0.51", wait=False)
            self.guests.open("connecting", lease, 40, host="93.184.216.50", source="10.200.0.51", wait=False)
            for _ in range(200):
                if self.guests.count("resolving")["asked"] == 10 and self.guests.count("connecting")["asked"] == 40:
                    break
                time.sleep(0.01)
            time.sleep(0.05)
            states = [s["state"] for s in self.egress.sessions(lease)]
            act = self.source.change(lease, revoked)
            self.guests.open("arriving", lease, 300, source="10.200.0.52", wait=False)
            before_ns = act()[0]
            closed = self.ended("holding", "resolving", "connecting", "arriving")
            times += [(last_ns - before_ns) / 1e6 for _, last_ns in closed.values()]
            for state in states:
                caught[state] = caught.get(state, 0) + 1
            caught["arriving"] += 300
        from figures import spread
        self.report.row(f"{self.source.name}: busy", **spread(times), **{k: v for k, v in caught.items() if v})

    def expiry(self, leases=20):
        """Leases that end by themselves, each at its own millisecond."""
        begun = int(time.time() * 1000)
        names, late = [self.take() for _ in range(leases)], []
        for i, lease in enumerate(names):
            def soon(doc, ends_ms=begun + 6000 + 137 * i):
                doc["exp_ms"] = ends_ms
            self.source.change(lease, soon)()
        time.sleep(1)
        for i, lease in enumerate(names):
            self.guests.open(lease, lease, 20, source="10.200.0.53")
        from figures import spread, wall_of_monotonic_ms
        closed = self.ended(*names)
        for i, lease in enumerate(names):
            if lease in closed:
                late.append(closed[lease][1] / 1e6 + wall_of_monotonic_ms() - (begun + 6000 + 137 * i))
        self.report.row(f"{self.source.name}: ends by its own clock, late by", **spread(late))


def main():
    words = bed.arguments(__doc__)
    words.add_argument("--source", action="append", choices=list(bed.SOURCES))
    words.add_argument("--leases", type=int, default=10000)
    words.add_argument("--tunnels", type=int, default=5000)
    words.add_argument("--of-one", type=int, default=500, help="tunnels of the lease that ends, and of each other one that has any")
    words.add_argument("--rounds", type=int, default=50)
    chosen = bed.parse(words)
    from figures import Report
    report = Report(chosen.json)
    for name in chosen.source or ("file", "signed", "etcd"):
        with bed.Bed() as ground:
            run_one(ground, bed.SOURCES[name], chosen, report)
    report.close()


def run_one(ground, source_class, chosen, report):
    used = chosen.tunnels // chosen.of_one + 2 * chosen.rounds + 40
    source = source_class(ground, chosen.leases, as_json=used)
    egress = ground.egress(source)
    ground.start(egress)
    rounds = Rounds(ground, source, egress, chosen, report)
    rounds.idle()
    rounds.relaying("state revoked", lambda lease: source.change(lease, revoked))
    rounds.busy()
    rounds.relaying("file removed" if source_class is not bed.Store else "key deleted", source.remove)
    rounds.expiry()
    report.row(f"{source.name}: connections left open", count=rounds.left_open)


if __name__ == "__main__":
    main()
