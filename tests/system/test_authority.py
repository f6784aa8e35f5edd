"""The real authority and what hands its documents on: a folder of policies becomes signed documents, and they are in force."""
import pytest
from authority import Authority, Serving
from control import Etcd
from lab import wait_for
from socks import NOT_ALLOWED, OK
from test_https import tls  # noqa: F401 (a fixture)

CELL = "c-0161"
PORT = 42453
LEASE = "lease ls_one\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\nallow tcp://{host}:7000 as echo\n"


@pytest.mark.parametrize("kind", ["file", "etcd", "https"])
def test_what_stands_in_the_folder_is_in_force(egress, lab, tls, kind):  # noqa: F811
    shared = egress.folder / "shared"
    shared.mkdir()
    authority = Authority(shared, CELL)
    authority.write("one.policy", LEASE.format(host="allowed.test"))
    authority.run()
    for path in (authority.keys / "root.json", *tls.glob("*.pem"), *tls.glob("*.key")):
        (shared / path.name).write_bytes(path.read_bytes())
    store = serving = None
    e = egress(autostart=False)
    options = f"cell = {CELL}\nkeys = {shared}/root.json\nceiling = {e.root}/ceiling.policy\n"
    if kind == "etcd":
        store = Etcd(lab, shared / "etcd")
        store.start()
        serving = Serving(lab, shared / "serve", authority.out, etcd=f"etcd://{store.members()}").start()
        e.source = f"source = etcd://{store.members()}\ntrust = signed"
    elif kind == "https":
        serving = Serving(lab, shared / "serve", authority.out, https=f"tcp:127.0.0.1:{PORT}", certificate=shared / "server.pem",
                          key=shared / "server.key", client_ca=shared / "ca.pem").start()
        e.source = f"source = https://127.0.0.1:{PORT}\ntrust = signed"
        options += f"tls_ca = {shared}/ca.pem\ntls_certificate = {shared}/client.pem\ntls_key = {shared}/client.key\n"
    else:
        e.source = f"source = file:{authority.out}\ntrust = signed"
    e.sidecar_options = options
    e.configure("refuse_after_s = 6\n")
    try:
        e.start()

        def ask(host):
            with e.guest() as s:
                return s.request(host, 7000) if s.greet() == b"\x05\x00" else None
        assert (ask("allowed.test"), ask("plain.test")) == (OK, NOT_ALLOWED)
        authority.write("one.policy", LEASE.format(host="plain.test"))
        wait_for(lambda: (ask("allowed.test"), ask("plain.test")) == (NOT_ALLOWED, OK), 10)
        (authority.root / "leases" / "one.policy").unlink()
        wait_for(lambda: ask("plain.test") is None, 10)
    finally:
        authority.stop()
        if serving is not None:
            serving.stop()
        if store is not None:
            store.kill()
