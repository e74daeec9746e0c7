//! Searches sources and documentation for the words excluded by `docs/glossary.md`.

mod table;
mod text;

use std::path::Path;

use anyhow::{Context, Result};

use table::Glossary;
use text::{Kind, Language, Piece, Word};

/// Glossary path, relative to the root.
const GLOSSARY: &str = "docs/glossary.md";

/// Searched folders, in addition to the root's Markdown files.
const FOLDERS: &[&str] = &[
    "src",
    "crates",
    "algorithms",
    "benchmark",
    "xtask",
    "tests",
    "benches",
    "examples",
    "clients",
    "docs",
    "schemas",
    ".ci",
];

/// Unsearched files and folders: the glossary itself, reports of past experiments and stored results.
const UNCHECKED: &[&str] = &[GLOSSARY, "CHANGELOG.md", "docs/experiments/", "benches/results/"];

/// A use of an excluded word.
#[derive(Debug, PartialEq, Eq)]
struct Hit {
    file: String,
    /// Counted from 1.
    line: usize,
    word: String,
    replacement: String,
}

impl Hit {
    fn message(&self) -> String {
        format!("{}:{}: word \"{}\": use \"{}\"", self.file, self.line, self.word, self.replacement)
    }
}

/// One message per use of an excluded word and per unused exception.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let (hits, unused) = search(root)?;
    Ok(hits.iter().map(Hit::message).chain(unused).collect())
}

/// Uses without an exception, and one message per unused exception.
fn search(root: &Path) -> Result<(Vec<Hit>, Vec<String>)> {
    let path = root.join(GLOSSARY);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let glossary = Glossary::parse(&text).with_context(|| format!("cannot parse {GLOSSARY}"))?;

    let mut paths = crate::files_of(root, &["md"])?;
    for folder in FOLDERS {
        paths.extend(crate::files(&root.join(folder), &["rs", "py", "md"])?);
    }
    let mut hits = Vec::new();
    for path in paths {
        let file = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if UNCHECKED.iter().any(|unchecked| table::covers(unchecked, &file)) {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {file}"))?;
        hits.extend(search_file(&glossary, &file, &text)?);
    }
    let (excepted, hits): (Vec<Hit>, Vec<Hit>) =
        hits.into_iter().partition(|hit| glossary.exceptions.iter().any(|exception| exception.covers(hit)));
    let unused = glossary
        .exceptions
        .iter()
        .filter(|exception| !excepted.iter().any(|hit| exception.covers(hit)))
        .map(|exception| {
            format!("{GLOSSARY}: exception \"{}\" for {} is not used: remove it", exception.word, exception.file)
        })
        .collect();
    Ok((hits, unused))
}

/// Uses in the `text` and the name of `file`.
fn search_file(glossary: &Glossary, file: &str, text: &str) -> Result<Vec<Hit>> {
    let path = Path::new(file);
    let language = match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => Language::Rust,
        Some("py") => Language::Python,
        _ => Language::Markdown,
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut pieces = vec![Piece { kind: Kind::Name, line: 1, text: stem }];
    pieces.extend(text::pieces(language, text)?);

    let mut hits = Vec::new();
    for piece in &pieces {
        let words = text::words(piece);
        for (start, word) in words.iter().enumerate() {
            for entry in glossary.entries_starting_with(&word.text) {
                let applies = if piece.kind == Kind::Name { entry.names } else { entry.docs };
                if applies && starts_with(&words[start..], &entry.phrase) {
                    hits.push(Hit {
                        file: file.to_owned(),
                        line: word.line,
                        word: entry.word.clone(),
                        replacement: entry.replacement.clone(),
                    });
                }
            }
        }
    }
    Ok(hits)
}

/// Whether `words` starts with `phrase`, without punctuation between the words.
fn starts_with(words: &[Word], phrase: &[String]) -> bool {
    words.len() >= phrase.len()
        && words.iter().zip(phrase).all(|(word, expected)| word.text == *expected)
        && words[1..phrase.len()].iter().all(|word| word.joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "
## Words that are not used

| not | but | where |
|---|---|---|
| `gnome`, `gnomes` | worker | names, docs |
| `lamp` | light | names |
| `given up` | stopped | names, docs |

## Exceptions

| file | word | reason |
|---|---|---|
| `src/garden.rs` | `gnome` | the published name |
";

    fn hits(file: &str, text: &str) -> Vec<(usize, String)> {
        let glossary = Glossary::parse(TABLE).unwrap();
        search_file(&glossary, file, text).unwrap().into_iter().map(|hit| (hit.line, hit.word)).collect()
    }

    fn expected(hits: &[(usize, &str)]) -> Vec<(usize, String)> {
        hits.iter().map(|(line, word)| (*line, (*word).to_owned())).collect()
    }

    #[test]
    fn names_are_split_into_words() {
        let text = "fn lamp_of(x: GardenGnome) {}\nconst GIVEN_UP: u8 = clamp(lamps);\n";
        assert_eq!(hits("a.rs", text), expected(&[(1, "lamp"), (1, "gnome"), (2, "given up")]));
        assert_eq!(hits("src/old_lamp.rs", ""), expected(&[(1, "lamp")]));
    }

    #[test]
    fn words_for_names_only_are_allowed_in_text() {
        let text = "// The lamp is on.\nlet x = \"lamp\";\n";
        assert_eq!(hits("a.rs", text), expected(&[]));
    }

    #[test]
    fn phrases_are_found_across_lines_of_a_comment() {
        let text = "/// It is given\n/// up. Given, up.\nfn f() {}\n";
        assert_eq!(hits("a.rs", text), expected(&[(1, "given up")]));
    }

    #[test]
    fn strings_and_markdown_are_searched_without_splitting_names() {
        let text = "f(\"a gnome\\ngnome\", \"gnome_count\", r#\"GNOMES \"#)";
        assert_eq!(hits("a.rs", text), expected(&[(1, "gnome"), (1, "gnome"), (1, "gnomes")]));
        assert_eq!(hits("a.md", "The field `gnomeCount` counts\nGnomes.\n"), expected(&[(2, "gnomes")]));
        assert_eq!(hits("a.py", "'''x\ngnome'''\n# gnome\n"), expected(&[(2, "gnome"), (3, "gnome")]));
    }

    #[test]
    fn exceptions_cover_one_word_in_one_file() {
        let glossary = Glossary::parse(TABLE).unwrap();
        let covered = |file: &str, text: &str| {
            search_file(&glossary, file, text).unwrap().iter().all(|hit| glossary.exceptions[0].covers(hit))
        };
        assert!(covered("src/garden.rs", "struct Gnome;"));
        assert!(!covered("src/garden.rs", "struct Lamp;"));
        assert!(!covered("src/other.rs", "struct Gnome;"));
    }
}
