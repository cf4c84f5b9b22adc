//! A contract over arbitrary text: every text is taken or refused, never a panic, and a text that is
//! taken has one digest, whichever door it came through.

#![no_main]

use bloomgate::{Contract, Encoding, ErrorKind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let bytes = Contract::xxh3().with_encoding(Encoding::Bytes);
    let of_bytes = bytes.digest(data).expect("a contract of bytes takes any bytes");
    assert_eq!(of_bytes, bytes.digest_bytes(data), "bytes are their own canonical form");

    let Ok(text) = std::str::from_utf8(data) else { return };
    let texts = Contract::xxh3().with_encoding(Encoding::Text);
    let of_text = texts.digest(text).expect("a contract of text takes any text");
    assert_eq!(of_text, texts.digest(text).unwrap(), "one text, one digest");
    assert_eq!(bytes.digest(text).unwrap(), of_bytes, "a contract of bytes takes text as its UTF-8 bytes");

    // A contract of integers parses text or refuses it; what it parses must agree with the integer.
    let integers = Contract::xxh3().with_encoding(Encoding::Unsigned);
    match integers.digest(text) {
        Ok(digest) => {
            let value: u64 = text.parse().expect("a text taken as an integer must be one");
            assert_eq!(digest, integers.digest(&value).unwrap(), "text {text:?} and integer {value} must agree");
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Encoding, "refused for another reason: {error}");
            assert!(!error.to_string().is_empty(), "a refusal says why");
        }
    }
});
