//! Handshakes: versions, suites, names, protocols, tickets, bounds.

use std::sync::Arc;

use rustls::{CipherSuite, HandshakeKind};

use super::pair::{
    At, BOTH, Client, NOW, Offer, Server, TLS12, TLS13, after, certificate, connected, fixture,
    localhost, server, shake_hands,
};
use crate::connection::State;
use crate::hello::{self, Hello, HelloError};
use crate::{Negotiated, Options, ServerConfig, TicketKeys, TlsError, Version};

const SUITES: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

#[test]
fn every_suite_of_tls_1_3_is_taken_over_unless_rustls_shall_keep_it() {
    for suite in SUITES {
        for options in BOTH {
            let offer = Offer {
                suites: Some(suite),
                versions: TLS13,
                ..Offer::default()
            };
            let (mut client, mut server) = connected(&offer, options);
            let negotiated = Negotiated {
                version: Version::Tls13,
                resumed: false,
                own_records: !options.keep_rustls,
            };
            assert_eq!(server.tls.negotiated(), Some(negotiated));
            if let State::Established(established) = &server.tls.0 {
                // What `rustls` logs is what it makes keys of.
                assert!(established.has_derived_keys());
            }
            assert_eq!(client.rustls.alpn_protocol(), Some(&b"http/1.1"[..]));
            assert_eq!(server.receive(&client.seal(b"ping")), Ok(vec![]));
            assert_eq!(server.read, b"ping");
            client.receive(&server.seal(&[b"po", b"ng"])).unwrap();
            assert_eq!(client.read, b"pong");
        }
    }
}

