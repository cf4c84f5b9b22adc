//! Keys as text: what is read, what is refused, and that every key is shown as a text that gives it back.

use bloomgate_gate::{ErrorKind, Key, KeyType};
use proptest::prelude::*;

const INTEGERS: [KeyType; 3] =
    [KeyType::Integer { bits: 16 }, KeyType::Integer { bits: 32 }, KeyType::Integer { bits: 64 }];

#[track_caller]
fn refused(key_type: KeyType, text: &str, said: &str) {
    let error = key_type.parse(text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadKey);
    assert!(error.to_string().contains(said), "{error}");
}

#[test]
fn refusals_say_what_is_allowed() {
    refused(KeyType::Integer { bits: 16 }, "32768", "write one from -32768 to 32767");
    refused(KeyType::Integer { bits: 32 }, "-2147483649", "write one from -2147483648 to 2147483647");
    refused(KeyType::Integer { bits: 64 }, "9223372036854775808", "-9223372036854775808 to 9223372036854775807");
    refused(KeyType::Integer { bits: 64 }, "4x", "\"4x\" is no integer: write digits");
    refused(KeyType::Decimal, "1,5", "\"1,5\" is no decimal number: write digits");
    refused(KeyType::Decimal, "1e5000", "exponents go up to 4096");
    refused(KeyType::Decimal, "1e4096", "written out it may have 4096 digits");
    refused(KeyType::Uuid, "urn:uuid:00112233-4455-6677-8899-aabbccddeeff", "write 32 hexadecimal digits");
    refused(KeyType::Bytes, "\\x0", "write \\x and two hexadecimal digits");
    // The message does not grow with what was sent.
    assert!(KeyType::Integer { bits: 64 }.parse(&"x".repeat(4096)).unwrap_err().to_string().len() < 200);
}

#[test]
fn the_longest_keys_are_read_and_longer_ones_are_not() {
    for key_type in [KeyType::Text, KeyType::PaddedText] {
        assert!(key_type.holds(&key_type.parse(&"k".repeat(4096)).unwrap()));
        refused(key_type, &"k".repeat(4097), "a key of 4097 bytes: at most 4096 are allowed");
    }
    let spelled = format!("\\x{}", "fF".repeat(4096));
    assert_eq!(KeyType::Bytes.parse(&spelled).unwrap().canonical(), [0xff; 4096]);
    refused(KeyType::Bytes, &(spelled + "00"), "at most 8194");
    assert!(!KeyType::Bytes.holds(&Key::from_canonical([0; 4097])));
    assert_eq!(KeyType::Integer { bits: 64 }.parse(&format!("{}7", "0".repeat(4095))).unwrap(), Key::from(7));
}

#[test]
fn only_canonical_bytes_are_of_a_type() {
    let key = |bytes: &[u8]| Key::from_canonical(bytes);
    for (key_type, held, not) in [
        (KeyType::Text, key("ä ".as_bytes()), key(b"\xff")),
        (KeyType::PaddedText, key(b" a"), key(b"a ")),
        (KeyType::Integer { bits: 16 }, Key::from(-32768), Key::from(32768)),
        (KeyType::Integer { bits: 32 }, Key::from(i64::from(i32::MAX)), Key::from(i64::from(i32::MAX) + 1)),
        (KeyType::Integer { bits: 64 }, Key::from(i64::MIN), key(b"42")),
        (KeyType::Decimal, key(b"1.5"), key(b"1.50")),
        (KeyType::Decimal, key(b"0"), key(b"-0")),
        (KeyType::Decimal, key(b"-0.5"), key(b"NaN")),
        (KeyType::Uuid, key(&[7; 16]), key(&[7; 15])),
        (KeyType::Bytes, key(b""), key(&[0; 5000])),
    ] {
        assert!(key_type.holds(&held) && !key_type.holds(&not), "{key_type} {held:?} {not:?}");
        assert_eq!(key_type.parse(&key_type.show(&held)).unwrap(), held);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(6), ..ProptestConfig::default() })]

    #[test]
    fn every_integer_in_any_spelling_is_itself(
        value: i64, narrow in 0u32..63, zeros in 0usize..5, before in "[ \t\r\n\x0b\x0c]{0,3}", after in "[ \t\n]{0,3}", plus: bool,
    ) {
        let value = value >> narrow;
        let sign = if value < 0 { "-" } else if plus { "+" } else { "" };
        let spelled = format!("{before}{sign}{}{}{after}", "0".repeat(zeros), value.unsigned_abs());
        for key_type in INTEGERS {
            let KeyType::Integer { bits } = key_type else { unreachable!() };
            let fits = i128::from(value) >= -(1 << (bits - 1)) && i128::from(value) < 1 << (bits - 1);
            let parsed = key_type.parse(&spelled).ok();
            prop_assert_eq!(&parsed, &fits.then(|| Key::from(value)));
            prop_assert_eq!(key_type.holds(&Key::from(value)), fits);
            prop_assert_eq!(key_type.show(&Key::from(value)), value.to_string());
        }
    }

    #[test]
    fn any_text_is_a_key_that_is_shown_as_itself_or_refused(text in "\\PC{0,20}| {0,3}[+-]?[0-9]{0,4}[.e]?[+-]?[0-9]{0,4} ?") {
        for key_type in [KeyType::Text, KeyType::PaddedText, KeyType::Decimal, KeyType::Uuid, KeyType::Bytes].into_iter().chain(INTEGERS) {
            match key_type.parse(&text) {
                Ok(key) => {
                    prop_assert!(key_type.holds(&key), "{} {:?}", key_type, key);
                    prop_assert_eq!(&key_type.parse(&key_type.show(&key)).unwrap(), &key);
                    if key_type == KeyType::Text {
                        prop_assert_eq!(key.canonical(), text.as_bytes());
                    }
                }
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::BadKey);
                    prop_assert!(!matches!(key_type, KeyType::Text | KeyType::PaddedText));
                }
            }
        }
    }
}
