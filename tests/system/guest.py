"""Clients as a person starts them: programs in the first guest's namespace, the shop they ask, and a door for those that speak no SOCKS."""
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from lab import HERE, wait_for
from shop import CLEAR_PORT, TLS_PORT
from socks import OK, Socks

SOURCE = "lease ls_person\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\n"


class Shop:
    """shop.py among the origins; what is put below `folder` is served as https://NAME.wild.test:9443/ and http://NAME.wild.test:9080/."""

    def __init__(self, lab, folder):
        self.folder = folder / "shop"
        self.folder.mkdir()
        ready = folder / "ready"
        self.log = open(folder / "shop.log", "w", encoding="utf-8")
        self.process = lab.net.popen("origin", "/usr/bin/python3", HERE / "shop.py", lab.folder / "origin.pem", lab.folder / "origin.key",
                                     self.folder, ready, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        wait_for(ready.exists)

    def said(self):
        return Path(self.log.name).read_text()

    @staticmethod
    def tls(name, path=""):
        return f"https://{name}.wild.test:{TLS_PORT}/{path}"

    @staticmethod
    def clear(name, path=""):
        return f"http://{name}.wild.test:{CLEAR_PORT}/{path}"

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Person:
    """Types commands in the guest's namespace, at home in a folder of its own."""

    def __init__(self, lab, folder):
        self.lab, self.home, self.ca = lab, folder, lab.folder / "ca.pem"

    def types(self, *words, env=None, **options):
        """Run a client; it has a minute, and nothing of our own home or language."""
        return self.lab.net.run("guest", *words, check=False, timeout=60, cwd=self.home, env={**self.env(), **(env or {})}, **options)

    def env(self):
        """The guest has no resolver; who asks all the same shall not wait long for nobody."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", "TMPDIR": str(self.home), "RES_OPTIONS": "timeout:1 attempts:1"}

    def talks(self, *words, say, until):
        """Type `say` into a client that then waits for more; what it printed up to a line with `until`, or to its end."""
        client = self.lab.net.popen("guest", *words, text=True, cwd=self.home, env=self.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT)
        watchdog = threading.Timer(60, client.kill)
        watchdog.start()
        said = ""
        try:
            client.stdin.write(say)
            client.stdin.flush()
            for line in client.stdout:
                said += line
                if until in line:
                    break
            return said
        finally:
            watchdog.cancel()
            client.kill()
            client.communicate()

    def curl(self, url, *words, proxy="socks5h://10.200.0.1:1080"):
        return self.types("curl", "-sS", "--max-time", "20", "--cacert", self.ca, "-x", proxy, *words, url)


def needs(program):
    """Not every Debian that runs these tests has every client."""
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"no {program} here")


class Forwarder:
    """A port on the guest's own loopback that leads through the proxy to one destination."""

    def __init__(self, lab, host, port):
        self.lab, self.host, self.port_there, self.replies = lab, host, port, []
        with lab.net.inside("guest"):
            self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def serve(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.one, args=(conn,), daemon=True).start()

    def one(self, conn):
        with conn, Socks(self.lab, timeout=60) as s:
            self.replies.append(s.open(self.host, self.port_there))
            if self.replies[-1] == OK:
                back = threading.Thread(target=pump, args=(s.sock, conn), daemon=True)
                back.start()
                pump(conn, s.sock)
                back.join(60)


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
