//! Custom jobs and hyperparameter tuning jobs.

use std::sync::Arc;

use rand::{Rng, RngExt};
use tunesmith_api::ai_platform::Notice;
use tunesmith_api::ai_platform::optimizer::PublishedNames;
use tunesmith_domain::{Code, Job, JobId, JobPlan, Refusal, Study};
use tunesmith_filter::FilterError;
use tunesmith_jobs::packages::PackagesError;
use tunesmith_jobs::{JobsError, Submission, SubmitError};
use tunesmith_store::StoreError;
use tunesmith_studies::StudiesError;
use tunesmith_vizier::messages::longrunning::{Operation, operation};
use tunesmith_vizier::messages::vertex::{
    CancelCustomJobRequest, CancelHyperparameterTuningJobRequest, CreateCustomJobRequest,
    CreateHyperparameterTuningJobRequest, CustomJob, DeleteCustomJobRequest, DeleteHyperparameterTuningJobRequest,
    DeleteOperationMetadata, GenericOperationMetadata, GetCustomJobRequest, GetHyperparameterTuningJobRequest,
    HyperparameterTuningJob, ListCustomJobsRequest, ListCustomJobsResponse, ListHyperparameterTuningJobsRequest,
    ListHyperparameterTuningJobsResponse,
};
use tunesmith_vizier::names::vertex::{self as names, CUSTOM_JOBS, TUNING_JOBS};
use tunesmith_vizier::timestamp;
use tunesmith_vizier::vertex::{
    JobContext, JobOfVertex, custom_job, location_of_job, message_of_custom_job, message_of_trial,
    message_of_tuning_job, path_of_job, tuning_job,
};

use super::job_filter::JobFilter;
use super::read_mask::masked;
use crate::paging::Page;
use crate::refusals::{any, any_of, violation, violations};
use crate::services::{Context, Reply};

/// Number of jobs per page, if the client does not say, and at most.
const PAGE: (usize, usize) = (100, 1000);

/// Range of IDs: 19 digits that an int64 can hold.
const IDS: std::ops::Range<i64> = 1_000_000_000_000_000_000..i64::MAX;

pub(super) async fn create_custom(
    context: Context,
    request: CreateCustomJobRequest,
) -> Result<Reply<CustomJob>, Refusal> {
    let [project, location] = names::location(&request.parent)?;
    let message = request.custom_job.ok_or_else(|| Refusal::invalid("customJob", "is required"))?;
    let machines = Arc::clone(&context.services.machines.read());
    let job_context = job_context(&context, project, location, &machines);
    let converted = custom_job(&message, &job_context).map_err(violations)?;
    let Created { job, notices } = create(&context, project, "jobSpec", message.labels, converted).await?;
    let message = message_of_custom_job(&job, location)?;
    Ok(Reply { created: Some(message.name.clone()), message, notices })
}

pub(super) async fn create_tuning(
    context: Context,
    request: CreateHyperparameterTuningJobRequest,
) -> Result<Reply<HyperparameterTuningJob>, Refusal> {
    let [project, location] = names::location(&request.parent)?;
    let message = request.hyperparameter_tuning_job;
    let message = message.ok_or_else(|| Refusal::invalid("hyperparameterTuningJob", "is required"))?;
    let machines = Arc::clone(&context.services.machines.read());
    let job_context = job_context(&context, project, location, &machines);
    let converted = tuning_job(&message, &job_context).map_err(violations)?;
    let Created { job, notices } = create(&context, project, "trialJobSpec", message.labels, converted).await?;
    let message = message_of_tuning_job(&job, None, Vec::new(), location)?;
    Ok(Reply { created: Some(message.name.clone()), message, notices })
}

fn job_context<'a>(
    context: &Context,
    project: &str,
    location: &'a str,
    machines: &'a tunesmith_api::ai_platform::machines::MachineMap,
) -> JobContext<'a> {
    JobContext {
        machines,
        location,
        working_directory: context.services.working_directory.clone(),
        job_dir_base: context.jobs().job_dir_base(project),
    }
}

struct Created {
    job: Job,
    notices: Vec<String>,
}

