# The worker process: loads a model, then answers requests.
#
# Messages in both directions are a length of 4 bytes, big-endian, a byte for the kind, and the content. Standard input
# is a stream socket, so that standard output and standard error belong to the model. The first message of the worker
# reports how loading went.

import os
import struct
import warnings

READY = b"r"
FAILED = b"f"
PREDICTIONS = b"p"
ERROR = b"e"


def configure(settings):
    # The folder of `-c`: the current one, with files of the model.
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    sys.path[:0] = settings.get("paths", [])


def loaded(settings):
    """The model, or None, and the report on it."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            model = load(
                settings["modelDir"],
                settings.get("framework", ""),
                settings.get("predictionClass", ""),
                settings.get("packageUris", []),
            )
    except PredictionError as error:
        return None, {"error": str(error), "code": error.code, "traceback": user_traceback(error)}
    except BaseException as error:
        wrapped = PredictionError(FAILED_TO_LOAD_MODEL, "Unexpected error when loading the model: %s: %s" % (
            type(error).__name__, error))
        return None, {"error": str(wrapped), "code": wrapped.code, "traceback": user_traceback(error)}
    report = model.describe()
    texts = []
    for warning in caught:
        text = "%s: %s" % (warning.category.__name__, str(warning.message).strip().splitlines()[0])
        if text not in texts:
            texts.append(text)
    report["warnings"] = texts[:10]
    report["python"] = "%d.%d.%d" % sys.version_info[:3]
    return model, report


def answer(model, body):
    """The reply to a request, and whether it succeeded."""
    try:
        return respond(model, body)
    except RecursionError as error:
        return failure("Prediction failed: %s" % error, error)


def serve(settings):
    channel = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    configure(settings)
    requests = os.fdopen(channel, "rb", buffering=1 << 16)

    def send(kind, content):
        message = memoryview(struct.pack(">I", len(content) + 1) + kind + content)
        while message:
            message = message[os.write(channel, message):]

    model, report = loaded(settings)
    send(FAILED if model is None else READY, json.dumps(report).encode("utf-8"))
    while model is not None:
        head = requests.read(4)
        if len(head) < 4:
            break
        reply, is_success = answer(model, requests.read(struct.unpack(">I", head)[0]))
        send(PREDICTIONS if is_success else ERROR, reply)
        if exhausted:
            log("the worker ends: it has reached its memory limit")
            os._exit(1)
    # Threads of the model must not keep the process.
    os._exit(0)


def once(settings):
    """Answers one request, the content of standard input, on standard output. `tunesmith local predict`."""
    body = sys.stdin.buffer.read()
    output = os.dup(1)
    # What the model prints is not part of the answer.
    os.dup2(2, 1)
    sys.path[:0] = settings.get("paths", [])
    model, report = loaded(settings)
    if model is None:
        reply = encoded({"error": report["error"], "tunesmith": {"traceback": report["traceback"]}})
    else:
        for text in report["warnings"]:
            log("warning: " + text)
        reply = respond(model, body)[0]
    with os.fdopen(output, "wb") as stream:
        stream.write(reply)


def main():
    settings = json.loads(sys.argv[1])
    if settings.get("inPod"):
        serve_from_pod()
    else:
        (once if settings.get("once") else serve)(settings)


main()
