//! Requests typed by hand: words with quotes, as in `BF.ADD seen "two words"`.

use super::ProtocolError;

/// The words of a line. Double quotes know `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH`, `\\` and `\"`; single quotes only `\'`.
pub fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(words);
        }
        let (word, after) = word(rest)?;
        words.push(word);
        rest = after;
    }
}

fn word(mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), ProtocolError> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] => return Ok((word, rest)),
            [space, ..] if space.is_ascii_whitespace() => return Ok((word, rest)),
            [quote @ (b'"' | b'\''), after @ ..] => {
                rest = quoted(*quote, after, &mut word)?;
                // A quote closes a word: `"a"b` is a mistake.
                if rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                    return Err(ProtocolError::Quotes);
                }
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

/// What stands up to the closing quote goes into the word; the rest comes back.
fn quoted<'a>(quote: u8, mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, after) = match (quote, rest) {
            (_, []) => return Err(ProtocolError::Quotes),
            (_, [end, after @ ..]) if *end == quote => return Ok(after),
            (b'\'', [b'\\', b'\'', after @ ..]) => (b'\'', after),
            (b'"', [b'\\', b'x', high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), after)
            }
            (b'"', [b'\\', escaped, after @ ..]) => {
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                };
                (byte, after)
            }
            (_, [byte, after @ ..]) => (*byte, after),
        };
        word.push(byte);
        rest = after;
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_quotes() {
        let split = |line: &str| words(line.as_bytes()).map(|words| words.join(&b'|'));
        assert_eq!(split("  a  b c ").unwrap(), b"a|b|c");
        assert_eq!(split(r#"x "a b\x41\n" 'it\'s' """#).unwrap(), b"x|a bA\n|it's|");
        assert_eq!(split(r#""a"#), Err(ProtocolError::Quotes));
        assert_eq!(split(r#""a"b"#), Err(ProtocolError::Quotes));
        assert_eq!(split("''").unwrap(), b"");
        assert!(words(b"").unwrap().is_empty());
    }
}
