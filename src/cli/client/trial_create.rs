//! `tunesmith trials create`: adds a user-supplied trial.

use anyhow::{Context, bail};
use clap::Args;

use super::folder::Purpose;
use super::format::Format;
use super::measurement::MeasurementArgs;
use super::study_target::StudyArgs;
use super::trials::show_trial;
use crate::cli::output::notice;
use tunesmith_api::ai_platform::optimizer::StudyParameterSpec;
use tunesmith_api::ai_platform::optimizer::{TrialParameter, TrialRequest};
use tunesmith_api::ai_platform::{Int64, Number, ParameterType};

#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArgs {
    #[command(flatten)]
    of: StudyArgs,
    /// Value of a parameter. May be repeated.
    #[arg(long = "parameter", value_name = "NAME=VALUE", required = true, allow_hyphen_values = true)]
    parameters: Vec<String>,
    /// Without a metric, the trial is assigned to the next client that requests one. In a job, the program provides the
    /// result.
    #[command(flatten)]
    measurement: MeasurementArgs,
    /// Output format: table, yaml, json, or a gcloud format such as "value(state)".
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
}

pub(super) async fn create(args: &CreateArgs) -> anyhow::Result<()> {
    let study = args.of.open(Purpose::Change).await?;
    let config = study.client.get().await?.study_config.known()?;
    let specs = with_children(&config.parameters);
    let parameters = args.parameters.iter().map(|given| parameter(given, &specs)).collect::<anyhow::Result<_>>()?;
    let mut request = TrialRequest::default();
    request.parameters = parameters;
    request.final_measurement = args.measurement.message_if_given();
    let trial = study.create(&request).await?;
    show_trial(&args.format, &trial)?;
    if let (Some(_), Some(folder)) = (&study.job, study.service.folder()) {
        notice(&format!("`{}` runs the trial", folder.serve_command()));
    }
    Ok(())
}

/// Parameter specifications, each followed by those of its conditional parameters.
pub(super) fn with_children(parameters: &[StudyParameterSpec]) -> Vec<&StudyParameterSpec> {
    let specs = parameters.iter();
    specs.flat_map(|spec| std::iter::once(spec).chain(with_children(&spec.child_parameter_specs))).collect()
}

/// Parses `NAME=VALUE` according to the type of the parameter.
fn parameter(given: &str, specs: &[&StudyParameterSpec]) -> anyhow::Result<TrialParameter> {
    let (name, value) = given.split_once('=').with_context(|| format!("--parameter {given}: expected NAME=VALUE"))?;
    let Some(spec) = specs.iter().find(|spec| spec.parameter == name) else {
        let names: Vec<&str> = specs.iter().map(|spec| spec.parameter.as_str()).collect();
        bail!("--parameter {given}: the study has no parameter {name:?}; it has {}", names.join(", "));
    };
    let mut message = TrialParameter { parameter: name.to_owned(), ..TrialParameter::default() };
    match spec.parameter_type {
        ParameterType::Integer => match value.parse() {
            Ok(number) => message.int_value = Some(Int64(number)),
            Err(_) => bail!("--parameter {given}: {value:?} is not a 64-bit integer"),
        },
        ParameterType::Categorical => message.string_value = Some(value.to_owned()),
        ParameterType::Double | ParameterType::Discrete | ParameterType::ParameterTypeUnspecified => {
            match value.parse::<Number>() {
                Ok(number) if number.0.is_finite() => message.float_value = Some(number),
                _ => bail!("--parameter {given}: {value:?} is not a finite number"),
            }
        }
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_the_type_of_their_parameter() {
        let config = json!([
            {"parameter": "x", "type": "DOUBLE"},
            {"parameter": "kind", "type": "CATEGORICAL", "childParameterSpecs": [{"parameter": "n", "type": "INTEGER"}]},
        ]);
        let config: Vec<StudyParameterSpec> = serde_json::from_value(config).unwrap();
        let specs = with_children(&config);
        let message = |given: &str| {
            let parameter = parameter(given, &specs).map_err(|error| error.to_string())?;
            Ok::<_, String>(serde_json::to_value(parameter).unwrap())
        };
        assert_eq!(message("x=-1e-3").unwrap(), json!({"parameter": "x", "floatValue": -0.001}));
        assert_eq!(message("kind=a=b").unwrap(), json!({"parameter": "kind", "stringValue": "a=b"}));
        assert_eq!(message("n=3").unwrap(), json!({"parameter": "n", "intValue": "3"}));
        assert!(message("y=1").unwrap_err().ends_with("it has x, kind, n"));
        assert!(message("x=NaN").unwrap_err().contains("not a finite number"));
        assert!(message("x").unwrap_err().contains("NAME=VALUE"));
    }
}
