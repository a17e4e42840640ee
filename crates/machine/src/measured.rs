//! Measured constants: cost of a connection, an event and a login.
//!
//! Each is taken from the section of `docs/BENCHMARKS.md` or `docs/MEMORY.md` named in its comment;
//! a test compares them. All capacity estimates use them.

/// Bytes of the process before the first session: program, heaps, tables. Section *Memory*,
/// resident at start.
pub const PROCESS_BYTES: u64 = 17_700_000;

/// Bytes of the process for an idle session. Section *Memory*, rounded up.
pub const SESSION_BYTES: u64 = 45;

/// Additional bytes of the process for an idle session over TLS 1.3. Section *TLS and identity*.
pub const TLS_SESSION_BYTES: u64 = 251;

/// Bytes of the kernel for one end of an idle connection: half of the 8.36 KB of slabs for both
/// ends. `docs/MEMORY.md`, at 400,000 connections.
pub const KERNEL_END_BYTES: u64 = 4_180;

/// Upper bound of the bytes for a client of `encke-lab flood`. Section *In short*.
pub const CLIENT_BYTES: u64 = 200;

/// Bytes of the graph for a subscription: 5.3 bytes in each of two directions. Section *In short*.
pub const EDGE_BYTES: f64 = 10.6;

/// Bytes of the history for an event without its payload: 152 bytes with a payload of 120. Section
/// *History and resume*.
pub const HISTORY_EVENT_BYTES: u64 = 32;

/// CPU seconds of a delivery to one user in a batch, including the kernel. Section *Fan-out, 100000
/// sessions*.
pub const DELIVERY_SECONDS: f64 = 9.22e-6;

/// Additional CPU seconds of a delivery over TLS. Section *TLS and identity*.
pub const TLS_DELIVERY_SECONDS: f64 = 0.49e-6;

/// CPU seconds of a login, including the kernel. Section *Connect rate*.
pub const LOGIN_SECONDS: f64 = 10.9e-6;

/// Additional CPU seconds of a login with a full TLS handshake. Section *TLS and identity*.
pub const HANDSHAKE_SECONDS: f64 = 224e-6;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Relative difference allowed between a constant and the document, for rounding.
    const ROUNDING: f64 = 0.012;

    fn document(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        fs::read_to_string(path.join(name)).expect("the documents are beside the crates")
    }

    /// Numbers in the first row that starts with `begins`, in the section whose heading starts with
    /// `heading`.
    #[track_caller]
    fn row(document: &str, heading: &str, begins: &str) -> Vec<f64> {
        let (_, section) = document
            .split_once(&format!("\n## {heading}"))
            .unwrap_or_else(|| panic!("there is no section {heading}"));
        let section = section.split("\n## ").next().expect("there is a first");
        let cells = section
            .lines()
            .find_map(|line| line.strip_prefix(begins))
            .unwrap_or_else(|| panic!("there is no row {begins} in {heading}"));
        cells
            .split(|at: char| !(at.is_ascii_digit() || ".,".contains(at)))
            .filter_map(|number| number.replace(',', "").parse().ok())
            .collect()
    }

    #[track_caller]
    fn near(constant: f64, measured: f64) {
        assert!(
            (constant / measured - 1.0).abs() <= ROUNDING,
            "the constant is {constant}, and the record has {measured}: bring them together"
        );
    }

    #[test]
    fn the_constants_agree_with_the_documents() {
        let record = document("BENCHMARKS.md");
        let memory = |begins| row(&record, "Memory, 1000000", begins)[0];
        near(PROCESS_BYTES as f64, memory("| resident at start |") * 1e6);
        near(SESSION_BYTES as f64, memory("| an idle session |"));
        let short = |begins| row(&record, "In short", begins);
        let flood = short("| flood: open clients at 0.8 of the rate of a bare client,");
        near(CLIENT_BYTES as f64, flood[0]);
        assert!(
            flood[0] >= *flood.last().expect("what was measured"),
            "at most"
        );
        let edge = short("| the same: at most 6 bytes an edge and direction in memory");
        near(EDGE_BYTES, 2.0 * edge[0]);
        let history = |begins| row(&record, "History and resume", begins);
        let event = history("| an event in the ring, 120 bytes of payload:");
        near(HISTORY_EVENT_BYTES as f64 + 120.0, event[2]);
        near(
            DELIVERY_SECONDS * 1e6,
            row(
                &record,
                "Fan-out, 100000",
                "| single users in a batch: processor |",
            )[0],
        );
        near(
            LOGIN_SECONDS * 1e6,
            row(&record, "Connect rate", "| processor |")[0],
        );
        // Columns: plain, plain with a token, TLS. Events were not measured with a token.
        let tls = |begins| row(&record, "TLS and identity", begins);
        near(
            TLS_SESSION_BYTES as f64,
            tls("| an idle TLS 1.3 session: 260 bytes beyond a plain one |")[0],
        );
        let opening = tls("| opening a session with a full handshake: processor, µs |");
        near(HANDSHAKE_SECONDS * 1e6, opening[2] - opening[0]);
        let event = tls("| an event to a session: processor, µs |");
        near(TLS_DELIVERY_SECONDS * 1e6, event[1] - event[0]);
        let slabs = document("MEMORY.md");
        let (_, both) = slabs
            .split_once("no heartbeats): ")
            .expect("the measurement");
        let both: f64 = both
            .split(' ')
            .next()
            .and_then(|number| number.parse().ok())
            .expect("KB of both ends");
        near(KERNEL_END_BYTES as f64, both * 1000.0 / 2.0);
    }
}
