//! Errors of jobs as refusals, with paths of a job of `ml v1`.

use tunesmith_domain::{Code, FieldViolation, Refusal};

use crate::{JobsError, SubmitError};

impl From<JobsError> for Refusal {
    fn from(error: JobsError) -> Self {
        match error {
            JobsError::Store(error) | JobsError::Submit(SubmitError::Store(error)) => error.into(),
            JobsError::Submit(error @ SubmitError::NoSuchPreviousJob(_)) => {
                Self::invalid("trainingInput.hyperparameters.resumePreviousJobId", error.to_string())
            }
            JobsError::Submit(SubmitError::NotRunnable(problems)) => {
                let violations = problems.into_iter().map(|problem| FieldViolation {
                    field: format!("trainingInput.{}", problem.part.field()),
                    description: problem.message,
                });
                Self::violations(violations)
            }
            JobsError::Submit(error @ SubmitError::Impossible(_)) => Self::invalid("trainingInput", error.to_string()),
            JobsError::QueueFull(_) => Self::new(Code::ResourceExhausted, error.to_string()),
            JobsError::Submit(error) => Self::new(Code::AlreadyExists, error.to_string()),
            JobsError::Running { .. }
            | JobsError::NothingToRetry(_)
            | JobsError::Needed { .. }
            | JobsError::NoStudy(_)
            | JobsError::NoTrialLeft { .. } => Self::new(Code::FailedPrecondition, error.to_string()),
            JobsError::ForeignPoint(_) => Self::invalid("parameters", error.to_string()),
            JobsError::Folder { .. } | JobsError::Logs(_) | JobsError::Executor(_) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a job cannot be read or changed");
                Self::new(Code::Internal, format!("{error}; see the server's log"))
            }
            JobsError::Plan(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a job's plan cannot be read");
                Self::new(Code::Internal, error.to_string())
            }
        }
    }
}
