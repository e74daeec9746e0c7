//! Resolution of the machines requested by a training input.

use std::collections::BTreeMap;

use super::published::name_of;
use super::{Counted, KUBERNETES, MachineMap, MachinePlacement, MachineType};
use crate::ai_platform::violations::Violations;
use crate::ai_platform::{Int64, ReplicaConfig, ScaleTier, TrainingInput, Violation, nearest};
use tunesmith_domain::{Accelerators, MachineNotice, MachinePlan, Resources, Role};

/// Notice about a field without effect.
pub const NO_EFFECT: &str = "has no effect on this service";

/// Field of preemptible jobs.
const PREEMPTIBLE: &str = "tunesmith.preemptible";

/// Maximum names in a message.
const MAX_LISTED: usize = 12;

#[derive(Debug, Clone, PartialEq)]
pub struct Machines {
    /// Machine plan, including the master's resources.
    pub plan: MachinePlan,
    /// Other replicas: role, count (at least 0), resources of each.
    pub replicas: Vec<(Role, Int64, Resources)>,
}

/// Machine settings of one role.
struct Group<'a> {
    /// Field with the machine type.
    type_field: &'static str,
    machine_type: &'a str,
    config_field: &'static str,
    config: Option<&'a ReplicaConfig>,
}

struct Resolution<'a> {
    map: &'a MachineMap,
    /// Resources accounted for where the job runs.
    counted: Counted,
    place: MachinePlacement,
    notices: Vec<MachineNotice>,
    violations: Violations,
}

impl MachineMap {
    /// Resolves the machine names of `input`.
    ///
    /// # Errors
    /// A violation per field whose name is unknown or contradicts another.
    pub fn resolve(&self, input: &TrainingInput) -> Result<Machines, Vec<Violation>> {
        let tier = input.scale_tier.and_then(|tier| Some((tier, self.tiers.get(&tier)?)));
        let pick = |of_tier: fn(&super::Tier) -> &str, given: &'_ str| match tier {
            Some((_, tier)) => of_tier(tier).to_owned(),
            None => given.to_owned(),
        };
        let types = [
            pick(|tier| &tier.master_type, &input.master_type),
            pick(|tier| &tier.worker_type, &input.worker_type),
            pick(|tier| &tier.parameter_server_type, &input.parameter_server_type),
            pick(|_| "", &input.evaluator_type),
        ];
        let counts = match tier {
            Some((_, tier)) => [Int64(tier.worker_count.into()), Int64(tier.parameter_server_count.into()), Int64(0)],
            None => [input.worker_count, input.parameter_server_count, input.evaluator_count],
        };
        let fields = ["masterType", "workerType", "parameterServerType", "evaluatorType"];
        let type_field = |field: &'static str| if tier.is_some() { "scaleTier" } else { field };
        let configs = [
            ("masterConfig", &input.master_config),
            ("workerConfig", &input.worker_config),
            ("parameterServerConfig", &input.parameter_server_config),
            ("evaluatorConfig", &input.evaluator_config),
        ];
        let mut resolution = Resolution {
            map: self,
            counted: self.counted_on(self.executor_of(input, &types)),
            place: MachinePlacement::default(),
            notices: Vec::new(),
            violations: Violations::default(),
        };
        let mut resources = Vec::new();
        for ((field, machine_type), (config_field, config)) in fields.into_iter().zip(&types).zip(configs) {
            let group = Group { type_field: type_field(field), machine_type, config_field, config: config.as_ref() };
            resources.push(resolution.resources(&group));
        }
        if input.scale_tier == Some(ScaleTier::Custom) && resolution.counted == Counted::default() {
            resolution.notice("scaleTier", NO_EFFECT);
        }
        if let Some((name, tier)) = tier {
            resolution.tier_notice(name, tier, &resources);
            resolution.overridden_types(name, input);
        }
        resolution.region(&input.region);
        if input.tunesmith.preemptible {
            match &self.preemptible {
                Some(place) => resolution.enter(PREEMPTIBLE, place.clone()),
                None => resolution.notice(PREEMPTIBLE, NO_EFFECT),
            }
        }
        let python = resolution.runtime(&input.runtime_version);
        let Resolution { place, notices, violations, .. } = resolution;
        let violations = violations.into_vec();
        if !violations.is_empty() {
            return Err(violations);
        }
        let mut resources = resources.into_iter();
        let plan = MachinePlan {
            resources: resources.next().unwrap_or_default(),
            executor: place.executor,
            queue: place.queue,
            options: place.options,
            python,
            notices,
        };
        let roles = [Role::Worker, Role::ParameterServer, Role::Evaluator];
        let replicas = roles.into_iter().zip(counts).zip(resources);
        Ok(Machines { plan, replicas: replicas.map(|((role, count), each)| (role, count, each)).collect() })
    }

    /// Executor named by the region, a machine type in `types` or the place of preemptible jobs; otherwise the server's default.
    fn executor_of(&self, input: &TrainingInput, types: &[String]) -> &str {
        let region = self.regions.get(&input.region);
        let types = types.iter().filter_map(|name| Some(&self.machine_types.get(name)?.place));
        let preemptible = self.preemptible.iter().filter(|_| input.tunesmith.preemptible);
        let mut names =
            region.into_iter().chain(types).chain(preemptible).filter_map(|place| place.executor.as_deref());
        names.next().unwrap_or(&self.executor)
    }
}

