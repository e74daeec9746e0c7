//! Environment variables that programs inherit from this process.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::str::FromStr;

use crate::Replica;

/// Variables inherited by name.
pub const PASSED_NAMES: [&str; 39] = [
    "ALL_PROXY",
    "CONTAINER_HOST",
    "CURL_CA_BUNDLE",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DYLD_LIBRARY_PATH",
    "HF_HOME",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NO_PROXY",
    "PATH",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TORCH_HOME",
    "TRITON_CACHE_DIR",
    "TZ",
    "TZDIR",
    "USER",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "JULIA_DEPOT_PATH",
];

/// Variables inherited by prefix.
pub const PASSED_PREFIXES: [&str; 32] = [
    "BLIS_",
    "CONDA_PREFIX",
    "CUBLAS_",
    "CUDA_",
    "CUDNN_",
    "GOMP_",
    "GPU_",
    "HIP_",
    "HSA_",
    "JAX_",
    "KERAS_",
    "KMP_",
    "LC_",
    "LD_",
    "MALLOC_",
    "MKL_",
    "NCCL_",
    "NUMBA_",
    "NUMEXPR_",
    "NVIDIA_",
    "OMP_",
    "ONEAPI_",
    "OPENBLAS_",
    "PYTHON",
    "PYTORCH_",
    "ROCM_",
    "ROCR_",
    "TF_CPP_",
    "TF_FORCE_",
    "TF_GPU_",
    "TF_XLA_",
    "XLA_",
];

/// Variables for agents only. Programs inherit them by name or prefix; `*` does not select them.
const AGENT_NAMES: [&str; 1] = ["TUNESMITH_CA_FILE"];

/// Variable with patterns of further variables.
pub const PASS_ENVIRONMENT: &str = "TUNESMITH_PASS_ENVIRONMENT";

/// Selection of variables: the lists of this module, and additional patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassedEnvironment {
    more: Vec<VariablePattern>,
}

/// Name of a variable, `PREFIX*` for all that start with `PREFIX`, or `*` for all except those for agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariablePattern {
    start: String,
    is_prefix: bool,
}

/// Error for text that is not a variable name or pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the name of a variable: use NAME, PREFIX* or *")]
pub struct BadVariablePattern {
    pub text: String,
}

/// Error in [`PASS_ENVIRONMENT`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{PASS_ENVIRONMENT}: {0}")]
pub struct PassVariableError(#[from] BadVariablePattern);

impl FromStr for VariablePattern {
    type Err = BadVariablePattern;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (start, is_prefix) = text.strip_suffix('*').map_or((text, false), |start| (start, true));
        if (start.is_empty() && !is_prefix) || start.contains(['=', '\0', '*']) {
            return Err(BadVariablePattern { text: text.to_owned() });
        }
        Ok(Self { start: start.to_owned(), is_prefix })
    }
}

impl PassedEnvironment {
    /// Selects the lists of this module and `more`.
    pub fn new(more: Vec<VariablePattern>) -> Self {
        Self { more }
    }

    /// Selects the lists of this module and the patterns `texts`, ignoring empty ones.
    ///
    /// # Errors
    /// If a text is not a pattern.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, BadVariablePattern> {
        let more: Result<_, _> = texts.into_iter().filter(|text| !text.is_empty()).map(str::parse).collect();
        Ok(Self { more: more? })
    }

    /// Selects the lists of this module and the comma-separated patterns in [`PASS_ENVIRONMENT`].
    ///
    /// # Errors
    /// If a text is not a pattern.
    pub fn from_variable() -> Result<Self, PassVariableError> {
        let texts = std::env::var(PASS_ENVIRONMENT).unwrap_or_default();
        Ok(Self::parse(texts.split(','))?)
    }

    /// Selects all variables except those for agents.
    pub fn all() -> Self {
        Self { more: vec![VariablePattern { start: String::new(), is_prefix: true }] }
    }

    /// Selected variables of this process.
    pub fn of_this_process(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os().filter(|(name, _)| self.selects(name)).collect()
    }

    /// Whether the variable `name` is selected.
    pub fn selects(&self, name: &OsStr) -> bool {
        let name = name.as_encoded_bytes();
        let starts = |prefix: &str| name.starts_with(prefix.as_bytes());
        let is_of_agents = AGENT_NAMES.iter().any(|known| known.as_bytes() == name);
        PASSED_NAMES.iter().any(|known| known.as_bytes() == name)
            || PASSED_PREFIXES.iter().any(|prefix| starts(prefix))
            || self.more.iter().any(|pattern| match pattern.is_prefix {
                true => starts(&pattern.start) && !(pattern.start.is_empty() && is_of_agents),
                false => pattern.start.as_bytes() == name,
            })
    }
}

/// Variables that restrict the program of `replica` to its granted accelerators, overriding those of the job and of
/// this process. Empty if accelerators are not counted.
pub(super) fn device_variables(replica: &Replica) -> BTreeMap<String, String> {
    let Some(devices) = &replica.devices else { return BTreeMap::new() };
    let list = devices.join(",");
    // NVIDIA's container runtime interprets an empty list as all devices.
    let container = if devices.is_empty() { "void".to_owned() } else { list.clone() };
    BTreeMap::from([("CUDA_VISIBLE_DEVICES".to_owned(), list), ("NVIDIA_VISIBLE_DEVICES".to_owned(), container)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_selected_only_by_name_or_prefix() {
        let secrets = ["AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "TF_VAR_password", "HOMEPASSWORD"];
        let given = |patterns: &[&str]| {
            PassedEnvironment::new(patterns.iter().map(|pattern| pattern.parse().unwrap()).collect())
        };
        for secret in secrets {
            assert!(!PassedEnvironment::default().selects(secret.as_ref()), "{secret}");
            assert!(given(&["X", secret]).selects(secret.as_ref()), "{secret}");
            assert!(PassedEnvironment::all().selects(secret.as_ref()), "{secret}");
        }
        assert!(!PassedEnvironment::all().selects("TUNESMITH_CA_FILE".as_ref()));
        assert!(given(&["TUNESMITH_*"]).selects("TUNESMITH_CA_FILE".as_ref()));
        assert!(given(&["AWS_*"]).selects("AWS_SECRET_ACCESS_KEY".as_ref()));
        assert!(!given(&["AWS_*"]).selects("TF_VAR_password".as_ref()));
        for usual in ["PATH", "HOME", "LC_ALL", "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"] {
            assert!(PassedEnvironment::default().selects(usual.as_ref()), "{usual}");
        }
    }

    #[test]
    fn invalid_patterns_are_errors() {
        for text in ["", "A=B", "A*B", "**"] {
            let error = text.parse::<VariablePattern>().unwrap_err();
            assert_eq!(error.to_string(), format!("{text:?} is not the name of a variable: use NAME, PREFIX* or *"));
        }
    }
}
