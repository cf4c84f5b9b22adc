//! The users there are now: who comes in, who is changed, and the number that tells sessions to look again.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::notes::Notes;
use super::password::{Key, verify_nothing};
use super::{Book, DEFAULT, MAX_PASSWORD, MAX_USERS, Password, Sealed, User, file};
use crate::settings::Settings;

/// What a client of another machine is told where nothing protects the server but that it answers this machine alone; with
/// how to make the first user there.
#[must_use]
pub fn denied(first_user: &str) -> String {
    format!(
        "DENIED protected mode: this server has no password and no users, so it answers clients of its own machine alone. \
         There, make a user ({first_user}) or set a password (BLOOMGATE_PASSWORD, or password in the file of --config) and start \
         it again; or, if whoever reaches it may do everything, set protected-mode to no"
    )
}

/// The words that make the first user, for a shell of this machine: in quotes, since > means something to it.
#[must_use]
pub fn first_user(resp: Option<u16>, tls: Option<u16>) -> String {
    let door = match (resp, tls) {
        (Some(port), _) => format!("-p {port} "),
        (None, Some(port)) => format!("--tls -p {port} "),
        (None, None) => String::new(),
    };
    format!("redis-cli {door}ACL SETUSER admin on '>PASSWORD' +@all")
}

/// All users.
#[derive(Debug)]
pub struct Directory {
    book: RwLock<Arc<Book>>,
    generation: AtomicU64,
    /// Held while the book is changed: the text of the file as it was last read or written, by its BLAKE3.
    changing: Mutex<Option<blake3::Hash>>,
    path: Option<PathBuf>,
    /// There as long as the access file has users: a start that finds this and not them is refused.
    expected: Option<PathBuf>,
    key: Key,
    /// The setting `password`.
    setting: Option<Arc<Password>>,
    protected: AtomicBool,
    /// What was refused.
    pub notes: Notes,
}

impl Default for Directory {
    fn default() -> Self {
        Self::open_to_all()
    }
}

impl Directory {
    /// Nobody but `default`, who may do everything; users that are made are kept in memory.
    #[must_use]
    pub fn open_to_all() -> Self {
        Self {
            book: RwLock::default(),
            generation: AtomicU64::new(0),
            changing: Mutex::new(None),
            path: None,
            expected: None,
            key: Key::generate(),
            setting: None,
            protected: AtomicBool::new(true),
            notes: Notes::default(),
        }
    }

    /// The users of the settings' access file, and the password of the settings.
    pub fn open(settings: &Settings) -> Result<Self, String> {
        let in_data = settings.data.as_ref().map(|data| data.join("access.toml"));
        let mut directory = Self::open_to_all();
        directory.path = settings.access.clone().or(in_data);
        directory.expected = settings.data.as_ref().map(|data| data.join("access.expected"));
        if let Some(Sealed { key, password }) = &settings.password {
            (directory.key, directory.setting) = (key.clone(), Some(password.clone()));
        }
        directory.protected = settings.protected_mode.into();
        // One that was named and is not there is a mistake, and a server without its users would be open.
        if let Some(named) = &settings.access
            && !file::is_there(named)?
        {
            return Err(format!(
                "the access file {0} is not there: bring it back, or make an empty one (install -m 600 /dev/null {0})",
                named.display()
            ));
        }
        directory.begun()
    }

    /// The users of an access file, which is made by the first change if it is not there.
    pub fn of_file(path: impl Into<PathBuf>) -> Result<Self, String> {
        Self { path: Some(path.into()), ..Self::open_to_all() }.begun()
    }

    /// With what its file holds.
    fn begun(self) -> Result<Self, String> {
        let (book, sum) = self.read()?;
        let (path, expected) = (self.path.as_deref(), self.expected.as_deref());
        if let (Some(path), Some(expected)) = (path, expected.filter(|_| !book.has_users()))
            && file::is_there(expected)?
        {
            let missing = if sum.is_some() { "has no users" } else { "is not there" };
            return Err(format!(
                "the access file {} {missing}, and this server had users: without them it would be open to everybody. Bring \
                 the file back; or, if that is what you want, remove {} and start again",
                path.display(),
                expected.display()
            ));
        }
        file::expect(expected, book.has_users())?;
        Ok(Self { book: RwLock::new(Arc::new(book)), changing: Mutex::new(sum), ..self })
    }

    fn changing(&self) -> MutexGuard<'_, Option<blake3::Hash>> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the file holds, or nobody but `default`.
    fn read(&self) -> Result<(Book, Option<blake3::Hash>), String> {
        let text = self.path.as_deref().map(file::read).transpose()?.flatten();
        let book = match (&text, &self.path) {
            (Some(text), Some(path)) => {
                file::parse(text).map_err(|why| format!("the access file {}: {why}", path.display()))?
            }
            _ => Book::default(),
        };
        Ok((book.with_setting(self.setting.as_ref())?, text.map(|text| blake3::hash(text.as_bytes()))))
    }

