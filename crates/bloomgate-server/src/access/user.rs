//! A user: who may log in with what, and what they may do.

use std::sync::Arc;

use bloomgate_command::{Request, Role, Roles, Spec};

use super::Password;

/// A user as of one moment; whoever changes one makes another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name: 1 to 128 of A-Z a-z 0-9 . _ -
    pub name: String,
    /// Whether they may log in; one that is switched off loses the connections too.
    pub enabled: bool,
    /// Any of these logs in; what was proven of one stays with it when the user is changed.
    pub passwords: Vec<Arc<Password>>,
    /// Whether any password logs in, and for `default` none.
    pub no_password: bool,
    /// What they may do.
    pub roles: Roles,
    /// The name of the declared namespace they are bound to; none for all names.
    pub namespace: Option<String>,
    /// The same as long as somebody has the name: who is made after another was deleted has another. Not in the file; whoever was
    /// there at the start has 0.
    pub making: u64,
}

impl User {
    /// One that may do nothing, and is switched off.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            enabled: false,
            passwords: Vec::new(),
            no_password: false,
            roles: Roles::NONE,
            namespace: None,
            making: 0,
        }
    }

    /// One that may do everything without a password.
    #[must_use]
    pub fn unlimited(name: impl Into<String>) -> Self {
        Self { enabled: true, no_password: true, roles: Roles::ALL, ..Self::new(name) }
    }

    /// Whether they may give a command.
    #[inline]
    #[must_use]
    pub fn may(&self, spec: &Spec, request: &Request<'_>) -> bool {
        let allowed = self.roles.covers(spec.needs(request)) && (self.namespace.is_none() || !spec.is_of_server());
        allowed || self.asks_about_itself(request)
    }

    /// What is missing for a command they may not give, in words.
    #[must_use]
    pub fn lacks(&self, spec: &Spec, request: &Request<'_>) -> String {
        let missing: Vec<&str> =
            spec.needs(request).iter().filter(|&role| !self.roles.contains(role)).map(Role::name).collect();
        match (&missing[..], &self.namespace) {
            ([role], _) => format!("it needs the role {role}"),
            ([], Some(namespace)) => {
                format!("it is about the whole server, and the user is bound to the namespace '{namespace}'")
            }
            (roles, _) => format!("it needs the roles {}", roles.join(" and ")),
        }
    }

    /// What a user's own namespace may have and has is no secret.
    fn asks_about_itself(&self, request: &Request<'_>) -> bool {
        let own = self.namespace.as_ref().map(|name| name.as_bytes());
        matches!(request, Request::BgNamespaceInfo { name } if own == Some(*name))
    }

    /// Whether they can log in and steer the whole server.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        let can_log_in = self.enabled && (self.no_password || !self.passwords.is_empty());
        can_log_in && self.roles.contains(Role::Admin) && self.namespace.is_none()
    }

    /// What they may do, in the words of ACL: `+@all`, or `-@all +@read`.
    #[must_use]
    pub fn role_words(&self) -> String {
        if self.roles == Roles::ALL {
            return "+@all".to_owned();
        }
        self.roles.iter().fold("-@all".to_owned(), |words, role| format!("{words} +@{role}"))
    }

    /// The line of ACL LIST. Of passwords it has how they are hashed, nothing more.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!("user {} {}", self.name, if self.enabled { "on" } else { "off" });
        if self.no_password {
            line.push_str(" nopass");
        }
        self.passwords.iter().for_each(|password| line.push_str(&format!(" #({})", password.kind())));
        line.push_str(&format!(" ~* &* {}", self.role_words()));
        if let Some(namespace) = &self.namespace {
            line.push_str(&format!(" namespace={namespace}"));
        }
        line
    }
}
