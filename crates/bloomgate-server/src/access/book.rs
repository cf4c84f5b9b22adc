//! All users and declared namespaces as of one moment: what the access file holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DEFAULT, MAX_NAMESPACES, MAX_PREFIX, Password, User};
use crate::engine::shadows::is_reserved;

/// A declared namespace, as the access file has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Namespace {
    /// What the names of its filters begin with.
    pub prefix: String,
    /// Bytes its filters may take together.
    pub max_memory: Option<u64>,
    /// How many filters it may have.
    pub max_filters: Option<u64>,
    /// How many items may be added and asked for in a second.
    pub items_per_second: Option<u64>,
}

/// Users and namespaces. There is always a user `default`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Book {
    /// The users by their names.
    pub users: BTreeMap<String, Arc<User>>,
    /// The declared namespaces by their names.
    pub namespaces: BTreeMap<String, Namespace>,
    /// Whether somebody said what `default` is; else it is in no file.
    pub default_is_declared: bool,
}

impl Default for Book {
    /// Nobody but `default`, who may do everything.
    fn default() -> Self {
        let default = Arc::new(User::unlimited(DEFAULT));
        Self {
            users: BTreeMap::from([(DEFAULT.to_owned(), default)]),
            namespaces: BTreeMap::new(),
            default_is_declared: false,
        }
    }
}

impl Book {
    /// The user of a name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// Who `default` is.
    #[must_use]
    pub fn default_user(&self) -> Option<&Arc<User>> {
        self.users.get(DEFAULT)
    }

    /// Whether somebody can log in who may steer the whole server.
    #[must_use]
    pub fn has_admin(&self) -> bool {
        self.users.values().any(|user| user.is_admin())
    }

    /// The most hashes that it takes to know that a password is none of a user's; one at least.
    #[must_use]
    pub fn most_ways(&self) -> usize {
        self.users.values().map(|user| Password::ways(&user.passwords)).fold(1, usize::max)
    }

    /// Whether somebody said who may come in.
    #[must_use]
    pub fn has_users(&self) -> bool {
        self.users.len() > 1 || self.default_is_declared
    }

    /// Puts a user in, in place of one of that name.
    pub fn put(&mut self, user: User) {
        self.default_is_declared |= user.name == DEFAULT;
        self.users.insert(user.name.clone(), Arc::new(user));
    }

    /// Gives each user the number of before, and this one to those whose names nobody had.
    pub(super) fn number_makings(&mut self, before: &Self, making: u64) {
        for (name, user) in &mut self.users {
            let making = before.user(name).map_or(making, |known| known.making);
            if user.making != making {
                Arc::make_mut(user).making = making;
            }
        }
    }

    /// Whether the namespaces can be together; else the name of one that cannot, and why.
    pub fn check_namespaces(&self) -> Result<(), (String, String)> {
        if self.namespaces.len() > MAX_NAMESPACES {
            let (last, _) = self.namespaces.last_key_value().unzip();
            return Err((
                last.cloned().unwrap_or_default(),
                format!("there may be {MAX_NAMESPACES} namespaces: delete one first"),
            ));
        }
        let mut prefixes = BTreeMap::new();
        for (name, namespace) in &self.namespaces {
            let prefix = &namespace.prefix;
            let wrong = |why: String| Err((name.clone(), why));
            if !(1..=MAX_PREFIX).contains(&prefix.len()) {
                return wrong(format!(
                    "the prefix of a namespace has 1 to {MAX_PREFIX} bytes, that of '{name}' has {}",
                    prefix.len()
                ));
            }
            if is_reserved(prefix.as_bytes()) {
                return wrong(format!(
                    "names that begin with '{}' are the server's own: choose another prefix",
                    prefix.escape_debug()
                ));
            }
            if let Some(other) = prefixes.insert(prefix, name) {
                return wrong(format!(
                    "the namespaces '{other}' and '{name}' have the same prefix '{}': choose another",
                    prefix.escape_debug()
                ));
            }
        }
        Ok(())
    }

    /// Gives `default` the password of the settings, which is in no file.
    pub fn with_setting(mut self, password: Option<&Arc<Password>>) -> Result<Self, String> {
        let (Some(password), Some(default)) = (password, self.users.get_mut(DEFAULT)) else { return Ok(self) };
        let declared = self.default_is_declared;
        if declared && (default.no_password || default.passwords.iter().any(|known| !known.is_of_setting())) {
            return Err("the default user has its password by the setting `password` and by the access file: \
                 leave one of them out"
                .to_owned());
        }
        let changed = User { passwords: vec![password.clone()], no_password: false, ..(**default).clone() };
        *default = Arc::new(changed);
        Ok(self)
    }
}
