use bytes::Bytes;
use serde_json::json;

use super::fake::{Fake, ask, run, stream};

#[test]
fn an_edge_list_changes_what_it_says_and_reports_bad_lines() {
    run(async {
        let http = Fake::new().http();
        let plain = [("content-type", "text/plain")];
        let list = "# subscriber subject\n1 2\n\n1\t3 \r\n  # again\n1 2\none\n1 2 3\na\x01 2\nx y";
        let answer = ask(&http, "POST", "/v1/subscriptions", &plain, list).await;
        assert_eq!(answer.status, 200);
        let answer = answer.json();
        assert_eq!(answer["added"], 3);
        assert_eq!(answer["unchanged"], 1);
        assert_eq!(answer["failed"], 3);
        let lines: Vec<_> = answer["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|error| &error["line"])
            .collect();
        assert_eq!(lines, [7, 8, 9]);
        assert!(
            answer["errors"][0]["error"]
                .as_str()
                .unwrap()
                .contains("has 1 words")
        );

        let removed = ask(
            &http,
            "POST",
            "/v1/subscriptions/remove",
            &plain,
            "1 2\n9 9\n8 9",
        )
        .await;
        let expected = json!({"removed": 1, "unchanged": 2, "failed": 0, "errors": []});
        assert_eq!(removed.json(), expected);
    });
}

#[test]
fn json_lines_arrays_and_lists_are_told_apart() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        let ndjson = "application/x-ndjson";
        let form = "application/x-www-form-urlencoded";
        let line = r#"{"subscriber":1,"subject":"a"}"#;
        for (content_type, body, added, failed) in [
            (
                ndjson,
                format!("{line}\n{}\n", line.replace('1', "2")),
                2,
                0,
            ),
            (
                "application/json",
                format!("[{line},\n {}]", line.replace('1', "2")),
                2,
                0,
            ),
            (form, format!("{line}\n2 a\n#c\n[bad"), 2, 1),
            (form, format!("[{line}]"), 1, 0),
            ("text/plain", line.to_owned(), 0, 1),
            (ndjson, "1 a".to_owned(), 0, 1),
            (
                ndjson,
                "{\"subscriber\":1}\n{\"subscriber\":1,\"subject\":2,\"x\":3}".into(),
                0,
                2,
            ),
            (
                ndjson,
                "{\"subscriber\":-1,\"subject\":2}\n".to_owned(),
                0,
                1,
            ),
            (form, format!("{}\n1 a", "x".repeat(5000)), 1, 1),
        ] {
            let headers = [("content-type", content_type)];
            let answer = ask(&http, "POST", "/v1/subscriptions", &headers, body.clone()).await;
            let answer = answer.json();
            assert_eq!(
                (&answer["added"], &answer["failed"]),
                (&json!(added), &json!(failed)),
                "{content_type} {body}: {answer}"
            );
            for id in [1, 2] {
                fake.router().graph().remove(&id.into()).unwrap();
            }
        }
    });
}

#[test]
fn a_hundred_thousand_edges_in_pieces_and_a_bounded_list_of_errors() {
    run(async {
        let fake = Fake::new();
        let mut text = String::new();
        for n in 0..100_000 {
            text += &format!("{} {}\n", n % 1000, 1000 + n / 1000);
            if n % 500 == 0 {
                text += "bad\n";
            }
        }
        let pieces = text
            .as_bytes()
            .chunks(8191)
            .map(Bytes::copy_from_slice)
            .collect();
        let answer = ask(
            &fake.http(),
            "POST",
            "/v1/subscriptions",
            &[],
            stream(pieces),
        )
        .await
        .json();
        assert_eq!(answer["added"], 100_000);
        assert_eq!(answer["failed"], 200);
        assert_eq!(answer["errors"].as_array().unwrap().len(), 100);
        assert_eq!(fake.router().graph().counts().edges, 100_000);
    });
}
