//! Instances of predictions on the command line, with the flags of gcloud.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::output::print;

/// Maximum size of a file with instances in bytes; that of a request.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct InstanceFiles {
    /// File with one instance in JSON on each line; - for standard input.
    #[arg(long, value_name = "FILE")]
    json_instances: Option<PathBuf>,
    /// File with a whole request: {"instances": [...]} and options of the model; - for standard input.
    #[arg(long, value_name = "FILE")]
    json_request: Option<PathBuf>,
    /// File with one instance on each line, as text; - for standard input.
    #[arg(long, value_name = "FILE")]
    text_instances: Option<PathBuf>,
}

impl InstanceFiles {
    /// Body of a request, with `signature_name` if given.
    pub(super) fn request(&self, signature: Option<&str>) -> anyhow::Result<Vec<u8>> {
        let mut request = match self {
            Self { json_request: Some(path), .. } => {
                let text = read(path)?;
                if signature.is_none() {
                    // The model reports what is wrong with it, as the server does.
                    return Ok(text.into_bytes());
                }
                let request: Value =
                    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
                ensure!(request.is_object(), "{} is not a JSON object", path.display());
                request
            }
            Self { json_instances: Some(path), .. } => {
                let text = read(path)?;
                let mut instances = Vec::new();
                for (index, line) in lines(&text) {
                    let instance: &RawValue = serde_json::from_str(line)
                        .with_context(|| format!("{}:{}: the line is not JSON", path.display(), index + 1))?;
                    instances.push(instance);
                }
                ensure!(!instances.is_empty(), "{} has no instances", path.display());
                if signature.is_none() {
                    // Numbers stay as they are written.
                    let instances: Vec<&str> = instances.iter().map(|instance| instance.get()).collect();
                    return Ok(format!("{{\"instances\": [{}]}}", instances.join(", ")).into_bytes());
                }
                json!({"instances": instances})
            }
            Self { text_instances: Some(path), .. } => {
                let text = read(path)?;
                let instances: Vec<&str> = lines(&text).map(|(_, line)| line).collect();
                ensure!(!instances.is_empty(), "{} has no instances", path.display());
                json!({"instances": instances})
            }
            Self { .. } => bail!("give --json-instances, --json-request or --text-instances"),
        };
        if let Some(signature) = signature {
            request["signature_name"] = signature.into();
        }
        Ok(serde_json::to_vec(&request)?)
    }
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty())
}

fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().take(MAX_BYTES + 1).read_to_string(&mut text),
        false => std::fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text)),
    };
    read.with_context(|| format!("{} cannot be read", path.display()))?;
    ensure!(text.len() as u64 <= MAX_BYTES, "{} has more than {} MiB", path.display(), MAX_BYTES >> 20);
    Ok(text)
}

/// Prints predictions, one on each line; with `whole`, the response.
///
/// # Errors
/// The error of the model.
pub(super) fn print_predictions(reply: &[u8], whole: bool) -> anyhow::Result<()> {
    #[derive(serde::Deserialize)]
    struct Reply<'a> {
        #[serde(borrow)]
        predictions: Option<&'a RawValue>,
        error: Option<String>,
        tunesmith: Option<Value>,
    }
    let text = std::str::from_utf8(reply).context("the predictions are not UTF-8")?;
    // A custom class may answer with something else than an object of predictions.
    let parsed: Reply<'_> = serde_json::from_str(text).with_context(|| format!("unexpected response: {text}"))?;
    if let Some(error) = parsed.error {
        let traceback = parsed.tunesmith.as_ref().and_then(|tunesmith| tunesmith["traceback"].as_str());
        match traceback.filter(|traceback| !traceback.is_empty()) {
            Some(traceback) => bail!("{error}\n{traceback}"),
            None => bail!("{error}"),
        }
    }
    if whole {
        print(&format!("{text}\n"))?;
        return Ok(());
    }
    let predictions = parsed.predictions.map_or("null", RawValue::get);
    match serde_json::from_str::<Vec<&RawValue>>(predictions) {
        Ok(list) => print(&list.iter().map(|prediction| format!("{}\n", prediction.get())).collect::<String>())?,
        Err(_) => print(&format!("{predictions}\n"))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(flag: &str, text: &str, signature: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, text).unwrap();
        let of = |name: &str| (name == flag).then(|| path.clone());
        let files =
            InstanceFiles { json_instances: of("json"), json_request: of("request"), text_instances: of("text") };
        match files.request(signature) {
            Ok(body) => String::from_utf8(body).unwrap(),
            Err(error) => format!("{error:#}").replace(path.to_str().unwrap(), "F"),
        }
    }

    #[test]
    fn files_become_requests() {
        assert_eq!(request("json", "[1.50]\n\n{\"a\": 1}\n", None), "{\"instances\": [[1.50], {\"a\": 1}]}");
        assert_eq!(request("text", "a,b\n \"c\"\n", None), "{\"instances\":[\"a,b\",\" \\\"c\\\"\"]}");
        assert_eq!(request("request", "{\"x\"", None), "{\"x\"");
        let signed = request("request", "{\"instances\": []}", Some("s"));
        assert_eq!(signed, "{\"instances\":[],\"signature_name\":\"s\"}");
        assert!(request("json", "1\n{\n", None).starts_with("F:2: the line is not JSON"));
        assert_eq!(request("text", "\n", None), "F has no instances");
    }
}
