"""A sidecar in the tests' hands: segments and roots byte by byte, the control page, the slots; for what the real one never says."""
import array
import fcntl
import hashlib
import mmap
import os
import re
import socket
import struct
import time

from lab import HERE, wait_for

SOURCE = HERE.parent.parent / "src"
TYPES = re.findall(r'^CTL_MSG\((\w+), "\w+", .*?, "(\w*)", (?:true|false)\)', (SOURCE / "wire" / "ctl_msg.def").read_text(), re.M)
FIELDS = dict(TYPES)
NUMBERS = {name: i for i, (name, _) in enumerate(TYPES)}
WORDS = [name for name, _ in TYPES]
VERSION = int(re.search(r"CTL_MSG_VERSION (\d+)", (SOURCE / "wire" / "ctl_msg.h").read_text())[1])
ABI = int(re.search(r"LAYOUT_ABI (\d+)", (SOURCE / "image" / "layout.h").read_text())[1])
(STRINGS, RULES, PORTS, _, _, _, GROUPS, PREFIXES, REFS, ANY_REFS, LEASES, _, TOKENS, _, _, ROOT_LEASES, ROOT_INFO) = range(17)
LEASE, CEILING, ROOT = 2, 3, 4
TCP, SCHEME_KNOWN = 4, 8
NAME_HOST, PREFIX_HOST, ANY_HOST = 0, 2, 3
LIVE, OPEN, CLOSED = 2, 1, 0
GONE = bytes(32)


def segment(kind, tables):
    """Tables by number, each (bytes, records), to a segment."""
    body, spans, at = b"", [(0, 0)] * 17, 168
    for number in sorted(tables):
        data, count = tables[number]
        if count:
            spans[number] = (at + len(body), count)
            body += data + bytes(-len(data) % 8)
    head = struct.pack("<IHHIIQQ", 0x31736765, ABI, kind, at + len(body), 0, 1, 2)
    return head + b"".join(struct.pack("<II", *span) for span in spans) + body


def text(strings, word):
    """Where the word stands in the strings, to which it is added."""
    strings += word.encode() + b"\0"
    return struct.pack("<II", len(strings) - len(word) - 1, len(word))


def rule(host, *, flags=0, scheme=0, address=None, ports=0):
    octets = socket.inet_aton(address) if address else b""
    return struct.pack("<24xIIBBBBBBH16s8xIIII", 0, 1, flags, scheme, host, 0, 4 if address else 0, 32 if address else 0, 0, octets, 0, ports, 0, 0)


def ceiling(is_open=True):
    """Allows any, or nothing."""
    return segment(CEILING, {RULES: (rule(ANY_HOST), 1), ANY_REFS: (struct.pack("<I", 0), 1)} if is_open else {})


def lease(name, token, rev=1, target=("93.184.215.14", 7000)):
    """A lease by token that allows one address and port, or nothing."""
    strings = bytearray()
    record = text(strings, name) + bytes(32) + struct.pack("<QQQQBBBBI", rev, 0, 0, 0, 1, 3, 4, 0, 0) + bytes(80 + 8)
    tables = {LEASES: (record, 1), TOKENS: (hashlib.sha256(token.encode()).digest() + struct.pack("<QII", 0, 0, 0), 1)}
    if target:
        tables[RULES] = rule(PREFIX_HOST, flags=SCHEME_KNOWN, scheme=TCP, address=target[0], ports=1), 1
        tables[PORTS] = struct.pack("<HH", target[1], target[1]), 1
        tables[GROUPS] = struct.pack("<BBHII", 4, 32, 0, 0, 1), 1
        tables[PREFIXES] = socket.inet_aton(target[0]) + bytes(12) + struct.pack("<II", 0, 1), 1
        tables[REFS] = struct.pack("<I", 0), 1
    return segment(LEASE, {**tables, STRINGS: (bytes(strings), len(strings))})


def root(version, base, ceiling_id, named):
    """`named` are ids with segment ids, or GONE."""
    strings = bytearray()
    leases = b"".join(text(strings, name) + named[name] for name in sorted(named))
    info = struct.pack("<QQ32sII", version, base, ceiling_id, 0, 0)
    return segment(ROOT, {STRINGS: (bytes(strings), len(strings)), ROOT_LEASES: (leases, len(named)), ROOT_INFO: (info, 1)})


