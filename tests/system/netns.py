"""Network namespaces: make hosts joined by veth, and open sockets inside them from this process."""
import ctypes
import os
import subprocess
import threading
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def run(*words, check=True, **options):
    done = subprocess.run([str(w) for w in words], text=True, capture_output=True, timeout=options.pop("timeout", 60), **options)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def _setns(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns " + path)
    finally:
        os.close(fd)


@contextmanager
def inside(namespace):
    """Sockets made here belong to `namespace` for life. Only this thread moves."""
    own = f"/proc/self/task/{threading.get_native_id()}/ns/net"
    home = os.open(own, os.O_RDONLY | os.O_CLOEXEC)
    _setns("/run/netns/" + namespace)
    try:
        yield
    finally:
        if _libc.setns(home, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns back")
        os.close(home)


class Net:
    """Two guests, a proxy and the Internet. The proxy's namespace holds no origin's address: it would be an own address."""

    GUESTS = {"guest": "10.200.0", "guest2": "10.200.1"}
    ORIGIN4 = ["93.184.215.14", "93.184.215.15", "93.184.215.16"]
    SCRIPTED4 = "93.184.215.17"  # nothing listens there but what a test scripts
    ORIGIN6 = "2606:2800:21f:cb07::14"
    PROXY_PUBLIC4 = "93.184.215.1"
    PROXY_PUBLIC6 = "2606:2800:21f:cb07::1"
    BLACK_HOLE4 = "93.184.216.50"

    def __init__(self, prefix):
        self.prefix = prefix
        self.names = [*self.GUESTS, "proxy", "origin"]

    def ns(self, name):
        return f"{self.prefix}-{name}"

    def up(self):
        self.down()
        for name in self.names:
            run("ip", "netns", "add", self.ns(name))
            run("ip", "-n", self.ns(name), "link", "set", "lo", "up")
        for i, (guest, net) in enumerate(self.GUESTS.items()):
            self._join(guest, f"g{i}", f"p{i}")
            run("ip", "-n", self.ns(guest), "addr", "add", f"{net}.2/24", "dev", f"g{i}")
            run("ip", "-n", self.ns("proxy"), "addr", "add", f"{net}.1/24", "dev", f"p{i}")
            run("ip", "-n", self.ns(guest), "route", "add", "default", "via", f"{net}.1")
            run("ip", "-n", self.ns(guest), "-6", "addr", "add", f"fd77:{i}::2/64", "dev", f"g{i}", "nodad")
            run("ip", "-n", self.ns("proxy"), "-6", "addr", "add", f"fd77:{i}::1/64", "dev", f"p{i}", "nodad")
        self._join("origin", "o0", "px")
        for address in [*self.ORIGIN4, self.SCRIPTED4]:
            run("ip", "-n", self.ns("origin"), "addr", "add", f"{address}/24", "dev", "o0")
        run("ip", "-n", self.ns("origin"), "-6", "addr", "add", f"{self.ORIGIN6}/64", "dev", "o0", "nodad")
        run("ip", "-n", self.ns("proxy"), "addr", "add", f"{self.PROXY_PUBLIC4}/24", "dev", "px")
        run("ip", "-n", self.ns("proxy"), "-6", "addr", "add", f"{self.PROXY_PUBLIC6}/64", "dev", "px", "nodad")
        run("ip", "-n", self.ns("proxy"), "route", "add", "default", "via", self.ORIGIN4[0])
        run("ip", "-n", self.ns("proxy"), "-6", "route", "add", "default", "via", self.ORIGIN6)
        run("ip", "-n", self.ns("origin"), "route", "add", "default", "via", self.PROXY_PUBLIC4)
        run("ip", "-n", self.ns("origin"), "route", "add", "blackhole", "93.184.216.0/24")
        run("ip", "netns", "exec", self.ns("origin"), "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for name in self.names:
            run("ip", "netns", "exec", self.ns(name), "sysctl", "-qw", "net.ipv4.ip_local_port_range=20000 65000")

    def _join(self, host, here, there):
        run("ip", "-n", self.ns(host), "link", "add", here, "type", "veth", "peer", "name", there, "netns", self.ns("proxy"))
        run("ip", "-n", self.ns(host), "link", "set", here, "up")
        run("ip", "-n", self.ns("proxy"), "link", "set", there, "up")

    def down(self):
        for name in self.names:
            run("ip", "netns", "del", self.ns(name), check=False)

    def inside(self, name):
        return inside(self.ns(name))

    def popen(self, name, *words, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.ns(name), *map(str, words)], **options)

    def run(self, name, *words, **options):
        return run("ip", "netns", "exec", self.ns(name), *words, **options)
