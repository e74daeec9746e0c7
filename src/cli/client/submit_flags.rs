//! gcloud flags of a training job, mapped to fields of `trainingInput`.

use anyhow::bail;
use clap::Args;
use serde_json::{Map, Value, json};

/// Flag for each field, used in messages about missing or invalid fields.
pub(in crate::cli) const FLAGS: &[(&str, &str)] = &[
    ("scaleTier", "--scale-tier"),
    ("region", "--region"),
    ("runtimeVersion", "--runtime-version"),
    ("pythonVersion", "--python-version"),
    ("pythonModule", "--module-name"),
    ("jobDir", "--job-dir"),
    ("masterType", "--master-machine-type"),
    ("masterConfig.imageUri", "--master-image-uri"),
    ("masterConfig.acceleratorConfig", "--master-accelerator"),
    ("masterConfig.tpuTfVersion", "--tpu-tf-version"),
    ("workerCount", "--worker-count"),
    ("workerType", "--worker-machine-type"),
    ("workerConfig.imageUri", "--worker-image-uri"),
    ("workerConfig.acceleratorConfig", "--worker-accelerator"),
    ("parameterServerCount", "--parameter-server-count"),
    ("parameterServerType", "--parameter-server-machine-type"),
    ("parameterServerConfig.imageUri", "--parameter-server-image-uri"),
    ("parameterServerConfig.acceleratorConfig", "--parameter-server-accelerator"),
    ("useChiefInTfConfig", "--use-chief-in-tf-config"),
    ("enableWebAccess", "--enable-web-access"),
    ("serviceAccount", "--service-account"),
    ("network", "--network"),
    ("encryptionConfig", "--kms-key"),
    ("scheduling.priority", "--priority"),
    ("scheduling.maxWaitTime", "--max-wait-time"),
    ("scheduling.maxRunningTime", "--max-running-time"),
];

/// Flags for machines, containers and scheduling. Those without effect are stored with the job.
#[derive(Debug, Default, Args)]
pub(in crate::cli) struct TrainingFlags {
    /// Set of machines: basic, basic-gpu, basic-tpu, standard-1, premium-1, custom. No effect.
    #[arg(long, value_name = "TIER", help_heading = "Machines and containers")]
    scale_tier: Option<String>,
    /// Region to run in. No effect.
    #[arg(long, value_name = "REGION", help_heading = "Machines and containers")]
    region: Option<String>,
    /// AI Platform's runtime version. No effect.
    #[arg(long, value_name = "VERSION", help_heading = "Machines and containers")]
    runtime_version: Option<String>,
    /// 3.7, 3.5 or 2.7. No effect: packages are installed for the python3 of the server.
    #[arg(long, value_name = "VERSION", help_heading = "Machines and containers")]
    python_version: Option<String>,
    /// Container image of the master.
    #[arg(long, value_name = "URI", help_heading = "Machines and containers")]
    master_image_uri: Option<String>,
    /// Machine type of the master. No effect.
    #[arg(long, value_name = "TYPE", help_heading = "Machines and containers")]
    master_machine_type: Option<String>,
    /// Accelerators of the master. No effect.
    #[arg(long, value_name = "count=N,type=TYPE", help_heading = "Machines and containers")]
    master_accelerator: Option<String>,
    /// Number of workers.
    #[arg(long, value_name = "N", help_heading = "Machines and containers")]
    worker_count: Option<u32>,
    /// Container image of workers.
    #[arg(long, value_name = "URI", help_heading = "Machines and containers")]
    worker_image_uri: Option<String>,
    /// Machine type of workers. No effect.
    #[arg(long, value_name = "TYPE", help_heading = "Machines and containers")]
    worker_machine_type: Option<String>,
    /// Accelerators of workers. No effect.
    #[arg(long, value_name = "count=N,type=TYPE", help_heading = "Machines and containers")]
    worker_accelerator: Option<String>,
    /// Number of parameter servers.
    #[arg(long, value_name = "N", help_heading = "Machines and containers")]
    parameter_server_count: Option<u32>,
    /// Container image of parameter servers.
    #[arg(long, value_name = "URI", help_heading = "Machines and containers")]
    parameter_server_image_uri: Option<String>,
    /// Machine type of parameter servers. No effect.
    #[arg(long, value_name = "TYPE", help_heading = "Machines and containers")]
    parameter_server_machine_type: Option<String>,
    /// Accelerators of parameter servers. No effect.
    #[arg(long, value_name = "count=N,type=TYPE", help_heading = "Machines and containers")]
    parameter_server_accelerator: Option<String>,
    /// TensorFlow version of the TPU image. No effect.
    #[arg(long, value_name = "VERSION", help_heading = "Machines and containers")]
    tpu_tf_version: Option<String>,
    /// Name the master `chief` in TF_CONFIG.
    #[arg(long, value_name = "BOOLEAN", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    #[arg(help_heading = "Machines and containers")]
    use_chief_in_tf_config: Option<bool>,
    /// Enable an interactive shell in the containers. No effect.
    #[arg(long, help_heading = "Machines and containers")]
    enable_web_access: bool,
    /// Account to run as. No effect.
    #[arg(long, value_name = "ACCOUNT", help_heading = "Machines and containers")]
    service_account: Option<String>,
    /// Network to peer with. No effect.
    #[arg(long, value_name = "NETWORK", help_heading = "Machines and containers")]
    network: Option<String>,
    /// Encryption key. No effect.
    #[arg(long, value_name = "KEY", help_heading = "Machines and containers")]
    kms_key: Option<String>,
    /// Key ring of --kms-key.
    #[arg(long, value_name = "KEYRING", requires = "kms_key", help_heading = "Machines and containers")]
    kms_keyring: Option<String>,
    /// Location of --kms-key.
    #[arg(long, value_name = "LOCATION", requires = "kms_key", help_heading = "Machines and containers")]
    kms_location: Option<String>,
    /// Project of --kms-key.
    #[arg(long, value_name = "PROJECT", requires = "kms_key", help_heading = "Machines and containers")]
    kms_project: Option<String>,
    /// Priority in the queue, 0 to 1000. Higher priorities run first.
    #[arg(long, value_name = "N", help_heading = "Scheduling")]
    priority: Option<u16>,
    /// Maximum time in the queue, such as 3600s.
    #[arg(long, value_name = "DURATION", help_heading = "Scheduling")]
    max_wait_time: Option<String>,
    /// Maximum run time of the job, such as 86400s.
    #[arg(long, value_name = "DURATION", help_heading = "Scheduling")]
    max_running_time: Option<String>,
}

