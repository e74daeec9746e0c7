//! NVIDIA accelerators of this machine.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use tunesmith_jobs::resource_pool::Device;

/// Program that lists them.
const PROGRAM: &str = "nvidia-smi";

/// Suffix of errors of [`PROGRAM`].
const ADVICE: &str = "list the devices under resources.devices of the server configuration, or remove discoverDevices";

/// Accelerators listed by `nvidia-smi`, by UUID.
///
/// # Errors
/// If it cannot be run, fails or lists none.
pub(crate) fn discover() -> anyhow::Result<Vec<Device>> {
    let mut command = Command::new(PROGRAM);
    command.args(["--query-gpu=uuid,name", "--format=csv,noheader"]).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("{PROGRAM} cannot be run: {ADVICE}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        let said = if error.trim().is_empty() { text.trim() } else { error.trim() };
        bail!("{PROGRAM} failed ({}): {said}: {ADVICE}", output.status);
    }
    let devices = parse(&text);
    if devices.is_empty() {
        bail!("{PROGRAM} lists no device: {ADVICE}");
    }
    Ok(devices)
}

/// Parses lines `UUID, name`.
fn parse(text: &str) -> Vec<Device> {
    let line = |line: &str| {
        let (id, name) = line.split_once(',')?;
        Some(Device { id: id.trim().to_owned(), kind: kind(name.trim()) })
    };
    text.lines().filter_map(line).filter(|device| !device.id.is_empty()).collect()
}

/// Kind of the product `name`: its words up to the first with a digit, in lower case, without the manufacturer.
fn kind(name: &str) -> Option<String> {
    let mut words = Vec::new();
    for word in name.split([' ', '-']).map(str::to_lowercase).filter(|word| !word.is_empty()) {
        if word == "nvidia" || word == "tesla" {
            continue;
        }
        let is_last = word.contains(|c: char| c.is_ascii_digit());
        words.push(word);
        if is_last {
            break;
        }
    }
    (!words.is_empty()).then(|| words.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_short_names_of_products() {
        let listed = "GPU-8f1c, NVIDIA A100-SXM4-40GB\nGPU-77, Tesla V100-SXM2-16GB\nGPU-5, NVIDIA H100 80GB HBM3\n\
                      GPU-6, NVIDIA GeForce RTX 3090\nGPU-9, Tesla K80\nfailed line\n";
        let devices = parse(listed);
        let shown: Vec<(&str, Option<&str>)> =
            devices.iter().map(|device| (device.id.as_str(), device.kind.as_deref())).collect();
        assert_eq!(
            shown,
            [
                ("GPU-8f1c", Some("a100")),
                ("GPU-77", Some("v100")),
                ("GPU-5", Some("h100")),
                ("GPU-6", Some("geforce-rtx-3090")),
                ("GPU-9", Some("k80")),
            ]
        );
    }
}
