//! Published label rules.

use std::collections::BTreeMap;

use super::violations::{Violation, Violations};

/// Maximum labels per job.
const MAX_LABELS: usize = 64;
/// Maximum length of a key or value in characters.
const MAX_LENGTH: usize = 63;

/// Checks all rules. All violations are errors.
///
/// As published, letters of any alphabet are allowed, but no capital letters.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Vec<Violation> {
    let mut violations = Violations::default();
    if labels.len() > MAX_LABELS {
        let count = labels.len();
        violations.error("labels", format_args!("{count} labels are given"), format_args!("at most {MAX_LABELS}"));
    }
    for (key, value) in labels {
        let field = format!("labels.{key}");
        let starts_with_letter = key.starts_with(|c: char| is_allowed(c) && c.is_alphabetic());
        if !starts_with_letter || !is_text(key) {
            violations.error(
                &field,
                format_args!("the key {key:?} is not allowed"),
                format_args!("1 to {MAX_LENGTH} lower case letters, digits, '_' and '-', starting with a letter"),
            );
        }
        if !is_text(value) {
            violations.error(
                &field,
                format_args!("the value {value:?} is not allowed"),
                format_args!("at most {MAX_LENGTH} lower case letters, digits, '_' and '-'"),
            );
        }
    }
    violations.into_vec()
}

fn is_text(text: &str) -> bool {
    text.chars().count() <= MAX_LENGTH && text.chars().all(is_allowed)
}

fn is_allowed(c: char) -> bool {
    matches!(c, '_' | '-') || (c.is_alphanumeric() && !c.is_uppercase())
}

#[cfg(test)]
mod tests {
    use super::check_labels;

    fn messages(labels: &[(&str, &str)]) -> Vec<String> {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let violations = check_labels(&labels).into_iter();
        violations.map(|violation| format!("{}: {}", violation.field, violation.message)).collect()
    }

    #[test]
    fn keys_and_values_follow_the_published_rules() {
        let long = "a".repeat(63);
        for good in [("owner", "me_2-b"), ("k", ""), ("größe", "日本"), (&*long, &*long)] {
            assert_eq!(messages(&[good]), [""; 0], "{good:?}");
        }
        let longer = "a".repeat(64);
        for (key, part) in
            [("", "key"), ("Owner", "key"), ("2nd", "key"), ("_a", "key"), ("a.b", "key"), (&*longer, "key")]
        {
            assert_eq!(messages(&[(key, "v")]), [format!("labels.{key}: the {part} {key:?} is not allowed")]);
        }
        for value in ["a b", "V", "a/b", &longer] {
            assert_eq!(messages(&[("k", value)]), [format!("labels.k: the value {value:?} is not allowed")]);
        }
        let keys: Vec<String> = (0..65).map(|number| format!("k{number}")).collect();
        let many: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "v")).collect();
        assert_eq!(messages(&many), ["labels: 65 labels are given"]);
        assert_eq!(messages(&many[..64]), [""; 0]);
    }
}
