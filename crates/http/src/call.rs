//! Which of the API's methods a request calls, and what that needs.

use axum::http::Method;
use percent_encoding::percent_decode_str;

use tunesmith_access::Permission;
use tunesmith_domain::StudyId;

/// A call of one of the API's methods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// The method as the API's discovery document names it.
    pub(super) method: &'static str,
    /// What the caller must be allowed to do.
    pub(super) needs: Needs,
    /// The project it is in; empty for what is in none.
    pub(super) project: String,
    /// The job it is about.
    pub(super) job: Option<String>,
    /// Whether it may change something.
    pub(super) changes: bool,
}

impl Call {
    /// A call of something that is no method.
    pub(super) fn unknown(http: &Method) -> Self {
        let changes = !is_reading(http);
        Self { method: "unknown", needs: Needs::Token, project: String::new(), job: None, changes }
    }
}

fn is_reading(http: &Method) -> bool {
    matches!(*http, Method::GET | Method::HEAD)
}

/// What a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing: anybody may call it.
    Nothing,
    /// A token of the running trial itself, which the method checks.
    TrialToken,
    /// Any token.
    Token,
    /// A token that allows this.
    Permission(Permission),
}

impl Needs {
    /// The permission, if it is one.
    pub(super) fn permission(self) -> Option<Permission> {
        match self {
            Self::Permission(permission) => Some(permission),
            Self::Nothing | Self::TrialToken | Self::Token => None,
        }
    }
}

/// The call that a request of `http` for `path` is; `None` if the API has no such method.
pub(super) fn identify(http: &Method, path: &str) -> Option<Call> {
    let segments: Vec<String> =
        path.split('/').skip(1).map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned()).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let changes = !is_reading(http);
    let ["v1", "projects", project, rest @ ..] = segments.as_slice() else {
        let method = match segments.as_slice() {
            ["healthz"] => "healthz",
            ["readyz"] => "readyz",
            ["metrics"] => "metrics",
            ["openapi.json"] => "openapi",
            _ => return None,
        };
        return Some(Call { method, needs: Needs::Nothing, project: String::new(), job: None, changes: false });
    };
    // What a GET would say, HEAD says the status of.
    let http = if *http == Method::HEAD { "GET" } else { http.as_str() };
    let (method, needs, job) = match rest {
        ["jobs", rest @ ..] => {
            let (method, needs, job) = of_jobs(http, rest)?;
            (method, needs, job.map(str::to_owned))
        }
        ["locations", location, "studies", rest @ ..] => {
            let (method, needs) = of_studies(http, location, rest)?;
            (method, needs, None)
        }
        rest => {
            let (method, permission) = of_project(http, project, rest)?;
            (method, Needs::Permission(permission), None)
        }
    };
    let project = project.strip_suffix(GET_CONFIG).filter(|_| rest.is_empty()).unwrap_or(project);
    Some(Call { method, needs, project: project.to_owned(), job, changes })
}

/// The method that takes a file.
pub(super) const UPLOAD: &str = "tunesmith.projects.packages.put";

const GET_CONFIG: &str = ":getConfig";

fn of_project(http: &str, project: &str, rest: &[&str]) -> Option<(&'static str, Permission)> {
    Some(match (http, rest) {
        // Packages are of use to who creates jobs.
        ("GET", ["packages", _, _]) => ("tunesmith.projects.packages.get", Permission::JobsCreate),
        ("PUT", ["packages", _, _]) => (UPLOAD, Permission::JobsCreate),
        ("GET", []) if project.ends_with(GET_CONFIG) => ("ml.projects.getConfig", Permission::ProjectsGetConfig),
        ("GET", ["locations"]) => ("ml.projects.locations.list", Permission::LocationsList),
        ("GET", ["locations", _]) => ("ml.projects.locations.get", Permission::LocationsGet),
        ("GET", ["locations", _, "operations", _]) => {
            ("ml.projects.locations.operations.get", Permission::OperationsGet)
        }
        ("POST", ["locations", _, "operations", operation]) if operation.ends_with(":cancel") => {
            ("ml.projects.locations.operations.cancel", Permission::OperationsCancel)
        }
        ("GET", ["operations"]) => ("ml.projects.operations.list", Permission::OperationsList),
        ("GET", ["operations", _]) => ("ml.projects.operations.get", Permission::OperationsGet),
        ("POST", ["operations", operation]) if operation.ends_with(":cancel") => {
            ("ml.projects.operations.cancel", Permission::OperationsCancel)
        }
        _ => return None,
    })
}

