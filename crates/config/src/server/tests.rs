use super::*;

fn parse(text: &str) -> Result<ServerConfig, ConfigErrors> {
    parse_server("server.yaml", text, KnownExecutor::default())
}

/// Errors in `text`: line, field, message, allowed values.
fn errors(text: &str) -> Vec<(usize, String, String, String)> {
    let errors = parse(text).unwrap_err();
    let texts = errors.diagnostics().iter();
    texts.map(|one| (one.line, one.field.clone(), one.message.clone(), one.allowed.clone())).collect()
}

#[test]
fn entries_are_merged_with_the_published_ones() {
    let config = parse(
        "resources:\n  cpus: 7.5\n  memory: 1.5GiB\n  devices: [{id: '0', type: v100}, {id: 1}]\nmachineTypes:\n  \
         n1-standard-4: {cpus: 2}\n  small: {memory: 512MiB}\nscaleTiers:\n  STANDARD_1: {workerCount: 1, workerType: \
         small}\naccelerators: {NVIDIA_TESLA_K80: any}\nruntimeVersions: {2.11: {python: /opt/python3}}\nlimits: \
         {runningTrials: {project: 3}, queuedJobs: {principal: 2}}\nqueueDeadline: 60s\n",
    )
    .unwrap();
    let devices = vec![("0".to_owned(), Some("v100".to_owned())), ("1".to_owned(), None)];
    assert_eq!(
        config.capacity,
        Capacity { milli_cpus: Some(7500), memory_bytes: Some(3 << 29), devices: Some(Devices::Listed(devices)) }
    );
    let standard = &config.machines.machine_types["n1-standard-4"];
    assert_eq!((standard.milli_cpus, standard.memory_bytes), (Some(2000), Some(15 << 30)));
    let tier = &config.machines.tiers[&tunesmith_api::ai_platform::ScaleTier::Standard1];
    assert_eq!((tier.worker_type.as_str(), tier.worker_count, tier.parameter_server_count), ("small", 1, 3));
    assert_eq!(config.machines.accelerators["NVIDIA_TESLA_K80"], None);
    assert_eq!(config.machines.runtimes["2.11"].python.as_deref(), Some(Path::new("/opt/python3")));
    assert_eq!((config.limits.running_project, config.limits.queued_principal), (Some(3), Some(2)));
    assert_eq!(config.queue_deadline, Some(Duration::from_secs(60)));
    assert!(config.machines.is_strict);
}

