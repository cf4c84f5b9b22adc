//! What a user sees who is bound to a namespace: its names without their prefix, and nothing else.
//!
//! Every name that such a user gives is put behind the prefix before the command is run, in one place for all commands
//! ([`Space::full_words`]) and in one for the batches of a pipeline; names in replies are shown without it. What a
//! transaction or a worker keeps for later are the words as they were given: who the user is when they run decides.

use std::borrow::Cow;
use std::sync::Arc;

use bloomgate_command::{MAX_NAME, Refusal, Request, Spec, parse};

use crate::access::{Book, User};
use crate::engine::shadows::check_name;

/// The namespace of a user as of one moment.
#[derive(Debug, PartialEq, Eq)]
pub struct Space {
    name: String,
    prefix: Box<[u8]>,
    /// What names of other namespaces begin with whose prefixes begin with this one, without it.
    others: Box<[Box<[u8]>]>,
}

/// The space of a user; none for one who has all names.
pub type Bound = Option<Arc<Space>>;

impl Space {
    /// The space of a user. One whose namespace is not there is nobody: the book and its file do not allow it.
    pub fn of(user: &User, book: &Book) -> Result<Bound, Refusal> {
        let Some(name) = &user.namespace else { return Ok(None) };
        let declared = book.namespaces.get(name).ok_or(Refusal::NO_AUTH)?;
        let prefix = declared.prefix.as_bytes();
        let others = book.namespaces.values().filter_map(|other| other.prefix.as_bytes().strip_prefix(prefix));
        Ok(Some(Arc::new(Self {
            name: name.clone(),
            prefix: prefix.into(),
            others: others.filter(|rest| !rest.is_empty()).map(Into::into).collect(),
        })))
    }

    /// The namespace's own name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a name, as it is in the engine, is one of the space.
    #[must_use]
    pub fn has(&self, full: &[u8]) -> bool {
        full.strip_prefix(&*self.prefix).is_some_and(|name| !self.others.iter().any(|other| name.starts_with(other)))
    }

    /// A name as it is shown.
    #[must_use]
    pub fn shown<'n>(&self, full: &'n [u8]) -> &'n [u8] {
        full.strip_prefix(&*self.prefix).unwrap_or_default()
    }

    /// Puts a name, as it is in the engine, behind what is in `out`.
    pub fn put_full(&self, name: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let most = MAX_NAME - self.prefix.len();
        if name.len() > most {
            return Err(Refusal::err(format_args!(
                "name is {} bytes, at most {most} are allowed in this namespace: use a shorter name",
                name.len()
            )));
        }
        if let Some(other) = self.others.iter().find(|other| name.starts_with(other)) {
            return Err(Refusal::err(format_args!(
                "names that begin with '{}' are not of this namespace: choose another",
                other.escape_ascii()
            )));
        }
        let start = out.len();
        out.extend_from_slice(&self.prefix);
        out.extend_from_slice(name);
        check_name(&out[start..])
    }

    /// The words of a command with its names as they are in the engine; the words were parsed before.
    pub fn full_words<'w>(&self, spec: &Spec, words: &[&'w [u8]]) -> Result<Vec<Cow<'w, [u8]>>, Refusal> {
        let mut full: Vec<Cow<'w, [u8]>> = words.iter().map(|&word| Cow::Borrowed(word)).collect();
        for at in spec.name_places(words) {
            let mut name = Vec::with_capacity(self.prefix.len() + words[at].len());
            self.put_full(words[at], &mut name)?;
            full[at] = Cow::Owned(name);
        }
        Ok(full)
    }

    /// An error as it is shown: these names in it without the prefix, and limits that others set are theirs to raise.
    #[must_use]
    pub fn retold<'n>(&self, refusal: Refusal, names: impl Iterator<Item = &'n [u8]>) -> Refusal {
        let mut text = refusal.as_str().to_owned();
        for full in names {
            let (full, shown) = (full.escape_ascii(), self.shown(full).escape_ascii());
            // Names stand in quotes, or as a word of a command that is proposed.
            text = text.replace(&format!("'{full}'"), &format!("'{shown}'"));
            text = text.replace(&format!(" {full} "), &format!(" {shown} "));
        }
        // What is proposed to raise stands at the end.
        let raise = [", or raise ", ": raise "].into_iter().filter_map(|words| Some((text.rfind(words)?, words))).max();
        if let Some((at, words)) = raise {
            text.truncate(at);
            text.push_str(words.trim_end_matches("raise "));
            text.push_str("ask whoever runs the server to raise it");
        }
        if text == refusal.as_str() { refusal } else { Refusal::new(text) }
    }
}

/// A contract's name in the engine: that of somebody who is bound to a namespace is one of that namespace, so that tenants
/// have no secret in common. No other name has a slash in it.
#[must_use]
pub fn contract_in(space: Option<&Space>, name: &str) -> String {
    space.map_or_else(|| name.to_owned(), |space| format!("{}/{name}", space.name))
}

impl Space {
    /// Whether a contract, by its name in the engine, is one of the namespace.
    #[must_use]
    pub fn has_contract(&self, full: &str) -> bool {
        full.strip_prefix(&*self.name).is_some_and(|rest| rest.starts_with('/'))
    }

