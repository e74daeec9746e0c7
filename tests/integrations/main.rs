//! Programs of others, unmodified: MLflow, TensorBoard, clients of Vertex AI and OSS Vizier, agents, Python packages.
#![expect(clippy::unwrap_used, reason = "clippy exempts test functions only, not their helpers")]

mod batch_prediction;
mod mcp;
mod prediction;
mod prediction_deaths;
mod prediction_stores;
mod python_client;
#[cfg(feature = "otlp")]
mod tracking;
mod vizier;
mod webhooks;
