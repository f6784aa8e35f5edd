"""An origin whose every byte is the test's: a socket in the origin's namespace that this process reads and writes."""
import socket
import threading


class Origin:
    """One scripted connection: a socket in the origin's namespace that this test reads and writes."""

    def __init__(self, lab, port=7100):
        with lab.net.inside("origin"):
            self.listener = socket.create_server(("93.184.215.15", port))
        self.listener.settimeout(10)
        self.conn = None
        self.thread = threading.Thread(target=self._accept)
        self.thread.start()

    def _accept(self):
        self.conn, _ = self.listener.accept()
        self.conn.settimeout(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        if self.conn:
            self.conn.close()

    def got(self, count):
        self.thread.join()
        data = b""
        while len(data) < count:
            more = self.conn.recv(count - len(data))
            if not more:
                break
            data += more
        return data

    def is_silent(self):
        """Nothing came, and the connection is over or quiet."""
        self.thread.join()
        self.conn.settimeout(0.5)
        try:
            return self.conn.recv(1) == b""
        except (TimeoutError, ConnectionResetError):
            return True
