//! Worker pools of a `CustomJobSpec`.

use tunesmith_api::ai_platform::{AcceleratorConfig, AcceleratorType, Int64, ReplicaConfig, ScaleTier, variable_fault};
use tunesmith_domain::{ProgramPlan, Role, Variable};

use super::{NO_EFFECT, Reading};
use crate::messages::vertex::worker_pool_spec::Task;
use crate::messages::vertex::{
    AcceleratorType as Accelerator, ContainerSpec, CustomJobSpec, EnvVar, MachineSpec, PythonPackageSpec,
    WorkerPoolSpec,
};

/// Roles of the pools, by index.
const ROLES: [Role; 4] = [Role::Master, Role::Worker, Role::ParameterServer, Role::Evaluator];

/// Maximum number of environment variables, and of packages, of a pool.
const MAX_ENTRIES: usize = 100;

pub(super) struct Pools {
    /// Pools in use; the first one is that of the master.
    pub(super) pools: Vec<Pool>,
    /// Image of the engine for Python packages, if given.
    pub(super) executor_image: Option<String>,
}

pub(super) struct Pool {
    pub(super) role: Role,
    pub(super) program: ProgramPlan,
    pub(super) variables: Vec<Variable>,
}

impl Pools {
    /// Reads the pools of `spec`, and enters machines and programs into the training input; `None` after a violation.
    pub(super) fn read(reading: &mut Reading, spec: &CustomJobSpec) -> Option<Self> {
        let field = format!("{}.workerPoolSpecs", reading.field);
        let count = spec.worker_pool_specs.len();
        if count == 0 || count > ROLES.len() {
            let allowed = "1 to 4: the primary, workers, parameter or reduction servers, evaluators";
            reading.refuse(field, format!("{count} pools are given; allowed: {allowed}"));
            return None;
        }
        let has_types = spec.worker_pool_specs.iter().any(|pool| !machine_type(pool).is_empty());
        reading.input.scale_tier = has_types.then_some(ScaleTier::Custom);
        let mut pools = Vec::new();
        let mut executor_image = None;
        let mut is_valid = true;
        for (index, (pool, role)) in spec.worker_pool_specs.iter().zip(ROLES).enumerate() {
            let field = format!("{field}[{index}]");
            if index > 0 && *pool == WorkerPoolSpec::default() {
                continue;
            }
            let before = reading.violations.len();
            reading.machines(pool, role, &field);
            let read = reading.pool(pool, role, &field);
            is_valid &= reading.violations.len() == before;
            pools.extend(read);
            if let Some(Task::PythonPackageSpec(python)) = &pool.task
                && !python.executor_image_uri.is_empty()
            {
                executor_image.get_or_insert_with(|| python.executor_image_uri.clone());
            }
        }
        if !is_valid {
            return None;
        }
        reading.same_packages(&pools, &field).then_some(Self { pools, executor_image })
    }
}

fn machine_type(pool: &WorkerPoolSpec) -> &str {
    pool.machine_spec.as_ref().map_or("", |machine| &machine.machine_type)
}

impl Reading {
    /// Enters the machines of `pool`.
    fn machines(&mut self, pool: &WorkerPoolSpec, role: Role, field: &str) {
        let ignored = [
            ("diskSpec", pool.disk_spec.is_some()),
            ("nfsMounts", !pool.nfs_mounts.is_empty()),
            ("lustreMounts", !pool.lustre_mounts.is_empty()),
        ];
        for (name, _) in ignored.into_iter().filter(|(_, is_given)| *is_given) {
            self.notice(format!("{field}.{name}"), NO_EFFECT);
        }
        let mut config = ReplicaConfig::default();
        if let Some(machine) = &pool.machine_spec {
            config.accelerator_config = self.accelerators(machine, &format!("{field}.machineSpec"));
        }
        let count = pool.replica_count;
        match role {
            Role::Master if !(0..=1).contains(&count) => {
                let text = format!("{count} is not the number of primaries; allowed: 1");
                self.refuse(format!("{field}.replicaCount"), text);
            }
            Role::Worker | Role::ParameterServer | Role::Evaluator if count < 1 => {
                let text = format!("{count} is too small; allowed: whole numbers from 1 on, or {{}} as an unused pool");
                self.refuse(format!("{field}.replicaCount"), text);
            }
            _ => {}
        }
        match &pool.task {
            Some(Task::ContainerSpec(container)) => {
                config.image_uri.clone_from(&container.image_uri);
                config.container_command.clone_from(&container.command);
                config.container_args.clone_from(&container.args);
            }
            Some(Task::PythonPackageSpec(python)) if role == Role::Master => {
                self.input.package_uris.clone_from(&python.package_uris);
                self.input.python_module.clone_from(&python.python_module);
                self.input.args.clone_from(&python.args);
            }
            _ => {}
        }
        let config = Some(config).filter(|config| *config != ReplicaConfig::default());
        let (machine_type, count) = (machine_type(pool).to_owned(), Int64(count));
        let input = &mut self.input;
        match role {
            Role::Master => (input.master_type, input.master_config) = (machine_type, config),
            Role::Worker => {
                (input.worker_type, input.worker_config, input.worker_count) = (machine_type, config, count);
            }
            Role::ParameterServer => {
                (input.parameter_server_type, input.parameter_server_config) = (machine_type, config);
                input.parameter_server_count = count;
            }
            Role::Evaluator => {
                (input.evaluator_type, input.evaluator_config, input.evaluator_count) = (machine_type, config, count);
            }
        }
    }

