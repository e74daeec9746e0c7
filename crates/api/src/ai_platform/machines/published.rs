//! Machine types, scale tiers and accelerators published by AI Platform Training and Vertex AI.
//!
//! Sources: "Specifying machine types or scale tiers" and "Using GPUs for training models in the cloud" of AI
//! Platform Training's documentation; "GPU machine types" of Compute Engine's. Compute Engine sizes follow from family and processor count.

use super::{MachineType, Tier};
use crate::ai_platform::{AcceleratorType, ScaleTier};

/// Compute Engine family: name prefix, MiB of memory per processor, published processor counts.
type Family = (&'static str, u64, &'static [u32]);

const FAMILIES: [Family; 10] = [
    ("e2-standard", 4096, &[4, 8, 16, 32]),
    ("e2-highmem", 8192, &[2, 4, 8, 16]),
    ("e2-highcpu", 1024, &[16, 32]),
    ("n2-standard", 4096, &[4, 8, 16, 32, 48, 64, 80]),
    ("n2-highmem", 8192, &[2, 4, 8, 16, 32, 48, 64, 80]),
    ("n2-highcpu", 1024, &[16, 32, 48, 64, 80]),
    ("n1-standard", 3840, &[4, 8, 16, 32, 64, 96]),
    ("n1-highmem", 6656, &[2, 4, 8, 16, 32, 64, 96]),
    // Those with 8 processors belong to scale tiers.
    ("n1-highcpu", 922, &[8, 16, 32, 64, 96]),
    ("c2-standard", 4096, &[4, 8, 16, 30, 60]),
];

