"""
A test bed: namespaces, guests that are one C process under orders (load.c), an origin, a mute name server, and egressd on one of three
sources of policy. Everything that it makes is in one temporary folder, and all that it starts ends with it, by process id.
"""
import argparse
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "system"))


def arguments(text):
    """The words that every bench knows; more may be added before parse(), after which what needs the build may be imported."""
    words = argparse.ArgumentParser(description=text.splitlines()[0])
    words.add_argument("--build", default=str(HERE.parent.parent / "build"), help="folder of a build without sanitizers")
    words.add_argument("--json", action="store_true", help="print the figures as JSON at the end, and nothing else")
    return words


def parse(words):
    chosen = words.parse_args()
    os.environ["EGRESS_BUILDDIR"] = str(Path(chosen.build).resolve())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is put away
    return chosen


class Guests:
    """load.c in the namespace of the guests, under orders."""

    def __init__(self, net, load, proxy="10.200.0.1:1080"):
        self.process = net.popen("guest", load, "guests", "-p", proxy, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.bytes, self.heard = b"", []

    def tell(self, *words):
        self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self.process.stdin.flush()

    def hear(self, *words, seconds=30):
        """The rest of the next line that begins so; None when it does not come in time."""
        until = time.monotonic() + seconds
        words = [str(w) for w in words]
        while True:
            for i, line in enumerate(self.heard):
                if line[:len(words)] == words:
                    return self.heard.pop(i)[len(words):]
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise SystemExit(f"the guests have ended: {self.process.wait()}")
            *lines, self.bytes = (self.bytes + more).split(b"\n")
            self.heard += [line.decode().split() for line in lines]

    def open(self, group, lease, count, host="93.184.215.14", source="-", wait=True):
        from many import token
        self.tell("open", group, lease, token(lease), source, host, 7000, count)
        if wait and self.hear("opened", group, seconds=60) is None:
            raise SystemExit(f"{group}: guests were not answered: {self.count(group)}")

    def count(self, group):
        self.tell("count", group)
        return dict(zip(("asked", "let", "refused", "ended"), map(int, self.hear("count", group))))

    def drop(self, group):
        self.tell("drop", group)
        self.hear("dropped", group)
        self.heard = [line for line in self.heard if line[1] != str(group)]

    def flip(self, wanted, lease, host):
        """Ask for `host` until it is let through (True) or refused; the time at which that was so."""
        from many import token
        self.tell("flip", "yes" if wanted else "no", lease, token(lease), "-", host, 7000)

    def flipped(self):
        at_ns, tries = map(int, self.hear("flipped", seconds=20))
        if at_ns == 0:
            raise SystemExit(f"a change was not in force within 10 s ({tries} tries)")
        return at_ns


class Bed:
    """with Bed() as bed: …"""

    def __init__(self):
        from netns import Net, run
        self.folder = Path(tempfile.mkdtemp(prefix="egress-bench."))
        os.chmod(self.folder, 0o755)
        self.net = Net(f"eb{os.getpid()}")
        self.load = self.folder / "load"
        self.ending = []  # functions
        run("gcc", "-O2", "-o", self.load, HERE / "load.c")

    def __enter__(self):
        try:
            self.net.up()
            # Guests of several addresses: failed logins of one do not slow the others down.
            self.net.run("guest", "sh", "-c", "for i in $(seq 50 199); do ip addr add 10.200.0.$i/24 dev g0; done")
            self.popen("origin", self.load, "serve", "93.184.215.14", 7000)
            self._serve_names()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for end in reversed(self.ending):
            try:
                end()
            except (OSError, AssertionError, RuntimeError) as fault:
                print(f"putting away: {fault}", file=sys.stderr)
        self.net.down()
        shutil.rmtree(self.folder, ignore_errors=True)

    def popen(self, where, *words, **options):
        process = self.net.popen(where, *words, **options)

        def end():
            process.kill()
            process.wait()
        self.ending.append(end)
        return process

    def guests(self):
        one = Guests(self.net, self.load)

        def end():
            one.process.kill()
            one.process.wait()
        self.ending.append(end)
        return one

    def _serve_names(self):
        """held.test has an address; of all other names nothing is said, ever."""
        from nameserver import NameServer
        names = NameServer(self, "93.184.215.16")
        names.zone = {"held.test": {"A": ["93.184.215.14"]}, "*.test": None}
        self.ending.append(names.close)

    def egress(self, source, prefix=()):
        """egressd and its sidecar on this source; not started."""
        from lab import Egress

        class Held(Egress):
            def _popen(self, name, words):
                return super()._popen(name, [*prefix, *words])
        folder = self.folder / f"e{len(self.ending)}"
        folder.mkdir()
        one = Held(self, folder, source=source.where, sidecar=source.options(folder), listeners={"main": "tcp:10.200.0.1:1080"}, daemon=(
            f"leases_max = {max(16384, source.leases * 5 // 4)}\n"
            "name_servers = 93.184.215.16\nrecords =\nconnections_per_lease = 20000\ndns_total_ms = 60000\nconnect_ms = 60000\n"))
        one.may_fail = {"egressd", "egress-sidecar"}
        source.prepare(one)
        self.ending.append(one.stop)
        return one

    def start(self, egress, seconds=120):
        """Start both; seconds until the daemon says that it is ready, and what each of them has used until then."""
        from figures import cpu_s
        begun = time.monotonic()
        egress.start_daemon()
        egress.start_sidecar()
        while not is_ready(egress.folder / "admin.sock"):
            if time.monotonic() - begun > seconds or egress.daemon.poll() is not None or egress.sidecar.poll() is not None:
                raise SystemExit("egressd did not get ready:\n" + egress.log()[-2000:] + egress.log("egress-sidecar")[-2000:])
            time.sleep(0.005)
        return time.monotonic() - begun, cpu_s(egress.daemon.pid), cpu_s(egress.sidecar.pid)


def is_ready(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)
        try:
            s.connect(str(path))
            s.sendall(b"GET /readyz HTTP/1.1\r\nHost: admin\r\n\r\n")
            return s.recv(64).startswith(b"HTTP/1.1 200")
        except OSError:
            return False


class Local:
    """source = file:ROOT, trust = local."""

    name, where = "file, local trust", None

    def __init__(self, bed, leases, as_json=0, **shape):
        self.leases, self.as_json, self.shape, self.root = leases, as_json, shape, None

    def options(self, folder):
        return ""

    def prepare(self, egress):
        from many import fill
        self.root = egress.root
        fill(self.root, self.leases, as_json=self.as_json, **self.shape)

    def change(self, lease, edit):
        """A function that puts the changed lease in place, and returns when that began and when it was done."""
        from many import lease_json, packed
        doc = lease_json(lease)
        edit(doc)
        path = self.root / "leases" / f"{lease}.json"
        aside = path.with_name(".aside")
        aside.write_bytes(packed(doc))
        return lambda: timed(aside.rename, path)

    def remove(self, lease):
        return lambda: timed((self.root / "leases" / f"{lease}.json").unlink)

    def settle(self):
        pass


class Signed:
    """What the authority has signed, and one who changes it; a subclass carries it to the sidecar."""

    def __init__(self, bed, leases, as_json=0, cell="c-bench", **shape):
        from authority import Authority
        from many import Cell, fill
        self.leases = leases
        folder = bed.folder / f"authority-{len(bed.ending)}"
        folder.mkdir()
        self.authority = Authority(folder, cell=cell)
        begun = time.monotonic()
        fill(self.authority.root, leases, **shape)
        self.filled_s = time.monotonic() - begun
        begun = time.monotonic()
        self.authority.once(seconds=600)
        self.signed_s = time.monotonic() - begun
        documents = self.authority.documents()
        self.cell = Cell(self.authority, documents)
        self.load(documents)
        self.start(bed)

    def options(self, folder):
        return signed_options(self.authority, folder)

    def prepare(self, egress):
        pass

    def start(self, bed, beat_s=1):
        self.lock, self.ended = threading.RLock(), threading.Event()
        self.every(bed, beat_s, self.beat)

    def every(self, bed, seconds, act):
        """`act` in time, under the lock, until the end."""
        def turn():
            while not self.ended.wait(seconds):
                with self.lock:
                    act()
        thread = threading.Thread(target=turn, daemon=True)
        thread.start()

        def end():
            self.ended.set()
            thread.join()
        bed.ending.append(end)

    def beat(self):
        self.put({"beat": self.cell.beat()}, [])()

    def held(self, act):
        """`act`, until the end of which no other beat is written: it would name what is not there yet."""
        self.lock.acquire()

        def act_and_release():
            try:
                return act()
            finally:
                self.lock.release()
        return act_and_release

    def change(self, lease, edit):
        with self.lock:
            puts = {"l/" + lease: self.cell.lease(lease, edit), "m": self.cell.named()}
            return self.held(self.put({**puts, "beat": self.cell.beat()}, []))

    def remove(self, lease):
        """The key alone; settle() lets the manifest follow."""
        with self.lock:
            self.cell.without(lease)
            return self.held(self.put({}, ["l/" + lease]))

    def settle(self):
        with self.lock:
            self.put({"m": self.cell.named(), "beat": self.cell.beat()}, [])()


def signed_options(authority, folder):
    """Lines of the configuration of a sidecar that believes this authority."""
    keys = folder / "keys.json"
    shutil.copy(authority.keys / "root.json", keys)
    os.chmod(keys, 0o644)
    return f"cell = {authority.cell}\nkeys = {keys}\nceiling = {folder}/policy/ceiling.policy\n"


class Watched(Local):
    """A policy root that `egressctl authority run` watches and signs into a folder: the change is that of the root."""

    name = "authority run, file signed"

    def __init__(self, bed, leases, as_json=0, **shape):
        from authority import Authority
        from many import fill
        super().__init__(bed, leases, as_json, **shape)
        folder = bed.folder / f"authority-{len(bed.ending)}"
        folder.mkdir()
        self.authority = Authority(folder, cell="c-bench")
        self.root = self.authority.root
        fill(self.root, leases, as_json=as_json, **shape)
        begun = time.monotonic()
        self.authority.once(seconds=600)
        self.signed_s = time.monotonic() - begun
        os.chmod(self.authority.out, 0o755)
        self.where = f"file:{self.authority.out}"
        self.authority.run()
        bed.ending.append(self.authority.stop)

    def options(self, folder):
        return signed_options(self.authority, folder)

    def prepare(self, egress):
        pass


class Folder(Signed):
    """source = file:FOLDER, trust = signed."""

    name = "file, signed"

    def load(self, documents):
        os.chmod(self.authority.out, 0o755)
        self.where = f"file:{self.authority.out}"

    def put(self, puts, dels):
        out = self.authority.out
        pairs = [(out / (".aside." + key.replace("/", ".")), out / key) for key in puts]
        for (aside, _), envelope in zip(pairs, puts.values()):
            aside.write_bytes(envelope)

        def act():
            for aside, path in pairs:
                aside.rename(path)
            for key in dels:
                (out / key).unlink()
        return lambda: timed(act)


class Store(Signed):
    """source = etcd://…, trust = signed."""

    name = "etcd"

    def __init__(self, bed, *words, **options):
        from control import Etcd
        self.etcd = Etcd(bed, bed.folder / f"etcd-{len(bed.ending)}")
        self.etcd.start()
        bed.ending.append(self.etcd.kill)
        self.where = f"etcd://{self.etcd.members()}"
        super().__init__(bed, *words, **options)

    def load(self, documents):
        keys = list(documents)
        for i in range(0, len(keys), 100):
            self.put({key: documents[key] for key in keys[i:i + 100]}, [])()

    def put(self, puts, dels):
        body = self.etcd.transaction(puts, dels, self.authority.cell)
        return lambda: timed(self.etcd.post, "/v3/kv/txn", body)


class Fleet(Signed):
    """Cells of a hundred leases each in one etcd; all of it signed here, with an authority's keys. What is changed is the cell of `here`."""

    name = "etcd, a fleet"

    def __init__(self, bed, cells, leases_each=100):
        from authority import Authority
        from control import Etcd
        from many import Cell, group_of
        folder = bed.folder / "authority"
        folder.mkdir()
        self.names = [f"c-{i:04}" for i in range(cells)]
        self.authority = Authority(folder, cell=self.names[cells // 2])
        self.etcd = Etcd(bed, bed.folder / "etcd")
        self.etcd.start()
        bed.ending.append(self.etcd.kill)
        self.where, self.leases, self.leases_each = f"etcd://{self.etcd.members()}", leases_each, leases_each
        keyset = {"keyset": self.authority.documents()["keyset"]}
        self.cells = [Cell(self.authority, keyset, name) for name in self.names]
        self.cell = self.cells[cells // 2]
        self.groups = {}
        for cell in self.cells:
            self.groups.setdefault(group_of(cell.cell), []).append(cell)
        self.put(keyset, [])()
        self.fill()
        self.turn = 0
        for _ in self.groups:
            self.beat()
        self.start(bed, 1 / len(self.groups))

    def lease(self, cell, number):
        from many import lease_name
        return lease_name(cell * self.leases_each + number)

    def fill(self):
        """One transaction for each cell."""
        self.signed_s = self.loaded_s = 0
        for at, cell in enumerate(self.cells):
            begun = time.monotonic()
            puts = {"l/" + lease: cell.add(lease) for lease in (self.lease(at, i) for i in range(self.leases_each))}
            puts["m"] = cell.named()
            signed = time.monotonic()
            self.etcd.post("/v3/kv/txn", self.etcd.transaction(puts, [], cell.cell))
            self.signed_s += signed - begun
            self.loaded_s += time.monotonic() - signed

    def beat_of(self, group):
        """The put of the beat of one group."""
        from many import beat
        first = self.groups[group][0]
        first.beat_seq += 1
        envelope = beat(self.authority, group, first.beat_seq, {cell.cell: cell.said() for cell in self.groups[group]}, first.epoch, first.keyset)
        return self.etcd.transaction({"beat": envelope}, [], first.cell)["success"]

    def beat(self):
        """Of the next group: all of them in a second, but not at once."""
        self.turn += 1
        self.etcd.post("/v3/kv/txn", {"success": self.beat_of(list(self.groups)[self.turn % len(self.groups)])})

    def changing(self, cell, lease, edit):
        """The transaction of a changed lease, its manifest and the beat of its group."""
        from many import group_of
        puts = {"l/" + lease: cell.lease(lease, edit), "m": cell.named()}
        return {"success": self.etcd.transaction(puts, [], cell.cell)["success"] + self.beat_of(group_of(cell.cell))}

    def change(self, lease, edit):
        with self.lock:
            body = self.changing(self.cell, lease, edit)
            return self.held(lambda: timed(self.etcd.post, "/v3/kv/txn", body))

    def put(self, puts, dels):
        body = self.etcd.transaction(puts, dels)
        return lambda: timed(self.etcd.post, "/v3/kv/txn", body)


def timed(act, *words):
    begun = time.monotonic_ns()
    act(*words)
    return begun, time.monotonic_ns()


SOURCES = {"file": Local, "signed": Folder, "etcd": Store, "authority": Watched}
