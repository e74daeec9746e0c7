//! Agent state derived from a Ray job.

use super::client::RayJob;
use tunesmith_executor::LossCause;
use tunesmith_executor::remote::AgentState;

/// State of the agent of `job`; `None` stands for a job unknown to Ray.
pub(super) fn place(job: Option<&RayJob>, was_submitted: bool, was_stopped: bool) -> AgentState {
    let gone = |reason: String| AgentState::Gone { cause: LossCause::Failure, reason };
    let Some(job) = job else {
        return if was_submitted {
            gone(
                "the Ray cluster does not know its job any more: the head was restarted, or the job was deleted"
                    .to_owned(),
            )
        } else {
            AgentState::Unknown
        };
    };
    match job.status.as_str() {
        // Ray starts a pending job even after acknowledging its stop. Its agent then receives the stop request.
        "PENDING" if was_stopped => gone("it was stopped while it waited".to_owned()),
        "PENDING" => {
            let message = job.message.as_deref().map(one_line).filter(|message| !message.is_empty());
            AgentState::Waiting { reason: message.unwrap_or_else(|| "Ray has not started the job".to_owned()) }
        }
        "RUNNING" => AgentState::Running,
        _ => gone(end(job)),
    }
}

/// Ray's description of the end of `job`.
fn end(job: &RayJob) -> String {
    let mut parts = vec![format!("its job on Ray is {}", job.status)];
    parts.extend(job.driver_exit_code.map(|code| format!("exit code {code} of its agent")));
    parts.extend(job.error_type.clone());
    parts.extend(job.message.as_deref().map(one_line).filter(|message| !message.is_empty()));
    parts.join(", ")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> RayJob {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn answers_of_ray_are_mapped_to_states() {
        let lost = |reason: &str| AgentState::Gone { cause: LossCause::Failure, reason: reason.to_owned() };
        assert_eq!(place(None, false, false), AgentState::Unknown);
        assert!(matches!(place(None, true, false), AgentState::Gone { .. }));
        let waiting = job(r#"{"status": "PENDING", "message": "Job has not started yet.\n It waits for resources."}"#);
        let reason = "Job has not started yet. It waits for resources.".to_owned();
        assert_eq!(place(Some(&waiting), true, false), AgentState::Waiting { reason });
        assert_eq!(place(Some(&waiting), true, true), lost("it was stopped while it waited"));
        let running = job(r#"{"status": "RUNNING", "message": null, "driver_exit_code": null}"#);
        assert_eq!(place(Some(&running), true, true), AgentState::Running);
        let dead = job(
            r#"{"status": "FAILED", "message": "The actor died.", "error_type": "JOB_SUPERVISOR_ACTOR_DIED", "driver_exit_code": null}"#,
        );
        assert_eq!(
            place(Some(&dead), true, false),
            lost("its job on Ray is FAILED, JOB_SUPERVISOR_ACTOR_DIED, The actor died.")
        );
        let failed = job(r#"{"status": "FAILED", "message": null, "driver_exit_code": 1}"#);
        assert_eq!(place(Some(&failed), true, false), lost("its job on Ray is FAILED, exit code 1 of its agent"));
    }
}
