"""Google's clients against a server that is found under the names of regional hosts, as through a table of hosts.

Arguments: the port, and the file with the server's certificate.
"""

import socket
import sys

import grpc
from google.api_core import exceptions
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.aiplatform_v1 import VizierServiceClient
from googleapiclient import discovery, errors

PORT, CERTIFICATE = sys.argv[1:]
HERE, ELSEWHERE = "projects/p/locations/us-central1", "projects/p/locations/europe-west4"
MISMATCH = "The provided location ID doesn't match the endpoint. The valid location ID is `us-central1`."
STUDY = {
    "display_name": "regional",
    "study_spec": {
        "metrics": [{"metric_id": "loss", "goal": "MINIMIZE"}],
        "parameters": [{"parameter_id": "x", "double_value_spec": {"max_value": 1.0}}],
    },
}

resolve, connect = socket.getaddrinfo, socket.socket.connect


def here(host):
    return "127.0.0.1" if str(host).endswith(".googleapis.com") else host


socket.getaddrinfo = lambda host, *arguments, **more: resolve(here(host), *arguments, **more)
# Not every client looks an address up before it connects.
socket.socket.connect = lambda self, address: connect(self, (here(address[0]), *address[1:]))


def refused(error, call):
    try:
        call()
    except error as refusal:
        assert MISMATCH in str(refusal), refusal
        return
    raise AssertionError("another location was accepted")


def over_http(host):
    options = ClientOptions(api_endpoint=f"https://{host}:{PORT}")
    return VizierServiceClient(credentials=AnonymousCredentials(), client_options=options, transport="rest")


def over_grpc(host):
    with open(CERTIFICATE, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    options = [("grpc.ssl_target_name_override", host), ("grpc.default_authority", host)]
    channel = grpc.secure_channel(f"localhost:{PORT}", credentials, options)
    return VizierServiceClient(transport=VizierServiceClient.get_transport_class("grpc")(channel=channel))


regional = over_http("us-central1-aiplatform.googleapis.com")
made = regional.create_study(parent=HERE, study=STUDY)
refused(exceptions.BadRequest, lambda: regional.create_study(parent=ELSEWHERE, study=STUDY))
refused(exceptions.BadRequest, lambda: regional.get_study(name=made.name.replace("us-central1", "europe-west4")))
regional = over_grpc("us-central1-aiplatform.googleapis.com")
assert regional.get_study(name=made.name) == made
refused(exceptions.InvalidArgument, lambda: regional.create_study(parent=ELSEWHERE, study=STUDY))
# The host of all locations.
everywhere = over_http("aiplatform.googleapis.com")
assert everywhere.get_study(name=made.name) == made
assert everywhere.create_study(parent=ELSEWHERE, study=STUDY).name.startswith(ELSEWHERE)

ml = discovery.build(
    "ml",
    "v1",
    client_options={"api_endpoint": f"https://us-central1-ml.googleapis.com:{PORT}"},
    static_discovery=True,
    credentials=AnonymousCredentials(),
)
studies = ml.projects().locations().studies()
read = studies.get(name=made.name).execute()
assert read["studyConfig"]["metrics"][0]["metric"] == "loss", read
refused(errors.HttpError, lambda: studies.list(parent=ELSEWHERE).execute())
print("ok")
