//! The words of ACL SETUSER: what each changes of a user.

use std::collections::BTreeMap;
use std::sync::Arc;

use bloomgate_command::{Role, Roles};

use super::{Book, DEFAULT, Directory, MAX_PASSWORDS, Namespace, Password, User, check_name};

const POSSIBLE: &str = "possible are on, off, >password, <password, #sha256, !sha256, nopass, resetpass, +@role and -@role \
     (read, write, delete, admin, all), namespace=NAME, namespace=* and reset";

/// Makes or changes a user by these words, or leaves the book as it is. Hashes passwords: about 25 ms each.
pub fn set_user(directory: &Directory, book: &mut Book, name: &[u8], rules: &[&[u8]]) -> Result<(), String> {
    let name = check_name("user", name)?;
    let mut user = book.user(&name).map_or_else(|| User::new(name), |user| (**user).clone());
    for rule in rules {
        apply(directory, &mut user, rule, &book.namespaces).map_err(|why| {
            // A password is never repeated, right or wrong.
            let shown = match rule.first() {
                Some(mark @ (b'>' | b'<' | b'#' | b'!')) => format!("{}...", char::from(*mark)),
                _ => rule[..rule.len().min(128)].escape_ascii().to_string(),
            };
            format!("Error in ACL SETUSER modifier '{shown}': {why}")
        })?;
    }
    book.put(user);
    Ok(())
}

fn apply(
    directory: &Directory,
    user: &mut User,
    rule: &[u8],
    namespaces: &BTreeMap<String, Namespace>,
) -> Result<(), String> {
    let lower = rule.to_ascii_lowercase();
    match (&lower[..], rule) {
        (b"on", _) => user.enabled = true,
        (b"off", _) => user.enabled = false,
        (b"nopass", _) => {
            may_change_passwords(directory, user)?;
            user.passwords.clear();
            user.no_password = true;
        }
        (b"resetpass", _) => {
            may_change_passwords(directory, user)?;
            user.passwords.clear();
            user.no_password = false;
        }
        (b"reset", _) => {
            may_change_passwords(directory, user)?;
            *user = User::new(std::mem::take(&mut user.name));
        }
        (b"allcommands" | b"+@all", _) => user.roles = Roles::ALL,
        (b"nocommands" | b"-@all", _) => user.roles = Roles::NONE,
        // Names are limited by namespaces, and there are no channels and no selectors: these say what is so anyway.
        (b"~*" | b"%rw~*" | b"allkeys" | b"&*" | b"allchannels" | b"resetchannels" | b"clearselectors", _) => {}
        (b"sanitize-payload" | b"skip-sanitize-payload", _) => {}
        ([b'+', b'@', role @ ..], _) => user.roles = user.roles.with(role_of(role)?),
        ([b'-', b'@', role @ ..], _) => user.roles = user.roles.without(role_of(role)?),
        (_, [b'>', password @ ..]) => {
            may_change_passwords(directory, user)?;
            super::password::check_length(password)?;
            user.no_password = false;
            if !user.passwords.iter().any(|known| directory.is_password(known, password)) {
                add(user, Password::hash(password, &user.passwords)?)?;
            }
        }
        (_, [b'<', password @ ..]) => {
            may_change_passwords(directory, user)?;
            let at = user.passwords.iter().position(|known| directory.is_password(known, password));
            user.passwords.remove(at.ok_or("the password that is to go is not one of the user's")?);
        }
        (_, [b'#', digits @ ..]) => {
            may_change_passwords(directory, user)?;
            let password = Password::from_sha256(digits)?;
            user.no_password = false;
            if !user.passwords.iter().any(|known| **known == password) {
                add(user, password)?;
            }
        }
        (_, [b'!', digits @ ..]) => {
            may_change_passwords(directory, user)?;
            let password = Password::from_sha256(digits)?;
            let at = user.passwords.iter().position(|known| **known == password);
            user.passwords.remove(at.ok_or("the hash that is to go is not one of the user's")?);
        }
        (b"namespace=*", _) => user.namespace = None,
        ([b'n', b'a', b'm', b'e', b's', b'p', b'a', b'c', b'e', b'=', ..], _) => {
            let name = check_name("namespace", &rule["namespace=".len()..])?;
            if !namespaces.contains_key(&name) {
                return Err(format!("there is no namespace '{name}': declare it first"));
            }
            user.namespace = Some(name);
        }
        ([b'~' | b'%' | b'&', ..] | b"resetkeys", _) => {
            return Err(
                "names are not limited by patterns here: bind the user to a namespace (namespace=NAME)".to_owned()
            );
        }
        ([b'+' | b'-', ..], _) => {
            return Err(
                "users have roles here, not single commands: give +@read, +@write, +@delete or +@admin".to_owned()
            );
        }
        ([b'(', ..], _) => {
            return Err("there are no selectors here: give the user roles, and a namespace (namespace=NAME)".to_owned());
        }
        _ => return Err(format!("Syntax error: {POSSIBLE}")),
    }
    Ok(())
}

fn add(user: &mut User, password: Password) -> Result<(), String> {
    if user.passwords.len() >= MAX_PASSWORDS {
        return Err(format!(
            "a user has at most {MAX_PASSWORDS} passwords: take one away first (<password or resetpass)"
        ));
    }
    user.passwords.push(Arc::new(password));
    Ok(())
}

fn may_change_passwords(directory: &Directory, user: &User) -> Result<(), String> {
    if user.name == DEFAULT && directory.has_setting() {
        return Err(
            "the password of the default user is the setting `password`: change it where the server is started"
                .to_owned(),
        );
    }
    Ok(())
}

fn role_of(name: &[u8]) -> Result<Role, String> {
    Role::find(name).ok_or_else(|| {
        "users have the roles @read, @write, @delete and @admin, or @all of them; other \
         categories are not given"
            .to_owned()
    })
}
