//! Database address: parsed and checked, with the password kept out of every text.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

/// Supported address parameters. Others are refused, because a misspelt one would be silently ignored.
const PARAMETERS: [&str; 10] =
    ["sslmode", "sslrootcert", "sslcert", "sslkey", "host", "port", "dbname", "user", "application_name", "options"];

const MAX_PASSWORD_BYTES: usize = 4096;

/// Address of a PostgreSQL database, such as `postgres://tuner@db.example:5432/tunesmith?sslmode=verify-full`.
///
/// Omitted parts default to the libpq variables (`PGHOST`, `PGPORT`, `PGUSER`, `PGDATABASE`, `PGPASSWORD`, `PGSSLMODE`,
/// `PGSSLROOTCERT`); the password also to the file `PGPASSFILE` or `~/.pgpass`. `Display` and `Debug` omit the
/// password.
#[derive(Clone)]
pub struct DatabaseAddress {
    options: PgConnectOptions,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseAddressError {
    #[error("the address of the database is invalid: {detail}; expected postgres://USER@HOST:PORT/DATABASE")]
    Invalid {
        /// The defect, without the password.
        detail: String,
    },
    #[error("the address of the database has the unknown parameter {parameter}; known are {}", PARAMETERS.join(", "))]
    UnknownParameter { parameter: String },
    #[error("the password of the database cannot be read from {path}: {detail}")]
    PasswordFile { path: String, detail: String },
}

impl DatabaseAddress {
    /// Whether `text` starts like a database address.
    pub fn is_address(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Reads the password from the first line of the file `path`.
    pub fn with_password_file(mut self, path: &Path) -> Result<Self, DatabaseAddressError> {
        let failed = |detail: String| DatabaseAddressError::PasswordFile { path: path.display().to_string(), detail };
        let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        if text.len() > MAX_PASSWORD_BYTES {
            return Err(failed(format!("it has {} bytes, at most {MAX_PASSWORD_BYTES} are allowed", text.len())));
        }
        let text = String::from_utf8(text).map_err(|_| failed("it is not UTF-8".to_owned()))?;
        let password = text.lines().next().filter(|line| !line.is_empty());
        self.options = self.options.password(password.ok_or_else(|| failed("its first line is empty".to_owned()))?);
        Ok(self)
    }

    /// Connection options, including the session settings of a store.
    pub(super) fn session_options(&self) -> PgConnectOptions {
        let own_name = self.options.get_application_name().is_some();
        let options = self.options.clone().disable_statement_logging();
        let options = if own_name { options } else { options.application_name("tunesmith") };
        options.options([
            // A longer statement is blocked by another program's lock.
            ("statement_timeout", "60s"),
            ("lock_timeout", "30s"),
            // Releases the locks of a server whose machine was lost.
            ("idle_in_transaction_session_timeout", "20s"),
            ("tcp_keepalives_idle", "10"),
            ("tcp_keepalives_interval", "5"),
            ("tcp_keepalives_count", "3"),
            ("default_transaction_isolation", "read committed"),
        ])
    }

    pub(super) fn user(&self) -> &str {
        self.options.get_username()
    }

    /// Database name, by default the user's.
    pub(super) fn database(&self) -> &str {
        self.options.get_database().unwrap_or_else(|| self.options.get_username())
    }
}

impl FromStr for DatabaseAddress {
    type Err = DatabaseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |detail: &str| DatabaseAddressError::Invalid { detail: detail.to_owned() };
        if !Self::is_address(text) {
            return Err(invalid("it does not start with postgres://"));
        }
        // The parser's errors may quote the text, and with it the password.
        let options = PgConnectOptions::from_str(text)
            .map_err(|_| invalid("a part cannot be read (special characters of a password are written as %XX)"))?;
        if let Some((_, query)) = text.split_once('?') {
            for pair in query.split('&').filter(|pair| !pair.is_empty()) {
                let name = pair.split('=').next().unwrap_or(pair);
                let is_known = PARAMETERS.contains(&name) || name.starts_with("options[");
                if !is_known {
                    return Err(DatabaseAddressError::UnknownParameter { parameter: name.to_owned() });
                }
            }
        }
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let user = options.get_username();
        let text = format!("postgres://{user}@{place}/{}", options.get_database().unwrap_or(user));
        Ok(Self { options, text })
    }
}

impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseAddress({})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_an_address_omit_the_password() {
        let address: DatabaseAddress =
            "postgres://tuner:s%20ecret@db.example:5433/trials?sslmode=require".parse().unwrap();
        assert_eq!(address.to_string(), "postgres://tuner@db.example:5433/trials");
        assert_eq!(format!("{address:?}"), "DatabaseAddress(postgres://tuner@db.example:5433/trials)");
        assert_eq!((address.user(), address.database()), ("tuner", "trials"));
    }

    #[test]
    fn bad_addresses_are_refused_without_their_password() {
        let error = |text: &str| text.parse::<DatabaseAddress>().unwrap_err().to_string();
        assert!(error("mysql://u:secret@h/d").contains("does not start with postgres://"));
        let port = error("postgres://u:secret@h:port/d");
        assert!(port.contains("a part cannot be read") && !port.contains("secret"), "{port}");
        let mode = error("postgres://u:secret@h/d?sslmode=always");
        assert!(!mode.contains("secret"), "{mode}");
        assert_eq!(
            error("postgres://u:secret@h/d?sslmod=require"),
            "the address of the database has the unknown parameter sslmod; known are sslmode, sslrootcert, sslcert, \
             sslkey, host, port, dbname, user, application_name, options"
        );
    }

    #[test]
    fn password_is_the_first_line_of_a_file() {
        let folder = std::env::temp_dir().join(format!("tunesmith-password-{}", std::process::id()));
        std::fs::write(&folder, "se cret\nmore\n").unwrap();
        let address: DatabaseAddress = "postgres://tuner@h/d".parse().unwrap();
        let with = address.clone().with_password_file(&folder).unwrap();
        assert!(with.options.to_url_lossy().as_str().contains("se%20cret"));
        std::fs::write(&folder, "\n").unwrap();
        let error = address.clone().with_password_file(&folder).unwrap_err().to_string();
        assert!(error.ends_with("its first line is empty"), "{error}");
        std::fs::remove_file(&folder).unwrap();
        let error = address.with_password_file(&folder).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }
}
