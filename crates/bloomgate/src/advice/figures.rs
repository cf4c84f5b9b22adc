//! Numbers in sentences: three digits, with the unit that reads best.

/// 1234567 as `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
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

/// `1 key`, `10,000 keys`.
pub(super) fn keys(number: u64) -> String {
    format!("{} {}", grouped(number), if number == 1 { "key" } else { "keys" })
}

/// Three significant digits of a number from 0 up, without zeros at the end.
fn short(number: f64) -> String {
    // Rounded first: 999.9 is 1,000 and not 1000.
    let rounded: f64 = format!("{number:.2e}").parse().unwrap_or(number);
    if rounded >= 1000.0 {
        return grouped(rounded as u64);
    }
    // The shortest text that reads as the same number has at most the three digits that were kept.
    rounded.to_string()
}

/// 0.0726 as `7.26 %`; below a millionth `1.5e-9`, which nobody reads better with a % sign.
pub(super) fn percent(share: f64) -> String {
    match share {
        0.0 => "0 %".to_string(),
        _ if share < 1e-6 => format!("{}e{}", short(share / power(share)), exponent(share)),
        _ => format!("{} %", short(share * 100.0)),
    }
}

fn exponent(number: f64) -> i32 {
    let text = format!("{number:.2e}");
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

fn power(number: f64) -> f64 {
    10f64.powi(exponent(number))
}

/// 1e-7 seconds as `100 ns`.
pub(super) fn time(seconds: f64) -> String {
    let units = [("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];
    // Half a unit of the third digit below: 999.9 ns is 1 us.
    let (unit, size) = units.into_iter().find(|(_, size)| seconds >= size * 0.9995).unwrap_or(("ns", 1e-9));
    format!("{} {unit}", short(seconds / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!([0, 999, 1000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
        assert_eq!([1, 2, 10_000].map(keys), ["1 key", "2 keys", "10,000 keys"]);
        assert_eq!(
            [0.0, 1.0, 0.01, 0.0726, 0.072_61, 0.999_96, 5.1546e-5, 1.5e-9, 9.999e-7].map(percent),
            ["0 %", "100 %", "1 %", "7.26 %", "7.26 %", "100 %", "0.00515 %", "1.5e-9", "1e-6"]
        );
        assert_eq!(
            [1e-7, 1.000_000_000_000_000_1e-7, 5e-8, 0.002, 1.5, 0.0, 3e-12, 9.9999e-7, 7200.0].map(time),
            ["100 ns", "100 ns", "50 ns", "2 ms", "1.5 s", "0 ns", "0.003 ns", "1 us", "7,200 s"]
        );
    }
}
