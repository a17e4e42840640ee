//! Minimal request-response clients for measuring servers and proxies: one thread and one poller
//! for all connections, one send and one receive for each request.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use cli::units::duration;
use hdrhistogram::Histogram;
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::Serialize;

use super::clients::{SOURCES, connect_from};
use crate::poll::{EventBatch, Interest, Poller};
use client::decode::head::Head;
use machine::failure::{Context, Failure, Outcome};

/// Bytes read at a time.
const BLOCK_BYTES: usize = 64 * 1024;

/// Longest time without any answer before the run fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// Upper bound of the latency histogram, in microseconds: one hour, longer than any run.
const MICROS_MAX: u64 = 3_600_000_000;

/// Request that every client repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Question {
    /// Bytes, which the server echoes.
    #[value(help = None)]
    Echo,
    /// An HTTP request on a kept-alive connection.
    #[value(help = None)]
    Http,
    /// An HTTP request on a new connection, which the server closes after the answer.
    #[value(help = None)]
    HttpOnce,
}

/// Options of [`run`].
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Address of the server, on loopback
    pub server: SocketAddr,
    /// Clients, each with one request at a time
    #[arg(long, default_value_t = 100)]
    pub connections: u32,
    /// Time for which requests are sent
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub duration: Duration,
    /// Kind of request: echo, http, or http-once, which uses a new connection for each request
    #[arg(long = "ask", value_name = "ASK", default_value = "echo")]
    pub question: Question,
    /// Bytes of an echo request
    #[arg(long, default_value_t = 64)]
    pub size: usize,
}

/// Result of a run.
#[derive(Debug, Serialize)]
pub struct Answers {
    /// Number of requests answered.
    pub answers: u64,
    /// Seconds from the first request to the last answer counted.
    pub seconds: f64,
    /// Median latency in microseconds, from sending a request (or from connecting, for
    /// [`Question::HttpOnce`]) to its whole answer.
    pub p50_micros: u64,
    /// 99th percentile of the same latency, in microseconds.
    pub p99_micros: u64,
}

/// One client.
struct Client {
    socket: OwnedFd,
    asked: Instant,
    awaited: usize,
}

/// State of a run: all clients and the poller that watches them.
struct RequestLoop<'a> {
    options: &'a Options,
    question: Vec<u8>,
    /// Length of every answer in bytes.
    answer_bytes: usize,
    next_source: u32,
    poller: Poller,
    clients: Vec<Client>,
    micros: Histogram<u64>,
}

/// Sends requests until the duration is over.
///
/// # Errors
///
/// If the server refuses a connection, closes one that should stay open, or answers nothing for 10
/// s.
pub fn run(options: &Options) -> Outcome<Answers> {
    let mut request_loop = RequestLoop::new(options)?;
    request_loop.measure_answer()?;
    let begun = Instant::now();
    for index in 0..options.connections.max(1) as usize {
        let client = request_loop.open(index)?;
        request_loop.clients.push(client);
    }
    let (mut batch, mut block) = (EventBatch::default(), vec![0; BLOCK_BYTES]);
    let mut now = Instant::now();
    while now - begun < options.duration {
        request_loop
            .poller
            .wait(&mut batch, Some(PATIENCE))
            .context("waiting for answers")?;
        now = Instant::now();
        if batch.iter().next().is_none() {
            return Err(Failure::new(format!(
                "{} has answered no client for {PATIENCE:?}",
                options.server
            )));
        }
        for (token, _) in batch.iter() {
            request_loop.on_ready(token as usize, &mut block)?;
        }
    }
    Ok(Answers {
        answers: request_loop.micros.len(),
        seconds: begun.elapsed().as_secs_f64(),
        p50_micros: request_loop.micros.value_at_quantile(0.5),
        p99_micros: request_loop.micros.value_at_quantile(0.99),
    })
}

impl<'a> RequestLoop<'a> {
    fn new(options: &'a Options) -> Outcome<Self> {
        let head = |ending| {
            let server = options.server;
            format!("GET / HTTP/1.1\r\nHost: {server}\r\n{ending}\r\n").into_bytes()
        };
        let question = match options.question {
            Question::Echo => vec![b'm'; options.size.max(1)],
            Question::Http => head(""),
            Question::HttpOnce => head("Connection: close\r\n"),
        };
        Ok(Self {
            options,
            answer_bytes: question.len(),
            question,
            // Start at different source ports than an earlier run, whose connections may still be
            // in TIME_WAIT.
            next_source: std::process::id().wrapping_mul(2_654_435_761) % (SOURCES / 2),
            poller: Poller::new().context("making an epoll")?,
            clients: Vec::new(),
            micros: Histogram::new_with_bounds(1, MICROS_MAX, 3).expect("sound bounds"),
        })
    }