impl Resolution<'_> {
    fn notice(&mut self, field: impl Into<String>, description: impl Into<String>) {
        self.notices.push(MachineNotice { field: field.into(), description: description.into() });
    }

    /// Resources of one replica of `group`.
    fn resources(&mut self, group: &Group<'_>) -> Resources {
        let machine = self.machine_type(group);
        let mut accelerators = machine.as_ref().and_then(|machine| machine.accelerators.clone());
        let given = group.config.and_then(|config| config.accelerator_config.as_ref());
        let is_replaced = given.is_some();
        if let Some(given) = given {
            let field = format!("{}.acceleratorConfig", group.config_field);
            accelerators = match (name_of(given.accelerator_type), u32::try_from(given.count.0)) {
                (Some(name), Ok(count)) if count > 0 => Some((name.to_owned(), count)),
                _ if !self.map.is_strict => None,
                (None, Ok(0)) => None,
                (None, _) => {
                    self.violations.error(format!("{field}.type"), "is missing", "the type of an accelerator");
                    None
                }
                (Some(_), _) => {
                    let message = format!("{} is out of range", given.count.0);
                    self.violations.error(format!("{field}.count"), message, "a whole number from 1 to 4294967295");
                    None
                }
            };
            if !self.counted.accelerators || accelerators.is_none() {
                self.notice(field, NO_EFFECT);
            }
        }
        let machine = machine.unwrap_or_default();
        let resources = Resources {
            milli_cpus: machine.milli_cpus,
            memory_bytes: machine.memory_bytes,
            accelerators: accelerators.map(|(name, count)| Accelerators { kind: self.kind(name), count }),
        };
        let has_type = !group.machine_type.is_empty() && self.map.machine_types.contains_key(group.machine_type);
        if has_type && group.type_field != "scaleTier" {
            let of_type = Resources {
                accelerators: resources.accelerators.clone().filter(|_| !is_replaced),
                ..resources.clone()
            };
            if let Some(description) = self.uncounted(&of_type) {
                self.notice(group.type_field, description);
            }
        }
        resources
    }

    /// Accelerator kind for `name`: the map's for a published name, or else the name itself.
    fn kind(&self, name: String) -> Option<String> {
        self.map.accelerators.get(&name).cloned().unwrap_or(Some(name))
    }

    fn machine_type(&mut self, group: &Group<'_>) -> Option<MachineType> {
        if group.machine_type.is_empty() {
            return None;
        }
        if let Some(machine) = self.map.machine_types.get(group.machine_type) {
            self.enter(group.type_field, machine.place.clone());
            return Some(machine.clone());
        }
        if self.map.is_strict {
            self.unknown(group.type_field, group.machine_type, "a machine type", &self.map.machine_types);
        } else {
            self.notice(group.type_field, NO_EFFECT);
        }
        None
    }

    /// Reports a name unknown to the map.
    fn unknown<T>(&mut self, field: &str, name: &str, what: &str, known: &BTreeMap<String, T>) {
        let near = nearest(name, known.keys().map(String::as_str));
        let near = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        let listed: Vec<&str> = known.keys().take(MAX_LISTED).map(String::as_str).collect();
        let more = known.len().saturating_sub(MAX_LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!("{name:?} is not {what} of this server{near}");
        self.violations.error(field, message, format!("one of {}{more}", listed.join(", ")));
    }

    /// Merges `place`. All machines of a job share one placement.
    fn enter(&mut self, field: &str, place: MachinePlacement) {
        let mut conflicts = Vec::new();
        let mut merge = |name: &str, mine: &mut Option<String>, other: Option<String>| match (&mine, other) {
            (Some(mine), Some(other)) if *mine != other => {
                conflicts.push(format!("names the {name} {other:?}, and another field {mine:?}"));
            }
            (None, Some(other)) => *mine = Some(other),
            _ => {}
        };
        merge("executor", &mut self.place.executor, place.executor);
        merge("queue", &mut self.place.queue, place.queue);
        for (name, value) in place.options {
            let mut mine = self.place.options.remove(&name);
            merge(&format!("{name} option"), &mut mine, Some(value));
            self.place.options.extend(mine.map(|mine| (name, mine)));
        }
        for conflict in conflicts {
            self.violations.error(field, conflict, "machines of one place for a job");
        }
    }

    /// Description of the resources that are not accounted for; `None` if all are.
    fn uncounted(&self, resources: &Resources) -> Option<String> {
        let counted = self.counted;
        let parts = [
            ("cpus", resources.milli_cpus.is_some(), counted.cpus),
            ("memory", resources.memory_bytes.is_some(), counted.memory),
            ("accelerators", resources.accelerators.is_some(), counted.accelerators),
        ];
        let requested: Vec<_> = parts.into_iter().filter(|(_, is_requested, _)| *is_requested).collect();
        let ignored: Vec<&str> =
            requested.iter().filter(|(.., is_counted)| !is_counted).map(|(name, ..)| *name).collect();
        match (ignored.len(), requested.len()) {
            (0, 1..) => None,
            (ignored, requested) if ignored == requested => Some(NO_EFFECT.to_owned()),
            _ => Some(format!("has no effect on {}, which this server does not count", ignored.join(" and "))),
        }
    }

    /// Notice about a scale tier whose effect differs from what is expected.
    fn tier_notice(&mut self, name: ScaleTier, tier: &super::Tier, resources: &[Resources]) {
        let mut all = Resources::default();
        for each in resources {
            all.milli_cpus = all.milli_cpus.or(each.milli_cpus);
            all.memory_bytes = all.memory_bytes.or(each.memory_bytes);
            all.accelerators = all.accelerators.or_else(|| each.accelerators.clone());
        }
        let uncounted = self.uncounted(&all);
        let replicas = [(tier.worker_count, "worker"), (tier.parameter_server_count, "parameter server")];
        let replicas: Vec<String> = replicas
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, noun)| format!("{count} {noun}{}", if count == 1 { "" } else { "s" }))
            .collect();
        if replicas.is_empty() {
            if let Some(description) = uncounted {
                self.notice("scaleTier", description);
            }
            return;
        }
        let machines = uncounted.map(|description| format!("; its machine types: {description}")).unwrap_or_default();
        self.notice(
            "scaleTier",
            format!("{} starts {} beside the master{machines}", name.as_str(), replicas.join(" and ")),
        );
    }

    /// Notices about machine types overridden by a predefined scale tier.
    fn overridden_types(&mut self, tier: ScaleTier, input: &TrainingInput) {
        let types = [
            ("masterType", &input.master_type),
            ("workerType", &input.worker_type),
            ("parameterServerType", &input.parameter_server_type),
            ("evaluatorType", &input.evaluator_type),
        ];
        for (field, given) in types {
            if !given.is_empty() {
                self.notice(field, format!("has no effect: scaleTier {} has its own machines", tier.as_str()));
            }
        }
    }

    fn region(&mut self, region: &str) {
        if region.is_empty() {
            return;
        }
        if self.map.regions.is_empty() {
            return self.notice("region", NO_EFFECT);
        }
        match self.map.regions.get(region) {
            Some(place) => self.enter("region", place.clone()),
            None => self.unknown("region", region, "a region", &self.map.regions),
        }
    }

    /// Python interpreter of the runtime `version`.
    fn runtime(&mut self, version: &str) -> Option<std::path::PathBuf> {
        if version.is_empty() {
            return None;
        }
        if self.map.runtimes.is_empty() {
            self.notice("runtimeVersion", NO_EFFECT);
            return None;
        }
        let Some(runtime) = self.map.runtimes.get(version) else {
            self.unknown("runtimeVersion", version, "a runtime version", &self.map.runtimes);
            return None;
        };
        let executor = self.place.executor.as_deref().unwrap_or(&self.map.executor);
        if self.map.kind_of(executor) == KUBERNETES {
            let options = runtime.image.iter().map(|image| ("image".to_owned(), image.clone())).collect();
            self.enter("runtimeVersion", MachinePlacement { options, ..MachinePlacement::default() });
        } else if runtime.image.is_some() && runtime.python.is_none() {
            self.notice("runtimeVersion", format!("has no effect on the executor {executor}, which runs no images"));
        }
        runtime.python.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolve(map: &MachineMap, input: serde_json::Value) -> Result<Machines, Vec<Violation>> {
        map.resolve(&serde_json::from_value(input).unwrap())
    }

    fn strict() -> MachineMap {
        let counted = Counted { cpus: true, memory: false, accelerators: true };
        MachineMap { counted, is_strict: true, ..MachineMap::published() }
    }

    fn texts(machines: &Machines) -> Vec<String> {
        let notices = machines.plan.notices.iter();
        notices.map(|notice| format!("{}: {}", notice.field, notice.description)).collect()
    }

    #[test]
    fn predefined_tiers_have_their_published_machines() {
        let machines = resolve(&strict(), json!({"scaleTier": "STANDARD_1"})).unwrap();
        let counts: Vec<(Role, i64)> = machines.replicas.iter().map(|(role, count, _)| (*role, count.0)).collect();
        assert_eq!(counts, [(Role::Worker, 4), (Role::ParameterServer, 3), (Role::Evaluator, 0)]);
        assert_eq!(machines.plan.resources.milli_cpus, Some(8000));
        assert_eq!(machines.replicas[1].2.to_string(), "4 cpus, 15 GiB of memory");
        assert_eq!(
            texts(&machines),
            [
                "scaleTier: STANDARD_1 starts 4 workers and 3 parameter servers beside the master; its machine types: has \
              no effect on memory, which this server does not count"
            ]
        );
        let machines = resolve(&strict(), json!({"scaleTier": "PREMIUM_1"})).unwrap();
        let counts: Vec<i64> = machines.replicas.iter().map(|(_, count, _)| count.0).collect();
        assert_eq!(counts, [19, 11, 0]);
        let gpu = resolve(&strict(), json!({"scaleTier": "BASIC_GPU"})).unwrap();
        assert_eq!(gpu.plan.resources.to_string(), "8 cpus, 30 GiB of memory, 1 GPU of type k80");
    }

    #[test]
    fn unknown_names_are_refused_by_a_configured_server_and_named_by_others() {
        let input = json!({"scaleTier": "CUSTOM", "masterType": "n1-standrd-4", "region": "r", "workerCount": 2,
            "workerType": "n1-highmem-2", "masterConfig": {"acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": 2}}});
        let machines = resolve(&MachineMap::published(), input.clone()).unwrap();
        let no_effect = ["masterType", "masterConfig.acceleratorConfig", "workerType", "scaleTier", "region"];
        assert_eq!(texts(&machines), no_effect.map(|field| format!("{field}: {NO_EFFECT}")));

        let mut map = strict();
        map.regions.insert("europe".to_owned(), MachinePlacement::default());
        let violations = resolve(&map, input).unwrap_err();
        let texts: Vec<String> = violations.iter().map(|one| format!("{}: {}", one.field, one.message)).collect();
        assert_eq!(
            texts,
            [
                "masterType: \"n1-standrd-4\" is not a machine type of this server; did you mean \"n1-standard-4\"?",
                "region: \"r\" is not a region of this server",
            ]
        );
        assert_eq!(violations[1].allowed, "one of europe");
    }

    #[test]
    fn accelerators_are_those_of_the_configuration_and_kinds_are_mapped() {
        let mut map = strict();
        map.accelerators.insert("NVIDIA_TESLA_K80".to_owned(), None);
        let config = |count| json!({"acceleratorConfig": {"type": "NVIDIA_TESLA_V100", "count": count}});
        let input = json!({"masterType": "standard_gpu", "workerType": "standard_gpu", "workerCount": 1,
            "masterConfig": config(2)});
        let machines = resolve(&map, input).unwrap();
        let (master, worker) = (&machines.plan.resources.accelerators, &machines.replicas[0].2.accelerators);
        assert_eq!(*master, Some(Accelerators { kind: Some("v100".to_owned()), count: 2 }));
        assert_eq!(*worker, Some(Accelerators { kind: None, count: 1 }));
        let refused = resolve(&map, json!({"masterConfig": config(-1)})).unwrap_err();
        assert_eq!(refused[0].field, "masterConfig.acceleratorConfig.count");
    }

    #[test]
    fn places_of_one_job_cannot_contradict_each_other() {
        let mut map = strict();
        let place = |queue: &str| MachinePlacement { queue: Some(queue.to_owned()), ..MachinePlacement::default() };
        map.machine_types.insert("big".to_owned(), MachineType { place: place("gpu"), ..MachineType::default() });
        map.regions.insert("here".to_owned(), place("gpu"));
        map.regions.insert("there".to_owned(), place("cpu"));
        let machines = resolve(&map, json!({"masterType": "big", "region": "here"})).unwrap();
        assert_eq!(machines.plan.queue.as_deref(), Some("gpu"));
        map.runtimes.insert("2.4".to_owned(), super::super::Runtime { image: Some("tf".to_owned()), python: None });
        let other = MachinePlacement { executor: Some("slurm".to_owned()), ..MachinePlacement::default() };
        map.regions.insert("other".to_owned(), other);
        let image = MachinePlacement { executor: Some("kubernetes".to_owned()), ..MachinePlacement::default() };
        map.regions.insert("pods".to_owned(), image);
        assert_eq!(map.other_executors().into_iter().collect::<Vec<_>>(), ["kubernetes", "slurm"]);
        let here = resolve(&map, json!({"masterType": "n1-standard-4"})).unwrap();
        assert_eq!(texts(&here), ["masterType: has no effect on memory, which this server does not count"]);
        let pods = resolve(&map, json!({"masterType": "n1-standard-4", "region": "pods", "runtimeVersion": "2.4"}));
        let pods = pods.unwrap();
        assert_eq!((pods.plan.executor.as_deref(), &*pods.plan.options["image"]), (Some("kubernetes"), "tf"));
        assert_eq!(texts(&pods), Vec::<String>::new(), "its scheduler counts all resources");
        let slurm = resolve(&map, json!({"region": "other", "runtimeVersion": "2.4"})).unwrap();
        assert!(slurm.plan.options.is_empty());
        assert_eq!(texts(&slurm), ["runtimeVersion: has no effect on the executor slurm, which runs no images"]);
        map.machine_types.get_mut("big").unwrap().place.executor = Some("local".to_owned());
        let refused = resolve(&map, json!({"masterType": "big", "region": "other"})).unwrap_err();
        assert_eq!(refused[0].field, "region");
        assert_eq!(refused[0].message, "names the executor \"slurm\", and another field \"local\"");
        map.machine_types.get_mut("big").unwrap().place.executor = None;
        let refused = resolve(&map, json!({"masterType": "big", "region": "there"})).unwrap_err();
        assert_eq!(refused[0].message, "names the queue \"cpu\", and another field \"gpu\"");
    }
}
