"""Answers to messages that Optuna's own client does not send, sizes, and the audit log."""

from __future__ import annotations

import json
from typing import Any

import grpc
import optuna
import pytest
from optuna.distributions import FloatDistribution, distribution_to_json
from optuna.storages import GrpcStorageProxy
from optuna.storages._grpc.auto_generated import api_pb2, api_pb2_grpc
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from storage_server import StorageServer

FLOAT = distribution_to_json(FloatDistribution(0.0, 1.0))


@pytest.fixture
def stub(storage_server: StorageServer, storage: GrpcStorageProxy) -> Any:
    """The generated client."""
    generated: Any = api_pb2_grpc
    return generated.StorageServiceStub(grpc.insecure_channel(f"127.0.0.1:{storage_server.port}"))


def refusal(call: Any, **fields: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as refused:
        call(**fields)
    return refused.value.code(), refused.value.details()


def test_messages_with_invalid_fields_are_refused_with_the_field(storage: GrpcStorageProxy, stub: Any) -> None:
    study = storage.create_new_study([StudyDirection.MINIMIZE], "s")
    trial = storage.create_new_trial(study)

    def invalid(call: str, **fields: Any) -> str:
        code, message = refusal(
            lambda **given: getattr(stub, call)(getattr(api_pb2, f"{call}Request")(**given)), **fields
        )
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        return message

    assert invalid("CreateNewStudy", study_name="t") == "directions: 0 directions; a study has 1 to 1000"
    assert invalid("CreateNewStudy", study_name="é" * 513, directions=[0]) == (
        "study_name: 513 characters; the maximum is 512"
    )
    assert invalid("SetTrialUserAttribute", trial_id=trial, key="k", value="{'a': 1}") == (
        "value: not JSON: a member name is missing at byte 1"
    )
    assert invalid("SetStudySystemAttribute", study_id=study, key="k" * 513, value="1") == (
        "key: 513 characters; the maximum is 512"
    )
    assert invalid("SetStudyUserAttribute", study_id=study, key="k", value=" " * (4 * 1024**2) + "1") == (
        "value: 4194305 bytes; the maximum is 4194304"
    )
    assert invalid("SetTrialParameter", trial_id=trial, param_name="x", distribution="{}") == (
        "distribution: not a distribution: its name is missing"
    )
    assert invalid("CreateNewTrial", study_id=study) == "template_trial: missing"
    template = api_pb2.Trial(params={"x": 0.5})
    assert invalid("CreateNewTrial", study_id=study, template_trial=template) == (
        "params: each parameter needs a value and a distribution"
    )
    assert invalid("SetTrialStateValues", trial_id=trial, state=7) == "state: unknown state 7; expected 0 to 4"
    assert len(storage.get_all_trials(study)) == 1


def test_codes_are_those_that_the_client_knows(storage: GrpcStorageProxy, stub: Any) -> None:
    study = storage.create_new_study([StudyDirection.MINIMIZE], "s")
    trial = storage.create_new_trial(study)
    storage.set_trial_param(trial, "x", 0.5, FloatDistribution(0.0, 1.0))
    taken = refusal(
        stub.CreateNewStudy, request=api_pb2.CreateNewStudyRequest(study_name="s", directions=[api_pb2.MINIMIZE])
    )
    assert taken == (grpc.StatusCode.ALREADY_EXISTS, 'a study with the name "s" exists already')
    missing = refusal(stub.GetTrial, request=api_pb2.GetTrialRequest(trial_id=trial + 1))
    assert missing == (grpc.StatusCode.NOT_FOUND, f"trial {trial + 1} does not exist")
    other = distribution_to_json(FloatDistribution(0.1, 1.0, log=True))
    request = api_pb2.SetTrialParameterRequest(trial_id=trial, param_name="x", distribution=other)
    code, message = refusal(stub.SetTrialParameter, request=request)
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert message == (
        f'parameter "x": its distribution has another scale (log); earlier trials of the study have {FLOAT}'
    )
    storage.set_trial_state_values(trial, TrialState.FAIL)
    finished = refusal(stub.SetTrialParameter, request=request)
    assert finished == (
        grpc.StatusCode.FAILED_PRECONDITION,
        f"trial {trial} is finished (FAIL) and can no longer be changed",
    )


def test_unknown_methods_and_too_large_messages_are_refused(storage_server: StorageServer) -> None:
    channel = grpc.insecure_channel(f"127.0.0.1:{storage_server.port}")
    unknown = channel.unary_unary("/optuna.StorageService/Forget")
    assert refusal(unknown, request=b"")[0] == grpc.StatusCode.UNIMPLEMENTED
    other = channel.unary_unary("/google.Service/Method")
    assert refusal(other, request=b"")[0] == grpc.StatusCode.UNIMPLEMENTED
    large = channel.unary_unary("/optuna.StorageService/GetTrial")
    code, message = refusal(large, request=bytes(65 * 1024**2))
    assert code == grpc.StatusCode.OUT_OF_RANGE
    assert "67108864" in message


def test_a_study_may_be_larger_than_the_default_message(
    storage: GrpcStorageProxy, storage_server: StorageServer
) -> None:
    study = storage.create_new_study([StudyDirection.MINIMIZE], "s")
    for _ in range(10):
        storage.create_new_trial(study, create_trial(value=1.0, user_attrs={"k": "x" * 1024**2}))
    trials = storage_server.proxy().get_all_trials(study)
    assert [len(trial.user_attrs["k"]) for trial in trials] == [1024**2] * 10


def test_changes_are_in_the_audit_log(storage: GrpcStorageProxy, storage_server: StorageServer) -> None:
    log = storage_server.folder / "data" / "audit" / "admin_activity.jsonl"
    before = len(log.read_text().splitlines())
    study = optuna.create_study(storage=storage, study_name="audited")
    trial = study.ask()
    trial.set_user_attr("k", 1)
    trial.report(0.5, 1)
    study.tell(trial, 1.0)
    with pytest.raises(KeyError):
        storage.delete_study(study._study_id + 1)
    records = [json.loads(line) for line in log.read_text().splitlines()[before:]]
    of_trial, of_study = f"optuna/trials/{trial._trial_id}", f"optuna/studies/{study._study_id}"
    assert [(record["method"].removeprefix("tunesmith.optuna."), record["resource"]) for record in records] == [
        ("studies.create", of_study),
        ("trials.create", of_trial),
        ("trials.setAttribute", of_trial),
        ("trials.setIntermediateValue", of_trial),
        ("trials.setState", of_trial),
        ("studies.delete", f"optuna/studies/{study._study_id + 1}"),
    ]
    assert [record["status"] for record in records] == [200] * 5 + [404]
    assert {(record["principal"], record["callerIp"]) for record in records} == {("listener:grpc", "127.0.0.1")}
    assert records[0]["permission"] == "ml.studies.create"