#[test]
fn buckets_have_folders() {
    let machines = parse("buckets: {training-data: /mnt/data/}").unwrap().machines;
    assert_eq!(machines.buckets["training-data"], Path::new("/mnt/data"));
    let found = errors("buckets:\n  ab: /x\n  UPPER: /x\n  none: data\n  above: /x/../y\n  root: /\n  comma: '/a,b'\n");
    let shown: Vec<(usize, &str)> = found.iter().map(|(line, _, message, _)| (*line, message.as_str())).collect();
    let expected = [
        (2, "\"ab\" is not a name of a bucket"),
        (3, "\"UPPER\" is not a name of a bucket"),
        (4, "\"data\" is not the path of a folder"),
        (5, "\"/x/../y\" is not the path of a folder"),
        (6, "\"/\" is not the path of a folder"),
        (7, "\"/a,b\" is not the path of a folder"),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn every_error_names_its_place_and_the_allowed_values() {
    let found = errors(
        "resources:\n  cpus: -2\n  memory: lots\n  devices: [{id: '0'}, {id: '0'}]\nmachineTypes:\n  big: {cpus: 0}\n  \
         big: {cpus: 1}\nscaleTiers:\n  STANDARD_2: {}\n  BASIC: {masterType: n1-standrd-4}\nmachinetypes: {}\n",
    );
    let shown: Vec<(usize, &str, &str)> =
        found.iter().map(|(line, field, message, _)| (*line, field.as_str(), message.as_str())).collect();
    assert_eq!(
        shown,
        [
            (2, "resources.cpus", "-2 is negative"),
            (3, "resources.memory", "\"lots\" is not a size above 0"),
            (4, "resources.devices[1].id", "\"0\" is listed twice"),
            (7, "", "the key `big` comes twice in one mapping"),
            (9, "scaleTiers.STANDARD_2", "\"STANDARD_2\" is not a predefined scale tier"),
            (10, "scaleTiers.BASIC.masterType", "\"n1-standrd-4\" is not a machine type"),
            (11, "machinetypes", "unknown field"),
        ]
    );
    assert_eq!(found[0].3, CPUS_TEXT);
    assert_eq!(found[4].3, "one of BASIC, STANDARD_1, PREMIUM_1, BASIC_GPU, BASIC_TPU");
    assert!(found[5].3.contains("n1-standard-4, "), "{}", found[5].3);
    assert!(
        found[6]
            .3
            .starts_with("one of accelerators, allowedFolders, audit, buckets, executor, executors, kubernetes, "),
        "{}",
        found[6].3
    );
}

const CPUS_TEXT: &str = "a number of processors from 0.001 to 1000000";

#[test]
fn what_has_no_effect_with_the_executor_of_this_machine_is_refused() {
    let found = errors(
        "regions:\n  a: {executor: slurm}\n  b: {queue: gpu, options: {account: ml}}\nruntimeVersions:\n  '2.11': \
         {image: i, python: python3}\nlimits: {runningTrials: {cluster: 0}}\nqueueDeadline: 0s\n",
    );
    let shown: Vec<(usize, &str)> = found.iter().map(|(line, field, ..)| (*line, field.as_str())).collect();
    assert_eq!(
        shown,
        [
            (3, "regions.b.queue"),
            (3, "regions.b.options"),
            (5, "runtimeVersions.2.11.image"),
            (5, "runtimeVersions.2.11.python"),
            (6, "limits.runningTrials.cluster"),
            (7, "queueDeadline"),
        ]
    );
    assert_eq!((&*found[0].2, &*found[0].3), ("has no effect with the executor local", "only with another executor"));
}

#[test]
fn workers_of_models_run_here_or_on_kubernetes() {
    let text = |name: &str| {
        format!(
            "executors: {{pods: {{kind: kubernetes}}, lab: {{kind: slurm}}, here: {{kind: local}}}}\nprediction: {{executor: {name}}}\n"
        )
    };
    for name in ["local", "kubernetes", "pods"] {
        assert_eq!(parse(&text(name)).unwrap().executor.prediction.as_deref(), Some(name));
    }
    assert_eq!(parse("{}").unwrap().executor.prediction, None);
    for name in ["slurm", "lab", "here", "pod"] {
        let found = errors(&text(name));
        assert_eq!((found.len(), found[0].0, found[0].1.as_str()), (1, 2, "prediction.executor"), "{found:?}");
        assert_eq!(found[0].3, "one of local, kubernetes, pods");
    }
    // They may be the only ones that run images.
    parse(&format!("{}runtimeVersions: {{'2': {{image: i}}}}\n", text("pods"))).unwrap();
    parse("prediction: {executor: kubernetes}\nruntimeVersions: {'2': {image: i}}\n").unwrap();
}

#[test]
fn regions_and_machine_types_name_further_executors() {
    let text = "resources: {cpus: 4}\nmachineTypes: {big: {executor: slurm, queue: gpu, cpus: 64}}\nregions:\n  a: \
                {executor: kubernetes, queue: tuning}\n  b: {executor: local}\n  c: {}\nruntimeVersions: {'2': {image: i}}\n";
    let machines = parse(text).unwrap().machines;
    assert_eq!(machines.executor, "local");
    assert_eq!(machines.other_executors().into_iter().collect::<Vec<_>>(), ["kubernetes", "slurm"]);
    assert!(machines.counted.cpus && !machines.counted.memory && machines.counted == machines.counted_here);
    let slurm = parse(&format!("executor: slurm\n{text}")).unwrap().machines;
    assert_eq!(slurm.other_executors().into_iter().collect::<Vec<_>>(), ["kubernetes", "local"]);
    assert!(slurm.counted.memory && !slurm.counted_here.memory);
    // A queue without an executor belongs to the server's executor.
    let queue = parse("executor: slurm\nregions: {a: {queue: gpu}, b: {executor: local}}").unwrap().machines;
    assert_eq!(queue.regions["a"].executor.as_deref(), Some("slurm"));
    assert_eq!(queue.regions["b"].executor.as_deref(), Some("local"));
    let found = errors("executor: slurm\nregions: {a: {executor: local, queue: gpu}, b: {executor: nomad}}\n");
    assert_eq!(found[0].1, "regions.a.queue");
    assert_eq!(found[1].2, "\"nomad\" is not an executor");
    assert_eq!(found[1].3, "one of local, agent, slurm, ray, kubernetes");
}

#[test]
fn executor_is_that_of_the_flag_or_of_the_file_or_of_the_data_folder() {
    let text = "regions: {a: {executor: slurm, queue: gpu}}";
    let slurm = Some("slurm");
    assert!(parse_server("s", text, KnownExecutor { wanted: slurm, kept: None }).is_ok());
    assert!(parse_server("s", text, KnownExecutor { wanted: None, kept: slurm }).is_ok());
    assert!(parse(&format!("executor: slurm\n{text}")).is_ok());
    assert!(parse_server("s", &format!("executor: ray\n{text}"), KnownExecutor { wanted: slurm, kept: None }).is_ok());
    let other = parse_server("s", &format!("executor: ray\n{text}"), KnownExecutor { wanted: None, kept: slurm });
    assert_eq!(other.unwrap().machines.executor, "ray");
    let found = errors("executor: slrum\nregions: {a: {executor: nomad}}\n");
    assert_eq!(found[0].3, "one of local, agent, slurm, ray, kubernetes");
    assert_eq!(found[0].1, "executor");
}

#[test]
fn settings_of_executors_are_read() {
    let config = parse(
        "executor: kubernetes\nslurm: {partition: gpu, options: [--mem=1G], submitRate: 3, lease: 90s}\nray: {address: \
         'http://h:1'}\nkubernetes: {agentImage: t, nodeSelector: {pool: a}, volumes: {models: /models}}\n",
    )
    .unwrap();
    let ExecutorConfig { name, slurm, ray, kubernetes, .. } = config.executor;
    assert_eq!(name.as_deref(), Some("kubernetes"));
    assert_eq!(
        (slurm.partition.as_deref(), &slurm.options[..]),
        (Some("gpu"), &[Words::from("--mem=1G".to_owned())][..])
    );
    assert_eq!((slurm.submit_rate, slurm.lease), (Some(3), Some(std::time::Duration::from_secs(90))));
    assert_eq!(ray.address.as_deref(), Some("http://h:1"));
    assert_eq!(kubernetes.agent_image.as_deref(), Some("t"));
    assert_eq!((&*kubernetes.node_selector["pool"], &*kubernetes.volumes["models"]), ("a", "/models"));
    let found = errors("slurm: {partitions: gpu, submitRate: 0}\nkubernetes: {nodeSelector: [a]}\n");
    let fields: Vec<&str> = found.iter().map(|(_, field, ..)| field.as_str()).collect();
    assert_eq!(fields, ["slurm.partitions", "slurm.submitRate", "kubernetes.nodeSelector"]);
}

#[test]
fn executors_have_names_of_their_own() {
    let text = "executor: gpu-a\nexecutors:\n  gpu-a: {kind: slurm, slurm: {partition: a, configFile: /etc/a/slurm.conf}, \
                maxRunningTrials: 8}\n  gpu-b: {kind: slurm, slurm: {partition: b}}\n  pods: {kind: kubernetes, kubernetes: \
                {context: eu}}\n  cpu: {kind: local}\n  ray: {kind: ray, ray: {address: 'http://h:1', tokenVariable: T}, \
                maxRunningTrials: 2}\nmachineTypes: {big: {executor: gpu-b, queue: q}}\nregions: {here: {executor: cpu}, far: \
                {executor: pods}, other: {executor: ray}}\nruntimeVersions: {'2': {image: i}}\nresources: {cpus: 4}\n";
    let config = parse(text).unwrap();
    let ExecutorConfig { name, ray, named, max_running_trials, .. } = config.executor;
    assert_eq!(name.as_deref(), Some("gpu-a"));
    let kinds: Vec<(&str, &str)> = named.iter().map(|(name, named)| (name.as_str(), named.kind.as_str())).collect();
    assert_eq!(kinds, [("cpu", "local"), ("gpu-a", "slurm"), ("gpu-b", "slurm"), ("pods", "kubernetes")]);
    assert_eq!(named["gpu-a"].slurm.config_file.as_deref(), Some("/etc/a/slurm.conf"));
    assert_eq!(named["pods"].kubernetes.context.as_deref(), Some("eu"));
    assert_eq!((ray.address.as_deref(), ray.token_variable.as_deref()), (Some("http://h:1"), Some("T")));
    let limits: Vec<(&str, u32)> = max_running_trials.iter().map(|(name, most)| (name.as_str(), most.get())).collect();
    assert_eq!(limits, [("gpu-a", 8), ("ray", 2)]);
    let machines = config.machines;
    assert_eq!((machines.executor.as_str(), machines.kind_of("gpu-b")), ("gpu-a", "slurm"));
    assert_eq!(machines.other_executors().into_iter().collect::<Vec<_>>(), ["cpu", "gpu-b", "pods", "ray"]);
    assert!(machines.counted.memory && machines.counted_here.cpus && !machines.counted_here.memory);
}

#[test]
fn executors_with_names_are_checked() {
    let found = errors(
        "slurm: {partition: a}\nexecutors:\n  a: {kind: nomad}\n  Big: {kind: local}\n  b: {kind: slurm, ray: {address: x}, \
         maxRunningTrials: 0}\n  ray: {kind: slurm}\n  slurm: {kind: slurm, slurm: {partition: b}}\n  c: {}\n  b: {kind: \
         local}\nregions: {x: {executor: bb}, y: {executor: b, queue: q}}\n",
    );
    let shown: Vec<String> =
        found.iter().map(|(line, field, what, allowed)| format!("{line} {field}: {what}; {allowed}")).collect();
    let expected = [
        "3 executors.a.kind: \"nomad\" is not a kind of executor; one of local, agent, slurm, ray, kubernetes",
        "4 executors.Big: \"Big\" is not a name; at most 40 lower case letters, digits and hyphens, the first one a letter",
        "5 executors.b.ray: has no effect on an executor of the kind slurm; only with the kind ray",
        "5 executors.b.maxRunningTrials: 0 is out of range; a whole number from 1 to 4294967295",
        "6 executors.ray.kind: is slurm, and the name of the executor is that of another kind; ray, or another name for the \
         executor",
        "7 executors.slurm.slurm: is given together with slurm at the top of the file; one of the two",
        "8 executors.c.kind: is missing; kind: text",
        "9 : the key `b` comes twice in one mapping; each key once",
        "10 regions.x.executor: \"bb\" is not an executor; one of b, local, agent, slurm, ray, kubernetes",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn pod_templates_keep_the_types_of_their_fields() {
    let config = parse(
        "executor: kubernetes\nkubernetes:\n  agentImage: tunesmith:1\n  podTemplate:\n    metadata:\n      annotations: {safe: \
         \"false\", plain: text}\n    spec:\n      securityContext: {runAsNonRoot: true, runAsUser: 1000}\n      \
         priority: -1\n      overhead: {cpu: 0.5, memory: 1e9, storage: 10Gi}\n      volumes:\n      - {name: keys, \
         secret: {secretName: keys, defaultMode: 0440, optional: False}}\n      hostname: ~\n      subdomain: yes\n      \
         nodeName: '7'\n  podTemplates:\n    gpu: {spec: {runtimeClassName: nvidia}}\n",
    )
    .unwrap();
    let kubernetes = config.executor.kubernetes;
    let expected = serde_json::json!({
        "metadata": {"annotations": {"safe": "false", "plain": "text"}},
        "spec": {
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000},
            "priority": -1,
            "overhead": {"cpu": 0.5, "memory": 1e9, "storage": "10Gi"},
            "volumes": [{"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o440, "optional": false}}],
            "hostname": null,
            "subdomain": "yes",
            "nodeName": "7",
        },
    });
    assert_eq!(serde_json::Value::Object(kubernetes.pod_template.unwrap()), expected);
    let named = serde_json::Value::Object(kubernetes.pod_templates["gpu"].clone());
    assert_eq!(named, serde_json::json!({"spec": {"runtimeClassName": "nvidia"}}));
    let wrong = errors("kubernetes: {podTemplate: text}\n");
    let allowed = "names and values, as `name: value`".to_owned();
    let message = "`text` is not a mapping".to_owned();
    assert_eq!(wrong, [(1, "kubernetes.podTemplate".to_owned(), message, allowed)]);
}
