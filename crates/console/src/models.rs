//! List of models with their default versions, workers and requests.

use std::cmp::Ordering;
use std::sync::Arc;

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use serde::Deserialize;

use super::console::{Console, rendered};
use super::errors::PageError;
use super::format::{Badge, Time, encoded};
use super::frame::{Frame, Section};
use super::traffic::Traffic;
use super::visit::{Visit, Visitor};
use tunesmith_access::Permission;
use tunesmith_prediction::{Framework, Model, ModelFilter, Version};

const PAGE_SIZE: usize = 50;

/// Columns by which models are sorted: name in addresses and title.
const COLUMNS: [(&str, &str); 8] = [
    ("name", "Name"),
    ("version", "Default version"),
    ("versions", "Versions"),
    ("nodes", "Workers"),
    ("requests", "Requests"),
    ("errors", "Errors"),
    ("latency", "Latency"),
    ("created", "Created"),
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Selection {
    filter: String,
    project: String,
    /// Column, with ` desc` in descending order.
    #[serde(rename = "orderBy")]
    order: String,
    page: usize,
}

#[derive(Template)]
#[template(path = "models.html")]
struct ModelsPage {
    frame: Frame,
    selection: Selection,
    /// Error in the filter.
    error: Option<String>,
    projects: Vec<String>,
    rows: Vec<ModelRow>,
    total: usize,
    first: usize,
}

struct ModelRow {
    name: String,
    project: String,
    address: String,
    labels: Vec<(String, String)>,
    versions: usize,
    /// Versions that failed.
    failed: usize,
    default: Option<DefaultVersion>,
    traffic: Traffic,
    create_time: Time,
}

struct DefaultVersion {
    name: String,
    badge: Badge,
    framework: String,
}

/// A model of the list, with its traffic if that determines the order.
type Listed = (Arc<Model>, Traffic);

impl ModelsPage {
    fn address(&self, page: usize, order: &str) -> String {
        let Selection { filter, project, .. } = &self.selection;
        let (filter, project, order) = (encoded(filter), encoded(project), encoded(order));
        format!("/console/models?filter={filter}&project={project}&orderBy={order}&page={page}")
    }

    fn page(&self, page: usize) -> String {
        self.address(page, &self.selection.order)
    }

    /// Columns: title, address of the list in their order, direction of the current order, and whether they have numbers.
    fn columns(&self) -> Vec<(&'static str, String, Option<&'static str>, bool)> {
        let (current, is_descending) = order_of(&self.selection.order);
        let column = |(name, title): (&'static str, &'static str)| {
            let is_current = name == current;
            let has_numbers = !matches!(name, "name" | "version" | "created");
            // A click on a column of numbers shows the largest ones first, a second click reverses the order.
            let descends = if is_current { !is_descending } else { name != "name" && name != "version" };
            let direction = is_current.then_some(if is_descending { "descending" } else { "ascending" });
            (title, self.address(0, &format!("{name}{}", if descends { " desc" } else { "" })), direction, has_numbers)
        };
        COLUMNS.into_iter().map(column).collect()
    }

    fn last(&self) -> usize {
        self.first + self.rows.len()
    }

    fn is_filtered(&self) -> bool {
        !self.selection.filter.trim().is_empty() || !self.selection.project.is_empty()
    }
}

/// Column of an order, and whether it is descending. Without an order, models are sorted by name.
fn order_of(order: &str) -> (&str, bool) {
    match order.trim().split_once(' ') {
        _ if order.trim().is_empty() => ("name", false),
        Some((column, direction)) => (column, direction.trim() == "desc"),
        None => (order.trim(), false),
    }
}

pub(crate) async fn show(
    console: Console,
    visit: Visit,
    Query(selection): Query<Selection>,
) -> Result<Response, PageError> {
    let (column, is_descending) = order_of(&selection.order);
    if !COLUMNS.iter().any(|(name, _)| *name == column) {
        let allowed = COLUMNS.map(|(name, _)| name).join(", ");
        return Err(PageError::Invalid(format!("orderBy is {column:?}; allowed: {allowed}, each with desc")));
    }
    let (filter, error) = match selection.filter.parse::<ModelFilter>() {
        Ok(filter) => (Some(filter), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let has_traffic = matches!(column, "nodes" | "requests" | "errors" | "latency");
    let (mut projects, mut found) = (Vec::new(), Vec::new());
    for model in console.visible_models(&visit.visitor).await? {
        if projects.last() != Some(&model.project) {
            projects.push(model.project.clone());
        }
        let is_wanted = selection.project.is_empty() || selection.project == model.project;
        if is_wanted && filter.as_ref().is_some_and(|filter| filter.accepts(&model)) {
            let traffic = if has_traffic { console.traffic_of(&model) } else { Traffic::default() };
            found.push((model, traffic));
        }
    }
    found.sort_by(|a, b| {
        let order = compare(column, a, b);
        if is_descending { order.reverse() } else { order }
    });
    let total = found.len();
    let first = selection.page.saturating_mul(PAGE_SIZE).min(total);
    let page = ModelsPage {
        frame: visit.frame("Models", Section::Models),
        rows: found[first..].iter().take(PAGE_SIZE).map(|(model, _)| console.model_row(model)).collect(),
        selection,
        error,
        projects,
        total,
        first,
    };
    Ok(rendered(&page))
}

fn compare(column: &str, (a, a_traffic): &Listed, (b, b_traffic): &Listed) -> Ordering {
    let order = match column {
        "version" => a.default_version.cmp(&b.default_version),
        "versions" => a.versions.len().cmp(&b.versions.len()),
        "nodes" => a_traffic.ready.cmp(&b_traffic.ready),
        "requests" => a_traffic.requests.cmp(&b_traffic.requests),
        "errors" => a_traffic.errors.cmp(&b_traffic.errors),
        "latency" => a_traffic.p95().cmp(&b_traffic.p95()),
        "created" => a.create_time.cmp(&b.create_time),
        _ => Ordering::Equal,
    };
    order.then_with(|| (&a.name, &a.project).cmp(&(&b.name, &b.project)))
}

impl Console {
    /// Models that `visitor` may see, by project and name.
    pub(crate) async fn visible_models(&self, visitor: &Visitor) -> Result<Vec<Arc<Model>>, PageError> {
        let mut models = self.models.all().await?;
        models.retain(|model| visitor.may_on_model(Permission::ModelsGet, model));
        Ok(models)
    }

    fn model_row(&self, model: &Model) -> ModelRow {
        let default = model.default_version.as_ref().and_then(|name| model.version(name));
        ModelRow {
            name: model.name.clone(),
            project: model.project.clone(),
            address: address(model),
            labels: model.labels.clone().into_iter().collect(),
            versions: model.versions.len(),
            failed: model.versions.iter().filter(|version| has_failed(version)).count(),
            default: default.map(|version| DefaultVersion {
                name: version.name.clone(),
                badge: version.state.into(),
                framework: framework(version),
            }),
            traffic: self.traffic_of(model),
            create_time: Time(model.create_time),
        }
    }

    /// Workers and requests of all versions of `model`.
    pub(crate) fn traffic_of(&self, model: &Model) -> Traffic {
        let (mut all, limit) = (Traffic::default(), self.models.max_nodes());
        for version in &model.versions {
            all.add(&Traffic::of(version, &self.models.status(version), limit), limit);
        }
        all
    }
}

fn has_failed(version: &Version) -> bool {
    version.state == tunesmith_prediction::VersionState::Failed
}

/// URL of the page of a model.
pub(crate) fn address(model: &Model) -> String {
    format!("/console/projects/{}/models/{}", model.project, model.name)
}

/// Name of the framework of a version: that of the loaded model, or the requested one.
pub(crate) fn framework(version: &Version) -> String {
    let spec = &version.spec;
    if !spec.prediction_class.is_empty() {
        return spec.prediction_class.clone();
    }
    let requested = match spec.framework {
        Framework::FrameworkUnspecified => "",
        Framework::Tensorflow => "TENSORFLOW",
        Framework::ScikitLearn => "SCIKIT_LEARN",
        Framework::Xgboost => "XGBOOST",
    };
    let loaded = version.report.as_ref().map_or("", |report| report.framework.as_str());
    match if loaded.is_empty() { requested } else { loaded } {
        "SCIKIT_LEARN" => "scikit-learn".to_owned(),
        "XGBOOST" => "XGBoost".to_owned(),
        "TENSORFLOW" => "TensorFlow".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::order_of;

    #[test]
    fn order_has_a_column_and_a_direction() {
        assert_eq!(order_of(""), ("name", false));
        assert_eq!(order_of("requests desc"), ("requests", true));
        assert_eq!(order_of("latency"), ("latency", false));
    }
}
