//! Every spelling that the upstream answers with 200 must pass: random odd paths, asked of an axum service directly and
//! through the proxy. And every spelling that it stores under must be in the filter.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use bloomgate_gate::sources::{KeyList, Upstream};
use bloomgate_gate::{Gate, KeyType, Writers};

use crate::catalog::Catalog;
use crate::stage::{Keys, Stage, options, raw, ready_gate};

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % below as u64) as usize
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.next(of.len())]
    }
}

/// A key in some spelling: letters escaped or not, in either case, twice, with odd things around them.
fn spelled(random: &mut Random, key: &str) -> String {
    let mut out = String::new();
    for byte in key.bytes() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        match random.next(8) {
            0 => out.push_str(&format!("%{byte:02X}")),
            1 => out.push_str(&format!("%{byte:02x}")),
            2 if random.next(4) == 0 => out.push_str(&format!("%25{byte:02X}")),
            _ if plain => out.push(char::from(byte)),
            _ if byte < 0x80 && random.next(2) == 0 && !b" %?#/".contains(&byte) => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    if random.next(6) == 0 {
        let odd =
            [";v=1", ".json", "/", "%00", "+", "%2B", "%20", "/.", "/..", "//", "%2F", "?x=1", "%", "%4", "%ZZ", "\\"];
        out.push_str(random.pick(&odd));
    }
    out
}

const KEYS: [&str; 16] = [
    "kettle",
    "a b",
    "a+b",
    "a%20b",
    "A",
    "a",
    "%41",
    "é",
    "a/b",
    "x;v=1",
    "kettle.json",
    "..",
    " padded ",
    "1.5",
    "100%",
    "tab\tkey",
];

/// A service that finds a key in whatever way some framework does: the whole rest of the path, decoded or not, without a last
/// slash, a parameter or a format, with spaces for plus signs, trimmed.
async fn lenient(keys: &Keys) -> SocketAddr {
    let keys = keys.clone();
    let find = move |request: axum::extract::Request| async move {
        let path = request.uri().path().to_owned();
        let Some(rest) = path.strip_prefix("/products/") else { return StatusCode::NOT_FOUND };
        let mut all = vec![rest.to_owned()];
        let steps: [fn(&str) -> String; 7] = [
            |text| text.trim_end_matches('/').to_owned(),
            |text| text.split(';').next().unwrap_or_default().to_owned(),
            decoded,
            |text| text.split(';').next().unwrap_or_default().to_owned(),
            |text| text.replace('+', " "),
            |text| text.trim().to_owned(),
            |text| text.strip_suffix(".json").unwrap_or(text).to_owned(),
        ];
        // In every order and choice.
        for _ in 0..3 {
            for step in steps {
                for at in 0..all.len() {
                    let text = step(&all[at]);
                    if !all.contains(&text) {
                        all.push(text);
                    }
                }
            }
        }
        if all.iter().any(|key| keys.has(key)) { StatusCode::OK } else { StatusCode::NOT_FOUND }
    };
    crate::catalog::serve(axum::Router::new().fallback(find)).await
}

/// Percent signs decoded where they can be.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, more)) = rest.split_first() {
        let digits = more.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &more[2..];
            }
            _ => {
                bytes.push(first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn whatever_the_upstream_finds_is_never_stopped() {
    let catalog = Catalog::of(Keys::of(KEYS));
    never_stopped(&catalog.keys, catalog.start().await).await;
}

#[tokio::test]
async fn whatever_a_lenient_upstream_finds_is_never_stopped() {
    let keys = Keys::of(KEYS);
    never_stopped(&keys, lenient(&keys).await).await;
}

async fn never_stopped(keys: &Keys, direct: SocketAddr) {
    let stage = Stage::set(options(direct), ready_gate(keys).await).await;
    // Every "no" is checked at the source as well.
    stage.gate.start();
    let mut random = Random(20);
    let (mut found, mut stopped) = (0, 0);
    for _ in 0..1500 {
        let key = if random.next(3) == 0 { "absent".to_owned() } else { random.pick(&KEYS).to_owned() };
        let prefix = random.pick(&[
            "/products/",
            "/products/",
            "/products/",
            "/products/",
            "/products//",
            "/Products/",
            "/%70roducts/",
            "//products/",
            "/./products/",
            "/x/../products/",
            "/products/%2e/",
        ]);
        let path = format!("{prefix}{}", spelled(&mut random, &key));
        let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
        let (at_once, through) = (raw(direct, request.as_bytes()).await, raw(stage.address, request.as_bytes()).await);
        if through.by_filter() {
            stopped += 1;
            assert_ne!(at_once.status, 200, "{path} is found directly and stopped by the proxy");
        } else {
            assert_eq!((at_once.status, &at_once.body), (through.status, &through.body), "{path}");
            found += usize::from(at_once.status == 200);
        }
    }
    assert!(found > 200 && stopped > 100, "{found} found, {stopped} stopped: both happen");
    let audit = stage.gate.stats().audit;
    assert!(audit.wrong == 0 && audit.checked > 0, "{audit:?}");
}

#[tokio::test]
async fn an_absent_key_with_something_behind_it_is_stopped() {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let stage = Stage::set(options(catalog.start().await), ready_gate(&catalog.keys).await).await;
    for odd in ["lamp.json", "lamp;a", "lamp+b", "lamp%2Bb", "lamp/", "lamp.JSON/"] {
        let got = stage.get(&format!("/products/{odd}")).await;
        assert!(got.by_filter(), "{odd}: {got:?}");
    }
    // What may be a key that is there passes, whatever the service then says; and no false positive is counted for it.
    for odd in ["kettle.json", "kettle;a", "kettle/"] {
        let got = stage.get(&format!("/products/{odd}")).await;
        assert_eq!((got.status, got.by_filter()), (404, false), "{odd}: {got:?}");
    }
    assert_eq!(stage.gate.stats().measured.false_positives, 0);
}

#[tokio::test]
async fn numbers_with_something_behind_them_are_stopped_and_what_may_be_a_number_is_not() {
    let catalog = Catalog::of(Keys::of(["42"]));
    let upstream = catalog.start().await;
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("keys.txt");
    std::fs::write(&list, "42\n").unwrap();
    let source = Upstream::new(&format!("http://{upstream}/products/{{key}}"), KeyList::File(list)).unwrap();
    let source = source.keys_are(KeyType::Integer { bits: 64 }).only_existence();
    let gate = Gate::builder(Arc::new(source)).writers(Writers::Sole).build().unwrap();
    gate.rebuild().await.unwrap();
    let stage = Stage::set(options(upstream), gate).await;
    for odd in ["7", "7.json", "7;a", "7/"] {
        assert!(stage.get(&format!("/products/{odd}")).await.by_filter(), "{odd}");
    }
    for odd in ["42", "42.json", "42;a", "42/", "42a", "42a.json", "4%32.json", "4+2", "x.json", "042.json"] {
        assert!(!stage.get(&format!("/products/{odd}")).await.by_filter(), "{odd}");
    }
}

#[tokio::test]
async fn whatever_the_upstream_stores_is_found_under_every_spelling() {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let direct = catalog.start().await;
    let stage = Stage::set(options(direct), ready_gate(&catalog.keys).await).await;
    let mut random = Random(21);
    for round in 0..400 {
        let key = format!("{}-{round}", random.pick(&KEYS));
        let path = format!("/products/{}", spelled(&mut random, &key));
        let put = format!("PUT {path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}");
        raw(stage.address, put.as_bytes()).await;
    }
    let stored: Vec<String> = catalog.keys.0.lock().unwrap().iter().cloned().collect();
    assert!(stored.len() > 200, "{}", stored.len());
    for key in stored {
        let plain: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let got = stage.get(&format!("/products/{plain}")).await;
        assert_eq!(got.status, 200, "{key:?} is stored: {got:?}");
        let text: String = key
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => char::from(byte).to_string(),
                other => format!("%{other:02x}"),
            })
            .collect();
        assert_eq!(stage.get(&format!("/products/{text}")).await.status, 200, "{key:?}");
    }
}

