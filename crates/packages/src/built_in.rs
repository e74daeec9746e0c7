//! Trainers of the built-in algorithms: a Python package whose sources are part of this program.

use std::path::Path;

use super::packed_folder::archive;
use super::{PackageError, PackedFolder};

/// Names and contents of files below `trainers/`.
macro_rules! sources {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../../trainers/", $name)))),*] };
}

const SOURCES: &[(&str, &str)] = sources! {
    "pyproject.toml"
    "src/tunesmith_builtin/__init__.py"
    "src/tunesmith_builtin/arguments.py"
    "src/tunesmith_builtin/boosted_trees.py"
    "src/tunesmith_builtin/boosted_trees_arguments.py"
    "src/tunesmith_builtin/columns.py"
    "src/tunesmith_builtin/data_arguments.py"
    "src/tunesmith_builtin/errors.py"
    "src/tunesmith_builtin/features.py"
    "src/tunesmith_builtin/instance_generator.py"
    "src/tunesmith_builtin/interrupts.py"
    "src/tunesmith_builtin/linear_arguments.py"
    "src/tunesmith_builtin/linear_learner.py"
    "src/tunesmith_builtin/linear_metrics.py"
    "src/tunesmith_builtin/linear_pipeline.py"
    "src/tunesmith_builtin/outputs.py"
    "src/tunesmith_builtin/program.py"
    "src/tunesmith_builtin/py.typed"
    "src/tunesmith_builtin/reporting.py"
    "src/tunesmith_builtin/splits.py"
    "src/tunesmith_builtin/storage.py"
    "src/tunesmith_builtin/table.py"
    "src/tunesmith_builtin/targets.py"
};

/// The trainers as a source archive.
///
/// # Errors
/// [`PackageError::Io`] if packing fails.
pub fn built_in_trainers() -> Result<PackedFolder, PackageError> {
    let name = "tunesmith_builtin";
    let files = SOURCES.iter().map(|(path, text)| (Path::new(*path), text.as_bytes()));
    let bytes = archive(name, files).map_err(PackageError::io("pack", Path::new(name)))?;
    Ok(PackedFolder { file_name: format!("{name}.tar.gz"), bytes })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn every_source_of_the_trainers_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../trainers/src/tunesmith_builtin");
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let found: BTreeSet<String> =
            names.filter(|name| name.ends_with(".py")).map(|name| format!("src/tunesmith_builtin/{name}")).collect();
        let embedded: BTreeSet<String> =
            SOURCES.iter().map(|(name, _)| (*name).to_owned()).filter(|name| name.ends_with(".py")).collect();
        assert_eq!(found, embedded);
        let packed = built_in_trainers().unwrap();
        assert_eq!(packed, built_in_trainers().unwrap());
        assert_eq!(packed.file_name, "tunesmith_builtin.tar.gz");
    }
}
