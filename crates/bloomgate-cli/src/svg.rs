//! SVG documents: a light page, shapes and text, nothing that is loaded from elsewhere.
//!
//! Written by hand because a page of lines and words needs no library. Numbers have two decimals at most, text is
//! escaped, and what XML has no place for (control characters) is left out.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::file;
use crate::keys::Source;

/// Text and axes.
pub const DARK: &str = "#1f2933";
/// Labels, side remarks.
pub const GREY: &str = "#616e7c";
/// Lines behind a curve.
pub const FAINT: &str = "#e4e7eb";
/// The page.
pub const PAPER: &str = "#ffffff";
/// Colours that most eyes tell apart, whatever they see (Okabe and Ito, 2008).
pub const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// Where a text stands at its point.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Debug, Clone, Copy)]
pub struct Font {
    pub size: f64,
    pub colour: &'static str,
    pub bold: bool,
    pub anchor: Anchor,
}

impl Font {
    /// From the left, in this size.
    pub const fn new(size: f64, colour: &'static str) -> Self {
        Self { size, colour, bold: false, anchor: Anchor::Start }
    }

    pub const fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    pub const fn anchored(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }
}

/// A document in the making.
pub struct Document {
    width: f64,
    height: f64,
    title: String,
    body: String,
}

impl Document {
    /// An empty page; the title is for readers that show or speak it.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        Self { width, height, title: escaped(title), body: String::new() }
    }

    /// A filled rectangle.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
        let [x, y, width, height] = [x, y, width, height].map(short);
        self.push(&format!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"/>"#));
    }

    /// A straight line.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, width: f64) {
        let [x1, y1, x2, y2, width] = [x1, y1, x2, y2, width].map(short);
        self.push(&format!(
            r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="{width}"/>"#
        ));
    }

    /// A line through points.
    pub fn curve(&mut self, points: &[(f64, f64)], colour: &str, width: f64) {
        let points: Vec<String> = points.iter().map(|&(x, y)| format!("{},{}", short(x), short(y))).collect();
        self.push(&format!(
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="{}" stroke-linejoin="round"/>"#,
            points.join(" "),
            short(width)
        ));
    }

    /// A dot with a rim of paper, so that it stands out on its line.
    pub fn dot(&mut self, (x, y): (f64, f64), radius: f64, colour: &str) {
        let [x, y, radius] = [x, y, radius].map(short);
        self.push(&format!(
            r#"<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}" stroke="{PAPER}" stroke-width="1.5"/>"#
        ));
    }

    /// A text at a point.
    pub fn text(&mut self, at: (f64, f64), font: Font, text: &str) {
        self.place(at, font, text, "");
    }

    /// A text that runs upwards from a point.
    pub fn upright(&mut self, (x, y): (f64, f64), font: Font, text: &str) {
        let turn = format!(r#" transform="rotate(-90 {} {})""#, short(x), short(y));
        self.place((x, y), font, text, &turn);
    }

    fn place(&mut self, (x, y): (f64, f64), font: Font, text: &str, more: &str) {
        let anchor = match font.anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let weight = if font.bold { r#" font-weight="600""# } else { "" };
        self.push(&format!(
            r#"<text x="{}" y="{}" font-size="{}" fill="{}"{anchor}{weight}{more}>{}</text>"#,
            short(x),
            short(y),
            short(font.size),
            font.colour,
            escaped(text)
        ));
    }

    fn push(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// The whole document.
    pub fn finish(self) -> String {
        let (width, height) = (short(self.width), short(self.height));
        let (title, body) = (&self.title, &self.body);
        format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" font-family="system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif">
<title>{title}</title>
<rect width="{width}" height="{height}" fill="{PAPER}"/>
{body}</svg>
"#
        )
    }
}

/// Two decimals at most, none that say nothing; what is no number is 0.
fn short(number: f64) -> String {
    if !number.is_finite() {
        return "0".into();
    }
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// A text as XML writes it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // XML 1.0 knows no other control characters, and not these two.
            c if (c < ' ' && !matches!(c, '\t' | '\n')) || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A place to write a document to.
pub enum Target {
    /// Standard output, instead of the screen.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl Target {
    /// `-` is standard output. Refuses what must not be replaced, before any work was done: what is read, for one.
    pub fn of(path: &Path, read: &[Source]) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self::Stdout);
        }
        file::check_target(path, read)?;
        Ok(Self::File(path.to_path_buf()))
    }

    /// Writes the document; a file is written beside and renamed, so that one that was there stays whole.
    pub fn write(&self, document: &str) -> Result<(), Failure> {
        let path = match self {
            Self::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(document.as_bytes())?;
                return Ok(out.flush()?);
            }
            Self::File(path) => path,
        };
        let mut beside = path.file_name().unwrap_or_default().to_os_string();
        beside.push(format!(".{}.new", std::process::id()));
        let beside = path.with_file_name(beside);
        std::fs::write(&beside, document).and_then(|()| std::fs::rename(&beside, path)).map_err(|error| {
            _ = std::fs::remove_file(&beside);
            Failure::at(path, error)
        })
    }
}

