//! Packages: upload from the machine of the caller, who is the user of this process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tunesmith_client::ClientError;

use crate::context::Context;
use crate::failure::Failure;
use crate::subject::given;
use crate::tool::{Effects, Tool};

/// Name in audit records.
const METHOD: &str = "mcp.upload_package";

pub(super) fn tools() -> Vec<Tool> {
    let tool = Tool::new(
        (METHOD, "Upload a Python package"),
        "Uploads a Python package from this machine, read with your user's rights, for packageUris of a configuration beside \
         pythonModule. Only over tunesmith mcp.",
        Effects::Sets,
        json!({"path": "trainer"}),
        upload_package,
    );
    vec![tool.of_this_machine()]
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Folder of the package, with __init__.py, or a wheel or source archive.
    path: String,
    /// Project; default that of the server.
    project: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Uploaded {
    /// Name for packageUris.
    uri: String,
}

async fn upload_package(context: Context, arguments: Arguments) -> Result<Uploaded, Failure> {
    let path = given("path", &arguments.path)?.into();
    let client = context.client(arguments.project.as_deref());
    let Some(upload) = context.services.upload else {
        return Err(Failure::new("UNIMPLEMENTED", "files of the caller can be opened over tunesmith mcp only"));
    };
    match upload(client, path).await {
        Ok(uri) => Ok(Uploaded { uri }),
        Err(UploadError::Api(error)) => Err(error.into()),
        Err(UploadError::File(text)) => {
            Err(Failure::argument("path", text, "a folder with __init__.py, or a wheel or source archive"))
        }
    }
}

/// A failed upload.
#[derive(Debug)]
pub enum UploadError {
    /// Reason why the package cannot be read or packed.
    File(String),
    /// The server refused it, or cannot be reached.
    Api(ClientError),
}
