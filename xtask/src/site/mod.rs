//! `cargo xtask site`: the documentation as a site with search and a reference of the API, in `target/site/book`.
//!
//! The pages are those of the repository. They keep their places, so that the links between them hold, and become a book of
//! mdBook, which serves fonts, styles and search from the site itself.

mod api;
mod contents;
mod pages;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{process, release};

const MDBOOK: (&str, &str) = ("mdbook", "0.5.4");

/// Features of mdBook that the site uses: no server and no watcher of files.
const MDBOOK_FEATURES: [&str; 3] = ["--no-default-features", "--features", "search"];

/// Builds the site.
pub(crate) fn run(root: &Path) -> Result<()> {
    let folder = root.join("target/site");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    write(root, &folder)?;
    let (name, version) = MDBOOK;
    let tool = process::crate_tool(root, name, version, &MDBOOK_FEATURES)?;
    process::run(Command::new(tool).arg("build").arg(&folder))?;
    println!("{}", folder.join("book/index.html").display());
    Ok(())
}

/// Writes the sources of the book to `folder`.
fn write(root: &Path, folder: &Path) -> Result<()> {
    let sources = folder.join("src");
    let contents = std::fs::read_to_string(root.join(contents::PAGE)).context("cannot read the table of contents")?;
    let chapters = contents::chapters(root, &contents)?;
    let mut book = pages::Book::new(root, &sources);
    for page in chapters.iter().flat_map(contents::Part::pages) {
        book.add(page);
    }
    let others = book.write()?;
    let schema =
        std::fs::read_to_string(root.join("schemas/openapi.json")).context("cannot read the OpenAPI document")?;
    let schema = serde_json::from_str(&schema).context("cannot parse the OpenAPI document")?;
    for (file, text) in [
        ("SUMMARY.md", contents::summary(root, &chapters, &others)?),
        (api::METHODS, api::methods(&schema)),
        (api::TYPES, api::types(&schema)),
    ] {
        std::fs::write(sources.join(file), text).with_context(|| format!("cannot write {file}"))?;
    }
    let settings = format!(
        "[book]\ntitle = \"Tunesmith {}\"\nlanguage = \"en\"\n\n[output.html]\nno-section-label = true\n\n\
         [output.html.fold]\nenable = true\nlevel = 0\n\n[output.html.search.chapter]\n\
         \"benches\" = {{ enable = false }}\n\"docs/experiments\" = {{ enable = false }}\n",
        release::version(root)?
    );
    std::fs::write(folder.join("book.toml"), settings).context("cannot write book.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every link of the sources leads to a file of the sources, and every heading that it names exists.
    #[test]
    fn links_of_the_site_lead_to_its_files() {
        let folder = std::env::temp_dir().join(format!("tunesmith-site-{}", std::process::id()));
        write(&crate::root(), &folder).unwrap();
        let sources = folder.join("src");
        let staged = crate::files(&sources, &["md"]).unwrap();
        let summary = std::fs::read_to_string(sources.join("SUMMARY.md")).unwrap();
        let mut broken = Vec::new();
        for page in &staged {
            let name = page.strip_prefix(&sources).unwrap().display().to_string();
            // A page outside of the summary would not become a page of the site.
            if name != "SUMMARY.md" && !summary.contains(&format!("]({name})")) {
                broken.push(format!("{name} is not in the summary"));
            }
            let text = std::fs::read_to_string(page).unwrap();
            for link in pages::links(&text).filter(|link| !link.contains("://") && !link.starts_with('#')) {
                let file = link.split('#').next().unwrap_or_default();
                if !page.parent().unwrap().join(file).is_file() {
                    broken.push(format!("{name}: {link}"));
                }
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(staged.len() > 80, "{} pages", staged.len());
        assert_eq!(broken, [""; 0]);
    }
}