    fn accelerators(&mut self, machine: &MachineSpec, field: &str) -> Option<AcceleratorConfig> {
        let ignored = [
            ("tpuTopology", !machine.tpu_topology.is_empty()),
            ("gpuPartitionSize", !machine.gpu_partition_size.is_empty()),
            ("multihostGpuNodeCount", machine.multihost_gpu_node_count != 0),
            ("minGpuDriverVersion", !machine.min_gpu_driver_version.is_empty()),
            ("reservationAffinity", machine.reservation_affinity.is_some()),
        ];
        for (name, _) in ignored.into_iter().filter(|(_, is_given)| *is_given) {
            self.notice(format!("{field}.{name}"), NO_EFFECT);
        }
        let Ok(accelerator) = Accelerator::try_from(machine.accelerator_type) else {
            let text = format!("{} is not known; allowed: 0 to 18", machine.accelerator_type);
            self.refuse(format!("{field}.acceleratorType"), text);
            return None;
        };
        if accelerator == Accelerator::Unspecified && machine.accelerator_count == 0 {
            return None;
        }
        Some(AcceleratorConfig {
            count: Int64(machine.accelerator_count.into()),
            accelerator_type: match accelerator {
                Accelerator::Unspecified => AcceleratorType::AcceleratorTypeUnspecified,
                Accelerator::NvidiaTeslaK80 => AcceleratorType::NvidiaTeslaK80,
                Accelerator::NvidiaTeslaP100 => AcceleratorType::NvidiaTeslaP100,
                Accelerator::NvidiaTeslaV100 => AcceleratorType::NvidiaTeslaV100,
                Accelerator::NvidiaTeslaP4 => AcceleratorType::NvidiaTeslaP4,
                Accelerator::NvidiaTeslaT4 => AcceleratorType::NvidiaTeslaT4,
                Accelerator::TpuV2 => AcceleratorType::TpuV2,
                Accelerator::TpuV3 => AcceleratorType::TpuV3,
                Accelerator::NvidiaTeslaA100 => AcceleratorType::NvidiaTeslaA100,
                Accelerator::NvidiaA10080gb => AcceleratorType::NvidiaA100Gb80,
                Accelerator::TpuV4Pod => AcceleratorType::TpuV4Pod,
                Accelerator::NvidiaL4 => AcceleratorType::NvidiaL4,
                Accelerator::TpuV5Litepod => AcceleratorType::TpuV5Litepod,
                Accelerator::NvidiaH10080gb => AcceleratorType::NvidiaH100Gb80,
                Accelerator::NvidiaH100Mega80gb => AcceleratorType::NvidiaH100MegaGb80,
                Accelerator::NvidiaH200141gb => AcceleratorType::NvidiaH200Gb141,
                Accelerator::NvidiaB200 => AcceleratorType::NvidiaB200,
                Accelerator::NvidiaGb200 => AcceleratorType::NvidiaGb200,
                Accelerator::NvidiaRtxPro6000 => AcceleratorType::NvidiaRtxPro6000,
            },
        })
    }

