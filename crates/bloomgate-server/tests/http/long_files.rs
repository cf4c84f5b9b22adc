//! Files that are longer than a reply in one piece: fetched and brought piece by piece.

use std::path::Path;

use bloomgate::{Address, AnyFilter, Delta};
use bloomgate_server::Settings;
use bloomgate_server::engine::Limits;
use bloomgate_server::store::Fsync;
use serde_json::json;

use crate::harness::{Client, Running, settings};

const KIND: (&str, &str) = ("content-type", "application/vnd.bloomgate.filter");
const MB: u64 = 1_000_000;
/// The bits of the filter that most tests fetch.
const SIZE: u64 = 40 * MB;

fn kept(folder: &Path) -> Settings {
    Settings { data: Some(folder.to_path_buf()), ..settings() }
}

fn with_memory(settings: Settings, bytes: u64) -> Settings {
    let limits = Limits { max_memory: bytes, max_filter_memory: bytes, ..settings.limits };
    Settings { limits, ..settings }
}

/// Makes a filter of so many bytes with three keys.
fn make(client: &mut Client, name: &str, kind: &str, bytes: u64) {
    let wish = json!({"name": name, "kind": kind, "bytes": bytes, "rate": 0.01, "hash": "xxh3"});
    client.json("POST", "/v1/filters", &wish).is(201);
    client.json("POST", &format!("/v1/filters/{name}/add"), &json!({"keys": ["a", "b", "c"]})).is(200);
}

/// The file of such a filter, built here.
fn file_of(bytes: u64) -> Vec<u8> {
    let mut filter = bloomgate::Blocked::builder().bytes(bytes).build().unwrap();
    filter.insert(&b"alice"[..]).unwrap();
    filter.to_bytes().unwrap()
}

fn used(client: &mut Client) -> u64 {
    client.get("/v1/overview").is(200).json()["memory"]["used"].as_u64().unwrap()
}

fn path(name: &str) -> String {
    format!("/v1/filters/{name}/snapshot")
}

#[test]
fn a_long_file_is_fetched_in_pieces_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start_with(kept(folder.path()));
    let mut client = running.client();
    make(&mut client, "long", "blocked", SIZE);
    let before = used(&mut client);
    let whole = client.get(&path("long")).is(200);
    assert!(whole.body.len() as u64 >= SIZE, "{}", whole.body.len());
    let tag = whole.header("etag").unwrap().to_owned();
    let address = tag.trim_matches('"').to_owned();
    assert_eq!(Address::of(&whole.body).to_string(), address);
    assert_eq!(whole.header("content-length"), Some(&*whole.body.len().to_string()));
    assert_eq!(used(&mut client), before, "it lies on the disk");
    let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = files.collect();
    assert!(files.iter().all(|name| !name.contains("tmp-")), "{files:?}");
    let filter = AnyFilter::from_bytes(&whole.body).unwrap();
    assert!(filter.contains(&b"a"[..]).unwrap() && !filter.contains(&b"d"[..]).unwrap());
    // As the commands see it.
    let digest = client.json("POST", "/v1/command", &json!({"argv": ["BG.DIGEST", "long"]})).is(200).json();
    assert_eq!(digest["reply"], json!(address));

    client.send("GET", &path("long"), &[("if-none-match", &tag)], b"").is(304);
    client.send("GET", &path("long"), &[("if-match", "\"00\"")], b"").problem(412, "precondition-failed");
    let head = client.send("HEAD", &path("long"), &[], b"").is(200);
    assert_eq!((head.header("etag"), head.header("content-length")), (Some(&*tag), whole.header("content-length")));
    // One who was cut off goes on, though the filter has changed.
    client.put("/v1/filters/long/keys/later").is(200);
    let (from, length) = (30 * MB as usize, whole.body.len());
    let rest = [("range", &*format!("bytes={from}-")), ("if-range", &*tag)];
    let rest = client.send("GET", &path("long"), &rest, b"").is(206);
    assert_eq!(rest.header("content-range"), Some(&*format!("bytes {from}-{}/{length}", length - 1)));
    assert!(rest.body == whole.body[from..]);
    let part = [("range", "bytes=1000000-1000099")];
    let part = client.send("GET", &format!("{}/{address}", path("long")), &part, b"").is(206);
    assert_eq!(part.body, &whole.body[1_000_000..1_000_100]);
    client.send("GET", &path("long"), &[("range", "bytes=99999999-")], b"").problem(416, "range-not-satisfiable");
    // As it is now, which is another file.
    let now = [("range", "bytes=0-9"), ("if-range", "\"00\"")];
    let now = client.send("GET", &path("long"), &now, b"").is(200);
    assert_ne!(now.header("etag"), Some(&*tag));
    assert!(AnyFilter::from_bytes(&now.body).unwrap().contains(&b"later"[..]).unwrap());
    client.get(&format!("{}/{address}", path("none"))).problem(404, "not-found");
    // What has changed since the first one.
    let delta = client.get(&format!("/v1/filters/long/delta?since={address}")).is(200);
    assert!((delta.body.len() as u64) < MB, "{}", delta.body.len());
    assert_eq!(delta.header("etag"), now.header("etag"));
    assert!(Delta::from_bytes(&delta.body).unwrap().apply(&whole.body).unwrap() == now.body);
    client.get(&format!("/v1/filters/long/delta?since={}", "0".repeat(64))).problem(404, "not-found");
    assert_eq!(used(&mut client), before);
    running.stop();
}

