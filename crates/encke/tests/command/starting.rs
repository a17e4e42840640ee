//! The start of a server, and errors that prevent it.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Folder, PATIENCE, Server, command, end, run};

/// Waits for the ports file, which a server writes last at its start, and returns its text.
fn until_written(path: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::read_to_string(path) {
            Ok(text) => return text,
            Err(error) => assert!(Instant::now() < deadline, "{path}: {error}"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_ports_file_has_the_addresses_when_the_server_is_ready() {
    let folder = Folder::new();
    let path = folder.path("ports.json");
    let server = Server::start(&["--ports-file", &path]);
    let ports: Value = serde_json::from_str(&until_written(&path)).unwrap();
    assert_eq!(ports["public"], server.public.as_str());
    assert_eq!(ports["control"], server.control.as_str());
    assert_eq!(ports["pid"], server.process.0.id());
}

#[test]
fn each_of_several_listeners_serves_and_is_announced() {
    let folder = Folder::new();
    let path = folder.path("ports.json");
    let listen = [
        "--listen=127.0.0.1:0",
        "--listen=[::1]:0",
        "--listen=127.0.0.2:0",
    ];
    let server = Server::start(&[&listen[..], &["--ports-file", &path]].concat());
    let ports: Value = serde_json::from_str(&until_written(&path)).unwrap();
    let addresses: Vec<&str> = ports["listen"]
        .as_array()
        .unwrap()
        .iter()
        .map(|address| address.as_str().unwrap())
        .collect();
    assert_eq!(ports["public"], addresses[0]);
    assert!(addresses[1].starts_with("[::1]:") && addresses[2].starts_with("127.0.0.2:"));
    for address in addresses {
        let url = format!("http://{address}");
        let listener = server.listen(&["rj", "--url", &url]);
        server.run(&["publish", "rj", "hello"]).done();
        assert_eq!(listener.lines.next(), "hello", "{address}");
    }
}

#[test]
fn with_logs_in_json_the_addresses_are_logged_and_standard_output_is_empty() {
    let folder = Folder::new();
    let path = folder.path("ports.json");
    let mut command = command(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--control",
        "127.0.0.1:0",
    ]);
    command.args(["--log-format", "json", "--ports-file", &path]);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut process = crate::support::Process(command.spawn().unwrap());
    let lines = crate::support::Lines::of(process.0.stderr.take().unwrap());
    let ready: Value = serde_json::from_str(&lines.find("ready")).unwrap();
    let ports: Value = serde_json::from_str(&until_written(&path)).unwrap();
    assert_eq!(ready["public"], ports["public"]);
    process.signal(rustix::process::Signal::TERM);
    assert!(process.wait().success());
    let mut out = String::new();
    std::io::Read::read_to_string(&mut process.0.stdout.take().unwrap(), &mut out).unwrap();
    assert_eq!(out, "");
}

#[test]
fn a_taken_port_is_named_and_nothing_is_left_running() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().unwrap().to_string();
    let free = "127.0.0.1:0";
    let error = run(&["serve", "--listen", &address, "--control", free]).failed(1);
    assert!(
        error.contains(&address) && error.contains("--listen"),
        "{error}"
    );
    let started = Instant::now();
    let error = run(&["serve", "--listen", free, "--control", &address]).failed(1);
    assert!(error.contains(&address), "{error}");
    assert!(started.elapsed() < Duration::from_secs(8));
    // Without a check, a second server would share the port of the first (`SO_REUSEPORT`).
    let server = Server::start(&[]);
    let error = run(&["serve", "--listen", &server.public, "--control", free]).failed(1);
    assert!(error.contains("in use"), "{error}");
}

/// Answers each request with 204, as a receiver of webhooks does, until the test ends.
fn receive_webhooks() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 65_536]);
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        }
    });
    url
}

/// Speaks NATS as far as a server that refuses every client.
fn refuse_nodes() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let info = "INFO {\"server_id\":\"x\",\"version\":\"2.11.0\",\"proto\":1,\
                        \"headers\":true,\"max_payload\":1048576,\"auth_required\":true}\r\n";
            let _ = stream.write_all(info.as_bytes());
            let _ = stream.read(&mut [0; 65_536]);
            let _ = stream.write_all(b"-ERR 'Authorization Violation'\r\n");
        }
    });
    format!("nats://{address}")
}

