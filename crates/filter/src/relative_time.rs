//! Times relative to now, as in gcloud: `-P7D` is seven days ago.

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// Resolves `text`, an ISO 8601 duration such as `-P7D`, `-p1w` or `PT12H`, relative to `now`; `None` if it is no
/// duration or the result is out of range. Days, months and years are in UTC.
pub(super) fn relative_time(text: &str, now: Timestamp) -> Option<Timestamp> {
    if !is_duration(text) {
        return None;
    }
    let span: Span = text.to_ascii_uppercase().parse().ok()?;
    now.to_zoned(TimeZone::UTC).checked_add(span).ok().map(|time| time.timestamp())
}

/// Whether `text` looks like an ISO 8601 duration. No other time begins like one.
pub(super) fn is_duration(text: &str) -> bool {
    text.trim_start_matches(['-', '+']).starts_with(['P', 'p'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_added_to_now() {
        let now: Timestamp = "2026-03-31T10:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("-P7D", Some("2026-03-24T10:00:00Z")),
            ("-p1w", Some("2026-03-24T10:00:00Z")),
            ("-PT12H30M", Some("2026-03-30T21:30:00Z")),
            ("-P1M", Some("2026-02-28T10:00:00Z")),
            ("-p1y2m3dt4h5m6s", Some("2025-01-28T05:54:54Z")),
            ("P1D", Some("2026-04-01T10:00:00Z")),
            ("+PT1S", Some("2026-03-31T10:00:01Z")),
            ("-P", None),
            ("-P7X", None),
            ("-7D", None),
            ("-P20000Y", None),
            ("-P99999Y", None),
            ("2026-03-31", None),
        ] {
            let expected = expected.map(|time| time.parse::<Timestamp>().unwrap());
            assert_eq!(relative_time(text, now), expected, "{text}");
        }
    }
}
