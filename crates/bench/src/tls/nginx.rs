//! nginx with nchan: streams over TLS, and a plain listener for publishers.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::certificate::Certificate;
use crate::child::OwnedChild;
use machine::failure::{Context, Failure, Outcome};

/// Where Debian puts the module.
const NCHAN: &str = "/usr/lib/nginx/modules/ngx_nchan_module.so";

/// Time to listen.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A running nginx of one process.
#[derive(Debug)]
pub(super) struct Nginx {
    child: OwnedChild,
    directory: TempDir,
}

impl Nginx {
    /// Starts `program`: `streams` speaks TLS, `publishers` does not.
    pub(super) fn start(
        program: &Path,
        certificate: &Certificate,
        streams: SocketAddr,
        publishers: SocketAddr,
    ) -> Outcome<Self> {
        let directory = tempfile::Builder::new()
            .prefix("encke-bench-nginx-")
            .tempdir()
            .context("making a directory")?;
        let conf = directory.path().join("nginx.conf");
        let text = configuration(directory.path(), certificate, streams, publishers);
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
        let child = OwnedChild::spawn(&mut command)?;
        let mut nginx = Self { child, directory };
        nginx.wait_until_it_listens(streams)?;
        Ok(nginx)
    }

    /// Its process.
    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    fn wait_until_it_listens(&mut self, address: SocketAddr) -> Outcome<()> {
        let until = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(address).is_err() {
            if self.child.has_ended()? || Instant::now() > until {
                let log = fs::read_to_string(self.directory.path().join("error.log"));
                return Err(Failure::new(format!(
                    "nginx did not start to listen; is Debian's libnginx-mod-nchan installed? It \
                     said:\n{}",
                    log.unwrap_or_default().trim()
                )));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// As an operator would write it, with what a benchmark needs: one process, no log of requests, no
/// stored messages.
fn configuration(
    directory: &Path,
    certificate: &Certificate,
    streams: SocketAddr,
    publishers: SocketAddr,
) -> String {
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
         nchan_shared_memory_size 1G; keepalive_timeout 75;\n\
         server {{ listen {streams} ssl backlog=65535;\n\
         ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;\n\
         location ~ ^/events/(.+)$ {{ nchan_subscriber eventsource; nchan_channel_id $1; }} }}\n\
         server {{ listen {publishers};\n\
         location ~ ^/publish/(.+)$ {{ nchan_publisher; nchan_channel_id $1;\n\
         nchan_store_messages off; }} }}\n\
         }}\n",
        chain = certificate.chain().display(),
        key = certificate.key().display(),
    )
}
