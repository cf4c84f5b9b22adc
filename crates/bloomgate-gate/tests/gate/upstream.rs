//! Any HTTP service as the source: what it answers is what the gate believes, and what it does wrong is an error.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bloomgate_gate::sources::{KeyBatch, KeyList, Source, Upstream};
use bloomgate_gate::{Error, ErrorKind, Gate, Key, KeyType, Outcome, State, Writers};
use bytes::Bytes;

use crate::http_service::{Answer, Asked, Service, Then};

/// What `%XX` stands for.
fn decoded(path: &str) -> String {
    let (mut bytes, mut from) = (Vec::new(), path.bytes());
    while let Some(byte) = from.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [from.next().unwrap(), from.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    String::from_utf8(bytes).unwrap()
}

/// A catalogue that can be read and written.
fn catalogue(rows: impl IntoIterator<Item = (&'static str, &'static str)>) -> Service {
    let rows: BTreeMap<String, Vec<u8>> = rows.into_iter().map(|(key, row)| (key.into(), row.into())).collect();
    let rows = Mutex::new(rows);
    Service::start(move |asked: &Asked| {
        let mut rows = rows.lock().unwrap();
        let key = decoded(asked.path.strip_prefix("/products/").unwrap());
        match asked.method.as_str() {
            "GET" => match rows.get(&key) {
                Some(row) => Answer::whole("200 OK", "content-type: application/json\r\n", row),
                None => Answer::whole("404 Not Found", "", "no such product"),
            },
            "PUT" => {
                assert_eq!(asked.header("content-type"), Some("application/json"));
                match rows.insert(key, asked.body.clone()) {
                    Some(_) => Answer::raw("HTTP/1.1 204 No Content\r\n\r\n", Then::KeepAlive),
                    None => Answer::whole("201 Created", "", ""),
                }
            }
            "DELETE" => match rows.remove(&key) {
                Some(_) => Answer::raw("HTTP/1.1 204 No Content\r\n\r\n", Then::KeepAlive),
                None => Answer::whole("404 Not Found", "", ""),
            },
            other => panic!("{other} was never meant"),
        }
    })
}

fn upstream(service: &Service, keys: KeyList) -> Upstream {
    Upstream::new(&service.url("/products/{key}"), keys).unwrap().deadline(Duration::from_secs(5))
}

/// A service that gives one answer to everything.
fn always(answer: Answer) -> (Service, Upstream) {
    let service = Service::start(move |_| answer.clone());
    let upstream = upstream(&service, KeyList::None);
    (service, upstream)
}

/// One whose exchanges may take 150 ms: for answers that never come.
fn hasty(answer: Answer) -> (Service, Upstream) {
    let (service, upstream) = always(answer);
    (service, upstream.deadline(Duration::from_millis(150)))
}

async fn failed_get(upstream: &Upstream) -> Error {
    let error = upstream.get(&Key::from("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Source, "{error}");
    error
}

async fn failed_put(upstream: &Upstream) -> Error {
    upstream.put_many(&[(Key::from("a"), Bytes::from("{}"))]).await.unwrap_err()
}

#[tokio::test]
async fn rows_are_read_written_and_deleted_over_few_connections() {
    let service = catalogue([("kettle", r#"{"price":20}"#)]);
    let upstream = upstream(&service, KeyList::None);
    assert_eq!(upstream.describe(), format!("upstream http://{}/products/{{key}}", service.address));
    assert_eq!(upstream.get(&"kettle".into()).await.unwrap().unwrap(), r#"{"price":20}"#);
    for key in ["lamp", "a/b", "../kettle", "é ü?#%41&", "."] {
        let (key, row) = (Key::from(key), Bytes::from(r#"{"price":7}"#));
        if upstream.key_type().show(&key) == "." {
            assert_eq!(upstream.get(&key).await.unwrap_err().kind(), ErrorKind::Invalid);
            continue;
        }
        assert_eq!(upstream.get(&key).await.unwrap(), None);
        assert!(!upstream.delete(&key).await.unwrap());
        upstream.put_many(&[(key.clone(), row.clone())]).await.unwrap();
        upstream.put_many(&[(key.clone(), row.clone())]).await.unwrap();
        assert_eq!(upstream.get(&key).await.unwrap(), Some(row));
        assert!(upstream.delete(&key).await.unwrap());
        assert_eq!(upstream.get(&key).await.unwrap(), None);
    }
    assert!(upstream.get(&"kettle".into()).await.unwrap().is_some(), "no key is another's path");
    assert!(service.connections() <= 5, "{} connections for 30 exchanges in turn", service.connections());
    assert!(upstream.put_many(&[]).await.is_ok());
    let two = [("x".into(), Bytes::from("{}")), ("y".into(), Bytes::from("{}"))];
    assert_eq!(upstream.put_many(&two).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn every_status_is_a_row_none_or_an_error_that_names_it() {
    let (_gone, upstream) = always(Answer::whole("410 Gone", "", ""));
    assert_eq!(upstream.get(&"a".into()).await.unwrap(), None);
    for (status, says) in [
        ("500 Internal Server Error", "500"),
        ("503 Service Unavailable", "503"),
        ("429 Too Many Requests", "fewer requests"),
        ("401 Unauthorized", "give the header"),
        ("204 No Content", "answered with 200"),
        ("206 Partial Content", "206"),
    ] {
        let (_service, upstream) = always(Answer::whole(status, "", ""));
        let error = failed_get(&upstream).await.to_string();
        assert!(error.contains(says) && error.contains(&status[..3]), "{error}");
    }
    // A redirect is not followed, wherever it leads.
    let elsewhere = catalogue([("a", "{}")]);
    let location = format!("location: {}\r\n", elsewhere.url("/products/a"));
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect"] {
        let (_service, upstream) = always(Answer::whole(status, &location, ""));
        let error = failed_get(&upstream).await.to_string();
        assert!(error.contains("not followed"), "{error}");
        assert_eq!(failed_put(&upstream).await.kind(), ErrorKind::Source);
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_row_that_is_too_long_cut_off_late_or_no_json_is_an_error() {
    let long = format!("\"{}\"", "x".repeat(5_000));
    for answer in [Answer::whole("200 OK", "", &long), Answer::chunked(long.as_bytes(), 700, true)] {
        let (_service, upstream) = always(answer);
        let error = failed_get(&upstream.clone().longest_row(5_001)).await.to_string();
        assert!(error.contains("more than 5001 bytes"), "{error}");
        assert_eq!(upstream.longest_row(5_002).get(&"a".into()).await.unwrap().unwrap().len(), 5_002);
    }
    let (_service, upstream) = always(Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"a\":", Then::Close));
    assert!(failed_get(&upstream).await.to_string().contains("cut off"));
    let (_service, upstream) = always(Answer::chunked(b"{\"a\":1}", 3, false));
    assert!(failed_get(&upstream).await.to_string().contains("cut off"));
    let (_service, upstream) = always(Answer::whole("200 OK", "", "<html>"));
    assert!(failed_get(&upstream).await.to_string().contains("no JSON"));
    let (_service, upstream) = always(Answer::raw("what?\r\n\r\n", Then::Close));
    failed_get(&upstream).await;
    for begun in ["", "HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{\"a\":"] {
        let (_service, upstream) = hasty(Answer::raw(begun, Then::Stall));
        assert!(failed_get(&upstream).await.to_string().contains("150 ms"));
    }
}

/// The gate keeps a key in its filters unless it knows that the write was not done.
#[tokio::test]
async fn a_write_is_done_not_done_or_unknown() {
    for (status, kind) in [
        ("400 Bad Request", ErrorKind::Source),
        ("409 Conflict", ErrorKind::Source),
        ("429 Too Many Requests", ErrorKind::Source),
        ("500 Internal Server Error", ErrorKind::Unknown),
        ("504 Gateway Timeout", ErrorKind::Unknown),
        ("202 Accepted", ErrorKind::Unknown),
    ] {
        let (_service, upstream) = always(Answer::whole(status, "", ""));
        assert_eq!(failed_put(&upstream).await.kind(), kind, "{status}");
        assert_eq!(upstream.delete(&"a".into()).await.unwrap_err().kind(), kind, "{status}");
    }
    let (_service, upstream) = always(Answer::whole("404 Not Found", "", ""));
    assert_eq!(failed_put(&upstream).await.kind(), ErrorKind::Source, "no place to put it is no success");
    assert!(!upstream.delete(&"a".into()).await.unwrap());
    for then in [Then::Close, Then::Stall] {
        let (_service, upstream) = hasty(Answer::raw("", then));
        assert_eq!(failed_put(&upstream).await.kind(), ErrorKind::Unknown, "{then:?}");
    }
    // Nobody listens: nothing was sent.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let upstream = Upstream::new(&format!("http://{closed}/{{key}}"), KeyList::None).unwrap();
    assert_eq!(failed_put(&upstream).await.kind(), ErrorKind::Source);
    failed_get(&upstream).await;
}

#[tokio::test]
async fn headers_go_along_and_are_never_shown() {
    let service = Service::start(|asked: &Asked| {
        let right = asked.header("authorization") == Some("Bearer hidden")
            && asked.header("accept-encoding") == Some("identity");
        if right { Answer::whole("200 OK", "", "7") } else { Answer::whole("401 Unauthorized", "", "") }
    });
    let upstream = upstream(&service, KeyList::None);
    assert!(failed_get(&upstream).await.to_string().contains("401"));
    let upstream = upstream.header("Authorization", "Bearer hidden").unwrap();
    assert_eq!(upstream.get(&"a".into()).await.unwrap().unwrap(), "7");
    assert!(!format!("{upstream:?} {}", upstream.describe()).contains("hidden"));
    assert!(upstream.clone().header("a b", "c").is_err() && upstream.header("a", "b\nc").is_err());
}

#[tokio::test]
async fn many_rows_come_in_order_a_few_at_once() {
    // Inside now, the most ever; nobody leaves before two were inside, so a client that goes one by one would be seen.
    let inside = Arc::new((Mutex::new((0usize, 0usize)), Condvar::new()));
    let there = Arc::clone(&inside);
    let service = Service::start(move |asked: &Asked| {
        let (now, changed) = &*there;
        let mut count = now.lock().unwrap();
        count.0 += 1;
        count.1 = count.1.max(count.0);
        changed.notify_all();
        let (mut count, late) = changed.wait_timeout_while(count, Duration::from_secs(5), |count| count.1 < 2).unwrap();
        assert!(!late.timed_out(), "requests come one by one");
        count.0 -= 1;
        let key: u32 = asked.path.strip_prefix("/products/").unwrap().parse().unwrap();
        match key % 3 {
            0 => Answer::whole("404 Not Found", "", ""),
            _ => Answer::whole("200 OK", "", key.to_string()),
        }
    });
    let upstream = upstream(&service, KeyList::None).at_once(4);
    let keys: Vec<Key> = (0..60).map(|key| Key::from(&*key.to_string())).collect();
    let rows = upstream.get_many(&keys).await.unwrap();
    for (key, row) in rows.iter().enumerate() {
        let expected = (key % 3 > 0).then(|| Bytes::from(key.to_string()));
        assert_eq!(*row, expected, "{key}");
    }
    let (_, most) = *inside.0.lock().unwrap();
    assert!((2..=4).contains(&most), "{most} at once");
    assert!(upstream.get_many(&[]).await.unwrap().is_empty());
}

async fn listed(upstream: &Upstream) -> Result<Vec<Vec<u8>>, Error> {
    let (mut scan, mut batch, mut keys) = (upstream.scan().await?, KeyBatch::default(), Vec::new());
    while scan.next(&mut batch).await? {
        assert!(!batch.is_empty());
        keys.extend(batch.iter().map(<[u8]>::to_vec));
    }
    Ok(keys)
}

fn with_list(answer: Answer) -> (Service, Upstream) {
    let service = Service::start(move |asked: &Asked| {
        assert_eq!((asked.path.as_str(), asked.header("cache-control")), ("/keys?all=1", Some("no-cache")));
        answer.clone()
    });
    let list = KeyList::Url(service.url("/keys?all=1"));
    let upstream = upstream(&service, list).deadline(Duration::from_millis(1500));
    (service, upstream)
}

#[tokio::test]
async fn a_list_is_read_whole_whatever_pieces_it_comes_in() {
    let keys: Vec<String> = (0..20_000).map(|at| format!("key {}", "é".repeat(at % 7) + &at.to_string())).collect();
    let text = keys.iter().fold(String::new(), |text, key| text + key + "\n");
    let expected: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
    for answer in [
        Answer::whole("200 OK", "", &text),
        Answer::chunked(text.as_bytes(), 7, true),
        Answer::chunked(text.as_bytes(), 50_001, true),
    ] {
        let (_service, upstream) = with_list(answer);
        assert!(listed(&upstream).await.unwrap() == expected);
        assert_eq!(upstream.count().await.unwrap(), 20_000);
    }
    for empty in [Answer::whole("200 OK", "", ""), Answer::chunked(b"", 1, true)] {
        let (_service, upstream) = with_list(empty);
        assert_eq!(upstream.count().await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_list_that_may_not_be_whole_is_an_error() {
    let long = format!("{}\n", "x".repeat(9_000));
    for (answer, says) in [
        (Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\na\nb\n", Then::Close), "cut off"),
        (Answer::chunked(b"a\nb\nc\n", 2, false), "cut off"),
        (Answer::raw("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\na\nb\n", Then::Close), "without a length"),
        (Answer::raw("HTTP/1.0 200 OK\r\n\r\na\nb\n", Then::Close), "without a length"),
        (Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\na\nb\n", Then::Stall), "nothing more came"),
        (Answer::raw("", Then::Stall), "no answer"),
        (Answer::whole("200 OK", "", "a\nb"), "no newline"),
        (Answer::whole("200 OK", "", "a\r\nb\r\n"), "line 1 of"),
        (Answer::whole("200 OK", "", b"a\nb\xff\n"), "line 2 of"),
        (Answer::whole("200 OK", "", &long), "longer than any key"),
        (Answer::whole("200 OK", "", long.trim_end()), "longer than any key"),
        (Answer::whole("200 OK", "age: 30\r\n", "a\n"), "from a cache"),
        (Answer::whole("200 OK", "content-encoding: gzip\r\n", "a\n"), "coding"),
        (Answer::whole("206 Partial Content", "", "a\n"), "206"),
        (Answer::whole("500 Internal Server Error", "", "a\n"), "500"),
        (Answer::whole("302 Found", "location: /elsewhere\r\n", "a\n"), "302"),
    ] {
        let (_service, upstream) = with_list(answer);
        let error = listed(&upstream).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Source, "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert!(!error.to_string().contains("all=1"), "a query may hold a token: {error}");
    }
    let (_service, upstream) = always(Answer::whole("200 OK", "", ""));
    for error in [upstream.scan().await.err().unwrap(), upstream.count().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("only watch"), "{error}");
    }
}

#[tokio::test]
async fn keys_of_a_type_are_spelled_as_the_service_spells_them() {
    let service = catalogue([("42", "[42]"), ("-7", "[-7]")]);
    let lists = Service::start(|_| Answer::whole("200 OK", "", "042\n\n-7\n"));
    let upstream = upstream(&service, KeyList::Url(lists.url("/"))).keys_are(KeyType::Integer { bits: 32 });
    assert_eq!(Source::key_type(&upstream), KeyType::Integer { bits: 32 });
    assert_eq!(listed(&upstream).await.unwrap(), [42i64.to_le_bytes(), (-7i64).to_le_bytes()]);
    assert_eq!(upstream.get(&Key::from(42)).await.unwrap().unwrap(), "[42]");
    assert_eq!(upstream.get(&Key::from(-7)).await.unwrap().unwrap(), "[-7]");
    let lists = Service::start(|_| Answer::whole("200 OK", "", "1\nx\n"));
    let upstream = Upstream::new("http://h/{key}", KeyList::Url(lists.url("/"))).unwrap();
    let error = listed(&upstream.keys_are(KeyType::Integer { bits: 64 })).await.unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
}

#[tokio::test]
async fn a_file_of_keys_is_read_whole_and_nothing_is_written_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.txt");
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let service = Service::start(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Answer::whole("200 OK", "", "{}")
    });
    let upstream = upstream(&service, KeyList::File(path.clone()));
    assert!(upstream.scan().await.is_err(), "no such file");

    let text = (0..80_000).fold(String::new(), |text, key| text + &format!("product-{key}\n"));
    std::fs::write(&path, &text).unwrap();
    assert_eq!(upstream.count().await.unwrap(), 80_000);
    let keys = listed(&upstream).await.unwrap();
    assert!(keys.iter().enumerate().all(|(at, key)| *key == format!("product-{at}").into_bytes()));

    // Changed under the reader: what it has read is of two moments.
    let (mut scan, mut batch) = (upstream.scan().await.unwrap(), KeyBatch::default());
    assert!(scan.next(&mut batch).await.unwrap());
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"one more\n").unwrap();
    let error = loop {
        match scan.next(&mut batch).await {
            Ok(more) => assert!(more, "the list ended as if nothing had happened"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("changed while it was read"), "{error}");
    // Exchanged under the reader: it reads on in the old one.
    let mut scan = upstream.scan().await.unwrap();
    assert!(scan.next(&mut batch).await.unwrap());
    std::fs::write(folder.path().join("new"), "cut").unwrap();
    std::fs::rename(folder.path().join("new"), &path).unwrap();
    let mut count = batch.len();
    while scan.next(&mut batch).await.unwrap() {
        count += batch.len();
    }
    assert_eq!(count, 80_001);
    assert!(listed(&upstream).await.unwrap_err().to_string().contains("no newline"));

    for error in [failed_put(&upstream).await, upstream.delete(&"a".into()).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("keys.txt"), "{error}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    assert!(upstream.get(&"a".into()).await.unwrap().is_some());
}

/// The whole gate over a service: what is absent never gets there, what is put is there at once, and a list that is cut off
/// leaves the old filter in place.
#[tokio::test]
async fn a_gate_before_a_service_keeps_absent_keys_away_from_it() {
    let rows: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
    rows.lock().unwrap().extend((0..500).map(|key| (format!("sku-{key}"), b"{\"price\":1}".to_vec())));
    let (reads, cut) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let service = {
        let (rows, reads, cut) = (rows.clone(), reads.clone(), cut.clone());
        Service::start(move |asked: &Asked| {
            let mut rows = rows.lock().unwrap();
            if asked.path == "/keys" {
                let list: String = rows.keys().map(|key| format!("{key}\n")).collect();
                return Answer::chunked(list.as_bytes(), 100, cut.load(Ordering::SeqCst) == 0);
            }
            let key = decoded(asked.path.strip_prefix("/products/").unwrap());
            match asked.method.as_str() {
                "PUT" => {
                    rows.insert(key, asked.body.clone());
                    Answer::whole("201 Created", "", "")
                }
                _ => {
                    reads.fetch_add(1, Ordering::SeqCst);
                    match rows.get(&key) {
                        Some(row) => Answer::whole("200 OK", "", row),
                        None => Answer::whole("404 Not Found", "", ""),
                    }
                }
            }
        })
    };
    let source = Arc::new(upstream(&service, KeyList::Url(service.url("/keys"))));
    let gate = Gate::builder(source).writers(Writers::Sole).rate(1e-6).audit_share(0.0).build().unwrap();
    assert_eq!(gate.rebuild().await.unwrap().keys, 500);
    let before = reads.load(Ordering::SeqCst);
    for key in 0..1_000 {
        let answer = gate.get(&Key::from(&*format!("sku-{key}"))).await.unwrap();
        assert_eq!(answer.row.is_some(), key < 500, "{key}");
    }
    assert_eq!(reads.load(Ordering::SeqCst) - before, 500, "what is absent did not get there");

    gate.put("sku-700".into(), Bytes::from("{\"price\":2}")).await.unwrap();
    assert_eq!(gate.get(&"sku-700".into()).await.unwrap().row.unwrap(), "{\"price\":2}");
    cut.store(1, Ordering::SeqCst);
    assert_eq!(gate.rebuild().await.unwrap_err().kind(), ErrorKind::Source);
    assert!(matches!(gate.state(), State::Ready { version: 1, .. }), "{:?}", gate.state());
    cut.store(0, Ordering::SeqCst);
    let rebuilt = gate.rebuild().await.unwrap();
    assert_eq!(rebuilt.keys, 501);
    let answer = gate.get(&"sku-701".into()).await.unwrap();
    assert_eq!((answer.outcome, answer.version), (Outcome::AbsentByFilter, rebuilt.version));
    assert!(gate.get(&"sku-700".into()).await.unwrap().row.is_some());
}

/// Half a thousand products, of which a list in a file tells.
struct Shelf {
    _folder: tempfile::TempDir,
    list: std::path::PathBuf,
    service: Service,
}

impl Shelf {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("keys.txt");
        let service = Service::start(|asked: &Asked| {
            let key = decoded(asked.path.strip_prefix("/products/").unwrap());
            let number =
                key.trim_end_matches([' ', '\u{1}']).strip_prefix("sku-").and_then(|number| number.parse().ok());
            match number.is_some_and(|number: u32| number < 500) {
                true => Answer::whole("200 OK", "", "{}"),
                false => Answer::whole("404 Not Found", "", ""),
            }
        });
        Self { _folder: folder, list, service }
    }

    fn gate(&self, set: impl FnOnce(Upstream) -> Upstream) -> Gate {
        let source = set(upstream(&self.service, KeyList::File(self.list.clone())));
        Gate::builder(Arc::new(source)).writers(Writers::Sole).rate(1e-6).build().unwrap()
    }

    async fn refused(&self, text: &[u8], says: &[&str]) {
        std::fs::write(&self.list, text).unwrap();
        let gate = self.gate(|source| source);
        let error = gate.rebuild().await.unwrap_err();
        assert_eq!((error.kind(), gate.state()), (ErrorKind::Source, State::Loading), "{error}");
        for words in says {
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
    }
}

fn skus(numbers: std::ops::Range<u32>) -> String {
    numbers.map(|number| format!("sku-{number}\n")).collect()
}

#[tokio::test]
async fn a_list_that_was_not_written_cleanly_makes_no_wrong_no() {
    let shelf = Shelf::new();
    // What editors write before a text is no part of a key, at its beginning alone.
    std::fs::write(&shelf.list, format!("\u{feff}{}", skus(1..100))).unwrap();
    let gate = shelf.gate(|source| source);
    assert_eq!(gate.rebuild().await.unwrap().keys, 99);
    for number in 1..100 {
        let answer = gate.get(&format!("sku-{number}").as_str().into()).await.unwrap();
        assert!(answer.row.is_some(), "{number}: {:?}", answer.outcome);
    }
    assert_eq!(gate.get(&"sku-999".into()).await.unwrap().outcome, Outcome::AbsentByFilter);
    shelf.refused("sku-1\n\u{feff}sku-2\n".as_bytes(), &["line 2 of", "U+FEFF"]).await;
    for (line, says) in [
        ("sku-2 ", "ends with a blank"),
        (" sku-2", "begins with a blank"),
        ("\u{a0}sku-2", "begins with a blank"),
        ("sku-2\t", "U+0009"),
        ("sku-2\0", "U+0000"),
        ("sk\u{1b}u-2", "U+001B"),
        ("sku-2\u{85}", "U+0085"),
    ] {
        shelf.refused(format!("sku-1\n{line}\nsku-3\n").as_bytes(), &["line 2 of", says, "keys-as-listed"]).await;
    }
    // A blank within a key is a letter like others, and who has such keys says so.
    std::fs::write(&shelf.list, "sku-1 \nsku-2\u{1}\nsku-3\n").unwrap();
    let gate = shelf.gate(Upstream::keys_as_listed);
    assert_eq!(gate.rebuild().await.unwrap().keys, 3);
    assert!(gate.get(&"sku-1 ".into()).await.unwrap().row.is_some());
    let lists = Service::start(|_| Answer::whole("200 OK", "", "a b\nc\n"));
    let within = upstream(&shelf.service, KeyList::Url(lists.url("/")));
    assert_eq!(listed(&within).await.unwrap(), [&b"a b"[..], b"c"]);
}

#[tokio::test]
async fn an_empty_list_is_believed_only_if_somebody_says_so() {
    let shelf = Shelf::new();
    for text in ["", "\u{feff}"] {
        shelf
            .refused(text.as_bytes(), if text.is_empty() { &["is empty", "accept-fewer"] } else { &["newline"] })
            .await;
    }
    std::fs::write(&shelf.list, "").unwrap();
    // One that only watches stops nobody.
    let source = Arc::new(upstream(&shelf.service, KeyList::File(shelf.list.clone())));
    Gate::builder(source.clone()).build().unwrap().rebuild().await.unwrap();
    let told = Gate::builder(source).writers(Writers::Sole).accept_fewer(true).build().unwrap();
    told.rebuild().await.unwrap();
    told.rebuild().await.unwrap();
    let gate = shelf.gate(|source| source);
    gate.rebuild_accepting_fewer().await.unwrap();
    assert_eq!(gate.get(&"sku-1".into()).await.unwrap().outcome, Outcome::AbsentByFilter);
}

#[tokio::test]
async fn a_list_of_keys_that_the_service_does_not_know_is_told_of_and_refused_if_they_are_many() {
    use bloomgate_gate::Event;
    let shelf = Shelf::new();
    // 64 keys, all of which are asked for.
    for (strange, is_refused) in [(0, false), (6, false), (7, true), (20, true)] {
        std::fs::write(&shelf.list, skus(500 - (64 - strange)..500 + strange)).unwrap();
        let (told, listener) = crate::listening::listen();
        let source = Arc::new(upstream(&shelf.service, KeyList::File(shelf.list.clone())));
        let sole = Gate::builder(source.clone()).writers(Writers::Sole).on_event(listener).build().unwrap();
        let rebuilt = sole.rebuild().await;
        assert_eq!(rebuilt.is_err(), is_refused, "{strange}");
        if let Err(error) = rebuilt {
            for words in [format!("the service knows {}", 64 - strange), "\"sku-5".into(), "Make it anew".into()] {
                assert!(error.to_string().contains(&words), "{words}: {error}");
            }
        }
        let sample = sole.stats().rebuild.sample.unwrap();
        assert_eq!((sample.asked, sample.unknown), (64, u64::from(strange)));
        let is_told = told.has(
            |event| matches!(event, Event::KeysUnknown { asked: 64, unknown, .. } if *unknown == u64::from(strange)),
        );
        assert_eq!(is_told, strange > 0 && !is_refused, "{:?}", told.all());
        // One that only watches counts what is wrong, and stops nobody.
        Gate::builder(source).build().unwrap().rebuild().await.unwrap();
    }
}
