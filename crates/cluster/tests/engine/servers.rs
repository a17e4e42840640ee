//! Real NATS servers on loopback, with their data in a temporary directory.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cluster::{Credentials, LogOptions, Options, ServerAddress, Storage, TlsFiles};
use parking_lot::RwLock;
use tempfile::TempDir;

/// Held while a program is started: until then it has the files of this process, and their locks. A
/// test that opens a directory twice reads it meanwhile.
pub(crate) static STARTS: RwLock<()> = RwLock::new(());

/// One or more servers that form one engine. Stopped when dropped.
pub(crate) struct Servers {
    binary: PathBuf,
    directory: TempDir,
    ports: Vec<u16>,
    children: Vec<Option<Child>>,
    storage: Storage,
}

impl Servers {
    /// Starts `count` servers; `None` if there is no server to start. `extra` is added to the
    /// configuration of each.
    pub(crate) fn start(count: usize, extra: &str) -> Option<Self> {
        Self::start_with(count, extra, true)
    }

    /// Starts a server without storage.
    pub(crate) fn start_without_jetstream() -> Option<Self> {
        Self::start_with(1, "", false)
    }

    fn start_with(count: usize, extra: &str, has_jetstream: bool) -> Option<Self> {
        let binary = find()?;
        let directory = TempDir::new().unwrap();
        let ports = free_ports(2 * count);
        let (ports, routes) = ports.split_at(count);
        for (number, (port, route)) in ports.iter().zip(routes).enumerate() {
            let others: Vec<_> = routes
                .iter()
                .map(|route| format!("\"nats://127.0.0.1:{route}\""))
                .collect();
            let cluster = match count {
                1 => String::new(),
                _ => format!(
                    "cluster {{ name: test, listen: \"127.0.0.1:{route}\", routes: [{}] }}\n",
                    others.join(", ")
                ),
            };
            let store = directory.path().join(format!("s{number}"));
            let mut text =
                format!("server_name: s{number}\nlisten: \"127.0.0.1:{port}\"\n{cluster}{extra}\n");
            if has_jetstream {
                let store = store.display();
                text.push_str(&format!(
                    "jetstream {{ store_dir: \"{store}\", sync_interval: always, \
                     max_mem: 256MB, max_file: 2GB }}\n"
                ));
            }
            fs::write(config_file(directory.path(), number), text).unwrap();
        }
        let mut servers = Self {
            binary,
            directory,
            ports: ports.to_vec(),
            children: (0..count).map(|_| None).collect(),
            storage: Storage::File,
        };
        for number in 0..count {
            servers.run(number);
        }
        Some(servers)
    }

    /// Makes nodes create a log in the memory of the servers.
    pub(crate) fn keep_log_in_memory(&mut self) {
        self.storage = Storage::Memory;
    }

    /// Starts server `number`, which must not be running.
    pub(crate) fn run(&mut self, number: usize) {
        let log = self.directory.path().join(format!("s{number}.log"));
        let log = fs::File::options().create(true).append(true).open(log);
        let log = log.unwrap();
        let _starts = STARTS.write();
        let child = Command::new(&self.binary)
            .arg("-c")
            .arg(config_file(self.directory.path(), number))
            .stdout(log.try_clone().unwrap())
            .stderr(Stdio::from(log))
            .spawn()
            .unwrap();
        self.children[number] = Some(child);
    }

    /// Kills server `number` with SIGKILL.
    pub(crate) fn kill(&mut self, number: usize) {
        let mut child = self.children[number].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a signal, such as `STOP`, to server `number`.
    pub(crate) fn signal(&self, number: usize, signal: &str) {
        let child = self.children[number].as_ref().unwrap();
        let _starts = STARTS.write();
        let kill = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(child.id().to_string())
            .status();
        assert!(kill.unwrap().success());
    }

    /// Options of a node that uses these servers, with a small log.
    pub(crate) fn options(&self) -> Options {
        let address = |port| format!("nats://127.0.0.1:{port}");
        let parse = |port| address(port).parse::<ServerAddress>().unwrap();
        Options {
            servers: self.ports.iter().map(parse).collect(),
            cluster: "test".parse().unwrap(),
            node: "n1".parse().unwrap(),
            credentials: Credentials::None,
            tls: TlsFiles::default(),
            log: LogOptions {
                replicas: self.ports.len(),
                bytes: 64 << 20,
                storage: self.storage,
            },
            event_bytes_max: 64 << 10,
            patience: std::time::Duration::from_secs(30),
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn config_file(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("s{number}.conf"))
}

/// Returns the path of the server's program.
fn find() -> Option<PathBuf> {
    let named = env::var_os("NATS_SERVER").map(PathBuf::from);
    if let Some(path) = named.filter(|path| path.is_file()) {
        return Some(path);
    }
    let path = env::var_os("PATH")?;
    let mut files = env::split_paths(&path).map(|directory| directory.join("nats-server"));
    files.find(|file| file.is_file())
}

/// Returns ports that are free now.
#[expect(clippy::disallowed_types, reason = "a port is free if it can be bound")]
fn free_ports(count: usize) -> Vec<u16> {
    let bind = |_| std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners: Vec<_> = (0..count).map(bind).collect();
    let port = |listener: &std::net::TcpListener| listener.local_addr().unwrap().port();
    listeners.iter().map(port).collect()
}
