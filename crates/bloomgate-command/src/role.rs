//! What a user must be to give a command: one role for each command, and one rule behind all of them.
//!
//! Whatever can make a name answer "no" for an item that it said "maybe" to needs `delete`: a removal, a deletion, an
//! expiry, a rename, an exchange. Creating and adding needs `write`, asking needs `read`, and what concerns the server or
//! other clients needs `admin`. The rest (PING, HELLO, MULTI, ...) is for everybody who is logged in.

use std::fmt;

use crate::request::Request;
use crate::spec::{Right, Spec};

/// What a user may do. None includes another: a user has a set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// Asks filters.
    Read,
    /// Makes filters and adds to them.
    Write,
    /// Takes items and filters away.
    Delete,
    /// Steers the server.
    Admin,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 4] = [Role::Read, Role::Write, Role::Delete, Role::Admin];

    /// Its name, without an `@`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
            Role::Delete => "delete",
            Role::Admin => "admin",
        }
    }

    /// The role of this name, in any case.
    #[must_use]
    pub fn find(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|role| name.eq_ignore_ascii_case(role.name().as_bytes()))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Roles(u8);

impl Roles {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(0b1111);

    /// These and one more.
    #[must_use]
    pub const fn with(self, role: Role) -> Self {
        Self(self.0 | 1 << role as u8)
    }

    /// These but one.
    #[must_use]
    pub const fn without(self, role: Role) -> Self {
        Self(self.0 & !(1 << role as u8))
    }

    /// Whether this one is among them.
    #[inline]
    #[must_use]
    pub const fn contains(self, role: Role) -> bool {
        self.0 >> role as u8 & 1 == 1
    }

    /// Whether all of the others are among them.
    #[inline]
    #[must_use]
    pub const fn covers(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Them, one after the other.
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |&role| self.contains(role))
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        roles.into_iter().fold(Self::NONE, Self::with)
    }
}

impl Spec {
    /// The role that a user needs for it; none for what everybody may do who is logged in.
    #[inline]
    #[must_use]
    pub const fn role(&self) -> Option<Role> {
        let rights = self.rights;
        if rights.contains(Right::Admin) {
            Some(Role::Admin)
        } else if rights.contains(Right::Delete) {
            Some(Role::Delete)
        } else if rights.contains(Right::Write) {
            Some(Role::Write)
        } else if rights.contains(Right::Read) {
            Some(Role::Read)
        } else {
            None
        }
    }

    /// The roles that a user needs for this request: that of the command, `delete` where it replaces a filter, and `admin` where
    /// it takes away what others watch by.
    #[inline]
    #[must_use]
    pub fn needs(&self, request: &Request<'_>) -> Roles {
        let needs = self.role().map_or(Roles::NONE, |role| Roles::NONE.with(role));
        match request {
            Request::BgAudit { reset: true, .. } => needs.with(Role::Admin),
            request if request.replaces() => needs.with(Role::Delete),
            _ => needs,
        }
    }

    /// Whether it concerns the server and not one filter: only an admin of all namespaces may give it.
    #[inline]
    #[must_use]
    pub const fn is_of_server(&self) -> bool {
        matches!(self.role(), Some(Role::Admin)) && self.keys.first == 0
    }

    /// Its role for people, with what its options add.
    #[must_use]
    pub fn role_words(&self) -> String {
        let role = self.role().map_or("any", Role::name);
        let replaces = match self.name {
            "bg.rekey" => Some("FINISH"),
            "bg.audit" => return format!("{role}; RESET also {}", Role::Admin),
            _ => self.options.iter().map(|option| option.name).find(|&name| name == "REPLACE"),
        };
        replaces.map_or(role.to_owned(), |word| format!("{role}; {word} also {}", Role::Delete))
    }
}
