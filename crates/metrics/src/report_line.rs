//! Parser of one line of output as a report: `tag=value` or `tag: value`, with or without a step.
//!
//! Pairs may be anywhere in the line, separated by white space, commas, semicolons, brackets or bars; names may be
//! quoted. Progress bars, log lines with a prefix and printed dictionaries are therefore accepted.

/// The report in a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LineReport {
    /// The value; the last if there are several.
    pub value: f64,
    /// The step; the last if there are several. `global_step` takes precedence over `step`. `None` if negative or
    /// not an integer.
    pub step: Option<i64>,
}

/// Parses `line` as a report of `tag`. Calls `note_name` with every name that has a number as its value. If the tag is
/// `step`, the pair is the metric, not the step.
pub(super) fn parse(line: &[u8], tag: &str, mut note_name: impl FnMut(&str)) -> Option<LineReport> {
    if is_cluster_specification(line) {
        return None;
    }
    let mut value = None;
    let mut step = None;
    let mut global_step = None;
    for sign in memchr::memchr2_iter(b'=', b':', line) {
        let Some(token) = value_token(&line[sign + 1..]) else { continue };
        let before = unquoted(line[..sign].trim_ascii_end());
        if ends_with_name(before, tag.as_bytes()) {
            if let Some(number) = parse_number(token) {
                value = Some(number);
                note_name(tag);
            }
            continue;
        }
        let name = last_name(before);
        match name {
            b"step" => step = parse_step(token).or(step),
            b"global_step" => global_step = parse_step(token).or(global_step),
            _ if is_metric_name(name) && !is_position(line, sign, token) && parse_number(token).is_some() => {
                if let Ok(name) = std::str::from_utf8(name) {
                    note_name(name);
                }
            }
            _ => {}
        }
    }
    value.map(|value| LineReport { value, step: global_step.or(step) })
}

/// Whether `line` is a printed `TF_CONFIG` or `CLUSTER_SPEC`: the description of a cluster, in which every task has an
/// index.
fn is_cluster_specification(line: &[u8]) -> bool {
    /// The keys of the description whose values are objects.
    const KEYS: [&[u8]; 2] = [b"cluster", b"task"];
    let opens_object = |after: &[u8]| {
        let after = after.strip_prefix(b"\\").unwrap_or(after);
        let after = after.strip_prefix(b"\"").or_else(|| after.strip_prefix(b"'"));
        let after = after.and_then(|after| after.trim_ascii_start().strip_prefix(b":"));
        after.is_some_and(|after| after.trim_ascii_start().starts_with(b"{"))
    };
    let has_key = |key: &[u8]| memchr::memmem::find_iter(line, key).any(|at| opens_object(&line[at + key.len()..]));
    KEYS.iter().all(|key| has_key(key))
}

/// Whether `name` may be that of a metric. A printed argument, such as `--lr=0.1`, is none.
fn is_metric_name(name: &[u8]) -> bool {
    !name.starts_with(b"-") && name.iter().any(u8::is_ascii_alphabetic)
}

/// Whether the pair with the colon at `sign` is the line of a file or the port of a host, such as `task.py:57`.
fn is_position(line: &[u8], sign: usize, token: &[u8]) -> bool {
    let is_tight = line[sign] == b':' && line.get(sign + 1).is_some_and(u8::is_ascii_digit);
    is_tight && token.iter().all(u8::is_ascii_digit)
}

/// Whether `byte` separates names and values.
fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_control() || b",;|()[]{}\"'".contains(&byte)
}

/// Returns the word after an equals sign or colon, if it may be a number.
fn value_token(after: &[u8]) -> Option<&[u8]> {
    let after = after.trim_ascii_start();
    let first = after.first()?;
    if !first.is_ascii_digit() && !b"+-.iInN".contains(first) {
        return None;
    }
    let end = after.iter().position(|byte| is_separator(*byte)).unwrap_or(after.len());
    Some(&after[..end])
}

/// Parses a number as printed by Python and C, including `nan` and `inf`; it may be followed by a full stop.
fn parse_number(token: &[u8]) -> Option<f64> {
    let token = std::str::from_utf8(token).ok()?;
    token.parse().ok().or_else(|| token.strip_suffix('.')?.parse().ok())
}

/// Parses a step; `3/10` (the third of ten) and `3.0` are 3.
fn parse_step(token: &[u8]) -> Option<i64> {
    /// 2^53, up to which every integer is exact as `f64`.
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    let token = token.split(|byte| *byte == b'/').next()?;
    if let Ok(step) = std::str::from_utf8(token).ok()?.parse::<i64>() {
        return (step >= 0).then_some(step);
    }
    let step = parse_number(token)?;
    (step.fract() == 0.0 && (0.0..=LARGEST_EXACT).contains(&step)).then_some(step as i64)
}

/// Returns `text` without a quotation mark at its end.
fn unquoted(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\"").or_else(|| text.strip_suffix(b"'")).unwrap_or(text)
}

/// Whether `text` ends with `name` that is not part of a longer name.
fn ends_with_name(text: &[u8], name: &[u8]) -> bool {
    text.strip_suffix(name).is_some_and(|before| before.last().is_none_or(|byte| is_separator(*byte)))
}

