//! The table of contents: the guide and the reference as `docs/README.md` lists them, then pages for developers.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::{api, pages};

/// The page with the table of contents.
pub(super) const PAGE: &str = "docs/README.md";

/// Pages for developers, before the decisions and experiments.
const DEVELOPERS: [&str; 6] =
    ["docs/architecture.md", "docs/glossary.md", "docs/releasing.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];

/// Folders with one page for each decision and experiment.
const FOLDERS: [&str; 2] = ["docs/decisions", "docs/experiments"];

/// A heading of the table of contents with its pages, as paths from the root.
pub(super) struct Part {
    title: &'static str,
    pages: Vec<String>,
}

impl Part {
    pub(super) fn pages(&self) -> impl Iterator<Item = &str> {
        self.pages.iter().map(String::as_str)
    }
}

/// The parts that `contents`, the text of [`PAGE`], and the folders for developers make.
pub(super) fn chapters(root: &Path, contents: &str) -> Result<Vec<Part>> {
    let listed = |title: &'static str| {
        let section = contents.split("\n## ").find(|section| section.starts_with(title)).unwrap_or_default();
        Part { title, pages: pages::links(section).map(|link| format!("docs/{link}")).collect() }
    };
    let mut developers: Vec<String> = DEVELOPERS.map(str::to_owned).into();
    for folder in FOLDERS {
        developers.push(format!("{folder}/README.md"));
        for page in crate::files_of(&root.join(folder), &["md"])? {
            developers.push(page.strip_prefix(root).unwrap_or(&page).display().to_string());
        }
    }
    let start = Part { title: "Start", pages: vec!["README.md".to_owned(), PAGE.to_owned()] };
    Ok(vec![start, listed("Guide"), listed("Reference"), Part { title: "Developers", pages: developers }])
}

/// The summary of the book: `parts`, the reference of the API, and `others`, to which pages link.
pub(super) fn summary(root: &Path, parts: &[Part], others: &[String]) -> Result<String> {
    let mut summary = String::from("# Summary\n");
    for part in parts {
        let _ = write!(summary, "\n# {}\n\n", part.title);
        for page in part.pages() {
            let is_inner = FOLDERS.iter().any(|folder| page.starts_with(folder)) && !page.ends_with("README.md");
            let indent = if is_inner { "  " } else { "" };
            let _ = writeln!(summary, "{indent}- [{}]({})", title(root, page)?, pages::place(page));
        }
        if part.title == "Reference" {
            let _ = writeln!(summary, "- [API: methods]({})\n- [API: types]({})", api::METHODS, api::TYPES);
        }
    }
    let _ = write!(summary, "\n# Files of the repository\n\n");
    for page in others {
        let _ = writeln!(summary, "- [{}]({})", title(root, page)?, pages::place(page));
    }
    Ok(summary)
}

/// The first heading of the page, or its path if it is a list that the site makes.
pub(super) fn title(root: &Path, page: &str) -> Result<String> {
    let file = root.join(page);
    if !file.exists() {
        return Ok(page.trim_end_matches("/README.md").to_owned());
    }
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {page}"))?;
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    Ok(heading.with_context(|| format!("{page} has no heading"))?.replace('`', ""))
}