/// Creates the job `converted`, whose programs are specified in the field `spec`.
async fn create(
    context: &Context,
    project: &str,
    spec: &str,
    labels: std::collections::BTreeMap<String, String>,
    mut converted: JobOfVertex,
) -> Result<Created, Refusal> {
    for (path, uri) in converted.packages() {
        *uri = context.services.packages.resolve(project, uri).await.map_err(|error| match error {
            PackagesError::Store(error) => error.into(),
            error => Refusal::invalid(&path, error.to_string()),
        })?;
    }
    let training_input = converted.document().map_err(violation)?;
    let (id, random_seed) = {
        let mut random = rand::rng();
        (random.random_range(IDS), random.next_u64())
    };
    let id = JobId::of_vertex(project, &id.to_string());
    let submission = Submission {
        id: Some(id.map_err(|error| Refusal::invalid("parent", error.to_string()))?),
        name_prefix: String::new(),
        labels,
        study: converted.study,
        resume_previous_job: None,
        seed: None,
        training_input,
        plan: JobPlan { principal: context.admission.principal().map(str::to_owned), ..converted.plan },
        policy: context.admission.policy_of_creator(),
    };
    let known = converted.notices;
    let job = context.jobs().create(submission, random_seed).await.map_err(|error| refusal(error, spec))?;
    // The submission may add notices.
    let of_plan = job
        .plan
        .as_ref()
        .map_or(&[][..], |plan| &plan.machines.notices)
        .iter()
        .map(|notice| Notice { field: path_of_job(&notice.field, spec), description: notice.description.clone() });
    let added: Vec<Notice> = of_plan.filter(|notice| notice.field != "parent" && !known.contains(notice)).collect();
    let notices = known.into_iter().chain(added).map(|it| format!("{}: {}", it.field, it.description)).collect();
    Ok(Created { job, notices })
}

/// Refusal with paths of a message whose programs are specified in `spec`.
fn refusal(error: JobsError, spec: &str) -> Refusal {
    match error {
        JobsError::Submit(SubmitError::NotRunnable(problems)) => {
            let violations = problems.into_iter().map(|problem| tunesmith_domain::FieldViolation {
                field: path_of_job(problem.part.field(), spec),
                description: problem.message,
            });
            Refusal::violations(violations)
        }
        JobsError::Submit(error @ SubmitError::Impossible(_)) => Refusal::invalid(spec, error.to_string()),
        error => error.into(),
    }
}

/// The job `name` of `collection`.
async fn named(context: &Context, name: &str, collection: &str) -> Result<(Job, String), Refusal> {
    let (location, id) = names::job(name, collection)?;
    let not_found = || Refusal::new(Code::NotFound, format!("{name} does not exist"));
    let job = match context.jobs().job(&id).await {
        Ok(job) => job,
        Err(JobsError::Store(StoreError::NotFound { .. })) => return Err(not_found()),
        Err(error) => return Err(error.into()),
    };
    if is_at(&job, location, collection) { Ok((job, location.to_owned())) } else { Err(not_found()) }
}

fn is_at(job: &Job, location: &str, collection: &str) -> bool {
    job.study.is_some() == (collection == TUNING_JOBS) && location_of_job(job).is_none_or(|region| region == location)
}

pub(super) async fn get_custom(context: Context, request: GetCustomJobRequest) -> Result<Reply<CustomJob>, Refusal> {
    let (job, location) = named(&context, &request.name, CUSTOM_JOBS).await?;
    Ok(message_of_custom_job(&job, &location)?.into())
}

pub(super) async fn get_tuning(
    context: Context,
    request: GetHyperparameterTuningJobRequest,
) -> Result<Reply<HyperparameterTuningJob>, Refusal> {
    let (job, location) = named(&context, &request.name, TUNING_JOBS).await?;
    let report = context.jobs().report(&job.id).await?;
    let trials = match &report.study {
        None => Vec::new(),
        Some(study) => {
            let names = PublishedNames::of(study.problem.search_space());
            // As in Vertex AI, with the results alone: the curves are those of the study.
            report.trials.iter().map(|trial| message_of_trial(study, &names, trial, &[])).collect()
        }
    };
    Ok(message_of_tuning_job(&report.job, report.study.as_ref(), trials, &location)?.into())
}