    /// Moves with every change: who holds a user looks again when it did.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Everything as it is now.
    #[must_use]
    pub fn book(&self) -> Arc<Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The user of a name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<Arc<User>> {
        self.book().user(name).cloned()
    }

    /// A user as they are now; none if they were deleted or switched off.
    #[must_use]
    pub fn renewed(&self, user: &User) -> Option<Arc<User>> {
        self.user(&user.name).filter(|user| user.enabled)
    }

    /// Who `default` is.
    #[must_use]
    pub fn default_user(&self) -> Arc<User> {
        self.user(DEFAULT).unwrap_or_else(|| Arc::new(User::new(DEFAULT)))
    }

    /// Whether the password of `default` is a setting.
    #[must_use]
    pub fn has_setting(&self) -> bool {
        self.setting.is_some()
    }

    /// The access file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn install(&self, mut book: Book) {
        book.number_makings(&self.book(), self.generation() + 1);
        *self.book.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(book);
        // After the book: whoever sees the number sees the book.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Changes users or namespaces: all of it or nothing. The access file has it when this returns.
    pub fn change<T>(&self, edit: impl FnOnce(&mut Book) -> Result<T, String>) -> Result<T, String> {
        let mut sum = self.changing();
        let before = self.book();
        let mut book = (*before).clone();
        let value = edit(&mut book)?;
        if book == *before {
            return Ok(value);
        }
        if book.users.len() > MAX_USERS {
            return Err(format!("there may be {MAX_USERS} users: delete one first"));
        }
        check_admin(&before, &book)?;
        let unsure = self.write(&book, &mut sum)?;
        self.install(book);
        unsure.map_or(Ok(value), Err)
    }

    /// Writes the file; what is not sure then, if anything.
    fn write(&self, book: &Book, sum: &mut Option<blake3::Hash>) -> Result<Option<String>, String> {
        let Some(path) = &self.path else { return Ok(None) };
        let there = file::read(path)?.map(|text| blake3::hash(text.as_bytes()));
        if there != *sum {
            return Err(format!(
                "the access file {} was changed since it was read: ACL LOAD takes it as it is, then change users",
                path.display()
            ));
        }
        let text = file::render(book);
        let unsure = file::write(path, &text)?;
        *sum = Some(blake3::hash(text.as_bytes()));
        // After the file, which counts without it; if it cannot be made now, the next start makes it.
        let _ = file::expect(self.expected.as_deref(), book.has_users());
        Ok(unsure)
    }

    /// Writes the access file as it should be: ACL SAVE.
    pub fn save(&self) -> Result<(), String> {
        let mut sum = self.changing();
        if self.path.is_none() {
            return Err(NO_FILE.to_owned());
        }
        self.write(&self.book(), &mut sum)?.map_or(Ok(()), Err)
    }

    /// Reads the access file again: all of it, or everything stays as it is. `settle` sees what is and what would be, may
    /// refuse it, and what it gives lasts until that is in use.
    pub fn reload<T>(&self, settle: impl FnOnce(&Book, &Book) -> Result<T, String>) -> Result<T, String> {
        let mut sum = self.changing();
        let Some(path) = &self.path else { return Err(NO_FILE.to_owned()) };
        let (before, (book, read)) = (self.book(), self.read()?);
        // A file that went away, or was emptied, is an accident far more often than a wish, and leaves the server open.
        if sum.is_some() && read.is_none() {
            return Err(format!("the access file {} is not there any more: bring it back", path.display()));
        }
        if before.has_users() && !book.has_users() {
            return Err(format!(
                "the access file {} has no users any more, and without them the server would be open to everybody: bring \
                 them back; or, if that is what you want, say it ([users.default] with no-password = true and its roles)",
                path.display()
            ));
        }
        check_admin(&before, &book).map_err(|why| format!("the access file {}: {why}", path.display()))?;
        let settled = settle(&before, &book)?;
        *sum = read;
        let _ = file::expect(self.expected.as_deref(), book.has_users());
        self.install(book);
        Ok(settled)
    }

    /// Protected mode: whether clients of other machines get in without a password.
    pub fn set_protected(&self, protected: bool) {
        self.protected.store(protected, Ordering::Relaxed);
    }

