//! `encke publish` and `encke send`: publish one event, or one for each line of standard input.

use std::io::{self, BufRead, IsTerminal};

use clap::Args;
use cli::arguments::{ControlArguments, Report};
use cli::failure::Failure;
use cli::output;
use client::control_client::{ControlClient, EventMetadata, Receipt};
use serde::Deserialize;
use serde_json::Value;

pub(crate) const PUBLISH_HELP: &str = "\
Examples:
  encke publish rj \"hello\"
  encke publish rj '{\"title\":\"Sky\"}' --json-data --type track
  tail -f app.log | encke publish log -";

pub(crate) const SEND_HELP: &str = "\
Example:
  encke send alice \"your order was shipped\"";

/// Payload and type of an event.
#[derive(Debug, Args)]
pub(crate) struct EventArguments {
    /// The payload. `-` publishes each line of standard input as an event, and so does no payload
    /// if standard input is not a terminal
    pub(crate) payload: Option<String>,
    /// Type of the event, which subscribers receive with it
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// Publish the payload as JSON
    #[arg(long)]
    pub(crate) json_data: bool,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct PublishArguments {
    /// Id of the subject
    pub(crate) subject: String,
    #[command(flatten)]
    pub(crate) event: EventArguments,
}

#[derive(Debug, Args)]
pub(crate) struct SendArguments {
    /// Id that receives the event
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) event: EventArguments,
}

/// Publishes an event about a subject.
pub(crate) fn publish(arguments: &PublishArguments) -> Result<(), Failure> {
    let (subject, event) = (&arguments.subject, &arguments.event);
    let mut client = event.control.client()?;
    let labels = labels(event);
    match payload(event)? {
        Some(payload) => {
            let receipt = client.publish(subject, payload.as_bytes(), labels)?;
            tell(&receipt, event.report)
        }
        // Each line of JSON is sent in a request of its own: in a batch it would become a string.
        None if event.json_data => {
            each_line(event.report, |line| client.publish(subject, line, labels))
        }
        None => stream(&mut client, subject, event),
    }
}

/// Sends an event to one id.
pub(crate) fn send(arguments: &SendArguments) -> Result<(), Failure> {
    let (id, event) = (&arguments.id, &arguments.event);
    let mut client = event.control.client()?;
    let labels = labels(event);
    match payload(event)? {
        Some(payload) => {
            let receipt = client.send(id, payload.as_bytes(), labels)?;
            tell(&receipt, event.report)
        }
        None => each_line(event.report, |line| client.send(id, line, labels)),
    }
}

/// Returns the payload argument, or `None` if the lines of standard input are the payloads.
fn payload(event: &EventArguments) -> Result<Option<&str>, Failure> {
    match event.payload.as_deref() {
        Some("-") => Ok(None),
        Some(payload) => Ok(Some(payload)),
        None if io::stdin().is_terminal() => Err(Failure::misused(
            "there is no payload; add one, or `-` to publish each line that you type",
        )),
        None => Ok(None),
    }
}

fn labels(event: &EventArguments) -> EventMetadata<'_> {
    EventMetadata {
        content_type: event.json_data.then_some("application/json"),
        kind: event.kind.as_deref(),
    }
}

/// Publishes lines as they are read, all in one request.
fn stream(
    client: &mut ControlClient,
    subject: &str,
    event: &EventArguments,
) -> Result<(), Failure> {
    let mut printer = ReceiptPrinter::new(event.report);
    let mut broken = None;
    let kind = event.kind.as_deref();
    client.publish_lines(subject, kind, io::stdin(), |answer| {
        // The events are published even if nobody reads the receipts.
        if let Err(failure) = printer.answer(&answer) {
            broken.get_or_insert(failure);
        }
    })?;
    broken.map_or_else(|| printer.end(), Err)
}

/// Calls `publish` with each line.
fn each_line(
    report: Report,
    mut publish: impl FnMut(&[u8]) -> machine::failure::Outcome<Receipt>,
) -> Result<(), Failure> {
    let mut printer = ReceiptPrinter::new(report);
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = input.read_until(b'\n', &mut line).map_err(|error| {
            Failure::failed(format_args!("standard input cannot be read: {error}"))
        })?;
        if read == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let receipt = publish(text)
            .map_err(|failure| Failure::failed(format_args!("line {number}: {failure}")))?;
        printer.receipt(&receipt)?;
    }
    printer.end()
}

