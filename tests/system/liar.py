"""A gateway that looks like etcd's and says what the test wants: pages without end, lines without end, what was never written."""
import base64
import http.server
import json
import socket
import threading

from control import Etcd


def coded(data):
    return base64.b64encode(data).decode()


class Liar:
    """The store of one cell; a fake where the real one cannot be made to lie. As control.Etcd to whom writes and reads."""

    def __init__(self, lab, port=42379):
        self.lab, self.port, self.server = lab, port, None
        self.documents, self.history, self.revision = {}, [], 1
        self.condition, self.generation = threading.Condition(), 0
        self.more = None       # what is listed behind the cell's documents: makes an iterator of (key, value)
        self.rest = None       # the iterator that a list is at
        self.raw = []          # pieces for the next watcher that waits, as they are; then it is hung up on
        self.page = None       # pieces of an answer to every list
        self.head = None       # pieces of every answer from its first byte on
        self.listed = 0        # keys that were told

    def members(self, host="127.0.0.1"):
        return f"{host}:{self.port}"

    def start(self):
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    for piece in liar.head or ():
                        self.wfile.write(piece)
                    liar.watch(self, body) if self.path == "/v3/watch" else liar.list(self, json.loads(body))
                except OSError:
                    pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass
        with self.lab.net.inside("proxy"):
            self.server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def kill(self):
        self.hang_up()
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def hang_up(self):
        with self.condition:
            self.generation += 1
            self.condition.notify_all()

    @staticmethod
    def part(key):
        return {"keyset": 1, "beat": 3}.get(key, 2)

    def change(self, puts, dels):
        with self.condition:
            self.revision += 1
            for key, value in puts.items():
                self.documents[key] = (value, self.revision)
                self.history.append((self.revision, self.part(key), self.pair(key, value, self.revision), "PUT"))
            for key in dels:
                self.documents.pop(key, None)
                self.history.append((self.revision, self.part(key), self.pair(key, b"", self.revision), "DELETE"))
            self.condition.notify_all()

    @staticmethod
    def pair(key, value, revision):
        return {"key": coded(Etcd.key(key)), "value": coded(value), "mod_revision": str(revision)}

    def answer(self, handler, pieces):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        for piece in pieces:
            handler.wfile.write(piece)

    def all_of(self, start):
        """What is listed from a range's first key on."""
        for key, (value, revision) in sorted(self.documents.items()):
            if Etcd.key(key).startswith(start):
                yield self.pair(key, value, revision)
        if b"/c/" in start and self.more is not None:
            for key, value in self.more():
                yield self.pair(key, value, self.revision)

    def list(self, handler, asked):
        if self.page is not None:
            self.answer(handler, self.page())
            return
        start = base64.b64decode(asked["key"])
        with self.condition:
            if not start.endswith(b"\0"):
                self.rest = self.all_of(start)
            kvs = [pair for _, pair in zip(range(int(asked["limit"])), self.rest)]
            self.listed += len(kvs)
            more = len(kvs) == int(asked["limit"])
            body = {"header": {"revision": str(self.revision)}, "kvs": kvs, "more": more}
        self.answer(handler, [json.dumps(body).encode()])

    def watch(self, handler, body):
        starts = [int(json.loads(line)["create_request"]["start_revision"]) for line in body.splitlines() if line.strip()]
        with self.condition:
            self.generation += 1
            generation, at = self.generation, 0
            header = {"revision": str(self.revision)}
        self.answer(handler, [self.line({"header": header, "watch_id": str(i + 1), "created": True}) for i in range(3)])
        while True:
            with self.condition:
                self.condition.wait_for(lambda: len(self.history) > at or self.raw or self.generation != generation, 30)
                if self.generation != generation:
                    return
                raw, self.raw = self.raw, []
                fresh, at = self.history[at:], len(self.history)
            for revision, part, kv, kind in fresh:
                if revision >= starts[part - 1]:
                    handler.wfile.write(self.line({"header": {"revision": str(revision)}, "watch_id": str(part), "events": [{"type": kind, "kv": kv}]}))
            for piece in raw:
                handler.wfile.write(piece)
            if raw:
                return

    @staticmethod
    def line(result):
        return json.dumps({"result": result}).encode() + b"\n"

    def cancel(self):
        """The watch is over, and the history with it: everything is listed again."""
        with self.condition:
            self.raw = [self.line({"header": {"revision": str(self.revision)}, "watch_id": "2", "canceled": True, "compact_revision": str(self.revision)})]
            self.condition.notify_all()

    def say(self, pieces):
        with self.condition:
            self.raw = pieces
            self.condition.notify_all()
