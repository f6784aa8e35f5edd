"""Proxies of a fleet that only listen: watchers.py PORT CELL... Each watches what a sidecar watches. Says "ready" once all watches stand; on a
line of standard input, how many bytes have come since the last one; ends with standard input."""
import base64
import hashlib
import json
import os
import select
import socket
import sys


def request(cell):
    group = hashlib.sha256(cell.encode()).digest()[0] % 32
    lines = b""
    for key, end in (("keyset", ""), (f"c/{cell}/", f"/egress/v1/c/{cell}0"), (f"beat/{group}", "")):
        create = {"key": base64.b64encode(f"/egress/v1/{key}".encode()).decode(), "range_end": base64.b64encode(end.encode()).decode(), "progress_notify": True}
        lines += json.dumps({"create_request": create}).encode() + b"\n"
    return (b"POST /v3/watch HTTP/1.1\r\nHost: store\r\nContent-Type: application/json\r\nGrpc-Metadata-hasleader: true\r\n"
            + f"Content-Length: {len(lines)}\r\n\r\n".encode() + lines)


def main():
    port, cells = int(sys.argv[1]), sys.argv[2:]
    wait, sockets, begun, count = select.epoll(), {}, {}, 0
    for cell in cells:
        sock = socket.create_connection(("127.0.0.1", port), 20)
        sock.sendall(request(cell))
        sockets[sock.fileno()], begun[sock.fileno()] = sock, b""
        wait.register(sock, select.EPOLLIN)
    wait.register(0, select.EPOLLIN)
    while True:
        for fd, _ in wait.poll():
            data = os.read(fd, 1 << 18)
            if not data:
                return 0 if fd == 0 else f"a watch of {len(cells)} ended"
            count += len(data) if fd else 0
            if fd == 0:
                print(count, flush=True)
                count = 0
            elif fd in begun:
                begun[fd] += data
                if begun[fd].count(b'"created":true') >= 3:
                    del begun[fd]
                    if not begun:
                        print("ready", flush=True)


if __name__ == "__main__":
    sys.exit(main())
