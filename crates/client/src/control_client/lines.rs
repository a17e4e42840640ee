//! Publishing lines: they are sent as one streamed batch while their receipts are read.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread;

use serde::Serialize;
use serde_json::Value;

use super::{ControlClient, EventMetadata};
use crate::http::{Connection, RequestBody};
use machine::failure::{Context, Failure, Outcome};

impl ControlClient {
    /// Publishes each line of `input` about `subject`, in one streamed request. Receipts are read
    /// while lines are written, and each is passed to `tell`. Returns the number of receipts.
    ///
    /// # Errors
    ///
    /// When the connection fails, `input` cannot be read, or the server refuses the request. The
    /// refusal of a line is not an error but a receipt.
    pub fn publish_lines(
        &mut self,
        subject: &str,
        kind: Option<&str>,
        input: impl Read + Send,
        mut tell: impl FnMut(Value),
    ) -> Outcome<u64> {
        if self.tls.is_some() {
            return self.publish_one_by_one(subject, kind, input, tell);
        }
        let (path, ndjson) = ("/v1/publish", Some("application/x-ndjson"));
        let mut connection = self.send_request("POST", path, ndjson, RequestBody::Chunked)?;
        let mut chunks = connection.chunks().map_err(|error| self.explain(&error))?;
        thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let written = write_lines(&mut chunks, subject, kind, BufReader::new(input));
                match &written {
                    Ok(()) => chunks.finish().map_err(LineError::Server),
                    Err(LineError::Input(_)) => {
                        chunks.abandon();
                        written
                    }
                    // The server ended the request. Its response says why.
                    Err(LineError::Server(_)) => written,
                }
            });
            let read = self.read_receipts(&mut connection, &mut tell);
            let written = writer.join().expect("the writer of lines does not panic");
            match (read, written) {
                (_, Err(LineError::Input(error))) => Err(error).context(READING_LINES),
                (Err(failure), _) => Err(failure),
                (Ok(count), Ok(())) => Ok(count),
                (Ok(count), Err(LineError::Server(error))) => Err(Failure::new(format!(
                    "the server at {} ended the batch after {count} receipts: {error}",
                    self.shown
                ))),
            }
        })
    }

    /// Publishes each line of `input` in a request of its own, because over TLS one thread cannot
    /// read receipts while another writes lines.
    fn publish_one_by_one(
        &mut self,
        subject: &str,
        kind: Option<&str>,
        input: impl Read,
        mut tell: impl FnMut(Value),
    ) -> Outcome<u64> {
        let labels = EventMetadata {
            content_type: None,
            kind,
        };
        let (mut input, mut bytes) = (BufReader::new(input), Vec::new());
        let mut count = 0;
        while let Some(data) = next_line(&mut input, &mut bytes).context(READING_LINES)? {
            let receipt = self
                .publish(subject, data.as_bytes(), labels)
                .context(format_args!("line {}", count + 1))?;
            tell(serde_json::to_value(receipt).context("reading a receipt")?);
            count += 1;
        }
        Ok(count)
    }

    fn read_receipts(
        &self,
        connection: &mut Connection,
        tell: &mut impl FnMut(Value),
    ) -> Outcome<u64> {
        let answer = self.read_head(connection)?;
        let mut body = BufReader::new(connection.body(&answer));
        let (mut count, mut line) = (0, String::new());
        loop {
            line.clear();
            let read = body.read_line(&mut line);
            if read.map_err(|error| self.explain(&error))? == 0 {
                return Ok(count);
            }
            if !line.trim().is_empty() {
                tell(serde_json::from_str(&line).context("reading a receipt")?);
                count += 1;
            }
        }
    }
}

/// Context of errors of the input.
const READING_LINES: &str = "reading the lines to publish";

enum LineError {
    Input(io::Error),
    Server(io::Error),
}

/// One line of a batch.
#[derive(Serialize)]
struct BatchLine<'a> {
    subject: IdValue<'a>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    data: &'a str,
}

/// An id as JSON: an integer is a number, as the API requires.
#[derive(Serialize)]
#[serde(untagged)]
enum IdValue<'a> {
    Integer(u64),
    Text(&'a str),
}

impl<'a> IdValue<'a> {
    fn of(id: &'a str) -> Self {
        match id.parse::<u64>() {
            // `007` is not the same id as 7.
            Ok(number) if number.to_string() == id => Self::Integer(number),
            _ => Self::Text(id),
        }
    }
}

fn write_lines(
    chunks: &mut impl Write,
    subject: &str,
    kind: Option<&str>,
    mut input: BufReader<impl Read>,
) -> Result<(), LineError> {
    let mut bytes = Vec::new();
    while let Some(data) = next_line(&mut input, &mut bytes).map_err(LineError::Input)? {
        let line = BatchLine {
            subject: IdValue::of(subject),
            kind,
            data: &data,
        };
        serde_json::to_writer(&mut *chunks, &line)
            .map_err(io::Error::from)
            .and_then(|()| chunks.write_all(b"\n"))
            .map_err(LineError::Server)?;
        // A line that a person has typed must not wait for the next one.
        if input.buffer().is_empty() {
            chunks.flush().map_err(LineError::Server)?;
        }
    }
    Ok(())
}

/// Reads the next line without its line end. Returns `None` after the last line.
fn next_line<'a>(
    input: &mut impl BufRead,
    bytes: &'a mut Vec<u8>,
) -> io::Result<Option<Cow<'a, str>>> {
    bytes.clear();
    if input.read_until(b'\n', bytes)? == 0 {
        return Ok(None);
    }
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Ok(Some(String::from_utf8_lossy(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_number_only_when_it_reads_back_the_same() {
        let json = |id| serde_json::to_string(&IdValue::of(id)).unwrap();
        assert_eq!(json("7"), "7");
        assert_eq!(json("007"), "\"007\"");
        assert_eq!(json("rj"), "\"rj\"");
    }
}
