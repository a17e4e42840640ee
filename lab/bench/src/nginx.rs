//! nginx with nchan, a server to compare with.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::child::{self, OwnedChild};
use client::http::{Connection, RequestBody};
use machine::failure::{Context, Failure, Outcome};

/// Path of the module on Debian.
const NCHAN: &str = "/usr/lib/nginx/modules/ngx_nchan_module.so";

/// Time limit for it to listen.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Running nginx with one process.
#[derive(Debug)]
pub(crate) struct Nginx {
    child: OwnedChild,
    _directory: TempDir,
}

impl Nginx {
    /// Starts `program` with the blocks `servers`, one of which listens at `address`.
    pub(crate) fn start(program: &Path, servers: &str, address: SocketAddr) -> Outcome<Self> {
        let directory = child::directory("encke-bench-nginx-")?;
        let conf = directory.path().join("nginx.conf");
        let text = configuration(directory.path(), servers);
        fs::write(&conf, text).context("writing the configuration of nginx")?;
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(&conf)
            .arg("-p")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = OwnedChild::spawn(&mut command)?;
        let listens = || TcpStream::connect(address).is_ok();
        if !child.wait_until(START_TIMEOUT, listens)? {
            let log = fs::read_to_string(directory.path().join("error.log"));
            return Err(Failure::new(format!(
                "nginx did not start to listen; is Debian's libnginx-mod-nchan installed? Its \
                 log:\n{}",
                log.unwrap_or_default().trim()
            )));
        }
        Ok(Self {
            child,
            _directory: directory,
        })
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }
}

/// Returns a typical configuration, adapted to a benchmark: one process, no access log, and no
/// limit on the requests of a publisher's connection.
fn configuration(directory: &Path, servers: &str) -> String {
    let place = directory.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {place}/{kind}; "))
        .concat();
    format!(
        "load_module {NCHAN};\n\
         user root; daemon off; master_process off; pid {place}/pid;\n\
         error_log {place}/error.log; worker_rlimit_nofile 20000;\n\
         events {{ worker_connections 19900; }}\n\
         http {{\n\
         access_log off; {temporary}\n\
         nchan_shared_memory_size 1G; keepalive_timeout 75; keepalive_requests 1000000000;\n\
         {servers}\
         }}\n"
    )
}

/// Publishes a message to a channel with a POST to `/publish/{channel}`.
pub(crate) fn publish(connection: &mut Connection, channel: &str, payload: &[u8]) -> Outcome<()> {
    let path = format!("/publish/{channel}");
    let fields = [("Content-Type", "text/plain")];
    let (answer, _) = connection
        .exchange("POST", &path, &fields, RequestBody::Bytes(payload))
        .context("publishing to nginx")?;
    match answer.status {
        200..300 => Ok(()),
        status => Err(Failure::new(format!(
            "nginx answered a publish with {status}"
        ))),
    }
}
