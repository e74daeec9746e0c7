"""One job through three APIs: created, read, cancelled and deleted by each, in all combinations."""

import itertools
import json
import sys
import urllib.request

import grpc
from google.cloud.aiplatform_v1 import JobServiceClient
from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceGrpcTransport
from google.cloud.aiplatform_v1.types.job_state import JobState

ADDRESS = sys.argv[1]
LOCATION = "projects/p/locations/us-central1"
COMMAND = [sys.executable, "-c", "import signal; signal.pause()"]
VERTEX = {"displayName": "j", "labels": {"a": "b"}, "jobSpec": {"workerPoolSpecs": [{"replicaCount": "1", "containerSpec": {"command": COMMAND}}]}}


def http(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{ADDRESS}{path}", data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


class AiPlatform:
    """`ml v1`: the ID is that of the job in the store."""

    def create(self):
        AiPlatform.made = getattr(AiPlatform, "made", 0) + 1
        job = {"jobId": f"job_{AiPlatform.made}", "labels": {"a": "b"}, "trainingInput": {"masterConfig": {"containerCommand": COMMAND}}}
        return http("POST", "/v1/projects/p/jobs", job)["jobId"]

    def own(self, job):
        return f"vertex_{job}" if job.isdigit() else job

    def read(self, job):
        made = http("GET", f"/v1/projects/p/jobs/{self.own(job)}")
        return made["state"], made["labels"]

    def ids(self):
        jobs = http("GET", "/v1/projects/p/jobs?pageSize=100").get("jobs", [])
        return {job["jobId"].removeprefix("vertex_") for job in jobs}

    def cancel(self, job):
        http("POST", f"/v1/projects/p/jobs/{self.own(job)}:cancel", {})

    def delete(self, job):
        http("DELETE", f"/v1/projects/p/jobs/{self.own(job)}")


class VertexRest:
    """Vertex AI over HTTP."""

    def create(self):
        return http("POST", f"/vertex/v1/{LOCATION}/customJobs", VERTEX)["name"].rsplit("/", 1)[1]

    def read(self, job):
        made = http("GET", f"/vertex/v1/{LOCATION}/customJobs/{job}")
        assert made["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["command"] == COMMAND
        return made["state"].removeprefix("JOB_STATE_"), made["labels"]

    def ids(self):
        jobs = http("GET", f"/vertex/v1/{LOCATION}/customJobs").get("customJobs", [])
        return {job["name"].rsplit("/", 1)[1] for job in jobs}

    def cancel(self, job):
        http("POST", f"/vertex/v1/{LOCATION}/customJobs/{job}:cancel", {})

    def delete(self, job):
        assert http("DELETE", f"/vertex/v1/{LOCATION}/customJobs/{job}")["done"]


class VertexGrpc:
    """Vertex AI over gRPC."""

    api = JobServiceClient(transport=JobServiceGrpcTransport(channel=grpc.insecure_channel(ADDRESS)))

    def create(self):
        container = {"command": COMMAND}
        spec = {"worker_pool_specs": [{"replica_count": 1, "container_spec": container}]}
        job = {"display_name": "j", "labels": {"a": "b"}, "job_spec": spec}
        return self.api.create_custom_job(parent=LOCATION, custom_job=job).name.rsplit("/", 1)[1]

    def read(self, job):
        made = self.api.get_custom_job(name=f"{LOCATION}/customJobs/{job}")
        return JobState(made.state).name.removeprefix("JOB_STATE_"), dict(made.labels)

    def ids(self):
        return {job.name.rsplit("/", 1)[1] for job in self.api.list_custom_jobs(parent=LOCATION)}

    def cancel(self, job):
        self.api.cancel_custom_job(name=f"{LOCATION}/customJobs/{job}")

    def delete(self, job):
        self.api.delete_custom_job(name=f"{LOCATION}/customJobs/{job}").result()


APIS = [AiPlatform(), VertexRest(), VertexGrpc()]
count = 0
for creator, reader, canceller, deleter in itertools.product(APIS, repeat=4):
    job = creator.create()
    state, labels = reader.read(job)
    # Vertex AI has another word for the state in which packages are installed.
    assert state in ("QUEUED", "PREPARING", "PENDING", "RUNNING") and labels == {"a": "b"}, (state, labels)
    assert job in reader.ids(), (job, reader.ids())
    canceller.cancel(job)
    while reader.read(job)[0] != "CANCELLED":
        pass
    deleter.delete(job)
    assert job not in reader.ids()
    count += 1
print(count)
