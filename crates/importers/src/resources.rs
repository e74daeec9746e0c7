//! Resources of a container of Kubernetes, as an entry of the machine types of a server.

use serde_json::Value;

use crate::reading::{Fields, Findings};

/// Resource name of NVIDIA's device plugin.
const GPU: &str = "nvidia.com/gpu";

/// Name of a machine type with the `resources` of a container, for the server configuration; `None` without resources.
pub(crate) fn machine_type(resources: Option<&Value>, path: &str, found: &mut Findings) -> Option<String> {
    let mut fields = Fields::of(resources?, path, found);
    let limits = fields.take("limits");
    let requests = fields.take("requests");
    fields.end(found);
    let place = if limits.is_some() { format!("{path}.limits") } else { format!("{path}.requests") };
    let mut wanted = Fields::of(limits.or(requests)?, &place, found);
    let quantity =
        |value: Option<&Value>| value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let (cpu, memory, gpu) =
        (quantity(wanted.take("cpu")), quantity(wanted.take("memory")), quantity(wanted.take(GPU)));
    wanted.end(found);
    let parts = [("cpu", &cpu), ("memory", &memory), ("gpu", &gpu)];
    let name: String = parts
        .into_iter()
        .filter_map(|(kind, quantity)| Some(format!("-{kind}-{}", quantity.as_ref()?.to_lowercase())))
        .collect();
    if name.is_empty() {
        return None;
    }
    let name = format!("pod{name}");
    let cpus = cpu.map(|cpu| match cpu.strip_suffix('m').and_then(|milli| milli.parse::<f64>().ok()) {
        Some(milli) => format!("cpus: {}", milli / 1000.0),
        None => format!("cpus: {cpu}"),
    });
    let memory = memory.map(|memory| match memory.as_bytes().last() {
        Some(b'i') => format!("memory: {memory}B"),
        Some(b'M' | b'G' | b'T') => format!("memory: {memory}B"),
        _ => format!("memory: {memory}"),
    });
    let accelerators = gpu.map(|count| format!("accelerators: {{type: NVIDIA_TESLA_T4, count: {count}}}"));
    let entry: Vec<String> = [cpus, memory, accelerators].into_iter().flatten().collect();
    found.note(format!(
        "{path}: add the machine type to the server configuration, with the kind of your accelerators if there are any: \
         machineTypes: {{{name}: {{{}}}}}",
        entry.join(", ")
    ));
    Some(name)
}
