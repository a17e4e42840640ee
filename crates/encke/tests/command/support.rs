//! Commands under test. Each process is killed by its id at the end of its test, even after a
//! panic.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketType};
use rustix::process::{Pid, Signal, kill_process};

/// Longest wait of a test. On an idle machine nothing takes a tenth of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns an address of this machine whose port the kernel gives to no other socket while the
/// returned one is open. A server can be told to listen there, also again after a restart.
pub(crate) fn hold_port() -> (OwnedFd, String) {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    net::sockopt::set_socket_reuseaddr(&socket, true).expect("a socket");
    let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    net::bind(&socket, &any).expect("a free port");
    let bound = net::getsockname(&socket).expect("it is bound");
    let address = SocketAddrV4::try_from(bound).expect("an IPv4 address");
    (socket, address.to_string())
}

/// Returns the command, without the `ENCKE_` variables of the environment of the tests.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_encke"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ENCKE_") {
            command.env_remove(name);
        }
    }
    command
        .env_remove("NOTIFY_SOCKET")
        // By default no test leaves a data directory behind.
        .env("ENCKE_MEMORY", "true")
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Runs a command that ends by itself, and returns its output and exit code.
pub(crate) fn run(arguments: &[&str]) -> Said {
    end(command(arguments))
}

/// Runs a prepared command, as [`run`] does.
pub(crate) fn end(mut command: Command) -> Said {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = Process(command.spawn().expect("the binary starts"));
    child.output()
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("output is UTF-8"),
            err: String::from_utf8(output.stderr).expect("errors are UTF-8"),
        }
    }
}

impl Said {
    /// Asserts that the exit code is 0, and returns the standard output.
    #[track_caller]
    pub(crate) fn done(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// Asserts that the exit code is `code`, and returns the standard error.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.err
    }
}

/// A child process that is killed when this is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).expect("process ids are small");
        kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("it is there");
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().expect("it is our child") {
                return status;
            }
            assert!(Instant::now() < deadline, "the process does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn output(mut self) -> Said {
        let (out, err) = (self.0.stdout.take(), self.0.stderr.take());
        let read = |pipe: Option<Box<dyn Read + Send>>| {
            thread::spawn(move || {
                let mut text = Vec::new();
                pipe.expect("piped")
                    .read_to_end(&mut text)
                    .expect("readable");
                text
            })
        };
        let out = read(out.map(|pipe| Box::new(pipe) as _));
        let err = read(err.map(|pipe| Box::new(pipe) as _));
        let status = self.wait();
        let stdout = out.join().expect("reads");
        let stderr = err.join().expect("reads");
        Output {
            status,
            stdout,
            stderr,
        }
        .into()
    }
}

/// Lines of an output, as they arrive.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self(lines)
    }

    /// Returns the next line.
    #[track_caller]
    pub(crate) fn next(&self) -> String {
        self.0.recv_timeout(PATIENCE).expect("a line comes")
    }

    /// Reads up to the first line that contains `text`, and returns it.
    #[track_caller]
    pub(crate) fn find(&self, text: &str) -> String {
        loop {
            let line = self.next();
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Returns all lines up to the end of the output.
    pub(crate) fn rest(&self) -> Vec<String> {
        self.0.iter().collect()
    }
}

/// A server on free ports.
pub(crate) struct Server {
    pub(crate) process: Process,
    /// Address of the public listener, `127.0.0.1:…`.
    pub(crate) public: String,
    pub(crate) control: String,
    /// Standard error: its logs.
    pub(crate) errors: Lines,
}

impl Server {
    #[track_caller]
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(command(&["serve"]), arguments)
    }

    /// Starts a server whose public listener has this address.
    #[track_caller]
    pub(crate) fn start_at(address: &str, arguments: &[&str]) -> Self {
        Self::begin(command(&["serve", "--listen", address]), arguments)
    }

    #[track_caller]
    pub(crate) fn start_with(mut command: Command, arguments: &[&str]) -> Self {
        if !arguments
            .iter()
            .any(|argument| argument.starts_with("--listen"))
        {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        Self::begin(command, arguments)
    }

    #[track_caller]
    fn begin(mut command: Command, arguments: &[&str]) -> Self {
        command.args(["--control", "127.0.0.1:0"]).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process(command.spawn().expect("the binary starts"));
        let lines = Lines::of(process.0.stdout.take().expect("piped"));
        let errors = Lines::of(process.0.stderr.take().expect("piped"));
        let address = |name: &str| {
            let line = lines.find(name);
            let url = line.split_whitespace().nth(1).expect("an address");
            url.trim_start_matches("http://")
                .trim_end_matches('/')
                .to_owned()
        };
        let (public, control) = (address("public "), address("control "));
        Self {
            process,
            public,
            control,
            errors,
        }
    }

    /// Returns a command whose server is this one.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("ENCKE_CONTROL", format!("http://{}", self.control));
        command.env("ENCKE_URL", format!("http://{}", self.public));
        command
    }

    /// Runs a command whose server is this one.
    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        end(self.command(arguments))
    }

    /// Runs such a command with this standard input.
    pub(crate) fn feed(&self, arguments: &[&str], input: &str) -> Said {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = Process(command.spawn().expect("the binary starts"));
        let mut pipe = process.0.stdin.take().expect("piped");
        let input = input.to_owned();
        let writer = thread::spawn(move || pipe.write_all(input.as_bytes()));
        let said = process.output();
        writer
            .join()
            .expect("writes")
            .expect("the command reads all its input");
        said
    }

    /// Starts `encke listen`, and waits until it is connected.
    #[track_caller]
    pub(crate) fn listen(&self, arguments: &[&str]) -> Listener {
        let mut command = self.command(&["listen"]);
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = Process(command.spawn().expect("the binary starts"));
        let lines = Lines::of(process.0.stdout.take().expect("piped"));
        let errors = Lines::of(process.0.stderr.take().expect("piped"));
        errors.find("listening at");
        Listener {
            process,
            lines,
            errors,
        }
    }

    /// Opens a stream, and reads its head.
    pub(crate) fn stream(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.public).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n",
            self.public
        )
        .expect("writable");
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).expect("a head comes");
            head.push(byte[0]);
        }
        assert!(
            head.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&head)
        );
        stream
    }
}

/// A running `encke listen`.
pub(crate) struct Listener {
    pub(crate) process: Process,
    pub(crate) lines: Lines,
    pub(crate) errors: Lines,
}

/// A directory that is removed when this is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("command-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Creates a file with this text, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("a file can be written");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
