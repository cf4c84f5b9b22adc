//! Filters made and dumped by RedisBloom 8.8.0, with the keys they were asked for: the files of the library's tests.

use std::path::Path;

pub struct Fixture {
    text: String,
}

impl Fixture {
    pub fn load(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bloomgate/tests/foreign/redisbloom");
        Self { text: std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap() }
    }

    /// What stands after a name of the outermost map.
    fn after(&self, name: &str) -> &str {
        let quoted = format!("\"{name}\"");
        let at = self.text.find(&quoted).unwrap_or_else(|| panic!("no {name}")) + quoted.len();
        self.text[at..].trim_start().strip_prefix(':').unwrap().trim_start()
    }

    fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        let text = self.after(name).strip_prefix('[').unwrap();
        text[..text.find(']').unwrap()].split(',').map(str::trim)
    }

    pub fn texts(&self, name: &str) -> Vec<String> {
        let texts: Vec<String> = self.list(name).map(|text| text.trim_matches('"').to_owned()).collect();
        assert!(texts.iter().all(|text| !text.contains('\\')), "an escape that this reader does not know");
        texts
    }

    pub fn answers(&self, name: &str) -> Vec<bool> {
        self.list(name).map(|answer| answer == "1").collect()
    }

    pub fn number(&self, name: &str) -> i64 {
        let text = self.after(name);
        text[..text.find([',', '}', '\n']).unwrap()].trim().parse().unwrap()
    }

    pub fn chunks(&self) -> Vec<(i64, Vec<u8>)> {
        let text = self.after("chunks");
        let pairs = text[..text.find("\"members\"").unwrap()].split('[').filter(|pair| pair.contains('"'));
        pairs
            .map(|pair| {
                let (iterator, data) = pair.split_once(',').unwrap();
                let data = data.split('"').nth(1).unwrap();
                (iterator.trim().parse().unwrap(), base64(data))
            })
            .collect()
    }
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for byte in text.bytes().filter(|&byte| byte != b'=') {
        bits = bits << 6 | DIGITS.iter().position(|&digit| digit == byte).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}
