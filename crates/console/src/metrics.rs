//! Process metrics as a table, parsed from `/metrics`.

use super::format::Number;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MetricRow {
    /// Name without the common prefix.
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) labels: Vec<(String, String)>,
    /// Value; for a histogram, the number of observations.
    pub(crate) value: Number,
    /// Mean of a histogram in its unit.
    pub(crate) mean: Option<Number>,
}

type Sample<'a> = (&'a str, Vec<(String, String)>, f64);

const PREFIX: &str = "tunesmith_";

/// Metrics in `text`, in order, without histogram buckets.
pub(crate) fn rows(text: &str) -> Vec<MetricRow> {
    let (mut family, mut help) = (String::new(), String::new());
    let mut rows: Vec<MetricRow> = Vec::new();
    // A histogram's sum precedes its count.
    let mut sum = 0.0;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, of_family) = rest.split_once(' ').unwrap_or((rest, ""));
            name.clone_into(&mut family);
            of_family.trim_end_matches('.').clone_into(&mut help);
        }
        let Some((name, labels, value)) = sample(line) else { continue };
        let mean = match name.strip_prefix(family.as_str()) {
            Some("_bucket") => continue,
            Some("_sum") => {
                sum = value;
                continue;
            }
            Some("_count") => (value > 0.0).then(|| Number(sum / value)),
            _ => None,
        };
        rows.push(MetricRow {
            name: family.strip_prefix(PREFIX).unwrap_or(&family).to_owned(),
            help: help.clone(),
            labels,
            value: Number(value),
            mean,
        });
    }
    rows
}

/// Value of the unlabelled metric `name`.
pub(crate) fn value(rows: &[MetricRow], name: &str) -> Option<f64> {
    rows.iter().find(|row| row.name == name && row.labels.is_empty()).map(|row| row.value.0)
}

/// Parses a line; `None` for a comment.
fn sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, labels)) = series.split_once('{') else { return Some((series, Vec::new(), value)) };
    // Labels are names of methods, algorithms and states, without quotation marks or commas.
    let pairs = labels.strip_suffix('}')?.split(',').filter_map(|pair| pair.split_once('='));
    let labels = pairs.map(|(key, text)| (key.to_owned(), text.trim_matches('"').to_owned()));
    Some((name, labels.collect(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_gauges_and_means_are_read() {
        let text = "# HELP tunesmith_http_requests Requests by method and status.\n\
                    # TYPE tunesmith_http_requests counter\n\
                    tunesmith_http_requests_total{method=\"ml.projects.jobs.list\",status=\"200\"} 3\n\
                    # HELP tunesmith_store_commit_seconds Time of the store's transactions.\n\
                    # TYPE tunesmith_store_commit_seconds histogram\n\
                    # UNIT tunesmith_store_commit_seconds seconds\n\
                    tunesmith_store_commit_seconds_sum 0.5\n\
                    tunesmith_store_commit_seconds_count 2\n\
                    tunesmith_store_commit_seconds_bucket{le=\"0.1\"} 2\n\
                    # HELP tunesmith_job_slots Maximal number of jobs that run at once.\n\
                    tunesmith_job_slots 4\n\
                    # EOF\n";
        let rows = rows(text);
        let shown: Vec<_> =
            rows.iter().map(|row| (row.name.as_str(), row.value.0, row.mean.map(|mean| mean.0))).collect();
        assert_eq!(
            shown,
            [("http_requests", 3.0, None), ("store_commit_seconds", 2.0, Some(0.25)), ("job_slots", 4.0, None)]
        );
        assert_eq!(rows[0].help, "Requests by method and status");
        assert_eq!(rows[0].labels[1], ("status".to_owned(), "200".to_owned()));
        assert_eq!(value(&rows, "job_slots"), Some(4.0));
        assert_eq!(value(&rows, "http_requests"), None);
    }
}
