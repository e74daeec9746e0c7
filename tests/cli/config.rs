//! Reading `hptuning_config.yaml`: every invalid config has a snapshot of its messages, every valid one of the parsed
//! config.
#![expect(clippy::unwrap_used, reason = "the lint does not recognise helpers of tests as tests")]

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tunesmith_config::ConfigErrors;

fn data(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Parses like `load`, with only the file name in messages.
fn parse_file(path: &Path) -> Result<tunesmith_config::HptuningConfig, ConfigErrors> {
    let name = path.file_name().unwrap().to_str().unwrap();
    match String::from_utf8(fs::read(path).unwrap()) {
        Ok(text) => tunesmith_config::parse(name, &text),
        Err(_) => tunesmith_config::load(path),
    }
}

#[test]
fn invalid_configs_are_reported() {
    let files = data("bad_configs");
    assert!(files.len() >= 40, "{}", files.len());
    for path in files {
        let errors = parse_file(&path).expect_err(&path.display().to_string());
        let folder = path.parent().unwrap().display().to_string();
        let message = errors.to_string().replace(&format!("{folder}/"), "");
        insta::with_settings!({ snapshot_path => "snapshots/bad_configs", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(path.file_name().unwrap().to_str().unwrap(), message);
        });
    }
}

#[test]
fn valid_configs_are_parsed() {
    for path in data("good_configs") {
        let config = parse_file(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let warnings: String = config.warnings.iter().map(|warning| format!("{warning}\n\n")).collect();
        let canonical = serde_json::to_string_pretty(&config.training_input).unwrap();
        let text = format!("{}\n{warnings}{canonical}", tunesmith_config::describe(&config));
        insta::with_settings!({ snapshot_path => "snapshots/good_configs", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(path.file_name().unwrap().to_str().unwrap(), text);
        });
    }
}

#[test]
fn canonical_json_is_parsed_to_the_same_config() {
    for path in data("good_configs") {
        let config = parse_file(&path).unwrap();
        let json = serde_json::to_string(&config.training_input).unwrap();
        let again = tunesmith_config::parse("canonical.json", &json).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(again.training_input, config.training_input, "{}", path.display());
        assert_eq!(again.study, config.study, "{}", path.display());
    }
}

/// `TUNESMITH_UPDATE_SCHEMA=1 cargo test --test cli config::` rewrites the files.
#[test]
fn published_schemas_are_up_to_date() {
    let schemas = [
        ("hptuning_config", tunesmith_config::json_schema()),
        ("server_config", tunesmith_config::server_json_schema()),
    ];
    for (name, schema) in schemas {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schemas/{name}.schema.json"));
        let generated = format!("{:#}\n", schema.to_value());
        if std::env::var_os("TUNESMITH_UPDATE_SCHEMA").is_some() {
            fs::write(&path, &generated).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == generated,
            "schemas/{name}.schema.json is out of date: set TUNESMITH_UPDATE_SCHEMA=1 and run this test again"
        );
    }
}

#[test]
fn unreadable_file_is_reported_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let missing = tunesmith_config::load(&folder.path().join("missing.yaml")).unwrap_err().to_string();
    assert!(missing.contains("cannot be read: No such file"), "{missing}");
    assert!(tunesmith_config::load(folder.path()).unwrap_err().to_string().contains("cannot be read"));
    let large = folder.path().join("large.yaml");
    fs::write(&large, vec![b'#'; (4 << 20) + 1]).unwrap();
    assert!(tunesmith_config::load(&large).unwrap_err().to_string().contains("larger than 4 MiB"));
}

#[test]
fn nesting_and_aliases_are_limited() {
    let error = |text: &str| tunesmith_config::parse("deep", text).unwrap_err().to_string();
    assert!(error(&"[".repeat(100_000)).contains("too deep"));
    assert!(error(&"- ".repeat(100_000)).contains("too deep"));
    assert!(error(&"{a: ".repeat(100_000)).contains("too deep"));
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let uses = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{uses}]\n");
    }
    assert!(error(&bomb).contains("too large"));
}

proptest! {
    #[test]
    fn any_text_is_parsed_without_panic(text in "[-a-z0-9:{}\\[\\]\"'&*!|>#%@,. \t\n\\\\é😀]{0,200}") {
        let _ = tunesmith_config::parse("any", &text).map_err(|errors| errors.to_string());
    }

    #[test]
    fn any_mutation_of_a_config_is_parsed_without_panic(
        which in 0_usize..1000,
        at in 0.0..1.0_f64,
        removed in 0_usize..20,
        inserted in "[-a-z0-9:{}\\[\\]\"'&*!|>#%@,. \t\n\\\\é😀]{0,12}",
    ) {
        let files = data("good_configs");
        let text: Vec<char> = fs::read_to_string(&files[which % files.len()]).unwrap().chars().collect();
        let start = (at * text.len() as f64) as usize;
        let end = (start + removed).min(text.len());
        let mutated: String =
            text[..start].iter().copied().chain(inserted.chars()).chain(text[end..].iter().copied()).collect();
        if let Err(errors) = tunesmith_config::parse("mutated", &mutated) {
            for diagnostic in errors.diagnostics() {
                prop_assert!(diagnostic.line >= 1 && diagnostic.line <= mutated.lines().count().max(1) + 1);
            }
            prop_assert!(!errors.to_string().is_empty());
        }
    }
}