/// A service that takes whatever stands behind the last dot, or behind the first one, for the format of the answer.
async fn cutting(keys: &Keys, cut: fn(&str) -> &str) -> SocketAddr {
    let keys = keys.clone();
    let answer = move |request: axum::extract::Request| async move {
        let segment = request.uri().path().strip_prefix("/products/").unwrap_or_default().to_owned();
        let key = cut(&segment);
        match *request.method() {
            axum::http::Method::PUT => {
                keys.add(key);
                StatusCode::CREATED
            }
            _ if keys.has(key) => StatusCode::OK,
            _ => StatusCode::NOT_FOUND,
        }
    };
    crate::catalog::serve(axum::Router::new().fallback(answer)).await
}

#[tokio::test]
async fn what_is_written_and_asked_for_with_any_format_is_found_without() {
    let cuts: [fn(&str) -> &str; 2] = [
        |text| text.rsplit_once('.').map_or(text, |(stem, _)| stem),
        |text| text.split_once('.').map_or(text, |(stem, _)| stem),
    ];
    for cut in cuts {
        let keys = Keys::of(["kettle"]);
        let stage = Stage::set(options(cutting(&keys, cut).await), ready_gate(&keys).await).await;
        assert!(stage.get("/products/lamp").await.by_filter() && stage.get("/products/lamp.v2").await.by_filter());
        assert_eq!(stage.ask("PUT", "/products/lamp.v2", "", "{}").await.status, 201);
        for path in ["/products/lamp", "/products/lamp.v3", "/products/lamp.json", "/products/kettle.v2"] {
            let got = stage.get(path).await;
            assert_eq!((got.status, got.by_filter()), (200, false), "{path}: {got:?}");
        }
        assert_eq!(stage.ask("PUT", "/products/a.b.c", "", "{}").await.status, 201);
        for path in ["/products/a.b.c", "/products/a.b.d"] {
            assert_eq!(stage.get(path).await.status, 200, "{path}");
        }
        assert!(stage.get("/products/nobody.v2").await.by_filter());
    }
}
