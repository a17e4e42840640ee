//! Certificate for 127.0.0.1, created with openssl for one run, and a secret that signs tokens.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::child;
use client::random::Random;
use machine::clock::realtime_nanos;
use machine::failure::{Context, Failure, Outcome};

/// Configuration of openssl for a self-signed certificate.
const REQUEST: &str = "[req]\ndistinguished_name=name\nx509_extensions=extensions\nprompt=no\n\
    [name]\nCN=localhost\n[extensions]\nbasicConstraints=critical,CA:FALSE\n\
    subjectAltName=IP:127.0.0.1,DNS:localhost\n";

/// Certificate with a P-256 key, in files that are removed on drop.
#[derive(Debug)]
pub(super) struct Certificate {
    directory: TempDir,
}

impl Certificate {
    /// Creates the certificate, its key and the secret.
    pub(super) fn create() -> Outcome<Self> {
        let directory = child::directory("encke-bench-tls-")?;
        let made = Self { directory };
        let request = made.directory.path().join("request");
        fs::write(&request, REQUEST).context("writing a request for a certificate")?;
        let done = Command::new("openssl")
            .args(["req", "-x509", "-noenc", "-days", "30"])
            .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args([&"-config".into(), &request, &"-out".into(), &made.chain()])
            .args([&"-keyout".into(), &made.key()])
            .output()
            .context("starting openssl")?;
        if done.status.success() {
            made.write_secret()?;
            return Ok(made);
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(Failure::new(format!(
            "openssl could not create a certificate: {}",
            said.trim()
        )))
    }

    /// Writes a random secret that signs tokens.
    fn write_secret(&self) -> Outcome<()> {
        let mut random = Random::seeded(realtime_nanos());
        let secret: String = (0..4).map(|_| format!("{:016x}", random.bits())).collect();
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600);
        file.open(self.secret())
            .and_then(|mut file| file.write_all(secret.as_bytes()))
            .context("writing a secret")
    }

    /// Returns the path of the secret.
    pub(super) fn secret(&self) -> PathBuf {
        self.directory.path().join("secret")
    }

    /// Returns the path of the certificate, which is also the authority that clients trust.
    pub(super) fn chain(&self) -> PathBuf {
        self.directory.path().join("certificate.pem")
    }

    /// Returns the path of the key.
    pub(super) fn key(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }
}