    /// Whether protected mode is on.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.protected.load(Ordering::Relaxed)
    }

    /// Whether `default` needs no password.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let default = self.default_user();
        default.enabled && default.no_password
    }

    /// Whether a client that comes from here has nothing it could log in with, and may not come in without: it gets
    /// [`denied`].
    #[must_use]
    pub fn denies(&self, from: IpAddr) -> bool {
        self.is_protected() && !is_loopback(from) && self.has_nobody()
    }

    /// Whether there is nothing that anybody could log in with: no password, and no user but `default`.
    #[must_use]
    pub fn has_nobody(&self) -> bool {
        self.is_open() && self.book().users.len() == 1
    }

    /// Who a client is that just came: `default`, if that needs no password; beyond this machine only without protected
    /// mode.
    #[must_use]
    pub fn newcomer(&self, from: Option<SocketAddr>) -> Option<Arc<User>> {
        let default = self.default_user();
        self.needs_no_password(&default, from).then_some(default)
    }

    fn needs_no_password(&self, user: &User, from: Option<SocketAddr>) -> bool {
        let local = from.is_none_or(|from| is_loopback(from.ip()));
        user.enabled && user.no_password && (local || user.name != DEFAULT || !self.is_protected())
    }

    /// Logs in if that takes no time: with a password that was proven before. With the generation of what was looked at.
    #[must_use]
    pub fn enter_at_once(&self, name: &[u8], password: &[u8], from: Option<SocketAddr>) -> Option<(Arc<User>, u64)> {
        let generation = self.generation();
        // Before anything is known of the user: its time depends on what was given alone.
        let seal = self.key.seal(password);
        let user = self.find(name).filter(|user| user.enabled)?;
        let enters = self.needs_no_password(&user, from)
            || user.passwords.iter().any(|known| known.is_known(password, seal) == Some(true));
        enters.then_some((user, generation))
    }

    /// Logs in, or takes as long as that would and does not. Never on a reactor.
    #[must_use]
    pub fn enter(&self, name: &[u8], password: &[u8], from: Option<SocketAddr>) -> Option<(Arc<User>, u64)> {
        if let Some(entered) = self.enter_at_once(name, password, from) {
            return Some(entered);
        }
        let generation = self.generation();
        let user = self.find(name).filter(|user| user.enabled && password.len() <= MAX_PASSWORD);
        let passwords = user.as_ref().map_or(&[][..], |user| &user.passwords);
        let (right, hashed) = Password::verify_any(passwords, password, self.key.seal(password));
        if right {
            return user.map(|user| (user, generation));
        }
        // As many for everybody, there or not.
        for _ in hashed..self.book().most_ways() {
            verify_nothing(password);
        }
        None
    }

    /// Whether this is one of the passwords of a user, however long it takes.
    #[must_use]
    pub(super) fn is_password(&self, password: &Arc<Password>, given: &[u8]) -> bool {
        let seal = self.key.seal(given);
        let known = password.is_known(given, seal);
        known.unwrap_or_else(|| Password::verify_any(std::slice::from_ref(password), given, seal).0)
    }

    fn find(&self, name: &[u8]) -> Option<Arc<User>> {
        self.user(std::str::from_utf8(name).ok()?)
    }
}

/// Refuses a change after which nobody could make another.
fn check_admin(before: &Book, after: &Book) -> Result<(), String> {
    if before.has_admin() && !after.has_admin() {
        return Err("nobody could change users any more: make another user first that can log in and has +@admin \
             and no namespace"
            .to_owned());
    }
    Ok(())
}

const NO_FILE: &str =
    "there is no access file: start the server with a data folder (--data DIR) or name one (--access FILE)";

/// Whether an address is of this machine, however it is written.
#[must_use]
pub fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::password::tests::HASHED;
    use crate::access::rules::set_user;

    /// Who there is cannot be told by how long a refusal takes.
    #[test]
    fn every_failed_login_takes_as_many_hashes() {
        let directory = Directory::open_to_all();
        let hashes = |name: &str, password: &str| {
            let before = HASHED.get();
            let entered = directory.enter(name.as_bytes(), password.as_bytes(), None).is_some();
            (entered, HASHED.get() - before)
        };
        let make = |name: &str, rules: &[&str]| {
            let rules: Vec<&[u8]> = rules.iter().map(|rule| rule.as_bytes()).collect();
            directory.change(|book| set_user(&directory, book, name.as_bytes(), &rules)).unwrap();
        };
        assert_eq!(hashes("nobody", "wrong"), (false, 1));
        let digits = format!("#{}", "0".repeat(64));
        make("one", &["on", ">first"]);
        make("many", &["on", ">first", ">second", ">third", &digits]);
        make("off", &["off", ">first"]);
        make("moved", &["on", &digits]);
        assert_eq!(hashes("one", "first"), (true, 1));
        // One whose password was proven, one with several, one that is off, one without a slow hash, and nobody.
        let all = ["one", "many", "off", "moved", "nobody", "\u{fffd}"];
        assert_eq!(all.map(|name| hashes(name, "wrong")), [(false, 1); 6]);
        assert_eq!(hashes("many", &"w".repeat(MAX_PASSWORD + 1)), (false, 1), "nor by a password that is none");
        // Hashes of other salts, as the file may bring them.
        let moved = Arc::new(Password::hash(b"fourth", &[]).unwrap());
        directory
            .change(|book| {
                let mut user = (**book.user("many").ok_or("nobody")?).clone();
                user.passwords.push(moved);
                book.put(user);
                Ok(())
            })
            .unwrap();
        assert_eq!(all.map(|name| hashes(name, "wrong")), [(false, 2); 6]);
    }
}
