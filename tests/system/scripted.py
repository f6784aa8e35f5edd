"""An origin that plays a script: each connection is a function of the test's, and what it received is kept byte for byte."""
import socket
import ssl
import threading
import time


class Conn:
    """One accepted connection. `received` grows while the script reads."""

    def __init__(self, sock):
        self.sock, self.received, self.read_len, self.ended = sock, b"", 0, False
        sock.settimeout(20)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def more(self):
        """Wait for bytes; false at the guest's end."""
        try:
            data = self.sock.recv(65536)
        except OSError:
            data = b""
        self.received += data
        self.ended = self.ended or not data
        return bool(data)

    def until(self, mark=b"\r\n\r\n"):
        """Read up to and with `mark`; what was read, or None at the end."""
        while (at := self.received.find(mark, self.read_len)) < 0:
            if not self.more():
                return None
        start, self.read_len = self.read_len, at + len(mark)
        return self.received[start:self.read_len]

    def take(self, count):
        while len(self.received) - self.read_len < count:
            if not self.more():
                return None
        start, self.read_len = self.read_len, self.read_len + count
        return self.received[start:self.read_len]

    def send(self, *parts):
        """Each part in a segment of its own."""
        for i, part in enumerate(parts):
            if i > 0:
                time.sleep(0.004)
            try:
                self.sock.sendall(part)
            except OSError:
                return

    def finish(self):
        """No more is sent; read on until the other side has finished too."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            return
        while self.more():
            pass

    def drain(self):
        while self.more():
            pass


class Scripted:
    """with Scripted(lab) as origin: origin.play = function of a Conn. Listens on the name script.test."""

    def __init__(self, lab, port=80, cert=None, context=None):
        with lab.net.inside("origin"):
            self.listener = socket.create_server((lab.net.SCRIPTED4, port), backlog=256)
        self.context = context
        if cert is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*cert)
        self.conns, self.play, self.open = [], Conn.drain, True
        self.threads = []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open = False
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(20)
        for conn in self.conns:
            try:
                conn.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join(20)

    def _accept(self):
        while self.open:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._one, args=(sock, self.play), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _one(self, sock, play):
        try:
            if self.context is not None:
                sock = self.context.wrap_socket(sock, server_side=True)
        except OSError:
            sock.close()
            return
        conn = Conn(sock)
        self.conns.append(conn)
        try:
            play(conn)
        except (OSError, TypeError, AttributeError, IndexError):
            pass  # the guest was cut off in the middle of the script
        finally:
            sock.close()
            conn.ended = True

    def answers(self, *messages, close=False):
        """Play: one message for each request head, then read to the end. A message may be a tuple: a segment each."""
        def play(conn):
            for message in messages:
                if conn.until() is None:
                    return
                conn.send(*(message if isinstance(message, tuple) else (message,)))
            if close:
                conn.finish()
            else:
                conn.drain()
        self.play = play

    def conn(self, index):
        """The connection with this number (0 is the first), once it is here."""
        until = time.monotonic() + 20
        while len(self.conns) <= index:
            assert time.monotonic() < until, "nobody came"
            time.sleep(0.002)
        return self.conns[index]

    def received(self, index=-1):
        """What a connection received, once it has ended; without a number, the newest."""
        conn = self.conn(index if index >= 0 else max(len(self.conns) - 1, 0))
        until = time.monotonic() + 20
        while not conn.ended:
            assert time.monotonic() < until, "the connection to the origin is still open"
            time.sleep(0.002)
        return conn.received
