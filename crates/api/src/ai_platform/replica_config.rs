//! Containers and machines of replicas.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalars::int32_or_text;
use super::{Int64, is_default};

/// Container and machine of one kind of replica.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ReplicaConfig {
    /// Container image to run. By default, workers, parameter servers and evaluators use the master's image.
    #[serde(skip_serializing_if = "is_default")]
    pub image_uri: String,
    /// Replaces the entry point of the image and drops its default arguments. Excludes `args`.
    #[serde(skip_serializing_if = "is_default")]
    pub container_command: Vec<String>,
    /// Arguments to the entry point, or to `containerCommand`. Excludes `args`.
    #[serde(skip_serializing_if = "is_default")]
    pub container_args: Vec<String>,
    /// Accelerators of each machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accelerator_config: Option<AcceleratorConfig>,
    /// Boot disk of each machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_config: Option<DiskConfig>,
    /// TensorFlow version of the TPU image, for a custom container on TPUs.
    #[serde(skip_serializing_if = "is_default")]
    pub tpu_tf_version: String,
}

/// Accelerators of a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AcceleratorConfig {
    /// Number of accelerators.
    #[serde(skip_serializing_if = "is_default")]
    pub count: Int64,
    /// Type of the accelerators.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub accelerator_type: AcceleratorType,
}

/// Accelerators offered by AI Platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AcceleratorType {
    #[default]
    AcceleratorTypeUnspecified,
    NvidiaTeslaK80,
    NvidiaTeslaP100,
    NvidiaTeslaV100,
    NvidiaTeslaP4,
    NvidiaTeslaT4,
    NvidiaTeslaA100,
    #[serde(rename = "TPU_V2")]
    TpuV2,
    #[serde(rename = "TPU_V3")]
    TpuV3,
    #[serde(rename = "TPU_V2_POD")]
    TpuV2Pod,
    #[serde(rename = "TPU_V3_POD")]
    TpuV3Pod,
    #[serde(rename = "TPU_V4_POD")]
    TpuV4Pod,
    // Those of Vertex AI alone.
    #[serde(rename = "NVIDIA_A100_80GB")]
    NvidiaA100Gb80,
    #[serde(rename = "NVIDIA_L4")]
    NvidiaL4,
    #[serde(rename = "TPU_V5_LITEPOD")]
    TpuV5Litepod,
    #[serde(rename = "NVIDIA_H100_80GB")]
    NvidiaH100Gb80,
    #[serde(rename = "NVIDIA_H100_MEGA_80GB")]
    NvidiaH100MegaGb80,
    #[serde(rename = "NVIDIA_H200_141GB")]
    NvidiaH200Gb141,
    #[serde(rename = "NVIDIA_B200")]
    NvidiaB200,
    #[serde(rename = "NVIDIA_GB200")]
    NvidiaGb200,
    #[serde(rename = "NVIDIA_RTX_PRO_6000")]
    NvidiaRtxPro6000,
}

/// Boot disk of a machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct DiskConfig {
    /// Size in GB. Default 100, also for 0.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "int32_or_text")]
    #[schemars(range(min = 0), extend("type" = ["integer", "string", "null"], "pattern" = "^-?[0-9]+$"))]
    pub boot_disk_size_gb: Option<i32>,
    /// `pd-ssd` (default) or `pd-standard`.
    #[serde(skip_serializing_if = "is_default")]
    pub boot_disk_type: String,
}
