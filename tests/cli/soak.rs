//! `benches/soak.py` for a few seconds, whose default of two hours is run by hand, and `benches/held_up.py` with few trials.

use std::path::Path;

/// The output of the benchmark `script` with `arguments`.
fn output(script: &str, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches").join(script);
    let mut command = tunesmith_testing::program("python3");
    command.arg(script).arg(env!("CARGO_BIN_EXE_tunesmith")).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{errors}");
    text.into_owned()
}

#[test]
fn small_requests_are_measured_beside_every_large_one() {
    let text = output("held_up.py", &["--trials", "300", "--curve", "20"]);
    let rows: Vec<Vec<&str>> = text.lines().filter_map(|line| Some(cells(line)?.collect())).skip(1).collect();
    let names: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(names.len(), 9, "{text}");
    assert!(names.contains(&"deletion of the study") && names.contains(&"first :listOptimalTrials"), "{text}");
    for row in &rows {
        let numbers: Vec<f64> = row[1..].iter().map(|cell| cell.parse().unwrap()).collect();
        assert!(numbers[1] >= 1.0 && numbers[2] <= numbers[4], "{text}");
    }
}

#[test]
fn soak_reports_the_resources_of_a_server_under_load() {
    let text = output("soak.py", &["--minutes", "0.1", "--rate", "100", "--clients", "4", "--every", "2"]);
    let rows: Vec<Vec<f64>> = text.lines().filter_map(numbers).collect();
    let last = rows.last().expect("there is a sample");
    let &[_, requests, resident_mib, held_mib, files, threads, folder_mib] = &last[..] else { panic!("{text}") };
    assert!(
        requests > 50.0 && resident_mib > 1.0 && held_mib > 0.5 && files > 3.0 && threads > 1.0 && folder_mib > 0.0,
        "{text}"
    );
    assert_eq!(text.matches("resident MiB").count(), 2, "samples, then slopes: {text}");
}

/// The numbers of a row of samples.
fn numbers(line: &str) -> Option<Vec<f64>> {
    cells(line)?.map(|cell| cell.parse().ok()).collect()
}

/// The cells of a row of a table, other than the line below its head.
fn cells(line: &str) -> Option<impl Iterator<Item = &str>> {
    Some(line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | "))
}
