//! Arguments that commands of several programs share.

use std::env;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use client::control_client::ControlClient;
use client::decode::Transport;
use client::tls::Authorities;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::secret::Secret;

/// Address and token of the control listener.
#[derive(Debug, Args)]
pub struct ControlArguments {
    /// URL of the control listener, http://HOST:PORT or https://HOST:PORT
    #[arg(
        long,
        value_name = "URL",
        env = "ENCKE_CONTROL",
        default_value = "http://127.0.0.1:8001"
    )]
    pub control: String,
    #[command(flatten)]
    token: TokenArguments,
    #[command(flatten)]
    authorities: AuthorityArguments,
}

/// Certificate authorities that a command trusts.
#[derive(Debug, Clone, Default, Args)]
pub struct AuthorityArguments {
    /// PEM file of the certificate authorities to trust, instead of those of the system
    #[arg(long, value_name = "FILE", env = "ENCKE_CA")]
    ca: Option<PathBuf>,
}

impl AuthorityArguments {
    /// Returns the authorities.
    pub fn authorities(&self) -> Authorities {
        Authorities::new(self.ca.as_deref())
    }
}

/// Token of a control listener.
#[derive(Debug, Clone, Default, Args)]
pub struct TokenArguments {
    /// Token of the control listener [env: ENCKE_CONTROL_TOKEN]
    #[arg(long, value_name = "TOKEN", conflicts_with = "control_token_file")]
    control_token: Option<String>,
    /// File with the token of the control listener [env: ENCKE_CONTROL_TOKEN_FILE]
    #[arg(long, visible_alias = "token-file", value_name = "FILE")]
    control_token_file: Option<PathBuf>,
}

/// Returns the parser of `--transport` of a command that has all transports but one.
pub fn transport(without: Transport) -> impl TypedValueParser<Value = Transport> {
    let all = Transport::value_variants().iter();
    let values = all.filter(|known| **known != without);
    let values = values.filter_map(Transport::to_possible_value);
    PossibleValuesParser::new(values).try_map(|name| Transport::from_str(&name, false))
}

/// Format of a report.
#[derive(Debug, Clone, Copy, Args)]
pub struct Report {
    /// Print JSON, one object in each line
    #[arg(long)]
    pub json: bool,
}

impl Report {
    /// Prints a value as JSON, or as the text that `text` makes of it.
    ///
    /// # Errors
    ///
    /// When standard output cannot be written to.
    pub fn print<T: Display>(
        self,
        json: &impl Serialize,
        text: impl FnOnce() -> T,
    ) -> Result<(), Failure> {
        let _ = match self.json {
            true => output::json(json)?,
            false => output::line(text())?,
        };
        Ok(())
    }
}

/// Data directory of a graph.
#[derive(Debug, Args)]
pub struct DataArguments {
    /// The data directory
    #[arg(
        long,
        value_name = "DIR",
        env = "ENCKE_DATA",
        default_value = "./encke-data"
    )]
    pub data: PathBuf,
}

/// Access to a graph: its data directory, or the server that uses it.
#[derive(Debug, Args)]
pub struct PlaceArguments {
    /// The data directory.
    #[command(flatten)]
    pub data: DataArguments,
    /// Use the running server, over its control listener
    #[arg(long)]
    pub online: bool,
    /// The control listener.
    #[command(flatten)]
    pub control: ControlArguments,
}

impl ControlArguments {
    /// Certificate authorities that the command trusts.
    pub fn authorities(&self) -> Authorities {
        self.authorities.authorities()
    }

    /// Returns a client of the control listener.
    ///
    /// # Errors
    ///
    /// When the URL or the token is not valid.
    pub fn client(&self) -> Result<ControlClient, Failure> {
        let token = self.token()?;
        let authorities = self.authorities.authorities();
        ControlClient::trusting(&authorities, &self.control, token.as_deref())
            .map_err(Failure::misused)
    }

    /// Returns the token from the flags, else from the environment.
    ///
    /// # Errors
    ///
    /// When a token is set and is not valid.
    pub fn token(&self) -> Result<Option<String>, Failure> {
        let secret = self.token.secret().map_err(Failure::misused)?;
        Ok(secret.map(|secret| secret.reveal().to_owned()))
    }
}

impl TokenArguments {
    /// Returns the token from the flags, else from the environment.
    ///
    /// # Errors
    ///
    /// When a token is set and invalid. The error is a sentence.
    pub fn secret(&self) -> Result<Option<Secret>, String> {
        self.find()
            .map_err(|needed| format!("the control token is not valid: {needed}"))
    }

    fn find(&self) -> Result<Option<Secret>, String> {
        if let Some(token) = &self.control_token {
            return Secret::parse(token).map(Some);
        }
        if let Some(path) = &self.control_token_file {
            return Secret::read(path).map(Some);
        }
        if let Some(token) = env::var_os("ENCKE_CONTROL_TOKEN") {
            return Secret::parse(&token.to_string_lossy()).map(Some);
        }
        env::var_os("ENCKE_CONTROL_TOKEN_FILE")
            .map(|path| Secret::read(Path::new(&path)))
            .transpose()
    }
}

impl DataArguments {
    /// Returns an error if the directory does not exist.
    ///
    /// # Errors
    ///
    /// When there is no such directory.
    pub fn check_exists(&self) -> Result<(), Failure> {
        if self.data.is_dir() {
            return Ok(());
        }
        Err(Failure::failed(format_args!(
            "there is no data directory {}; set --data to the directory that `encke serve` uses",
            self.data.display()
        )))
    }
}
