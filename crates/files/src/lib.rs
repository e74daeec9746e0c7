#![doc = include_str!("../README.md")]

mod rooted_path;
mod umask;
mod user;

pub use rooted_path::{Entry, OpenError, RootedPath};
pub use umask::{create_folder_for_user, create_for_user, umask_of_user, use_private_umask};
pub use user::FileUser;
