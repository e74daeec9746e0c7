"""One study through four APIs: created, suggested from, completed and listed by each, in all combinations."""

import itertools
import json
import sys
import urllib.request

import grpc
from google.cloud.aiplatform_v1 import VizierServiceClient, types
from google.cloud.aiplatform_v1.services.vizier_service.transports import VizierServiceGrpcTransport
from google.protobuf import json_format
from vizier._src.service import study_pb2, vizier_service_pb2, vizier_service_pb2_grpc

ADDRESS = sys.argv[1]
LOCATION = "projects/p/locations/global"
SPEC = {
    "metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
    "parameters": [
        {"parameterId": "rate", "doubleValueSpec": {"minValue": 0.001, "maxValue": 1}, "scaleType": "UNIT_LOG_SCALE"},
        {"parameterId": "depth", "integerValueSpec": {"minValue": "1", "maxValue": "8"}},
        {
            "parameterId": "kind",
            "categoricalValueSpec": {"values": ["tree", "net"]},
            "conditionalParameterSpecs": [
                {
                    "parameterSpec": {"parameterId": "width", "discreteValueSpec": {"values": [16, 32]}},
                    "parentCategoricalValues": {"values": ["net"]},
                }
            ],
        },
    ],
}


def http(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{ADDRESS}{path}", data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


class AiPlatform:
    """`ml v1` over HTTP."""

    def create(self, name):
        kinds = {"doubleValueSpec": "DOUBLE", "integerValueSpec": "INTEGER", "categoricalValueSpec": "CATEGORICAL"}
        parameters = []
        for parameter in SPEC["parameters"]:
            message = {key: value for key, value in parameter.items() if key.endswith("Spec") or key == "scaleType"}
            kind = next(kinds[key] for key in message if key in kinds)
            parameters.append({"parameter": parameter["parameterId"], "type": kind, **message})
        parameters[2]["childParameterSpecs"] = [
            {
                "parameter": "width",
                "type": "DISCRETE",
                "discreteValueSpec": {"values": [16, 32]},
                "parentCategoricalValues": {"values": ["net"]},
            }
        ]
        config = {"metrics": [{"metric": "loss", "goal": "MINIMIZE"}], "parameters": parameters}
        http("POST", f"/v1/{LOCATION}/studies?studyId={name}", {"studyConfig": config})

    def suggest(self, study, worker):
        body = {"suggestionCount": 1, "clientId": worker}
        operation = http("POST", f"/v1/{study}/trials:suggest", body)
        while not operation.get("done"):
            operation = http("GET", f"/v1/{operation['name']}")
        return int(operation["response"]["trials"][0]["name"].rsplit("/", 1)[1])

    def complete(self, study, trial, value):
        body = {"finalMeasurement": {"metrics": [{"metric": "loss", "value": value}]}}
        http("POST", f"/v1/{study}/trials/{trial}:complete", body)

    def list(self, study):
        trials = http("GET", f"/v1/{study}/trials")["trials"]

        def value(parameter):
            number = parameter.get("floatValue", parameter.get("intValue"))
            return parameter["stringValue"] if number is None else float(number)

        def read(trial):
            values = {parameter["parameter"]: value(parameter) for parameter in trial["parameters"]}
            return int(trial["name"].rsplit("/", 1)[1]), values, trial["finalMeasurement"]["metrics"][0]["value"]

        return [read(trial) for trial in trials]


class VertexRest:
    """Vertex AI over HTTP."""

    def create(self, name):
        made = http("POST", f"/vertex/v1/{LOCATION}/studies", {"displayName": name, "studySpec": SPEC})
        assert made["displayName"] == name

    def suggest(self, study, worker):
        operation = http("POST", f"/vertex/v1/{study}/trials:suggest", {"suggestionCount": 1, "clientId": worker})
        while not operation.get("done"):
            operation = http("GET", f"/vertex/ui/{operation['name']}")
        return int(operation["response"]["trials"][0]["id"])

    def complete(self, study, trial, value):
        body = {"finalMeasurement": {"metrics": [{"metricId": "loss", "value": value}]}}
        http("POST", f"/vertex/v1/{study}/trials/{trial}:complete", body)

    def list(self, study):
        trials = http("GET", f"/vertex/v1/{study}/trials")["trials"]

        def read(trial):
            values = {parameter["parameterId"]: parameter["value"] for parameter in trial["parameters"]}
            return int(trial["id"]), values, trial["finalMeasurement"]["metrics"][0]["value"]

        return [read(trial) for trial in trials]


class VertexGrpc:
    """Vertex AI over gRPC."""

    api = VizierServiceClient(transport=VizierServiceGrpcTransport(channel=grpc.insecure_channel(ADDRESS)))

    def create(self, name):
        spec = types.StudySpec.from_json(json.dumps(SPEC))
        self.api.create_study(parent=LOCATION, study=types.Study(display_name=name, study_spec=spec))

    def suggest(self, study, worker):
        request = {"parent": study, "suggestion_count": 1, "client_id": worker}
        return int(self.api.suggest_trials(request=request).result(timeout=60).trials[0].id)

    def complete(self, study, trial, value):
        measurement = {"metrics": [{"metric_id": "loss", "value": value}]}
        self.api.complete_trial(request={"name": f"{study}/trials/{trial}", "final_measurement": measurement})

    def list(self, study):
        def read(trial):
            values = {parameter.parameter_id: parameter.value for parameter in trial.parameters}
            return int(trial.id), values, trial.final_measurement.metrics[0].value

        return [read(trial) for trial in self.api.list_trials(parent=study)]


class OssVizier:
    """OSS Vizier over gRPC."""

    api = vizier_service_pb2_grpc.VizierServiceStub(grpc.insecure_channel(ADDRESS))

    def create(self, name):
        spec = json_format.ParseDict(SPEC, study_pb2.StudySpec())
        study = study_pb2.Study(display_name=name, study_spec=spec)
        made = self.api.CreateStudy(vizier_service_pb2.CreateStudyRequest(parent="owners/p", study=study))
        assert made.display_name == name

    def name(self, study):
        return f"owners/p/studies/{study.rsplit('/', 1)[1]}"

    def suggest(self, study, worker):
        request = vizier_service_pb2.SuggestTrialsRequest(parent=self.name(study), suggestion_count=1, client_id=worker)
        operation = self.api.SuggestTrials(request)
        while not operation.done:
            operation = self.api.GetOperation(type(self).operation(operation.name))
        response = vizier_service_pb2.SuggestTrialsResponse()
        response.ParseFromString(operation.response.value)
        return int(response.trials[0].id)

    @staticmethod
    def operation(name):
        from google.longrunning import operations_pb2

        return operations_pb2.GetOperationRequest(name=name)

    def complete(self, study, trial, value):
        measurement = study_pb2.Measurement(metrics=[study_pb2.Measurement.Metric(metric_id="loss", value=value)])
        name = f"{self.name(study)}/trials/{trial}"
        self.api.CompleteTrial(vizier_service_pb2.CompleteTrialRequest(name=name, final_measurement=measurement))

    def list(self, study):
        listed = self.api.ListTrials(vizier_service_pb2.ListTrialsRequest(parent=self.name(study)))

        def read(trial):
            values = {}
            for parameter in trial.parameters:
                kind = parameter.value.WhichOneof("kind")
                values[parameter.parameter_id] = getattr(parameter.value, kind)
            return int(trial.id), values, trial.final_measurement.metrics[0].value

        return [read(trial) for trial in listed.trials]


def study_of(name):
    """The resource name of a study, which depends on the API that has made it."""
    body = {"displayName": name}
    return http("POST", f"/vertex/v1/{LOCATION}/studies:lookup", body)["name"]


APIS = [AiPlatform(), VertexRest(), VertexGrpc(), OssVizier()]
combinations = 0
for number, makes in enumerate(APIS):
    name = f"study-{number}"
    makes.create(name)
    study = study_of(name)
    expected = []
    for suggests, completes in itertools.product(APIS, APIS):
        trial = suggests.suggest(study, "worker")
        value = 1.0 / trial
        completes.complete(study, trial, value)
        expected.append((trial, value))
        combinations += len(APIS)
    lists = [lists.list(study) for lists in APIS]
    assert [(trial, value) for trial, _, value in lists[0]] == expected, lists[0]
    assert all(listed == lists[0] for listed in lists), lists
    assert all(("width" in values) == (values["kind"] == "net") for _, values, _ in lists[0])
print(combinations)
