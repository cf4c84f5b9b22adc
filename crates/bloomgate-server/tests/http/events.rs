//! The stream of events.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::harness::{PATIENCE, Running};

/// A stream of events, as one logged in so would get it.
struct Stream(BufReader<TcpStream>);

impl Stream {
    fn open(running: &Running, login: Option<&str>) -> Self {
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
    fn next(&mut self, name: &str, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let mut event = String::new();
        loop {
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
    // Whoever is deleted hears nothing more.
    running.resp(&["ACL DELUSER reader"]);
    assert!(reader.next("stats", |stats| stats["overview"]["filters"] == 99).is_none());
    running.stop();
    assert!(stream.next("never", |_| true).is_none(), "the stream ends with the server");
}
