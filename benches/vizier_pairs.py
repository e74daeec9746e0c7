"""Pairs of suggest and complete per second over the gRPC service of OSS Vizier, for 1, 8 and 64 clients.

    python benches/vizier_pairs.py HOST:PORT [SECONDS]

Works with OSS Vizier's own server and with Tunesmith's. Needs `google-vizier`.
"""

import sys
import threading
import time

import grpc
from google.longrunning import operations_pb2
from vizier._src.service import study_pb2, vizier_service_pb2, vizier_service_pb2_grpc

ENDPOINT = sys.argv[1]
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0


def study(api, clients):
    spec = study_pb2.StudySpec(algorithm="RANDOM_SEARCH")
    for name in ["x", "y"]:
        parameter = spec.parameters.add(parameter_id=name)
        parameter.double_value_spec.min_value, parameter.double_value_spec.max_value = -2.0, 2.0
    spec.metrics.add(metric_id="loss", goal=study_pb2.StudySpec.MetricSpec.MINIMIZE)
    name = f"pairs-{clients}-{time.time_ns()}"
    request = vizier_service_pb2.CreateStudyRequest(
        parent="owners/bench", study=study_pb2.Study(display_name=name, study_spec=spec)
    )
    return api.CreateStudy(request).name


def pairs(name, client, end, counts):
    options = [("grpc.use_local_subchannel_pool", 1)]
    api = vizier_service_pb2_grpc.VizierServiceStub(grpc.insecure_channel(ENDPOINT, options))
    suggest = vizier_service_pb2.SuggestTrialsRequest(parent=name, suggestion_count=1, client_id=f"client-{client}")
    measurement = study_pb2.Measurement(metrics=[study_pb2.Measurement.Metric(metric_id="loss", value=0.5)])
    while time.monotonic() < end:
        operation = api.SuggestTrials(suggest)
        while not operation.done:
            time.sleep(0.001)
            operation = api.GetOperation(operations_pb2.GetOperationRequest(name=operation.name))
        response = vizier_service_pb2.SuggestTrialsResponse()
        response.ParseFromString(operation.response.value)
        trial = response.trials[0].name
        api.CompleteTrial(vizier_service_pb2.CompleteTrialRequest(name=trial, final_measurement=measurement))
        counts[client] += 1


for clients in [1, 8, 64]:
    name = study(vizier_service_pb2_grpc.VizierServiceStub(grpc.insecure_channel(ENDPOINT)), clients)
    counts = [0] * clients
    begin = time.monotonic()
    threads = [
        threading.Thread(target=pairs, args=(name, client, begin + SECONDS, counts)) for client in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{clients} clients: {sum(counts) / (time.monotonic() - begin):.1f} pairs per second")