/// A page of jobs, and the token of the next one.
async fn page(
    context: &Context,
    (parent, filter, collection): (&str, &str, &'static str),
    (page_size, page_token): (i32, &str),
) -> Result<(Vec<Job>, String, String), Refusal> {
    let [project, location] = names::location(parent)?;
    let filter: JobFilter =
        filter.parse().map_err(|error: FilterError| Refusal::invalid("filter", error.to_string()))?;
    let Page { limit, after } = Page::read(page_size, page_token, PAGE.0, PAGE.1)?;
    let wanted = |job: &Job| is_at(job, location, collection) && filter.accepts(job);
    let (jobs, has_more) = context.jobs().list(project, wanted, after, limit).await?;
    let last = jobs.last().filter(|_| has_more);
    let next_page_token = last.map(|job| job.id.to_string()).unwrap_or_default();
    Ok((jobs, location.to_owned(), next_page_token))
}

pub(super) async fn list_custom(
    context: Context,
    request: ListCustomJobsRequest,
) -> Result<Reply<ListCustomJobsResponse>, Refusal> {
    let selection = (request.parent.as_str(), request.filter.as_str(), CUSTOM_JOBS);
    let (jobs, location, next_page_token) = page(&context, selection, (request.page_size, &request.page_token)).await?;
    let message = |job| masked(message_of_custom_job(job, &location)?, request.read_mask.as_ref());
    let custom_jobs = jobs.iter().map(message).collect::<Result<_, _>>()?;
    Ok(ListCustomJobsResponse { custom_jobs, next_page_token }.into())
}

pub(super) async fn list_tuning(
    context: Context,
    request: ListHyperparameterTuningJobsRequest,
) -> Result<Reply<ListHyperparameterTuningJobsResponse>, Refusal> {
    let selection = (request.parent.as_str(), request.filter.as_str(), TUNING_JOBS);
    let (jobs, location, next_page_token) = page(&context, selection, (request.page_size, &request.page_token)).await?;
    let mut hyperparameter_tuning_jobs = Vec::with_capacity(jobs.len());
    for job in &jobs {
        let study = study_of(&context, job).await?;
        // Without trials, as published.
        let message = message_of_tuning_job(job, study.as_ref(), Vec::new(), &location)?;
        hyperparameter_tuning_jobs.push(masked(message, request.read_mask.as_ref())?);
    }
    Ok(ListHyperparameterTuningJobsResponse { hyperparameter_tuning_jobs, next_page_token }.into())
}

/// Study of a job that was submitted in another way, for its specification.
async fn study_of(context: &Context, job: &Job) -> Result<Option<Study>, Refusal> {
    let Some(study) = job.study.as_ref().filter(|_| job.training_input["tunesmith"]["vertex"].is_null()) else {
        return Ok(None);
    };
    match context.studies().study(study).await {
        Ok(study) => Ok(Some(study)),
        Err(StudiesError::Store(StoreError::NotFound { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn cancel_custom(context: Context, request: CancelCustomJobRequest) -> Result<Reply<()>, Refusal> {
    cancel(&context, &request.name, CUSTOM_JOBS).await
}

pub(super) async fn cancel_tuning(
    context: Context,
    request: CancelHyperparameterTuningJobRequest,
) -> Result<Reply<()>, Refusal> {
    cancel(&context, &request.name, TUNING_JOBS).await
}

async fn cancel(context: &Context, name: &str, collection: &str) -> Result<Reply<()>, Refusal> {
    let (job, _) = named(context, name, collection).await?;
    context.jobs().cancel(&job.id).await?;
    Ok(().into())
}

pub(super) async fn delete_custom(
    context: Context,
    request: DeleteCustomJobRequest,
) -> Result<Reply<Operation>, Refusal> {
    delete(&context, request.name, CUSTOM_JOBS).await
}

pub(super) async fn delete_tuning(
    context: Context,
    request: DeleteHyperparameterTuningJobRequest,
) -> Result<Reply<Operation>, Refusal> {
    delete(&context, request.name, TUNING_JOBS).await
}

/// Deletes a job. The operation is complete, so that no client reads it again.
async fn delete(context: &Context, name: String, collection: &str) -> Result<Reply<Operation>, Refusal> {
    let (job, _) = named(context, &name, collection).await?;
    let now = context.services.clock.now();
    context.jobs().delete(&job.id).await?;
    let generic_metadata = GenericOperationMetadata {
        partial_failures: Vec::new(),
        create_time: Some(timestamp(now)),
        update_time: Some(timestamp(context.services.clock.now())),
    };
    let operation = Operation {
        name: format!("{name}/operations/{}", now.as_millisecond()),
        metadata: Some(any_of(context.version, &DeleteOperationMetadata { generic_metadata: Some(generic_metadata) })),
        done: true,
        result: Some(operation::Result::Response(any(&()))),
    };
    Ok(operation.into())
}
