"""Google's clients of Vertex AI's jobs against a server without container engines: generated clients, the SDK, googleapiclient.

Arguments: the endpoint, the transport (`rest`, `grpc` without TLS, or `tls`), the trainer, and the parts: `client`, `sdk`,
`discovery`, `buckets`; with `v1beta1`, the clients of that version.
"""

import importlib
import json
import os
import sys
import time
import urllib.request

from google.api_core import exceptions
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform
from google.cloud.aiplatform import hyperparameter_tuning as hpt

ENDPOINT, TRANSPORT, TRAINER, *PARTS = sys.argv[1:]
VERSION = "v1beta1" if "v1beta1" in PARTS else "v1"
package = importlib.import_module(f"google.cloud.aiplatform_{VERSION}")
JobServiceClient, VizierServiceClient, types = package.JobServiceClient, package.VizierServiceClient, package.types
JobState = package.JobState
PARENT = "projects/p/locations/us-central1"
BAD = exceptions.BadRequest if TRANSPORT == "rest" else exceptions.InvalidArgument
ENDED = exceptions.BadRequest if TRANSPORT == "rest" else exceptions.FailedPrecondition
DONE = {JobState.JOB_STATE_SUCCEEDED, JobState.JOB_STATE_FAILED, JobState.JOB_STATE_CANCELLED}


def client(of=JobServiceClient):
    if TRANSPORT == "grpc":
        import grpc

        channel = grpc.insecure_channel(ENDPOINT)
        return of(transport=of.get_transport_class("grpc")(channel=channel))
    more = {"transport": "rest"} if TRANSPORT == "rest" else {}
    return of(credentials=AnonymousCredentials(), client_options=ClientOptions(api_endpoint=ENDPOINT), **more)