impl TrainingFlags {
    /// Training input fields set by the flags.
    ///
    /// # Errors
    /// If a flag's value is malformed.
    pub(in crate::cli) fn input(&self) -> anyhow::Result<Map<String, Value>> {
        let mut input = Map::new();
        let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
        let count = |count: Option<u32>| count.map(|count| json!(count.to_string()));
        let accelerator =
            |flag: &str, text: &Option<String>| text.as_ref().map(|text| accelerator(flag, text)).transpose();
        let fields = [
            ("scaleTier", self.scale_tier.as_ref().map(|tier| json!(constant(tier)))),
            ("region", text(&self.region)),
            ("runtimeVersion", text(&self.runtime_version)),
            ("pythonVersion", text(&self.python_version)),
            ("masterType", text(&self.master_machine_type)),
            ("masterConfig.imageUri", text(&self.master_image_uri)),
            ("masterConfig.tpuTfVersion", text(&self.tpu_tf_version)),
            ("masterConfig.acceleratorConfig", accelerator("--master-accelerator", &self.master_accelerator)?),
            ("workerCount", count(self.worker_count)),
            ("workerType", text(&self.worker_machine_type)),
            ("workerConfig.imageUri", text(&self.worker_image_uri)),
            ("workerConfig.acceleratorConfig", accelerator("--worker-accelerator", &self.worker_accelerator)?),
            ("parameterServerCount", count(self.parameter_server_count)),
            ("parameterServerType", text(&self.parameter_server_machine_type)),
            ("parameterServerConfig.imageUri", text(&self.parameter_server_image_uri)),
            (
                "parameterServerConfig.acceleratorConfig",
                accelerator("--parameter-server-accelerator", &self.parameter_server_accelerator)?,
            ),
            ("useChiefInTfConfig", self.use_chief_in_tf_config.map(Value::from)),
            ("enableWebAccess", self.enable_web_access.then_some(Value::Bool(true))),
            ("serviceAccount", text(&self.service_account)),
            ("network", text(&self.network)),
            ("encryptionConfig.kmsKeyName", text(&self.key()?)),
            ("scheduling.priority", self.priority.map(Value::from)),
            ("scheduling.maxWaitTime", text(&self.max_wait_time)),
            ("scheduling.maxRunningTime", text(&self.max_running_time)),
        ];
        for (path, value) in fields {
            let Some(value) = value else { continue };
            match path.split_once('.') {
                Some((message, field)) => input.entry(message).or_insert_with(|| json!({}))[field] = value,
                None => drop(input.insert(path.to_owned(), value)),
            }
        }
        Ok(input)
    }

