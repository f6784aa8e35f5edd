"""The sidecar that serves: what the real authority writes, in real etcd and over HTTPS, through crashes, quarrels and rude clients."""
import base64
import json
import time

import pytest
from authority import Authority, Serving, manifest_root, payload_of
from control import Etcd
from lab import wait_for
from socks import NOT_ALLOWED, OK

LEASE = "lease {name}\nguest require source\nguest source {source}\nmode allowlist\nallow tcp://{host}:7000 as echo\n"
CELL = "c-1"


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

    def proxy(self, source, options=""):
        self.e = self.egress(autostart=False, source=source)
        keys = self.e.folder / "keys.json"
        keys.write_bytes((self.authority.keys / "root.json").read_bytes())
        self.e.sidecar_options = f"cell = {CELL}\nkeys = {keys}\nceiling = {self.e.root}/ceiling.policy\n{options}"
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
    fleet.leases(900)
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
    assert fleet.etcd.revision() - before <= (900 - len(there)) // 100 + 4
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
