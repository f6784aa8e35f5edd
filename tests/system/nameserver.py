"""A name server of the tests: a table of answers, or whole messages byte for byte, on an address of the origin; counts what it is asked."""
import contextlib
import select
import socket
import struct
import threading
import time

TYPES = {"A": 1, "CNAME": 5, "SOA": 6, "TXT": 16, "AAAA": 28, "HTTPS": 65}
WORDS = {number: word for word, number in TYPES.items()}
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5


def name_bytes(name):
    return b"".join(bytes([len(label)]) + label.encode("latin-1") for label in name.rstrip(".").split(".") if label) + b"\0"


def record(owner, kind, data, ttl=60, cls=1):
    """One resource record; `owner` a name, or bytes as they are (b"\\xc0\\x0c" points at the question)."""
    owner = owner if isinstance(owner, bytes) else name_bytes(owner)
    return owner + struct.pack(">HHIH", TYPES[kind], cls, ttl, len(data)) + data


def rdata(kind, text):
    if kind == "A":
        return socket.inet_aton(text)
    if kind == "AAAA":
        return socket.inet_pton(socket.AF_INET6, text)
    return name_bytes(text) if kind == "CNAME" else text


class Query:
    """One question as it came."""

    def __init__(self, message, over_tcp, port):
        self.id = struct.unpack(">H", message[:2])[0]
        self.over_tcp, self.port = over_tcp, port
        at, labels = 12, []
        while message[at]:
            labels.append(message[at + 1:at + 1 + message[at]])
            at += 1 + message[at]
        self.raw_name = b".".join(labels).decode("latin-1")
        self.name = self.raw_name.lower()
        self.question = message[12:at + 5]
        number, = struct.unpack(">H", message[at + 1:at + 3])
        self.type = WORDS.get(number, str(number))

    def message(self, answers=(), rcode=NOERROR, authority=(), additional=(), flags=0x8180, question=None, counts=None, identifier=None):
        """A response with this query's question unless said otherwise."""
        counts = counts or (1, len(answers), len(authority), len(additional))
        head = struct.pack(">HHHHHH", self.id if identifier is None else identifier, flags | rcode, *counts)
        return head + (self.question if question is None else question) + b"".join([*answers, *authority, *additional])

    def answer(self, *texts, ttl=60):
        """Addresses of the asked type, owned by the asked name."""
        return self.message([record(b"\xc0\x0c", self.type, rdata(self.type, text), ttl) for text in texts])

    def nothing(self, rcode=NOERROR):
        soa = name_bytes("ns.test") + name_bytes("hostmaster.test") + struct.pack(">IIIII", 1, 60, 60, 60, 1)
        return self.message(rcode=rcode, authority=[record("test", "SOA", soa, 1)])


class NameServer:
    """
    zone[name] is a dict of type to list of texts ({"A": […], "CNAME": ["x"]}), a response code, None (mute), or a function of the
    query that returns the datagrams to send. "*.x" catches what is below x. Names that are not there do not exist.
    """

    def __init__(self, lab, address="93.184.215.16"):
        self.address, self.zone, self.queries = address, {}, []
        self.stopping = False
        self.udp, self.tcp = self._listen(lab)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _listen(self, lab):
        """Both sockets, once nobody has the port any more: what a test before this one left may take a moment to go."""
        until = time.monotonic() + 70
        while True:
            with lab.net.inside("origin"), contextlib.ExitStack() as undo:
                try:
                    udp = undo.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                    udp.bind((self.address, 53))
                    tcp = socket.create_server((self.address, 53), backlog=64)
                    undo.pop_all()
                    return udp, tcp
                except OSError:
                    if time.monotonic() > until:
                        print(lab.net.run("origin", "ss", "-tuanp").stdout)
                        raise
            time.sleep(0.2)

    def close(self):
        self.stopping = True
        self.thread.join()
        self.udp.close()
        self.tcp.close()

    def asked(self, name=None):
        """Queries so far, of one name or all."""
        return [q for q in self.queries if name is None or q.name == name]

    def _serve(self):
        while not self.stopping:
            for ready in select.select([self.udp, self.tcp], [], [], 0.1)[0]:
                if ready is self.udp:
                    data, peer = self.udp.recvfrom(4096)
                    for datagram in self._answers(Query(data, False, peer[1])):
                        self.udp.sendto(datagram, peer)
                else:
                    conn, peer = self.tcp.accept()
                    threading.Thread(target=self._serve_tcp, args=(conn, peer), daemon=True).start()

    def _serve_tcp(self, conn, peer):
        with conn:
            conn.settimeout(10)
            try:
                length = conn.recv(2, socket.MSG_WAITALL)
                while len(length) == 2:
                    data = conn.recv(struct.unpack(">H", length)[0], socket.MSG_WAITALL)
                    for message in self._answers(Query(data, True, peer[1])):
                        if message is None:
                            return
                        conn.sendall(message if isinstance(message, bytearray) else struct.pack(">H", len(message)) + message)
                    length = conn.recv(2, socket.MSG_WAITALL)
            except OSError:
                pass

    def _find(self, name):
        if name in self.zone:
            return self.zone[name]
        labels = name.split(".")
        for i in range(1, len(labels)):
            below = "*." + ".".join(labels[i:])
            if below in self.zone:
                return self.zone[below]
        return NXDOMAIN

    def _answers(self, query):
        self.queries.append(query)
        entry = self._find(query.name)
        if callable(entry):
            return entry(query)
        if entry is None:
            return []
        if isinstance(entry, int):
            return [query.nothing(entry)]
        return [self._from_table(query, entry)]

    def _from_table(self, query, entry):
        answers, owner = [], query.name
        while isinstance(entry, dict) and "CNAME" in entry and len(answers) < 64:
            answers.append(record(b"\xc0\x0c" if not answers else owner, "CNAME", rdata("CNAME", entry["CNAME"][0])))
            owner = entry["CNAME"][0]
            entry = self._find(owner)
        texts = entry.get(query.type, []) if isinstance(entry, dict) else []
        answers += [record(owner if answers else b"\xc0\x0c", query.type, rdata(query.type, text)) for text in texts]
        return query.message(answers) if answers else query.nothing()
