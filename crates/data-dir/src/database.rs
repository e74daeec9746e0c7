//! The database of a data folder: its address, and its identity, so that the folder is not used with another one.
//!
//! The file DATABASE has two lines: the address without a password, and the random ID of the database.

use std::fs;
use std::io;
use std::path::Path;

use super::{DataDirError, marker};
use tunesmith_store::{DatabaseAddress, OpenMode, PostgresStore, StoreError};

const FILE: &str = "DATABASE";

/// The variable with the address, which may contain the password.
const VARIABLE: &str = "TUNESMITH_STORE";

/// Opens the store at `address` for `folder`, and notes the database in the folder.
///
/// # Errors
/// [`DataDirError::OtherDatabase`] if the folder belongs to another database; [`DataDirError::Store`],
/// [`DataDirError::Io`].
pub(super) async fn open(folder: &Path, address: &DatabaseAddress) -> Result<PostgresStore, DataDirError> {
    let noted = read(folder)?;
    // With a marker, missing tables are damage, not a new database.
    let mode = if marker::is_written(folder)? { OpenMode::Existing } else { OpenMode::Create };
    let other = |noted: &str| DataDirError::OtherDatabase {
        path: folder.to_owned(),
        noted: noted.to_owned(),
        requested: address.to_string(),
    };
    let store = match (PostgresStore::open(address, mode).await, &noted) {
        (Err(StoreError::Damaged { .. }), Some((noted, _))) if *noted != address.to_string() => {
            return Err(other(noted));
        }
        (opened, _) => opened?,
    };
    let content = format!("{address}\n{}\n", store.identity());
    match noted {
        Some((noted, identity)) if identity != store.identity() => Err(other(&noted)),
        Some((noted, _)) if noted == address.to_string() => Ok(store),
        // The folder is new, or the database has moved.
        Some(_) | None => {
            marker::replace(folder, FILE, &content)?;
            Ok(store)
        }
    }
}

/// The address of the database of `folder`: that of the variable, which may contain the password, or the noted one.
pub(super) fn address_of(folder: &Path) -> Result<DatabaseAddress, DataDirError> {
    let given = std::env::var(VARIABLE).ok().filter(|text| DatabaseAddress::is_address(text));
    let text = match given {
        Some(text) => text,
        None => read(folder)?.map(|(address, _)| address).unwrap_or_default(),
    };
    text.parse().map_err(|source| DataDirError::DatabaseAddress { path: folder.to_owned(), source })
}

fn read(folder: &Path) -> Result<Option<(String, String)>, DataDirError> {
    let path = folder.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(DataDirError::io("read", &path)(source)),
    };
    match text.lines().collect::<Vec<_>>()[..] {
        [address, identity] => Ok(Some((address.to_owned(), identity.to_owned()))),
        _ => Err(DataDirError::UnknownMarker { path, found: text.trim_end().to_owned() }),
    }
}
