//! Rules of a server configuration beyond its shape.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::file::{
    AcceleratorsFile, AuditFile, LimitsFile, MachineTypeFile, OpenIdConnectFile, PlacementFile, ResourcesFile,
    RetentionFile, ServerFile, TierFile,
};
use super::{
    AuditFiles, Capacity, DAY, Devices, EXECUTORS, ExecutorConfig, LOCAL, Limits, OpenIdConnect, Retention,
    ServerConfig,
};
use crate::conversion::Locations;
use crate::diagnostic::Finding;
use tunesmith_api::ai_platform::machines::{
    Counted, KUBERNETES, MachineMap, MachinePlacement, MachineType, Runtime, Tier, is_here,
};
use tunesmith_api::ai_platform::{Double, ScaleTier, nearest};

const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("", 1),
];

const MEMORY: &str = "a size such as 16GiB, 500MB or 1073741824";
const CPUS: &str = "a number of processors from 0.001 to 1000000";

/// Wildcard for any kind in [`ServerFile::accelerators`].
const ANY: &str = "any";

/// Whether container engines mount `folder` as it is written.
fn is_plain_folder(folder: &str) -> bool {
    let path = Path::new(folder);
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    path.is_absolute()
        && path.parent().is_some()
        && path.components().all(is_plain)
        && !folder.contains(|c: char| c.is_control() || ",\"".contains(c))
}

pub(super) struct Rules<'a> {
    locations: &'a Locations,
    executor: &'a str,
    findings: &'a mut Vec<Finding>,
}

impl<'a> Rules<'a> {
    pub(super) fn new(locations: &'a Locations, executor: &'a str, findings: &'a mut Vec<Finding>) -> Self {
        Self { locations, executor, findings }
    }

    /// Converts `file`. Reports and omits what breaks a rule.
    pub(super) fn config(mut self, file: ServerFile) -> ServerConfig {
        let mut executor = ExecutorConfig {
            name: file.executor,
            slurm: file.slurm,
            ray: file.ray,
            kubernetes: file.kubernetes,
            ..ExecutorConfig::default()
        };
        self.add_named(file.executors, &mut executor);
        let capacity = file.resources.map(|resources| self.capacity(resources)).unwrap_or_default();
        let mut machines = MachineMap::published();
        machines.is_strict = true;
        machines.executor = self.executor.to_owned();
        machines.kinds = executor.named.iter().map(|(name, named)| (name.clone(), named.kind.clone())).collect();
        if let Some(name) = &executor.name {
            self.check_executor("executor", name, &machines);
        }
        executor.prediction = self.prediction(file.prediction.executor, &machines);
        machines.counted_here = Counted {
            cpus: capacity.milli_cpus.is_some(),
            memory: capacity.memory_bytes.is_some(),
            accelerators: capacity.devices.is_some(),
        };
        machines.counted = match is_here(machines.kind_of(self.executor)) {
            true => machines.counted_here,
            // Its scheduler counts all requests.
            false => Counted { cpus: true, memory: true, accelerators: true },
        };
        for (name, entry) in file.machine_types {
            let published = machines.machine_types.get(&name).cloned().unwrap_or_default();
            let machine = self.machine_type(&format!("machineTypes.{name}"), entry, published, &machines);
            machines.machine_types.insert(name, machine);
        }
        for (name, entry) in file.scale_tiers {
            let field = format!("scaleTiers.{name}");
            let Some(tier) = ScaleTier::PREDEFINED.into_iter().find(|tier| tier.as_str() == name) else {
                let names = ScaleTier::PREDEFINED.map(ScaleTier::as_str);
                self.unknown(&field, &name, "a predefined scale tier", &names);
                continue;
            };
            let published = machines.tiers.get(&tier).cloned().unwrap_or_default();
            let tier_machines = self.tier(&field, entry, published, &machines.machine_types);
            machines.tiers.insert(tier, tier_machines);
        }
        self.accelerators(file.accelerators, &mut machines);
        for (name, entry) in file.regions {
            let place = self.place(&format!("regions.{name}"), entry, &machines);
            machines.regions.insert(name, place);
        }
        machines.preemptible = file.preemptible.map(|entry| self.place("preemptible", entry, &machines));
        for (name, entry) in file.runtime_versions {
            let field = format!("runtimeVersions.{name}");
            if let Some(python) = entry.python.as_deref().filter(|python| !Path::new(python).is_absolute()) {
                self.report(&format!("{field}.python"), format!("{python:?} is not absolute"), "an absolute path");
            }
            let names = machines.other_executors().into_iter().chain([self.executor]);
            let names = names.chain(executor.prediction.as_deref());
            let runs_images = names.into_iter().any(|name| machines.kind_of(name) == KUBERNETES);
            if entry.image.is_some() && !runs_images {
                let text = format!("has no effect with the executor {}", self.executor);
                self.report(&format!("{field}.image"), text, format!("python, or the executor {KUBERNETES}"));
            }
            let runtime = Runtime { python: entry.python.map(Into::into), image: entry.image };
            machines.runtimes.insert(name, runtime);
        }
        machines.buckets = self.buckets(file.buckets);
        executor.placement_timeout = file.placement_timeout.map(|timeout| timeout.0);
        if executor.placement_timeout.is_some_and(|timeout| timeout.is_zero()) {
            self.report("placementTimeout", "is zero", "longer than 0s");
        }
        if file.queue_deadline.is_some_and(|deadline| deadline.0.is_zero()) {
            self.report("queueDeadline", "is zero", "longer than 0s");
        }
        let audit = self.audit(file.audit);
        let open_id_connect = file.open_id_connect.map(|file| self.open_id_connect(file));
        let days = |days: Option<u32>| days.map(|days| days * DAY);
        let RetentionFile { job_days, study_days } = file.retention;
        self.check_webhooks(&file.webhooks);
        ServerConfig {
            executor,
            machines,
            capacity,
            allowed_folders: file.allowed_folders,
            limits: limits(&file.limits),
            queue_deadline: file.queue_deadline.map(|deadline| deadline.0),
            audit,
            open_id_connect,
            retention: Retention { jobs: days(job_days), studies: days(study_days) },
            webhooks: file.webhooks,
        }
    }