    /// Resource name of the key, given or composed from its parts.
    fn key(&self) -> anyhow::Result<Option<String>> {
        let Some(key) = &self.kms_key else { return Ok(None) };
        match (&self.kms_project, &self.kms_location, &self.kms_keyring) {
            (None, None, None) => Ok(Some(key.clone())),
            (Some(project), Some(location), Some(ring)) => {
                Ok(Some(format!("projects/{project}/locations/{location}/keyRings/{ring}/cryptoKeys/{key}")))
            }
            _ => bail!("give all of --kms-project, --kms-location and --kms-keyring, or none of them"),
        }
    }
}

/// Converts gcloud's spelling to the API's: `nvidia-tesla-t4` to `NVIDIA_TESLA_T4`.
pub(super) fn constant(text: &str) -> String {
    text.to_ascii_uppercase().replace('-', "_")
}

/// Parses `count=1,type=nvidia-tesla-t4`. The default count is 1.
fn accelerator(flag: &str, text: &str) -> anyhow::Result<Value> {
    let mut found = json!({"count": "1"});
    for part in text.split(',') {
        match part.split_once('=') {
            Some(("type", name)) => found["type"] = json!(constant(name)),
            Some(("count", count)) if count.parse::<u32>().is_ok() => found["count"] = json!(count),
            _ => bail!("{flag}: {part:?} is neither count=N nor type=TYPE"),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use tunesmith_api::ai_platform::TrainingInput;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: TrainingFlags,
    }

    fn applied(arguments: &[&str]) -> anyhow::Result<Value> {
        let command = Command::try_parse_from(["submit"].iter().chain(arguments))?;
        let input = Value::Object(command.flags.input()?);
        // Validates the training input.
        serde_json::from_value::<TrainingInput>(input.clone())?;
        Ok(input)
    }

    #[test]
    fn flags_set_the_fields_that_gcloud_set() {
        let input = applied(&[
            "--scale-tier=custom",
            "--region=europe-west1",
            "--master-image-uri=gcr.io/p/i",
            "--master-accelerator=count=2,type=nvidia-tesla-t4",
            "--worker-count=3",
            "--worker-machine-type=n1-highcpu-8",
            "--use-chief-in-tf-config",
            "--kms-key=k",
            "--kms-keyring=r",
            "--kms-location=l",
            "--kms-project=p",
            "--max-wait-time=3600s",
            "--priority=7",
        ]);
        let expected = json!({
            "scaleTier": "CUSTOM",
            "region": "europe-west1",
            "masterConfig": {
                "imageUri": "gcr.io/p/i", "acceleratorConfig": {"count": "2", "type": "NVIDIA_TESLA_T4"}
            },
            "workerCount": "3",
            "workerType": "n1-highcpu-8",
            "useChiefInTfConfig": true,
            "encryptionConfig": {"kmsKeyName": "projects/p/locations/l/keyRings/r/cryptoKeys/k"},
            "scheduling": {"maxWaitTime": "3600s", "priority": 7},
        });
        assert_eq!(input.unwrap(), expected);
        assert_eq!(applied(&[]).unwrap(), json!({}));
        for tier in ["BASIC_GPU", "basic-gpu", "standard-1", "premium-1"] {
            assert_eq!(applied(&["--scale-tier", tier]).unwrap()["scaleTier"], constant(tier));
        }
    }

    #[test]
    fn what_no_field_can_hold_is_refused() {
        for wrong in [
            ["--master-accelerator=count=x,type=nvidia-tesla-t4"].as_slice(),
            &["--master-accelerator=nvidia-tesla-t4"],
            &["--kms-key=k", "--kms-keyring=r"],
            &["--kms-keyring=r"],
            &["--worker-count=-1"],
        ] {
            assert!(applied(wrong).is_err(), "{wrong:?}");
        }
    }
}
