"""ClientHellos for tests: built field by field, so that each can be wrong in just one way; and real handshakes over a SOCKS tunnel."""
import os
import ssl
import struct

ALERT, HANDSHAKE, CHANGE_CIPHER = 21, 22, 20
ACCESS_DENIED, UNRECOGNIZED_NAME = 49, 112
# RFC 8446 section 4.1.3: the random of a HelloRetryRequest
RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


def vector(size, data):
    return len(data).to_bytes(size, "big") + data


def record(kind, data):
    return bytes([kind, 3, 1]) + vector(2, data)


def extension(kind, data):
    return struct.pack(">H", kind) + vector(2, data)


def server_name(*names):
    return extension(0, vector(2, b"".join(b"\x00" + vector(2, n.encode()) for n in names)))


def hello(*names, extra=b"", extensions=None, share=1216):
    """The handshake message. A key share of 1216 bytes is what browsers send today (X25519MLKEM768)."""
    if extensions is None:
        extensions = (extension(0x2A2A, b"") + (server_name(*names) if names else b"") + extension(43, b"\x04\x03\x04\x03\x03")
                      + extension(10, b"\x00\x04\x11\xec\x00\x1d") + extension(13, b"\x00\x04\x04\x03\x08\x04")
                      + extension(51, vector(2, b"\x11\xec" + vector(2, os.urandom(share)))) + extra)
    body = (b"\x03\x03" + os.urandom(32) + vector(1, os.urandom(32)) + vector(2, b"\x2a\x2a\x13\x01\x13\x02\xc0\x2f")
            + vector(1, b"\x00") + vector(2, extensions))
    return b"\x01" + vector(3, body)


def flight(message, record_size=16384):
    """The message in records of at most `record_size` bytes."""
    return b"".join(record(HANDSHAKE, message[i:i + record_size]) for i in range(0, len(message), record_size))


def retry_request(session=b""):
    body = b"\x03\x03" + RETRY_RANDOM + vector(1, session) + b"\x13\x01\x00" + vector(2, extension(43, b"\x03\x04") + extension(51, b"\x00\x17"))
    return record(HANDSHAKE, b"\x02" + vector(3, body)) + record(CHANGE_CIPHER, b"\x01")


def fetch(s, name, ca, path="/", one_by_one=False):
    """A real TLS client over an open tunnel: GET `path`, the body."""
    context = ssl.create_default_context(cafile=str(ca))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)

    def drive(step):
        nonlocal one_by_one
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                result = None
            if outgoing.pending:
                s.send(outgoing.read(), one_by_one)
                one_by_one = False
            if result is not None:
                return result
            data = s.sock.recv(65536)
            if not data:
                raise EOFError("the tunnel ended")
            incoming.write(data)

    drive(lambda: tls.do_handshake() or True)
    drive(lambda: tls.write(f"GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode()))
    answer = b""
    while b"\r\n\r\n" not in answer or not answer.split(b"\r\n\r\n", 1)[1]:
        answer += drive(lambda: tls.read(65536))
    return answer.split(b"\r\n\r\n", 1)[1].decode()
