//! Who may read what: every path, each place of a proof, each proof, against one table.

use auth::{Policy, PolicySettings};

use super::{world, world_with};
use crate::sim::tokens::{bearer, policy, settings, token};
use crate::sim::world::{World, id};

const IDS: [&str; 8] = [
    "alice", "bob", "news", "team/1", "team/", "team", "42", "alice2",
];

/// Claims of tokens, with the ids that they allow out of [`IDS`].
const TOKENS: [(&str, &[&str]); 4] = [
    (r#""sub":"alice""#, &["alice"]),
    (
        r#""sub":"alice","encke":{"ids":["news","team/*"]}"#,
        &["alice", "news", "team/1", "team/"],
    ),
    (r#""sub":"alice","encke":{"ids":["*"]}"#, &IDS),
    (r#""sub":"42""#, &["42"]),
];

/// Targets of streams of one id.
fn targets(id: &str) -> Vec<String> {
    let path = id.replace('/', "%2F");
    let of_transport = |transport| {
        [
            format!("/{transport}/{path}"),
            format!("/{transport}?id={path}"),
            format!("/{transport}/?x=y&id={path}"),
            format!("/{transport}?%69d={path}"),
        ]
    };
    ["events", "stream", "test"]
        .into_iter()
        .flat_map(of_transport)
        .collect()
}

/// Places of a token: a part of the query, and lines of fields.
fn places(token: &str) -> [(String, String); 5] {
    let field = |line: String| (String::new(), line + "\r\n");
    let query = |query: String| (query, String::new());
    [
        field(format!("Authorization: Bearer {token}")),
        field(format!("authorization: bearer   {token} ")),
        field(format!("Cookie: a=b; session={token}; c=d")),
        query(format!("jwt={token}")),
        query(format!("access_token={token}")),
    ]
}

fn with_query(target: &str, query: &str) -> String {
    match (target.contains('?'), query) {
        (_, "") => target.to_owned(),
        (true, _) => format!("{target}&{query}"),
        (false, _) => format!("{target}?{query}"),
    }
}

/// Sends a request and returns the status. Checks that a stream that is opened is logged in as
/// `ids`, and that nothing else is.
fn ask(world: &mut World, method: &str, target: &str, fields: &str, ids: &[&str]) -> u16 {
    let client = world.request(method, target, fields);
    world.turn();
    let status = world.status(client);
    let is_open = status == 200 && method == "GET";
    let online = world.handle.router().online();
    assert_eq!(
        online,
        if is_open { ids.len() } else { 0 },
        "{method} {target}"
    );
    for name in ids {
        let sessions = world.handle.router().sessions(&id(name));
        assert_eq!(
            sessions.len(),
            usize::from(is_open),
            "{method} {target}: {name}"
        );
    }
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    status
}

#[test]
fn a_token_opens_streams_of_the_ids_that_it_allows_by_any_path_and_place() {
    for (claims, allowed) in TOKENS {
        let mut world = world_with(settings(policy()));
        for (query, fields) in places(&token(claims)) {
            for name in IDS {
                let expected = if allowed.contains(&name) { 200 } else { 403 };
                for target in targets(name) {
                    let target = with_query(&target, &query);
                    for method in ["GET", "HEAD"] {
                        let status = ask(&mut world, method, &target, &fields, &[name]);
                        assert_eq!(status, expected, "{method} {target} with {claims}");
                    }
                }
            }
        }
        world.pass(std::time::Duration::from_secs(5));
        world.assert_empty();
    }
}

#[test]
fn one_id_among_several_that_is_not_allowed_refuses_the_whole_request() {
    let mut world = world_with(settings(policy()));
    let fields = bearer(&token(r#""sub":"alice","encke":{"ids":["news"]}"#));
    for (target, status) in [
        ("/events/alice,news", 200),
        ("/events?id=news&id=alice", 200),
        ("/events/alice,bob", 403),
        ("/events/bob,alice", 403),
        ("/events?id=alice&id=bob", 403),
        ("/events/alice?id=alice", 400),
        ("/events/alice?id=bob", 400),
        ("/events/alice%2Cbob", 403),
        ("/events/Alice", 403),
        ("/events/alice%20", 403),
    ] {
        let ids: &[&str] = match status {
            200 => &["alice", "news"],
            _ => &[],
        };
        assert_eq!(
            ask(&mut world, "GET", target, &fields, ids),
            status,
            "{target}"
        );
    }
}

#[test]
fn an_id_that_is_refused_is_not_interned() {
    let mut world = world_with(settings(policy()));
    let fields = bearer(&token(r#""sub":"alice""#));
    let ids = world.handle.graph().counts().ids;
    for n in 0..10 {
        let target = format!("/events/stranger{n}");
        assert_eq!(ask(&mut world, "GET", &target, &fields, &[]), 403);
    }
    assert_eq!(world.handle.graph().counts().ids, ids);
}

#[test]
fn a_request_without_ids_opens_the_stream_of_the_subject() {
    let mut world = world_with(settings(policy()));
    for path in ["/events", "/events/", "/stream", "/test/"] {
        for (query, fields) in places(&token(r#""sub":"alice","encke":{"ids":["news"]}"#)) {
            let target = with_query(path, &query);
            let status = ask(&mut world, "GET", &target, &fields, &["alice"]);
            assert_eq!(status, 200, "{target}");
        }
    }
    let fields = bearer(&token(r#""encke":{"ids":["*"]}"#));
    assert_eq!(
        ask(&mut world, "GET", "/events", &fields, &[]),
        400,
        "no subject"
    );
    assert_eq!(
        ask(&mut world, "GET", "/events?id=", &fields, &[]),
        400,
        "an empty id"
    );
    assert_eq!(
        ask(&mut world, "GET", "/events/bob", &fields, &["bob"]),
        200
    );
}

#[test]
fn the_user_of_a_trusted_proxy_reads_its_own_stream_only() {
    let mut world = world_with(settings(policy()));
    for (target, status) in [
        ("/events", 200),
        ("/stream/alice", 200),
        ("/events/bob", 403),
    ] {
        let ids: &[&str] = match status {
            200 => &["alice"],
            _ => &[],
        };
        world.next_at_address(0);
        let fields = "X-User: alice\r\n";
        assert_eq!(
            ask(&mut world, "GET", target, fields, ids),
            status,
            "{target}"
        );
        // The next one comes from another address.
        assert_eq!(ask(&mut world, "GET", target, fields, &[]), 400, "{target}");
    }
}

#[test]
fn without_a_policy_every_client_reads_every_id() {
    let mut world = world();
    for name in IDS {
        for target in targets(name) {
            for method in ["GET", "HEAD"] {
                assert_eq!(
                    ask(&mut world, method, &target, "", &[name]),
                    200,
                    "{target}"
                );
            }
        }
    }
    assert_eq!(ask(&mut world, "GET", "/events", "", &[]), 400);
    // What no policy asks for is not looked at.
    let fields = "Cookie: session=x\r\nAuthorization: Bearer x\r\nX-User: x\r\n";
    assert_eq!(
        ask(
            &mut world,
            "GET",
            "/events/bob?jwt=x&ticket=x",
            fields,
            &["bob"]
        ),
        200
    );
}

#[test]
fn a_token_counts_only_where_the_policy_says() {
    let keys = policy().keys("test").cloned().unwrap();
    let policy = Policy::new(PolicySettings::default()).with_keys("test", keys);
    let mut world = world_with(settings(policy));
    for (nth, (query, fields)) in places(&token(r#""sub":"alice""#)).iter().enumerate() {
        let target = with_query("/events", query);
        let expected = if nth < 2 { 200 } else { 401 };
        let status = ask(&mut world, "GET", &target, fields, &["alice"]);
        assert_eq!(status, expected, "{target} {fields}");
    }
    assert_eq!(
        ask(&mut world, "GET", "/events", "X-User: alice\r\n", &[]),
        401
    );
}
