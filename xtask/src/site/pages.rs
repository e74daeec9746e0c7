//! The pages of the site: files of the repository, and all files to which they link.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::contents;

/// The name of the page of a folder in the repository, and in the sources of a book.
const PAGE_OF_FOLDER: (&str, &str) = ("README.md", "index.md");

/// The files of the site.
pub(super) struct Book<'a> {
    root: &'a Path,
    sources: &'a Path,
    /// Paths from the root that were added.
    known: BTreeSet<String>,
    waiting: VecDeque<String>,
}

impl<'a> Book<'a> {
    /// A book whose files are written to `sources`.
    pub(super) fn new(root: &'a Path, sources: &'a Path) -> Self {
        Self { root, sources, known: BTreeSet::new(), waiting: VecDeque::new() }
    }

    /// Adds the file `path`, once.
    pub(super) fn add(&mut self, path: &str) {
        if self.known.insert(path.to_owned()) {
            self.waiting.push_back(path.to_owned());
        }
    }

    /// Writes all files, and those to which they link. Returns the pages that were not added before.
    pub(super) fn write(mut self) -> Result<Vec<String>> {
        let added = self.known.clone();
        while let Some(path) = self.waiting.pop_front() {
            let copy = self.sources.join(place(&path));
            let folder = copy.parent().unwrap_or(self.sources);
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            if path.ends_with(".md") {
                let text = self.page(&path).with_context(|| format!("cannot make a page of {path}"))?;
                std::fs::write(&copy, text).with_context(|| format!("cannot write {}", copy.display()))?;
            } else {
                std::fs::copy(self.root.join(&path), &copy).with_context(|| format!("cannot copy {path}"))?;
            }
        }
        Ok(self.known.into_iter().filter(|path| path.ends_with(".md") && !added.contains(path)).collect())
    }

    /// The text of the page `path` with links that hold in the site.
    fn page(&mut self, path: &str) -> Result<String> {
        let file = self.root.join(path);
        let text = if file.exists() { std::fs::read_to_string(&file)? } else { self.listing(path)? };
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        let mut changed = text.clone();
        for link in links(&text).filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let (target, heading) =
                link.split_once('#').map_or((link, None), |(target, heading)| (target, Some(heading)));
            let mut found = joined(folder, target)?;
            let mut target = target.to_owned();
            if self.root.join(&found).is_dir() {
                let page = PAGE_OF_FOLDER.0;
                found = if found.is_empty() { page.to_owned() } else { format!("{found}/{page}") };
                target = format!("{}/{page}", target.trim_end_matches('/'));
            } else if !self.root.join(&found).is_file() {
                bail!("its link {link} leads nowhere");
            }
            self.add(&found);
            let heading = heading.map(|heading| format!("#{heading}")).unwrap_or_default();
            changed = changed.replace(&format!("]({link})"), &format!("]({}{heading})", place(&target)));
        }
        Ok(changed)
    }

    /// A page with links to the files in the folder of `path`, which has no page of its own.
    fn listing(&self, path: &str) -> Result<String> {
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        let mut text = format!("# {}\n\n", folder.display());
        let mut entries = crate::entries(&self.root.join(folder))?;
        entries.retain(|entry| entry.is_file());
        entries.sort();
        for entry in entries {
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_page = name.ends_with(".md");
            let title =
                if is_page { contents::title(self.root, &folder.join(&name).to_string_lossy())? } else { name.clone() };
            text.push_str(&format!("- [{title}]({name})\n"));
        }
        Ok(text)
    }
}

/// The path in the sources of the book of the file or link `path`.
pub(super) fn place(path: &str) -> String {
    let (page, index) = PAGE_OF_FOLDER;
    match path.strip_suffix(page) {
        Some(folder) if folder.is_empty() || folder.ends_with('/') => format!("{folder}{index}"),
        _ => path.to_owned(),
    }
}

/// The targets of the links and pictures in `text`, outside of blocks of code.
pub(super) fn links(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    let prose = text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    prose.flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next())
}

/// The path from the root of the link `target` on a page in `folder`.
fn joined(folder: &Path, target: &str) -> Result<String> {
    let mut path = PathBuf::new();
    for component in folder.join(target).components() {
        match component {
            Component::ParentDir if !path.pop() => bail!("the link {target} leaves the repository"),
            Component::ParentDir | Component::CurDir => {}
            component => path.push(component),
        }
    }
    Ok(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "[a](b.md) and ![c](d.png)\n```sh\n[x](y)\n```\n[e](f/#g)\n";
        assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "d.png", "f/#g"]);
    }

    #[test]
    fn pages_of_folders_are_indices() {
        assert_eq!((place("README.md"), place("../x/README.md")), ("index.md".to_owned(), "../x/index.md".to_owned()));
        assert_eq!((place("a/NOT_README.md"), place("a.md")), ("a/NOT_README.md".to_owned(), "a.md".to_owned()));
        assert_eq!(joined(Path::new("docs/guide"), "../../examples/x").unwrap(), "examples/x");
        assert!(joined(Path::new("docs"), "../../x").is_err());
    }
}
