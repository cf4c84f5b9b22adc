//! Lists of breached passwords as Have I Been Pwned gives them out: `HASH:COUNT`, the hash in hexadecimal.
//!
//! The key is the hash in upper case, so that lists in lower case and lists without counts hold the same keys. What is
//! no hash is an error: a list of plain passwords that is taken for hashes would find nobody.

use super::{Block, Form, KeyStream, Span};
use crate::failure::Failure;

/// Digits of a SHA-1 and of an NTLM hash.
const DIGITS: [usize; 2] = [40, 32];

/// The hash of a line, in upper case; nothing if it has none.
pub fn hash_of(line: &[u8]) -> Option<impl Iterator<Item = u8>> {
    let hash = line.split(|&byte| byte == b':').next().unwrap_or_default().trim_ascii();
    let is_hash = DIGITS.contains(&hash.len()) && hash.iter().all(u8::is_ascii_hexdigit);
    is_hash.then(|| hash.iter().map(u8::to_ascii_uppercase))
}

/// What is said of a line that has no hash.
pub const NO_HASH: &str = "--hibp reads HASH or HASH:COUNT, with 40 hexadecimal digits (SHA-1) or 32 (NTLM), and this is \
                           none; plain passwords are asked for with check --hibp --password";

/// The hashes of a list.
pub struct Hashes {
    lines: Box<dyn KeyStream>,
    block: Block,
}

impl Hashes {
    /// The hashes of these lines.
    pub fn new(lines: Box<dyn KeyStream>) -> Self {
        Self { lines, block: Block::default() }
    }
}

impl KeyStream for Hashes {
    fn next(&mut self, block: &mut Block) -> Result<bool, Failure> {
        if !self.lines.next(&mut self.block)? {
            return Ok(false);
        }
        let lines = self.block.keys();
        let mut bytes = std::mem::take(&mut block.bytes);
        bytes.clear();
        let mut spans = Vec::with_capacity(lines.keys.len());
        for (at, line) in lines.keys.iter().enumerate() {
            // Files of Windows end in a line with nothing but its line end.
            if line.trim_ascii().is_empty() {
                continue;
            }
            let hash = hash_of(line).ok_or_else(|| Failure::Message(format!("{}: {NO_HASH}", lines.place(at))))?;
            bytes.extend(hash);
            spans.push(Span { end: bytes.len(), row: lines.line(at) });
        }
        *block =
            Block { bytes, form: Form::Spans(spans), consumed: self.block.consumed, name: self.block.name.clone() };
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Cut;
    use crate::keys::lines::Lines;

    #[test]
    fn hashes_are_cut_at_the_colon_and_their_case_does_not_matter() {
        let sha = "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8";
        let list = format!("{sha}:10437277\r\n{}\n\r\n8846F7EAEE8FB117AD06BDD830B7586C:3", sha.to_lowercase());
        let lines = Box::new(Lines::new(std::io::Cursor::new(list.into_bytes()), "list", Cut::default()));
        let mut hashes = Hashes::new(lines);
        let (mut block, mut found) = (Block::default(), Vec::new());
        while hashes.next(&mut block).unwrap() {
            let keys = block.keys();
            found.extend(keys.keys.iter().enumerate().map(|(at, key)| (keys.line(at), key.to_vec())));
        }
        let sha = sha.as_bytes().to_vec();
        assert_eq!(found, [(1, sha.clone()), (2, sha), (4, b"8846F7EAEE8FB117AD06BDD830B7586C".to_vec())]);

        for wrong in ["password", "5BAA61", "G".repeat(40).as_str(), ":3"] {
            assert!(hash_of(wrong.as_bytes()).is_none(), "{wrong}");
        }
        let lines = Box::new(Lines::new(std::io::Cursor::new("\npassword\n"), "list", Cut::default()));
        match Hashes::new(lines).next(&mut block) {
            Err(Failure::Message(error)) => assert!(error.starts_with("list:2: --hibp reads"), "{error}"),
            _ => panic!("a password is no hash"),
        }
    }
}
