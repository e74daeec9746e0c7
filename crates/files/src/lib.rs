#![doc = include_str!("../README.md")]

mod place;
mod umask;
mod user;

pub use place::{Entry, OpenError, Place};
pub use umask::{create_folder_for_user, create_for_user, umask_of_user, use_private_umask};
pub use user::FileUser;
