//! `tunesmith mcp`: tools for agents on standard input and output.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::folder::{Folder, Purpose};
use super::packages::upload_for_agent;
use super::target::TargetArgs;
use crate::in_process::InProcess;
use tunesmith_admission::tools::TOOL_HEADER;
use tunesmith_admission::{CalledAs, Client as Caller};
use tunesmith_client::Transport;
use tunesmith_jobs::Control;
use tunesmith_mcp::{Connect, Services, Upload, serve_stdio};

#[derive(Debug, Args)]
pub(in crate::cli) struct McpArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Offer only tools that change nothing. A data folder may then be in use by another process.
    #[arg(long)]
    read_only: bool,
}

pub(in crate::cli) fn run(args: &McpArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(serve(args));
    // Abandons the thread that reads standard input.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

async fn serve(args: &McpArgs) -> anyhow::Result<()> {
    let Some(path) = args.target.folder() else {
        let server = args.target.server()?;
        let connect = move |called_as: Option<CalledAs>, _: Option<&Caller>| -> Arc<dyn Transport> {
            let server = server.clone();
            Arc::new(match called_as {
                Some(CalledAs(tool)) => server.with_header(TOOL_HEADER, tool),
                None => server,
            })
        };
        return serve_until_end(args, Arc::new(connect)).await;
    };
    let purpose = if args.read_only { Purpose::Look } else { Purpose::RunJobs };
    let folder = Folder::open(&path, purpose).await?;
    let transport = folder.transport();
    let connect: Connect = Arc::new(move |called_as, _| Arc::new(InProcess { called_as, ..transport.clone() }));
    if args.read_only {
        return serve_until_end(args, connect).await;
    }
    let (set_control, control) = watch::channel(Control::Run);
    let running = tokio::spawn(folder.run_jobs(control));
    let served = serve_until_end(args, connect).await;
    set_control.send_replace(Control::Detach);
    running.await?;
    served
}

/// Serves until the input ends, or a signal.
async fn serve_until_end(args: &McpArgs, connect: Connect) -> anyhow::Result<()> {
    let (mut interrupts, mut terminations) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let project = args.target.project().to_owned();
    let upload: Upload = Arc::new(|client, path| Box::pin(upload_for_agent(client, path)));
    let services = Services { connect, project, upload: Some(upload), is_read_only: args.read_only, control: None };
    tokio::select! {
        served = serve_stdio(services) => served.map_err(|error| anyhow::anyhow!("{error}")),
        _ = interrupts.recv() => Ok(()),
        _ = terminations.recv() => Ok(()),
    }
}
