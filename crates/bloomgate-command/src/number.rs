//! Numbers as clients write them, read strictly: what Redis takes for an integer, and decimals without surprises.

/// An integer of 64 bits as Redis reads it: no plus, no leading zero, no blank, no `-0`.
#[must_use]
pub fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let magnitude = unsigned(digits)?;
    match negative {
        true if magnitude == 0 => None,
        true => 0i64.checked_sub_unsigned(magnitude),
        false => i64::try_from(magnitude).ok(),
    }
}

/// An integer without a sign, up to 2^64 - 1, in its only spelling.
#[must_use]
pub fn unsigned(text: &[u8]) -> Option<u64> {
    match text {
        b"0" => return Some(0),
        [b'1'..=b'9', ..] if text.len() <= 20 => {}
        _ => return None,
    }
    text.iter().try_fold(0u64, |value, byte| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// A finite decimal number, with a fraction and an exponent if wanted; no hexadecimal, no infinity, no NaN.
#[must_use]
pub fn decimal(text: &[u8]) -> Option<f64> {
    // 64 characters hold any f64 in full precision with room to spare; longer ones are noise.
    if text.len() > 64 || !text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// Bytes with a unit: 512MB, 8GiB, 1000000; at least 1, at most 2^60.
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let amount: f64 = digits.parse().ok()?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = amount * factor;
    (1.0..=(1u64 << 60) as f64).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in
            [("1", 1), ("1000000", 1_000_000), ("1.5GB", 1_500_000_000), ("8 GiB", 8 << 30), ("2k", 2_000)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "0", "MB", "-1", "1XB", "1e9", "nan", "2000000TiB", "0.5"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn integers_have_one_spelling() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
            ("1073741824", 1 << 30),
        ] {
            assert_eq!(integer(text.as_bytes()), Some(value), "{text}");
        }
        let refused = ["", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "0x10", "1e3", "9223372036854775808", "a"];
        for text in refused.iter().chain(&["-9223372036854775809", "18446744073709551616", "999999999999999999999"]) {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(unsigned(b"-1"), None);
    }

    #[test]
    fn decimals_are_finite_and_plain() {
        for (text, value) in [("0.01", 0.01), (".5", 0.5), ("1e-3", 0.001), ("-2", -2.0), ("1", 1.0), ("5.", 5.0)] {
            assert_eq!(decimal(text.as_bytes()), Some(value), "{text}");
        }
        for text in ["", "inf", "-inf", "nan", "infinity", "0x1p-3", "1e999", " 1", "1 ", "1,5", "e", ".", "--1", "1e"]
        {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
        assert_eq!(decimal(&[b'1'; 65]), None);
    }
}
