//! Listeners that a service manager has opened.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::{PATIENCE, Process, command, end};

/// Starts a server as systemd does: the sockets are descriptors 3 and 4, and the process id is the
/// server's own. A shell puts them there, from where a child's descriptors can be chosen.
fn activate(first: TcpListener, second: TcpListener, names: Option<&str>) -> Process {
    let script = "exec 3<&0 4<&1 0</dev/null 1>&2; LISTEN_FDS=2 LISTEN_PID=$$ exec \"$@\"";
    let program = command(&["serve", "--workers", "2"]);
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
    Process(shell.stderr(Stdio::null()).spawn().expect("a shell"))
}

fn check(public: &str, control: &str, mut server: Process) {
    // The sockets listen already: who comes early waits.
    let mut stream = TcpStream::connect(public).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    write!(stream, "GET /test/rj HTTP/1.1\r\nHost: {public}\r\n\r\n").expect("writable");
    let lines = crate::support::Lines::of(stream);
    lines.find("HTTP/1.1 200");
    let mut publish = command(&["publish", "rj", "hello"]);
    publish.env("ENCKE_CONTROL", control);
    end(publish).done();
    lines.find("hello");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

#[test]
fn sockets_are_told_apart_by_name_or_by_place() {
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
fn an_inherited_socket_is_judged_like_any_other() {
    let open = TcpListener::bind("0.0.0.0:0").unwrap();
    let private = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut server = activate(open, private, None);
    assert_eq!(server.wait().code(), Some(2));
}
