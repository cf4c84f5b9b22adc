//! A small Redis that replays what RedisBloom 8.8.0 dumped (the recordings in crates/bloomgate/tests/foreign/redisbloom),
//! byte for byte, and can be told to fail.
//!
//! Why not the real one: no package of Debian, PyPI, npm or crates.io has a RedisBloom that could be started in a test
//! (valkey-bloom has no SCANDUMP), and a test that needs a server somewhere is one that is not run. What it does beside the
//! dumps, RedisBloom was seen to do: `[0, ""]` ends a dump of BF, `[0, nil]` one of CF; a chunk never crosses a link; an
//! iterator is one more than where the chunk ends; an empty cuckoo filter is not dumped at all.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use crate::scene::{json_list, json_object};

/// A filter as it was recorded.
#[derive(Clone)]
pub struct Recorded {
    /// `BF` or `CF`.
    pub family: String,
    pub info: Vec<(String, Option<i64>)>,
    pub header: Vec<u8>,
    /// The cells of each link.
    pub links: Vec<Vec<u8>>,
    pub members: Vec<String>,
    /// Keys, and whether RedisBloom said "maybe" to each.
    pub probes: Vec<(String, bool)>,
}

impl Recorded {
    pub fn load(name: &str) -> Self {
        let path = format!("{}/../bloomgate/tests/foreign/redisbloom/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap().replace('\n', "").replace("\": ", "\":");
        let fields = json_object(&text);
        let field = |name: &str| &fields.iter().find(|(key, _)| key == name).unwrap().1;
        let texts = |name: &str| json_list(field(name)).iter().map(|text| text.trim_matches('"').to_string()).collect();
        let chunks = json_list(field("chunks"));
        let mut chunks = chunks.iter().map(|pair| base64(json_list(pair)[1].trim_matches('"')));
        let answers = json_list(field("probe_answers")).into_iter().map(|answer| answer == "1");
        let probes: Vec<String> = texts("probe");
        Self {
            family: field("command").trim_matches('"').into(),
            info: json_object(field("info")).into_iter().map(|(name, number)| (name, number.parse().ok())).collect(),
            header: chunks.next().unwrap(),
            links: chunks.collect(),
            members: texts("members"),
            probes: probes.into_iter().zip(answers).collect(),
        }
    }

    /// The answer to SCANDUMP, with at most `most` bytes in a chunk.
    fn dump(&self, iterator: i64, most: usize) -> Vec<u8> {
        let items = self.info.iter().find(|(name, _)| name.contains("items inserted")).unwrap().1;
        if iterator == 0 && !(self.family == "CF" && items == Some(0)) {
            return chunk(1, &self.header);
        }
        let mut start = 0;
        for link in self.links.iter().filter(|_| iterator > 0) {
            let at = (iterator - 1) as usize;
            if at < start + link.len() {
                let from = at - start;
                let to = link.len().min(from + most);
                return chunk((start + to + 1) as i64, &link[from..to]);
            }
            start += link.len();
        }
        if self.family == "BF" { chunk(0, b"") } else { b"*2\r\n:0\r\n$-1\r\n".to_vec() }
    }
}

