//! Which form of a scrape a client wants, by its `Accept` header (RFC 9110, section 12.5.1).

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

use super::Form;

/// OpenMetrics 1.0 if the client wants it at least as much as plain text, else the text format that every scraper reads.
#[must_use]
pub fn form_for(headers: &HeaderMap) -> Form {
    let (mut open, mut plain) = (0, 0);
    for header in headers.get_all(ACCEPT) {
        let Ok(header) = header.to_str() else { continue };
        for range in header.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
            let parameter = |name: &str| {
                let found = parameters.iter().find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.trim().trim_matches('"'))
            };
            let weight = parameter("q").map_or(1000, weight);
            if media.eq_ignore_ascii_case("application/openmetrics-text") {
                // 0.0.1 was a draft.
                if parameter("version").is_none_or(|version| version == "1.0.0") {
                    open = open.max(weight);
                }
            } else if ["text/plain", "text/*", "*/*"].iter().any(|known| media.eq_ignore_ascii_case(known)) {
                plain = plain.max(weight);
            }
        }
    }
    if open > 0 && open >= plain { Form::OpenMetrics } else { Form::Prometheus }
}

/// A weight in thousandths; one that cannot be read counts nothing.
fn weight(text: &str) -> u32 {
    text.parse::<f64>().ok().filter(|weight| (0.0..=1.0).contains(weight)).map_or(0, |weight| (weight * 1000.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn the_form_is_what_the_client_wants_most() {
        for (accept, form) in [
            ("", Form::Prometheus),
            ("*/*", Form::Prometheus),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Form::Prometheus),
            ("text/plain;version=0.0.4", Form::Prometheus),
            ("application/openmetrics-text", Form::OpenMetrics),
            ("application/openmetrics-text; version=1.0.0", Form::OpenMetrics),
            ("application/openmetrics-text; version=0.0.1", Form::Prometheus),
            ("application/openmetrics-text;q=0", Form::Prometheus),
            ("application/openmetrics-text;q=0.1,text/plain;q=0.9", Form::Prometheus),
            // What Prometheus 2.x and 3.x send.
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Form::OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;\
                 version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,\
                 */*;q=0.2",
                Form::OpenMetrics,
            ),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]);
            assert_eq!(form_for(&headers), form, "{accept}");
        }
        assert_eq!(form_for(&HeaderMap::new()), Form::Prometheus);
    }
}
