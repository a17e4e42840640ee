//! Client commands: what one publishes or changes reaches the other through a server.

use serde_json::Value;

use crate::support::{Server, run};

#[test]
fn an_event_reaches_listeners_of_every_transport() {
    let server = Server::start(&[]);
    let listeners = ["sse", "ndjson", "test"]
        .map(|transport| server.listen(&["rj", "--transport", transport, "--count", "2"]));
    let told = server.run(&["publish", "rj", "hello wörld"]).done();
    assert!(
        told.ends_with("1 subscriber, 1 online; written to 3 sessions\n"),
        "{told}"
    );
    server.run(&["publish", "rj", "again"]).done();
    for mut listener in listeners {
        assert_eq!(listener.lines.rest(), ["hello wörld", "again"]);
        assert!(listener.process.wait().success());
    }
}

#[test]
fn a_subscription_takes_effect_with_the_next_event() {
    let server = Server::start(&[]);
    let alice = server.listen(&["alice", "--transport", "ndjson", "--json"]);
    server.run(&["publish", "rj", "unheard"]).done();
    let told = server.run(&["subscribe", "alice", "rj", "7"]).done();
    assert_eq!(
        told,
        "alice is subscribed to rj\nalice is subscribed to 7\n"
    );
    server
        .run(&["publish", "rj", "heard", "--type", "track"])
        .done();
    server
        .run(&["publish", "7", "[1, 2]", "--json-data"])
        .done();
    let told = server.run(&["unsubscribe", "alice", "rj", "--json"]).done();
    assert_eq!(
        told,
        "{\"subscriber\":\"alice\",\"subject\":\"rj\",\"subscribed\":false,\"changed\":true}\n"
    );
    server.run(&["publish", "rj", "unheard"]).done();
    server.run(&["send", "alice", "yours alone"]).done();

    let next = || serde_json::from_str::<Value>(&alice.lines.next()).unwrap();
    let event = next();
    assert_eq!(
        (&event["data"], &event["type"]),
        (&"heard".into(), &"track".into())
    );
    let event = next();
    assert_eq!(
        (&event["data"], &event["subject"]),
        (&serde_json::json!([1, 2]), &7.into())
    );
    assert_eq!(next()["data"], "yours alone");
}

#[test]
fn each_line_of_standard_input_is_an_event() {
    let server = Server::start(&[]);
    let listener = server.listen(&["rj", "--count", "7"]);
    let told = server
        .feed(&["publish", "rj", "-"], "one\ntwo\r\n\nfour")
        .done();
    assert_eq!(told, "published 4 events: written to 4 sessions\n");
    let told = server.feed(&["publish", "rj", "--json"], "five\n").done();
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["written"], 1);
    server
        .feed(&["publish", "rj", "--json-data"], "{\"six\":6}\n")
        .done();
    server.feed(&["send", "rj"], "seven\n").done();
    assert_eq!(
        listener.lines.rest(),
        ["one", "two", "", "four", "five", "{\"six\":6}", "seven"]
    );
}