    /// A contract's name as it is shown: that of one from outside begins with a slash.
    #[must_use]
    pub fn shown_contract(&self, full: &str) -> String {
        match self.has_contract(full) {
            true => full[self.name.len() + 1..].to_owned(),
            false => format!("/{full}"),
        }
    }
}

/// Runs with a request whose names are as they are in the engine, and all its words; `given` was parsed before.
pub fn in_full<T>(
    space: Option<&Space>,
    (spec, request): (&'static Spec, Request<'_>),
    given: &[&[u8]],
    work: impl FnOnce(Request<'_>, &[&[u8]]) -> T,
) -> Result<T, Refusal> {
    let Some(space) = space.filter(|_| spec.name_places(given).next().is_some()) else {
        return Ok(work(request, given));
    };
    let full = space.full_words(spec, given)?;
    let full: Vec<&[u8]> = full.iter().map(|word| &**word).collect();
    let (_, request) = parse(&full)?;
    Ok(work(request, &full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Namespace;

    fn space(prefixes: &[&str]) -> Arc<Space> {
        let mut book = Book::default();
        for (number, prefix) in prefixes.iter().enumerate() {
            let declared = Namespace { prefix: (*prefix).to_owned(), ..Namespace::default() };
            book.namespaces.insert(format!("n{number}"), declared);
        }
        let user = User { namespace: Some("n0".to_owned()), ..User::new("ann") };
        Space::of(&user, &book).unwrap().unwrap()
    }

    #[test]
    fn names_are_put_behind_the_prefix_wherever_they_stand() {
        let space = space(&["a:", "b:"]);
        for (line, expected) in [
            ("BF.ADD f x", "BF.ADD a:f x"),
            ("DEL f g", "DEL a:f a:g"),
            ("BG.CREATE f CAPACITY 9 LIKE g RATE 0.1", "BG.CREATE a:f CAPACITY 9 LIKE a:g RATE 0.1"),
            ("OBJECT ENCODING f", "OBJECT ENCODING a:f"),
            ("COPY f g DB 0", "COPY a:f a:g DB 0"),
            ("PING f", "PING f"),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let (spec, _) = parse(&words).unwrap();
            let full = space.full_words(spec, &words).unwrap();
            let full: Vec<_> = full.iter().map(|word| String::from_utf8_lossy(word)).collect();
            assert_eq!(full.join(" "), expected);
        }
    }

    #[test]
    fn a_name_is_too_long_or_of_another_namespace_or_the_servers_own() {
        let space = space(&["bloomgate:", "bloomgate:x:", "bloom", "bloomgate;"]);
        let full = |name: &[u8]| {
            let mut out = b"-".to_vec();
            space.put_full(name, &mut out).map(|()| out)
        };
        assert_eq!(full(b"f").unwrap(), b"-bloomgate:f");
        assert_eq!(full(b"x").unwrap(), b"-bloomgate:x");
        assert!(full(b"x:f").unwrap_err().as_str().contains("'x:' are not of this namespace"));
        assert!(full(b"rekey:f").unwrap_err().as_str().contains("the server's own"));
        assert_eq!(full(&[b'n'; MAX_NAME - 10]).unwrap().len(), MAX_NAME + 1);
        assert!(full(&[b'n'; MAX_NAME - 9]).unwrap_err().as_str().contains("at most 4086 are allowed"));
        assert!(space.has(b"bloomgate:f") && space.has(b"bloomgate:x") && !space.has(b"bloomgate:x:f"));
        assert!(!space.has(b"bloomgat") && !space.has(b"bloomgate;f"));
    }

    #[test]
    fn contracts_are_of_a_namespace_or_not() {
        let space = space(&["a:"]);
        assert_eq!((contract_in(None, "x"), contract_in(Some(&space), "x")), ("x".to_owned(), "n0/x".to_owned()));
        let shown = ["n0/x", "x", "n1/x", "n0", "n01/x"].map(|full| space.shown_contract(full));
        assert_eq!(shown, ["x", "/x", "/n1/x", "/n0", "/n01/x"]);
    }

    #[test]
    fn errors_show_no_prefix() {
        let space = space(&["a"]);
        let told = |text: &'static str| {
            let names: [&[u8]; 2] = [b"af", b"a\xff"];
            space.retold(Refusal::new(text), names.into_iter()).as_str().to_owned()
        };
        assert_eq!(told("ERR 'af' is not: BG.REKEY af START"), "ERR 'f' is not: BG.REKEY f START");
        for (said, heard) in [
            ("ERR no: ask for less, or raise it (BG.NAMESPACE SET a MAXMEMORY bytes)", "ERR no: ask for less, or "),
            ("ERR no: delete some, or raise max-filters", "ERR no: delete some, or "),
            ("ERR full: raise max-memory, or MAXMEMORY of its namespace", "ERR full: "),
        ] {
            assert_eq!(told(said), format!("{heard}ask whoever runs the server to raise it"));
        }
        assert_eq!(told("ERR 'a\\xff' after a while, 'aff'"), "ERR '\\xff' after a while, 'aff'");
    }
}
