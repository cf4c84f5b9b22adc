//! Which answers may have made a key that only the answer tells. A service with sessions answers whoever is not logged in with
//! a redirect to its login page, which looks like the redirect after a success; only who runs it knows.

use std::fmt;
use std::str::FromStr;

use hyper::StatusCode;

use crate::error::{Error, ErrorKind};

/// The answers to a write at a collection after which a new key may be there: `2xx,3xx,5xx`, or fewer, as `201`.
///
/// What is not among them has made nothing. Leave `5xx` out only if a write of the service that fails leaves no row behind.
/// Refusals (4xx, and redirects that ask for the same again: 307 and 308) never make a key; a write that was not answered
/// always may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStatuses {
    /// From the first to the last of each.
    ranges: Vec<(u16, u16)>,
    /// As they were written.
    text: String,
}

impl Default for KeyStatuses {
    fn default() -> Self {
        Self { ranges: vec![(200, 299), (300, 399), (500, 599)], text: "2xx,3xx,5xx".to_owned() }
    }
}

impl KeyStatuses {
    /// Whether an answer of this status may have made a key.
    pub(crate) fn may_make(&self, status: StatusCode) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&status.as_u16()))
    }
}

impl FromStr for KeyStatuses {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let range = |part: &str| match part {
            "2xx" => Some((200, 299)),
            "3xx" => Some((300, 399)),
            "5xx" => Some((500, 599)),
            number => {
                let status: u16 = number.parse().ok()?;
                matches!(status, 200..=399 | 500..=599).then_some((status, status))
            }
        };
        let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
        let ranges: Option<Vec<_>> = parts.map(range).collect();
        match ranges.filter(|ranges| !ranges.is_empty()) {
            Some(ranges) => Ok(Self { ranges, text: text.to_owned() }),
            None => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{text:?} is no list of answers that make a key: write 2xx, 3xx, 5xx or numbers among them, as 201,303"
                ),
            )),
        }
    }
}

impl fmt::Display for KeyStatuses {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_and_typing_errors_told() {
        let has = |text: &str, status: u16| {
            text.parse::<KeyStatuses>().unwrap().may_make(StatusCode::from_u16(status).unwrap())
        };
        for status in [200, 201, 202, 302, 500, 503] {
            assert!(has("2xx,3xx,5xx", status) && KeyStatuses::default().may_make(status.try_into().unwrap()));
        }
        assert!(has("201", 201) && has("201, 303", 303) && has("201 2xx", 204));
        assert!(!has("201", 200) && !has("201,5xx", 302) && !has("2xx", 500));
        assert_eq!("2xx,3xx,5xx".parse::<KeyStatuses>().unwrap(), KeyStatuses::default());
        for text in ["", ",", "4xx", "404", "2XX", "20", "created", "201-204"] {
            assert!(text.parse::<KeyStatuses>().unwrap_err().to_string().contains("201,303"), "{text}");
        }
    }
}
