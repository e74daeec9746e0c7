//! Models, versions and their operations.

mod batch;
mod container;
mod model;
mod operation;
mod version;

pub use batch::{DataFormat, PredictionInput, PredictionOutput};
pub use container::{ContainerPort, ContainerSpec, EnvVar, RouteMap};
pub use model::{ModelAdditions, ModelList, ModelMessage, ModelRequest, PredictRequest};
pub use operation::{
    ModelOperation, ModelOperationKind, ModelOperationList, ModelOperationMetadata, ModelOperationResponse,
};
pub use version::{
    AutoScaling, FrameworkName, ManualScaling, Metric, VersionAdditions, VersionList, VersionMessage, VersionRequest,
    VersionRequestAdditions, WorkerStatus,
};