#[test]
fn kinds_whose_cells_move_are_fetched_as_well_and_a_client_that_goes_away_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start_with(kept(folder.path()));
    let mut client = running.client();
    make(&mut client, "counts", "counting", 20 * MB);
    let whole = client.get(&path("counts")).is(200);
    assert_eq!(Some(&*format!("\"{}\"", Address::of(&whole.body))), whole.header("etag"));
    assert!(AnyFilter::from_bytes(&whole.body).unwrap().contains(&b"c"[..]).unwrap());
    for _ in 0..10 {
        let mut gone = running.client();
        gone.put_raw(format!("GET {} HTTP/1.1\r\nhost: localhost\r\n\r\n", path("counts")).as_bytes());
    }
    assert_eq!(client.send("GET", &path("counts"), &[("range", "bytes=5-9")], b"").is(206).body, &whole.body[5..10]);
    running.stop();
}

#[test]
fn a_server_without_a_folder_has_it_in_memory_and_says_when_there_is_none() {
    let running = Running::start_with(with_memory(settings(), 70 * MB));
    let mut client = running.client();
    make(&mut client, "long", "blocked", 30 * MB);
    let before = used(&mut client);
    let whole = client.get(&path("long")).is(200);
    assert_eq!(Some(&*format!("\"{}\"", Address::of(&whole.body))), whole.header("etag"));
    assert!(used(&mut client) >= before + 30 * MB);
    // Another one does not fit beside it: it is kept for whoever was cut off.
    client.put("/v1/filters/long/keys/later").is(200);
    let why = client.get(&path("long")).problem(507, "no-room");
    assert!(why.contains("max-memory"), "{why}");
    let tag = whole.header("etag").unwrap();
    let part = client.send("GET", &path("long"), &[("range", "bytes=7-8"), ("if-range", tag)], b"").is(206);
    assert_eq!(part.body, &whole.body[7..9]);
    running.stop();
}

#[test]
fn a_long_file_is_brought_and_seen_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start_in(folder.path(), Fsync::Always);
    let mut client = running.client();
    let file = file_of(SIZE);
    let tag = format!("\"{}\"", Address::of(&file));
    let empty = used(&mut client);
    // Half of it, and then the client is gone.
    let head = |length: usize| {
        format!(
            "PUT {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {}\r\ncontent-length: {length}\r\n\r\n",
            path("new"),
            KIND.1
        )
    };
    let mut gone = running.client();
    gone.put_raw(head(file.len()).as_bytes());
    gone.put_raw(&file[..file.len() / 2]);
    client.get("/v1/filters/new").problem(404, "not-found");
    drop(gone);
    // Half of it that pretends to be all, a bit that is not right, and a byte too many.
    let why = client.send("PUT", &path("new"), &[KIND], &file[..file.len() / 2]).problem(422, "refused");
    assert!(why.contains("send all of it"), "{why}");
    let mut flipped = file.clone();
    flipped[30_000_000] ^= 16;
    let mut client = running.client();
    client.send("PUT", &path("new"), &[KIND], &flipped).problem(422, "refused");
    let mut client = running.client();
    client.send("PUT", &path("new"), &[KIND], &[&file[..], b"x"].concat()).problem(422, "refused");
    let mut client = running.client();
    let wrong = [KIND, ("content-address", &*"0".repeat(64))];
    client.send("PUT", &path("new"), &wrong, &file).problem(412, "precondition-failed");
    client.send("PUT", &path("new"), &[KIND, ("content-address", "nonsense")], &file[..10]).problem(400, "bad-request");
    let mut client = running.client();
    client.get("/v1/filters/new").problem(404, "not-found");
    assert_eq!(used(&mut client), empty, "what came of nothing is given back");
    // All of it, without a length.
    let mut chunked = running.client();
    let head = head(0).replace("content-length: 0", "transfer-encoding: chunked");
    chunked.put_raw(head.as_bytes());
    for piece in file.chunks(1_000_000) {
        chunked.put_raw(format!("{:x}\r\n", piece.len()).as_bytes());
        chunked.put_raw(piece);
        chunked.put_raw(b"\r\n");
    }
    let made = chunked.raw(b"0\r\n\r\n").is(201);
    assert_eq!(made.header("etag"), Some(&*tag));
    assert_eq!(client.get("/v1/filters/new/keys/alice").json()["answer"], "maybe");
    assert_eq!(client.get(&path("new")).is(200).header("etag"), Some(&*tag));
    // And again over what is there, if that is what one thinks it is.
    client.send("PUT", &path("new"), &[KIND, ("if-none-match", "*")], &file).problem(412, "precondition-failed");
    let mut client = running.client();
    client.send("PUT", &path("new"), &[KIND, ("if-match", &*tag)], &file).is(200);
    running.stop();
    let running = Running::start_in(folder.path(), Fsync::Always);
    let mut client = running.client();
    assert_eq!(client.get("/v1/filters/new/keys/alice").json()["answer"], "maybe");
    assert_eq!(client.send("HEAD", &path("new"), &[], b"").is(200).header("etag"), Some(&*tag));
    running.stop();
}

