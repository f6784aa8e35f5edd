"""A raw SOCKS5 client for tests: every byte and every cut is the test's."""
import socket
import struct
import time

OK, FAILURE, NOT_ALLOWED, NET, HOST, REFUSED, TTL, COMMAND, ADDRESS = range(9)


class Socks:
    def __init__(self, lab, guest="guest", to=("10.200.0.1", 1080), timeout=15, source=None, receive=None):
        with lab.net.inside(guest):
            family = socket.AF_UNIX if isinstance(to, str) else socket.AF_INET6 if ":" in to[0] else socket.AF_INET
            self.sock = socket.socket(family)
        self.sock.settimeout(timeout)
        if receive is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        if source is not None:
            self.sock.bind((source, 0))
        self.since_ms = int(time.time() * 1000)
        self.sock.connect(to)
        self.port = self.address = None
        if family != socket.AF_UNIX:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.address, self.port = self.sock.getsockname()[:2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data, one_by_one=False):
        if not one_by_one:
            self.sock.sendall(data)
            return
        for i in range(len(data)):
            self.sock.sendall(data[i:i + 1])
            time.sleep(0.002)

    def take(self, count):
        """Exactly `count` bytes, fewer when the other side ends."""
        data = b""
        while len(data) < count:
            more = self.sock.recv(count - len(data))
            if not more:
                break
            data += more
        return data

    def rest(self):
        """All until the other side ends; a reset counts as b'RESET' behind what came."""
        data = b""
        while True:
            try:
                more = self.sock.recv(65536)
            except ConnectionResetError:
                return data + b"RESET"
            if not more:
                return data
            data += more

    def greet(self, methods=b"\x00"):
        self.send(bytes([5, len(methods)]) + methods)
        return self.take(2)

    def login(self, user, password):
        user, password = (w if isinstance(w, bytes) else w.encode() for w in (user, password))
        self.send(bytes([1, len(user)]) + user + bytes([len(password)]) + password)
        return self.take(2)

    def request(self, host, port, command=1):
        self.send(request(host, port, command))
        return self.reply()

    def reply(self):
        """The reply code; None when the connection ended without one."""
        head = self.take(4)
        if len(head) < 4:
            return None
        assert head[0] == 5 and head[2] == 0 and head[3] in (1, 4), head
        rest = self.take(6 if head[3] == 1 else 18)
        assert len(rest) == (6 if head[3] == 1 else 18)
        self.bound = rest
        return head[1]

    def open(self, host, port, user=None, password=None):
        """Whole handshake; the reply code."""
        if user is None:
            assert self.greet() == b"\x05\x00"
        else:
            assert self.greet(b"\x02") == b"\x05\x02"
            assert self.login(user, password) == b"\x01\x00"
        return self.request(host, port)


def request(host, port, command=1):
    if isinstance(host, bytes):
        where = b"\x03" + bytes([len(host)]) + host
    elif ":" in host:
        where = b"\x04" + socket.inet_pton(socket.AF_INET6, host)
    elif host.replace(".", "").isdigit():
        where = b"\x01" + socket.inet_aton(host)
    else:
        where = b"\x03" + bytes([len(host)]) + host.encode()
    return bytes([5, command, 0]) + where + struct.pack(">H", port)
