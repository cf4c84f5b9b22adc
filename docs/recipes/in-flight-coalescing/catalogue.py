"""A slow service of products: an answer takes a second. It counts what it is asked, and writes its address to a file."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PRODUCTS = {f"lamp-{number}": {"name": f"Lamp {number}", "price": 10 + number} for number in range(1, 1001)}
reads = 0
counting = threading.Lock()


class Catalogue(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global reads
        if self.path == "/keys":
            return self.answer(200, "".join(f"{key}\n" for key in PRODUCTS), "text/plain")
        if self.path == "/reads":
            return self.answer(200, f"{reads}\n", "text/plain")
        with counting:
            reads += 1
        time.sleep(1)
        product = PRODUCTS.get(self.path.removeprefix("/products/"))
        self.answer(200 if product else 404, json.dumps(product), "application/json")

    def answer(self, status, text, kind):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


server = Server(("127.0.0.1", 0), Catalogue)
with open("catalogue.url", "w") as file:
    file.write(f"http://127.0.0.1:{server.server_port}\n")
server.serve_forever()
