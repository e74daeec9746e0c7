#![doc = include_str!("../README.md")]

mod administration;
mod admission;
mod call;
mod completion;
mod control;
pub mod long_work;
mod policy;
mod steps;
pub mod tools;
pub mod use_cases;

pub use administration::{ApplyTokenChange, AuditedCalls, Credentials, TokenUse, refused_change, tokens_in};
pub use admission::{Admission, Outcome};
pub use call::{Call, CalledAs, Client, IdempotencyKey, SessionSecrets};
pub use control::{Access, AccessControl, Owner, PolicyOf, ServiceAccess};
pub use policy::{PolicyResource, allows, bindings};
pub use use_cases::{RequiredAccess, Resource, UseCase};
