//! Parser for the tables of `docs/glossary.md`.

use anyhow::{Context, Result, bail};

use super::Hit;

const WORDS: &str = "## Words that are not used";
const EXCEPTIONS: &str = "## Exceptions";

pub(super) struct Glossary {
    entries: Vec<Entry>,
    pub(super) exceptions: Vec<Exception>,
}

/// An excluded word or phrase.
pub(super) struct Entry {
    /// As spelled in the table.
    pub(super) word: String,
    /// Lower-case words; never empty.
    pub(super) phrase: Vec<String>,
    pub(super) replacement: String,
    /// Whether identifiers are checked.
    pub(super) names: bool,
    /// Whether comments, string literals and Markdown are checked.
    pub(super) docs: bool,
}

/// A word allowed in one file, or in one folder if `file` ends in `/`.
pub(super) struct Exception {
    pub(super) file: String,
    pub(super) word: String,
}

impl Exception {
    pub(super) fn covers(&self, hit: &Hit) -> bool {
        covers(&self.file, &hit.file) && self.word == hit.word
    }
}

/// Whether `pattern` equals `file`, or is a folder above it if it ends in `/`.
pub(super) fn covers(pattern: &str, file: &str) -> bool {
    if pattern.ends_with('/') { file.starts_with(pattern) } else { file == pattern }
}

impl Glossary {
    /// Reads the table of words and the optional table of exceptions.
    ///
    /// # Errors
    ///
    /// If the table of words is missing, or a row is malformed.
    pub(super) fn parse(markdown: &str) -> Result<Self> {
        let mut entries = Vec::new();
        for row in rows(markdown, WORDS) {
            let [words, replacement, place] = &row[..] else {
                bail!("a row of \"{WORDS}\" has not 3 columns: {row:?}")
            };
            let (names, docs) = match place.as_str() {
                "names" => (true, false),
                "docs" => (false, true),
                "names, docs" => (true, true),
                _ => bail!("\"{place}\" is not `names`, `docs` or `names, docs`: {row:?}"),
            };
            for word in quoted(words).with_context(|| format!("in the row {row:?}"))? {
                let phrase = word
                    .split(|letter: char| !letter.is_alphanumeric())
                    .filter(|word| !word.is_empty())
                    .map(str::to_lowercase)
                    .collect();
                entries.push(Entry { word, phrase, replacement: replacement.clone(), names, docs });
            }
        }
        if entries.is_empty() {
            bail!("there is no table below \"{WORDS}\"");
        }
        let mut exceptions = Vec::new();
        for row in rows(markdown, EXCEPTIONS) {
            let [file, words, reason] = &row[..] else { bail!("a row of \"{EXCEPTIONS}\" has not 3 columns: {row:?}") };
            if reason.is_empty() {
                bail!("an exception has no reason: {row:?}");
            }
            for word in quoted(words).with_context(|| format!("in the row {row:?}"))? {
                if !entries.iter().any(|entry| entry.word == word) {
                    bail!("the exception \"{word}\" is not an excluded word: {row:?}");
                }
                exceptions.push(Exception { file: file.trim_matches('`').to_owned(), word });
            }
        }
        Ok(Self { entries, exceptions })
    }

    /// Entries whose first word is `word`, in lower case.
    pub(super) fn entries_starting_with<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.phrase[0] == word)
    }
}

/// Cells of the table below `heading`, without its two header rows.
fn rows(markdown: &str, heading: &str) -> Vec<Vec<String>> {
    markdown
        .lines()
        .skip_while(|line| line.trim_end() != heading)
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// Backticked parts of `cell`.
fn quoted(cell: &str) -> Result<Vec<String>> {
    let words: Vec<String> = cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    if words.is_empty() || words.iter().any(|word| !word.contains(char::is_alphanumeric)) {
        bail!("\"{cell}\" contains no word in backticks");
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "## Words that are not used\n\n| not | but | where |\n|---|---|---|\n";

    #[test]
    fn a_row_holds_several_words_and_phrases() {
        let glossary = Glossary::parse(&format!("{HEADER}| `one`, `it's Two` | three | docs |\n")).unwrap();
        let phrases: Vec<String> = glossary.entries.iter().map(|entry| entry.phrase.join(" ")).collect();
        assert_eq!(phrases, ["one", "it s two"]);
        assert!(glossary.entries.iter().all(|entry| entry.docs && !entry.names && entry.replacement == "three"));
    }

    #[test]
    fn unexpected_rows_are_errors() {
        assert!(Glossary::parse("# Title\n").is_err());
        for row in ["| one | two | docs |", "| `one` | two | code |", "| `one` | two |"] {
            assert!(Glossary::parse(&format!("{HEADER}{row}\n")).is_err(), "{row}");
        }
        let exceptions = "\n## Exceptions\n\n| file | word | reason |\n|---|---|---|\n| a.rs | `two` | published |\n";
        assert!(Glossary::parse(&format!("{HEADER}| `one` | x | docs |\n{exceptions}")).is_err());
    }

    #[test]
    fn a_folder_covers_the_files_below_it() {
        assert!(covers("docs/a.md", "docs/a.md") && covers("docs/", "docs/a.md"));
        assert!(!covers("docs/a", "docs/a.md") && !covers("doc", "docs/a.md"));
    }
}
