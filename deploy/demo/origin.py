"""The demonstration's Internet: a TLS origin on 443 and a plain one on 80. origin.py CERT KEY READY_FILE"""
import http.server
import ssl
import sys
import threading


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"hello from the Internet\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


cert, key, ready = sys.argv[1:4]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
secure = http.server.ThreadingHTTPServer(("93.184.215.14", 443), Hello)
secure.socket = context.wrap_socket(secure.socket, server_side=True)
plain = http.server.ThreadingHTTPServer(("93.184.215.14", 80), Hello)
threading.Thread(target=plain.serve_forever, daemon=True).start()
with open(ready, "w", encoding="ascii") as file:
    file.write("ready")
secure.serve_forever()