fn of_jobs<'a>(http: &str, rest: &[&'a str]) -> Option<(&'static str, Needs, Option<&'a str>)> {
    if let [job, "logs", log @ ..] = rest {
        let method = match (http, log) {
            ("GET", []) => "tunesmith.projects.jobs.logs.list",
            ("GET", [_]) => "tunesmith.projects.jobs.logs.get",
            _ => return None,
        };
        return Some((method, Needs::Permission(Permission::JobsGet), Some(job)));
    }
    let [segment] = rest else {
        let (method, permission) = match (http, rest) {
            ("GET", []) => ("ml.projects.jobs.list", Permission::JobsList),
            ("POST", []) => ("ml.projects.jobs.create", Permission::JobsCreate),
            _ => return None,
        };
        return Some((method, Needs::Permission(permission), None));
    };
    let (job, custom) = segment.split_once(':').map_or((*segment, None), |(job, custom)| (job, Some(custom)));
    let (method, needs) = match (http, custom) {
        ("GET", None) => ("ml.projects.jobs.get", Needs::Permission(Permission::JobsGet)),
        ("PATCH", None) => ("ml.projects.jobs.patch", Needs::Permission(Permission::JobsUpdate)),
        ("POST", Some("cancel")) => ("ml.projects.jobs.cancel", Needs::Permission(Permission::JobsCancel)),
        ("GET", Some("getIamPolicy")) => {
            ("ml.projects.jobs.getIamPolicy", Needs::Permission(Permission::JobsGetIamPolicy))
        }
        ("POST", Some("setIamPolicy")) => {
            ("ml.projects.jobs.setIamPolicy", Needs::Permission(Permission::JobsSetIamPolicy))
        }
        // It answers what the caller may do.
        ("POST", Some("testIamPermissions")) => ("ml.projects.jobs.testIamPermissions", Needs::Token),
        _ => return None,
    };
    Some((method, needs, Some(job)))
}

