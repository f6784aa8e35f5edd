"""What real clients ask for, run inside the origin's namespace: shop.py CERT KEY FOLDER READY_FILE

TLS on 9443 and clear HTTP on 9080 serve the files of FOLDER, git repositories below /git/ by git's own backend, a redirect to X at /to/X and to
host H at /via/H/path, container images at /v2/ whose blobs each lie on a host of their own, a WebSocket echo at /echo, and /hold/X that is answered
only when /let-go/X was asked for. Standard library only."""
import base64
import hashlib
import http.server
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
from pathlib import Path

TLS_PORT, CLEAR_PORT = 9443, 9080
HOLD_S = 30
holds = {}


class Shop(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder = None

    def __init__(self, *words):
        super().__init__(*words, directory=str(self.folder))

    def log_message(self, form, *words):
        print(self.headers.get("Host", "?") if hasattr(self, "headers") else "?", form % words, flush=True)

    def do_GET(self):
        if self.path.startswith("/git/"):
            self.ask_git(b"")
        elif self.path.startswith("/to/"):
            self.redirect(self.path[len("/to/"):])
        elif self.path.startswith("/via/"):
            host, path = self.path.split("/", 3)[2:]
            self.redirect(f"http://{host}.wild.test:{CLEAR_PORT}/{path}")
        elif self.path.startswith("/v2/"):
            self.show_image()
        elif self.path == "/echo":
            self.echo_frames()
        elif self.path.startswith(("/hold/", "/let-go/")):
            self.hold(*self.path.split("/")[1:3])
        else:
            super().do_GET()

    def redirect(self, where):
        self.send_response(302)
        self.send_header("Location", where)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def show_image(self):
        """What a pull asks of a registry: that it is one, a manifest, and where a blob lies."""
        what, _, name = self.path[len("/v2/app/"):].partition("/")
        if what == "blobs":
            digest = name.removeprefix("sha256:")
            return self.redirect(f"https://{digest[:32]}.wild.test:{TLS_PORT}/image/{digest}")
        body = (self.folder / "image/manifest").read_bytes() if what == "manifests" else b"{}"
        self.send_response(200)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Type", "application/vnd.oci.image.manifest.v1+json" if what == "manifests" else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def hold(self, what, name):
        let_go = holds.setdefault(name, threading.Event())
        if what == "hold":
            let_go.wait(HOLD_S)
        else:
            let_go.set()
        self.send_response(204)
        self.end_headers()

    def do_POST(self):
        self.ask_git(self.body())

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        whole = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def ask_git(self, body):
        path, _, query = self.path.partition("?")
        env = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.folder / "git"), "GIT_HTTP_EXPORT_ALL": "1", "GIT_CONFIG_NOSYSTEM": "1",
            "REQUEST_METHOD": self.command, "PATH_INFO": path.removeprefix("/git"), "QUERY_STRING": query, "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "REMOTE_ADDR": self.client_address[0],
            "GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
            "GIT_CONFIG_KEY_1": "http.receivepack", "GIT_CONFIG_VALUE_1": "true",
        }
        said = subprocess.run(["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE, timeout=30, check=False).stdout
        head, _, answer = said.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line]
        status = next((value for name, value in fields if name == "Status"), "200")
        self.send_response(int(status.split()[0]))
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def echo_frames(self):
        """RFC 6455: text frames come back, a close is answered."""
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while len(head := self.rfile.read(2)) == 2:
            size = head[1] & 127
            if size == 126:
                size = struct.unpack(">H", self.rfile.read(2))[0]
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.rfile.read(size)))
            self.wfile.write(head[:1] + (bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size)) + data)
            if head[0] & 15 == 8:
                return


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 256
    context = None

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)

    def get_request(self):
        conn, peer = super().get_request()
        if self.context is not None:  # the handshake is the thread's, with its first read
            conn = self.context.wrap_socket(conn, server_side=True, do_handshake_on_connect=False)
        return conn, peer

    def handle_error(self, request, client_address):
        print("fault", repr(sys.exc_info()[1]), flush=True)


def main():
    cert, key, folder, ready = sys.argv[1:5]
    Shop.folder = Path(folder)
    tls, clear = (Server(("::", port), Shop) for port in (TLS_PORT, CLEAR_PORT))
    tls.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.context.load_cert_chain(cert, key)
    threading.Thread(target=clear.serve_forever, daemon=True).start()
    Path(ready).write_text("ready", encoding="ascii")
    tls.serve_forever()


if __name__ == "__main__":
    main()
