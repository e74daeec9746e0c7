//! Locations: the one that is listed, and any other, since clients name those of Google.

use std::collections::BTreeMap;

use tunesmith_admission::use_cases;
use tunesmith_domain::{Refusal, StudyId};
use tunesmith_vizier::messages::location::{GetLocationRequest, ListLocationsRequest, ListLocationsResponse, Location};
use tunesmith_vizier::names::parts;

use crate::method::Method;
use crate::services::{Context, Reply};

/// The listed location, as in `ml v1`.
const LISTED: &str = "local";

pub(crate) fn methods() -> Vec<Method> {
    vec![
        Method::new(
            "google.cloud.location.Locations.ListLocations",
            use_cases::LIST_LOCATIONS,
            |request: &ListLocationsRequest| &request.name,
            list,
        )
        .http("GET /v1/{name=projects/*}/locations")
        .http("GET /v1beta1/{name=projects/*}/locations")
        .http("GET /ui/{name=projects/*}/locations"),
        Method::new(
            "google.cloud.location.Locations.GetLocation",
            use_cases::GET_LOCATION,
            |request: &GetLocationRequest| &request.name,
            get,
        )
        .http("GET /v1/{name=projects/*/locations/*}")
        .http("GET /v1beta1/{name=projects/*/locations/*}")
        .http("GET /ui/{name=projects/*/locations/*}"),
    ]
}

async fn list(_: Context, request: ListLocationsRequest) -> Result<Reply<ListLocationsResponse>, Refusal> {
    let [project] = parts(&request.name, "projects/*")
        .ok_or_else(|| Refusal::invalid("name", format!("{:?} has not the form projects/*", request.name)))?;
    if !request.filter.is_empty() {
        return Err(Refusal::invalid("filter", format!("{:?} is not supported; allowed: none", request.filter)));
    }
    if request.page_size < 0 {
        return Err(Refusal::invalid("pageSize", format!("{} is negative", request.page_size)));
    }
    if !request.page_token.is_empty() {
        return Err(Refusal::invalid("pageToken", "not issued by this server"));
    }
    let locations = vec![location(project, LISTED)?];
    Ok(ListLocationsResponse { locations, next_page_token: String::new() }.into())
}

async fn get(_: Context, request: GetLocationRequest) -> Result<Reply<Location>, Refusal> {
    let [project, name] = parts(&request.name, "projects/*/locations/*").ok_or_else(|| {
        Refusal::invalid("name", format!("{:?} has not the form projects/*/locations/*", request.name))
    })?;
    Ok(location(project, name)?.into())
}

fn location(project: &str, name: &str) -> Result<Location, Refusal> {
    StudyId::new(project, name, "any").map_err(|error| Refusal::invalid("name", error.to_string()))?;
    Ok(Location {
        name: format!("projects/{project}/locations/{name}"),
        labels: BTreeMap::new(),
        metadata: None,
        location_id: name.to_owned(),
        display_name: name.to_owned(),
    })
}
