//! Jobs on executors: local programs, containers, agents, Slurm, Ray, Kubernetes.
#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

mod agent_contract;
mod agent_network;
mod agents;
mod allowed_folders;
mod artifacts;
mod attempt_files;
mod containers;
mod executor;
mod hostile_programs;
mod isolation;
mod kubernetes;
mod misbehaving_trainers;
mod mounted_folders;
mod network;
mod object_stores;
mod pipes;
mod placement;
mod planned_stop;
mod prediction_buckets;
mod prediction_containers;
mod prediction_users;
mod program_files;
mod ray;
mod shared_folder;
mod slurm;
mod supervisors;
mod unrunnable_jobs;
