//! The progress of `tunesmith run` on a real terminal.

use std::io::Read;
use std::process::{Child, Stdio};

use tunesmith_testing::{Workspace, finished, program};

/// Seven parameters, whose names and values take more than a line of 80 columns.
const CONFIG: &str = "
trainingInput:
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: val_loss
    maxTrials: 1
    algorithm: RANDOM_SEARCH
    params:
    - {parameterName: learning_rate, type: DOUBLE, minValue: 0.0001, maxValue: 1}
    - {parameterName: weight_decay, type: DOUBLE, minValue: 0.0001, maxValue: 1}
    - {parameterName: label_smoothing, type: DOUBLE, minValue: 0, maxValue: 1}
    - {parameterName: batch_size, type: DISCRETE, discreteValues: [16, 32, 64]}
    - {parameterName: hidden_units, type: INTEGER, minValue: 16, maxValue: 512}
    - {parameterName: activation_function, type: CATEGORICAL, categoricalValues: [relu, tanh]}
    - {parameterName: momentum_of_steps, type: DOUBLE, minValue: 0.5, maxValue: 0.99}
  tunesmith: {metricFromStdout: true, seed: 3}
";

/// Reports once, and ends when the other end of the pipe is opened.
const TRAINER: &str = "echo val_loss=0.4375 step=3; cat release > /dev/null; echo val_loss=0.25 step=4";

/// Starts the job on a terminal of `columns` columns.
fn start(workspace: &Workspace, columns: u16) -> Child {
    let run = format!(
        "stty cols {columns} rows 40; exec {} run --config hptuning_config.yaml --job-id j -- sh train.sh",
        env!("CARGO_BIN_EXE_tunesmith")
    );
    let mut command = program("script");
    command.args(["-qec", &run, "/dev/null"]).current_dir(workspace.path()).env("TERM", "xterm");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The lines that a terminal of `columns` columns shows, without the sequences that move the cursor and erase.
fn lines(output: &str, columns: usize) -> Vec<String> {
    let mut text = String::new();
    let mut used = 0;
    let mut characters = output.chars();
    while let Some(c) = characters.next() {
        match c {
            '\u{1b}' => {
                // A sequence ends with a letter.
                let _ = characters.find(char::is_ascii_alphabetic);
            }
            '\r' | '\n' => {
                text.push('\n');
                used = 0;
            }
            c => {
                if used == columns {
                    text.push('\n');
                    used = 0;
                }
                text.push(c);
                used += 1;
            }
        }
    }
    text.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn metric_comes_first_and_lines_break_at_words() {
    for columns in [80, 100, 120] {
        let workspace = Workspace::new(CONFIG);
        workspace.write("train.sh", TRAINER);
        assert!(program("mkfifo").arg(workspace.path().join("release")).status().unwrap().success());
        let mut child = start(&workspace, columns);
        let mut output = Vec::new();
        let mut terminal = child.stdout.take().unwrap();
        let mut part = [0; 4096];
        while !String::from_utf8_lossy(&output).contains("val_loss=0.4375 step 3") {
            let length = terminal.read(&mut part).unwrap();
            assert!(length > 0, "{}", String::from_utf8_lossy(&output));
            output.extend_from_slice(&part[..length]);
        }
        drop(std::fs::File::options().write(true).open(workspace.path().join("release")).unwrap());
        terminal.read_to_end(&mut output).unwrap();
        assert_eq!(finished(child.wait_with_output().unwrap()).code, Some(0));
        let shown = lines(&String::from_utf8_lossy(&output), columns.into());
        let text = shown.join("\n");
        // The line that changes: metric and step, then what there is room for.
        assert!(shown.iter().any(|line| line.contains("trial 1  val_loss=0.4375 step 3  learning_rate=")), "{text}");
        // Lines that stay: no word goes on in the next line.
        let start = shown.iter().position(|line| line.starts_with("trial 1 started: learning_rate=")).unwrap();
        let end = start + shown[start..].iter().position(|line| line.contains("momentum_of_steps=")).unwrap();
        let given: Vec<&str> = shown[start..=end].iter().flat_map(|line| line.split_whitespace()).skip(3).collect();
        assert_eq!(given.len(), 7, "{text}");
        assert!(given.iter().all(|word| word.split_once('=').is_some_and(|(_, value)| !value.is_empty())), "{text}");
        assert!(text.contains("trial 1 ended: val_loss=0.25 | 1 done, 0 failed, 0 to go"), "{text}");
    }
}
