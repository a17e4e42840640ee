//! The barest clients that ask and await the answer, for measuring servers and proxies: one thread,
//! one wait for all, a send and a receive for each question.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

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

/// How long the last answer may take before the server counts as stuck.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest time that is told apart: more than a run lasts.
const MICROS_MAX: u64 = 3_600_000_000;

/// What every client asks, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// So many bytes, which come back.
    Echo(usize),
    /// An HTTP request on a connection that is kept.
    Http,
    /// An HTTP request on a connection of its own, which the server closes.
    HttpOnce,
}

/// How to ask.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to connect: an address of loopback.
    pub server: SocketAddr,
    /// Clients, each with one question at a time.
    pub connections: u32,
    /// For how long.
    pub duration: Duration,
    /// What is asked.
    pub question: Question,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Answers {
    /// Questions answered.
    pub answers: u64,
    /// From the first question to the last answer that is counted.
    pub seconds: f64,
    /// Median of the time from a question (and its connection, where it has one of its own) to its
    /// answer, in microseconds.
    pub p50_micros: u64,
    /// The time that 99 of 100 answers took at most, in microseconds.
    pub p99_micros: u64,
}

/// One client.
struct Client {
    socket: OwnedFd,
    asked: Instant,
    awaited: usize,
}

/// All clients of one thread.
struct Asking<'a> {
    options: &'a Options,
    question: Vec<u8>,
    /// Bytes of an answer.
    answer_bytes: usize,
    next_source: u32,
    poller: Poller,
    clients: Vec<Client>,
    micros: Histogram<u64>,
}

/// Asks until the time is over.
///
/// # Errors
///
/// When the server refuses, closes a connection that should be kept, or answers nothing.
pub fn run(options: &Options) -> Outcome<Answers> {
    let mut asking = Asking::new(options)?;
    asking.learn()?;
    let begun = Instant::now();
    for index in 0..options.connections as usize {
        let client = asking.open(index)?;
        asking.clients.push(client);
    }
    let (mut batch, mut block) = (EventBatch::new(), vec![0; BLOCK_BYTES]);
    let mut now = Instant::now();
    while now - begun < options.duration {
        asking
            .poller
            .wait(&mut batch, Some(PATIENCE))
            .context("waiting for answers")?;
        now = Instant::now();
        if batch.iter().next().is_none() {
            return Err(Failure::new(format!(
                "{} has answered nobody for {PATIENCE:?}",
                options.server
            )));
        }
        for ready in batch.iter() {
            asking.on_ready(ready.token as usize, &mut block)?;
        }
    }
    Ok(Answers {
        answers: asking.micros.len(),
        seconds: begun.elapsed().as_secs_f64(),
        p50_micros: asking.micros.value_at_quantile(0.5),
        p99_micros: asking.micros.value_at_quantile(0.99),
    })
}

impl<'a> Asking<'a> {
    fn new(options: &'a Options) -> Outcome<Self> {
        let head = |ending| {
            let server = options.server;
            format!("GET / HTTP/1.1\r\nHost: {server}\r\n{ending}\r\n").into_bytes()
        };
        let question = match options.question {
            Question::Echo(bytes) => vec![b'm'; bytes.max(1)],
            Question::Http => head(""),
            Question::HttpOnce => head("Connection: close\r\n"),
        };
        Ok(Self {
            options,
            answer_bytes: question.len(),
            question,
            // Other sources than an earlier run's, whose connections the server may still remember.
            next_source: std::process::id().wrapping_mul(2_654_435_761) % (SOURCES / 2),
            poller: Poller::new().context("making an epoll")?,
            clients: Vec::new(),
            micros: Histogram::new_with_bounds(1, MICROS_MAX, 3).expect("sound bounds"),
        })
    }

    /// Asks once, to know how long an answer is.
    fn learn(&mut self) -> Outcome<()> {
        if matches!(self.options.question, Question::Echo(_)) {
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
                    Failure::new("an answer must have a Content-Length to be told from the next")
                })?;
                break bytes + length;
            }
            if count == 0 {
                return Err(Failure::new("the server closed before it answered"));
            }
        };
        Ok(())
    }

    /// Connects and asks.
    fn open(&mut self, index: usize) -> Outcome<Client> {
        let (server, asked) = (self.options.server, Instant::now());
        let socket = connect_from(server, 0, &mut self.next_source)
            .context(format_args!("connecting to {server}"))?;
        // What waits for another packet to be acknowledged would not be the server's time.
        set_tcp_nodelay(&socket, true).context("setting up a connection")?;
        self.poller
            .add(&socket, index as u64, Interest::IN)
            .context("watching a connection")?;
        ask(&socket, &self.question)?;
        Ok(Client {
            socket,
            asked,
            awaited: self.answer_bytes,
        })
    }

    /// Takes what has come, and asks again if that was the rest of the answer.
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
        ask(&client.socket, &self.question)
    }
}

/// Questions are small, and the one before is answered: the socket has room.
fn ask(socket: &OwnedFd, question: &[u8]) -> Outcome<()> {
    match send(socket, question, SendFlags::NOSIGNAL) {
        Ok(sent) if sent == question.len() => Ok(()),
        Ok(sent) => Err(Failure::new(format!(
            "a connection took {sent} bytes of a question of {}",
            question.len()
        ))),
        Err(Errno::CONNRESET | Errno::PIPE) => Err(closed()),
        Err(errno) => Err(errno).context("asking"),
    }
}

/// One that closes before the next question has come resets the connection: it is the same mistake.
fn closed() -> Failure {
    Failure::new("the server closed a connection that owed an answer, or that was to be kept")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// Asks a server that does with each connection what `serve` does.
    fn ask_of(
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
            // Connecting may take a while on a busy machine.
            duration: Duration::from_secs(1),
            question,
        })
    }

    /// Answers one request and closes. The asker may have gone when its time is over.
    fn answer_once(mut client: TcpStream, answer: &[u8]) {
        let mut block = [0; 1000];
        if client.read(&mut block).is_ok_and(|count| count > 0) {
            let _ = client.write_all(answer);
        }
    }

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

    #[test]
    fn answers_are_counted_when_they_are_whole() {
        let echo = |mut client: TcpStream| {
            client.set_nodelay(true).unwrap();
            let mut block = [0; 10];
            while client.read_exact(&mut block).is_ok() {
                // In two parts, as networks may.
                let _ = client.write_all(&block[..3]);
                thread::sleep(Duration::from_millis(1));
                let _ = client.write_all(&block[3..]);
            }
        };
        let answers = ask_of(Question::Echo(10), echo).unwrap();
        assert!(answers.answers > 0, "{answers:?}");
        assert!(answers.p50_micros >= 1000, "{answers:?}");

        let once = |client| answer_once(client, ANSWER);
        assert!(ask_of(Question::HttpOnce, once).unwrap().answers > 0);
    }

    #[test]
    fn a_server_that_closes_what_should_be_kept_is_not_measured() {
        for (question, answer) in [
            (Question::Http, ANSWER),
            (Question::HttpOnce, &ANSWER[..ANSWER.len() - 1]),
        ] {
            let closing = move |client| answer_once(client, answer);
            let error = ask_of(question, closing).unwrap_err().to_string();
            assert!(error.contains("closed a connection"), "{error}");
        }
    }
}
