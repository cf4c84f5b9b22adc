//! The stream of events.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{PATIENCE, Running};

/// A stream of events, as one logged in so would get it.
pub struct Stream(BufReader<TcpStream>);

impl Stream {
    pub fn open(running: &Running, login: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(running.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let login = login.map(|login| format!("authorization: Bearer {login}\r\n")).unwrap_or_default();
        stream.write_all(format!("GET /v1/events HTTP/1.1\r\nhost: localhost\r\n{login}\r\n").as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
        Self(stream)
    }

    /// The next event of a name that is as wanted; nothing when the stream ends.
    pub fn next(&mut self, name: &str, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let (mut event, begin) = (String::new(), Instant::now());
        loop {
            assert!(begin.elapsed() < PATIENCE, "figures come, and no {name} that is looked for");
            let mut line = String::new();
            // The last piece of a body in pieces has no length.
            if self.0.read_line(&mut line).unwrap() == 0 || line == "0\r\n" {
                return None;
            }
            if let Some(named) = line.trim_end().strip_prefix("event: ") {
                event = named.to_owned();
            }
            if let Some(data) = line.trim_end().strip_prefix("data: ")
                && event == name
            {
                let data: Value = serde_json::from_str(data).unwrap();
                if wanted(&data) {
                    return Some(data);
                }
            }
        }
    }
}

#[test]
fn figures_come_each_second_and_events_when_they_happen() {
    let running = Running::start();
    let mut stream = Stream::open(&running, None);
    let first = stream.next("stats", |_| true).unwrap();
    assert_eq!(first["overview"]["filters"], 0);
    assert_eq!(stream.next("alerts", |_| true).unwrap(), json!({"alerts": []}));
    let mut client = running.client();
    client
        .json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 1_000, "rate": 0.01}))
        .is(201);
    client.json("POST", "/v1/filters/f/add", &json!({"keys": ["a", "b"]})).is(200);
    let stats = stream.next("stats", |stats| stats["filters"] != json!([])).unwrap();
    assert_eq!((&stats["filters"][0]["name"], &stats["filters"][0]["adds"]), (&json!("f"), &json!(2)));
    // A user is made: the log tells it to those who run the server.
    running.resp(&["ACL SETUSER reader on >secret +@read"]);
    let told = stream.next("log", |log| log["event"] == "access-changed").unwrap();
    assert!(told["message"].as_str().unwrap().contains("reader") && !told.to_string().contains("secret"), "{told}");
    let mut reader = Stream::open(&running, Some("reader:secret"));
    reader.next("stats", |_| true).unwrap();
    // What was done in a second is told by the names of commands, never with what was asked for, and to those who run it.
    running.resp(&["BG.EXISTS f hidden-item", "BG.EXISTS f hidden-item other-item"]);
    let ran = |work: &Value| {
        let commands = work["commands"].as_array().unwrap().clone();
        commands.into_iter().find(|command| command["name"] == "BG.EXISTS")
    };
    let work = stream.next("work", |work| ran(work).is_some()).unwrap();
    assert_eq!(ran(&work).unwrap(), json!({"name": "BG.EXISTS", "calls": 2, "failed": 0, "rejected": 0}));
    assert!(work["at_ms"].is_u64() && !work.to_string().contains("item"), "{work}");
    // Whoever is deleted hears nothing more.
    running.resp(&["ACL DELUSER reader"]);
    assert!(reader.next("work", |_| true).is_none(), "a reader is not told of commands, and then of nothing");
    running.stop();
    assert!(stream.next("never", |_| true).is_none(), "the stream ends with the server");
}

/// Commands, slow commands and the log are told to those who run the server, as long as they do. One who loses that while
/// listening hears the end: a page comes again, and gets what it may.
#[test]
fn whoever_runs_the_server_no_more_hears_no_more_of_its_log() {
    let running = Running::start();
    assert_eq!(running.resp(&["BG.NAMESPACE SET shop PREFIX shop:"]), ["+OK"]);
    for (name, change) in [("boss", "-@admin"), ("chief", "namespace=shop"), ("owner", "-@all +@read")] {
        assert_eq!(running.resp(&[&format!("ACL SETUSER {name} on >secret +@all")]), ["+OK"]);
        let mut stream = Stream::open(&running, Some(&format!("{name}:secret")));
        running.resp(&["BG.EXISTS f x"]);
        stream.next("work", |_| true).unwrap();
        running.resp(&[&format!("ACL SETUSER marker-{name} on")]);
        stream.next("log", |log| log.to_string().contains("marker")).unwrap();
        let later = [format!("ACL SETUSER {name} {change}"), format!("ACL SETUSER witness-{name} on")];
        assert_eq!(running.resp(&later.each_ref().map(|line| &**line)), ["+OK"; 2]);
        let told = stream.next("log", |log| log.to_string().contains("witness"));
        assert_eq!(told, None, "{name} is told after {change}");
        let mut stream = Stream::open(&running, Some(&format!("{name}:secret")));
        stream.next("stats", |_| true).unwrap();
    }
    running.stop();
}

/// A slow command shows what others asked for.
#[test]
fn slow_commands_are_not_told_to_one_who_runs_the_server_no_more() {
    let running = Running::start();
    running.resp(&["CONFIG SET slowlog-log-slower-than 0", "ACL SETUSER boss on >secret +@all"]);
    let mut stream = Stream::open(&running, Some("boss:secret"));
    running.resp(&["BG.EXISTS f before"]);
    stream.next("slow", |slow| slow.to_string().contains("before")).unwrap();
    running.resp(&["ACL SETUSER boss -@admin", "BG.EXISTS f after"]);
    let told = stream.next("slow", |slow| slow.to_string().contains("after"));
    assert_eq!(told, None);
    running.stop();
}

/// A page puts what the stream tells in the place of what the list told: both say the same.
#[test]
fn the_stream_and_the_list_say_the_same_of_a_filter() {
    let running = Running::start();
    let mut client = running.client();
    for kind in ["stable", "blocked"] {
        let wish = json!({"name": kind, "kind": kind, "capacity": 10, "rate": 0.01});
        client.json("POST", "/v1/filters", &wish).is(201);
    }
    let mut stream = Stream::open(&running, None);
    stream.next("stats", |_| true).unwrap();
    let keys: Vec<String> = (0..50).map(|key| format!("key-{key}")).collect();
    for kind in ["stable", "blocked"] {
        client.json("POST", &format!("/v1/filters/{kind}/add"), &json!({ "keys": keys })).is(200);
    }
    let mut seen = 0;
    while seen < 2 {
        let stats = stream.next("stats", |stats| stats["filters"] != json!([])).unwrap();
        for told in stats["filters"].as_array().unwrap() {
            let listed = client.get(told["path"].as_str().unwrap()).is(200).json();
            for (name, value) in told.as_object().unwrap() {
                assert_eq!(*value, listed[name], "{name} of {}", told["name"]);
            }
            // It forgets, and is never over its capacity; the other refuses what is too much.
            let (items, used, refused) = (&told["items"], &told["used"], told["refused"].as_u64().unwrap());
            match told["name"].as_str() {
                Some("stable") => assert_eq!((items, used, refused), (&json!(50), &json!(1.0), 0)),
                _ => assert!(refused >= 39 && used.as_f64() == Some(1.0), "{told}"),
            }
            seen += 1;
        }
    }
    running.stop();
}
