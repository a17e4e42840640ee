//! The description of the API, in the OpenAPI format.
//!
//! Owns how the metrics of the workers get into it: they are described where they are declared.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use reactor::{MetricDescription, MetricKind};
use serde::Serialize;

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

/// Schema of a metric, or of metrics by name.
#[derive(Serialize)]
struct Schema<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(flatten)]
    members: Members<'a>,
}

/// Members of an object.
#[derive(Serialize, Default)]
struct Members<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<&'a str, Schema<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    required: Vec<&'a str>,
}

impl<'a> Members<'a> {
    fn add(&mut self, name: &'a str, schema: Schema<'a>) {
        self.properties.insert(name, schema);
        self.required.push(name);
    }
}

/// Returns the description of an API with these metrics.
fn page(metrics: &[MetricDescription]) -> String {
    let mut all = Members::default();
    for named in metrics.chunk_by(|a, b| a.name == b.name) {
        let value = || match named[0].kind {
            MetricKind::Time => "number",
            MetricKind::Counter | MetricKind::Gauge | MetricKind::Bucket => "integer",
        };
        let mut members = Members::default();
        for (_, label) in named.iter().filter_map(|metric| metric.label) {
            let schema = Schema {
                r#type: value(),
                description: None,
                members: Members::default(),
            };
            members.add(label, schema);
        }
        let schema = Schema {
            r#type: if members.required.is_empty() {
                value()
            } else {
                "object"
            },
            description: Some(named[0].help),
            members,
        };
        all.add(named[0].name, schema);
    }
    let members = serde_json::to_string(&all).expect("names and texts are JSON");
    PAGE.replacen(NO_METRICS, &members[1..members.len() - 1], 1)
}