#[test]
fn what_is_too_large_is_told_before_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start_with(with_memory(kept(folder.path()), 50 * MB));
    let mut client = running.client();
    let announced = format!(
        "PUT {} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n",
        path("huge"),
        KIND.1,
        60 * MB
    );
    client.put_raw(announced.as_bytes());
    let why = client.answer(false).problem(413, "too-large");
    assert!(why.contains("max-filter-memory"), "{why}");
    // One whose head says that it is larger than its file: sparse bits are written short.
    let sparse = {
        let mut filter = bloomgate::Blocked::builder().bytes(60 * MB).build().unwrap();
        filter.insert(&b"alice"[..]).unwrap();
        let options = bloomgate::SaveOptions::new().compress(bloomgate::format::Compression::WhereItPays);
        filter.to_bytes_with(&options).unwrap()
    };
    assert!((sparse.len() as u64) < MB, "{}", sparse.len());
    let mut client = running.client();
    let why = client.send("PUT", &path("sparse"), &[KIND], &sparse).problem(413, "too-large");
    assert!(why.contains("max-filter-memory"), "{why}");
    // One of another system is held whole while it is read.
    let foreign = vec![b'x'; (16 << 20) + 1];
    let why = running.client().send("PUT", &path("foreign"), &[KIND], &foreign).problem(413, "too-large");
    assert!(why.contains("those of other systems are taken up to 16777216 bytes"), "{why}");
    // Two that fit, each for itself.
    let file = file_of(30 * MB);
    client.send("PUT", &path("one"), &[KIND], &file).is(201);
    let why = client.send("PUT", &path("two"), &[KIND], &file).problem(507, "no-room");
    assert!(why.contains("max-memory"), "{why}");
    let mut client = running.client();
    client.get("/v1/filters/two").problem(404, "not-found");
    client.delete("/v1/filters/one").is(204);
    client.send("PUT", &path("two"), &[KIND], &file).is(201);
    running.stop();
}

#[test]
fn a_tenant_brings_within_its_quota_and_few_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start_with(kept(folder.path()));
    running.resp(&[
        "BG.NAMESPACE SET shop PREFIX shop: MAXMEMORY 25000000",
        "ACL SETUSER shop on >secret +@all namespace=shop",
    ]);
    let mut tenant = Client::new(running.http).login("shop", "secret");
    let why = tenant.send("PUT", &path("f"), &[KIND], &file_of(30 * MB)).problem(507, "no-room");
    assert!(why.contains("MAXMEMORY"), "{why}");
    let mut tenant = Client::new(running.http).login("shop", "secret");
    let file = file_of(20 * MB);
    tenant.send("PUT", &path("f"), &[KIND], &file).is(201);
    assert_eq!(running.client().get("/v1/filters/shop:f/keys/alice").json()["answer"], "maybe");
    assert!(tenant.get(&path("f")).is(200).body == file);
    // Four that hold on leave no place for a fifth of the same user, and one for others.
    let login = bloomgate_http::base64::encode(b"shop:secret");
    let begin = format!(
        "PUT {} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {login}\r\ncontent-type: {}\r\n\
         expect: 100-continue\r\ncontent-length: 1000000\r\n\r\n",
        path("slow"),
        KIND.1
    );
    let mut slow: Vec<Client> = (0..4).map(|_| running.client()).collect();
    for client in &mut slow {
        client.put_raw(begin.as_bytes());
        client.answer(false).is(100);
    }
    let mut fifth = Client::new(running.http).login("shop", "secret");
    let answer = fifth.send("PUT", &path("fifth"), &[KIND], b"x").is(503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    answer.problem(503, "unavailable");
    running.client().send("PUT", &path("other"), &[KIND], &file).is(201);
    drop(slow);
    running.stop();
}

#[test]
fn a_key_of_a_long_file_needs_its_address() {
    let running = Running::start();
    let mut client = running.client();
    let file = file_of(2 * MB);
    let address = Address::of(&file).to_string();
    let key = ("idempotency-key", "once");
    let why = client.send("PUT", &path("f"), &[KIND, key], &file).problem(413, "too-large");
    assert!(why.contains("Content-Address"), "{why}");
    let mut client = running.client();
    let sent = [KIND, key, ("content-address", &*address)];
    client.send("PUT", &path("f"), &sent, &file).is(201);
    let again = client.send("PUT", &path("f"), &sent, &file).is(201);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let other = [KIND, key, ("content-address", &*"0".repeat(64))];
    let mut client = running.client();
    client.send("PUT", &path("f"), &other, &file).problem(422, "key-reused");
    running.stop();
}
