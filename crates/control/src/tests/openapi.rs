//! The OpenAPI page and the routes are the same API.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use replication::Status;
use serde_json::Value;
use server::GapReport;

use super::fake::{Fake, ask, run};
use super::fake_log::{FakeLog, status};
use crate::api::Api;
use crate::caller::Need;
use crate::routes;

fn page() -> Value {
    run(async {
        let answer = ask(&Fake::new().http(), "GET", "/openapi.json", &[], "").await;
        answer.json()
    })
}

#[test]
fn the_page_has_every_route_and_no_other() {
    let page = page();
    let described: BTreeSet<(String, String)> = page["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            let methods = item
                .as_object()
                .unwrap()
                .keys()
                .filter(|key| *key != "parameters");
            methods.map(|method| (path.clone(), method.clone()))
        })
        .collect();
    let routed: BTreeSet<(String, String)> = routes::table()
        .into_iter()
        .map(|(path, method, ..)| (path.to_owned(), method.to_owned()))
        .collect();
    assert_eq!(described, routed);
    assert_eq!(page["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let page = page();
    let mut names = BTreeSet::new();
    for (path, method, ..) in routes::table() {
        // Generators of clients make a function of it.
        let name = page["paths"][path][method]["operationId"]
            .as_str()
            .unwrap_or_default();
        let is_name = name.chars().all(|letter| letter.is_ascii_alphabetic());
        assert!(is_name && !name.is_empty(), "{method} {path}: `{name}`");
        assert!(names.insert(name), "{method} {path}: `{name}` is taken");
    }
}

#[test]
fn the_page_names_the_right_that_each_route_needs() {
    let page = page();
    for (path, method, need, _) in routes::table() {
        let operation = &page["paths"][path][method];
        let says = match need {
            Need::Nothing => continue,
            Need::AnyToken => "Any token will do.".to_owned(),
            Need::Right(right) => format!("Needs the right `{}`.", right.name()),
            Need::Both(first, second) => {
                let (first, second) = (first.name(), second.name());
                format!("Needs the rights `{first}` and `{second}`.")
            }
            Need::RightOverAll(right) => {
                let name = right.name();
                format!("Needs the right `{name}`, with a token that has no prefixes.")
            }
        };
        let description = operation["description"].as_str().unwrap();
        assert!(description.contains(&says), "{method} {path}: {says}");
        assert!(!operation["responses"]["403"].is_null(), "{method} {path}");
    }
}

/// Returns what a schema that is a reference refers to.
fn resolve<'a>(page: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => {
            let pointer = reference.strip_prefix('#').unwrap();
            let found = page.pointer(pointer);
            resolve(
                page,
                found.unwrap_or_else(|| panic!("{reference} leads nowhere")),
            )
        }
        None => schema,
    }
}

/// What of the page the answers of a test have had: properties, by their place in the page.
#[derive(Default, Clone)]
struct Seen(HashSet<*const Value>);

/// Checks that a value has the shape of a schema, as far as this page uses schemas, and notes the
/// properties that it has.
fn check(
    page: &Value,
    schema: &Value,
    value: &Value,
    at: &str,
    seen: &mut Seen,
) -> Result<(), String> {
    let schema = resolve(page, schema);
    if let Some(any) = schema["anyOf"].as_array() {
        for one in any {
            let mut more = seen.clone();
            if check(page, one, value, at, &mut more).is_ok() {
                *seen = more;
                return Ok(());
            }
        }
        return Err(format!("{at}: {value} fits none of {schema}"));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(()),
    };
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() && !types.contains(&"number") => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.contains(&found) {
        return Err(format!("{at}: {value} is not {types:?}"));
    }
    if let (Some(known), Some(fields)) = (schema["properties"].as_object(), value.as_object()) {
        for (name, field) in fields {
            let Some(described) = known.get(name) else {
                return Err(format!("{at}: {name} is not described"));
            };
            seen.0.insert(described);
            check(page, described, field, &format!("{at}.{name}"), seen)?;
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            if !fields.contains_key(name.as_str().unwrap()) {
                return Err(format!("{at}: {name} is missing"));
            }
        }
    }
    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
        check(
            page,
            &schema["items"],
            item,
            &format!("{at}[{number}]"),
            seen,
        )?;
    }
    Ok(())
}