fn chunk(iterator: i64, data: &[u8]) -> Vec<u8> {
    [format!("*2\r\n:{iterator}\r\n${}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

fn base64(text: &str) -> Vec<u8> {
    let value =
        |c: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|&b| b == c);
    let (mut out, mut bits, mut have) = (Vec::new(), 0u32, 0);
    for digit in text.bytes().filter_map(value) {
        (bits, have) = (bits << 6 | digit as u32, have + 6);
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    out
}

/// What a key holds.
#[derive(Clone)]
pub enum Kept {
    Filter(Recorded),
    Other(&'static str),
}

/// How the server behaves; the default is how it should.
#[derive(Clone)]
pub struct Behaviour {
    pub keys: Vec<(Vec<u8>, Kept)>,
    /// The user (or `default`) and the password that it takes.
    pub password: Option<(&'static str, &'static str)>,
    /// The most bytes of a chunk.
    pub chunk: usize,
    /// The most bytes that it sends at once.
    pub packet: usize,
    /// After so many bytes of answers the connection is closed.
    pub breaks_after: Option<usize>,
    /// During so many dumps a key is added to the filter.
    pub changes: i64,
    /// INFO tells of it; WATCH always does.
    pub tells: bool,
    /// Commands that it does not know.
    pub unknown: &'static [&'static str],
    /// Answers instead of the true ones: a command, its last argument, and what is said.
    pub lies: Vec<(&'static str, &'static str, Vec<u8>)>,
    /// After a lie it sends zeros without end.
    pub endless: bool,
}

impl Behaviour {
    pub fn with(keys: &[(&str, &Recorded)]) -> Self {
        Self {
            keys: keys.iter().map(|(key, kept)| (key.as_bytes().to_vec(), Kept::Filter((*kept).clone()))).collect(),
            password: None,
            chunk: 16 << 20,
            packet: usize::MAX,
            breaks_after: None,
            changes: 0,
            tells: true,
            unknown: &[],
            lies: Vec::new(),
            endless: false,
        }
    }

    /// Starts a server that behaves so.
    pub fn serve(self) -> Replay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heard, left) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(self.changes)));
        let replay = Replay { port, heard: heard.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                _ = stream.set_nodelay(true);
                let (behaviour, heard, left) = (self.clone(), heard.clone(), left.clone());
                let Ok(writer) = stream.try_clone() else { continue };
                std::thread::spawn(move || talk(&behaviour, &heard, &left, stream, writer));
            }
        });
        replay
    }

    /// The same on a Unix socket.
    #[cfg(unix)]
    pub fn serve_at(self, path: &std::path::Path) {
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let writer = stream.try_clone().unwrap();
                talk(&self, &Mutex::default(), &Mutex::new(self.changes), stream, writer);
            }
        });
    }
}

