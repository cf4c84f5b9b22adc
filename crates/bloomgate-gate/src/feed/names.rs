//! What the parts of a feed are called: by the table's name, and never longer than PostgreSQL allows.

/// The longest name that PostgreSQL keeps whole, in bytes.
const LONGEST: usize = 63;
/// The longest ending below.
const ENDING: usize = "_emptied".len();
const BEGIN: &str = "bloomgate_feed_";

/// The names of a feed's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// The outbox itself.
    pub outbox: String,
    /// Who follows it, and how far each has read.
    pub readers: String,
    /// What it belongs to.
    pub about: String,
}

impl Names {
    /// The names for a table.
    pub fn of(table: &str) -> Self {
        let mut base = format!("{BEGIN}{table}");
        if base.len() > LONGEST - ENDING {
            // FNV-1a (Fowler, Noll and Vo, 1991) tells long names of the same begin apart.
            let number = table.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
            });
            let mut end = LONGEST - ENDING - 17;
            while !base.is_char_boundary(end) {
                end -= 1;
            }
            base.truncate(end);
            base.push_str(&format!("_{number:016x}"));
        }
        Self { readers: format!("{base}_readers"), about: format!("{base}_about"), outbox: base }
    }

    /// The name of a trigger or a function.
    pub fn part(&self, ending: &str) -> String {
        format!("{}_{ending}", self.outbox)
    }
}

/// Whether this is a trigger of a feed: it writes nothing but the outbox.
#[cfg(feature = "sqlite")]
pub(crate) fn is_of_feed(trigger: &str) -> bool {
    trigger.starts_with(BEGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_enough_and_tell_tables_apart() {
        let names = Names::of("products");
        assert_eq!(names.outbox, "bloomgate_feed_products");
        assert_eq!(
            (names.readers, names.about),
            ("bloomgate_feed_products_readers".into(), "bloomgate_feed_products_about".into())
        );
        let long = ["ä".repeat(31), format!("{}b", "a".repeat(62)), format!("{}c", "a".repeat(62)), "x".repeat(500)];
        let names: Vec<Names> = long.iter().map(|table| Names::of(table)).collect();
        for name in &names {
            assert!(name.readers.len() <= LONGEST && name.part("emptied").len() <= LONGEST, "{name:?}");
        }
        assert_ne!(names[1], names[2]);
        #[cfg(feature = "sqlite")]
        assert!(is_of_feed("bloomgate_feed_t_rows") && !is_of_feed("audit"));
    }
}
