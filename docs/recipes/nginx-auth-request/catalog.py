"""A service of products that knows nothing of gates: GET, PUT, POST and DELETE, kept in memory. python3 catalog.py PORT"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

PRODUCTS = {f"sku-{number}": f"product {number}\n" for number in range(1, 101)}


class Catalog(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def key(self):
        return unquote(self.path.removeprefix("/products").strip("/"))

    def do_GET(self):
        if self.path == "/keys":
            return self.answer(200, "".join(f"{key}\n" for key in PRODUCTS))
        product = PRODUCTS.get(self.key()) if self.path.startswith("/products/") else None
        self.answer(200 if product else 404, product or "the catalog has no such product\n")

    def do_PUT(self):
        PRODUCTS[self.key()] = self.rfile.read(int(self.headers["content-length"])).decode()
        self.answer(201, "")

    def do_POST(self):
        key = f"new-{len(PRODUCTS)}"
        PRODUCTS[key] = self.rfile.read(int(self.headers["content-length"])).decode()
        self.answer(201, "", location=f"/products/{key}")

    def do_DELETE(self):
        self.answer(204 if PRODUCTS.pop(self.key(), None) else 404, "")

    def answer(self, status, text, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Catalog).serve_forever()
