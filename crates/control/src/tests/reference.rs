//! `docs/API.md` describes the requests and the statuses of the OpenAPI page, and no others.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::openapi::PAGE;

const REFERENCE: &str = include_str!("../../../../docs/API.md");

/// A request, like `GET /v1/cursor`, and the statuses that it may be answered with.
type Requests = BTreeMap<String, BTreeSet<String>>;

fn described() -> Requests {
    let page: Value = serde_json::from_str(PAGE).unwrap();
    let mut requests = Requests::new();
    for (path, item) in page["paths"].as_object().unwrap() {
        let operations = item.as_object().unwrap().iter();
        for (method, operation) in operations.filter(|(key, _)| *key != "parameters") {
            let statuses = operation["responses"].as_object().unwrap().keys().cloned();
            let request = format!("{} {path}", method.to_uppercase());
            requests.insert(request, statuses.collect());
        }
    }
    requests
}

/// Returns the request of each heading, with the statuses of its line that begins with
/// `**Status**`.
fn documented(text: &str) -> Requests {
    let mut requests = Requests::new();
    for section in text.split("\n### ").skip(1) {
        let (heading, rest) = section.split_once('\n').unwrap();
        let rest = rest.split("\n## ").next().unwrap();
        let lines = rest
            .lines()
            .filter_map(|line| line.strip_prefix("**Status**: "));
        let statuses = lines.flat_map(|line| line.split(", ")).map(str::to_owned);
        let earlier = requests.insert(heading.to_owned(), statuses.collect());
        assert_eq!(earlier, None, "{heading} has two sections");
    }
    requests
}

#[test]
fn the_reference_has_every_request_with_its_statuses_and_no_other() {
    let (described, documented) = (described(), documented(REFERENCE));
    for (request, statuses) in &described {
        let found = documented.get(request);
        assert_eq!(found, Some(statuses), "docs/API.md: `### {request}`");
    }
    let unknown = documented.keys().find(|it| !described.contains_key(*it));
    assert_eq!(
        unknown, None,
        "docs/API.md describes a request that does not exist"
    );
}

#[test]
fn an_omission_is_noticed() {
    let whole = documented(REFERENCE);
    let without_heading = REFERENCE.replace("### GET /v1/cursor\n", "");
    assert_ne!(documented(&without_heading), whole);
    let without_status = REFERENCE.replace("**Status**: 200, 503\n", "**Status**: 200\n");
    assert_ne!(documented(&without_status), whole);
}