/// Sums of receipts.
#[derive(Debug, Default)]
struct Sums {
    events: u64,
    written: u64,
    queued: u64,
    shed: u64,
    failed: u64,
}

/// Printer of the receipts of many events. With `--json` it prints each receipt. Otherwise it
/// prints each receipt if standard input is a terminal, and else only their sums.
struct ReceiptPrinter {
    report: Report,
    typed: bool,
    sums: Sums,
}

impl ReceiptPrinter {
    fn new(report: Report) -> Self {
        Self {
            report,
            typed: io::stdin().is_terminal(),
            sums: Sums::default(),
        }
    }

    /// Handles a line of the answer to a batch: a receipt, or the error of a line.
    fn answer(&mut self, answer: &Value) -> Result<(), Failure> {
        match Receipt::deserialize(answer) {
            Ok(receipt) => self.receipt(&receipt),
            Err(_) => self.refused(answer),
        }
    }

    fn receipt(&mut self, receipt: &Receipt) -> Result<(), Failure> {
        self.sums.events += 1;
        self.sums.written += receipt.written;
        self.sums.queued += receipt.queued;
        self.sums.shed += receipt.shed;
        if self.report.json || self.typed {
            tell(receipt, self.report)?;
        }
        Ok(())
    }

    fn refused(&mut self, answer: &Value) -> Result<(), Failure> {
        self.sums.failed += 1;
        if self.report.json {
            let _ = output::json(answer)?;
        }
        let error = answer["error"].as_str().unwrap_or("no reason given");
        match answer["line"].as_u64() {
            Some(line) => eprintln!("error: line {line}: {error}"),
            None => eprintln!("error: {error}"),
        }
        Ok(())
    }

    fn end(self) -> Result<(), Failure> {
        let (events, failed) = (self.sums.events, self.sums.failed);
        if !self.report.json && !self.typed && events + failed > 0 {
            let plural = if events == 1 { "" } else { "s" };
            let fate = fate(self.sums.written, self.sums.queued, self.sums.shed);
            let _ = output::line(format_args!("published {events} event{plural}: {fate}"))?;
        }
        if events == 0 && failed == 0 {
            return Err(Failure::failed(
                "standard input was empty, so nothing was published; give the payload as an \
                 argument, or a line for each event",
            ));
        }
        if failed == 0 {
            return Ok(());
        }
        Err(Failure::failed(format_args!(
            "{failed} of {} lines were refused",
            events + failed
        )))
    }
}

/// Prints one receipt.
fn tell(receipt: &Receipt, report: Report) -> Result<(), Failure> {
    report.print(receipt, || sentence(receipt))
}

/// Returns a receipt as a sentence.
fn sentence(receipt: &Receipt) -> String {
    let (id, subscribers, online) = (&receipt.id, receipt.subscribers, receipt.online);
    let plural = if subscribers == 1 { "" } else { "s" };
    let fate = fate(receipt.written, receipt.queued, receipt.shed);
    format!("{id}: {subscribers} subscriber{plural}, {online} online; {fate}")
}

/// Returns the outcomes of deliveries as text. Zeros are left out, except for written sessions.
fn fate(written: u64, queued: u64, shed: u64) -> String {
    let plural = if written == 1 { "" } else { "s" };
    let mut text = format!("written to {written} session{plural}");
    if queued > 0 {
        text.push_str(&format!(", queued for {queued}"));
    }
    if shed > 0 {
        text.push_str(&format!(", not delivered to {shed}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_reads_as_a_sentence() {
        let receipt = |text: &str| serde_json::from_str::<Receipt>(text).unwrap();
        let all =
            receipt(r#"{"id":"a-1","subscribers":3,"online":2,"written":1,"queued":1,"shed":0}"#);
        assert_eq!(
            sentence(&all),
            "a-1: 3 subscribers, 2 online; written to 1 session, queued for 1"
        );
        let lost =
            receipt(r#"{"id":"a-2","subscribers":1,"online":1,"written":0,"queued":0,"shed":1}"#);
        assert_eq!(
            sentence(&lost),
            "a-2: 1 subscriber, 1 online; written to 0 sessions, not delivered to 1"
        );
    }
}
