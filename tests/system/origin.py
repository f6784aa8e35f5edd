"""The Internet of the tests, run inside the origin's namespace: origin.py CERT KEY READY_FILE

TLS on 443, clear HTTP on 80, an echo on 7000, a talker on 7001 (speaks first), a sink on 7002 (counts, then answers), a source on
7003 (endless bytes), a resetter on 7004, a tree of half-closes on 7005. Standard library only; every connection is a thread."""
import os
import socket
import ssl
import struct
import sys
import threading

from netns import Net

ADDRESSES = [*Net.ORIGIN4, Net.ORIGIN6]


def say(*words):
    print(*words, flush=True)


def answer_http(conn, scheme):
    data = b""
    while b"\r\n\r\n" not in data:
        more = conn.recv(65536)
        if not more:
            return
        data += more
    head = data.split(b"\r\n\r\n")[0].decode("latin-1")
    say("request", scheme, repr(head.split("\r\n")[0]))
    path = head.split(" ")[1]
    body = f"{scheme} {path}\n".encode()
    if path.startswith("/bytes/"):
        body = b"x" * int(path.split("/")[2])
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)


def echo(conn):
    while data := conn.recv(65536):
        conn.sendall(data)
    conn.shutdown(socket.SHUT_WR)


def talk(conn):
    conn.sendall(b"220 the server speaks first\r\n")
    echo(conn)


def sink(conn):
    count = 0
    while data := conn.recv(1 << 20):
        count += len(data)
    conn.sendall(b"%d\n" % count)
    conn.shutdown(socket.SHUT_WR)


def source(conn):
    block = b"s" * 65536
    while True:
        conn.sendall(block)


def reset(conn):
    conn.recv(1)
    conn.sendall(b"some")
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def half(conn):
    """The first byte says how: c close in order at once, h half-close then read on, w wait for the guest's end then send, r reset."""
    how = conn.recv(1)
    if how == b"h":
        conn.sendall(b"half")
        conn.shutdown(socket.SHUT_WR)
        rest = b""
        while data := conn.recv(65536):
            rest += data
        say("half", len(rest))
    elif how == b"w":
        while conn.recv(65536):
            pass
        conn.sendall(b"late")
    elif how == b"r":
        reset(conn)


def serve(listener, handler, wrap=None):
    while True:
        conn, peer = listener.accept()
        threading.Thread(target=one, args=(conn, peer, handler, wrap), daemon=True).start()


def one(conn, peer, handler, wrap):
    try:
        say("accept", listener_port(conn), peer[0], peer[1])
        if wrap is not None:
            conn = wrap(conn)
        handler(conn)
    except (OSError, ssl.SSLError, ValueError, IndexError) as fault:
        say("fault", type(fault).__name__)
    finally:
        conn.close()


def listener_port(conn):
    return conn.getsockname()[1]


def main():
    cert, key, ready = sys.argv[1:4]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.sni_callback = lambda sock, name, ctx: say("sni", name)
    services = {
        80: (lambda c: answer_http(c, "http"), None),
        443: (lambda c: answer_http(c, "https"), lambda c: context.wrap_socket(c, server_side=True)),
        8443: (lambda c: answer_http(c, "https"), lambda c: context.wrap_socket(c, server_side=True)),
        7000: (echo, None), 7001: (talk, None), 7002: (sink, None),
        7003: (source, None), 7004: (reset, None), 7005: (half, None),
    }
    for port, (handler, wrap) in services.items():
        for address in ADDRESSES:
            listener = socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=1024)
            threading.Thread(target=serve, args=(listener, handler, wrap), daemon=True).start()
    with open(ready, "w", encoding="ascii") as file:
        file.write("ready")
    threading.Event().wait()


if __name__ == "__main__":
    os.environ.pop("PYTHONWARNINGS", None)
    main()