/// Adds the places of all properties of a schema that were not seen.
fn add_unseen(page: &Value, schema: &Value, at: &str, seen: &Seen, unseen: &mut Vec<String>) {
    let schema = resolve(page, schema);
    for one in schema["anyOf"].as_array().into_iter().flatten() {
        add_unseen(page, one, at, seen, unseen);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match seen.0.contains(&std::ptr::from_ref(property)) {
            true => add_unseen(page, property, &at, seen, unseen),
            false => unseen.push(at),
        }
    }
    if schema["items"].is_object() {
        add_unseen(page, &schema["items"], at, seen, unseen);
    }
}

/// Visits every media type object: schema, example and where it is.
fn visit(value: &Value, at: &str, visitor: &mut impl FnMut(&Value, &Value, &str)) {
    if let (Some(schema), Some(example)) = (value.get("schema"), value.get("example")) {
        visitor(schema, example, at);
    }
    let fields = value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, field)| (name.clone(), field));
    let items = value.as_array().into_iter().flatten();
    let items = items
        .enumerate()
        .map(|(number, item)| (number.to_string(), item));
    for (name, field) in fields.chain(items) {
        visit(field, &format!("{at}/{name}"), visitor);
    }
}

#[test]
fn examples_have_the_shapes_that_are_promised() {
    let page = page();
    let mut examples = 0;
    visit(&page, "", &mut |schema, example, at| {
        examples += 1;
        let check = |value: &Value| {
            check(&page, schema, value, at, &mut Seen::default()).unwrap();
        };
        match example {
            // Lines, each of the shape.
            Value::String(text) if at.ends_with("x-ndjson") => {
                for line in text.lines() {
                    check(&serde_json::from_str(line).unwrap());
                }
            }
            _ => check(example),
        }
    });
    assert!(examples >= 10, "{examples}");
}

