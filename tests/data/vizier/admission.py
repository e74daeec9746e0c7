"""Calls methods over gRPC and HTTP with the credentials of each case, and prints the outcomes.

Reads cases as JSON from the standard input: `{"method": "/service/Method", "message": "hex"}` or `{"http": ["GET", "/path"]}`,
with a `token` or none. Prints the name of the code of `google.rpc` for each.
"""

import json
import sys
import urllib.error
import urllib.request

import grpc

ADDRESS = sys.argv[1]
channel = grpc.insecure_channel(ADDRESS)


def of_grpc(case, token):
    call = channel.unary_unary(case["method"])
    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    try:
        call(bytes.fromhex(case["message"]), metadata=metadata, timeout=30)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def of_http(case, token):
    method, path = case["http"]
    data = b"{}" if method == "POST" else None
    headers = {"content-type": "application/json"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    try:
        urllib.request.urlopen(urllib.request.Request(f"http://{ADDRESS}{path}", data, headers, method=method)).read()
    except urllib.error.HTTPError as error:
        return json.load(error)["error"]["status"]
    return "OK"


for case in json.load(sys.stdin):
    token = case.get("token")
    print(of_grpc(case, token) if "method" in case else of_http(case, token))
