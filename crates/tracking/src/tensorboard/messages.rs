//! Messages of event files and of the HParams plug-in, as far as written.
//!
//! Sources: `tensorflow/core/util/event.proto`, `tensorflow/core/framework/summary.proto` and `tensor.proto`;
//! `tensorboard/plugins/hparams/api.proto` and `plugin_data.proto`.

use std::collections::BTreeMap;

use prost_types::{ListValue, Value};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    pub(super) wall_time: f64,
    #[prost(int64, tag = "2")]
    pub(super) step: i64,
    #[prost(oneof = "What", tags = "3, 5")]
    pub(super) what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub(super) value: Vec<SummaryValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SummaryValue {
    #[prost(string, tag = "1")]
    pub(super) tag: String,
    #[prost(message, optional, tag = "9")]
    pub(super) metadata: Option<SummaryMetadata>,
    #[prost(oneof = "SummaryContent", tags = "2, 8")]
    pub(super) content: Option<SummaryContent>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum SummaryContent {
    #[prost(float, tag = "2")]
    SimpleValue(f32),
    #[prost(message, tag = "8")]
    Tensor(Tensor),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SummaryMetadata {
    #[prost(message, optional, tag = "1")]
    pub(super) plugin_data: Option<PluginData>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PluginData {
    #[prost(string, tag = "1")]
    pub(super) plugin_name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) content: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Tensor {
    /// 1 is float.
    #[prost(int32, tag = "1")]
    pub(super) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<Shape>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Shape {
    #[prost(message, repeated, tag = "2")]
    pub(super) dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Dimension {
    #[prost(int64, tag = "1")]
    pub(super) size: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HParamsPluginData {
    /// The plug-in accepts 0 only.
    #[prost(int32, tag = "1")]
    pub(super) version: i32,
    #[prost(oneof = "HParamsData", tags = "2, 3, 4")]
    pub(super) data: Option<HParamsData>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum HParamsData {
    #[prost(message, tag = "2")]
    Experiment(Experiment),
    #[prost(message, tag = "3")]
    SessionStart(SessionStart),
    #[prost(message, tag = "4")]
    SessionEnd(SessionEnd),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Experiment {
    #[prost(string, tag = "1")]
    pub(super) description: String,
    #[prost(double, tag = "3")]
    pub(super) time_created_secs: f64,
    #[prost(message, repeated, tag = "4")]
    pub(super) hparam_infos: Vec<HParamInfo>,
    #[prost(message, repeated, tag = "5")]
    pub(super) metric_infos: Vec<MetricInfo>,
    #[prost(string, tag = "6")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HParamInfo {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "3")]
    pub(super) description: String,
    #[prost(enumeration = "DataType", tag = "4")]
    pub(super) data_type: i32,
    #[prost(oneof = "Domain", tags = "5, 6")]
    pub(super) domain: Option<Domain>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
pub(super) enum DataType {
    Unset = 0,
    Text = 1,
    Float64 = 3,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Domain {
    #[prost(message, tag = "5")]
    Discrete(ListValue),
    #[prost(message, tag = "6")]
    Interval(Interval),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Interval {
    #[prost(double, tag = "1")]
    pub(super) min_value: f64,
    #[prost(double, tag = "2")]
    pub(super) max_value: f64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MetricInfo {
    #[prost(message, optional, tag = "1")]
    pub(super) name: Option<MetricName>,
    #[prost(string, tag = "4")]
    pub(super) description: String,
}

/// A metric: the scalar `tag` in the run `group` below the session; the session's own run if empty.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MetricName {
    #[prost(string, tag = "1")]
    pub(super) group: String,
    #[prost(string, tag = "2")]
    pub(super) tag: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SessionStart {
    // In the order of the names, so that equal sessions have equal bytes.
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) hparams: BTreeMap<String, Value>,
    #[prost(string, tag = "4")]
    pub(super) group_name: String,
    #[prost(double, tag = "5")]
    pub(super) start_time_secs: f64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SessionEnd {
    #[prost(enumeration = "SessionStatus", tag = "1")]
    pub(super) status: i32,
    #[prost(double, tag = "2")]
    pub(super) end_time_secs: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
pub(super) enum SessionStatus {
    Unknown = 0,
    Success = 1,
    Failure = 2,
}