// The fixtures' clients put AES-256-GCM first.
#[test]
fn clients_that_offer_all_suites_get_aes_128_gcm() {
    for (versions, suite) in [
        (TLS13, CipherSuite::TLS13_AES_128_GCM_SHA256),
        (TLS12, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ] {
        let offer = Offer {
            versions,
            ..Offer::default()
        };
        for options in BOTH {
            let (client, _) = connected(&offer, options);
            let negotiated = client.rustls.negotiated_cipher_suite();
            assert_eq!(negotiated.map(|it| it.suite()), Some(suite));
        }
    }
}

#[test]
fn tls_1_2_stays_with_rustls() {
    let offer = Offer {
        versions: TLS12,
        ..Offer::default()
    };
    for options in BOTH {
        let (mut client, mut server) = connected(&offer, options);
        let negotiated = server.tls.negotiated().unwrap();
        assert_eq!(negotiated.version, Version::Tls12);
        assert!(!negotiated.own_records);
        assert_eq!(server.receive(&client.seal(b"ping")), Ok(vec![]));
        assert_eq!(server.read, b"ping");
        client.receive(&server.seal(&[b"po", b"ng"])).unwrap();
        assert_eq!(client.read, b"pong");
    }
}

#[test]
fn a_handshake_is_done_whatever_the_pieces_it_comes_in() {
    for options in BOTH {
        let mut client = Offer::default().client();
        let mut server = Server::new(&server(options), NOW);
        while client.rustls.is_handshaking() {
            for byte in client.output() {
                assert!(server.tls.is_handshaking());
                let reply = server.receive(&[byte]).unwrap();
                client.receive(&reply).unwrap();
            }
        }
        // The client's last message.
        for byte in client.output() {
            let reply = server.receive(&[byte]).unwrap();
            client.receive(&reply).unwrap();
        }
        assert!(!server.tls.is_handshaking());
    }
}

#[test]
fn what_comes_with_the_last_message_of_the_handshake_is_not_lost() {
    for options in BOTH {
        let config = server(options);
        let request = vec![b'r'; 40_000];
        let mut client = Offer::default().client();
        let mut first = Server::new(&config, NOW);
        let reply = first.receive(&client.output()).unwrap();
        client.receive(&reply).unwrap();
        let mut sent = client.output();
        let finished = sent.len();
        sent.extend(client.seal(&request));
        for at in [
            finished - 1,
            finished,
            finished + 1,
            finished + 20_000,
            sent.len(),
        ] {
            // A second server cannot read what was meant for the first, so each needs a client.
            let mut client = Offer::default().client();
            let mut server = Server::new(&config, NOW);
            let reply = server.receive(&client.output()).unwrap();
            client.receive(&reply).unwrap();
            let mut sent = client.output();
            sent.extend(client.seal(&request));
            let (now, later) = sent.split_at(at.min(sent.len()));
            let mut tickets = server.receive(now).unwrap();
            tickets.extend(server.receive(later).unwrap());
            assert_eq!(server.read, request, "split at {at}");
            // The tickets come first, then what is sealed, with numbers that follow them.
            tickets.extend(server.seal(&[b"answer"]));
            client.receive(&tickets).unwrap();
            assert_eq!(client.read, b"answer");
        }
    }
}

#[test]
fn nothing_is_sealed_during_the_handshake() {
    let mut server = Server::new(&server(Options::default()), NOW);
    let mut out = Vec::new();
    assert_eq!(
        server.tls.seal(&[b"early"], &mut out),
        Err(TlsError::Handshaking)
    );
    server.tls.close_notify(&mut out);
    assert!(out.is_empty());
    assert_eq!(server.tls.negotiated(), None);
}

#[test]
fn sessions_resume_until_the_keys_of_tickets_are_forgotten() {
    const HOUR: u64 = 3600;
    for options in BOTH {
        for versions in [TLS12, TLS13] {
            let resumes = |later: u64, meanwhile: &[u64]| {
                let tickets = TicketKeys::new(NOW).unwrap();
                let config = |_: ()| {
                    let certificates = [super::pair::localhost()];
                    ServerConfig::new(&certificates, &tickets, options).unwrap()
                };
                let offer = Offer {
                    versions,
                    ..Offer::default()
                };
                let memory = offer.config();
                let mut client = super::pair::Client::new(memory.clone(), "localhost");
                let mut first = Server::new(&config(()), NOW);
                shake_hands(&mut client, &mut first);
                assert_eq!(client.rustls.handshake_kind(), Some(HandshakeKind::Full));
                for &at in meanwhile {
                    let mut other = offer.client();
                    shake_hands(&mut other, &mut Server::new(&config(()), after(at)));
                }
                // A configuration that takes the place of the first has its keys.
                let mut client = super::pair::Client::new(memory, "localhost");
                let mut second = Server::new(&config(()), after(later));
                shake_hands(&mut client, &mut second);
                let resumed = second.tls.negotiated().unwrap().resumed;
                let by_client = client.rustls.handshake_kind() == Some(HandshakeKind::Resumed);
                assert_eq!(resumed, by_client);
                resumed
            };
            assert!(resumes(1, &[]));
            assert!(resumes(6 * HOUR, &[]));
            assert!(resumes(12 * HOUR - 1, &[6 * HOUR]));
            assert!(!resumes(12 * HOUR, &[6 * HOUR]));
            assert!(!resumes(12 * HOUR, &[]));
        }
    }
}

#[test]
fn connections_of_rustls_share_certificates_protocol_and_rotating_tickets() {
    for versions in [TLS12, TLS13] {
        let keys = TicketKeys::new(NOW).unwrap();
        let offer = Offer {
            versions,
            protocols: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            ..Offer::default()
        };
        let config = offer.config();
        // Each connection has a configuration of its own, as after a reload.
        let resumes = |seconds| {
            let server = ServerConfig::new(&[localhost()], &keys, Options::default()).unwrap();
            let server = server.to_rustls(Arc::new(At(after(seconds))));
            assert!(!server.enable_secret_extraction);
            let mut server = rustls::ServerConnection::new(server).unwrap();
            let mut client = Client::new(config.clone(), "localhost");
            loop {
                let sent = client.output();
                server.read_tls(&mut &sent[..]).unwrap();
                server.process_new_packets().unwrap();
                let mut reply = Vec::new();
                server.write_tls(&mut reply).unwrap();
                client.receive(&reply).unwrap();
                if sent.is_empty() && reply.is_empty() {
                    break;
                }
            }
            assert_eq!(client.rustls.alpn_protocol(), Some(&b"http/1.1"[..]));
            client.rustls.handshake_kind() == Some(HandshakeKind::Resumed)
        };
        assert!(!resumes(0));
        assert!(resumes(1));
        assert!(!resumes(13 * 60 * 60), "the keys of tickets are forgotten");
    }
}

#[test]
fn the_certificate_is_that_of_the_name_or_else_the_first() {
    let certificates = [
        super::pair::localhost(),
        certificate(fixture!("rsa.pem"), fixture!("rsa.key")),
        certificate(fixture!("example.pem"), fixture!("example.key")),
        certificate(fixture!("ed25519.pem"), fixture!("ed25519.key")),
    ];
    let tickets = TicketKeys::new(NOW).unwrap();
    let config = ServerConfig::new(&certificates, &tickets, Options::default()).unwrap();
    let served = |name| {
        let offer = Offer {
            name,
            ..Offer::default()
        };
        let mut client = offer.client();
        let mut server = Server::new(&config, NOW);
        let reply = server.receive(&client.output()).unwrap();
        client.receive(&reply).map(|()| {
            let sent = client.rustls.peer_certificates().unwrap()[0].to_vec();
            certificates
                .iter()
                .position(|it| it.certified().cert[0].to_vec() == sent)
        })
    };
    assert_eq!(served("localhost"), Ok(Some(0)));
    assert_eq!(served("127.0.0.1"), Ok(Some(0)));
    assert_eq!(served("example.com"), Ok(Some(1)));
    assert_eq!(served("EXAMPLE.com"), Ok(Some(1)));
    assert_eq!(served("www.example.com"), Ok(Some(1)));
    assert_eq!(served("ed25519.test"), Ok(Some(3)));
    // The client finds that the first certificate is not for these.
    assert!(served("a.b.example.com").is_err());
    assert!(served("unknown.test").is_err());
}

#[test]
fn of_certificates_for_a_name_the_client_gets_one_that_it_can_verify() {
    let certificates = [
        certificate(fixture!("rsa.pem"), fixture!("rsa.key")),
        certificate(fixture!("example.pem"), fixture!("example.key")),
    ];
    let tickets = TicketKeys::new(NOW).unwrap();
    let config = ServerConfig::new(&certificates, &tickets, Options::default()).unwrap();
    let mut offer = Offer {
        name: "example.com",
        ..Offer::default()
    };
    for (suite, key) in [
        (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, 1),
        (CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, 0),
    ] {
        offer.versions = TLS12;
        offer.suites = Some(suite);
        let mut client = offer.client();
        shake_hands(&mut client, &mut Server::new(&config, NOW));
        let sent = &client.rustls.peer_certificates().unwrap()[0];
        assert_eq!(sent, &certificates[key].certified().cert[0]);
    }
}

#[test]
fn clients_of_other_protocols_and_versions_are_told_so() {
    let offer = Offer {
        protocols: vec![b"h2".to_vec()],
        ..Offer::default()
    };
    for options in BOTH {
        let mut client = offer.client();
        let mut server = Server::new(&server(options), NOW);
        let (error, alert) = server.try_receive(&client.output()).unwrap_err();
        assert_eq!(error, TlsError::Incompatible);
        assert!(client.receive(&alert).is_err());
        // It has ended.
        assert_eq!(server.receive(b"more"), Err(TlsError::Ended));
        assert_eq!(
            server.tls.seal(&[b"x"], &mut Vec::new()),
            Err(TlsError::Ended)
        );
    }
    let offer = Offer {
        protocols: vec![],
        ..Offer::default()
    };
    let (client, _) = connected(&offer, Options::default());
    assert_eq!(client.rustls.alpn_protocol(), None);
}

#[test]
fn a_client_hello_is_whole_at_its_last_byte_whatever_its_records() {
    for fragment in [None, Some(32), Some(100), Some(500)] {
        let offer = Offer {
            fragment,
            ..Offer::default()
        };
        let mut client = offer.client();
        let hello = client.output();
        for end in 0..hello.len() {
            assert_eq!(
                hello::inspect(&hello[..end]),
                Ok(Hello::Incomplete),
                "{end}"
            );
        }
        assert_eq!(hello::inspect(&hello), Ok(Hello::Whole));
        let mut more = hello.clone();
        more.extend(b"whatever");
        assert_eq!(hello::inspect(&more), Ok(Hello::Whole));
        let mut server = Server::new(&server(Options::default()), NOW);
        assert!(!server.receive(&hello).unwrap().is_empty());
    }
}

#[test]
fn what_is_no_client_hello_is_refused_as_soon_as_it_shows() {
    let not_tls: [&[u8]; 7] = [
        b"\x17",
        b"\x16\x02",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x40\x01",
        b"\x16\x03\x01\x00\x05\x02",
        b"\x16\x03\x01\x00\x01\x01\x15",
        b"\x80\x2e\x01\x03\x01",
    ];
    for bytes in not_tls {
        assert_eq!(hello::inspect(bytes), Err(HelloError::NotTls), "{bytes:?}");
    }
    assert_eq!(
        hello::inspect(b"GET / HTTP/1.1\r\n"),
        Err(HelloError::PlainHttp)
    );
    // A message that fits exactly, and one of a byte more.
    let announced = |high: u8, low: u8| [0x16, 3, 1, 0x3f, 0xff, 1, 0, high, low];
    assert_eq!(
        hello::inspect(&announced(0x1f, 0xf7)),
        Ok(Hello::Incomplete)
    );
    assert_eq!(
        hello::inspect(&announced(0x1f, 0xf8)),
        Err(HelloError::TooLong)
    );
    // A message in records of one byte never gets whole.
    let mut trickled: Vec<u8> = [0x16, 3, 1, 0, 4, 1, 0, 0x1f, 0].to_vec();
    while trickled.len() < hello::HELLO_BYTES_MAX - 6 {
        trickled.extend([0x16, 3, 1, 0, 1, 0]);
        if hello::inspect(&trickled).is_err() {
            break;
        }
    }
    assert_eq!(hello::inspect(&trickled), Err(HelloError::TooLong));
    assert_eq!(HelloError::NotTls.alert(), [21, 3, 3, 0, 2, 2, 70]);
}

#[test]
fn a_client_that_never_ends_its_handshake_is_cut_at_a_bound() {
    for options in BOTH {
        let mut client = Offer::default().client();
        let mut server = Server::new(&server(options), NOW);
        server.receive(&client.output()).unwrap();
        // TLS 1.3 allows one such record at most in a handshake, and `rustls` refuses more.
        let spaces: Vec<u8> = [20, 3, 3, 0, 1, 1].repeat(100_000);
        assert!(server.receive(&spaces).is_err());
        // A ClientHello whose end never comes.
        let mut server = Server::new(&super::pair::server(options), NOW);
        let mut sent = 0;
        let endless = [&[0x16, 3, 1, 0x10, 0, 1, 0, 0xff, 0xff][..], &[0; 4092]].concat();
        let more = [&[0x16, 3, 1, 0x10, 0][..], &[0; 4096]].concat();
        let mut next = &endless;
        while server.receive(next).is_ok() {
            sent += next.len();
            next = &more;
            assert!(sent < 30_000);
        }
    }
}
