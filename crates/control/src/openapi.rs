//! The description of the API, in the OpenAPI format.
//!
//! Owns how the metrics of the workers get into it: they are described where they are declared.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use reactor::{MetricDescription, MetricKind};
use serde_json::{Map, json};

use crate::api::Shared;

/// The description, without metrics.
pub(crate) const PAGE: &str = include_str!("openapi.json");

/// Place of the metrics in the page. No other object of it has no properties.
const NO_METRICS: &str = "\"properties\": {}";

/// `GET /openapi.json`
pub(crate) async fn openapi(State(api): State<Shared>) -> Response {
    let page = page(&api.server.stats().metrics.metrics);
    ([(CONTENT_TYPE, "application/json")], page).into_response()
}

/// Returns the description of an API with these metrics.
fn page(metrics: &[MetricDescription]) -> String {
    let mut properties = Map::new();
    for named in metrics.chunk_by(|a, b| a.name == b.name) {
        let value = match named[0].kind {
            MetricKind::Time => "number",
            MetricKind::Counter | MetricKind::Gauge | MetricKind::Bucket => "integer",
        };
        let labels: Vec<&str> = named.iter().filter_map(|it| Some(it.label?.1)).collect();
        let of_label = |label: &&str| ((*label).to_owned(), json!({ "type": value }));
        let schema = match labels.is_empty() {
            true => json!({ "type": value, "description": named[0].help }),
            false => json!({
                "type": "object", "description": named[0].help, "required": labels,
                "properties": labels.iter().map(of_label).collect::<Map<_, _>>(),
            }),
        };
        properties.insert(named[0].name.to_owned(), schema);
    }
    let mut required: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
    required.dedup();
    let members = json!({ "properties": properties, "required": required }).to_string();
    PAGE.replacen(NO_METRICS, &members[1..members.len() - 1], 1)
}