/// Requests to a server alone: method, path and query, body.
const ALONE: &[(&str, &str, &str)] = &[
    ("POST", "/v1/publish/rj?type=greeting", "x"),
    ("POST", "/v1/publish/rj?receipt=early", "x"),
    ("POST", "/v1/publish?receipts=summary", "x\n"),
    ("POST", "/v1/send/rj", "x"),
    ("GET", "/v1/history/rj", ""),
    ("GET", "/v1/history/rj?after=x", ""),
    ("GET", "/v1/history/rj?limit=1", ""),
    ("GET", "/v1/cursor", ""),
    ("PUT", "/v1/subscriptions/a/b", ""),
    ("POST", "/v1/subscriptions", "1 2\n3"),
    ("POST", "/v1/subscriptions/remove", "1 2\n3"),
    ("GET", "/v1/subscriptions/a", ""),
    ("GET", "/v1/subscribers/b", ""),
    ("DELETE", "/v1/subscriptions/a/b", ""),
    ("PUT", "/v1/subscriptions/a", "3\n4\n"),
    ("GET", "/v1/subscriptions/a?limit=1", ""),
    ("DELETE", "/v1/subscriptions/a", ""),
    ("DELETE", "/v1/ids/a", ""),
    ("GET", "/v1/sessions/rj", ""),
    ("DELETE", "/v1/sessions/rj", ""),
    ("DELETE", "/v1/sessions/rj?ban=1m", ""),
    ("POST", "/v1/tickets", r#"{"ids":["a",7],"ttl":"30s"}"#),
    ("POST", "/v1/revocations", r#"{"id":"a"}"#),
    ("POST", "/v1/revocations", r#"{"jti":"t"}"#),
    ("GET", "/v1/slowest?limit=1", ""),
    ("GET", "/v1/explain?subject=a&subscriber=rj", ""),
    ("GET", "/v1/stats", ""),
    ("GET", "/healthz", ""),
    ("GET", "/livez", ""),
    ("GET", "/readyz", ""),
];

/// Requests to a node of a cluster that has presence.
const NODE: &[(&str, &str, &str)] = &[
    ("POST", "/v1/publish/rj", "x"),
    ("POST", "/v1/publish/rj?receipt=early", "x"),
    ("POST", "/v1/publish?receipts=summary", "x\n"),
    ("POST", "/v1/online", r#"["rj"]"#),
    ("PUT", "/v1/presence/rj", r#"{"hidden":true}"#),
    ("GET", "/v1/presence/rj", ""),
    ("GET", "/v1/sessions/rj", ""),
    ("GET", "/v1/explain?subject=rj&subscriber=rj", ""),
    ("GET", "/v1/stats", ""),
    ("GET", "/v1/cluster", ""),
    ("POST", "/v1/cluster/nodes/n2/drain", ""),
];

/// Properties that only other tests have: those of a disk, a full mailbox, a payload that is no
/// text, and a batch that was sent again.
const ELSEWHERE: &[&str] = &[
    ".unstored",
    ".history.disk",
    "202.shed",
    ".events.encoding",
    ".repeated",
];

/// Routes whose answers are no JSON object.
const NO_OBJECT: &[&str] = &[
    "/v1/graph/backup",
    "/v1/graph/backup/erlang-ids",
    "/v1/presence",
    "/metrics",
    "/openapi.json",
];

/// Returns the path under which a route is described.
fn described<'a>(page: &'a Value, method: &str, path: &str) -> &'a str {
    let path = path.split('?').next().unwrap();
    let fits = |route: &str| {
        let (mut own, mut asked) = (route.split('/'), path.split('/'));
        loop {
            match (own.next(), asked.next()) {
                (None, None) => return true,
                (Some(own), Some(asked)) if own == asked || own.starts_with('{') => {}
                _ => return false,
            }
        }
    };
    let paths = page["paths"].as_object().unwrap().iter();
    let mut found: Vec<&str> = paths
        .filter(|(route, item)| fits(route) && !item[method.to_lowercase()].is_null())
        .map(|(route, _)| &**route)
        .collect();
    // One without parameters goes first.
    found.sort_by_key(|route| route.matches('{').count());
    found.first().unwrap_or_else(|| panic!("{method} {path}"))
}

/// Every answer is described, and everything that is described is in an answer.
#[test]
fn answers_and_their_descriptions_have_the_same_properties() {
    let page = page();
    run(async {
        let alone = Fake::with_history(1 << 20);
        alone.accept_tickets(true);
        let mut seen = Seen::default();
        let (log, node) = (FakeLog::new(), Fake::with_presence());
        *log.status.lock() = Some(Status {
            not_ready: Some("it is behind".into()),
            ..status()
        });
        let api = Api {
            replicated: Some(log.replicated(&node)),
            ..node.api()
        };
        let node_http = routes::router(Arc::new(api));
        let mut asked = BTreeSet::new();
        for (fake, http, requests) in [(&alone, alone.http(), ALONE), (&node, node_http, NODE)] {
            fake.login("rj", 0, 1);
            fake.note_slow("rj");
            *fake.reported.lock() = |report| {
                let ago = Duration::from_secs(9);
                report.last_gap = Some(GapReport { lost: 4, ago });
            };
            for &(method, path, body) in requests {
                let applies = async {
                    loop {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        if let Some(appended) = log.first() {
                            appended.apply(5, &[[1, 1, 0, 0]], &["n3"]);
                        }
                    }
                };
                let answer = tokio::select! {
                    answer = ask(&http, method, path, &[], body) => answer,
                    () = applies => unreachable!("it does not end"),
                };
                let route = described(&page, method, path);
                let operation = &page["paths"][route][method.to_lowercase()];
                let response = resolve(&page, &operation["responses"][answer.status.to_string()]);
                let schema = &response["content"]["application/json"]["schema"];
                assert!(!schema.is_null(), "{method} {path}: {}", answer.status);
                let at = format!("{method} {path}");
                check(&page, schema, &answer.json(), &at, &mut seen).unwrap();
                asked.insert((method.to_lowercase(), route));
            }
        }
        let mut unseen = Vec::new();
        for (path, method, ..) in routes::table() {
            if NO_OBJECT.contains(&path) {
                continue;
            }
            let route = (method.to_owned(), path);
            assert!(asked.contains(&route), "{method} {path} is not asked");
            let responses = page["paths"][path][method]["responses"]
                .as_object()
                .unwrap();
            for (status, response) in responses.iter().filter(|(code, _)| code.starts_with('2')) {
                let schema = &resolve(&page, response)["content"]["application/json"]["schema"];
                let at = format!("{method} {path} {status}");
                add_unseen(&page, schema, &at, &seen, &mut unseen);
            }
        }
        for known in ELSEWHERE {
            assert!(unseen.iter().any(|at| at.ends_with(known)), "{known}");
        }
        unseen.retain(|at| !ELSEWHERE.iter().any(|known| at.ends_with(known)));
        assert_eq!(unseen, [""; 0], "described, and in no answer");
        let problem = ask(&alone.http(), "GET", "/nowhere", &[], "").await.json();
        let schema = &page["components"]["schemas"]["Problem"];
        check(&page, schema, &problem, "problem", &mut seen).unwrap();
    });
}