    fn pool(&mut self, pool: &WorkerPoolSpec, role: Role, field: &str) -> Option<Pool> {
        let (program, variables) = match &pool.task {
            None => {
                self.refuse(field, "needs containerSpec or pythonPackageSpec");
                return None;
            }
            Some(Task::ContainerSpec(container)) => {
                let field = format!("{field}.containerSpec");
                (self.container(container, &field)?, self.variables(&container.env, &field))
            }
            Some(Task::PythonPackageSpec(python)) => {
                let field = format!("{field}.pythonPackageSpec");
                (self.python(python, &field)?, self.variables(&python.env, &field))
            }
        };
        Some(Pool { role, program, variables })
    }

    fn container(&mut self, container: &ContainerSpec, field: &str) -> Option<ProgramPlan> {
        let ContainerSpec { image_uri, command, args, .. } = container;
        self.texts(command, &format!("{field}.command"));
        self.texts(args, &format!("{field}.args"));
        if !image_uri.is_empty() {
            let (image, command, args) = (image_uri.clone(), command.clone(), args.clone());
            return Some(ProgramPlan::Container { image, command, args });
        }
        if command.is_empty() {
            self.refuse(format!("{field}.imageUri"), "is required, unless a command is given");
            return None;
        }
        // A command without an image runs on the machine of the executor.
        Some(ProgramPlan::Command { argv: command.iter().chain(args).cloned().collect() })
    }

    fn python(&mut self, python: &PythonPackageSpec, field: &str) -> Option<ProgramPlan> {
        self.texts(&python.args, &format!("{field}.args"));
        if python.python_module.is_empty() {
            self.refuse(format!("{field}.pythonModule"), "is required");
        }
        let count = python.package_uris.len();
        if count == 0 || count > MAX_ENTRIES {
            let text = format!("{count} packages are given; allowed: 1 to {MAX_ENTRIES}");
            self.refuse(format!("{field}.packageUris"), text);
            return None;
        }
        Some(ProgramPlan::PythonModule {
            package_uris: python.package_uris.clone(),
            package_path: None,
            requirements: Vec::new(),
            module: python.python_module.clone(),
            args: python.args.clone(),
        })
    }

    /// Refuses texts that cannot be arguments of a program.
    fn texts(&mut self, texts: &[String], field: &str) {
        for (index, _) in texts.iter().enumerate().filter(|(_, text)| text.contains('\0')) {
            self.refuse(format!("{field}[{index}]"), "has a NUL character, which no argument may have");
        }
    }

    fn variables(&mut self, given: &[EnvVar], field: &str) -> Vec<Variable> {
        if given.len() > MAX_ENTRIES {
            let text = format!("{} variables are given; allowed: at most {MAX_ENTRIES}", given.len());
            self.refuse(format!("{field}.env"), text);
            return Vec::new();
        }
        let mut variables: Vec<Variable> = Vec::with_capacity(given.len());
        for (index, EnvVar { name, value }) in given.iter().enumerate() {
            let fault = match variable_fault(name) {
                Some((message, allowed)) => Some(format!("{message}; allowed: {allowed}")),
                None if variables.iter().any(|earlier| earlier.name == *name) => {
                    Some(format!("{name:?} is given twice"))
                }
                None => None,
            };
            if let Some(fault) = fault {
                self.refuse(format!("{field}.env[{index}].name"), fault);
            } else if value.contains('\0') {
                self.refuse(format!("{field}.env[{index}].value"), "has a NUL character, which no variable may have");
            } else {
                variables.push(Variable { name: name.clone(), value: value.clone() });
            }
        }
        variables
    }

    /// Whether all `pools` run from the packages of the first one, or none has packages.
    fn same_packages(&mut self, pools: &[Pool], field: &str) -> bool {
        let packages = |pool: &Pool| match &pool.program {
            ProgramPlan::PythonModule { package_uris, .. } => Some(package_uris.clone()),
            _ => None,
        };
        let Some((first, others)) = pools.split_first() else { return true };
        let of_first = packages(first);
        let Some(other) = others.iter().find(|pool| packages(pool) != of_first) else { return true };
        let index = ROLES.iter().position(|role| *role == other.role).unwrap_or_default();
        let text = "has other packages than workerPoolSpecs[0]; allowed: containers in all pools, or the same packages";
        self.refuse(format!("{field}[{index}]"), text);
        false
    }
}
