//! `benches/soak.py`, for a few seconds; its default of two hours is run by hand.

use std::path::Path;
use std::process::Command;

#[test]
fn soak_reports_the_resources_of_a_server_under_load() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches").join("soak.py");
    let arguments = ["--minutes", "0.1", "--rate", "100", "--clients", "4", "--every", "2"];
    let output = Command::new("python3")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_tunesmith"))
        .args(arguments)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{errors}");
    let rows: Vec<Vec<f64>> = text.lines().filter_map(numbers).collect();
    let last = rows.last().expect("there is a sample");
    let &[_, requests, resident_mib, files, threads, folder_mib] = &last[..] else { panic!("{text}") };
    assert!(requests > 50.0 && resident_mib > 1.0 && files > 3.0 && threads > 1.0 && folder_mib > 0.0, "{text}");
    assert_eq!(text.matches("resident MiB").count(), 2, "samples, then slopes: {text}");
}

/// The numbers of a row of samples.
fn numbers(line: &str) -> Option<Vec<f64>> {
    let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
    cells.split(" | ").map(|cell| cell.parse().ok()).collect()
}