/// Returns the last word of `text`; an equals sign or colon also separates words.
fn last_name(text: &[u8]) -> &[u8] {
    let start = text.iter().rposition(|byte| is_separator(*byte) || b"=:".contains(byte)).map_or(0, |index| index + 1);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn report(line: &str, tag: &str) -> Option<(f64, Option<i64>)> {
        parse(line.as_bytes(), tag, |_| {}).map(|report| (report.value, report.step))
    }

    fn names(line: &str, tag: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        parse(line.as_bytes(), tag, |name| _ = names.insert(name.to_owned()));
        names
    }

    #[test]
    fn both_signs_and_every_position_of_the_step_are_accepted() {
        for (line, step) in [
            ("acc=0.5", None),
            ("acc: 0.5", None),
            ("acc = 0.5", None),
            ("  acc=0.5,step=3", Some(3)),
            ("step: 3, acc: 0.5", Some(3)),
            ("global_step=3 acc=0.5", Some(3)),
            ("global_step=3 step=1 acc=0.5", Some(3)),
            ("step=1 global_step=3 acc=0.5", Some(3)),
            ("step=3/10 acc=0.5", Some(3)),
            ("step=3.0 acc=0.5", Some(3)),
            ("step=-1 acc=0.5", None),
            ("step=2.5 acc=0.5", None),
            ("step=1e300 acc=0.5", None),
            ("my_step=3 acc=0.5", None),
            ("{'acc': 0.5, \"step\": 3}", Some(3)),
            ("2026-01-01 12:30:45 INFO:trainer:step=3 loss=2 acc=0.4 acc=0.5.", Some(3)),
            ("100%|##| 10/10 [00:01<00:00, 9.5it/s, acc=0.5]", None),
        ] {
            assert_eq!(report(line, "acc"), Some((0.5, step)), "{line}");
        }
    }

    #[test]
    fn numbers_of_python_and_c_are_parsed() {
        for (text, value) in [
            ("1e-4", 1e-4),
            ("1E+05", 1e5),
            ("-0.25", -0.25),
            ("+3", 3.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("inf", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY),
            ("Infinity", f64::INFINITY),
            ("1e999", f64::INFINITY),
        ] {
            assert_eq!(report(&format!("acc={text}"), "acc"), Some((value, None)), "{text}");
        }
        for text in ["nan", "NaN", "-nan", "NAN"] {
            assert!(report(&format!("acc: {text}"), "acc").unwrap().0.is_nan(), "{text}");
        }
        for text in ["", "good", "0x10", "1,5", "97%", "12:30", "- 1", "none", "1.2.3"] {
            let expected = if text == "1,5" { Some((1.0, None)) } else { None };
            assert_eq!(report(&format!("acc={text}"), "acc"), expected, "{text}");
        }
    }

    #[test]
    fn tag_is_a_complete_name_of_any_characters() {
        for tag in ["training/hptuning/metric", "val.acc", "top 1 accuracy", "a:b", "a=b", "größe", "step"] {
            assert_eq!(report(&format!("x {tag}=0.5"), tag), Some((0.5, None)), "{tag}");
            assert_eq!(report(&format!("x{tag}=0.5"), tag), None, "{tag}");
            assert_eq!(report(&format!("{tag}x=0.5"), tag), None, "{tag}");
        }
    }

    #[test]
    fn other_names_with_numbers_are_noted() {
        let line = "12:30:45 epoch=1 val/loss: 0.3 url=http://host:80/ lr=1e-3 name=bob step=4 INFO:acc=1";
        assert_eq!(names(line, "other"), ["acc", "epoch", "lr", "val/loss"].map(str::to_owned).into());
    }

    #[test]
    fn printed_cluster_is_no_report() {
        let cluster =
            r#"{"cluster": {"master": ["127.0.0.1:2222"]}, "task": {"type": "master", "index": 0, "trial": 3}}"#;
        let escaped = format!("{:?}", format!("TF_CONFIG={cluster}"));
        for line in [cluster.to_owned(), format!("TF_CONFIG: {cluster}"), escaped, cluster.replace('"', "'")] {
            assert_eq!(report(&line, "index"), None, "{line}");
            assert_eq!(names(&line, "acc"), BTreeSet::new(), "{line}");
        }
        let nested = r#"{"task": "train", "epoch": 1, "metrics": {"acc": 0.5}}"#;
        assert_eq!(report(nested, "acc"), Some((0.5, None)));
    }

    #[test]
    fn positions_in_log_lines_and_printed_arguments_are_no_metrics() {
        for line in [
            "2026-11-22 20:58:14.123: I tensorflow/core/platform/cpu_feature_guard.cc:193] This binary is optimized",
            "I1122 20:58:14.123456 139 task.py:57] starting",
            "listening on localhost:8080",
            "python3 -m trainer.task --learning-rate=0.01 --units=32",
        ] {
            assert_eq!(names(line, "acc"), BTreeSet::new(), "{line}");
        }
        assert_eq!(report("task.py:57] acc: 3", "acc"), Some((3.0, None)));
        assert_eq!(report("acc:3", "acc"), Some((3.0, None)));
    }
}
