//! Child processes: helpers that execute commands, and the server being measured. They end with
//! this process, also on an interrupt.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::kernel_settings;
use client::control_client::ControlClient;
use machine::failure::{Context, Failure, Outcome};
use machine::host;
use machine::signals::Signals;

/// Time limit for a server to listen.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit for a node of a cluster to be ready, as the engine elects leaders first.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval of checks whether a server listens.
const CHECK_EVERY: Duration = Duration::from_millis(5);

/// Lines shown of the log of a server that ended unexpectedly.
const LAST_LINES: usize = 5;

/// Process ids of the running children, which an interrupt kills.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets up a handler that on an interrupt kills the children, restores settings and exits with 130.
///
/// # Errors
///
/// When the signal handler cannot be set up.
pub fn clean_up_on_interrupt() -> Outcome<()> {
    let signals = Signals::catch_interrupts().context("watching for interrupts")?;
    signals
        .handle(|_| {
            clean_up();
            #[expect(
                clippy::disallowed_methods,
                reason = "everything that an exit skips is cleaned up"
            )]
            std::process::exit(130);
        })
        .context("starting the thread that watches for interrupts")?;
    Ok(())
}

/// Kills the children and restores settings, for a process that is about to exit.
pub fn clean_up() {
    running().iter().for_each(|&pid| kill(pid));
    kernel_settings::revert_all();
}

fn kill(pid: u32) {
    if let Some(pid) = pid.try_into().ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Creates a directory for files of a child, whose name begins with `prefix`. Dropping it removes
/// it.
pub(crate) fn directory(prefix: &str) -> Outcome<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder
        .prefix(prefix)
        .tempdir()
        .context("making a directory")
}

/// Child process. Dropping it kills it and waits for its end.
#[derive(Debug)]
pub(crate) struct OwnedChild(Child);

impl OwnedChild {
    /// Starts the process in its own process group.
    pub(crate) fn spawn(command: &mut Command) -> Outcome<Self> {
        let program = command.get_program().to_owned();
        // An interrupt from the keyboard goes to the whole process group, but only this process
        // must handle it.
        let child = command
            .process_group(0)
            .spawn()
            .context(format_args!("starting {}", Path::new(&program).display()))?;
        running().push(child.id());
        Ok(Self(child))
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until `is_ready`. Returns false if the process ends before that, or the time is over.
    pub(crate) fn wait_until(
        &mut self,
        timeout: Duration,
        mut is_ready: impl FnMut() -> bool,
    ) -> Outcome<bool> {
        let until = Instant::now() + timeout;
        while !is_ready() {
            let ended = self.0.try_wait().context("looking after a process")?;
            if ended.is_some() || Instant::now() > until {
                return Ok(false);
            }
            thread::sleep(CHECK_EVERY);
        }
        Ok(true)
    }
}

impl Drop for OwnedChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        // From now on the process id may be reused.
        running().retain(|&pid| pid != self.0.id());
    }
}

/// Helper process that answers each command line with a line of JSON.
#[derive(Debug)]
pub struct Helper {
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    child: OwnedChild,
}

impl Helper {
    /// Starts this program with `arguments`.
    ///
    /// # Errors
    ///
    /// When the process cannot be started.
    pub fn start(arguments: &[impl AsRef<OsStr>]) -> Outcome<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = OwnedChild::spawn(&mut command)?;
        let input = child.0.stdin.take();
        let output = child.0.stdout.take().expect("its output was piped");
        Ok(Self {
            input,
            output: BufReader::new(output),
            child,
        })
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Sends a command without waiting for the answer.
    ///
    /// # Errors
    ///
    /// When the helper has ended.
    pub fn send(&mut self, line: &str) -> Outcome<()> {
        let input = self.input.as_mut();
        let input = input.expect("input is open until the helper quits");
        writeln!(input, "{line}")
            .and_then(|()| input.flush())
            .context("talking to a helper process")
    }

    /// Waits for the answer to a command.
    ///
    /// # Errors
    ///
    /// When the helper has ended, or its answer is not JSON.
    pub fn answer(&mut self) -> Outcome<Value> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        if read.context("listening to a helper process")? == 0 {
            return Err(Failure::new("a helper process ended; its output is above"));
        }
        serde_json::from_str(&line).context("understanding a helper process")
    }

    /// Sends a command and waits for the answer.
    ///
    /// # Errors
    ///
    /// Those of [`send`](Self::send) and [`answer`](Self::answer).
    pub fn ask(&mut self, line: &str) -> Outcome<Value> {
        self.send(line)?;
        self.answer()
    }

    /// Closes its input and waits for its end.
    pub fn quit(mut self) {
        self.input = None;
        let _ = self.child.0.wait();
    }
}

/// Server being measured.
#[derive(Debug)]
pub struct Server {
    child: OwnedChild,
    /// Address of its public listener.
    pub public: SocketAddr,
    /// URL of its control listener.
    pub control_url: String,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    /// Killed by [`Server::kill`] and not started again.
    was_killed: bool,
}

