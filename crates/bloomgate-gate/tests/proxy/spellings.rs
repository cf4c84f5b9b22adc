//! Every spelling that the upstream answers with 200 must pass: random odd paths, asked of an axum service directly and
//! through the proxy. And every spelling that it stores under must be in the filter.

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

#[tokio::test]
async fn whatever_the_upstream_finds_is_never_stopped() {
    let catalog = Catalog::of(Keys::of(KEYS));
    let direct = catalog.start().await;
    let stage = Stage::set(options(direct), ready_gate(&catalog.keys).await).await;
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