/// A server that runs until the tests end.
pub struct Replay {
    pub port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Replay {
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The commands that it was asked, in upper case, with their arguments.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// One conversation, until either side has enough.
fn talk(
    behaviour: &Behaviour,
    heard: &Mutex<Vec<String>>,
    left: &Mutex<i64>,
    stream: impl Read,
    mut writer: impl Write,
) {
    let mut reader = BufReader::new(stream);
    let mut session = Session { signed_in: behaviour.password.is_none(), touched: false };
    let mut sent = 0;
    while let Some(words) = request(&mut reader) {
        let said: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        heard.lock().unwrap().push(said.join(" "));
        let name = said[0].to_uppercase();
        let lie = behaviour.lies.iter().find(|(command, last, _)| *command == name && said.last().unwrap() == last);
        let answer = match lie {
            Some((_, _, answer)) => answer.clone(),
            None => session.answer(behaviour, left, &name, &words, &said),
        };
        for packet in answer.chunks(behaviour.packet) {
            let room = behaviour.breaks_after.map_or(usize::MAX, |most| most - sent);
            let packet = &packet[..packet.len().min(room)];
            if writer.write_all(packet).and_then(|()| writer.flush()).is_err() {
                return;
            }
            sent += packet.len();
            if behaviour.breaks_after == Some(sent) {
                return;
            }
        }
        while lie.is_some() && behaviour.endless {
            if writer.write_all(&[0; 1 << 16]).is_err() {
                return;
            }
        }
    }
}

/// A request: an array of bulk strings.
fn request(reader: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let number = |reader: &mut dyn BufRead, sign: char| -> Option<usize> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.trim_end().strip_prefix(sign)?.parse().ok()
    };
    let count = number(reader, '*')?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(reader, '$')? + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Some(words)
}

/// What a connection remembers.
struct Session {
    signed_in: bool,
    touched: bool,
}

impl Session {
    fn answer(
        &mut self,
        behaviour: &Behaviour,
        left: &Mutex<i64>,
        name: &str,
        words: &[Vec<u8>],
        said: &[String],
    ) -> Vec<u8> {
        let error = |text: &str| format!("-{text}\r\n").into_bytes();
        let kept = || behaviour.keys.iter().find(|(key, _)| Some(key) == words.get(1)).map(|(_, kept)| kept);
        if behaviour.unknown.contains(&name) {
            return error(&format!("ERR unknown command '{}', with args beginning with: ", said[0]));
        }
        match (name, behaviour.password) {
            ("AUTH", None) => {
                return error("ERR AUTH <password> called without any password configured for the default user.");
            }
            ("AUTH", Some((user, password))) => {
                let given =
                    if said.len() == 2 { ("default", said[1].as_str()) } else { (said[1].as_str(), said[2].as_str()) };
                self.signed_in = given == (user, password);
                let refusal = "WRONGPASS invalid username-password pair or user is disabled.";
                return if self.signed_in { b"+OK\r\n".to_vec() } else { error(refusal) };
            }
            _ if !self.signed_in => return error("NOAUTH Authentication required."),
            _ => {}
        }
        match name {
            "SELECT" | "MULTI" | "WATCH" => b"+OK\r\n".to_vec(),
            // What was watched is watched until here.
            "EXEC" if std::mem::take(&mut self.touched) => b"*-1\r\n".to_vec(),
            "EXEC" => b"*0\r\n".to_vec(),
            "COMMAND" => b"*1\r\n*-1\r\n".to_vec(),
            "TYPE" => match kept() {
                None => b"+none\r\n".to_vec(),
                Some(Kept::Other(kind)) => format!("+{kind}\r\n").into_bytes(),
                Some(Kept::Filter(filter)) if filter.family == "BF" => b"+MBbloom--\r\n".to_vec(),
                Some(Kept::Filter(_)) => b"+MBbloomCF\r\n".to_vec(),
            },
            "SCAN" => {
                // Pages of two keys, and the first key again on later ones: SCAN may say a key more than once.
                let (from, prefix) = (said[1].parse::<usize>().unwrap(), said[3].trim_end_matches('*').as_bytes());
                let all = behaviour.keys.iter().map(|(key, _)| key);
                let page = all.clone().take(usize::from(from > 0)).chain(all.clone().skip(from).take(2));
                let page: Vec<_> = page.filter(|key| key.starts_with(prefix)).collect();
                let next = if from + 2 < all.count() { from + 2 } else { 0 }.to_string();
                let mut out = format!("*2\r\n${}\r\n{next}\r\n*{}\r\n", next.len(), page.len()).into_bytes();
                for key in page {
                    out.extend([format!("${}\r\n", key.len()).as_bytes(), key, b"\r\n"].concat());
                }
                out
            }
            "BF.INFO" | "CF.INFO" => {
                let Some(Kept::Filter(filter)) = kept() else { return error("ERR not found") };
                let mut out = format!("*{}\r\n", filter.info.len() * 2);
                let missing = if behaviour.tells { *left.lock().unwrap() } else { 0 };
                for (name, value) in &filter.info {
                    out.push_str(&format!("+{name}\r\n"));
                    match value {
                        Some(items) if name.contains("items inserted") => {
                            out.push_str(&format!(":{}\r\n", items - missing))
                        }
                        Some(value) => out.push_str(&format!(":{value}\r\n")),
                        None => out.push_str("$-1\r\n"),
                    }
                }
                out.into_bytes()
            }
            "BF.SCANDUMP" | "CF.SCANDUMP" => {
                let Some(Kept::Filter(filter)) = kept() else { return error("ERR not found") };
                let iterator = said[2].parse().unwrap();
                let mut left = left.lock().unwrap();
                if iterator == 1 && *left > 0 {
                    *left -= 1;
                    self.touched = true;
                }
                filter.dump(iterator, behaviour.chunk)
            }
            other => error(&format!("ERR unknown command '{other}', with args beginning with: ")),
        }
    }
}
