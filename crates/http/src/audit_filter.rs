//! Filters of audit records.

use std::str::FromStr;

use tunesmith_access::AuditRecord;
use tunesmith_filter::{Condition, Expression, Fields, Filter, FilterError, Kind};

/// Selects audit records by `time`, `principal`, `callerIp`, `method`, `resource`, `permission`, `status` and `requestId`.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditFilter(Expression<Condition<Attribute>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attribute {
    Time,
    Principal,
    CallerIp,
    Method,
    Resource,
    Permission,
    Status,
    RequestId,
}

struct AuditAttributes;

impl Fields for AuditAttributes {
    type Field = Attribute;

    fn find(&self, root: &str, name: Option<&str>) -> Option<(Attribute, Kind)> {
        if name.is_some() {
            return None;
        }
        Some(match root {
            "time" => (Attribute::Time, Kind::Time),
            "principal" => (Attribute::Principal, Kind::Text),
            "callerIp" => (Attribute::CallerIp, Kind::Text),
            "method" => (Attribute::Method, Kind::Text),
            "resource" => (Attribute::Resource, Kind::Text),
            "permission" => (Attribute::Permission, Kind::Text),
            "status" => (Attribute::Status, Kind::Number),
            "requestId" => (Attribute::RequestId, Kind::Text),
            _ => return None,
        })
    }

    fn allowed(&self, _: &str) -> String {
        "time, principal, callerIp, method, resource, permission, status, requestId".to_owned()
    }
}

impl FromStr for AuditFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        text.parse::<Filter>()?.check(&AuditAttributes).map(Self)
    }
}

impl AuditFilter {
    /// Whether `record` is selected.
    pub fn accepts(&self, record: &AuditRecord) -> bool {
        self.0.holds(&mut |Condition { field, test }| {
            let text = |text: Option<&str>| text.is_some_and(|text| test.accepts_text(text));
            match field {
                Attribute::Time => test.accepts_time(record.time.as_microsecond()),
                Attribute::Principal => test.accepts_text(&record.principal),
                Attribute::CallerIp => text(record.caller_ip.as_deref()),
                Attribute::Method => test.accepts_text(&record.method),
                Attribute::Resource => test.accepts_text(&record.resource),
                Attribute::Permission => text(record.permission.as_deref()),
                Attribute::Status => test.accepts_number(f64::from(record.status)),
                Attribute::RequestId => test.accepts_text(&record.request_id),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_selected_by_their_fields() {
        let record = AuditRecord {
            time: "2026-11-23T08:00:00Z".parse().unwrap(),
            principal: "user:ada@x".to_owned(),
            caller_ip: Some("127.0.0.1".to_owned()),
            method: "ml.projects.jobs.cancel".to_owned(),
            resource: "projects/p/jobs/j:cancel".to_owned(),
            permission: None,
            status: 403,
            request_id: "r1".to_owned(),
            count: None,
        };
        for (filter, expected) in [
            ("", true),
            ("principal = \"user:ada@x\"", true),
            ("principal:user:ada@x AND status >= 400", true),
            ("status = 200", false),
            ("method:ml.projects.jobs.* AND time >= 2026-11-23", true),
            ("permission:*", false),
            ("callerIp = 127.0.0.1 AND NOT requestId = r1", false),
            ("resource:projects/p/*", true),
        ] {
            assert_eq!(filter.parse::<AuditFilter>().unwrap().accepts(&record), expected, "{filter}");
        }
        let error = "who = x".parse::<AuditFilter>().unwrap_err().to_string();
        assert!(error.starts_with("column 1: found the field who; allowed: time, principal,"), "{error}");
        assert!("status = refused".parse::<AuditFilter>().is_err());
    }
}
