//! Until when a certificate is valid: a short walk through its DER, since rustls checks its own certificate not at all.
//!
//! ```text
//!  Certificate  SEQUENCE
//!    tbs        SEQUENCE
//!      version  [0], may be left out
//!      serial   INTEGER
//!      algorithm, issuer   SEQUENCE each
//!      validity SEQUENCE
//!        not before, not after   UTCTime or GeneralizedTime, in UTC (RFC 5280, 4.1.2.5)
//! ```
//!
//! Each step looks at a length before it goes on, and nothing is kept: whatever the bytes are, the answer is a time or none.

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// Seconds since 1970 after which a certificate is not valid any more; nothing if this is no certificate, or it says no
/// such time.
pub(crate) fn not_after(certificate: &[u8]) -> Option<u64> {
    let mut rest = certificate;
    let mut outer = expect(&mut rest, SEQUENCE)?;
    let mut fields = expect(&mut outer, SEQUENCE)?;
    let (tag, _) = element(&mut fields)?;
    if tag == VERSION {
        expect(&mut fields, INTEGER)?;
    } else if tag != INTEGER {
        return None;
    }
    let _algorithm = expect(&mut fields, SEQUENCE)?;
    let _issuer = expect(&mut fields, SEQUENCE)?;
    let mut validity = expect(&mut fields, SEQUENCE)?;
    let _not_before = element(&mut validity)?;
    let (tag, text) = element(&mut validity)?;
    time(tag, text)
}

/// The next element and its tag; the input is behind it then.
fn element<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // So many bytes of length: 4 are more than any certificate needs.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |length: usize, &digit| length << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *input = rest;
    Some((tag, content))
}

fn expect<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    element(input).filter(|(found, _)| *found == tag).map(|(_, content)| content)
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, which RFC 5280 allows alone.
fn time(tag: u8, text: &[u8]) -> Option<u64> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| digits.iter().fold(0u64, |number, digit| number * 10 + u64::from(digit - b'0'));
    let (year, rest) = match (tag, digits.len()) {
        // Two digits are of the years 1950 to 2049.
        (UTC_TIME, 12) => match number(&digits[..2]) {
            year @ 0..50 => (2000 + year, &digits[2..]),
            year => (1900 + year, &digits[2..]),
        },
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let [month, day, hour, minute, second] = std::array::from_fn(|at| number(&rest[at * 2..at * 2 + 2]));
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    let days = valid.then(|| days_since_1970(year, month, day))?;
    // One that ended before 1970 has ended.
    Some(days.max(0) as u64 * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// By the days of a 400-year cycle that begins on 1 March (H. Hinnant, "chrono-compatible low-level date algorithms").
fn days_since_1970(year: u64, month: u64, day: u64) -> i64 {
    let (year, month) = (year as i64 - i64::from(month <= 2), month as i64);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day as i64 - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(year: i32) -> Vec<u8> {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(1975, 1, 1);
        params.not_after = rcgen::date_time_ymd(year, 2, 28);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_forms() {
        // By `date -u -d 2026-02-28 +%s` and so on.
        for (year, end) in [(1996, 825_465_600), (2026, 1_772_236_800), (2049, 2_498_083_200), (2400, 13_574_476_800)] {
            assert_eq!(not_after(&certificate(year)), Some(end), "{year}");
        }
        assert_eq!(time(UTC_TIME, b"491231235959Z"), Some(2_524_607_999));
        assert_eq!(time(UTC_TIME, b"500101000000Z"), Some(0));
        for wrong in [&b"490101000000"[..], b"4901010000Z", b"491301000000Z", b"49010100000xZ", b"490101250000Z"] {
            assert_eq!(time(UTC_TIME, wrong), None, "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn bytes_that_are_cut_or_changed_make_a_time_or_none() {
        let whole = certificate(2026);
        let end = not_after(&whole);
        for length in 0..whole.len() {
            assert_eq!(not_after(&whole[..length]), None, "cut to {length} bytes");
        }
        for at in 0..whole.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] ^= change;
                let found = not_after(&changed);
                // Behind the validity nothing is looked at but the lengths around it.
                assert!(at < 200 || found == end || found.is_none(), "byte {at}");
            }
        }
        assert_eq!(not_after(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(not_after(&[0x30, 0x80]), None);
    }
}
