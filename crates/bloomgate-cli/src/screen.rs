//! What the terminal can show: colours (through `anstream`, which honours `NO_COLOR` and pipes), Unicode or not.

use std::fmt::Display;
use std::io::Write;

use anstyle::{AnsiColor, Color, Style};

/// A heading.
pub const HEAD: Style = Style::new().bold();
/// What matters most on the screen.
pub const STRONG: Style = Style::new().bold().fg_color(Some(Color::Ansi(AnsiColor::Green)));
/// What needs care.
pub const WARN: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));
/// Axes, units, side remarks.
pub const DIM: Style = Style::new().dimmed();
/// A curve or a picture.
pub const INK: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Cyan)));

/// The word before a message.
pub const ERROR: Style = Style::new().bold().fg_color(Some(Color::Ansi(AnsiColor::Red)));

/// A text in a style.
pub fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A line for the user on standard error, where summaries, warnings and errors go. If nobody can read it, nobody is
/// told: that is no reason to fail.
pub fn tell(message: impl Display) {
    _ = writeln!(anstream::stderr(), "{message}");
}

/// Something that the user should know, though nothing is wrong.
pub fn note(message: impl Display) {
    tell(format_args!("{} {message}", paint(WARN, "note:")));
}

/// An error that does not end the verb.
pub fn complain(message: impl Display) {
    tell(format_args!("{} {message}", paint(ERROR, "error:")));
}

/// Whether pictures may use Unicode: unless told otherwise, when the locale is UTF-8.
pub fn unicode(ascii: bool) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty())
        .unwrap_or_default()
        .to_string_lossy()
        .to_uppercase();
    !ascii && (locale.contains("UTF-8") || locale.contains("UTF8"))
}

/// A paragraph broken into lines of at most 80 columns, the first after `first`, the others after as many spaces.
pub fn wrapped(first: &str, text: &str) -> String {
    let indent = first.chars().count();
    let mut out = first.to_string();
    let mut column = indent;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if column > indent && column + 1 + len > 80 {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_stay_within_eighty_columns() {
        let text = "word ".repeat(50);
        let out = wrapped("  - ", &text);
        assert!(out.lines().count() > 2 && out.lines().all(|line| line.len() <= 80), "{out}");
        assert!(out.lines().skip(1).all(|line| line.starts_with("    word")));
        assert_eq!(out.split_whitespace().filter(|&word| word == "word").count(), 50);
    }
}
