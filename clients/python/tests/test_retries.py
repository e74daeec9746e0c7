"""Which requests are repeated, and how."""

from __future__ import annotations

import random
import ssl
import uuid
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path

import pytest
import trustme

import tunesmith
from scripted_server import Scripted, ScriptedServer, refusal
from tunesmith import Client
from tunesmith._backoff import Backoff, retry_after

JOB = Scripted(200, {"jobId": "j", "state": "QUEUED"})


def submit(client: Client) -> tunesmith.Job:
    return client.submit_job("j", {})


@pytest.mark.parametrize(
    "failure",
    [
        refusal(503, "UNAVAILABLE"),
        refusal(429, "RESOURCE_EXHAUSTED", retry_after="0"),
        refusal(409, "ABORTED"),
        Scripted(502, "<html>bad gateway</html>"),
        Scripted(0),
    ],
    ids=["overloaded", "too many requests", "another was faster", "proxy", "no answer"],
)
def test_a_request_is_repeated_with_the_same_key(failure: Scripted) -> None:
    with ScriptedServer([failure, failure, JOB, failure, JOB]) as server, Client(server.address, token="t") as client:
        assert submit(client).id == "j"
        first, others = server.keys[0], server.keys[1:]
        assert others == [first, first]
        assert uuid.UUID(first).version == 4
        submit(client)
        assert server.keys[3] == server.keys[4] != first
        assert {headers["authorization"] for _, headers in server.requests} == {"Bearer t"}


@pytest.mark.parametrize(
    ("answer", "exception"),
    [
        (refusal(400, "INVALID_ARGUMENT"), tunesmith.InvalidArgument),
        (refusal(400, "FAILED_PRECONDITION"), tunesmith.FailedPrecondition),
        (refusal(401, "UNAUTHENTICATED"), tunesmith.Unauthenticated),
        (refusal(403, "PERMISSION_DENIED"), tunesmith.PermissionDenied),
        (refusal(404, "NOT_FOUND"), tunesmith.NotFound),
        (refusal(409, "ALREADY_EXISTS"), tunesmith.AlreadyExists),
        (refusal(500, "INTERNAL"), tunesmith.ServerError),
        (Scripted(404, "<html>no such page</html>"), tunesmith.NotFound),
        (Scripted(200, "<html>welcome</html>"), tunesmith.ServerError),
    ],
)
def test_other_refusals_are_raised_at_once(answer: Scripted, exception: type[tunesmith.ApiError]) -> None:
    with ScriptedServer([answer]) as server, Client(server.address) as client:
        with pytest.raises(exception) as caught:
            submit(client)
        assert type(caught.value) is exception
        assert len(server.requests) == 1


def test_the_request_id_is_kept() -> None:
    answer = refusal(404, "NOT_FOUND", x_request_id="r-7")
    with ScriptedServer([answer]) as server, Client(server.address) as client:
        with pytest.raises(tunesmith.NotFound, match="NOT_FOUND: as scripted") as caught:
            client.study("s")
        assert caught.value.request_id == "r-7"
        assert server.requests[0][0] == "GET /v1/projects/local/locations/local/studies/s"


def test_a_request_fails_if_retry_after_exceeds_the_time_left() -> None:
    answer = refusal(429, "RESOURCE_EXHAUSTED", retry_after="3600")
    with ScriptedServer([answer]) as server, Client(server.address, retry_for=60) as client:
        with pytest.raises(tunesmith.ResourceExhausted):
            submit(client)
        assert len(server.requests) == 1


def test_a_connection_is_reused_and_replaced_at_once_if_closed() -> None:
    answers = [JOB, JOB, Scripted(200, JOB.body, then_close=True), JOB]
    with ScriptedServer(answers) as server, Client(server.address, retry_for=0) as client:
        for _ in answers:
            submit(client)
        assert server.connections == 2


def test_https_requires_a_trusted_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with ScriptedServer([JOB], tls) as server:
        with Client(server.address, cafile=str(tmp_path / "ca.pem")) as client:
            assert submit(client).id == "j"
        with (
            Client(server.address, retry_for=60) as client,
            pytest.raises(tunesmith.ConnectionFailed, match="not trusted"),
        ):
            submit(client)


def test_waits_grow_to_a_limit_and_differ_between_clients() -> None:
    backoff = Backoff(first=0.1, most=5.0, random=random.Random(1))
    waits = [[backoff.seconds(attempt) for _ in range(50)] for attempt in range(2000)]
    for attempt, drawn in enumerate(waits):
        most = min(5.0, 0.1 * 2.0 ** min(attempt, 30))
        assert most / 2 <= min(drawn) < max(drawn) <= most


def test_retry_after_is_a_number_or_a_date() -> None:
    assert [retry_after(header) for header in (None, "soon", "7", "-1")] == [None, None, 7.0, 0.0]
    in_an_hour = retry_after(format_datetime(datetime.now(timezone.utc) + timedelta(hours=1), usegmt=True))
    assert in_an_hour is not None
    assert 3590 < in_an_hour <= 3600
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
