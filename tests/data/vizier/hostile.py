"""Hostile input over gRPC: each case has a clear code, and the server serves the next call."""

import sys
import threading
import urllib.request

import grpc

ADDRESS = sys.argv[1]
SERVICE = "/google.cloud.aiplatform.v1.VizierService/"
channel = grpc.insecure_channel(ADDRESS)


def call(method, message, channel=channel, **more):
    try:
        channel.unary_unary(method)(message, **more)
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""


def expect(code, outcome, part=""):
    assert outcome[0] == code and part in outcome[1], (code, part, outcome)


def name(text):
    data = text.encode()
    return b"\x0a" + bytes([len(data)]) + data


def varint(number):
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def field(number, data):
    return bytes([number << 3 | 2]) + varint(len(data)) + data


STUDY = name("projects/p/locations/l/studies/none")
# Truncated and of wrong types, with the code that gRPC has for them, and with fields that no version knows.
expect("INTERNAL", call(SERVICE + "GetStudy", b"\x0a\xff\xff\xff"), "decode")
expect("INTERNAL", call(SERVICE + "GetStudy", b"\x08\x01"), "decode")
expect("NOT_FOUND", call(SERVICE + "GetStudy", STUDY + b"\xf8\x3e\x01"), "none")
expect("INVALID_ARGUMENT", call(SERVICE + "GetStudy", name("studies/none")), "projects/*/locations/*/studies/*")
expect("INVALID_ARGUMENT", call(SERVICE + "GetStudy", b""), "has not the form")
# Larger than a message may be.
expect("OUT_OF_RANGE", call(SERVICE + "GetStudy", b"\x0a" + b"\x80\x80\x80\x08" + b"a" * (16 << 20)))
# Conditional parameters deeper than a reader goes.
deep = b""
for _ in range(500):
    inner = b"\x0a" + varint(len(deep)) + deep
    deep = b"\x52" + varint(len(inner)) + inner
study = b"\x12\x01s" + field(3, field(2, deep))
code, _ = call(SERVICE + "CreateStudy", name("projects/p/locations/l") + field(2, study))
assert code == "INTERNAL", code
# What is not there.
expect("UNIMPLEMENTED", call(SERVICE + "NoSuchMethod", b""), "there is no method")
expect("UNIMPLEMENTED", call("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", b""))
# Streams that their client cancels, many at once.
method = channel.unary_unary(SERVICE + "GetStudy")
futures = [method.future(STUDY) for _ in range(200)]
for future in futures[::2]:
    future.cancel()
codes = {future.code().name for future in futures}
# The server ends a connection of which many streams were reset.
assert codes <= {"CANCELLED", "NOT_FOUND", "UNAVAILABLE"}, codes
# Many connections at once.
outcomes = []


def work():
    own = grpc.insecure_channel(ADDRESS, options=[("grpc.use_local_subchannel_pool", 1)])
    outcomes.append(call(SERVICE + "GetStudy", STUDY, own)[0])
    own.close()


threads = [threading.Thread(target=work) for _ in range(32)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert outcomes == ["NOT_FOUND"] * 32, outcomes
expect("NOT_FOUND", call(SERVICE + "GetStudy", STUDY), "none")


def status(method, headers):
    """The status of a call over HTTP/1.1, whose headers a client of gRPC does not send."""
    body = b"\0" + len(STUDY).to_bytes(4, "big") + STUDY
    request = urllib.request.Request(f"http://{ADDRESS}{SERVICE}{method}", body, headers)
    with urllib.request.urlopen(request) as response:
        return response.headers["grpc-status"]


# What a web page can send on behalf of a visitor's browser; no time left; a time that is none.
assert status("DeleteStudy", {"content-type": "text/plain"}) == "3"
assert status("GetStudy", {"content-type": "application/grpc", "grpc-timeout": "0n"}) == "4"
assert status("GetStudy", {"content-type": "application/grpc", "grpc-timeout": "soon"}) == "3"
print("ok")