    fn buckets(&mut self, given: BTreeMap<String, String>) -> BTreeMap<String, PathBuf> {
        for (bucket, folder) in &given {
            let is_name = bucket.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c));
            if !is_name || !(3..=63).contains(&bucket.len()) {
                let text = format!("{bucket:?} is not a name of a bucket");
                let allowed = "3 to 63 lower case letters, digits, dots, hyphens and underscores";
                self.report(&format!("buckets.{bucket}"), text, allowed);
            } else if !is_plain_folder(folder) {
                let text = format!("{folder:?} is not the path of a folder");
                self.report(&format!("buckets.{bucket}"), text, "an absolute path without .., commas and quotes");
            }
        }
        given.into_iter().map(|(bucket, folder)| (bucket, folder.trim_end_matches('/').into())).collect()
    }

    fn open_id_connect(&mut self, file: OpenIdConnectFile) -> OpenIdConnect {
        let authority = ["https://", "http://"].into_iter().find_map(|scheme| file.issuer.strip_prefix(scheme));
        let host = authority.and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let name_of_host = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let is_here = ["127.0.0.1", "[::1]", "localhost"].contains(&name_of_host);
        let is_address = !host.is_empty() && !file.issuer.contains(|c: char| c.is_whitespace() || "?#@".contains(c));
        if !is_address || (file.issuer.starts_with("http://") && !is_here) {
            let text = format!("{:?} is not the address of an issuer", file.issuer);
            self.report("openIdConnect.issuer", text, "https://HOST[/PATH], or http:// with a loopback address");
        }
        if file.client_id.is_empty() {
            self.report("openIdConnect.clientId", "is empty", "the ID of this server as a client of the provider");
        }
        if let Some(path) = file.client_secret_file.as_deref().filter(|path| !Path::new(path).is_absolute()) {
            self.report("openIdConnect.clientSecretFile", format!("{path:?} is not absolute"), "an absolute path");
        }
        for (index, scope) in file.scopes.iter().flatten().enumerate() {
            if scope.is_empty() || scope.contains(|c: char| !c.is_ascii_graphic()) {
                let field = format!("openIdConnect.scopes[{index}]");
                self.report(&field, format!("{scope:?} is not a scope"), "printable ASCII characters without spaces");
            }
        }
        if file.roles.is_empty() && file.group_roles.values().all(Vec::is_empty) {
            let text = "gives no role, so that no one could sign in";
            self.report("openIdConnect", text, "groupRoles, roles or both with a role such as ml.viewer");
        }
        let default_scopes = || ["email", "profile"].map(str::to_owned).to_vec();
        OpenIdConnect {
            name: file.name.unwrap_or_else(|| host.to_owned()),
            issuer: file.issuer,
            client_id: file.client_id,
            client_secret_file: file.client_secret_file.map(Into::into),
            scopes: file.scopes.unwrap_or_else(default_scopes),
            principal_claim: file.principal_claim,
            groups_claim: file.groups_claim,
            group_roles: file.group_roles,
            roles: file.roles,
        }
    }

    fn audit(&mut self, file: AuditFile) -> AuditFiles {
        let default = AuditFiles::default();
        AuditFiles {
            max_bytes: self.memory("audit.maxFileSize", file.max_file_size.as_deref()).unwrap_or(default.max_bytes),
            max_age: file.max_file_days.map_or(default.max_age, |days| days * DAY),
            retention: file.retention_days.map(|days| days * DAY),
        }
    }

    fn check_executor(&mut self, field: &str, name: &str, machines: &MachineMap) {
        if !EXECUTORS.contains(&name) && !machines.kinds.contains_key(name) {
            let known: Vec<&str> = machines.kinds.keys().map(String::as_str).chain(EXECUTORS).collect();
            self.unknown(field, name, "an executor", &known);
        }
    }

    /// Executor of the workers of models.
    fn prediction(&mut self, name: Option<String>, machines: &MachineMap) -> Option<String> {
        let name = name?;
        let of_kind = |kind: &str| kind == LOCAL || kind == KUBERNETES;
        if !of_kind(machines.kind_of(&name)) || (machines.kind_of(&name) == LOCAL && name != LOCAL) {
            let named = machines.kinds.iter().filter(|(_, kind)| *kind == KUBERNETES).map(|(name, _)| name.as_str());
            let known: Vec<&str> = [LOCAL, KUBERNETES].into_iter().chain(named).collect();
            self.unknown("prediction.executor", &name, "an executor of the workers of models", &known);
            return None;
        }
        Some(name)
    }

    pub(super) fn report(&mut self, field: &str, message: impl Into<String>, allowed: impl Into<String>) {
        if !self.locations.is_broken(field) {
            self.findings.push(Finding::error(field, self.locations.span(field), message, allowed));
        }
    }

    pub(super) fn unknown(&mut self, field: &str, name: &str, what: &str, known: &[&str]) {
        if self.locations.is_broken(field) {
            return;
        }
        let help = nearest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        let allowed = format!("one of {}", known.join(", "));
        let message = format!("{name:?} is not {what}");
        let finding = Finding::error(field, self.locations.span(field), message, allowed);
        self.findings.push(Finding { help, ..finding });
    }

    fn capacity(&mut self, file: ResourcesFile) -> Capacity {
        let milli_cpus = self.milli_cpus("resources.cpus", file.cpus).map(u64::from);
        let memory_bytes = self.memory("resources.memory", file.memory.as_deref());
        let mut listed = Vec::new();
        let mut ids = BTreeSet::new();
        for (index, device) in file.devices.iter().flatten().enumerate() {
            let field = format!("resources.devices[{index}].id");
            if device.id.is_empty() || device.id.contains(|c: char| c == ',' || c.is_whitespace()) {
                self.report(&field, format!("{:?} is not a device", device.id), "an index or UUID without commas");
            } else if !ids.insert(device.id.clone()) {
                self.report(&field, format!("{:?} is listed twice", device.id), "each device once");
            }
            listed.push((device.id.clone(), device.kind.clone()));
        }
        let devices = match (file.devices.is_some(), file.discover_devices) {
            (true, true) => {
                self.report("resources.discoverDevices", "is given together with devices", "one of the two");
                None
            }
            (true, false) => Some(Devices::Listed(listed)),
            (false, true) => Some(Devices::Discovered),
            (false, false) => None,
        };
        Capacity { milli_cpus, memory_bytes, devices }
    }

    fn milli_cpus(&mut self, field: &str, cpus: Option<Double>) -> Option<u32> {
        let cpus = cpus?.0;
        let milli = (cpus * 1000.0).round();
        // The comparison is false for NaN.
        if (1.0..=1e9).contains(&milli) {
            return Some(milli as u32);
        }
        let problem = if cpus < 0.0 { "is negative" } else { "is out of range" };
        self.report(field, format!("{cpus} {problem}"), CPUS);
        None
    }

    fn memory(&mut self, field: &str, text: Option<&str>) -> Option<u64> {
        let text = text?;
        let bytes = parse_memory(text);
        if bytes.is_none() {
            self.report(field, format!("{text:?} is not a size above 0"), MEMORY);
        }
        bytes
    }

    fn machine_type(
        &mut self,
        field: &str,
        file: MachineTypeFile,
        published: MachineType,
        machines: &MachineMap,
    ) -> MachineType {
        let cpus = self.milli_cpus(&format!("{field}.cpus"), file.cpus);
        let memory = self.memory(&format!("{field}.memory"), file.memory.as_deref());
        let place = PlacementFile { executor: file.executor, queue: file.queue, options: file.options };
        let accelerators = file.accelerators.map(|AcceleratorsFile { kind, count }| (kind, count));
        MachineType {
            milli_cpus: cpus.or(published.milli_cpus),
            memory_bytes: memory.or(published.memory_bytes),
            accelerators: accelerators.or(published.accelerators),
            place: self.place(field, place, machines),
        }
    }

    fn place(&mut self, field: &str, file: PlacementFile, machines: &MachineMap) -> MachinePlacement {
        let named = file.executor.as_deref();
        if let Some(executor) = named {
            self.check_executor(&format!("{field}.executor"), executor, machines);
        }
        let executor = named.unwrap_or(self.executor).to_owned();
        if is_here(machines.kind_of(&executor)) {
            let text = format!("has no effect with the executor {executor}");
            if file.queue.is_some() {
                self.report(&format!("{field}.queue"), text.as_str(), "only with another executor");
            }
            if !file.options.is_empty() {
                self.report(&format!("{field}.options"), text, "only with another executor");
            }
        }
        // A queue belongs to its executor, so that a job cannot combine it with another executor.
        let has_words = file.queue.is_some() || !file.options.is_empty();
        let executor = file.executor.or_else(|| has_words.then_some(executor));
        MachinePlacement { executor, queue: file.queue, options: file.options }
    }

    fn tier(&mut self, field: &str, file: TierFile, published: Tier, known: &BTreeMap<String, MachineType>) -> Tier {
        let mut machine_type = |name: &str, given: Option<String>, published: String| {
            let Some(given) = given else { return published };
            if !known.contains_key(&given) {
                let names: Vec<&str> = known.keys().map(String::as_str).collect();
                self.unknown(&format!("{field}.{name}"), &given, "a machine type", &names);
            }
            given
        };
        let master_type = machine_type("masterType", file.master_type, published.master_type);
        let worker_type = machine_type("workerType", file.worker_type, published.worker_type);
        let parameter_server_type =
            machine_type("parameterServerType", file.parameter_server_type, published.parameter_server_type);
        Tier {
            master_type,
            worker_type,
            worker_count: file.worker_count.unwrap_or(published.worker_count),
            parameter_server_type,
            parameter_server_count: file.parameter_server_count.unwrap_or(published.parameter_server_count),
        }
    }

    fn accelerators(&mut self, kinds: BTreeMap<String, String>, machines: &mut MachineMap) {
        for (name, kind) in kinds {
            let field = format!("accelerators.{name}");
            if kind.is_empty() {
                self.report(&field, "is empty", format!("a kind such as v100, or {ANY}"));
            }
            match machines.accelerators.get_mut(&name) {
                Some(known) => *known = (kind != ANY).then_some(kind),
                None => {
                    let known: Vec<&str> = machines.accelerators.keys().map(String::as_str).collect();
                    self.unknown(&field, &name, "a published accelerator", &known);
                }
            }
        }
    }
}

fn limits(file: &LimitsFile) -> Limits {
    let LimitsFile { running_trials, queued_jobs } = file;
    Limits {
        running_cluster: running_trials.cluster,
        running_project: running_trials.project,
        running_principal: running_trials.principal,
        running_study: running_trials.study,
        queued_cluster: queued_jobs.cluster,
        queued_project: queued_jobs.project,
        queued_principal: queued_jobs.principal,
    }
}

/// Parses a memory size above 0, such as `1.5GiB`.
fn parse_memory(text: &str) -> Option<u64> {
    let (number, unit) = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?.trim_end(), bytes)))?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(*unit).filter(|bytes| *bytes > 0);
    }
    if !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let bytes = (number.parse::<f64>().ok()? * *unit as f64).round();
    // Maximum request: 1 EiB.
    (1.0..=1_152_921_504_606_846_976.0).contains(&bytes).then_some(bytes as u64)
}
