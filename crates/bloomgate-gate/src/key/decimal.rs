//! Decimal numbers of any length in one form: `1.50`, `01.5` and `15e-1` are `1.5`.
//!
//! The form is plain digits: a minus below zero, no zero at either end that could be left out, no exponent. Two numbers are
//! equal exactly if their forms are. What has no such form of at most [`LONGEST`] bytes is refused, and so are `NaN` and
//! the infinities, which are no numbers.

use super::{LONGEST, bad, signed, trimmed};
use crate::error::Result;

/// The form of the number that a text spells: `[+-] digits [. digits] [e [+-] digits]`, with spaces around it.
pub(super) fn parse(text: &str) -> Result<Vec<u8>> {
    let unknown =
        || bad(text, "decimal number", "write digits with at most a sign, a point and an exponent, like -1.5e3");
    let (negative, number) = signed(trimmed(text));
    let (number, exponent) = match number.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent)),
        None => (number, None),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(unknown());
    }
    let exponent = match exponent {
        None => 0,
        Some(exponent) => {
            let (negative, exponent) = signed(exponent);
            if exponent.is_empty() || !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(unknown());
            }
            // A number too long for an integer is beyond the limit too.
            let value = exponent.parse().unwrap_or(i32::MAX);
            if value > LONGEST as i32 {
                return Err(bad(text, "decimal number that is read", &format!("exponents go up to {LONGEST}")));
            }
            if negative { -value } else { value }
        }
    };
    let mut out = Vec::new();
    // Both are at most 4096.
    if !write_plain(negative, &digits, whole.len() as i32 + exponent, LONGEST, &mut out) {
        return Err(bad(text, "decimal number that is read", &format!("written out it may have {LONGEST} digits")));
    }
    Ok(out)
}

/// Appends the form of a number whose digits (`0` to `9`) have their point after `point` of them, which may be outside of
/// them. False, with nothing written, if it would take more than `longest` bytes.
pub(crate) fn write_plain(negative: bool, digits: &[u8], point: i32, longest: usize, out: &mut Vec<u8>) -> bool {
    let leading = digits.iter().take_while(|&&digit| digit == b'0').count();
    let digits = &digits[leading..];
    let trailing = digits.iter().rev().take_while(|&&digit| digit == b'0').count();
    let digits = &digits[..digits.len() - trailing];
    if digits.is_empty() {
        out.push(b'0');
        return true;
    }
    let point = i64::from(point) - leading as i64;
    let len = digits.len() as i64;
    let written =
        i64::from(negative) + if point <= 0 { 2 - point + len } else { point.max(len + i64::from(point < len)) };
    if usize::try_from(written).map_or(true, |written| written > longest) {
        return false;
    }
    if negative {
        out.push(b'-');
    }
    if point <= 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + point.unsigned_abs() as usize, b'0');
        out.extend_from_slice(digits);
    } else if point < len {
        let (whole, fraction) = digits.split_at(point as usize);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else {
        out.extend_from_slice(digits);
        out.resize(out.len() + (point - len) as usize, b'0');
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Option<String> {
        parse(text).ok().map(|form| String::from_utf8(form).unwrap())
    }

    #[test]
    fn every_spelling_of_a_number_has_one_form() {
        for (canonical, spellings) in [
            ("0", &["0", "-0", "+0.00", "0e5", ".0", "0.", "000", "0e-4096"][..]),
            ("1.5", &["1.50", "01.5", "+1.5", "15e-1", ".15e1", " 1.5\n", "0.015E+2", "150e-2"]),
            ("-0.001", &["-.001", "-1e-3", "-0.0010", "-1E-03"]),
            ("1500", &["1500", "1.5e3", "1500.", "1500.000", "15e2", "0015e+2"]),
            ("10.01", &["10.01", "1001e-2", "10.010"]),
        ] {
            for spelling in spellings {
                assert_eq!(form(spelling).as_deref(), Some(canonical), "{spelling}");
            }
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "",
            " ",
            ".",
            "-",
            "+-1",
            "1e",
            "1e+",
            "e5",
            ".e5",
            "1 2",
            "1.2.3",
            "NaN",
            "Infinity",
            "-inf",
            "0x10",
            "1_0",
            "1e5.0",
            "1e4097",
            "1e99999999999999999999",
            "--1",
            "1e--1",
            "١",
            "1,5",
            "1.5f",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn forms_have_at_most_the_longest_length() {
        for (text, len) in
            [("1e4095", 4096), ("-1e4094", 4096), ("1e-4094", 4096), ("-1e-4093", 4096), ("12.5e4094", 4096)]
        {
            assert_eq!(form(text).map(|form| form.len()), Some(len), "{text}");
        }
        for text in ["1e4096", "-1e4095", "1e-4095", "-1e-4094", "12.5e4095"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
