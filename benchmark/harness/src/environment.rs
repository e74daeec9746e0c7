use std::collections::BTreeMap;

/// Operating system, processor, cores and memory; unknown ones are left out.
pub fn machine() -> BTreeMap<String, String> {
    let mut machine = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            machine.insert(name.to_owned(), value);
        }
    };
    add("system", first_line("/proc/sys/kernel/osrelease").map(|release| format!("Linux {release}")));
    add("distribution", field("/etc/os-release", "PRETTY_NAME=").map(|name| name.trim_matches('"').to_owned()));
    add(
        "processor",
        field("/proc/cpuinfo", "model name").map(|name| name.trim_start_matches([':', ' ', '\t']).to_owned()),
    );
    add("cores", std::thread::available_parallelism().ok().map(|cores| cores.to_string()));
    add("memory", field("/proc/meminfo", "MemTotal:").map(|memory| memory.trim().to_owned()));
    machine
}

fn first_line(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()?.lines().next().map(str::to_owned)
}

/// Rest of the first line of the file that starts with `key`.
fn field(path: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)).map(|rest| rest.trim().to_owned())
}
