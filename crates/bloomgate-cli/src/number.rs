//! Numbers as people write and read them: `10M` keys, `64MB`, `1%`, `2ms`, and back again.

/// What a number with a suffix is worth: `10M` and a table of suffixes give 10 and a million.
fn split<'t, 's>(text: &'t str, suffixes: &'s [(&str, f64)]) -> Option<(&'t str, &'s (&'s str, f64))> {
    // The longest suffix that fits, so that `MiB` is not read as `B`.
    suffixes
        .iter()
        .filter_map(|unit| text.strip_suffix(unit.0).map(|number| (number.trim_end(), unit)))
        .max_by_key(|(_, unit)| unit.0.len())
}

/// A decimal number with optional exponent, and underscores or commas between digits.
fn decimal(text: &str) -> Option<f64> {
    let text: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    // The standard parser also reads `inf` and `nan`, which are no quantities.
    let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}

/// A whole number of at most 2^63, exact when it is written in digits alone.
fn whole(text: &str, suffixes: &[(&str, f64)]) -> Option<u64> {
    let digits: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return digits.parse().ok();
    }
    let (number, (_, unit)) = split(text, suffixes)?;
    let value = decimal(number)? * unit;
    let rounded = value.round();
    let is_whole = (value - rounded).abs() <= 1e-9 * value.abs();
    (is_whole && (0.0..=(1u64 << 63) as f64).contains(&rounded)).then_some(rounded as u64)
}

