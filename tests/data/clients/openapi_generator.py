"""Tunes a function of two parameters with the client that openapi-generator makes of the document: `URL`."""

import sys

import openapi_client
from openapi_client.models import (
    AddTrialMeasurementRequest,
    CompleteTrialRequest,
    DoubleInput,
    DoubleValueSpecInput,
    Duration,
    GoalType,
    HyperparameterSpecInput,
    Int32,
    Int64,
    IntegerValueSpecInput,
    JobInput,
    MeasurementInput,
    MetricInput,
    MetricInputValue,
    MetricSpecInput,
    ParameterSpecInput,
    ReplicaConfigInput,
    StudyConfigInput,
    StudyInput,
    StudyParameterSpecInput,
    SuggestTrialsRequest,
    TrainingInputInput,
)

api = openapi_client.DefaultApi(openapi_client.ApiClient(openapi_client.Configuration(host=sys.argv[1])))
at = {"project": "p", "location": "l"}
rate = DoubleValueSpecInput(min_value=DoubleInput(0.25), max_value=DoubleInput("1e0"))
layers = IntegerValueSpecInput(min_value=Int64(1), max_value=Int64("6"))
config = StudyConfigInput(
    metrics=[MetricSpecInput(metric="loss", goal=GoalType.MINIMIZE)],
    parameters=[
        StudyParameterSpecInput(parameter="rate", type="DOUBLE", double_value_spec=rate),
        StudyParameterSpecInput(parameter="layers", type="INTEGER", integer_value_spec=layers),
    ],
)
study = api.ml_projects_locations_studies_create(**at, study_id="s", study_input=StudyInput(study_config=config))
assert study.name == "projects/p/locations/l/studies/s" and study.state == "ACTIVE", study
assert study.study_config.parameters[0].double_value_spec.max_value.actual_instance == 1, study

request = SuggestTrialsRequest(suggestion_count=Int32(2), client_id="worker")
operation = api.ml_projects_locations_studies_trials_suggest(**at, study="s", suggest_trials_request=request)
assert operation.done and operation.metadata.actual_instance.suggestion_count == 2, operation
first, second = operation.response.actual_instance.trials
assert [trial.name.rsplit("/", 1)[1] for trial in (first, second)] == ["1", "2"]
values = {one.parameter: one.int_value or one.float_value.actual_instance for one in first.parameters}
assert 0.25 <= values["rate"] <= 1 and 1 <= int(values["layers"]) <= 6, values


def measured(value, step):
    metric = MetricInput(metric="loss", value=MetricInputValue(value))
    return MeasurementInput(step_count=Int64(step), elapsed_time=Duration("1.5s"), metrics=[metric])


api.ml_projects_locations_studies_trials_add_measurement(
    **at, study="s", trial="1", add_trial_measurement_request=AddTrialMeasurementRequest(measurement=measured(2, 1))
)
api.ml_projects_locations_studies_trials_complete(
    **at, study="s", trial="1", complete_trial_request=CompleteTrialRequest(final_measurement=measured(0.5, 2))
)
failed = CompleteTrialRequest(trial_infeasible=True, infeasible_reason="no memory")
api.ml_projects_locations_studies_trials_complete(**at, study="s", trial="2", complete_trial_request=failed)

done, infeasible = api.ml_projects_locations_studies_trials_list(**at, study="s").trials
assert done.state == "COMPLETED" and done.final_measurement.metrics[0].value.actual_instance == 0.5, done
assert done.final_measurement.elapsed_time == "1.5s" and done.measurements[0].step_count == "1", done
assert infeasible.trial_infeasible and infeasible.infeasible_reason == "no memory", infeasible
table = api.tunesmith_projects_locations_studies_views_table(**at, study="s", order_by="metric.loss")
assert table.total == 2 and table.view.rows[0].metrics == {"loss": 0.5}, table
history = api.tunesmith_projects_locations_studies_views_history(**at, study="s")
assert history.matched == 2, history

spec = HyperparameterSpecInput(
    goal="MINIMIZE",
    max_trials=Int32(1),
    params=[ParameterSpecInput(parameter_name="x", type="DOUBLE", min_value=DoubleInput(0), max_value=DoubleInput(1))],
)
program = ReplicaConfigInput(container_command=["true"])
training = TrainingInputInput(hyperparameters=spec, master_config=program)
job = api.ml_projects_jobs_create(project="p", job_input=JobInput(job_id="j", training_input=training))
assert job.job_id == "j" and job.state in ("QUEUED", "PREPARING", "RUNNING"), job
assert [one.job_id for one in api.ml_projects_jobs_list(project="p").jobs] == ["j"]

try:
    api.ml_projects_locations_studies_get(**at, study="absent")
    raise AssertionError("an absent study was found")
except openapi_client.exceptions.NotFoundException as error:
    assert error.data.error.status == "NOT_FOUND" and "absent" in error.data.error.message, error
try:
    api.ml_projects_locations_studies_create(**at, study_id="t", study_input=StudyInput(study_config=StudyConfigInput()))
    raise AssertionError("a study without metrics was created")
except openapi_client.exceptions.BadRequestException as error:
    details = [detail.actual_instance for detail in error.data.error.details]
    assert details[0].field_violations[0].var_field.startswith("studyConfig"), details
print("ok")
