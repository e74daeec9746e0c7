"""The server, the name server and the attempts of tests/agent_roots.sh."""

import http.server
import json
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

ROOTS = pathlib.Path(sys.argv[1])
NAME = "tunesmith.tuning.svc.cluster.local"
RESOLV_CONF = "search tuning.svc.cluster.local svc.cluster.local cluster.local\nnameserver 127.0.0.1\noptions ndots:5\n"
ends, questions = [], []


class Server(http.server.BaseHTTPRequestHandler):
    """Accepts every report."""

    def do_POST(self):
        report = json.loads(self.rfile.read(int(self.headers["content-length"])))
        logs = [
            {"task": log["task"], "stream": log["stream"], "nextOffset": str(int(log["offset"]) + len(decoded(log)))}
            for log in report.get("logs", [])
        ]
        if "end" in report:
            ends.append(report["end"])
        answer = {"nextMeasurement": "0", "logs": logs, "command": "CONTINUE", "ended": "end" in report}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def decoded(log):
    import base64

    return base64.b64decode(log["data"])


def resolve():
    """Answers questions for the IPv4 address of NAME. Other names do not exist."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))

    def run():
        while True:
            query, client = server.recvfrom(4096)
            labels, position = [], 12
            while query[position]:
                labels.append(query[position + 1 : position + 1 + query[position]].decode())
                position += 1 + query[position]
            question = query[12 : position + 5]
            name, (kind,) = ".".join(labels), struct.unpack(">H", query[position + 1 : position + 3])
            questions.append(name)
            is_known = name.lower() == NAME
            answers = [b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 5, 4) + b"\x7f\0\0\1"] if is_known and kind == 1 else []
            flags = 0x8180 if is_known else 0x8183
            server.sendto(query[:2] + struct.pack(">HHHHH", flags, 1, len(answers), 0, 0) + question + b"".join(answers), client)

    threading.Thread(target=run, daemon=True).start()


def serve(port, certificate=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Server)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def certificates(folder):
    """A private authority, and a certificate of it for the name of the service."""
    openssl = lambda *arguments: subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2")
    openssl("req", *new, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server")
    (folder / "extensions").write_text("subjectAltName=DNS:tunesmith.tuning.svc,DNS:server.test\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "server.pem",
            "-days", "2", "-extfile", "extensions")


def attempt(root, address, **variables):
    """Runs an attempt in `root`, and returns the exit code, standard error, and the seconds that it took."""
    spool = root / "tmp/spool"
    shutil.rmtree(spool, ignore_errors=True)
    program = {"Command": {"argv": ["/bin/sh", "-c", "echo ran; exit 7"]}}
    spec = {
        "id": {"job": "p/j", "trial": 1, "attempt": 1}, "replicas": [{"role": "Master", "index": 0, "program": program}],
        "training_input": None, "master_is_chief": False, "environment": {}, "working_directory": ".", "directory": "/d",
        "server": {"address": address, "token": "t"}, "time_limit": None, "grace": {"secs": 5, "nanos": 0},
    }
    (root / "tmp/spec.json").write_text(json.dumps({"format": 1, "spec": spec}))
    command = ["/usr/sbin/chroot", root, "/tunesmith-agent", "agent", "--spec", "/tmp/spec.json", "--spool", "/tmp/spool"]
    command += ["--interval-ms", "50", "--out-of-reach", "3"]
    started = time.monotonic()
    done = subprocess.run(command, env={"PATH": "/bin:/usr/bin", **variables}, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr, time.monotonic() - started


def check(root, case, address, code=0, text="", **variables):
    ends.clear()
    questions.clear()
    found, errors, elapsed = attempt(root, address, **variables)
    good = found == code and text in errors and (ends == [{"exitCode": 7}] or code != 0)
    print(f"{'ok' if good else 'FAILED'}: {root.name}: {case}: exit code {found}, {elapsed:.2f} s, ends {ends}, questions {sorted(set(questions))}")
    if not good:
        print(errors)
    return good


resolve()
certificates(ROOTS)
serve(8080)
serve(443, (ROOTS / "server.pem", ROOTS / "server.key"))
good = True
for root in [ROOTS / "debian11", ROOTS / "busybox"]:
    (root / "etc/hosts").write_text("127.0.0.1 server.test\n")
    (root / "etc/resolv.conf").write_text(RESOLV_CONF)
    (root / "ca.pem").write_text((ROOTS / "ca.pem").read_text())
    good &= check(root, "name in /etc/hosts", "http://server.test:8080")
    good &= not questions
    good &= check(root, "name in DNS", "http://tunesmith.tuning.svc:8080")
    good &= check(root, "unknown name", "http://absent.test:8080", 4, "never reached")
    good &= check(root, "private authority", "https://tunesmith.tuning.svc", TUNESMITH_CA_FILE="/ca.pem")
    good &= check(root, "authority that is not trusted", "https://server.test", 4, "never reached")
sys.exit(0 if good else 1)
