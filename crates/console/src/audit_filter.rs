use std::str::FromStr;

use tunesmith_access::AuditRecord;
use tunesmith_filter::{Condition, Expression, Fields, Filter, FilterError, Kind};

/// Fields of a record, with their kinds.
const FIELDS: [(&str, Kind); 8] = [
    ("time", Kind::Time),
    ("principal", Kind::Text),
    ("callerIp", Kind::Text),
    ("method", Kind::Text),
    ("resource", Kind::Text),
    ("permission", Kind::Text),
    ("status", Kind::Number),
    ("requestId", Kind::Text),
];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AuditFilter(Expression<Condition<&'static str>>);

struct AuditFields;

impl Fields for AuditFields {
    type Field = &'static str;

    fn find(&self, root: &str, name: Option<&str>) -> Option<(&'static str, Kind)> {
        FIELDS.into_iter().find(|(field, _)| name.is_none() && *field == root)
    }

    fn allowed(&self, _: &str) -> String {
        FIELDS.map(|(field, _)| field).join(", ")
    }
}

impl FromStr for AuditFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        text.parse::<Filter>()?.check(&AuditFields).map(Self)
    }
}

impl AuditFilter {
    pub(crate) fn accepts(&self, record: &AuditRecord) -> bool {
        self.0.holds(&mut |Condition { field, test }| {
            let text = match *field {
                "time" => return test.accepts_time(record.time.as_microsecond()),
                "status" => return test.accepts_number(f64::from(record.status)),
                "principal" => Some(&record.principal),
                "callerIp" => record.caller_ip.as_ref(),
                "method" => Some(&record.method),
                "resource" => Some(&record.resource),
                "permission" => record.permission.as_ref(),
                _ => Some(&record.request_id),
            };
            text.is_some_and(|text| test.accepts_text(text))
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
