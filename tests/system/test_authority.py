"""The real authority behind each of the stores: a folder of policies becomes signed documents, and they are in force."""
import subprocess

import pytest
from control import CELL, Etcd, Mirror, Stream
from lab import BUILD, wait_for
from netns import run
from socks import NOT_ALLOWED, OK
from test_https import tls  # noqa: F401 (a fixture)

LEASE = """lease ls_one
guest require source
guest source 10.200.0.2/32
mode allowlist
allow tcp://{host}:7000 as echo
"""


@pytest.fixture
def authority(tmp_path):
    """A running authority: policy root, folder of documents, root keys."""
    keys, root, out = tmp_path / "keys", tmp_path / "root", tmp_path / "out"
    for folder in (keys, root, root / "leases", out):
        folder.mkdir()
    keys.chmod(0o700)
    run(BUILD / "egressctl", "authority", "keygen", keys)
    run(BUILD / "egressctl", "authority", "sign", keys, out)
    (root / "leases" / "one.policy").write_text(LEASE.format(host="allowed.test"))
    process = subprocess.Popen([BUILD / "egressctl", "authority", "run", keys, root, out, "--cell", CELL])
    yield keys, root, out
    process.terminate()
    process.wait()


@pytest.mark.parametrize("kind", ["file", "etcd", "https"])
def test_what_stands_in_the_folder_is_in_force(egress, lab, authority, tls, tmp_path, kind):  # noqa: F811
    keys, root, out = authority
    wait_for((out / "beat").exists)
    store = mirror = None
    e = egress(autostart=False)
    shared = e.folder / "shared"
    shared.mkdir()
    for path in (keys / "root.json", tls / "ca.pem", tls / "client.pem", tls / "client.key"):
        (shared / path.name).write_bytes(path.read_bytes())
    options = f"cell = {CELL}\nkeys = {shared}/root.json\nceiling = {e.root}/ceiling.policy\n"
    if kind == "etcd":
        store = Etcd(lab, tmp_path / "etcd")
        store.start()
        e.source = f"source = etcd://{store.members()}\ntrust = signed"
    elif kind == "https":
        store = Stream(lab, 42453, (tls / "server.pem", tls / "server.key"), tls / "ca.pem")
        e.source = "source = https://127.0.0.1:42453\ntrust = signed"
        options += f"tls_ca = {shared}/ca.pem\ntls_certificate = {shared}/client.pem\ntls_key = {shared}/client.key\n"
    else:
        store = Folder(shared / "documents")
        e.source = f"source = file:{shared}/documents\ntrust = signed"
    e.sidecar_options = options
    e.configure("refuse_after_s = 6\n")
    try:
        mirror = Mirror(out, store)
        e.start()

        def ask(host):
            with e.guest() as s:
                return s.request(host, 7000) if s.greet() == b"\x05\x00" else None
        assert (ask("allowed.test"), ask("plain.test")) == (OK, NOT_ALLOWED)
        (root / "leases" / "one.policy").write_text(LEASE.format(host="plain.test"))
        wait_for(lambda: (ask("allowed.test"), ask("plain.test")) == (NOT_ALLOWED, OK), 10)
        (root / "leases" / "one.policy").unlink()
        wait_for(lambda: ask("plain.test") is None, 10)
    finally:
        if mirror is not None:
            mirror.stop()
        store.kill() if kind == "etcd" else store.close()


class Folder:
    """A folder as the store, filled by rename."""

    def __init__(self, path):
        self.path = path
        for name in ("", "l", "r"):
            (path / name).mkdir()

    def change(self, puts, dels):
        for key, value in sorted(puts.items(), key=lambda pair: ("/" not in pair[0], pair[0] == "beat", pair[0])):
            aside = self.path / ".new"
            aside.write_bytes(value)
            aside.chmod(0o644)
            aside.rename(self.path / key)
        for key in dels:
            (self.path / key).unlink()

    def close(self):
        pass