#[test]
fn a_refused_line_is_named_and_the_others_are_published() {
    let server = Server::start(&["--event-bytes", "64"]);
    let lines = format!("one\n{}\nthree\n", "x".repeat(65));
    let said = server.feed(&["publish", "rj"], &lines);
    assert!(said.out.starts_with("published 2 events"), "{said:?}");
    let error = said.failed(1);
    assert!(
        error.contains("line 2") && error.contains("1 of 3 lines"),
        "{error}"
    );
    let error = server
        .feed(&["publish", "rj", "--json-data"], "1\n{\n")
        .failed(1);
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn lines_are_published_in_one_request() {
    let server = Server::start(&[]);
    let lines: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    let told = server.feed(&["publish", "rj"], &lines).done();
    assert!(told.starts_with("published 20000 events"), "{told}");
}

#[test]
fn a_command_says_whether_it_changed_a_subscription() {
    let server = Server::start(&[]);
    let alice = |verb| server.run(&[verb, "alice", "rj"]).done();
    assert_eq!(alice("subscribe"), "alice is subscribed to rj\n");
    assert_eq!(alice("subscribe"), "alice was already subscribed to rj\n");
    assert_eq!(
        alice("unsubscribe"),
        "alice is no longer subscribed to rj\n"
    );
    assert_eq!(alice("unsubscribe"), "alice was not subscribed to rj\n");
    let told = server.run(&["unsubscribe", "alice", "rj", "--json"]).done();
    assert!(
        told.ends_with(",\"subscribed\":false,\"changed\":false}\n"),
        "{told}"
    );
}

#[test]
fn sessions_are_shown_and_closed() {
    let server = Server::start(&[]);
    assert_eq!(
        server.run(&["sessions", "alice"]).done(),
        "alice has no session\n"
    );
    let listener = server.listen(&["alice", "bob"]);
    let table = server.run(&["sessions", "alice"]).done();
    let (titles, row) = table.split_once('\n').unwrap();
    assert!(titles.starts_with("SESSION"), "{table}");
    assert!(row.contains("sse") && row.contains("alice,bob"), "{table}");
    let json: Value =
        serde_json::from_str(&server.run(&["sessions", "bob", "--json"]).done()).unwrap();
    assert_eq!(json["sessions"][0]["transport"], "sse");
    assert_eq!(
        server.run(&["sessions", "bob", "--close"]).done(),
        "closed 1 session of bob\n"
    );
    listener.errors.find("trying again in");
    // The client reconnects.
    listener.errors.find("listening at");
}

#[test]
fn a_client_without_its_server_says_what_to_do() {
    let nobody = ["--control", "http://127.0.0.1:1"];
    let with_nobody = |arguments: &[&str]| run(&[arguments, &nobody[..]].concat()).failed(1);
    for arguments in [
        &["publish", "rj", "hello"][..],
        &["send", "rj", "hello"],
        &["subscribe", "alice", "rj"],
        &["unsubscribe", "alice", "rj"],
        &["sessions", "rj"],
    ] {
        let error = with_nobody(arguments);
        assert!(error.contains("encke serve"), "{error}");
    }
}

#[test]
fn invalid_arguments_are_exit_code_two() {
    for arguments in [
        &["publish"][..],
        &["publish", "rj", "hello", "--control", "ftp://127.0.0.1"],
        &["publish", "rj", "hello", "--control-token", "s3 cret"],
        &[
            "publish",
            "rj",
            "hello",
            "--control-token-file",
            "/nowhere/token",
        ],
        &["listen"],
        &["listen", "rj", "--url", "ftp://127.0.0.1"],
        &["listen", "rj", "--transport", "raw"],
        &["listen", "rj", "--count", "0"],
        &["subscribe", "alice"],
    ] {
        let error = run(arguments).failed(2);
        assert!(
            error.starts_with("error: ") && !error.contains("s3 cret"),
            "{error}"
        );
    }
}

#[test]
fn the_server_says_why_an_id_is_invalid() {
    let server = Server::start(&[]);
    let error = server.run(&["publish", "a\u{7}b", "hello"]).failed(1);
    assert!(error.contains("control character"), "{error}");
    let error = server.run(&["listen", &"x".repeat(129)]).failed(1);
    assert!(
        error.contains("400") && error.contains("128 bytes"),
        "{error}"
    );
}

// Regression: workers with their own descriptor tables woke the control threads by a descriptor
// that was another file in their table. Receipts never came, or eight bytes were written into a
// stream.
#[test]
fn workers_with_private_tables_settle_receipts_and_answer_about_sessions() {
    let server = Server::start(&["--private-fds", "--workers", "4"]);
    let mut listeners: Vec<_> = (0..12)
        .map(|_| server.listen(&["rj", "--count", "30"]))
        .collect();
    for _ in 0..30 {
        let told = server.run(&["publish", "rj", "hello"]).done();
        assert!(told.ends_with("written to 12 sessions\n"), "{told}");
        server.run(&["sessions", "rj"]).done();
    }
    for listener in &mut listeners {
        assert_eq!(listener.lines.rest(), ["hello"; 30]);
    }
}
