//! `tunesmith tokens`: manages the access tokens of a server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::output::{notice, print};
use super::table::{Column, Table, TableArgs};
use crate::composition;
#[cfg(feature = "postgres")]
use crate::shared_tokens::SharedTokens;
use tunesmith_access::{Grant, Principal, SignIn, Token, TokenFile, TokenFileError};
use tunesmith_data_dir::{check_form, tokens_of};
use tunesmith_studies::clock::{Clock, SystemClock};

#[derive(Debug, Subcommand)]
pub(super) enum TokensCommand {
    /// Create a token and print it. It cannot be printed again. A running server accepts it immediately.
    Create(CreateArgs),
    /// List the tokens without their secrets.
    List(ListArgs),
    /// Revoke a token. A running server rejects it immediately.
    Revoke(RevokeArgs),
    /// Remove all tokens, even if their file is missing or damaged. After its next start, a server requires no token.
    Reset(FolderArgs),
}

#[derive(Debug, Args)]
pub(super) struct FolderArgs {
    /// The server's data folder.
    #[arg(long, value_name = "DIR", default_value = super::folder_args::DEFAULT_DATA_DIR)]
    data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    folder: FolderArgs,
    #[command(flatten)]
    table: TableArgs,
}

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    #[command(flatten)]
    folder: FolderArgs,
    /// Owner of the token: user:NAME, serviceAccount:NAME or group:NAME.
    #[arg(long, value_name = "WHO")]
    principal: Principal,
    /// Role of the owner: ml.admin, ml.developer or ml.viewer, in all projects, or in one with ROLE@PROJECT. May be
    /// repeated.
    #[arg(long = "role", value_name = "ROLE[@PROJECT]", required = true)]
    roles: Vec<Grant>,
    /// Number of days until the token expires. By default, it never expires.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    expires_in_days: Option<u32>,
}

#[derive(Debug, Args)]
pub(super) struct RevokeArgs {
    #[command(flatten)]
    folder: FolderArgs,
    /// ID of the token, as printed by `tokens list`: the part between tsm_ and the next underscore.
    #[arg(value_name = "ID")]
    id: String,
}

pub(super) fn tokens(command: &TokensCommand) -> anyhow::Result<ExitCode> {
    match command {
        TokensCommand::Create(args) => {
            let now = SystemClock.now();
            let lifetime = args.expires_in_days.map(|days| Duration::from_secs(u64::from(days) * 24 * 60 * 60));
            let expire_time = lifetime.map(|lifetime| now.checked_add(lifetime)).transpose();
            let expire_time = expire_time.context("--expires-in-days is beyond the calendar")?;
            let made = Token::draw(args.principal.clone(), args.roles.clone(), now, expire_time);
            let file = args.folder.file();
            let id = made.token.id.clone();
            args.folder.recorded("create", &id, || file.add(made.token))?;
            notice(&format!(
                "stored in {} without its secret; clients send it as: authorization: Bearer TOKEN",
                file.path().display()
            ));
            print(&format!("{}\n", made.secret))?;
        }
        TokensCommand::List(args) => {
            let columns = vec![
                Column::text("ID"),
                Column::text("PRINCIPAL"),
                Column::prose("ROLES"),
                Column::text("CREATED").may_be_left_out(1),
                Column::text("ENDS").may_be_left_out(0),
            ];
            let mut table = Table::new(columns);
            let tokens = args.folder.shared_change(|| args.folder.file().read())??;
            // Sessions end with the token that opened them.
            let is_listed = |token: &Token| !matches!(token.session, Some(SignIn::Token(_)));
            for token in tokens.into_iter().filter(is_listed) {
                let roles: Vec<String> = token.grants.iter().map(Grant::to_string).collect();
                let end = token.expire_time.map_or_else(|| "never".to_owned(), |end| end.to_string());
                let created = token.create_time.to_string();
                table.add_row(vec![token.id, token.principal.to_string(), roles.join(", "), created, end]);
            }
            print(&table.render(&args.table.layout())?)?;
        }
        TokensCommand::Revoke(args) => {
            let token = args.folder.recorded("revoke", &args.id, || args.folder.file().revoke(&args.id))?;
            print(&format!("the token {} of {} is revoked\n", token.id, token.principal))?;
        }
        TokensCommand::Reset(args) => {
            args.recorded("reset", "", || args.file().reset())?;
            print("all tokens are removed; a running server needs a restart or a new token before it answers again\n")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl FolderArgs {
    fn file(&self) -> TokenFile {
        TokenFile::new(tokens_of(&self.data_dir))
    }

    /// Applies `change` to the file, and to the database's tokens if the folder has a database.
    #[cfg(feature = "postgres")]
    fn shared_change<T>(
        &self,
        change: impl FnOnce() -> Result<T, TokenFileError>,
    ) -> anyhow::Result<Result<T, TokenFileError>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        runtime.block_on(async {
            match SharedTokens::of_folder(&self.data_dir).await? {
                // A rejected change leaves the database unchanged.
                Some(shared) => shared.change(|| Ok(change())).await,
                None => Ok(change()),
            }
        })
    }

    #[cfg(not(feature = "postgres"))]
    fn shared_change<T>(
        &self,
        change: impl FnOnce() -> Result<T, TokenFileError>,
    ) -> anyhow::Result<Result<T, TokenFileError>> {
        Ok(change())
    }

    /// Applies `change` to the token `id` and audits it.
    fn recorded<T>(
        &self,
        action: &str,
        id: &str,
        change: impl FnOnce() -> Result<T, TokenFileError>,
    ) -> anyhow::Result<T> {
        check_form(&self.data_dir)?;
        let owner = composition::owner(&self.data_dir)?;
        let outcome = self.shared_change(change)?;
        let status = match &outcome {
            Ok(_) => 200,
            Err(TokenFileError::NotFound { .. }) => 404,
            Err(_) => 500,
        };
        composition::record(&owner, &format!("tunesmith.tokens.{action}"), &format!("tokens/{id}"), status)?;
        Ok(outcome?)
    }
}