impl Server {
    /// Starts `program serve` with `arguments` on free loopback ports and waits until it is
    /// healthy.
    ///
    /// # Errors
    ///
    /// When the process cannot be started, or does not become healthy in time; the error has its
    /// log.
    pub fn start(program: &Path, arguments: &[String]) -> Outcome<Self> {
        let addresses = host::free_loopback_addresses(2)?;
        let mut server = Self::launch(program, addresses[0], addresses[1], arguments)?;
        server.wait_until_healthy()?;
        Ok(server)
    }

    /// Starts `program serve` on these addresses without waiting for it.
    ///
    /// # Errors
    ///
    /// When the process cannot be started.
    pub(crate) fn launch(
        program: &Path,
        public: SocketAddr,
        control: SocketAddr,
        arguments: &[String],
    ) -> Outcome<Self> {
        let log = std::env::temp_dir().join(format!("encke-bench-{}.log", public.port()));
        let mut all = vec!["serve".to_owned()];
        all.extend(["--listen".to_owned(), public.to_string()]);
        all.extend(["--control".to_owned(), control.to_string()]);
        all.extend_from_slice(arguments);
        Ok(Self {
            child: spawn(program, &all, &log)?,
            public,
            control_url: format!("http://{control}"),
            program: program.to_owned(),
            arguments: all,
            log,
            was_killed: false,
        })
    }

    /// Kills the process (`kill -9`), starts another one with the same arguments, and waits until
    /// it is healthy.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    pub fn restart(&mut self) -> Outcome<()> {
        self.kill()?;
        self.revive()?;
        self.wait_until_healthy()
    }

    /// Kills the process (`kill -9`).
    ///
    /// # Errors
    ///
    /// When it cannot be waited for.
    pub(crate) fn kill(&mut self) -> Outcome<()> {
        self.was_killed = true;
        let _ = self.child.0.kill();
        let ended = self.child.0.wait();
        ended.context("waiting for the server's end").map(drop)
    }

    /// Starts another process with the same arguments, without waiting for it.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn revive(&mut self) -> Outcome<()> {
        self.child = spawn(&self.program, &self.arguments, &self.log)?;
        self.was_killed = false;
        Ok(())
    }

    /// Waits until the server is ready for clients.
    ///
    /// # Errors
    ///
    /// When it has ended, or is not ready in time; the error has its log.
    pub(crate) fn wait_until_ready(&mut self) -> Outcome<()> {
        self.wait_until(ControlClient::is_ready, READY_TIMEOUT)
    }

    fn wait_until_healthy(&mut self) -> Outcome<()> {
        self.wait_until(ControlClient::is_healthy, START_TIMEOUT)
    }

    fn wait_until(
        &mut self,
        condition: fn(&mut ControlClient) -> bool,
        timeout: Duration,
    ) -> Outcome<()> {
        let mut control = self.control()?;
        if self.child.wait_until(timeout, || condition(&mut control))? {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the server did not start to listen; its log:\n{}",
            self.log_text().trim()
        )))
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Returns the relevant lines of its log: a panic, or the last lines.
    fn relevant_log_lines(&self) -> String {
        let said = self.log_text();
        let lines: Vec<&str> = said.lines().collect();
        let from = lines.iter().position(|line| line.contains("panicked at"));
        let from = from.unwrap_or(lines.len().saturating_sub(LAST_LINES));
        let to = lines.len().min(from + LAST_LINES);
        lines[from..to].join("\n")
    }

    /// Creates a client of its control listener.
    ///
    /// # Errors
    ///
    /// When the address of the control listener is invalid.
    pub fn control(&self) -> Outcome<ControlClient> {
        ControlClient::new(&self.control_url, None)
    }
}

/// Starts a server whose output goes to `log`.
fn spawn(program: &Path, arguments: &[String], log: &Path) -> Outcome<OwnedChild> {
    let file = File::create(log).context(format_args!("creating {}", log.display()))?;
    let mut command = Command::new(program);
    // Settings in the user's environment must not affect the server.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ENCKE_") {
            command.env_remove(name);
        }
    }
    command
        // Store nothing on disk unless `arguments` say so: flags override the environment.
        .env("ENCKE_MEMORY", "true")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(file.try_clone().context("sharing the log")?)
        .stderr(file);
    OwnedChild::spawn(&mut command)
}

impl Drop for Server {
    /// Reports a server that ended by itself, with its log. Otherwise removes the log.
    fn drop(&mut self) {
        match self.child.0.try_wait() {
            Ok(Some(status)) if !self.was_killed => eprintln!(
                "the server ended by itself ({status}); its log {} says:\n{}",
                self.log.display(),
                self.relevant_log_lines()
            ),
            _ => drop(std::fs::remove_file(&self.log)),
        }
    }
}
