//! Certificates and keys: what is refused, and what the error says.

use super::pair::{NOW, fixture};
use crate::{Certificate, PemFile, UnixTime};

fn refused(chain: PemFile<'_>, key: PemFile<'_>, now: UnixTime) -> String {
    Certificate::from_pem(chain, key, now)
        .unwrap_err()
        .to_string()
}

#[test]
fn a_certificate_tells_its_names_and_its_end() {
    let localhost = super::pair::localhost();
    assert_eq!(localhost.names(), ["localhost"]);
    assert!(localhost.expires() > NOW);
    let shown = format!("{localhost:?}");
    assert!(
        shown.contains("localhost") && !shown.contains("key"),
        "{shown}"
    );
    let example = Certificate::from_pem(fixture!("example.pem"), fixture!("example.key"), NOW);
    assert_eq!(example.unwrap().names(), ["example.com", "*.example.com"]);
}

#[test]
fn a_certificate_must_be_valid_now() {
    let chain = fixture!("localhost.pem");
    let key = fixture!("localhost.key");
    let end = super::pair::localhost().expires();
    let at = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    assert!(Certificate::from_pem(chain, key, end).is_ok());
    let expired = refused(chain, key, at(end.as_secs() + 1));
    assert!(
        expired.starts_with("localhost.pem: the certificate expired on 21"),
        "{expired}"
    );
    let early = refused(chain, key, at(0));
    assert!(early.contains("clock says 1970-01-01T00:00:00Z"), "{early}");
}

#[test]
fn errors_say_which_file_has_what() {
    let chain = fixture!("localhost.pem");
    let key = fixture!("localhost.key");
    let text = |name, text| PemFile { name, text };
    let cases = [
        (text("c", b""), key, "c: no certificate: the file is empty;"),
        (
            text("c", b"hello"),
            key,
            "c: no certificate: the file is not in PEM;",
        ),
        (
            fixture!("localhost.der"),
            key,
            "the file is in DER, not in PEM;",
        ),
        (
            key,
            key,
            "localhost.key: no certificate: the file has PRIVATE KEY;",
        ),
        (
            chain,
            chain,
            "localhost.pem: no private key: the file has CERTIFICATE;",
        ),
        (
            chain,
            text("k", b""),
            "k: no private key: the file is empty;",
        ),
        (
            chain,
            fixture!("encrypted.key"),
            "encrypted.key: the private key is protected by a password",
        ),
        (
            chain,
            fixture!("example.key"),
            "example.key: this is not the key of the first certificate in localhost.pem",
        ),
        (
            text(
                "c",
                b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            ),
            key,
            "c: the certificate cannot be read",
        ),
        (
            text("c", b"-----BEGIN CERTIFICATE-----\nAAAA\n"),
            key,
            "c: the certificate cannot be read",
        ),
        (
            chain,
            text(
                "k",
                b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            ),
            "k: the private key cannot be used",
        ),
    ];
    for (chain, key, expected) in cases {
        let error = refused(chain, key, NOW);
        assert!(error.contains(expected), "{error}");
    }
}
