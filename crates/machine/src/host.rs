//! Host of a measurement: descriptor tables, free ports, and a description for reports.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use crate::failure::{Failure, Outcome};

/// Descriptors that a thread needs in addition to its clients: poller, wakers, standard streams,
/// and those copied from the table that it left.
pub const RESERVED_DESCRIPTORS: u64 = 512;

/// Gives the calling thread its own descriptor table. Descriptors opened afterwards count against a
/// separate limit and must be closed on this thread.
///
/// # Errors
///
/// When the kernel refuses `unshare(CLONE_FILES)`.
pub fn unshare_descriptor_table() -> Outcome<()> {
    unshare(CloneFlags::CLONE_FILES).map_err(|errno| {
        Failure::new(format!(
            "the kernel refused a private descriptor table (unshare(CLONE_FILES): {errno}); run \
             without --private-fds"
        ))
    })
}

/// Returns the soft limit on descriptors of one table.
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _hard)| soft)
}

/// Raises the soft limit on descriptors to the hard limit, if the system allows it.
///
/// # Errors
///
/// When the system refuses.
pub fn raise_descriptor_limit() -> Outcome<()> {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(|error| {
            Failure::new(format!(
                "the limit on open files could not be raised from {soft} to {hard}: {error}"
            ))
        })?;
    }
    Ok(())
}

/// Finds a loopback address that is free to listen on: with a port below 1024 if the process may
/// use one, as clients do not use those.
///
/// # Errors
///
/// When no port can be bound.
pub fn free_loopback_address() -> Outcome<SocketAddr> {
    let first = 600 + u16::try_from(std::process::id() % 400).unwrap_or(0);
    let low = (first..1000).chain(600..first);
    for port in low {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            Err(_) => {}
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|error| Failure::new(format!("no free loopback port to listen on: {error}")))
}

/// Finds `count` different loopback addresses that are free to listen on.
///
/// # Errors
///
/// When a port cannot be bound.
pub fn free_loopback_addresses(count: usize) -> Outcome<Vec<SocketAddr>> {
    // Keep each bound until all are chosen.
    let mut held = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..count {
        let address = free_loopback_address()?;
        let listener = TcpListener::bind(address)
            .map_err(|error| Failure::new(format!("{address} was taken meanwhile: {error}")))?;
        held.push(listener);
        addresses.push(address);
    }
    Ok(addresses)
}

/// Finds the line of a file in `/proc` that starts with `name`, and parses the number after it.
pub fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Description of the host that a result was measured on.
#[derive(Debug, Clone, Serialize)]
pub struct HostInfo {
    /// Model of the processor.
    pub processor: String,
    /// Number of processors available.
    pub cores: usize,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// Kernel release.
    pub kernel: String,
    /// Commit of the working tree, with `+` if it had uncommitted changes.
    pub commit: String,
}

impl HostInfo {
    /// Reads the description of this host.
    pub fn read() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut lines = cpuinfo.lines();
        let model = lines.find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(':'));
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory = number_after(&meminfo, "MemTotal:").unwrap_or(0) as f64;
        Self {
            processor: model.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (memory / 1024.0 / 1024.0 * 10.0).round() / 10.0,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
            commit: commit().unwrap_or_else(|| "unknown".to_owned()),
        }
    }
}

fn commit() -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let mut commit = git(&["rev-parse", "--short", "HEAD"])?;
    if !git(&["status", "--porcelain"])?.is_empty() {
        commit.push('+');
    }
    Some(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_addresses_differ() {
        let addresses = free_loopback_addresses(8).unwrap();
        let ports: std::collections::HashSet<u16> =
            addresses.iter().map(SocketAddr::port).collect();
        assert_eq!(ports.len(), 8);
    }
}
