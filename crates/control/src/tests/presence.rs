//! Presence for backends: questions, edges, ids that hide, strangers.

use std::sync::Arc;
use std::time::Duration;

use ::presence::{Feed, IdEdge};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use bytes::Bytes;
use graph::{Id, Key};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::fake::{Fake, SMALL, ask, run, stream};
use crate::api::Api;
use crate::api::Presence;
use crate::body::chunk;
use crate::routes;
use crate::tokens::Tokens;

const CAPACITY: usize = 5;

/// A server with presence, whose presence thread is the test.
struct World {
    fake: Fake,
    api: Arc<Api>,
    presence: Presence,
    http: Router,
}

impl World {
    fn new() -> Self {
        Self::with(Tokens::default())
    }

    fn with(tokens: Tokens) -> Self {
        let fake = Fake::with_presence();
        let presence = Presence {
            online: Arc::clone(fake.handle.presence().unwrap().online()),
            feed: Arc::new(Feed::new(CAPACITY, "e")),
        };
        let api = Arc::new(Api {
            presence: Some(presence.clone()),
            ..fake.api_with(tokens)
        });
        Self {
            http: routes::router(Arc::clone(&api)),
            fake,
            api,
            presence,
        }
    }

    fn key(&self, id: &str) -> Key {
        self.fake
            .router()
            .graph()
            .hold(&Id::parse(id).unwrap())
            .unwrap()
    }

    /// An id comes online or goes offline, and that is told.
    fn edge(&self, id: &str, online: bool) {
        self.presence.online.set_online(self.key(id), online);
        let id = Id::parse(id).unwrap();
        self.presence.feed.push(&[IdEdge { id, online }]);
    }

    async fn online(&self, body: &str) -> Value {
        let answer = ask(&self.http, "POST", "/v1/online", &[], body.to_owned()).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    }

    async fn follow(&self, query: &str) -> Lines {
        self.follow_as(query, "").await
    }

    async fn follow_as(&self, query: &str, bearer: &str) -> Lines {
        let mut request = Request::get(format!("/v1/presence{query}"));
        if !bearer.is_empty() {
            request = request.header("authorization", format!("Bearer {bearer}"));
        }
        let request = request.body(Body::empty()).unwrap();
        let response = self.http.clone().oneshot(request).await.unwrap();
        Lines {
            status: response.status().as_u16(),
            body: response.into_body(),
            text: String::new(),
        }
    }
}

/// An answer that goes on.
struct Lines {
    status: u16,
    body: Body,
    text: String,
}

impl Lines {
    /// Returns the next line; `None` when the answer has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let line = serde_json::from_str(line).unwrap();
                self.text = rest.to_owned();
                return Some(line);
            }
            let piece = chunk(&mut self.body).await?.unwrap();
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    async fn expect(&mut self, lines: &[Value]) {
        for line in lines {
            assert_eq!(self.next().await.as_ref(), Some(line));
        }
    }

    /// Returns the ids of a snapshot, sorted, and the cursor behind it.
    async fn snapshot(&mut self) -> (Vec<String>, String) {
        let mut ids = Vec::new();
        let mut first = true;
        loop {
            let line = self.next().await.unwrap();
            assert_eq!(
                (&line["type"], &line["first"]),
                (&json!("snapshot"), &json!(first))
            );
            first = false;
            let online = line["online"].as_array().unwrap();
            ids.extend(online.iter().map(|id| id.to_string().replace('"', "")));
            if line["more"] == json!(false) {
                ids.sort();
                return (ids, line["cursor"].as_str().unwrap().to_owned());
            }
            assert!(line["cursor"].is_null(), "a cursor has all before it");
        }
    }
}