fn of_studies(http: &str, location: &str, rest: &[&str]) -> Option<(&'static str, Needs)> {
    let (method, permission) = match (http, rest) {
        ("GET", []) => ("ml.projects.locations.studies.list", Permission::StudiesList),
        ("POST", []) => ("ml.projects.locations.studies.create", Permission::StudiesCreate),
        ("GET", [_]) => ("ml.projects.locations.studies.get", Permission::StudiesGet),
        ("DELETE", [_]) => ("ml.projects.locations.studies.delete", Permission::StudiesDelete),
        ("GET", [_, "trials"]) => ("ml.projects.locations.studies.trials.list", Permission::TrialsList),
        ("POST", [_, "trials"]) => ("ml.projects.locations.studies.trials.create", Permission::TrialsCreate),
        ("POST", [_, "trials:suggest"]) => ("ml.projects.locations.studies.trials.suggest", Permission::TrialsCreate),
        ("POST", [_, "trials:listOptimalTrials"]) => {
            ("ml.projects.locations.studies.trials.listOptimalTrials", Permission::TrialsList)
        }
        ("GET", [_, "trials", _]) => ("ml.projects.locations.studies.trials.get", Permission::TrialsGet),
        ("DELETE", [_, "trials", _]) => ("ml.projects.locations.studies.trials.delete", Permission::TrialsDelete),
        ("POST", [_, "trials", trial]) => {
            let method = match trial.split_once(':')?.1 {
                "addMeasurement" => "ml.projects.locations.studies.trials.addMeasurement",
                "complete" => "ml.projects.locations.studies.trials.complete",
                "checkEarlyStoppingState" => "ml.projects.locations.studies.trials.checkEarlyStoppingState",
                "stop" => "ml.projects.locations.studies.trials.stop",
                _ => return None,
            };
            (method, Permission::TrialsUpdate)
        }
        _ => return None,
    };
    let of_trial_itself = location == StudyId::JOBS_LOCATION
        && matches!(rest, [_, "trials", _])
        && (http == "GET" || method.ends_with(".addMeasurement"));
    Some((method, if of_trial_itself { Needs::TrialToken } else { Needs::Permission(permission) }))
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::{Call, Needs, identify};
    use tunesmith_access::Permission;

    fn call(http: &str, path: &str) -> Option<Call> {
        identify(&http.parse::<Method>().unwrap(), path)
    }

    #[test]
    fn calls_are_told_by_method_and_path() {
        let found = call("POST", "/v1/projects/p%20q/jobs/j:cancel").unwrap();
        let expected = Call {
            method: "ml.projects.jobs.cancel",
            needs: Needs::Permission(Permission::JobsCancel),
            project: "p q".to_owned(),
            job: Some("j".to_owned()),
            changes: true,
        };
        assert_eq!(found, expected);
        let study = "/v1/projects/p/locations/l/studies/s";
        for (http, path, method, permission) in [
            ("GET", "/v1/projects/p:getConfig".to_owned(), "ml.projects.getConfig", "ml.projects.getConfig"),
            ("GET", study.to_owned(), "ml.projects.locations.studies.get", "ml.studies.get"),
            (
                "POST",
                format!("{study}/trials%3Asuggest"),
                "ml.projects.locations.studies.trials.suggest",
                "ml.trials.create",
            ),
            (
                "POST",
                format!("{study}/trials/7~2:complete"),
                "ml.projects.locations.studies.trials.complete",
                "ml.trials.update",
            ),
            ("DELETE", format!("{study}/trials/7"), "ml.projects.locations.studies.trials.delete", "ml.trials.delete"),
        ] {
            let call = call(http, &path).unwrap();
            assert_eq!((call.method, call.project.as_str()), (method, "p"));
            assert_eq!(call.needs.permission().map(Permission::as_str), Some(permission));
            assert_eq!(call.changes, http != "GET");
        }
    }

    #[test]
    fn every_method_of_the_service_is_known() {
        for operation in crate::openapi::operations() {
            let path = operation.path.replace(['{', '}'], "");
            let Some(call) = identify(&operation.method, &path) else { panic!("{} {path}", operation.method) };
            match operation.id.strip_prefix("tunesmith.jobs.") {
                Some(_) => assert_eq!(call.needs, Needs::TrialToken, "{path}"),
                None => assert_eq!(call.method, operation.id, "{path}"),
            }
            if operation.method == Method::GET {
                assert_eq!(identify(&Method::HEAD, &path), Some(call), "{path}");
            }
        }
    }

    #[test]
    fn trials_of_jobs_are_reached_with_their_own_tokens() {
        let trial = "/v1/projects/p/locations/jobs/studies/s/trials/1";
        assert_eq!(call("GET", trial).unwrap().needs, Needs::TrialToken);
        assert_eq!(call("POST", &format!("{trial}:addMeasurement")).unwrap().needs, Needs::TrialToken);
        let complete = call("POST", &format!("{trial}:complete")).unwrap();
        assert_eq!(complete.needs, Needs::Permission(Permission::TrialsUpdate));
    }

    #[test]
    fn additions_of_ours_need_permissions_too() {
        let logs = call("GET", "/v1/projects/p/jobs/j/logs").unwrap();
        assert_eq!((logs.needs, logs.job.as_deref()), (Needs::Permission(Permission::JobsGet), Some("j")));
        let log = call("GET", "/v1/projects/p/jobs/j/logs/attempt-1.master-0.stdout").unwrap();
        assert_eq!((log.needs, log.job.as_deref()), (Needs::Permission(Permission::JobsGet), Some("j")));
        for http in ["GET", "PUT"] {
            let package = call(http, "/v1/projects/p/packages/0/a.whl").unwrap();
            assert_eq!((package.needs, package.changes), (Needs::Permission(Permission::JobsCreate), http == "PUT"));
        }
    }

    #[test]
    fn what_is_no_method_is_none() {
        for (http, path) in [
            ("GET", "/"),
            ("GET", "/v1/projects/p"),
            ("DELETE", "/v1/projects/p/jobs/j"),
            ("POST", "/v1/projects/p/jobs/j"),
            ("POST", "/v1/projects/p/locations/l/studies/s/trials/7:explode"),
            ("GET", "/v1/projects/p/locations/l/studies/s/trials/7/x"),
        ] {
            assert_eq!(call(http, path), None, "{http} {path}");
        }
        assert_eq!(call("GET", "/healthz").unwrap().needs, Needs::Nothing);
    }
}
