//! Marks of another system on keys: a carriage return at the end of each, a byte order mark before the first. They are
//! part of the key unless somebody says otherwise, and then every other spelling of it is "absent": a note tells.

use super::{Cut, Keys};
use crate::screen::{self, WARN, paint};

/// Marks of another system on the keys, which become part of them unless somebody says otherwise.
#[derive(Default)]
pub struct Strange {
    /// The first source whose keys end in a carriage return.
    carriage_returns: Option<String>,
    /// The first source that begins with a byte order mark.
    byte_order_mark: Option<String>,
}

impl Strange {
    /// Looks at the first keys of a source.
    pub fn look(&mut self, cut: &Cut, keys: &Keys<'_>) {
        if self.carriage_returns.is_none() && !cut.crlf && !cut.null && keys.end_in_carriage_return() {
            self.carriage_returns = Some(keys.source().into());
        }
        if self.byte_order_mark.is_none() && keys.keys.first().is_some_and(|key| key.starts_with(b"\xEF\xBB\xBF")) {
            self.byte_order_mark = Some(keys.source().into());
        }
    }

    /// Tells of them.
    pub fn tell(&self) {
        if let Some(name) = &self.carriage_returns {
            screen::tell(format_args!(
                "{} {name}: every key ends in a carriage return: is this a CRLF file? then use --crlf",
                paint(WARN, "note:")
            ));
        }
        if let Some(name) = &self.byte_order_mark {
            screen::tell(format_args!(
                "{} {name}: it begins with a byte order mark, which is now part of its first key: take it off with \
                 `tail -c +4`",
                paint(WARN, "note:")
            ));
        }
    }
}