#[test]
fn those_that_are_online_are_answered_as_they_were_spelt() {
    run(async {
        let world = World::new();
        for id in ["alice", "7", "a\"b"] {
            world.edge(id, true);
        }
        world.edge("gone", true);
        world.edge("gone", false);
        let body = r#"["bob", "alice", 7, "7", "gone", 8, "a\"b", "\u0061lice"]"#;
        let expected = json!({"online": ["alice", 7, "7", "a\"b", "alice"]});
        assert_eq!(world.online(body).await, expected);
        assert_eq!(world.online("\"bob\"\n7\n").await, json!({"online": [7]}));
        assert_eq!(world.online("[]").await, json!({"online": []}));
        // A question makes no id known.
        let before = world.fake.router().graph().counts().dictionary_entries;
        world.online(r#"["never seen"]"#).await;
        assert_eq!(
            world.fake.router().graph().counts().dictionary_entries,
            before
        );
    });
}

#[test]
fn a_question_is_the_same_at_every_split() {
    run(async {
        let world = World::new();
        world.edge("alice", true);
        let body = Bytes::from_static(br#"["bob", "alice", 7]"#);
        for at in 1..body.len() {
            let pieces = vec![body.slice(..at), body.slice(at..)];
            let answer = ask(&world.http, "POST", "/v1/online", &[], stream(pieces)).await;
            assert_eq!(answer.json(), json!({"online": ["alice"]}), "split at {at}");
        }
    });
}

#[test]
fn a_question_that_is_none_is_refused_with_the_place() {
    run(async {
        let world = World::new();
        for (body, status, why) in [
            ("{\"ids\":[]}", 400, "id 1"),
            ("[\"a\",", 400, "end the array"),
            ("[\"a\",\"\"]", 400, "id 2"),
            ("[\"a\",[\"b\"]]", 400, "id 2"),
            ("[-1]", 400, "id 1"),
            ("[1.5]", 400, "id 1"),
            ("[9007199254740992]", 400, "id 1"),
            ("[null]", 400, "id 1"),
            ("[\"a\"] x", 400, "continues"),
            ("hello", 400, "id 1"),
        ] {
            let answer = ask(&world.http, "POST", "/v1/online", &[], body).await;
            assert_eq!(answer.status, status, "{body}: {}", answer.text);
            assert!(answer.text.contains(why), "{body}: {}", answer.text);
        }
        let long = format!("[\"{}\"]", "x".repeat(2_000));
        let answer = ask(&world.http, "POST", "/v1/online", &[], long).await;
        assert_eq!(answer.status, 400);
    });
}

#[test]
fn a_reader_gets_who_is_online_then_edges_and_goes_on_where_it_was() {
    run(async {
        let world = World::new();
        for id in ["a", "b", "c", "d", "7"] {
            world.edge(id, true);
        }
        let mut lines = world.follow("").await;
        let (ids, cursor) = lines.snapshot().await;
        assert_eq!((ids.join(","), &*cursor), ("7,a,b,c,d".into(), "e-5"));
        lines
            .expect(&[json!({"type": "heartbeat", "cursor": "e-5"})])
            .await;
        world.edge("a", false);
        world.edge("8", true);
        let edges = [
            json!({"type": "offline", "id": "a", "cursor": "e-6"}),
            json!({"type": "online", "id": 8, "cursor": "e-7"}),
        ];
        lines.expect(&edges).await;
        drop(lines);
        world.edge("a", true);
        let mut lines = world.follow("?cursor=e-6").await;
        lines
            .expect(&[
                json!({"type": "heartbeat", "cursor": "e-6"}),
                edges[1].clone(),
            ])
            .await;
        lines
            .expect(&[json!({"type": "online", "id": "a", "cursor": "e-8"})])
            .await;
        // Nothing happens for a while.
        lines
            .expect(&[json!({"type": "heartbeat", "cursor": "e-8"})])
            .await;
    });
}

#[test]
fn a_reader_that_may_have_missed_edges_is_told_and_gets_who_is_online() {
    run(async {
        let world = World::new();
        for number in 0..20 {
            world.edge(&number.to_string(), number % 2 == 0);
        }
        for (cursor, reason) in [
            ("e-3", "expired"),
            ("before-18", "restart"),
            ("e-21", "unknown"),
            ("", "unknown"),
            ("x", "unknown"),
            ("%ff", ""),
        ] {
            let mut lines = world.follow(&format!("?cursor={cursor}")).await;
            if reason.is_empty() {
                assert_eq!(lines.status, 400);
                continue;
            }
            lines
                .expect(&[json!({"type": "reset", "reason": reason})])
                .await;
            let (ids, at) = lines.snapshot().await;
            assert_eq!((ids.len(), &*at), (10, "e-20"), "{cursor}");
            drop(lines);
            // Its place is free when its reader has noticed.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        // One that reads too slowly, while it is connected.
        let mut lines = world.follow("?cursor=e-20").await;
        lines.next().await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        for number in 0..CAPACITY + 1 {
            world.edge("slow", number % 2 == 0);
        }
        lines
            .expect(&[json!({"type": "reset", "reason": "expired"})])
            .await;
        assert_eq!(lines.snapshot().await.1, "e-26");
    });
}

/// A token that may name ids with the prefix `p:` only.
fn scoped(secret: &str) -> Tokens {
    let text = format!(
        "[[token]]\nname = \"b\"\nsecret = \"{secret}\"\nrights = [\"sessions\"]\n\
         prefixes = [\"p:\"]\n"
    );
    Tokens::parse(&text).unwrap()
}

#[test]
fn a_reader_ends_with_the_server_and_with_its_token_and_readers_are_few() {
    run(async {
        let secret = "secret-of-backend-0123456789";
        let world = World::with(scoped(secret));
        for id in ["p:1", "q:1"] {
            world.edge(id, true);
        }
        let mut lines = world.follow_as("", secret).await;
        assert_eq!(lines.snapshot().await.0, ["p:1"], "others are not named");
        lines.next().await.unwrap();
        for id in ["q:2", "p:2"] {
            world.edge(id, true);
        }
        lines
            .expect(&[json!({"type": "online", "id": "p:2", "cursor": "e-4"})])
            .await;
        let mut others: Vec<Lines> = Vec::new();
        for _ in 1..SMALL.feeds_max {
            others.push(world.follow_as("", secret).await);
        }
        assert_eq!(world.follow_as("", secret).await.status, 503);
        drop(others);
        // Its place is free when its reader has noticed.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut other = world.follow_as("?cursor=e-4", secret).await;
        assert_eq!(other.status, 200);
        let newer = scoped("secret-of-backend-9876543210");
        world.api.tokens.replace(newer).unwrap();
        while lines.next().await.is_some() {}
        while other.next().await.is_some() {}
        let mut last = world.follow_as("", "secret-of-backend-9876543210").await;
        last.snapshot().await;
        world.fake.handle.drain();
        while last.next().await.is_some() {}
    });
}

#[test]
fn an_id_hides_and_is_shown_again_and_its_key_stays_its_own() {
    run(async {
        let world = World::new();
        world.edge("alice", true);
        let put = async |id: &str, body: &str| {
            let path = format!("/v1/presence/{id}");
            ask(&world.http, "PUT", &path, &[], body.to_owned()).await
        };
        let hidden = json!({"id": "alice", "online": true, "hidden": true});
        for _ in 0..2 {
            assert_eq!(put("alice", r#"{"hidden":true}"#).await.json(), hidden);
        }
        let key = world.key("alice");
        assert!(world.presence.online.is_hidden(key));
        assert!(!world.presence.online.is_visible(key));
        let answer = ask(&world.http, "GET", "/v1/presence/alice", &[], "").await;
        assert_eq!(answer.json(), hidden, "the backend sees it");
        assert_eq!(
            world.online("[\"alice\"]").await,
            json!({"online": ["alice"]})
        );
        assert_eq!(
            world.follow("").await.snapshot().await.0,
            [""; 0],
            "others do not"
        );
        // An id that nobody knows may hide before it comes.
        assert_eq!(
            put("stranger", r#"{"hidden":true}"#).await.json()["hidden"],
            true
        );
        let entries = || world.fake.router().graph().counts().dictionary_entries;
        assert_eq!(entries(), 2);
        assert_eq!(
            put("stranger", r#"{"hidden":false}"#).await.json()["hidden"],
            false
        );
        assert_eq!(entries(), 1, "its key is free");
        assert_eq!(
            put("alice", r#"{"hidden":false}"#).await.json()["hidden"],
            false
        );
        assert!(world.presence.online.is_visible(key));
        assert_eq!(world.presence.online.hidden_count(), 0);
        for number in 0..SMALL.hidden_ids_max {
            assert_eq!(
                put(&number.to_string(), r#"{"hidden":true}"#).await.status,
                200
            );
        }
        assert_eq!(put("99", r#"{"hidden":true}"#).await.status, 503);
        for body in [
            "",
            "true",
            "{}",
            r#"{"hidden":1}"#,
            r#"{"hidden":true,"x":1}"#,
            "[true]x",
        ] {
            assert_eq!(put("alice", body).await.status, 400, "{body}");
        }
        let long = format!("{{\"hidden\":true,\"x\":\"{}\"}}", "x".repeat(5_000));
        assert_eq!(put("alice", &long).await.status, 413);
    });
}

#[test]
fn a_token_with_prefixes_asks_about_its_own_ids_only() {
    run(async {
        let secret = "secret-of-backend-0123456789";
        let world = World::with(scoped(secret));
        world.edge("q:1", true);
        let bearer = format!("Bearer {secret}");
        let headers = [("authorization", &*bearer)];
        let hide = r#"{"hidden":true}"#;
        for (method, path, body, status) in [
            ("POST", "/v1/online", r#"["p:1"]"#, 200),
            ("POST", "/v1/online", r#"["p:1","q:1"]"#, 403),
            ("GET", "/v1/presence/p:1", "", 200),
            ("GET", "/v1/presence/q:1", "", 403),
            ("PUT", "/v1/presence/p:1", hide, 200),
            ("PUT", "/v1/presence/q:1", hide, 403),
        ] {
            let answer = ask(&world.http, method, path, &headers, body).await;
            assert_eq!(answer.status, status, "{method} {path}: {}", answer.text);
        }
        assert_eq!(world.presence.online.hidden_count(), 1);
    });
}

#[test]
fn a_server_without_presence_says_how_to_get_it() {
    run(async {
        let http = Fake::new().http();
        for (method, path, body) in [
            ("POST", "/v1/online", "[]"),
            ("GET", "/v1/presence", ""),
            ("GET", "/v1/presence/a", ""),
            ("PUT", "/v1/presence/a", r#"{"hidden":true}"#),
        ] {
            let answer = ask(&http, method, path, &[], body).await;
            assert_eq!(answer.status, 404, "{method} {path}");
            assert!(answer.text.contains("--presence"), "{}", answer.text);
            assert_eq!(answer.json()["type"], "urn:encke:problem:no-presence");
        }
    });
}
