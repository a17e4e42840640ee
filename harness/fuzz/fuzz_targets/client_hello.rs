//! Any bytes at the beginning of a connection: one verdict in any two pieces, and a connection
//! that takes what was found whole without a panic.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tls::hello::{HELLO_BYTES_MAX, Hello, inspect};
use tls::{Certificate, Connection, Options, PemFile, ServerConfig, TicketKeys, UnixTime};

const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_893_456_000));

static CONFIG: LazyLock<ServerConfig> = LazyLock::new(|| {
    let file = |name, text| PemFile { name, text };
    let chain = file(
        "chain",
        include_bytes!("../../../crates/tls/fixtures/localhost.pem"),
    );
    let key = file(
        "key",
        include_bytes!("../../../crates/tls/fixtures/localhost.key"),
    );
    let certificate = Certificate::from_pem(chain, key, NOW).expect("a certificate");
    let tickets = TicketKeys::new(NOW).expect("keys");
    ServerConfig::new(&[certificate], &tickets, Options::default()).expect("a configuration")
});

fuzz_target!(|data: &[u8]| {
    let mut end = data.len();
    for at in 0..data.len() {
        match inspect(&data[..at]) {
            Ok(Hello::Incomplete) => assert!(at < HELLO_BYTES_MAX),
            // More bytes change nothing. A plain request is only named when its method has ended.
            Ok(Hello::Whole) => {
                assert_eq!(inspect(data), Ok(Hello::Whole));
                end = at;
                break;
            }
            Err(_) => {
                assert!(inspect(data).is_err());
                break;
            }
        }
    }
    let mut connection = Connection::new(&CONFIG, NOW).expect("a connection");
    let (mut plaintext, mut reply) = (Vec::new(), Vec::new());
    let mut ended = false;
    for piece in [&data[..end], &data[end..]] {
        let received = connection.receive(piece, &mut plaintext, &mut reply);
        assert!(!ended || received.is_err());
        ended = received.is_err();
    }
    // Without a key exchange there is no content.
    assert!(plaintext.is_empty());
});
