//! The OpenAPI page and the routes are the same API.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::fake::{Fake, ask, run};
use crate::caller::Need;
use crate::health::OPEN_API;
use crate::routes;

fn page() -> Value {
    serde_json::from_str(OPEN_API).unwrap()
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

/// Whether a value has the shape of a schema, as far as this page uses schemas.
fn check(page: &Value, schema: &Value, value: &Value, at: &str) {
    let schema = resolve(page, schema);
    if let Some(any) = schema["anyOf"].as_array() {
        let fits = |one: &Value| std::panic::catch_unwind(|| check(page, one, value, at)).is_ok();
        assert!(any.iter().any(fits), "{at}: {value} fits none of {schema}");
        return;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => return,
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
    assert!(types.contains(&found), "{at}: {value} is not {types:?}");
    if let (Some(known), Some(fields)) = (schema["properties"].as_object(), value.as_object()) {
        check_fields(page, schema, known, fields, at);
    }
    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
        check(page, &schema["items"], item, &format!("{at}[{number}]"));
    }
}

fn check_fields(
    page: &Value,
    schema: &Value,
    known: &Map<String, Value>,
    fields: &Map<String, Value>,
    at: &str,
) {
    for (name, field) in fields {
        let schema = known
            .get(name)
            .unwrap_or_else(|| panic!("{at}: {name} is not described"));
        check(page, schema, field, &format!("{at}.{name}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(
            fields.contains_key(name.as_str().unwrap()),
            "{at}: {name} is missing"
        );
    }
}

/// ListenerCounts every media type object: schema, example and where it is.
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
        match example {
            // Lines, each of the shape.
            Value::String(text) if at.ends_with("x-ndjson") => {
                for line in text.lines() {
                    check(&page, schema, &serde_json::from_str(line).unwrap(), at);
                }
            }
            _ => check(&page, schema, example, at),
        }
    });
    assert!(examples >= 10, "{examples}");
}

#[test]
fn answers_have_the_shapes_that_are_promised() {
    run(async {
        let fake = Fake::with_history(1 << 20);
        fake.accept_tickets(true);
        let http = fake.http();
        fake.login("rj", 0, 1);
        let page = page();
        for (method, path, described, body) in [
            ("POST", "/v1/publish/rj", "/v1/publish/{subject}", "x"),
            ("POST", "/v1/publish?receipts=summary", "/v1/publish", "x\n"),
            ("POST", "/v1/send/rj", "/v1/send/{id}", "x"),
            ("GET", "/v1/history/rj", "/v1/history/{subject}", ""),
            ("GET", "/v1/history/rj?after=x", "/v1/history/{subject}", ""),
            ("GET", "/v1/cursor", "/v1/cursor", ""),
            (
                "PUT",
                "/v1/subscriptions/a/b",
                "/v1/subscriptions/{subscriber}/{subject}",
                "",
            ),
            ("POST", "/v1/subscriptions", "/v1/subscriptions", "1 2\n3"),
            (
                "POST",
                "/v1/subscriptions/remove",
                "/v1/subscriptions/remove",
                "1 2\n3",
            ),
            (
                "GET",
                "/v1/subscriptions/a",
                "/v1/subscriptions/{subscriber}",
                "",
            ),
            ("GET", "/v1/subscribers/b", "/v1/subscribers/{subject}", ""),
            (
                "DELETE",
                "/v1/subscriptions/a/b",
                "/v1/subscriptions/{subscriber}/{subject}",
                "",
            ),
            (
                "PUT",
                "/v1/subscriptions/a",
                "/v1/subscriptions/{subscriber}",
                "3\n",
            ),
            (
                "DELETE",
                "/v1/subscriptions/a",
                "/v1/subscriptions/{subscriber}",
                "",
            ),
            ("DELETE", "/v1/ids/a", "/v1/ids/{id}", ""),
            ("GET", "/v1/sessions/rj", "/v1/sessions/{id}", ""),
            ("DELETE", "/v1/sessions/rj", "/v1/sessions/{id}", ""),
            ("DELETE", "/v1/sessions/rj?ban=1m", "/v1/sessions/{id}", ""),
            (
                "POST",
                "/v1/tickets",
                "/v1/tickets",
                r#"{"ids":["a",7],"ttl":"30s"}"#,
            ),
            (
                "POST",
                "/v1/revocations",
                "/v1/revocations",
                r#"{"id":"a"}"#,
            ),
            (
                "POST",
                "/v1/revocations",
                "/v1/revocations",
                r#"{"jti":"t"}"#,
            ),
            ("GET", "/v1/slowest?limit=1", "/v1/slowest", ""),
            (
                "GET",
                "/v1/explain?subject=a&subscriber=rj",
                "/v1/explain",
                "",
            ),
            ("GET", "/v1/stats", "/v1/stats", ""),
            ("GET", "/healthz", "/healthz", ""),
            ("GET", "/readyz", "/readyz", ""),
        ] {
            let answer = ask(&http, method, path, &[], body).await;
            let operation = &page["paths"][described][method.to_lowercase()];
            let content = &operation["responses"][answer.status.to_string()]["content"];
            let schema = &content["application/json"]["schema"];
            assert!(!schema.is_null(), "{method} {described} {}", answer.status);
            check(&page, schema, &answer.json(), &format!("{method} {path}"));
        }
        let problem = ask(&http, "GET", "/nowhere", &[], "").await.json();
        check(
            &page,
            &page["components"]["schemas"]["Problem"],
            &problem,
            "problem",
        );
    });
}
