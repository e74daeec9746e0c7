"""A receiver of events: appends each one to a file as JSON after the package `standardwebhooks` has verified it.

`receiver.py PORT FILE` reads the secret from TUNESMITH_WEBHOOK_SECRET. `receiver.py PORT stall` accepts requests, and
sends its responses one byte at a time, without an end.
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook

PORT, FILE = int(sys.argv[1]), sys.argv[2]


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if FILE == "stall":
            return self.stall()
        try:
            event = Webhook(os.environ["TUNESMITH_WEBHOOK_SECRET"]).verify(body, dict(self.headers))
        except Exception as error:
            event = {"error": repr(error)}
        with open(FILE, "a") as file:
            file.write(json.dumps({"id": self.headers["webhook-id"], **event}) + "\n")
        self.send_response(400 if "error" in event else 204)
        self.end_headers()

    def stall(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        try:
            while True:
                self.wfile.write(b"x")
                self.wfile.flush()
                time.sleep(0.5)
        except OSError:
            pass

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Receiver).serve_forever()
