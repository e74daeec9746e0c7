//! `tunesmith trials create`: adds a user-supplied trial.

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use super::folder::Purpose;
use super::format::{Format, show};
use super::measurement::MeasurementArgs;
use super::request::{list, text};
use super::study_target::StudyArgs;
use super::trial_view;
use crate::cli::output::notice;

#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArgs {
    #[command(flatten)]
    of: StudyArgs,
    /// Value of a parameter. May be given several times.
    #[arg(long = "parameter", value_name = "NAME=VALUE", required = true, allow_hyphen_values = true)]
    parameters: Vec<String>,
    /// Without a metric, the trial is given to the next client that requests one. The program of a job gives the result of its
    /// trials.
    #[command(flatten)]
    measurement: MeasurementArgs,
    /// Output format: table, yaml, json, or a format of gcloud such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

/// Runs the command.
pub(super) async fn create(args: &CreateArgs) -> anyhow::Result<()> {
    let study = args.of.open(Purpose::Change).await?;
    let config = study.client.get(&study.path, &[]).await?;
    let mut specs = Vec::new();
    collect(list(&config["studyConfig"], "parameters"), &mut specs);
    let mut parameters = Vec::with_capacity(args.parameters.len());
    for given in &args.parameters {
        parameters.push(parameter(given, &specs)?);
    }
    let mut body = json!({ "parameters": parameters });
    if let Some(measurement) = args.measurement.message_if_given() {
        body["finalMeasurement"] = measurement;
    }
    let trial = study.client.post(&format!("{}/trials", study.path_of_changes()), &[], body).await?;
    show(&args.format, &trial, || trial_view::describe(&trial))?;
    if let (Some(_), Some(folder)) = (&study.job, study.client.folder()) {
        notice(&format!("`{}` runs the trial", folder.serve_command()));
    }
    Ok(())
}

/// Collects the name and the type of each parameter, including conditional ones.
fn collect<'a>(parameters: &'a [Value], specs: &mut Vec<(&'a str, &'a str)>) {
    for spec in parameters {
        specs.push((text(spec, "parameter"), text(spec, "type")));
        collect(list(spec, "childParameterSpecs"), specs);
    }
}

/// Converts `NAME=VALUE` to a message, by the type of the parameter.
fn parameter(given: &str, specs: &[(&str, &str)]) -> anyhow::Result<Value> {
    let (name, value) = given.split_once('=').with_context(|| format!("--parameter {given}: expected NAME=VALUE"))?;
    let Some((_, kind)) = specs.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = specs.iter().map(|(name, _)| *name).collect();
        bail!("--parameter {given}: the study has no parameter {name:?}; it has {}", names.join(", "));
    };
    let field = match *kind {
        "INTEGER" => ("intValue", json!(value)),
        "CATEGORICAL" => ("stringValue", json!(value)),
        _ => match value.parse::<f64>() {
            Ok(number) if number.is_finite() => ("floatValue", json!(number)),
            _ => bail!("--parameter {given}: {value:?} is not a finite number"),
        },
    };
    Ok(json!({"parameter": name, field.0: field.1}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_type_of_their_parameter() {
        let config = json!([
            {"parameter": "x", "type": "DOUBLE"},
            {"parameter": "kind", "type": "CATEGORICAL", "childParameterSpecs": [{"parameter": "n", "type": "INTEGER"}]},
        ]);
        let mut specs = Vec::new();
        collect(config.as_array().unwrap(), &mut specs);
        let message = |given: &str| parameter(given, &specs).map_err(|error| error.to_string());
        assert_eq!(message("x=-1e-3").unwrap(), json!({"parameter": "x", "floatValue": -0.001}));
        assert_eq!(message("kind=a=b").unwrap(), json!({"parameter": "kind", "stringValue": "a=b"}));
        assert_eq!(message("n=3").unwrap(), json!({"parameter": "n", "intValue": "3"}));
        assert!(message("y=1").unwrap_err().ends_with("it has x, kind, n"));
        assert!(message("x=NaN").unwrap_err().contains("not a finite number"));
        assert!(message("x").unwrap_err().contains("NAME=VALUE"));
    }
}
