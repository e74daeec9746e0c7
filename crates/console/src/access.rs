//! The page about access: tokens, roles, and the newest part of the audit log.

use askama::Template;
use axum::extract::{Query, State};
use axum::http::request::Parts;
use axum::response::Response;
use serde::Deserialize;

use super::errors::PageError;
use super::format::Time;
use super::frame::{ADMINISTRATION, Frame, Section};
use super::router::{Console, Visit, rendered};
use super::subject::job_address;
use tunesmith_access::{AuditRecord, NewestRecords, Permission, Role};
use tunesmith_domain::Job;
use tunesmith_http::administration::{AuditedRequests, Credentials, granted_roles};
use tunesmith_http::audit_filter::AuditFilter;
use tunesmith_http::pages::PageCall;

/// Number of records on the page.
const MOST_RECORDS: usize = 200;

/// Number of listed jobs with policies.
const MOST_POLICIES: usize = 100;

/// The selection in the address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Selection {
    filter: String,
    /// `reads` for the log of reads.
    log: String,
}

#[derive(Template)]
#[template(path = "access.html")]
struct AccessPage {
    frame: Frame,
    selection: Selection,
    data_dir: String,
    /// Why the tokens are not shown.
    token_error: Option<String>,
    are_required: bool,
    tokens: Vec<TokenRow>,
    roles: Vec<RoleRow>,
    policies: Vec<PolicyRow>,
    has_more_policies: bool,
    /// What is wrong with the filter, or with the log.
    audit_error: Option<String>,
    has_reads: bool,
    records: Vec<RecordRow>,
    unreadable: usize,
    read_back_to: Option<Time>,
}

struct TokenRow {
    id: String,
    principal: String,
    grants: Vec<String>,
    create_time: Time,
    expire_time: Option<Time>,
    has_expired: bool,
    last_use: Option<Time>,
    sessions: usize,
}

struct RoleRow {
    name: &'static str,
    meaning: &'static str,
    permissions: String,
}

/// A job whose policy grants roles.
struct PolicyRow {
    name: String,
    project: String,
    address: String,
    grants: Vec<(String, String)>,
}

struct RecordRow {
    time: Time,
    record: AuditRecord,
    is_refused: bool,
}

pub(crate) async fn page(State(console): State<Console>, Query(selection): Query<Selection>, parts: Parts) -> Response {
    let call = PageCall::of_server("console.access", ADMINISTRATION);
    console.show(call, parts, async move |console, visit| show(console, visit, selection).await).await
}

async fn show(console: Console, visit: Visit, selection: Selection) -> Result<Response, PageError> {
    let now = console.clock.now();
    let (credentials, token_error) = match console.pages.credentials() {
        Ok(credentials) => (credentials, None),
        Err(error) => (None, Some(error)),
    };
    let Credentials { are_required, tokens } =
        credentials.unwrap_or(Credentials { are_required: false, tokens: Vec::new() });
    let (found, audit_error) = match records(&console, &selection).await {
        Ok(found) => (found, None),
        Err(error) => (NewestRecords::default(), Some(error)),
    };
    let mut policies = console.jobs.pick(|job| policy(&job)).await?;
    let has_more_policies = policies.len() > MOST_POLICIES;
    policies.truncate(MOST_POLICIES);
    let page = AccessPage {
        frame: Frame::new("Access", Section::Access, &visit.visitor, &visit.parts),
        selection,
        data_dir: console.server()?.data_dir.clone(),
        token_error,
        are_required,
        tokens: tokens
            .into_iter()
            .map(|given| TokenRow {
                id: given.token.id.clone(),
                principal: given.token.principal.to_string(),
                grants: given.token.grants.iter().map(ToString::to_string).collect(),
                create_time: Time(given.token.create_time),
                expire_time: given.token.expire_time.map(Time),
                has_expired: given.token.has_expired(now),
                last_use: given.last_use.map(Time),
                sessions: given.sessions,
            })
            .collect(),
        roles: Role::ALL.into_iter().map(role).collect(),
        policies,
        has_more_policies,
        audit_error,
        has_reads: console.pages.records(AuditedRequests::Reads),
        unreadable: found.unreadable,
        read_back_to: found.read_back_to.map(Time),
        records: found
            .records
            .into_iter()
            .map(|record| RecordRow { time: Time(record.time), is_refused: record.status >= 400, record })
            .collect(),
    };
    Ok(rendered(&page))
}

/// The newest records that the visitor has selected.
async fn records(console: &Console, selection: &Selection) -> Result<NewestRecords, String> {
    let filter: AuditFilter = selection.filter.parse().map_err(|error| format!("filter: {error}"))?;
    let requests = if selection.log == "reads" { AuditedRequests::Reads } else { AuditedRequests::Changes };
    let found = console.pages.audit(requests, filter, MOST_RECORDS).await?;
    found.ok_or_else(|| match requests {
        AuditedRequests::Reads => "reads are not recorded: start the server with --data-access-log".to_owned(),
        AuditedRequests::Changes => "this process records no changes".to_owned(),
    })
}

fn role(role: Role) -> RoleRow {
    let meaning = match role {
        Role::Admin => "everything",
        Role::Developer => "creates jobs, studies and trials, and reads everything; controls its own jobs",
        Role::Viewer => "reads everything",
        Role::JobOwner => "everything on one job; its creator has this role",
    };
    let allowed = Permission::ALL.into_iter().filter(|permission| role.allows(*permission));
    RoleRow {
        name: role.as_str(),
        meaning,
        permissions: allowed.map(Permission::as_str).collect::<Vec<_>>().join(", "),
    }
}

fn policy(job: &Job) -> Option<PolicyRow> {
    let grants = granted_roles(&job.policy);
    let (project, name) = job.id.parts();
    (!grants.is_empty()).then(|| PolicyRow {
        name: name.to_owned(),
        project: project.to_owned(),
        address: job_address(job),
        grants: grants.into_iter().map(|(role, members)| (role, members.join(", "))).collect(),
    })
}
