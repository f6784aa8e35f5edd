"""A store that is against us: what it says changes nothing or shuts the door, is counted by kind, and takes no more memory than its bound."""
import base64
import hashlib
import json
import time
from pathlib import Path

import pytest
from authority import b64, manifest_root, payload_of
from control import RULES, Control, packed
from lab import wait_for
from liar import Liar
from socks import FAILURE, NOT_ALLOWED, OK
from test_etcd import Fleet as EtcdFleet
from test_failures import spoilt
from test_https import Plane, tls  # noqa: F401 (a fixture)
from test_signed import fleet  # noqa: F401 (a fixture)

WIDE = [{"id": "w", "allow": "tcp://plain.test:7000"}, *RULES]
MIB = 1 << 20


def memory_mib(process):
    """Of now, and the most since it was last forgotten."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return tuple(int(fields[name].split()[0]) // 1024 for name in ("VmRSS", "VmHWM"))


def forget_peak(process):
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")


class Endless:
    """A thousand pieces of a MiB; counts what was taken."""

    def __init__(self, first=b"", piece=b"x" * MIB):
        self.first, self.piece, self.taken = first, piece, 0

    def __iter__(self):
        yield self.first
        for _ in range(1024):
            yield self.piece
            self.taken += 1


def then_hung_up(piece):
    yield piece
    raise ConnectionError


@pytest.fixture
def real(egress, lab, tmp_path):
    one = EtcdFleet(egress, lab, tmp_path)
    yield one
    one.stop()


@pytest.fixture
def lied_to(egress, lab, tmp_path):
    one = EtcdFleet(egress, lab, tmp_path)
    one.start(store=Liar(lab))
    yield one
    one.stop()


@pytest.fixture
def plane(egress, lab, tls):  # noqa: F811
    one = Plane(egress, lab, tls)
    one.start()
    yield one
    one.stop()


def lost(e, cause):
    return e.metric(f'egress_control_reconnects_total{{cause="{cause}"}}')


def test_old_revisions_in_real_etcd_change_nothing(real):
    r = real.start()
    old = r.control.all()
    old["beat"] = None
    r.control.change(ls_one=WIDE)
    wait_for(lambda: r.ask("plain.test") == OK, 5)
    wide = r.control.all()
    r.control.change(ls_one=RULES)
    wait_for(lambda: r.ask("plain.test") == NOT_ALLOWED, 5)
    for document, kind in (("l/ls_one", "lease"), ("m", "manifest")):
        for told in (old, wide):
            name = f'egress_control_documents_total{{type="{kind}",result="rollback"}}'
            before = r.e.metric(name)
            r.etcd.change({document: told[document]}, [])
            wait_for(lambda: r.e.metric(name) > before, 5)
            assert r.ask("plain.test") != OK
    # Both at once, as they once were, and what was before a restart of the sidecar.
    r.etcd.change({key: wide[key] for key in ("l/ls_one", "m")}, [])
    r.e.sidecar.terminate()
    assert r.e.sidecar.wait(20) == 0
    r.e.start_sidecar()
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert r.ask("plain.test") != OK
        time.sleep(0.05)
    r.control.change(ls_one=WIDE)
    wait_for(lambda: r.ask("plain.test") == OK, 15)


def test_one_withheld_delete_is_looked_for_and_ends_in_refusal(lied_to):
    z = lied_to
    z.control.change(ls_two=[])
    kept = z.etcd.documents["l/ls_two"]
    before = z.e.metric("egress_control_resyncs_total")
    z.etcd.more = lambda: [("l/ls_two", kept[0])]
    change = z.etcd.change
    z.etcd.change = lambda puts, dels: change(puts, [])
    z.control.change(ls_two=None)
    z.wait_stale()
    assert z.e.metric("egress_control_resyncs_total") > before
    z.etcd.change, z.etcd.more = change, None
    change({}, ["l/ls_two"])
    wait_for(lambda: z.ask() == OK, 10)


def test_a_manifest_that_leaves_one_out_is_believed_for_none(fleet):  # noqa: F811
    f = fleet().start()

    def lie(documents):
        """Signed by who holds the keys, but not what stands there."""
        if not {"m", "beat", "l/ls_b"} <= documents.keys():
            return documents
        fewer = {k: v for k, v in documents.items() if k != "l/ls_b"}
        manifest = dict(json.loads(payload_of(documents["m"])), root=manifest_root(fewer), leases=1)
        manifest["seq"] += 1
        payload = json.dumps(manifest).encode()
        beat = json.loads(payload_of(documents["beat"]))
        beat["cells"] = {"c-1": [manifest["seq"], b64(hashlib.sha256(payload).digest())]}
        return dict(documents, m=f.authority.envelope("egress.manifest/1", payload, "manifest-1"),
                    beat=f.authority.envelope("egress.beat/1", json.dumps(beat).encode(), "beat-1"))
    f.store.tell(lie)
    wait_for(lambda: f.opens() == FAILURE and f.opens("guest2") == FAILURE)
    assert f.state() in ("stale", "cut") and f.e.metric("egress_control_resyncs_total") > 0


def test_a_million_keys_end_in_refusal_within_bounded_memory(lied_to):
    z = lied_to
    rubbish = b"hello" * 10
    z.etcd.more = lambda: ((f"l/x{i}", rubbish) for i in range(1000000))
    peaks = []
    z.etcd.cancel()
    for _ in range(2):
        before = lost(z.e, "too_long")
        wait_for(lambda: lost(z.e, "too_long") > before, 90)
        peaks.append(memory_mib(z.e.sidecar)[1])
    assert z.etcd.listed < 3 * 201000 + 2000
    assert z.ask("plain.test") != OK
    z.wait_stale()
    # What was told and what was examined of it; after ten rounds it is the same.
    assert max(peaks) < 300, peaks
    z.etcd.more = None
    wait_for(lambda: z.ask() == OK, 60)
    assert z.e.metric("egress_control_not_stored_total") > 0


def test_signatures_that_are_none_by_the_thousand_hold_up_neither_guests_nor_commands(lied_to):
    z = lied_to
    bad = spoilt(z.control.envelope("lease", z.control.lease_payload("ls_one", 9, WIDE), "ls"))
    z.etcd.more = lambda: ((f"l/x{i}", bad) for i in range(40000))
    refused, seen = 'egress_control_documents_total{type="lease",result="signature"}', set()
    z.etcd.cancel()

    def all_refused():
        assert z.e.ctl("sidecar").returncode in (0, 1)
        seen.add(z.e.metric(refused))
        return max(seen) >= 40000
    wait_for(all_refused, 90, every=0.1)
    # Figures went out, and commands in, between them: all at once is more than ten seconds here.
    assert any(0 < count < 40000 for count in seen), seen
    wait_for(lambda: z.ask() == OK and z.ask("plain.test") == NOT_ALLOWED, 10)


@pytest.mark.parametrize("where", ["watch", "list"])
def test_a_line_of_a_gigabyte_from_a_gateway_is_cut_at_its_limit(lied_to, where):
    z = lied_to
    assert z.ask() == OK
    forget_peak(z.e.sidecar)
    start, endless = memory_mib(z.e.sidecar)[0], Endless(b'{"result":{"header":{"revision":"')
    if where == "watch":
        z.etcd.say(endless)
    else:
        z.etcd.page = lambda: endless
        z.etcd.cancel()
    wait_for(lambda: lost(z.e, "too_long") > 0, 30)
    assert endless.taken < 64
    assert memory_mib(z.e.sidecar)[1] < start + 120
    z.etcd.page = None
    wait_for(lambda: z.ask() == OK, 20)


def test_a_line_of_a_gigabyte_from_a_control_plane_is_cut_at_its_limit(plane):
    assert plane.ask() == OK
    forget_peak(plane.e.sidecar)
    start, endless = memory_mib(plane.e.sidecar)[0], Endless(b'{"f":"put","k":"l/ls_one","env":"')
    plane.stream.extra = endless
    plane.control.beat()
    wait_for(lambda: lost(plane.e, "too_long") > 0, 30)
    assert endless.taken < 64
    assert memory_mib(plane.e.sidecar)[1] < start + 60
    wait_for(lambda: plane.ask() == OK, 20)


def test_a_head_without_end_is_cut_at_its_limit(lied_to):
    z = lied_to
    assert z.ask() == OK
    forget_peak(z.e.sidecar)
    start = memory_mib(z.e.sidecar)[0]
    endless = Endless(b"HTTP/1.1 200 OK\r\n", b"".join(b"x-%d: %s\r\n" % (i, b"y" * 1000) for i in range(1000)))
    z.etcd.head = endless
    z.etcd.hang_up()
    wait_for(lambda: lost(z.e, "closed") > 1 or lost(z.e, "timeout") > 0, 30)
    assert memory_mib(z.e.sidecar)[1] < start + 100
    z.etcd.head = None
    wait_for(lambda: z.ask() == OK, 20)


def drip(line):
    """Bytes that keep a connection open and say nothing."""
    while True:
        yield line
        time.sleep(0.5)


def test_a_member_that_only_shows_progress_is_left_after_a_while(lied_to):
    z = lied_to
    z.etcd.say(drip(z.etcd.line({"header": {"revision": str(z.etcd.revision)}, "watch_id": "2"})))
    wait_for(lambda: lost(z.e, "timeout") == 1, 20)
    z.control.change(ls_one=WIDE)
    wait_for(lambda: z.ask("plain.test") == OK, 10)


def test_an_endpoint_that_only_keeps_the_line_open_is_left_for_one_that_speaks(egress, lab, tls):  # noqa: F811
    p = Plane(egress, lab, tls)
    try:
        p.start(ports=(42443, 42444))
        speaks, frozen = p.streams
        speaks.documents, speaks.beat = dict(frozen.documents), frozen.beat
        p.control.store = Both(p.streams)
        frozen.extra = drip(b"\n")
        before = len(speaks.requests)
        wait_for(lambda: len(speaks.requests) > before, 20)
        p.control.change(ls_one=WIDE)
        wait_for(lambda: p.ask("plain.test") == OK, 10)
    finally:
        p.stop()


class Both:
    """What is written to a store goes to several."""

    def __init__(self, stores):
        self.stores = stores

    def change(self, puts, dels):
        for store in self.stores:
            store.change(puts, dels)


def test_lines_that_end_too_early_count_as_lost_and_what_follows_is_whole(plane):
    p, document = plane, packed({"f": "put", "k": "l/ls_one", "env": base64.b64encode(plane.control.all()["l/ls_one"]).decode()})
    for cut in (1, 10, len(document) // 2, len(document) - 1, len(document)):
        before, requests = lost(p.e, "closed"), len(p.stream.requests)
        p.stream.extra = then_hung_up(document[:cut])
        p.control.beat()
        wait_for(lambda: len(p.stream.requests) > requests and lost(p.e, "closed") > before, 10)
        wait_for(lambda: p.ask() == OK, 10)
    assert lost(p.e, "malformed") == 0
    p.control.change(ls_one=WIDE)
    wait_for(lambda: p.ask("plain.test") == OK, 10)


def test_a_storm_of_deletes_takes_nothing_but_what_it_names(plane):
    p = plane
    p.control.change(ls_two=[])
    wait_for(lambda: p.e.metric('egress_control_leases{state="active"}') == 2)
    forget_peak(p.e.sidecar)
    start, resyncs = memory_mib(p.e.sidecar)[0], p.e.metric("egress_control_resyncs_total")
    line = b"".join(packed({"f": "del", "k": f"l/x{i}", "cursor": "e1.1"}) + b"\n" for i in range(1000))
    p.stream.extra = [line] * 100 + [packed({"f": "del", "k": key, "cursor": "e1.1"}) + b"\n" for key in ("m", "keyset", "l/", "r/00", "../x")] + \
        [b'{"f":"del","k":"l/ls_two","cursor":"e1.1"}\n'] * 1000
    p.control.beat()
    # What is named goes at once; that it should be there is noticed, and everything listed again.
    wait_for(lambda: p.e.metric("egress_control_resyncs_total") > resyncs, 20)
    assert memory_mib(p.e.sidecar)[1] < start + 30
    wait_for(lambda: p.e.metric('egress_control_leases{state="active"}') == 2, 20)
    p.control.change(ls_two=None)
    wait_for(lambda: p.ask() == OK, 20)


def test_more_rulesets_than_are_kept_are_counted_and_take_no_lease_down(plane):
    p = plane
    forget_peak(p.e.sidecar)
    start = memory_mib(p.e.sidecar)[0]

    def ruleset(i):
        payload = packed({"typ": "egress.ruleset/1", "rules": [{"id": "r", "allow": f"https://h{i}.test"}]})
        return "r/" + hashlib.sha256(payload).hexdigest(), b'{"typ":"egress.ruleset/1","sigs":[]}\n' + payload
    p.stream.change(dict(ruleset(i) for i in range(17500)), [])
    p.control.beat()
    wait_for(lambda: p.e.metric("egress_control_not_stored_total") >= 17500 - 16384, 60)
    wait_for(lambda: p.ask() == OK, 30)
    assert p.e.metric('egress_control_documents_total{type="ruleset",result="ok"}') >= 16384
    assert memory_mib(p.e.sidecar)[1] < start + 300
    p.control.change(ls_one=WIDE)
    wait_for(lambda: p.ask("plain.test") == OK, 30)
