//! A strict reader of the two forms of a scrape, written from their specifications and not from the writer.

use std::collections::{BTreeMap, BTreeSet};

/// One sample: name, labels, value.
pub type Read = (String, BTreeMap<String, String>, f64);

/// Everything in a scrape, or what is wrong with it.
pub fn read(text: &str, open: bool) -> Result<Vec<Read>, String> {
    let body = match (open, text.strip_suffix("# EOF\n")) {
        (true, Some(body)) => body,
        (true, None) => return Err("does not end in # EOF".into()),
        (false, Some(_)) => return Err("has # EOF".into()),
        (false, None) => text,
    };
    if !body.is_empty() && !body.ends_with('\n') {
        return Err("the last line does not end".into());
    }
    let mut seen = BTreeSet::new();
    let mut family: Option<Family> = None;
    let mut samples: Vec<Read> = Vec::new();
    for line in body.lines() {
        let fail = |what: &str| Err(format!("{what}: {line}"));
        if let Some(meta) = line.strip_prefix("# ") {
            let mut words = meta.splitn(3, ' ');
            let (Some(word), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else {
                return fail("a comment that is no metadata");
            };
            if family.as_ref().is_none_or(|family| family.name != name) {
                if !seen.insert(name.to_owned()) {
                    return fail("a family in two places");
                }
                family = Some(Family { name: name.to_owned(), kind: None, unit: None, help: false });
            }
            let family = family.as_mut().unwrap();
            match word {
                "HELP" if !family.help => family.help = unescape(rest, open).map(|_| true)?,
                "TYPE" if family.kind.is_none() => family.kind = Some(rest.to_owned()),
                "UNIT" if open && family.unit.is_none() => {
                    if !name.ends_with(&format!("_{rest}")) {
                        return fail("a unit that the name does not end in");
                    }
                    family.unit = Some(rest.to_owned());
                }
                _ => return fail("metadata that is not known or stands twice"),
            }
            continue;
        }
        let sample = sample(line)?;
        let Some(family) = &family else { return fail("a sample without a family") };
        family.owns(&sample, open).map_err(|why| format!("{why}: {line}"))?;
        if samples.iter().any(|(name, labels, _)| *name == sample.0 && *labels == sample.1) {
            return fail("a sample that stands twice");
        }
        samples.push(sample);
    }
    Ok(samples)
}

struct Family {
    name: String,
    kind: Option<String>,
    unit: Option<String>,
    help: bool,
}

impl Family {
    fn owns(&self, (name, labels, value): &Read, open: bool) -> Result<(), String> {
        let suffix = name.strip_prefix(&self.name).ok_or("a sample of another family")?;
        let bound = labels.contains_key("le");
        match (self.kind.as_deref(), suffix) {
            (Some("counter"), "_total") if open && *value >= 0.0 && !bound => Ok(()),
            (Some("counter"), "") if !open && name.ends_with("_total") && *value >= 0.0 && !bound => Ok(()),
            (Some("gauge"), "") if !bound => Ok(()),
            (Some("histogram"), "_bucket") if bound => Ok(()),
            (Some("histogram"), "_sum" | "_count") if !bound => Ok(()),
            (kind, suffix) => Err(format!("a {kind:?} with the ending {suffix:?}")),
        }
    }
}

/// `name{label="value",...} number`, with no more space than that.
fn sample(line: &str) -> Result<Read, String> {
    let fail = |what: &str| format!("{what}: {line}");
    let name_end = line.find(['{', ' ']).ok_or_else(|| fail("no value"))?;
    let name = &line[..name_end];
    if !is_name(name) {
        return Err(fail("no name"));
    }
    let mut labels = BTreeMap::new();
    let mut rest = &line[name_end..];
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            let (label, after) = inside.split_once("=\"").ok_or_else(|| fail("no label"))?;
            if !is_name(label) || label.contains(':') {
                return Err(fail("no name of a label"));
            }
            let mut end = 0;
            let bytes = after.as_bytes();
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            let value = after.get(..end).ok_or_else(|| fail("a value without an end"))?;
            if labels.insert(label.to_owned(), unescape(value, true)?).is_some() {
                return Err(fail("a label twice"));
            }
            let after = after.get(end + 1..).ok_or_else(|| fail("a value without an end"))?;
            if let Some(after) = after.strip_prefix('}') {
                rest = after;
                break;
            }
            inside = after.strip_prefix(',').ok_or_else(|| fail("no comma"))?;
        }
    }
    let number = rest.strip_prefix(' ').ok_or_else(|| fail("no space before the value"))?;
    let value = match number {
        "NaN" => f64::NAN,
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        number if number.bytes().all(|byte| b"0123456789.e-+".contains(&byte)) => {
            number.parse().map_err(|_| fail("no number"))?
        }
        _ => return Err(fail("no number")),
    };
    Ok((name.to_owned(), labels, value))
}

fn is_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b':';
    name.bytes().next().is_some_and(letter) && name.bytes().all(|byte| letter(byte) || byte.is_ascii_digit())
}

fn unescape(text: &str, quotes: bool) -> Result<String, String> {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\\') => out.push('\\'),
                Some('n') => out.push('\n'),
                Some('"') if quotes => out.push('"'),
                other => return Err(format!("\\ before {other:?} in {text}")),
            },
            '"' if quotes => return Err(format!("a bare quote in {text}")),
            other => out.push(other),
        }
    }
    Ok(out)
}

#[test]
fn the_reader_notices_what_is_wrong() {
    let head = "# HELP a_total h\n# TYPE a_total counter\n";
    for (text, open) in [
        ("a 1\n", false),
        ("# HELP a h\n# TYPE a gauge\na 1", false),
        ("# HELP a h\n# TYPE a gauge\na  1\n", false),
        ("# HELP a h\n# TYPE a gauge\nb 1\n", false),
        ("# HELP a h\n# TYPE a gauge\na 1\na 2\n", false),
        ("# HELP a h\n# TYPE a gauge\na{b=\"c\"d\"} 1\n", false),
        ("# HELP a h\n# TYPE a gauge\na{b=\"\\c\"} 1\n", false),
        ("# HELP a h\n# TYPE a gauge\na{b=\"c\",b=\"d\"} 1\n", false),
        ("# HELP a h\n# TYPE a gauge\na one\n", false),
        (&format!("{head}a_total -1\n"), false),
        (&format!("{head}a_total 1\n# EOF\n"), true),
        ("# HELP a h\n# TYPE a counter\na_total 1\n", true),
        ("# HELP a h\n# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n", true),
        ("# HELP a \"h\"\n# TYPE a gauge\na 1\n# EOF\n", true),
    ] {
        assert!(read(text, open).is_err(), "{text}");
    }
    assert_eq!(read(&format!("{head}a_total 1\n"), false).unwrap().len(), 1);
    assert_eq!(read("# HELP a h\n# TYPE a counter\na_total 1\n# EOF\n", true).unwrap().len(), 1);
}
