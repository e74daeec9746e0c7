//! Access page: tokens, roles, and the end of the audit log.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use serde::Deserialize;

use super::audit_filter::AuditFilter;
use super::console::{Console, rendered};
use super::errors::PageError;
use super::format::Time;
use super::frame::{Frame, Section};
use super::subject::job_address;
use super::visit::Visit;
use tunesmith_access::{AuditRecord, NewestRecords, Permission, Role};
use tunesmith_admission::{AuditedCalls, Credentials, bindings};
use tunesmith_domain::Job;

const MOST_RECORDS: usize = 200;

const MOST_POLICIES: usize = 100;

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
    token_error: Option<String>,
    are_required: bool,
    /// Whether the visitor may create and revoke tokens.
    may_change: bool,
    tokens: Vec<TokenRow>,
    roles: Vec<RoleRow>,
    policies: Vec<PolicyRow>,
    has_more_policies: bool,
    /// Error in the filter or the log.
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
    /// Whether it is the session of a person who has signed in at the identity provider.
    is_session: bool,
    /// Whether it is that of the visitor, who revokes it elsewhere.
    is_own: bool,
}

struct RoleRow {
    name: &'static str,
    meaning: &'static str,
    permissions: String,
    /// Number of permissions.
    count: usize,
}

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

pub(crate) async fn show(
    console: Console,
    visit: Visit,
    Query(selection): Query<Selection>,
) -> Result<Response, PageError> {
    let now = console.clock.now();
    let (credentials, token_error) = match console.control.credentials() {
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
        frame: visit.frame("Access", Section::Access),
        selection,
        data_dir: console.server()?.data_dir.clone(),
        token_error,
        are_required,
        may_change: are_required
            && [Permission::TokensCreate, Permission::TokensDelete]
                .into_iter()
                .all(|one| visit.visitor.may_everywhere(one)),
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
                is_session: given.token.session.is_some(),
                is_own: visit.visitor.token_id() == Some(given.token.id.as_str()),
            })
            .collect(),
        roles: Role::ALL.into_iter().map(role).collect(),
        policies,
        has_more_policies,
        audit_error,
        has_reads: console.control.records(AuditedCalls::Reads),
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

/// Newest records that match the selection.
async fn records(console: &Console, selection: &Selection) -> Result<NewestRecords, String> {
    let filter: AuditFilter = selection.filter.parse().map_err(|error| format!("filter: {error}"))?;
    let calls = if selection.log == "reads" { AuditedCalls::Reads } else { AuditedCalls::Changes };
    let found = console.control.audit(calls, MOST_RECORDS, move |record| filter.accepts(record)).await?;
    found.ok_or_else(|| match calls {
        AuditedCalls::Reads => "reads are not recorded: start the server with --data-access-log".to_owned(),
        AuditedCalls::Changes => "this process records no changes".to_owned(),
    })
}

fn role(role: Role) -> RoleRow {
    let meaning = match role {
        Role::Admin => "everything",
        Role::Developer => {
            "creates jobs, studies, trials and models, predicts, and reads everything; controls its own jobs and models"
        }
        Role::Viewer => "reads everything",
        Role::JobOwner => "everything on one job; its creator has this role",
        Role::ModelOwner => "everything on one model; its creator has this role",
        Role::ModelUser => "reads one model and predicts with it",
    };
    let allowed = Permission::ALL.into_iter().filter(|permission| role.allows(*permission)).map(Permission::as_str);
    let allowed: Vec<&str> = allowed.collect();
    RoleRow { name: role.as_str(), meaning, count: allowed.len(), permissions: allowed.join(", ") }
}

fn policy(job: &Job) -> Option<PolicyRow> {
    let grants = bindings(&job.policy);
    let (project, name) = job.id.parts();
    (!grants.is_empty()).then(|| PolicyRow {
        name: name.to_owned(),
        project: project.to_owned(),
        address: job_address(job),
        grants: grants.into_iter().map(|(role, members)| (role, members.join(", "))).collect(),
    })
}
