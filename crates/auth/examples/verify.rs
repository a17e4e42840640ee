//! Time to verify a token, for each algorithm, beside that of the crate `jsonwebtoken`.
//!
//!     cargo run --release -p auth --example verify

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use auth::{KeySet, Policy, PolicySettings, UnixSeconds};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
};
use aws_lc_rs::{hmac, signature};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

/// Tokens verified in one measurement.
const TOKENS: u32 = 2000;

/// Measurements; the fastest counts, as all noise makes them slower.
const ROUNDS: usize = 7;

fn main() {
    let random = SystemRandom::new();
    let secret = [7; 32];
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
    let ecdsa = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let ed25519 = Ed25519KeyPair::generate().expect("a key");

    let tag = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    let token = token("HS256", |message| {
        hmac::sign(&tag, message).as_ref().to_vec()
    });
    let keys = KeySet::from_secret(&secret).expect("long enough");
    let other = DecodingKey::from_secret(&secret);
    report("HS256", keys, &token, &other, Algorithm::HS256);

    let der: signature::RsaSubjectPublicKey = rsa.public_key().clone();
    let token = self::token("RS256", |message| {
        let mut made = vec![0; rsa.public_modulus_len()];
        rsa.sign(&RSA_PKCS1_SHA256, &random, message, &mut made)
            .expect("a signature");
        made
    });
    let info = AsDer::as_der(&der).expect("an encoding");
    let other = DecodingKey::from_rsa_der(der.as_ref());
    report(
        "RS256",
        pem(info.as_ref()),
        &token,
        &other,
        Algorithm::RS256,
    );

    let token = self::token("ES256", |message| {
        let made = ecdsa.sign(&random, message).expect("a signature");
        made.as_ref().to_vec()
    });
    let info = AsDer::as_der(ecdsa.public_key()).expect("an encoding");
    let other = DecodingKey::from_ec_der(ecdsa.public_key().as_ref());
    report(
        "ES256",
        pem(info.as_ref()),
        &token,
        &other,
        Algorithm::ES256,
    );

    let token = self::token("EdDSA", |message| ed25519.sign(message).as_ref().to_vec());
    let info = AsDer::as_der(ed25519.public_key()).expect("an encoding");
    let other = DecodingKey::from_ed_der(ed25519.public_key().as_ref());
    report(
        "EdDSA",
        pem(info.as_ref()),
        &token,
        &other,
        Algorithm::EdDSA,
    );
}

/// Makes a token as an issuer would, with seven claims.
fn token(algorithm: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let header = format!(r#"{{"alg":"{algorithm}","typ":"JWT"}}"#);
    let payload = format!(
        r#"{{"iss":"https://issuer.example","sub":"alice","aud":"encke","iat":{},"exp":{},
            "jti":"0b6e6f4c-3d0d-4c43","encke":{{"ids":["news","team-7/*"]}}}}"#,
        NOW.0,
        NOW.0 + 3600
    );
    let message = format!(
        "{}.{}",
        URL_SAFE_NO_PAD.encode(header),
        URL_SAFE_NO_PAD.encode(payload)
    );
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn pem(info: &[u8]) -> KeySet {
    let body = STANDARD.encode(info);
    let document = format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n");
    KeySet::from_pem(document.as_bytes()).expect("a public key")
}

fn report(name: &str, keys: KeySet, token: &str, other: &DecodingKey, algorithm: Algorithm) {
    let policy = Policy::new(PolicySettings {
        issuers: vec!["https://issuer.example".to_owned()],
        audiences: vec!["encke".to_owned()],
        ..PolicySettings::default()
    });
    let policy = policy.with_keys("key", Arc::new(keys));
    let ours = microseconds(|| {
        let identity = policy.verify(black_box(token), NOW).expect("a good token");
        black_box(identity);
    });
    let mut validation = Validation::new(algorithm);
    validation.validate_exp = false;
    validation.set_audience(&["encke"]);
    validation.set_issuer(&["https://issuer.example"]);
    let theirs = microseconds(|| {
        let token = black_box(token);
        let data = jsonwebtoken::decode::<serde_json::Value>(token, other, &validation);
        black_box(data.expect("a good token"));
    });
    println!("{name}: {ours:.2} µs, by jsonwebtoken {theirs:.2} µs");
}

/// Returns the time of one call, in microseconds.
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn microseconds(call: impl Fn()) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        (0..TOKENS).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e6 / f64::from(TOKENS)
    });
    rounds.fold(f64::INFINITY, f64::min)
}