def sealed(data):
    fd = os.memfd_create("segment", os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return fd


def ident(data):
    return hashlib.sha256(data).digest()


class Publisher:
    """Connected to the daemon of `e`, which has no other sidecar; guests come to `door`, a unix socket."""

    def __init__(self, e):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(20)
        wait_for(lambda: self.sock.connect_ex(str(e.control)) == 0)
        self.slots, self.version, self.told = {}, 0, []
        self.send("HELLO", VERSION, "sidecar", "tests")
        fields, fd = self.hear("WELCOME")
        self.page = mmap.mmap(fd, os.fstat(fd).st_size)
        os.close(fd)
        self.stay_live()
        self.door = str(e.folder / "door.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(self.door)
        listener.listen(64)
        self.send("LISTENER", "door", "unix", 0xFFFFFFFF, 0, fd=listener.fileno())
        listener.close()
        self.send("READY")
        wait_for(lambda: "event=handed_over" in e.log())

    def close(self):
        self.sock.close()
        self.page.close()

    def stay_live(self):
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        struct.pack_into("<QQQ", self.page, 8, now + 100 * 10**9, now + 200 * 10**9, LIVE)

    def set_slot(self, name, state):
        struct.pack_into("<Q", self.page, 32 + 16 * self.slots[name][0] + 8, state)

    def send(self, word, *fields, fd=None):
        packet = struct.pack(">HH", VERSION, NUMBERS[word])
        for kind, field in zip(FIELDS[word], fields):
            data = field.encode() if isinstance(field, str) else field
            packet += struct.pack(">Q", field) if kind == "u" else struct.pack(">I", len(data)) + data
        ancillary = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        self.sock.sendmsg([packet], ancillary)

    def hear(self, *words):
        """The next message of these: its fields, and what travelled with it. Slots on the way are kept."""
        while True:
            packet, ancillary, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(4))
            assert packet, "the daemon hung up"
            fd = struct.unpack("i", ancillary[0][2])[0] if ancillary else None
            word, at, fields = WORDS[struct.unpack_from(">H", packet, 2)[0]], 4, [None]
            for kind in FIELDS[word]:
                if kind == "u":
                    fields.append(struct.unpack_from(">Q", packet, at)[0])
                    at += 8
                else:
                    size = struct.unpack_from(">I", packet, at)[0]
                    fields.append(packet[at + 4:at + 4 + size])
                    at += 4 + size
            fields[0] = word
            if word == "SLOTS":
                for line in fields[2].decode().splitlines():
                    slot, generation, name = line.split()
                    self.slots[name] = int(slot), int(generation)
                    self.told.append(name)
            if word in words:
                return fields, fd
            if fd is not None:
                os.close(fd)

    def _send_sealed(self, data, word, field):
        fd = sealed(data)
        self.send(word, field, fd=fd)
        os.close(fd)

    def send_segment(self, data):
        self._send_sealed(data, "SEGMENT", ident(data))
        return ident(data)

    def publish(self, named, base=None, over=None, send=True):
        """
        A root of changes (base 0: complete) over the last one adopted: names with segments, None for what is gone. Returns None once it is
        adopted and its slots are open, or the daemon's words against it.
        """
        over = ceiling() if over is None else over
        base = self.version if base is None else base
        for data in [over, *(d for d in named.values() if d is not None)] if send else []:
            self.send_segment(data)
        version = max(self.version, base) + 1
        ids = {name: GONE if data is None else ident(data) for name, data in named.items()}
        self.told = []
        self._send_sealed(root(version, base, ident(over), ids), "ROOT", version)
        fields, _ = self.hear("ACK", "NACK")
        assert fields[1] == version
        if fields[0] == "NACK":
            return fields[2].decode()
        self.version = version
        for name, data in named.items():
            if name in self.slots:
                self.set_slot(name, CLOSED if data is None else OPEN)
            if data is None:
                self.slots.pop(name, None)
        return None