    /// Sends one HTTP request and measures the length of the answer.
    fn measure_answer(&mut self) -> Outcome<()> {
        if self.options.question == Question::Echo {
            return Ok(());
        }
        let client = self.open(0)?;
        let (mut answer, mut block) = (Vec::new(), [0; 4096]);
        self.answer_bytes = loop {
            let (_, count) = recv(&client.socket, &mut block, RecvFlags::empty())
                .context("reading the first answer")?;
            answer.extend_from_slice(&block[..count]);
            let head = Head::parse(&answer).context("reading the first answer")?;
            if let Some((head, bytes)) = head {
                let length = head
                    .get("content-length")
                    .and_then(|text| text.parse().ok());
                let length: usize = length.ok_or_else(|| {
                    Failure::new("the answer has no Content-Length, so its end cannot be found")
                })?;
                break bytes + length;
            }
            if count == 0 {
                return Err(Failure::new("the server closed before it answered"));
            }
        };
        Ok(())
    }

    /// Connects and sends the first request.
    fn open(&mut self, index: usize) -> Outcome<Client> {
        let (server, asked) = (self.options.server, Instant::now());
        let socket = connect_from(server, 0, &mut self.next_source)
            .context(format_args!("connecting to {server}"))?;
        // Nagle's algorithm would delay requests, and that delay is not the server's.
        set_tcp_nodelay(&socket, true).context("setting up a connection")?;
        self.poller
            .add(&socket, index as u64, Interest::IN)
            .context("watching a connection")?;
        send_request(&socket, &self.question)?;
        Ok(Client {
            socket,
            asked,
            awaited: self.answer_bytes,
        })
    }

    /// Reads from client `index`; sends the next request if the answer is complete.
    fn on_ready(&mut self, index: usize, block: &mut [u8]) -> Outcome<()> {
        let client = &mut self.clients[index];
        let count = match recv(&client.socket, &mut *block, RecvFlags::DONTWAIT) {
            Ok((_, count)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(Errno::CONNRESET) => return Err(closed()),
            Err(errno) => return Err(errno).context("reading an answer"),
        };
        client.awaited = client.awaited.saturating_sub(count);
        let once = self.options.question == Question::HttpOnce;
        if count == 0 && (client.awaited > 0 || !once) {
            return Err(closed());
        }
        if client.awaited > 0 || (once && count > 0) {
            return Ok(());
        }
        let now = Instant::now();
        let micros = (now - client.asked).as_micros();
        self.micros
            .saturating_record(u64::try_from(micros).unwrap_or(u64::MAX));
        if once {
            self.clients[index] = self.open(index)?;
            return Ok(());
        }
        client.asked = now;
        client.awaited = self.answer_bytes;
        send_request(&client.socket, &self.question)
    }
}

/// Sends a request. It fits into the socket, as requests are small and the one before is answered.
fn send_request(socket: &OwnedFd, question: &[u8]) -> Outcome<()> {
    match send(socket, question, SendFlags::NOSIGNAL) {
        Ok(sent) if sent == question.len() => Ok(()),
        Ok(sent) => Err(Failure::new(format!(
            "a connection took {sent} bytes of a question of {}",
            question.len()
        ))),
        Err(Errno::CONNRESET | Errno::PIPE) => Err(closed()),
        Err(errno) => Err(errno).context("sending a request"),
    }
}

/// Error for a connection that the server closed too early. A reset counts too: it occurs when the
/// server closes before it reads the next request.
fn closed() -> Failure {
    Failure::new("the server closed a connection that awaited an answer or was to be kept alive")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// Runs the clients against a server that calls `serve` for each connection.
    fn run_against(
        question: Question,
        serve: impl Fn(TcpStream) + Send + Copy + 'static,
    ) -> Outcome<Answers> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        thread::spawn(move || {
            for client in listener.incoming() {
                thread::spawn(move || serve(client.unwrap()));
            }
        });
        run(&Options {
            server,
            connections: 3,
            // Connecting can be slow on a busy machine.
            duration: Duration::from_secs(1),
            question,
            size: 10,
        })
    }

    /// Answers one request and closes. The write may fail, as clients leave when their time is
    /// over.
    fn answer_once(mut client: TcpStream, answer: &[u8]) {
        let mut block = [0; 1000];
        if client.read(&mut block).is_ok_and(|count| count > 0) {
            let _ = client.write_all(answer);
        }
    }

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

    #[test]
    fn only_complete_answers_are_counted() {
        let echo = |mut client: TcpStream| {
            client.set_nodelay(true).unwrap();
            let mut block = [0; 10];
            while client.read_exact(&mut block).is_ok() {
                // In two parts: an answer may arrive in pieces.
                let _ = client.write_all(&block[..3]);
                thread::sleep(Duration::from_millis(1));
                let _ = client.write_all(&block[3..]);
            }
        };
        let answers = run_against(Question::Echo, echo).unwrap();
        assert!(answers.answers > 0, "{answers:?}");
        assert!(answers.p50_micros >= 1000, "{answers:?}");

        let once = |client| answer_once(client, ANSWER);
        assert!(run_against(Question::HttpOnce, once).unwrap().answers > 0);
    }

    #[test]
    fn a_connection_closed_early_is_an_error() {
        for (question, answer) in [
            (Question::Http, ANSWER),
            (Question::HttpOnce, &ANSWER[..ANSWER.len() - 1]),
        ] {
            let closing = move |client| answer_once(client, answer);
            let error = run_against(question, closing).unwrap_err().to_string();
            assert!(error.contains("closed a connection"), "{error}");
        }
    }
}
