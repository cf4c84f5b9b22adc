//! Base64 (RFC 4648, section 4): bytes where only letters may stand, such as a login or a key in JSON.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as letters, with `=` at the end where it belongs.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// The bytes of letters; with or without the `=` at the end. Nothing where it is no base64, or more than one text would be
/// the same bytes.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let letters = text.trim_end_matches('=');
    let padding = text.len() - letters.len();
    if padding > 0 && (!text.len().is_multiple_of(4) || padding > 2) || letters.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(letters.len() / 4 * 3 + 2);
    for four in letters.as_bytes().chunks(4) {
        let mut word = 0u32;
        for letter in four {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        let missing = 4 - four.len();
        word <<= 6 * missing;
        let [_, first, second, third] = word.to_be_bytes();
        // What is left over of the last letter must be nothing.
        match missing {
            0 => bytes.extend([first, second, third]),
            1 if third == 0 => bytes.extend([first, second]),
            2 if second == 0 && third == 0 => bytes.push(first),
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_and_nothing_else() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")]
        {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()), "{text}");
            assert_eq!(decode(text.trim_end_matches('=')).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        for wrong in ["Z", "Zh==", "Zm9=", "Zg=", "Zg===", "Zm9v====", "Zm 9", "Zm9v\n", "=", "Zm-_", "é"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