#[cfg(test)]
pub mod well_formed {
    //! Enough of XML to say whether a document is well formed.

    /// Panics unless every element is closed in order, attributes are quoted and once each, and `&` begins an entity.
    pub fn check(text: &str) {
        let body = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").expect("a declaration");
        let (mut open, mut rest, mut roots): (Vec<&str>, &str, u32) = (Vec::new(), body, 0);
        while let Some(start) = rest.find('<') {
            entities(&rest[..start]);
            assert!(!open.is_empty() || rest[..start].trim().is_empty(), "text outside of the document");
            let end = start + rest[start..].find('>').expect("a tag that ends");
            let tag = &rest[start + 1..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "closed in another order");
                continue;
            }
            let (tag, alone) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
            let name = tag.split(' ').next().unwrap();
            attributes(&tag[name.len()..]);
            roots += u32::from(open.is_empty());
            if !alone {
                open.push(name);
            }
        }
        assert!(open.is_empty() && roots == 1 && rest.trim().is_empty(), "{open:?} {roots} {rest:?}");
    }

    fn attributes(mut rest: &str) {
        let mut names = Vec::new();
        while !rest.is_empty() {
            let (name, value) = rest.strip_prefix(' ').and_then(|rest| rest.split_once("=\"")).expect("an attribute");
            assert!(!names.contains(&name) && name.chars().all(|c| c.is_ascii_alphanumeric() || ":-".contains(c)));
            names.push(name);
            let (value, after) = value.split_once('"').expect("a quoted value");
            entities(value);
            rest = after;
        }
    }

    fn entities(text: &str) {
        for piece in text.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;", "apos;"];
            assert!(known.iter().any(|entity| piece.starts_with(entity)), "&{piece}");
        }
        assert!(!text.contains(|c: char| c < ' ' && !"\t\n".contains(c)), "a control character");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_well_formed_whatever_they_say() {
        let mut page = Document::new(100.0, 50.5, "a < b & \"c\"\u{1}");
        page.rect((0.0, 0.0), (1.0 / 3.0, f64::NAN), DARK);
        page.line((0.0, -0.001), (10.0, 1e3), FAINT, 1.0);
        page.curve(&[(0.0, 1.0), (2.5, 3.25)], COLOURS[0], 2.0);
        page.dot((1.0, 2.0), 3.0, COLOURS[1]);
        page.text((1.0, 2.0), Font::new(12.0, DARK).bold().anchored(Anchor::End), "</text><script>&amp;'\u{ffff}");
        page.upright((1.0, 2.0), Font::new(12.0, GREY), "up");
        let text = page.finish();
        well_formed::check(&text);
        assert!(text.contains("&lt;/text&gt;&lt;script&gt;&amp;amp;&apos;\u{fffd}</text>"), "{text}");
        assert!(text.contains(r#"width="0.33" height="0""#) && text.contains(r#"y1="0""#), "{text}");
        // The only address in it is the name of the language.
        assert_eq!(text.matches("http").count(), 1);
    }

    #[test]
    #[should_panic(expected = "closed in another order")]
    fn the_check_sees_what_is_wrong() {
        well_formed::check("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg><g></svg></g>");
    }
}