#[test]
fn what_was_started_is_stopped_in_order_when_a_later_step_fails() {
    let folder = Folder::new();
    let private = |name, text| {
        let path = folder.file(name, text);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    };
    let (url, engine) = (receive_webhooks(), refuse_nodes());
    let secret = private("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let cookie = private("cookie", "cookie");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let taken = taken.local_addr().unwrap().to_string();
    let (file, nowhere) = (folder.file("file", ""), folder.path("nowhere/file"));
    let (data, history) = (folder.path("data"), folder.path("history"));
    let mut flags = vec![
        "--listen=127.0.0.1:0",
        "--control=127.0.0.1:0",
        "--presence",
    ];
    flags.extend(["--log-level", "debug", "--webhook-url", &url]);
    flags.extend(["--webhook-secret-file", &secret]);
    let log = folder.path("access.log");
    let log = ["--access-log", &log];
    let stored = [&log[..], &["--data", &data, "--history-dir", &history]].concat();
    let all = "workers, access log, control API, webhook, clock of the history, clock of \
               presence, history, graph";
    let no_control = all.replace("control API, ", "");
    for (wrong, right, stopped) in [
        (&["--access-log", &nowhere][..], &[][..], "webhook"),
        (&["--cluster", &engine], &log, "access log, webhook"),
        (&["--data", &file], &log, "access log, webhook"),
        (
            &["--history-dir", &file],
            &log,
            "access log, webhook, graph",
        ),
        (
            &["--listen", &taken],
            &stored,
            "access log, webhook, history, graph",
        ),
        (&["--metrics-listen", &taken], &stored, &no_control),
        (
            &[
                "--erlang-name=e@127.0.0.1",
                "--erlang-cookie-file",
                &cookie,
                "--erlang-listen",
                &taken,
            ],
            &stored,
            all,
        ),
        (&["--ports-file", &nowhere], &stored, all),
    ] {
        let mut serve = command(&["serve"]);
        serve.args(&flags).args(right).args(wrong);
        let error = end(serve).failed(1);
        let parts = error
            .lines()
            .filter_map(|line| line.split_once("stopped: "));
        let parts: Vec<_> = parts.map(|(_, part)| part).collect();
        assert_eq!(parts.join(", "), stopped, "{wrong:?}: {error}");
    }
}

#[test]
fn an_address_that_other_machines_reach_needs_an_explicit_setting() {
    let error = run(&["serve", "--listen", "0.0.0.0:0", "--control", "127.0.0.1:0"]).failed(2);
    assert!(error.contains("--allow-anonymous"), "{error}");
    let error = run(&["serve", "--control", "0.0.0.0:0"]).failed(2);
    assert!(error.contains("--control-token-file"), "{error}");
    let server = Server::start(&["--listen=0.0.0.0:0", "--allow-anonymous"]);
    assert!(server.public.starts_with("0.0.0.0:"));
}

#[test]
fn check_config_checks_and_starts_nothing() {
    let folder = Folder::new();
    let good = folder.file("good.toml", "workers = 1\nheartbeat = \"10s\"\n");
    let bad = folder.file("bad.toml", "hartbeat = \"10s\"\nretry = 5\n");
    run(&["serve", "--config", &good, "--check-config"]).done();
    let error = run(&["serve", "--config", &bad, "--check-config"]).failed(2);
    assert!(
        error.contains("did you mean heartbeat?") && error.contains("`retry`"),
        "{error}"
    );
    let mut misspelt = command(&["serve", "--check-config"]);
    misspelt.env("ENCKE_WORKRS", "3");
    assert!(end(misspelt).failed(2).contains("ENCKE_WORKRS"));
    let error = run(&["serve", "--config", &folder.path("none.toml")]).failed(2);
    assert!(error.contains("none.toml"), "{error}");

    let printed = run(&["serve", "--config", &good, "--print-config"]).done();
    let again = folder.file("again.toml", &printed);
    assert!(printed.contains("heartbeat = \"10s\""), "{printed}");
    run(&["serve", "--config", &again, "--check-config"]).done();
}

#[test]
fn publishing_without_the_token_is_refused() {
    let folder = Folder::new();
    let token = folder.file("token", "s3cret-0123456789\n");
    fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let server = Server::start(&["--control-token-file", &token]);
    let error = server.run(&["publish", "rj", "hello"]).failed(1);
    assert!(error.contains("--control-token"), "{error}");
    server
        .run(&["publish", "rj", "hello", "--control-token", "wrong"])
        .failed(1);
    server
        .run(&[
            "publish",
            "rj",
            "hello",
            "--control-token",
            "s3cret-0123456789",
        ])
        .done();
    server
        .run(&["publish", "rj", "hello", "--control-token-file", &token])
        .done();
    let mut by_variable = server.command(&["publish", "rj", "hello"]);
    by_variable.env("ENCKE_CONTROL_TOKEN", "s3cret-0123456789");
    end(by_variable).done();
    // A flag overrides a variable, even if it is another of the two settings.
    let mut both = server.command(&["publish", "rj", "hello", "--control-token-file", &token]);
    both.env("ENCKE_CONTROL_TOKEN", "wrong");
    end(both).done();
}

#[test]
fn the_page_publishes_only_with_demo_and_with_its_secret() {
    let ask = |address: &str, head: &str| {
        let request = format!("{head}\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        answer
    };
    let publish = |server: &Server, secret: &str| {
        let line = "POST /demo/v1/publish/rj?data=hello HTTP/1.1";
        let origin = format!("Origin: http://{}", server.public);
        let head = format!("{line}\r\n{origin}\r\nX-Encke-Demo: {secret}");
        ask(&server.control, &head)
    };
    let secret = |server: &Server| {
        let origin = format!("Origin: http://{}", server.public);
        let head = format!("GET /v1/demo/secret HTTP/1.1\r\n{origin}");
        let answer = ask(&server.control, &head);
        let secret = answer.split("\"secret\":\"").nth(1)?;
        Some(secret.split('"').next().unwrap().to_owned())
    };
    let server = Server::start(&["--demo"]);
    let found = secret(&server).unwrap();
    assert_eq!(found.len(), 32);
    let answer = publish(&server, &found);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let other = Server::start(&["--demo"]);
    let answer = publish(&other, &found);
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_ne!(secret(&other).unwrap(), found);
    // Without the page's routes, and with a token that every request needs.
    for (flags, status) in [
        (&[][..], "HTTP/1.1 403"),
        (
            &["--demo", "--control-token", "s3cret-0123456789"],
            "HTTP/1.1 401",
        ),
    ] {
        let server = Server::start(flags);
        assert_eq!(secret(&server), None);
        let answer = publish(&server, &found);
        assert!(answer.starts_with(status), "{answer}");
    }
}
