//! Who has loads and dumps under way: each namespace, and each user of none, has places of its own.

/// Loads, or dumps, that one may have under way at once.
pub const MOST_OF_ONE: usize = 16;
/// Of all together: a table that is looked through with every call.
pub const MOST: usize = 512;

/// Whom a load or a dump is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    /// The users that are bound to a namespace.
    Namespace(u16),
    /// A user who is bound to none.
    User(Box<str>),
}
