"""How long what is open stays open: tunnels.py PROXY COUNT [FILE-TO-REMOVE]. Opens tunnels to hello.test:80; with a file, removes it; waits for every end."""
import os
import select
import socket
import struct
import sys
import time

WAIT_S = 90


def tunnel(proxy):
    s = socket.create_connection((proxy, 1080), 10)
    s.sendall(b"\x05\x01\x00")
    assert s.recv(2) == b"\x05\x00", "not greeted"
    s.sendall(b"\x05\x01\x00\x03\x0ahello.test" + struct.pack(">H", 80))
    reply = s.recv(64)
    assert reply[1:2] == b"\x00", f"refused: {reply!r}"
    return s


def ended(s):
    """Read what came; true at the end."""
    try:
        return not s.recv(65536)
    except ConnectionResetError:
        return True


open_ones = {tunnel(sys.argv[1]) for _ in range(int(sys.argv[2]))}
print(f"{len(open_ones)} tunnels are open", flush=True)
began = time.monotonic()
if len(sys.argv) > 3:
    os.unlink(sys.argv[3])
while open_ones and time.monotonic() - began < WAIT_S:
    for s in select.select(list(open_ones), [], [], 1)[0]:
        if ended(s):
            open_ones.discard(s)
took = time.monotonic() - began
if open_ones:
    sys.exit(f"{len(open_ones)} tunnels are still open after {took:.0f} s")
print(f"all were closed after {took * 1000:.0f} ms" if took < 2 else f"all were closed after {took:.1f} s")