/// Type with its own size: name, processors, memory in MiB, accelerators.
type Single = (&'static str, u32, u64, Option<(AcceleratorType, u32)>);

const SINGLES: [Single; 38] = [
    ("m1-megamem-96", 96, 1_468_006, None),
    ("m1-ultramem-40", 40, 984_064, None),
    ("m1-ultramem-80", 80, 1_968_128, None),
    ("m1-ultramem-160", 160, 3_936_256, None),
    ("a2-highgpu-1g", 12, 87_040, Some((AcceleratorType::NvidiaTeslaA100, 1))),
    ("a2-highgpu-2g", 24, 174_080, Some((AcceleratorType::NvidiaTeslaA100, 2))),
    ("a2-highgpu-4g", 48, 348_160, Some((AcceleratorType::NvidiaTeslaA100, 4))),
    ("a2-highgpu-8g", 96, 696_320, Some((AcceleratorType::NvidiaTeslaA100, 8))),
    ("a2-megagpu-16g", 96, 1_392_640, Some((AcceleratorType::NvidiaTeslaA100, 16))),
    ("standard", 4, 15_360, None),
    ("large_model", 8, 53_248, None),
    ("complex_model_s", 8, 7_373, None),
    ("complex_model_m", 16, 14_746, None),
    ("complex_model_l", 32, 29_491, None),
    ("standard_gpu", 8, 30_720, Some((AcceleratorType::NvidiaTeslaK80, 1))),
    ("complex_model_m_gpu", 8, 30_720, Some((AcceleratorType::NvidiaTeslaK80, 4))),
    ("complex_model_l_gpu", 16, 61_440, Some((AcceleratorType::NvidiaTeslaK80, 8))),
    ("standard_p100", 8, 30_720, Some((AcceleratorType::NvidiaTeslaP100, 1))),
    ("complex_model_m_p100", 16, 61_440, Some((AcceleratorType::NvidiaTeslaP100, 4))),
    ("standard_v100", 8, 30_720, Some((AcceleratorType::NvidiaTeslaV100, 1))),
    ("large_model_v100", 16, 53_248, Some((AcceleratorType::NvidiaTeslaV100, 1))),
    ("complex_model_m_v100", 16, 61_440, Some((AcceleratorType::NvidiaTeslaV100, 4))),
    ("complex_model_l_v100", 32, 122_880, Some((AcceleratorType::NvidiaTeslaV100, 8))),
    // Eight Cloud TPU cores; the type in an `acceleratorConfig` replaces it.
    ("cloud_tpu", 4, 15_360, Some((AcceleratorType::TpuV2, 8))),
    ("TPU", 4, 15_360, Some((AcceleratorType::TpuV2, 8))),
    // Of Vertex AI alone.
    ("g2-standard-4", 4, 16_384, Some((AcceleratorType::NvidiaL4, 1))),
    ("g2-standard-8", 8, 32_768, Some((AcceleratorType::NvidiaL4, 1))),
    ("g2-standard-12", 12, 49_152, Some((AcceleratorType::NvidiaL4, 1))),
    ("g2-standard-16", 16, 65_536, Some((AcceleratorType::NvidiaL4, 1))),
    ("g2-standard-24", 24, 98_304, Some((AcceleratorType::NvidiaL4, 2))),
    ("g2-standard-32", 32, 131_072, Some((AcceleratorType::NvidiaL4, 1))),
    ("g2-standard-48", 48, 196_608, Some((AcceleratorType::NvidiaL4, 4))),
    ("g2-standard-96", 96, 393_216, Some((AcceleratorType::NvidiaL4, 8))),
    ("a2-ultragpu-1g", 12, 174_080, Some((AcceleratorType::NvidiaA100Gb80, 1))),
    ("a2-ultragpu-2g", 24, 348_160, Some((AcceleratorType::NvidiaA100Gb80, 2))),
    ("a2-ultragpu-4g", 48, 696_320, Some((AcceleratorType::NvidiaA100Gb80, 4))),
    ("a2-ultragpu-8g", 96, 1_392_640, Some((AcceleratorType::NvidiaA100Gb80, 8))),
    ("a3-highgpu-8g", 208, 1_916_928, Some((AcceleratorType::NvidiaH100Gb80, 8))),
];

/// All published accelerators, those of Vertex AI last, with their default kinds: `nvidia-smi`'s words in lower case.
pub(crate) const ACCELERATORS: [(AcceleratorType, &str, &str); 20] = [
    (AcceleratorType::NvidiaTeslaK80, "NVIDIA_TESLA_K80", "k80"),
    (AcceleratorType::NvidiaTeslaP100, "NVIDIA_TESLA_P100", "p100"),
    (AcceleratorType::NvidiaTeslaV100, "NVIDIA_TESLA_V100", "v100"),
    (AcceleratorType::NvidiaTeslaP4, "NVIDIA_TESLA_P4", "p4"),
    (AcceleratorType::NvidiaTeslaT4, "NVIDIA_TESLA_T4", "t4"),
    (AcceleratorType::NvidiaTeslaA100, "NVIDIA_TESLA_A100", "a100"),
    (AcceleratorType::TpuV2, "TPU_V2", "tpu-v2"),
    (AcceleratorType::TpuV3, "TPU_V3", "tpu-v3"),
    (AcceleratorType::TpuV2Pod, "TPU_V2_POD", "tpu-v2-pod"),
    (AcceleratorType::TpuV3Pod, "TPU_V3_POD", "tpu-v3-pod"),
    (AcceleratorType::TpuV4Pod, "TPU_V4_POD", "tpu-v4-pod"),
    (AcceleratorType::NvidiaA100Gb80, "NVIDIA_A100_80GB", "a100"),
    (AcceleratorType::NvidiaL4, "NVIDIA_L4", "l4"),
    (AcceleratorType::TpuV5Litepod, "TPU_V5_LITEPOD", "tpu-v5-litepod"),
    (AcceleratorType::NvidiaH100Gb80, "NVIDIA_H100_80GB", "h100"),
    (AcceleratorType::NvidiaH100MegaGb80, "NVIDIA_H100_MEGA_80GB", "h100"),
    (AcceleratorType::NvidiaH200Gb141, "NVIDIA_H200_141GB", "h200"),
    (AcceleratorType::NvidiaB200, "NVIDIA_B200", "b200"),
    (AcceleratorType::NvidiaGb200, "NVIDIA_GB200", "gb200"),
    (AcceleratorType::NvidiaRtxPro6000, "NVIDIA_RTX_PRO_6000", "rtx-pro-6000"),
];

pub(super) fn machine_types() -> impl Iterator<Item = (String, MachineType)> {
    let families = FAMILIES.into_iter().flat_map(|(family, mib, sizes)| {
        sizes.iter().map(move |cpus| (format!("{family}-{cpus}"), machine(*cpus, mib * u64::from(*cpus), None)))
    });
    let singles = SINGLES.into_iter().map(|(name, cpus, mib, accelerators)| {
        let accelerators = accelerators.map(|(kind, count)| (name_of(kind).unwrap_or_default().to_owned(), count));
        (name.to_owned(), machine(cpus, mib, accelerators))
    });
    families.chain(singles)
}

fn machine(cpus: u32, mib: u64, accelerators: Option<(String, u32)>) -> MachineType {
    MachineType { milli_cpus: Some(cpus * 1000), memory_bytes: Some(mib << 20), accelerators, ..MachineType::default() }
}

/// Published name of an accelerator; `None` without one.
pub(super) fn name_of(accelerator: AcceleratorType) -> Option<&'static str> {
    ACCELERATORS.iter().find(|(known, ..)| *known == accelerator).map(|(_, name, _)| *name)
}

pub(super) fn tiers() -> [(ScaleTier, Tier); 5] {
    let tier = |master: &str, workers: (&str, u32), servers: (&str, u32)| Tier {
        master_type: master.to_owned(),
        worker_type: workers.0.to_owned(),
        worker_count: workers.1,
        parameter_server_type: servers.0.to_owned(),
        parameter_server_count: servers.1,
    };
    [
        (ScaleTier::Basic, tier("n1-standard-4", ("", 0), ("", 0))),
        (ScaleTier::Standard1, tier("n1-highcpu-8", ("n1-highcpu-8", 4), ("n1-standard-4", 3))),
        (ScaleTier::Premium1, tier("n1-highcpu-16", ("n1-highcpu-16", 19), ("n1-highmem-8", 11))),
        // An n1-standard-8 with one K80.
        (ScaleTier::BasicGpu, tier("standard_gpu", ("", 0), ("", 0))),
        // A master of type n1-standard-4 with eight TPU cores.
        (ScaleTier::BasicTpu, tier("cloud_tpu", ("", 0), ("", 0))),
    ]
}