def pool(*args, count=1, **container):
    command = {"image_uri": "gcr.io/p/trainer:1", "command": [sys.executable, TRAINER], "args": list(args), **container}
    return {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": count, "container_spec": command}


def refused(error, call, part):
    try:
        call()
    except error as refusal:
        assert part in str(refusal), refusal
        return
    raise AssertionError(f"{part} was accepted")


def until(read, holds):
    """The first job read that `holds`; fails after two minutes."""
    deadline = time.monotonic() + 120
    while not holds(job := read()):
        assert time.monotonic() < deadline, job
        time.sleep(0.05)
    return job


def ended(read):
    return until(read, lambda job: job.state in DONE)


def check_tuning(api):
    job = {
        "display_name": "tune x",
        "labels": {"team": "vision"},
        "max_trial_count": 4,
        "parallel_trial_count": 2,
        "study_spec": {
            "metrics": [{"metric_id": "loss", "goal": "MINIMIZE"}],
            "measurement_selection_type": "BEST_MEASUREMENT",
            "parameters": [
                {"parameter_id": "x", "double_value_spec": {"max_value": 1.0}, "scale_type": "UNIT_LINEAR_SCALE"},
                {"parameter_id": "n", "integer_value_spec": {"min_value": 1, "max_value": 3}},
            ],
        },
        "trial_job_spec": {
            "worker_pool_specs": [pool("--rate=1", env=[{"name": "MODE", "value": "fast"}, {"name": "FULL", "value": "$(MODE)-$(CLOUD_ML_REGION)-$$(MODE)"}])],
            "base_output_directory": {"output_uri_prefix": "gs://no-such-bucket/out/"},
        },
    }
    made = api.create_hyperparameter_tuning_job(parent=PARENT, hyperparameter_tuning_job=job)
    assert made.name.startswith(f"{PARENT}/hyperparameterTuningJobs/") and made.name.rsplit("/", 1)[1].isdigit()
    assert made.state in (JobState.JOB_STATE_QUEUED, JobState.JOB_STATE_PENDING), made.state
    assert dict(made.labels) == {"team": "vision"} and made.max_trial_count == 4
    done = ended(lambda: api.get_hyperparameter_tuning_job(name=made.name))
    assert done.state == JobState.JOB_STATE_SUCCEEDED, done.error
    assert done.study_spec == types.StudySpec(job["study_spec"])
    assert done.trial_job_spec == types.CustomJobSpec(job["trial_job_spec"])
    assert [trial.id for trial in done.trials] == ["1", "2", "3", "4"]
    for trial in done.trials:
        assert trial.state == types.Trial.State.SUCCEEDED, trial
        values = {parameter.parameter_id: parameter.value for parameter in trial.parameters}
        # The second of three reports is the best one.
        assert trial.final_measurement.step_count == 2
        assert abs(trial.final_measurement.metrics[0].value - (values["x"] - 0.25) ** 2) < 1e-9
        assert trial.start_time <= trial.end_time
        with open(f"seen-{made.name.rsplit('/', 1)[1]}-{trial.id}.json") as file:
            seen = json.load(file)
        whole = int(values["n"])
        assert seen["args"][0] == "--rate=1" and f"--n={whole}" in seen["args"], seen["args"]
        assert not any(argument.startswith("--job-dir") for argument in seen["args"])
        environment = seen["environment"]
        for name, part in [("AIP_MODEL_DIR", "model"), ("AIP_CHECKPOINT_DIR", "checkpoints"), ("AIP_TENSORBOARD_LOG_DIR", "logs")]:
            assert environment[name] == f"gs://no-such-bucket/out/{trial.id}/{part}/", environment[name]
        assert environment["FULL"] == "fast-us-central1-$(MODE)", environment["FULL"]
        assert "TF_CONFIG" not in environment and environment["CLOUD_ML_PROJECT_ID"] == "p"
        cluster = json.loads(environment["CLUSTER_SPEC"])
        assert cluster["task"] == {"type": "workerpool0", "index": 0, "trial": trial.id, "cloud": {}}, cluster
        assert list(cluster["cluster"]) == ["workerpool0"] and "workerPoolSpecs" in cluster["job"]
    # The study of the job, with the curves.
    study = done.trials[0].name.rsplit("/trials/", 1)[0]
    curve = client(VizierServiceClient).get_trial(name=f"{study}/trials/1").measurements
    assert [measurement.step_count for measurement in curve] == [1, 2, 3]
    return done


def check_custom(api):
    specs = [pool("one"), pool("two", count=2), {}, pool("three")]
    job = {"display_name": "cluster", "job_spec": {"worker_pool_specs": specs}}
    made = api.create_custom_job(parent=PARENT, custom_job=job)
    done = ended(lambda: api.get_custom_job(name=made.name))
    assert done.state == JobState.JOB_STATE_SUCCEEDED, done.error
    assert done.job_spec.worker_pool_specs[1].replica_count == 2 and done.start_time >= done.create_time
    for pool_name, index, argument, role in [("workerpool0", 0, "one", "chief"), ("workerpool1", 1, "two", "worker"), ("workerpool3", 0, "three", "evaluator")]:
        with open(f"pool-{pool_name}-{index}.json") as file:
            seen = json.load(file)
        assert seen["args"] == [argument], seen
        cluster = json.loads(seen["environment"]["CLUSTER_SPEC"])["cluster"]
        assert {name: len(hosts) for name, hosts in cluster.items()} == {"workerpool0": 1, "workerpool1": 2, "workerpool3": 1}
        tensorflow = json.loads(seen["environment"]["TF_CONFIG"])
        assert tensorflow["task"]["type"] == role and sorted(tensorflow["cluster"]) == ["chief", "worker"]
        assert "AIP_MODEL_DIR" not in seen["environment"]
    failing = {"display_name": "fails", "job_spec": {"worker_pool_specs": [pool("fail")]}}
    failing = api.create_custom_job(parent=PARENT, custom_job=failing)
    failed = ended(lambda: api.get_custom_job(name=failing.name))
    assert failed.state == JobState.JOB_STATE_FAILED and failed.error.code == 3
    assert failed.error.message.startswith("The replica workerpool0-0 exited with a non-zero status of 7."), failed.error
    slow = {"display_name": "slow", "job_spec": {"worker_pool_specs": [pool("wait")]}}
    slow = api.create_custom_job(parent=PARENT, custom_job=slow)
    until(lambda: api.get_custom_job(name=slow.name), lambda job: job.state == JobState.JOB_STATE_RUNNING)
    refused(ENDED, lambda: api.delete_custom_job(name=slow.name), "delete")
    api.cancel_custom_job(name=slow.name)
    cancelled = ended(lambda: api.get_custom_job(name=slow.name))
    assert cancelled.state == JobState.JOB_STATE_CANCELLED and cancelled.error.code == 1
    refused(ENDED, lambda: api.cancel_custom_job(name=slow.name), "cancel")
    refused(exceptions.NotFound, lambda: api.get_custom_job(name=f"{PARENT}/customJobs/1"), "customJobs/1")
    other = made.name.replace("us-central1", "europe-west4")
    refused(exceptions.NotFound, lambda: api.get_custom_job(name=other), "does not exist")
    refused(exceptions.NotFound, lambda: api.get_hyperparameter_tuning_job(name=made.name.replace("customJobs", "hyperparameterTuningJobs")), "does not exist")
    return made, failed


def check_lists(api, tuning, custom, failed):
    def names(query="", **more):
        return [job.name for job in api.list_custom_jobs(request={"parent": PARENT, "filter": query, **more})]

    assert len(names(page_size=1)) == 3 and custom.name in names()
    assert names('display_name="cluster"') == [custom.name]
    assert names('state="JOB_STATE_FAILED" AND display_name:"fai*"') == [failed.name]
    assert sorted(names('state!="JOB_STATE_FAILED"')) == sorted(set(names()) - {failed.name})
    assert names('NOT display_name="cluster" AND create_time<"2020-01-01T00:00:00Z"') == []
    refused(BAD, lambda: names("colour=red"), "colour")
    masked = list(api.list_hyperparameter_tuning_jobs(request={"parent": PARENT, "filter": "labels.team=vision", "read_mask": "name,studySpec.algorithm"}))
    assert masked == [types.HyperparameterTuningJob(name=tuning.name, study_spec={})], masked
    refused(BAD, lambda: list(api.list_custom_jobs(request={"parent": PARENT, "read_mask": "nothing"})), "nothing")
    listed = list(api.list_hyperparameter_tuning_jobs(parent=PARENT))[0]
    assert listed.study_spec == tuning.study_spec and not listed.trials


def check_refusals(api):
    def made(**spec):
        return lambda: api.create_custom_job(parent=PARENT, custom_job={"display_name": "bad", "job_spec": spec})

    refused(BAD, made(), "jobSpec.workerPoolSpecs")
    refused(BAD, made(worker_pool_specs=[pool(count=2)]), "jobSpec.workerPoolSpecs[0].replicaCount")
    refused(BAD, made(worker_pool_specs=[pool(command=[])]), "jobSpec.workerPoolSpecs[0].containerSpec.command")
    reserved = [pool(env=[{"name": "AIP_MODEL_DIR", "value": "x"}])]
    refused(BAD, made(worker_pool_specs=reserved), "jobSpec.workerPoolSpecs[0].containerSpec.env[0].name")
    python = {"replica_count": 1, "python_package_spec": {"package_uris": ["gs://b/p.tar.gz"]}}
    refused(BAD, made(worker_pool_specs=[python]), "jobSpec.workerPoolSpecs[0].pythonPackageSpec.pythonModule")
    local = {"output_uri_prefix": "ftp"}
    none = {"display_name": "", "job_spec": {"worker_pool_specs": [pool()], "base_output_directory": local}}
    refused(BAD, lambda: api.create_custom_job(parent=PARENT, custom_job=none), "displayName")
    tuning = {"display_name": "bad", "trial_job_spec": {"worker_pool_specs": [pool()]}}
    refused(BAD, lambda: api.create_hyperparameter_tuning_job(parent=PARENT, hyperparameter_tuning_job=tuning), "maxTrialCount")


def check_deletion(api, tuning, custom):
    api.delete_hyperparameter_tuning_job(name=tuning.name).result()
    refused(exceptions.NotFound, lambda: api.get_hyperparameter_tuning_job(name=tuning.name), "does not exist")
    api.delete_custom_job(name=custom.name).result()
    refused(exceptions.NotFound, lambda: api.get_custom_job(name=custom.name), "does not exist")


def check_buckets(api):
    """Processes find a bucket for which the server has a folder, `bucket` here."""
    folder = os.path.join(os.getcwd(), "bucket")
    spec = pool("--in=/gcs/training-data/in.csv", "/gcs/other/x", env=[{"name": "DATA", "value": "/gcs/training-data"}])
    spec = {"worker_pool_specs": [spec], "base_output_directory": {"output_uri_prefix": "gs://training-data/out"}}
    made = api.create_custom_job(parent=PARENT, custom_job={"display_name": "buckets", "job_spec": spec})
    done = ended(lambda: api.get_custom_job(name=made.name))
    assert done.state == JobState.JOB_STATE_SUCCEEDED, done.error
    assert done.job_spec == types.CustomJobSpec(spec), done.job_spec
    with open("pool-workerpool0-0.json") as file:
        seen = json.load(file)
    assert seen["args"] == [f"--in={folder}/in.csv", "/gcs/other/x"], seen["args"]
    assert seen["environment"]["DATA"] == folder
    assert seen["environment"]["AIP_MODEL_DIR"] == f"{folder}/out/model/"
    job = f"{ENDPOINT.removesuffix('/vertex')}/v1/projects/p/jobs/vertex_{made.name.rsplit('/', 1)[1]}"
    with urllib.request.urlopen(job) as response:
        job = response.read().decode()
    assert f"/gcs/training-data is {folder} in arguments and variables" in job, job
    assert "/gcs/other stays as it is" in job, job


def check_beta(api):
    """A field that only v1beta1 has: it comes back, and has no effect."""
    machine = {"machine_type": "n1-standard-4", "min_gpu_driver_version": "535"}
    spec = {"worker_pool_specs": [{**pool("one"), "machine_spec": machine}]}
    made = api.create_custom_job(parent=PARENT, custom_job={"display_name": "beta", "job_spec": spec})
    read = api.get_custom_job(name=made.name)
    assert read.job_spec.worker_pool_specs[0].machine_spec.min_gpu_driver_version == "535", read.job_spec
    assert ended(lambda: api.get_custom_job(name=made.name)).state == JobState.JOB_STATE_SUCCEEDED


def check_sdk():
    # The pause between two looks at a job, 5 s.
    aiplatform.jobs._JOB_WAIT_TIME = 0.2
    more = {"api_transport": "rest"} if TRANSPORT == "rest" else {}
    aiplatform.init(
        project="p", location="us-central1", credentials=AnonymousCredentials(), api_endpoint=ENDPOINT,
        staging_bucket="gs://staging", **more,
    )
    job = aiplatform.CustomJob(display_name="c1", worker_pool_specs=[pool("one")], labels={"a": "b"})
    job.run(timeout=60, sync=True)
    assert job.state == JobState.JOB_STATE_SUCCEEDED and job.display_name == "c1"
    tuning = aiplatform.HyperparameterTuningJob(
        display_name="t1", custom_job=aiplatform.CustomJob(display_name="t1", worker_pool_specs=[pool("--rate=1")]),
        metric_spec={"loss": "minimize"},
        parameter_spec={
            "x": hpt.DoubleParameterSpec(min=0.001, max=1, scale="log"),
            "model": hpt.CategoricalParameterSpec(values=["tree", "net"]),
            "n": hpt.DiscreteParameterSpec(values=[1, 2], scale=None),
        },
        max_trial_count=3, parallel_trial_count=2, search_algorithm="random",
    )
    tuning.run(sync=True)
    assert tuning.state == JobState.JOB_STATE_SUCCEEDED and len(tuning.trials) == 3
    assert all(trial.final_measurement.step_count == 2 for trial in tuning.trials)
    found = aiplatform.HyperparameterTuningJob.get(tuning.resource_name)
    assert found.display_name == "t1" and found.start_time is not None
    # None, or an empty status in earlier versions.
    assert not (found.error and found.error.message)
    assert [job.name for job in aiplatform.CustomJob.list(filter='display_name="c1"')] == [job.name]
    failing = aiplatform.CustomJob(display_name="f", worker_pool_specs=[pool("fail")])
    refused(RuntimeError, lambda: failing.run(sync=True), "non-zero status of 7")
    tuning.delete()
    assert aiplatform.HyperparameterTuningJob.list() == []


def check_discovery():
    from googleapiclient import discovery

    api = discovery.build(
        "aiplatform", VERSION, client_options={"api_endpoint": ENDPOINT}, static_discovery=True, credentials=AnonymousCredentials(),
    )
    jobs = api.projects().locations().customJobs()
    container = {"imageUri": "i", "command": [sys.executable, TRAINER, "one"]}
    spec = {"workerPoolSpecs": [{"replicaCount": "1", "containerSpec": container}]}
    made = jobs.create(parent=PARENT, body={"displayName": "d", "jobSpec": spec}).execute()
    done = until(lambda: jobs.get(name=made["name"]).execute(), lambda job: job["state"] == "JOB_STATE_SUCCEEDED")
    assert done["jobSpec"] == spec and done["updateTime"] >= done["createTime"]
    assert jobs.list(parent=PARENT, filter='display_name="d"', readMask="displayName").execute()["customJobs"] == [{"displayName": "d"}]
    operation = jobs.delete(name=made["name"]).execute()
    assert operation["done"] is True and operation["response"]["@type"] == "type.googleapis.com/google.protobuf.Empty"


if "client" in PARTS:
    api = client()
    check_refusals(api)
    tuning = check_tuning(api)
    custom, failed = check_custom(api)
    check_lists(api, tuning, custom, failed)
    check_deletion(api, tuning, custom)
    if VERSION == "v1beta1":
        check_beta(api)
if "buckets" in PARTS:
    check_buckets(client())
if "sdk" in PARTS:
    check_sdk()
if "discovery" in PARTS:
    check_discovery()
print("ok")
