//! Metadata of a delivered message, from the subject for its acknowledgement.

const NANOSECONDS: u64 = 1_000_000_000;

/// Metadata of a delivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Sequence in the stream.
    pub(super) stream_sequence: u64,
    /// Number among the messages that the consumer has delivered.
    pub(super) consumer_sequence: u64,
    /// Time when the stream stored it, in seconds since 1970. The same for all readers.
    pub(super) seconds: u64,
    /// Number of messages that the consumer has yet to deliver.
    pub(super) pending: u64,
}

impl Delivery {
    /// Parses the subject, in either of the forms of ADR-15 of the NATS architecture:
    /// `$JS.ACK.stream.consumer.delivered.sseq.cseq.time.pending`, or with a domain and an account
    /// before the stream and possibly more tokens at the end.
    pub(super) fn parse(subject: &str) -> Option<Self> {
        let tokens = subject.strip_prefix("$JS.ACK.")?;
        let sequence = match tokens.split('.').count() {
            7 => 3,
            9.. => 5,
            _ => return None,
        };
        let mut tokens = tokens.split('.').skip(sequence);
        let mut number = || tokens.next()?.parse().ok();
        let (stream_sequence, consumer_sequence) = (number()?, number()?);
        let nanoseconds = number()?;
        Some(Self {
            stream_sequence,
            consumer_sequence,
            seconds: nanoseconds / NANOSECONDS,
            pending: number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_subject_are_parsed() {
        let expected = Some(Delivery {
            stream_sequence: 7,
            consumer_sequence: 5,
            seconds: 1_700_000_000,
            pending: 3,
        });
        for subject in [
            "$JS.ACK.encke-a.c.1.7.5.1700000000999999999.3",
            "$JS.ACK._.hash.encke-a.c.1.7.5.1700000000000000000.3",
            "$JS.ACK.hub.hash.encke-a.c.1.7.5.1700000000000000000.3.token.more",
        ] {
            assert_eq!(Delivery::parse(subject), expected, "{subject}");
        }
        for subject in [
            "",
            "$JS.ACK.",
            "$JS.ACK.encke-a.c.1.7.5.1",
            "$JS.ACK.encke-a.c.1.7.5.1.x",
            "$JS.ACK.encke-a.c.1.-7.5.1.3",
            "$JS.ACK.a.b.encke-a.c.1.7.5.1",
        ] {
            assert_eq!(Delivery::parse(subject), None, "{subject}");
        }
    }
}
