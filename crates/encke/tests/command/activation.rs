//! Listeners that a service manager has opened.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::{Folder, Lines, PATIENCE, Process, command, end};

/// Starts a server as systemd does: the sockets are descriptors 3 and 4, and the process id in the
/// environment is the server's. A shell moves the sockets to these descriptors.
fn activate(first: TcpListener, second: TcpListener, names: Option<&str>) -> Process {
    activate_with(first, second, names, &[])
}

/// As [`activate`], with more flags.
fn activate_with(
    first: TcpListener,
    second: TcpListener,
    names: Option<&str>,
    flags: &[&str],
) -> Process {
    let script = "exec 3<&0 4<&1 0</dev/null 1>&2; LISTEN_FDS=2 LISTEN_PID=$$ exec \"$@\"";
    let program = command(&[&["serve", "--workers", "2"], flags].concat());
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, "sh"])
        .arg(program.get_program())
        .args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(names) = names {
        shell.env("LISTEN_FDNAMES", names);
    }
    shell
        .stdin(Stdio::from(OwnedFd::from(first)))
        .stdout(Stdio::from(OwnedFd::from(second)));
    Process(shell.stderr(Stdio::piped()).spawn().expect("a shell"))
}

fn check(public: &str, control: &str, mut server: Process) {
    // The sockets listen already, so a client that connects early waits.
    let mut stream = TcpStream::connect(public).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    write!(stream, "GET /test/rj HTTP/1.1\r\nHost: {public}\r\n\r\n").expect("writable");
    let lines = Lines::of(stream);
    lines.find("HTTP/1.1 200");
    let mut publish = command(&["publish", "rj", "hello"]);
    publish.env("ENCKE_CONTROL", control);
    end(publish).done();
    lines.find("hello");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

#[test]
fn the_role_of_a_socket_is_by_name_or_by_position() {
    for names in [None, Some("public:control"), Some("control:public")] {
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let mut addresses = sockets
            .each_ref()
            .map(|socket| socket.local_addr().unwrap());
        let [first, second] = sockets;
        let server = activate(first, second, names);
        if names == Some("control:public") {
            addresses.reverse();
        }
        check(&addresses[0].to_string(), &addresses[1].to_string(), server);
    }
}

#[test]
fn an_inherited_socket_needs_authorization_like_any_other() {
    let open = TcpListener::bind("0.0.0.0:0").unwrap();
    let private = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut server = activate(open, private, None);
    assert_eq!(server.wait().code(), Some(2));
}

#[test]
fn a_reload_checks_the_inherited_socket_and_not_the_configured_address() {
    let folder = Folder::new();
    let path = folder.file("encke.toml", "tickets = true\n");
    let open = TcpListener::bind("0.0.0.0:0").unwrap();
    let private = TcpListener::bind("127.0.0.1:0").unwrap();
    let flags = [
        "--config",
        &*path,
        "--ports-file",
        &*folder.path("ports.json"),
    ];
    let mut server = activate_with(open, private, None, &flags);
    let lines = Lines::of(server.0.stderr.take().expect("piped"));
    lines.find("0.0.0.0:");
    folder.file("encke.toml", "tickets = false\n");
    server.signal(Signal::HUP);
    let said = lines.find("reload");
    assert!(
        said.contains("changed nothing") && said.contains("0.0.0.0:"),
        "{said}"
    );
}
