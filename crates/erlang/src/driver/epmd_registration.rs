//! Registration with epmd, which lasts as long as a connection to it. It has its own thread, which
//! blocks in a read.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::Settings;
use crate::epmd::{self, Registration};

/// Delay before another attempt: the first one, and the maximum.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// Time limit of an answer from epmd.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// The registration of a node with epmd.
struct EpmdRegistration {
    settings: Settings,
    port: u16,
    /// The last warning. The same warning is not logged twice in a row.
    last_warning: Option<String>,
}

/// Starts a thread that registers the node, and registers it again whenever epmd restarts.
pub(super) fn keep_registered(settings: &Settings, port: u16) -> io::Result<()> {
    let mut registration = EpmdRegistration {
        settings: settings.clone(),
        port,
        last_warning: None,
    };
    let run = move || {
        let mut delay = RETRY.0;
        loop {
            match registration.register() {
                Ok(connection) => {
                    delay = RETRY.0;
                    registration.last_warning = None;
                    tracing::info!(
                        "registered with epmd as {}",
                        registration.settings.name.alive()
                    );
                    wait_for_end(connection);
                    tracing::warn!("epmd has ended; the node registers again when epmd is back");
                }
                Err(problem) if registration.last_warning.as_ref() != Some(&problem) => {
                    tracing::warn!("{problem}");
                    registration.last_warning = Some(problem);
                }
                Err(_) => {}
            }
            thread::sleep(delay);
            delay = (delay * 2).min(RETRY.1);
        }
    };
    thread::Builder::new()
        .name("encke-epmd".to_owned())
        .spawn(run)
        .map(drop)
}

/// Waits until epmd closes the connection. It sends nothing before.
fn wait_for_end(mut connection: TcpStream) {
    let mut block = [0; 64];
    while matches!(connection.read(&mut block), Ok(count) if count > 0) {}
}

impl EpmdRegistration {
    fn register(&self) -> Result<TcpStream, String> {
        let mut connection = self.connect()?;
        let failed = |error: io::Error| format!("epmd does not answer: {error}");
        connection
            .set_read_timeout(Some(ANSWER_TIME))
            .map_err(failed)?;
        connection
            .write_all(&epmd::register(&self.settings.name, self.port))
            .map_err(failed)?;
        let mut answer = Vec::new();
        let registration = loop {
            let mut byte = [0];
            match connection.read(&mut byte).map_err(failed)? {
                0 => return Err("epmd refused the registration".to_owned()),
                _ => answer.extend(byte),
            }
            match epmd::read_registration(&answer) {
                Ok(None) => {}
                Ok(Some(registration)) => break registration,
                Err(epmd::Malformed) => {
                    return Err(format!(
                        "the program at port {} is not epmd",
                        self.settings.epmd_port
                    ));
                }
            }
        };
        match registration {
            Registration::Done { .. } => {
                connection.set_read_timeout(None).map_err(failed)?;
                Ok(connection)
            }
            Registration::NameTaken => Err(format!(
                "epmd already has a node called {}; stop that node or choose another name",
                self.settings.name.alive()
            )),
        }
    }

    fn connect(&self) -> Result<TcpStream, String> {
        let refused = match TcpStream::connect((Ipv4Addr::LOCALHOST, self.settings.epmd_port)) {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        let port = self.settings.epmd_port;
        if !self.settings.start_epmd {
            return Err(format!(
                "epmd does not answer at port {port}: {refused}; other nodes cannot find this \
                 one; start `epmd -daemon`, or pass --erlang-start-epmd"
            ));
        }
        let started = Command::new("epmd")
            .args(["-daemon", "-port", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match started {
            Ok(_) => Err(format!(
                "epmd did not answer at port {port}; it was started"
            )),
            Err(error) => Err(format!(
                "epmd does not answer at port {port} and cannot be started: {error}; install \
                 erlang-base, or start epmd by other means"
            )),
        }
    }
}
