# The worker in a pod: files and requests come from the server over HTTP, since the pod has no port of its own.
#
# Each message is a line of JSON and the content. A worker sends `start`, then `ready` or `failed`, then `poll` or `reply`;
# the response to the last three is a request, or nothing after a while.

import http.client
import random
import signal
import ssl
import subprocess
import time
import urllib.parse

# Longest time without a byte of a response. The server answers after 20 s at most.
RESPONSE_SECONDS = 60

# Bounds of the pause between attempts to reach the server.
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0

MAX_REPLY = 64 << 20
CHUNK = 1 << 20


class Server:
    """The server of this worker, over one connection at a time."""

    def __init__(self, url, token, name, start):
        address = urllib.parse.urlsplit(url)
        self.address, self.path = address, address.path
        self.headers = {"authorization": "Bearer " + token, "content-type": "application/octet-stream"}
        self.name, self.start = name, start
        self.connection = None

    def open(self):
        if self.connection is None:
            host, port = self.address.hostname, self.address.port
            if self.address.scheme == "https":
                context = ssl.create_default_context(cafile=os.environ.get("TUNESMITH_CA_FILE") or None)
                self.connection = http.client.HTTPSConnection(host, port, timeout=RESPONSE_SECONDS, context=context)
            else:
                self.connection = http.client.HTTPConnection(host, port, timeout=RESPONSE_SECONDS)
        return self.connection

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def until_answered(self, call):
        """The result of `call` with an open connection, which is repeated until the server answers it."""
        pause, is_reported = FIRST_PAUSE, False
        while True:
            try:
                return call(self.open())
            except (OSError, http.client.HTTPException, ValueError) as error:
                # Behind one address, another connection may reach another server.
                self.close()
                if not is_reported and pause > 1:
                    log("the server %s is not reached; trying again: %s" % (self.address.netloc, error))
                    is_reported = True
                time.sleep(pause * random.uniform(0.5, 1))
                pause = min(2 * pause, LONGEST_PAUSE)

    def exchange(self, kind, content=b"", **head):
        """The head and the content of the response; None and nothing without one."""
        head.update(kind=kind, pod=self.name, start=self.start)
        message = json.dumps(head).encode("utf-8") + b"\n" + content

        def call(connection):
            connection.request("POST", self.path + ":exchange", message, self.headers)
            response = connection.getresponse()
            body = response.read()
            if response.status == 204:
                return None, b""
            if response.status != 200:
                raise ValueError("status %d: %s" % (response.status, body[:500].decode("utf-8", "replace")))
            line, _, rest = body.partition(b"\n")
            return json.loads(line.decode("utf-8")), rest

        return self.until_answered(call)

    def download(self, number, path, size):
        def call(connection):
            connection.request("GET", "%s/files/%d" % (self.path, number), headers=self.headers)
            response = connection.getresponse()
            if response.status != 200:
                raise ValueError("status %d: %s" % (response.status, response.read(500).decode("utf-8", "replace")))
            left, file = size, new_file(path)
            with file:
                while True:
                    chunk = response.read(CHUNK)
                    if not chunk:
                        break
                    write(file, chunk)
                    left -= len(chunk)
            if left:
                raise ValueError("%s ended early" % path)

        self.until_answered(call)


class NotWritten(Exception):
    """A file cannot be written, which no other connection helps against."""


def new_file(path):
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Written at once, so that a full disk is not noticed when the file is closed.
        return open(path, "wb", buffering=0)
    except OSError as error:
        raise NotWritten(str(error))


def write(file, chunk):
    view = memoryview(chunk)
    try:
        while view:
            view = view[file.write(view):]
    except OSError as error:
        raise NotWritten(str(error))


def number_of_starts(folder):
    """Counts the starts of the container in its pod, whose volumes outlive it."""
    path = os.path.join(folder, "starts")
    count = 1
    if os.path.exists(path):
        with open(path) as file:
            count = int(file.read() or 0) + 1
    with open(path, "w") as file:
        file.write(str(count))
    return count


def install(folder, settings):
    """Installs the packages of the version. Returns the report of a failure, or None."""
    archives = [os.path.join(folder, path) for path in settings["archives"]]
    target = os.path.join(folder, "packages")
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-cache-dir", "--upgrade"]
    command += ["--target", target] + archives + settings["requirements"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = done.stdout.decode("utf-8", "replace").strip()
    log(output)
    if done.returncode == 0:
        return None
    names = settings.get("packageUris", []) + settings["requirements"]
    packages = ", ".join(name.rsplit("/", 1)[-1] for name in names)
    text = "User-provided package %s failed to install: pip ended with exit status %d" % (packages, done.returncode)
    error = PredictionError(FAILED_TO_LOAD_MODEL, text)
    return {"error": str(error), "code": error.code, "traceback": output[-MAX_TRACEBACK:]}


def prepare(server, folder, settings):
    """Gets the files of the version. Returns the report of a failure, or None."""
    # After a restart of the container, its files are there.
    complete = os.path.join(folder, "complete")
    if os.path.exists(complete):
        return None
    for number, (path, size) in enumerate(settings["files"]):
        server.download(number, os.path.join(folder, path), size)
    if settings["archives"] or settings["requirements"]:
        failed = install(folder, settings)
        if failed is not None:
            return failed
    with open(complete, "w"):
        return None


def serve_from_pod():
    # The first process of a container has no default action for signals.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    folder, work = os.environ["TUNESMITH_WORKER_FILES"], os.environ["TMPDIR"]
    token = os.environ.pop("TUNESMITH_WORKER_TOKEN")
    server = Server(os.environ["TUNESMITH_WORKER_URL"], token, os.environ["TUNESMITH_WORKER_POD"], number_of_starts(folder))
    os.chdir(work)
    settings = server.exchange("start")[0]
    settings["modelDir"] = os.path.join(folder, "model")
    packages = os.path.join(folder, "packages")
    settings["paths"] = [os.path.join(packages, "bin"), packages]
    try:
        failed = prepare(server, folder, settings)
    except Exception as error:
        wrapped = PredictionError(FAILED_TO_LOAD_MODEL, "The files of the model cannot be written: %s" % error)
        failed = {"error": str(wrapped), "code": wrapped.code, "traceback": ""}
    if failed is None:
        configure(settings)
        model, report = loaded(settings)
    else:
        model, report = None, failed
    content = json.dumps(report).encode("utf-8")
    if model is None:
        server.exchange("failed", content)
        while True:
            # The server removes the pod; an end would be a restart.
            signal.pause()
    head, body = server.exchange("ready", content)
    while True:
        if head is None:
            head, body = server.exchange("poll")
            continue
        reply, is_success = answer(model, body)
        if len(reply) > MAX_REPLY:
            text = "Prediction failed: the response has %d bytes; up to %d are allowed" % (len(reply), MAX_REPLY)
            reply, is_success = encoded({"error": text}), False
        head, body = server.exchange("reply", reply, request=head["request"], success=is_success, last=bool(exhausted))
        if exhausted:
            log("the worker ends: it has reached its memory limit")
            os._exit(1)