const COUNTS: &[(&str, f64)] = &[("", 1.0), ("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("B", 1e9), ("T", 1e12)];

/// A number of keys: `1000000`, `1_000_000`, `1e6`, `10M`.
pub fn count(text: &str) -> Result<u64, String> {
    whole(text, COUNTS).ok_or_else(|| {
        format!("{text:?} is not a number of keys: write a whole number from 0 up, such as 1000000, 1e6 or 10M")
    })
}

const SIZES: &[(&str, f64)] = &[
    ("", 1.0),
    ("B", 1.0),
    ("k", 1e3),
    ("K", 1e3),
    ("kB", 1e3),
    ("KB", 1e3),
    ("M", 1e6),
    ("MB", 1e6),
    ("G", 1e9),
    ("GB", 1e9),
    ("T", 1e12),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];

/// A number of bytes: `64MB` (64,000,000), `64MiB` (67,108,864), `1000`.
pub fn size(text: &str) -> Result<u64, String> {
    whole(text, SIZES).ok_or_else(|| {
        format!("{text:?} is not a size: write bytes or a unit, such as 1000000, 64MB (10^6) or 1GiB (2^30)")
    })
}

/// A fraction: `0.01` or `1%`.
fn fraction(text: &str) -> Option<f64> {
    let (number, (_, unit)) = split(text, &[("", 1.0), ("%", 0.01)])?;
    // Divided, because 1 * 0.01 and 1 / 100 differ in the last bit for some numbers and 1% shall be 0.01.
    decimal(number).map(|value| if *unit == 1.0 { value } else { value / 100.0 })
}

/// A false-positive rate: `0.01`, `1%`, `1e-3`.
pub fn rate(text: &str) -> Result<f64, String> {
    match fraction(text) {
        Some(rate) if rate > 0.0 && rate < 1.0 => Ok(rate),
        Some(rate) if (1.0..100.0).contains(&rate) && !text.ends_with('%') => {
            Err(format!("a rate lies between 0 and 1, both excluded, not {rate}: for {rate} % write {rate}%"))
        }
        _ => Err(format!("{text:?} is not a rate: write a number between 0 and 1, both excluded, such as 0.01 or 1%")),
    }
}

/// A share: `0.9` or `90%`, both ends included.
pub fn share(text: &str) -> Result<f64, String> {
    fraction(text)
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("{text:?} is not a share: write a number from 0 to 1, such as 0.9 or 90%"))
}

const TIMES: &[(&str, f64)] =
    &[("", 1.0), ("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0)];

/// A time in seconds: `2ms`, `50us`, `0.002`.
pub fn seconds(text: &str) -> Result<f64, String> {
    split(text, TIMES)
        .and_then(|(number, (_, unit))| decimal(number).map(|value| value * unit))
        .filter(|seconds| *seconds >= 0.0)
        .ok_or_else(|| format!("{text:?} is not a time: write a number with ns, us, ms, s or min, such as 2ms"))
}

const PERIODS: &[(&str, f64)] =
    &[("", 1.0), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0), ("w", 604_800.0)];

/// A period of time, a millisecond at least: `90s`, `15min`, `36h`, `7d`.
pub fn period(text: &str) -> Result<std::time::Duration, String> {
    split(text, PERIODS)
        .and_then(|(number, (_, unit))| decimal(number).map(|value| value * unit))
        .filter(|seconds| (1e-3..=3.2e9).contains(seconds))
        .map(std::time::Duration::from_secs_f64)
        .ok_or_else(|| {
            format!("{text:?} is not a period: write a number with ms, s, min, h, d or w, from 1ms to 100 years, such as 36h")
        })
}

/// A plain number from 0 up: `10000`, `1e4`, `10k`.
pub fn amount(text: &str) -> Result<f64, String> {
    split(text, COUNTS)
        .and_then(|(number, (_, unit))| decimal(number).map(|value| value * unit))
        .filter(|amount| *amount >= 0.0)
        .ok_or_else(|| format!("{text:?} is not an amount: write a number from 0 up, such as 10000, 1e4 or 10k"))
}

/// A factor from 1 to 1000: `1.5`.
pub fn factor(text: &str) -> Result<f64, String> {
    decimal(text)
        .filter(|factor| (1.0..=1000.0).contains(factor))
        .ok_or_else(|| format!("{text:?} is not a factor: write a number from 1 to 1000; 1.5 is usual"))
}

/// 1234567 as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 key`, `2,000 keys`: of words that take an s.
pub fn counted(number: u64, word: &str) -> String {
    format!("{} {word}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Three significant digits, without an exponent where that reads well.
pub fn short(number: f64) -> String {
    // The exponent after rounding: 0.9996 is 1.00, not 1.000.
    let rounded = format!("{number:.2e}");
    let digits: i32 = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    match digits {
        i32::MIN..=-5 => format!("{number:.1e}"),
        -4..=2 => format!("{number:.*}", usize::try_from(2 - digits).unwrap_or(0)),
        _ => format!("{number:.0}"),
    }
}

/// A quantity: whole and grouped from a thousand on, three digits below.
pub fn many(number: f64) -> String {
    if number >= 1000.0 { grouped(number.round() as u64) } else { short(number) }
}

/// 1264640 bytes as `1.26 MB`.
pub fn bytes(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for larger in units {
        // 999.5 would be written 1000 in three digits.
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{} {unit}", short(value)) }
}

/// 0.00998 as `0.998 %`, 1e-9 as `1.0e-9`.
pub fn percent(rate: f64) -> String {
    if rate == 0.0 {
        "0 %".into()
    } else if rate < 1e-5 {
        format!("{rate:.1e}")
    } else {
        format!("{} %", short(rate * 100.0))
    }
}

/// 0.0018 seconds as `1.80 ms`.
pub fn time(seconds: f64) -> String {
    let units = [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];
    let (unit, size) = units.into_iter().find(|(_, size)| seconds.abs() >= *size).unwrap_or(("ns", 1e-9));
    format!("{} {unit}", short(seconds / size))
}

/// A duration in the largest unit that it is whole in, or nearly: `36 h`, `90 s`.
pub fn duration(time: std::time::Duration) -> String {
    let seconds = time.as_secs_f64();
    match [("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)].into_iter().find(|(_, size)| seconds >= 2.0 * size) {
        Some((unit, size)) => format!("{} {unit}", short(seconds / size)),
        None => self::time(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_numbers_in_many_ways() {
        for (text, number) in [
            ("0", 0),
            ("1000000", 1_000_000),
            ("1_000_000", 1_000_000),
            ("1,000,000", 1_000_000),
            ("1e6", 1_000_000),
            ("1.5e3", 1500),
            ("10M", 10_000_000),
            ("1.1k", 1100),
            ("2.5 G", 2_500_000_000),
            ("9007199254740993", 9_007_199_254_740_993),
        ] {
            assert_eq!(count(text), Ok(number), "{text}");
        }
        for wrong in ["", "-1", "ten", "1.5", "1e-3", "inf", "nan", "1e30", "M", "10MB", "0x10", "99999999999999999999"]
        {
            let error = count(wrong).unwrap_err();
            assert!(error.contains(&format!("{wrong:?}")) && error.contains("10M"), "{wrong}: {error}");
        }
        for (text, number) in
            [("64MB", 64_000_000), ("1GiB", 1 << 30), ("512", 512), ("1.5kB", 1500), ("2 MiB", 2 << 20)]
        {
            assert_eq!(size(text), Ok(number), "{text}");
        }
        for wrong in ["", "MB", "-1MB", "64mb", "1.5B", "64 Mb"] {
            assert!(size(wrong).unwrap_err().contains("64MB"), "{wrong}");
        }
    }

    #[test]
    fn rates_shares_and_times() {
        for (text, number) in
            [("0.01", 0.01), ("1%", 0.01), ("1 %", 0.01), ("0.1%", 0.001), ("1e-6", 1e-6), ("3%", 0.03)]
        {
            assert_eq!(rate(text), Ok(number), "{text}");
        }
        for wrong in ["", "0", "1", "-0.1", "100%", "nan", "1e400", "x"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert!(rate("5").unwrap_err().contains("write 5%"));
        assert_eq!((share("0"), share("90%"), share("1")), (Ok(0.0), Ok(0.9), Ok(1.0)));
        assert!(share("90").is_err() && share("-1%").is_err());
        for (text, number) in
            [("2ms", 2e-3), ("50us", 50e-6), ("50µs", 50e-6), ("0.5", 0.5), ("3s", 3.0), ("1min", 60.0)]
        {
            assert!((seconds(text).unwrap() - number).abs() < 1e-12, "{text}");
        }
        assert!(seconds("-2ms").is_err() && seconds("ms").is_err() && seconds("2h").is_err());
        assert!(factor("0.5").is_err() && factor("1.5") == Ok(1.5) && factor("1001").is_err());
        assert_eq!(amount("10k"), Ok(10_000.0));
        let seconds = |text: &str| period(text).map(|period| period.as_secs_f64());
        assert_eq!(["90", "1.5min", "36h", "2d"].map(seconds), [90.0, 90.0, 129_600.0, 172_800.0].map(Ok));
        assert!(["0s", "h", "-1h", "1e12d", "1 month"].iter().all(|wrong| period(wrong).unwrap_err().contains("36h")));
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 1, 2, 1000].map(|n| counted(n, "key")), ["0 keys", "1 key", "2 keys", "1,000 keys"]);
        assert_eq!([0, 12, 999, 1000, 1_234_567].map(grouped), ["0", "12", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 999, 1000, 1_264_640, 999_999].map(bytes),
            ["0 bytes", "999 bytes", "1.00 kB", "1.26 MB", "1.00 MB"]
        );
        assert_eq!(
            [0.0, 0.01, 0.00998, 0.873, 1e-4, 1e-9].map(percent),
            ["0 %", "1.00 %", "0.998 %", "87.3 %", "0.0100 %", "1.0e-9"]
        );
        assert_eq!([2e-3, 5e-8, 90.0, 0.0].map(time), ["2.00 ms", "50.0 ns", "90.0 s", "0.00 ns"]);
    }
}
