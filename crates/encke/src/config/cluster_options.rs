//! Settings of a node of a cluster.
//!
//! Owns the check that credentials for the engine are in private files. Must never show a secret.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::cluster::{
    Credentials, LogOptions, Name, Options, SecretText, ServerAddress, Storage, TlsFiles,
};
use cli::files::{read_private, read_public};
use cli::secret::read_private_text;
use cli::values::TIME_MAX;

use super::reader::Reader;
use super::values::{count, nonempty, size_within, time_within};

/// File with the host name of the machine (Linux, proc(5)).
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// The smallest log. A snapshot is due after a quarter of it, which would come too often with less.
const LOG_BYTES_MIN: usize = 16 << 20;

/// Least time without the engine after which clients are sent elsewhere. An election takes up to 9
/// s.
const PATIENCE_MIN: Duration = Duration::from_secs(5);

/// Name of an import's connection to the engine.
const IMPORT: &str = "import";

/// Most replicas of a stream in JetStream.
const REPLICAS_MAX: usize = 5;

impl Reader<'_> {
    /// Returns the settings of the cluster, if this server is a node of one. `has_history_dir` says
    /// whether `history-dir` is set, which a cluster excludes.
    pub(super) fn cluster(
        &mut self,
        event_bytes_max: usize,
        has_history_dir: bool,
    ) -> Option<Options> {
        let node = self.find("node", str::parse).or_else(name_of_machine);
        let options = self.cluster_of_import(event_bytes_max)?;
        if has_history_dir {
            self.problem(
                "--history-dir and --cluster are both given; the log of the cluster is its \
                 history, and each node fills its memory from it; remove --history-dir",
            );
        }
        let Some(node) = node else {
            self.problem(
                "the name of this machine cannot be the name of a node; set --node, for example \
                 to n1",
            );
            return None;
        };
        Some(Options { node, ..options })
    }

    /// Returns the settings with which a graph is imported into a cluster, if one is configured.
    pub(super) fn cluster_of_import(&mut self, event_bytes_max: usize) -> Option<Options> {
        let log = LogOptions {
            replicas: self.get("log-replicas", replicas),
            bytes: self.get("log-bytes", log_bytes) as u64,
            storage: self.get("log-storage", storage),
        };
        let name = self.get("cluster-name", str::parse);
        let patience = self.get("cluster-patience", patience);
        let credentials = self.credentials();
        let tls = self.cluster_tls();
        let mut servers = Vec::new();
        // The text is not shown because it may contain a password.
        for list in self.list("cluster", |text| Ok(self::servers(text))) {
            match list {
                Ok(list) => servers.extend(list),
                Err(needed) => self.problem(format!("--cluster is not valid: {needed}")),
            }
        }
        if servers.is_empty() {
            return None;
        }
        Some(Options {
            servers,
            cluster: name,
            node: IMPORT.parse().ok()?,
            credentials: credentials?,
            tls: tls?,
            log,
            event_bytes_max,
            patience,
        })
    }

    /// Returns the credentials for the engine. Returns `None` and notes a problem if there are
    /// several or half of one.
    fn credentials(&mut self) -> Option<Credentials> {
        let user = self.find("cluster-user", nonempty);
        let password = self.find("cluster-password-file", secret);
        let token = self.find("cluster-token-file", secret);
        let nkey = self.find("cluster-nkey-file", secret);
        let file = self.find("cluster-credentials", |path| {
            read_private_text(Path::new(path)).map(SecretText::new)
        });
        let given = [
            ("--cluster-user", user.is_some()),
            ("--cluster-token-file", token.is_some()),
            ("--cluster-nkey-file", nkey.is_some()),
            ("--cluster-credentials", file.is_some()),
        ];
        let given = given.iter().filter(|(_, is_given)| *is_given);
        let given: Vec<_> = given.map(|&(flag, _)| flag).collect();
        if given.len() > 1 {
            self.problem(format!("{} are given; one is enough", given.join(" and ")));
            return None;
        }
        if user.is_some() != password.is_some() {
            self.problem("--cluster-user and --cluster-password-file belong together; give both");
            return None;
        }
        let password = user.zip(password);
        let password = password.map(|(user, password)| Credentials::Password { user, password });
        let others = token
            .map(Credentials::Token)
            .or(nkey.map(Credentials::Nkey));
        let credentials = password.or(others).or(file.map(Credentials::File));
        Some(credentials.unwrap_or_default())
    }

    /// Returns the files for TLS to the engine, which are read again for each connection. Returns
    /// `None` and notes a problem if one is missing.
    fn cluster_tls(&mut self) -> Option<TlsFiles> {
        let public = |path: &str| read_public(Path::new(path)).map(|_| PathBuf::from(path));
        let private = |path: &str| read_private(Path::new(path)).map(|_| PathBuf::from(path));
        let authorities = self.find("cluster-tls-ca", public);
        let certificate = self.find("cluster-tls-cert", public);
        let key = self.find("cluster-tls-key", private);
        if certificate.is_some() != key.is_some() {
            self.problem("--cluster-tls-cert and --cluster-tls-key belong together; give both");
            return None;
        }
        Some(TlsFiles {
            authorities,
            identity: certificate.zip(key),
        })
    }
}

/// Parses addresses that are separated by commas. Addresses without a scheme have that of the
/// first.
fn servers(text: &str) -> Result<Vec<ServerAddress>, String> {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    let full = |address: &str| match (address.contains("://"), scheme) {
        (false, Some(scheme)) => format!("{scheme}://{address}"),
        _ => address.to_owned(),
    };
    let addresses = text.split(',').map(|address| full(address.trim()));
    addresses.map(|address| address.parse()).collect()
}

/// Returns the host name up to its first dot, if it is valid as the name of a node.
fn name_of_machine() -> Option<Name> {
    let name = fs::read_to_string(HOSTNAME).ok()?;
    name.trim().split('.').next()?.parse().ok()
}

fn secret(path: &str) -> Result<SecretText, String> {
    let text = read_private_text(Path::new(path))?;
    match text.trim() {
        "" => Err(format!("the file {path} is empty")),
        text => Ok(SecretText::new(text)),
    }
}

fn replicas(text: &str) -> Result<usize, String> {
    match count::<usize>(text) {
        // An even number of replicas tolerates no more failures than one replica less.
        Ok(replicas @ ..=REPLICAS_MAX) if replicas % 2 == 1 => Ok(replicas),
        _ => Err("expected 1, 3 or 5".to_owned()),
    }
}

fn log_bytes(text: &str) -> Result<usize, String> {
    size_within(LOG_BYTES_MIN.., text, "at least 16 MiB")
}

fn storage(text: &str) -> Result<Storage, String> {
    match text {
        "file" => Ok(Storage::File),
        "memory" => Ok(Storage::Memory),
        _ => Err("expected file or memory".to_owned()),
    }
}

fn patience(text: &str) -> Result<Duration, String> {
    time_within(PATIENCE_MIN..=TIME_MAX, text, "a time from 5s to a day")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_share_the_scheme_of_the_first() {
        let shown = |text| {
            let servers = servers(text).unwrap();
            servers.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let three = ["tls://a:4222", "tls://b:1", "nats://c:4222"];
        assert_eq!(shown("tls://a, b:1,nats://c"), three);
        assert_eq!(shown("localhost"), ["nats://localhost:4222"]);
        assert!(servers("nats://a,user:secret@b").is_err());
        assert!(servers("nats://a,").is_err());
    }
}
