//! The table of commands, tested as a whole: every entry, every text, every reply.

mod random;
mod refusals;
mod replies;
mod requests;
mod roles;
mod table;

use bloomgate_command::{Refusal, Request, Spec};

/// A command line as words: blanks separate, quotes keep together, `\x` escapes as in Rust.
fn words(line: &str) -> Vec<Vec<u8>> {
    let (mut words, mut word, mut quoted, mut any) = (Vec::new(), String::new(), false, false);
    for character in line.chars() {
        match character {
            '"' => {
                quoted = !quoted;
                any = true;
            }
            ' ' if !quoted => {
                if any {
                    words.push(std::mem::take(&mut word).into_bytes());
                }
                any = false;
            }
            _ => {
                word.push(character);
                any = true;
            }
        }
    }
    if any {
        words.push(word.into_bytes());
    }
    words
}

/// Parses a command line and looks at the result.
fn parsed<T>(line: &str, look: impl FnOnce(Result<(&'static Spec, Request<'_>), Refusal>) -> T) -> T {
    let words = words(line);
    let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    look(bloomgate_command::parse(&borrowed))
}
