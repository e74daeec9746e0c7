//! The page of published fields, generated from `tests/data/published_fields.json`.

use std::fmt::Write as _;

use tunesmith_testing::published_fields::{Outcome, published};

use super::reference::assert_generated;

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Works => "works",
        Outcome::NoEffect => "no effect, said so",
        Outcome::Refused => "refused",
    }
}

#[test]
fn every_published_field_is_documented() {
    let published = published();
    let mut page = String::from("## Query parameters\n\n| method | parameter | here | note |\n|---|---|---|---|\n");
    for entry in &published.parameters {
        let method = if entry.request == "*" { "all methods" } else { &format!("`{}`", entry.request) };
        let (outcome, note) = (word(entry.outcome), &entry.note);
        let _ = writeln!(page, "| {method} | `{}` | {outcome} | {note} |", entry.parameter);
    }
    let mut request = "";
    for entry in &published.fields {
        if entry.request != request {
            request = &entry.request;
            let _ = write!(page, "\n## `{request}`\n\n| field | here | note |\n|---|---|---|\n");
        }
        let _ = writeln!(page, "| `{}` | {} | {} |", entry.field, word(entry.outcome), entry.note);
    }
    page.push_str("\n## Methods that are not served\n\nRequests of these methods are answered with status 404:\n\n");
    for method in &published.methods {
        let _ = writeln!(page, "- `{method}`");
    }
    assert_generated("docs/reference/published-fields.md", &page);
}
