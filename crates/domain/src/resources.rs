//! Resource requests of replicas.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Resources of one replica. `None` requests nothing: the engine's default applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resources {
    /// CPU time in thousandths of a processor, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub milli_cpus: Option<u32>,
    /// Main memory in bytes, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerators: Option<Accelerators>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Accelerators {
    /// Kind, in the engine's terms; `None` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// At least 1.
    pub count: u32,
}

impl Resources {
    /// Whether nothing is requested.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Resources {
    /// Formats the request for display, such as `4 cpus, 16 GiB of memory, 2 GPUs of type v100`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus = self.milli_cpus.map(|milli| match milli {
            1000 => "1 cpu".to_owned(),
            milli => format!("{} cpus", f64::from(milli) / 1000.0),
        });
        let memory = self.memory_bytes.map(|bytes| format!("{} of memory", ByteSize(bytes)));
        let accelerators = self.accelerators.as_ref().map(|wanted| {
            let noun = if wanted.count == 1 { "GPU" } else { "GPUs" };
            let kind = wanted.kind.as_ref().map(|kind| format!(" of type {kind}")).unwrap_or_default();
            format!("{} {noun}{kind}", wanted.count)
        });
        let parts: Vec<String> = [cpus, memory, accelerators].into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "no resources" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// Number of bytes, displayed in the largest binary unit of which it is at least 1, with at most one decimal.
struct ByteSize(u64);

impl fmt::Display for ByteSize {
    #[expect(clippy::cast_precision_loss, reason = "a number for people, with one decimal")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < units.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{} {}", (value * 10.0).round() / 10.0, units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_for_people() {
        let all = Resources {
            milli_cpus: Some(1500),
            memory_bytes: Some(15 << 29),
            accelerators: Some(Accelerators { kind: Some("v100".into()), count: 2 }),
        };
        assert_eq!(all.to_string(), "1.5 cpus, 7.5 GiB of memory, 2 GPUs of type v100");
        let one = Resources {
            milli_cpus: Some(1000),
            memory_bytes: Some(100),
            accelerators: Some(Accelerators { kind: None, count: 1 }),
        };
        assert_eq!(one.to_string(), "1 cpu, 100 bytes of memory, 1 GPU");
        assert_eq!(Resources::default().to_string(), "no resources");
        assert!(Resources::default().is_empty() && !one.is_empty());
    }
}
