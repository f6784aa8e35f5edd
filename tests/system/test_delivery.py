"""Decision records that are not lost: kill -9 of either program under load, control away, bounds, required audit, torn and damaged spools; a real collector over HTTPS."""
import gzip
import http.server
import json
import signal
import socket
import ssl
import threading

import pytest
from lab import wait_for
from netns import run
from socks import FAILURE, NOT_ALLOWED, OK

LEASE = "lease ls_one\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\nallow tcp://allowed.test:7000 as raw\n"
DAEMON = "connects_per_s = 100000\nconnections_per_lease = 100000\nnames_per_lease = 100000\nlookups_per_s = 100000\nrefuse_after_s = 120\ncut_after_s = 300\n"


class Collector:
    """POST /v1/decisions as control would serve it: each key once."""

    def __init__(self, lab, certificate, port):
        self.batches, self.posts, self.faults, self.answer, self.port = {}, [], [], 204, port
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                try:
                    body = self.rfile.read(int(self.headers["Content-Length"]))
                    status = collector.take(self.path, self.headers, body)
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except (OSError, ssl.SSLError):
                    pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_):
                pass
        with lab.net.inside("proxy"):
            self.server = Server(("127.0.0.1", port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def take(self, path, headers, body):
        if path.endswith("/status"):
            return 204
        key = headers["Idempotency-Key"]
        lines = gzip.decompress(body).splitlines()
        self.posts.append(key)
        if path != "/v1/decisions" or headers["Content-Type"] != "application/x-ndjson" or headers["Content-Encoding"] != "gzip":
            self.faults.append((path, dict(headers)))
        answer = self.answer(key, lines) if callable(self.answer) else self.answer
        if answer != 204:
            return answer
        if key in self.batches and self.batches[key] != lines:
            self.faults.append(f"another body under {key}")
        self.batches[key] = lines
        return answer

    def records(self, boot=None):
        """All of them, or those of one start of the daemon."""
        return [json.loads(line) for key, lines in list(self.batches.items()) for line in lines if boot in (None, key.split("/")[1])]

    def boots(self):
        return {key.split("/")[1] for key in self.batches}

    def sequences(self, boot=None):
        return sorted(r["metadata"]["sequence"] for r in self.records(boot))

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collector")
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=collector",
        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem")
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def collector(lab, certificate):
    one = Collector(lab, certificate, 43443)
    yield one
    one.close()
    assert one.faults == []


@pytest.fixture
def start(egress, certificate):
    """An egressd that posts its records (or with `posts` off, one that only has its file)."""
    def starts(daemon="", sidecar="", posts=True):
        e = egress(autostart=False, leases={"one.policy": LEASE})
        if posts:
            trusted = e.folder / "collector.pem"
            trusted.write_bytes(certificate[0].read_bytes())
            e.sidecar_options = f"decisions = https://127.0.0.1:43443\nproxy = px-1\ntls_ca = {trusted}\n{sidecar}"
        e.configure(DAEMON + daemon)
        return e.start()
    return starts


class Load:
    """Guests that ask for names of their own, refused ones and allowed ones, and remember what they were told."""

    def __init__(self, e, threads=3):
        self.e, self.told, self.running = e, [], True
        self.threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(threads)]
        for thread in self.threads:
            thread.start()

    def _run(self, number):
        count = 0
        while self.running:
            count += 1
            try:
                with self.e.guest() as s:
                    host = f"n{number}-{count}.evil.test" if count % 3 else "allowed.test"
                    reply = s.open(host, 7000)
                    if reply in (OK, NOT_ALLOWED):
                        self.told.append((host, s.port, reply))
            except (OSError, AssertionError, IndexError):
                if not self.running:
                    return

    def stop(self):
        self.running = False
        for thread in self.threads:
            thread.join()
        return self.told


def keys_of(records):
    """How a guest's answer is found again: refused ones by name, allowed ones by port."""
    return {r["dst_endpoint"]["hostname"] if r["activity_id"] == 5 else r["src_endpoint"].get("port")
            for r in records if r["activity_id"] in (1, 5) and "dst_endpoint" in r}


def missing(told, records):
    there = keys_of(records)
    return [t for t in told if (t[1] if t[2] == OK else t[0]) not in there]


def kill(e, name):
    process = {"egressd": e.daemon, "egress-sidecar": e.sidecar}[name]
    e.may_fail.add(name)
    process.kill()
    process.wait()


def is_whole(sequences):
    return sequences == list(range(1, len(sequences) + 1))


def settled(what):
    """The same twice, a moment apart."""
    seen = [None]

    def is_settled():
        before, seen[0] = seen[0], what()
        return seen[0] and seen[0] == before
    wait_for(is_settled, 30, 0.7)
    return seen[0]


def denials(e, count, prefix):
    replies = []
    for i in range(count):
        with e.guest() as s:
            try:
                replies.append(s.open(f"{prefix}{i}.evil.test", 443))
            except (OSError, AssertionError, IndexError):
                replies.append(None)
    return replies


def test_kill_of_the_daemon_loses_no_record_that_a_guest_saw_the_effect_of(start, collector):
    e = start()
    load = Load(e)
    wait_for(lambda: len(load.told) > 300, 60)
    kill(e, "egressd")
    told = load.stop()
    wait_for(lambda: missing(told, e.records()) == [], 10)
    wait_for(lambda: missing(told, collector.records()) == [], 20)
    # Its successor numbers anew, under a start of its own.
    e.start_daemon()
    wait_for(e.is_ready)
    assert denials(e, 1, "after") == [NOT_ALLOWED]
    wait_for(lambda: len(collector.boots()) == 2 and "after0.evil.test" in keys_of(collector.records()), 20)
    first, second = sorted(collector.boots(), key=lambda boot: "after0.evil.test" in keys_of(collector.records(boot)))
    assert collector.sequences(second)[0] == 1
    sequences = collector.sequences(first)
    assert len(set(sequences)) == len(sequences)
    # At most one number a worker was given and not told to anybody.
    assert max(sequences) - len(sequences) <= 2


def test_kill_of_the_sidecar_loses_nothing_and_stores_nothing_twice(start, collector):
    e = start()
    load = Load(e)
    for _ in range(3):
        so_far = len(load.told)
        wait_for(lambda: len(load.told) > so_far + 120, 60)
        kill(e, "egress-sidecar")
        so_far = len(load.told)
        wait_for(lambda: len(load.told) > so_far + 40, 60)
        e.start_sidecar()
        wait_for(e.is_ready)
    told = load.stop()
    e.wait_idle()
    wait_for(lambda: missing(told, e.records()) == [], 20)
    settled(lambda: len(e.records()))
    wait_for(lambda: len(collector.records()) == len(e.records()), 20)
    assert missing(told, collector.records()) == []
    assert is_whole(sorted(r["metadata"]["sequence"] for r in e.records()))
    assert is_whole(collector.sequences())


def test_control_away_is_spooled_and_delivered_once_per_key(start, collector):
    collector.answer = 503
    e = start()
    assert denials(e, 40, "one") == [NOT_ALLOWED] * 40
    wait_for(lambda: e.metric("egress_decision_log_spool_bytes") > 10000 and len(collector.posts) >= 2)
    assert len(set(collector.posts)) == 1 and collector.posts[0].startswith("px-1/")
    assert e.metric("egress_decision_log_oldest_age_seconds") > 0 and e.metric("egress_decision_log_post_failures_total") > 0
    kill(e, "egress-sidecar")
    assert denials(e, 40, "two") == [NOT_ALLOWED] * 40
    e.start_sidecar()
    wait_for(lambda: e.metric('egress_decision_log_records_total{result="spooled"}') >= 40 if e.is_ready() else False)
    collector.answer = 204
    wait_for(lambda: len(collector.records()) >= 80, 20)
    assert is_whole(collector.sequences()) and len(collector.boots()) == 1
    wait_for(lambda: e.metric("egress_decision_log_spool_bytes") == 0)
    told = json.loads(e.ctl("sidecar", "--json").stdout.splitlines()[-1])
    assert told["records_sent"] >= 80 and told["records_spooled"] == told["records_lost"] == 0
    assert e.metric('egress_decision_log_records_total{result="sent"}') >= 80 and e.metric('egress_decision_log_records_total{result="dropped"}') == 0


def test_a_batch_that_is_too_large_goes_in_parts(start, collector):
    collector.answer = 503
    e = start()
    denials(e, 50, "large")
    wait_for(lambda: len(collector.posts) >= 1)
    collector.answer = lambda key, lines: 413 if len(lines) > 7 else 204
    wait_for(lambda: len(collector.records()) == 50, 20)
    assert is_whole(collector.sequences()) and len(collector.batches) >= 8


def test_a_spool_that_is_full_loses_its_oldest_counted_and_as_a_gap(start, collector):
    collector.answer = 503
    e = start(sidecar="spool_mb = 1\n")
    for round_ in range(40):
        assert denials(e, 100, f"r{round_}-") == [NOT_ALLOWED] * 100
        if e.metric('egress_decision_log_records_total{result="dropped"}') > 0:
            break
    dropped = settled(lambda: e.metric('egress_decision_log_records_total{result="dropped"}'))
    assert 0 < e.metric("egress_decision_log_spool_bytes") <= 1 << 20
    assert "spool_dropped" in e.log("egress-sidecar")
    collector.answer = 204
    wait_for(lambda: e.metric("egress_decision_log_spool_bytes") == 0, 30)
    told = (round_ + 1) * 100
    sequences = collector.sequences()
    assert len(set(sequences)) == len(sequences) == told - dropped and max(sequences) == told
    # The file has all of them: it is only the spool that was too small.
    assert is_whole(sorted(r["metadata"]["sequence"] for r in e.records()))


def test_required_audit_refuses_instead_of_losing_and_recovers(start):
    e = start(daemon="audit = required\nrecords_ring_mb = 1\n", posts=False)
    live = [e.guest() for _ in range(20)]
    assert [s.open("allowed.test", 7000) for s in live] == [OK] * 20
    e.sidecar.send_signal(signal.SIGSTOP)
    replies = []
    while FAILURE not in replies and len(replies) < 3000:
        replies += denials(e, 50, f"fill{len(replies)}-")
    assert FAILURE in replies and e.decisions()["audit_backpressure"] > 0
    for s in live:
        s.send(b"still")
        assert s.take(5) == b"still"
    # Whoever goes on asking is not even told no once a refusal could not be written down.
    for round_ in range(40):
        replies += denials(e, 50, f"more{round_}-")
        if replies[-1] is None:
            break
    assert replies[-1] is None
    for s in live:
        s.close()
    e.wait_idle()
    e.sidecar.send_signal(signal.SIGCONT)
    e.wait_record(status_code="audit_backpressure")

    def opens():
        with e.guest() as s:
            return s.open("allowed.test", 7000) == OK
    wait_for(opens)
    e.wait_idle()
    settled(lambda: len(e.records()))
    assert is_whole([r["metadata"]["sequence"] for r in sorted(e.records(), key=lambda r: r["metadata"]["sequence"])])
    ends = {r["src_endpoint"]["port"]: r["traffic"]["bytes"] for r in e.records(activity_id=2)}
    assert [ends[s.port] for s in live] == [10] * 20
    assert e.metric("egress_decision_ring_dropped_total") == 0


def test_best_effort_drops_allowed_ones_first_and_says_how_many(start):
    e = start(daemon="records_ring_mb = 1\n", posts=False)
    e.sidecar.send_signal(signal.SIGSTOP)
    for _ in range(400):
        with e.guest() as s:
            assert s.open("allowed.test", 7000) == OK
    wait_for(lambda: e.metric("egress_decision_ring_dropped_total") > 0)
    assert denials(e, 60, "refused") == [NOT_ALLOWED] * 60
    e.wait_idle()
    e.sidecar.send_signal(signal.SIGCONT)
    wait_for(lambda: len([r for r in e.records() if r["activity_id"] == 5]) == 60)
    dropped = settled(lambda: e.metric('egress_decision_log_records_total{result="dropped"}'))
    assert len(e.records()) + dropped == 860
    assert max(r["metadata"]["sequence"] for r in e.records()) == 860 and dropped == e.metric("egress_decision_ring_dropped_total")


def spooled(start, collector, count=30):
    """An egressd whose sidecar ended with so many records in its spool."""
    collector.answer = 503
    e = start()
    denials(e, count, "spooled")
    wait_for(lambda: e.metric('egress_decision_log_records_total{result="spooled"}') == count)
    kill(e, "egress-sidecar")
    files = sorted(path for path in (e.state / "spool").iterdir() if len(path.name) == 16)
    assert files
    return e, files[-1]


def test_a_torn_spool_file_costs_its_torn_end(start, collector):
    e, last = spooled(start, collector)
    last.write_bytes(last.read_bytes()[:-10])
    collector.answer = 204
    e.start_sidecar()
    wait_for(lambda: collector.sequences() == list(range(1, 30)), 20)
    assert "spool_torn" in e.log("egress-sidecar")


def test_a_damaged_spool_file_is_set_aside_and_delivery_goes_on(start, collector):
    e, last = spooled(start, collector)
    raw = bytearray(last.read_bytes())
    raw[len(raw) // 2] ^= 0x40
    last.write_bytes(raw)
    collector.answer = 204
    e.start_sidecar()
    wait_for(e.is_ready)
    assert denials(e, 5, "after") == [NOT_ALLOWED] * 5
    wait_for(lambda: {31, 32, 33, 34, 35} <= set(collector.sequences()), 20)
    assert last.with_name(last.name + ".bad").exists() and "spool_damaged" in e.log("egress-sidecar")
    wait_for(lambda: e.metric("egress_decision_log_damaged_files_total") == 1)
