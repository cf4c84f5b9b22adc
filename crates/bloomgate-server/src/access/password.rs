//! Passwords, of which only hashes are kept.
//!
//! Argon2id with 19 MiB, two passes and one lane (what OWASP recommends first for 2023 and later) takes about 25 ms: never on
//! a reactor, and one at a time in the whole process, in memory that is kept for the next: so however many log in, they take
//! 19 MiB (given back and taken anew each time, it left 190 MB of holes with the allocator). Once a password
//! was proven, its BLAKE3 under a random key of this process is remembered beside the hash: the next login of it takes
//! microseconds, and what is remembered is worth nothing without the process. All passwords of a user have one salt, so that one
//! hash tells whether a password is any of them: every login takes as many hashes as the user with the most salts has, which is
//! one unless hashes were brought from elsewhere, and its time tells nobody who there is. Redis's SHA-256 is taken from those who bring
//! their users along; it is a fast hash, and whoever steals the file can try billions of passwords a second against it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use argon2::password_hash::PasswordHasher;
use argon2::password_hash::phc::{Output, PasswordHash};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use blake3::Hash;
use sha2::{Digest, Sha256};

use super::{MAX_PASSWORD, random};

/// KiB of memory, passes and lanes of new hashes.
const COST: (u32, u32, u32) = (19_456, 2, 1);
/// What hashes from a file may cost at most: 256 MiB, 16 passes, 16 lanes.
const MOST: (u32, u32, u32) = (256 << 10, 16, 16);

/// Held while one is hashed or verified: the memory of Argon2.
static AT_WORK: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// The key of what is remembered; another one at every start.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// A new one. Where there is no /dev/urandom it is made of what the standard library seeds its hashers with, which the
    /// system gives it in another way.
    #[must_use]
    pub fn generate() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let seeded = || std::array::from_fn(|at| (RandomState::new().hash_one(at) >> 32) as u8);
        Self(random().unwrap_or_else(|_| seeded()))
    }

    /// What is remembered of a password. Two of these are compared in constant time.
    #[must_use]
    pub fn seal(&self, password: &[u8]) -> Hash {
        blake3::keyed_hash(&self.0, password)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

/// The setting `password`: what is kept of it from the moment it was read, and the key under which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    pub(super) key: Key,
    pub(super) password: Arc<Password>,
}

impl Sealed {
    /// Keeps the seal of a password, under a new key.
    pub fn new(given: &str) -> Result<Self, String> {
        check_length(given.as_bytes())?;
        let key = Key::generate();
        let password = Arc::new(Password::from(Stored::Setting(key.seal(given.as_bytes()))));
        Ok(Self { key, password })
    }
}

/// A password as it is kept.
pub struct Password {
    stored: Stored,
    /// The seal of the password that was proven to be this one.
    proven: OnceLock<Hash>,
}

#[derive(Clone, PartialEq, Eq)]
enum Stored {
    /// In the PHC form, `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`.
    Argon2id(String),
    /// Redis's. Compared as [`Hash`], which is in constant time.
    Sha256(Hash),
    /// The setting `password`: only its seal, since it is in no file of ours.
    Setting(Hash),
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        self.stored == other.stored
    }
}

impl Eq for Password {}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Password({})", self.kind())
    }
}

fn hasher() -> Argon2<'static> {
    let (memory, passes, lanes) = COST;
    // They are within what the crate allows; its own default is the same.
    let params = Params::new(memory, passes, lanes, None).unwrap_or_default();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

/// Hashes in the one memory there is; whether it could.
fn hash_into(hasher: &Argon2<'_>, given: &[u8], salt: &[u8], out: &mut [u8]) -> bool {
    #[cfg(test)]
    tests::HASHED.set(tests::HASHED.get() + 1);
    let mut memory = AT_WORK.lock().unwrap_or_else(PoisonError::into_inner);
    let (needed, usual) = (hasher.params().block_count(), COST.0 as usize);
    if memory.len() < needed {
        let more = needed - memory.len();
        if memory.try_reserve_exact(more).is_err() {
            return false;
        }
        memory.resize(needed, Block::new());
    }
    let done = hasher.hash_password_into_with_memory(given, salt, out, &mut memory[..needed]).is_ok();
    // What one from a file took beyond that is not kept.
    if needed > usual {
        *memory = Vec::new();
    }
    done
}

/// The hash of a password as another hash says it is to be made; nothing if that cannot be made.
fn hashed_like(hash: &PasswordHash, given: &[u8]) -> Option<Output> {
    let params = Params::try_from(hash).ok()?;
    let version = hash.version.map_or(Ok(Version::default()), Version::try_from).ok()?;
    let (salt, length) = (hash.salt.as_ref()?, hash.hash.as_ref()?.len());
    let mut out = [0; Output::MAX_LENGTH];
    let out = out.get_mut(..length)?;
    let hasher = Argon2::new(Algorithm::Argon2id, version, params);
    hash_into(&hasher, given, salt.as_ref(), out).then(|| Output::new(out).ok())?
}

fn sha256(bytes: &[u8]) -> Hash {
    Hash::from_bytes(Sha256::digest(bytes).into())
}

impl Password {
    fn from(stored: Stored) -> Self {
        Self { stored, proven: OnceLock::new() }
    }

    /// Hashes a password: about 25 ms. It gets the salt of those that the user has already.
    pub fn hash(given: &[u8], others: &[Arc<Self>]) -> Result<Self, String> {
        check_length(given)?;
        let salt = match others.iter().find_map(|other| other.salt()) {
            Some(salt) => salt,
            None => random::<16>().map_err(|error| format!("no random bytes from /dev/urandom: {error}"))?.to_vec(),
        };
        let _one = AT_WORK.lock().unwrap_or_else(PoisonError::into_inner);
        let hash: PasswordHash = hasher()
            .hash_password_with_salt(given, &salt)
            .map_err(|error| format!("the password cannot be hashed: {error}"))?;
        Ok(Self::from(Stored::Argon2id(hash.to_string())))
    }

    /// The salt, if it is hashed as new ones are.
    fn salt(&self) -> Option<Vec<u8>> {
        let Stored::Argon2id(text) = &self.stored else { return None };
        let hash = PasswordHash::new(text).ok()?;
        let params = Params::try_from(&hash).ok()?;
        let usual = (params.m_cost(), params.t_cost(), params.p_cost()) == COST;
        hash.salt.as_ref().filter(|_| usual).map(|salt| salt.as_ref().to_vec())
    }

    /// How it is hashed: everything but the hash. Those that have it in common are verified by one hash.
    fn way(&self) -> Option<&str> {
        match &self.stored {
            Stored::Argon2id(text) => text.rsplit_once('$').map(|(way, _)| way),
            Stored::Sha256(_) | Stored::Setting(_) => None,
        }
    }

    /// How many hashes it takes to know that a password is none of these.
    #[must_use]
    pub fn ways(passwords: &[Arc<Self>]) -> usize {
        passwords.iter().filter_map(|password| password.way()).collect::<BTreeSet<&str>>().len()
    }

    /// Whether this is any of these, remembered if it is, and how many hashes it took.
    #[must_use]
    pub fn verify_any(passwords: &[Arc<Self>], given: &[u8], seal: Hash) -> (bool, usize) {
        // One that was proven to be another password need not be hashed again.
        let open: Vec<&Arc<Self>> =
            passwords.iter().filter(|password| password.is_known(given, seal).is_none()).collect();
        let ways: BTreeSet<&str> = open.iter().filter_map(|password| password.way()).collect();
        for (hashed, way) in ways.iter().enumerate() {
            let alike: Vec<&&Arc<Self>> = open.iter().filter(|password| password.way() == Some(way)).collect();
            let Some(like) = alike.first().and_then(|password| password.phc()) else { continue };
            let Some(made) = hashed_like(&like, given) else { continue };
            // Outputs are compared in constant time.
            let right = |password: &&&&Arc<Self>| password.phc().is_some_and(|hash| hash.hash.as_ref() == Some(&made));
            if let Some(password) = alike.iter().find(right) {
                let _ = password.proven.set(seal);
                return (true, hashed + 1);
            }
        }
        (false, ways.len())
    }

    fn phc(&self) -> Option<PasswordHash> {
        let Stored::Argon2id(text) = &self.stored else { return None };
        PasswordHash::new(text).ok()
    }

    /// Redis's form: the SHA-256 of a password in 64 hexadecimal digits.
    pub fn from_sha256(digits: &[u8]) -> Result<Self, String> {
        let wrong = || "a SHA-256 has 64 hexadecimal digits".to_owned();
        let hash = std::str::from_utf8(digits).ok().and_then(|digits| Hash::from_hex(digits).ok());
        Ok(Self::from(Stored::Sha256(hash.ok_or_else(wrong)?)))
    }

    /// From its text in the access file: a PHC string, or `sha256:` and 64 hexadecimal digits. No error shows any of it.
    pub fn from_text(text: &str) -> Result<Self, String> {
        if let Some(digits) = text.strip_prefix("sha256:") {
            return Self::from_sha256(digits.as_bytes());
        }
        let wrong =
            "a password hash is a PHC string of Argon2id ($argon2id$v=19$m=...) or sha256: and 64 hexadecimal digits";
        let hash = PasswordHash::new(text).map_err(|_| wrong.to_owned())?;
        if hash.algorithm.as_str() != "argon2id" || hash.salt.is_none() || hash.hash.is_none() {
            return Err(wrong.to_owned());
        }
        let params = Params::try_from(&hash).map_err(|_| wrong.to_owned())?;
        let (memory, passes, lanes) = MOST;
        if params.m_cost() > memory || params.t_cost() > passes || params.p_cost() > lanes {
            return Err(format!(
                "a password hash of m={},t={},p={}: at most m={memory},t={passes},p={lanes} are verified",
                params.m_cost(),
                params.t_cost(),
                params.p_cost()
            ));
        }
        Ok(Self::from(Stored::Argon2id(text.to_owned())))
    }

    /// Its text in the access file; none for the setting's, which is not kept there.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match &self.stored {
            Stored::Argon2id(text) => Some(text.clone()),
            Stored::Sha256(hash) => Some(format!("sha256:{}", hash.to_hex())),
            Stored::Setting(_) => None,
        }
    }

    /// How it is hashed, in a word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.stored {
            Stored::Argon2id(_) => "argon2id",
            Stored::Sha256(_) => "sha256",
            Stored::Setting(_) => "setting",
        }
    }

    /// Whether it is the setting's.
    #[must_use]
    pub fn is_of_setting(&self) -> bool {
        matches!(self.stored, Stored::Setting(_))
    }

    /// Whether this is certainly the password, found in microseconds. None: only [`verify_any`](Self::verify_any) can tell.
    #[must_use]
    pub fn is_known(&self, given: &[u8], seal: Hash) -> Option<bool> {
        match &self.stored {
            Stored::Argon2id(_) => self.proven.get().map(|proven| *proven == seal),
            Stored::Sha256(hash) => Some(*hash == sha256(given)),
            Stored::Setting(hash) => Some(*hash == seal),
        }
    }
}

/// Takes as long as a verification and comes to nothing: for users that are not there, so that the time tells nobody who is.
pub fn verify_nothing(given: &[u8]) {
    let mut out = [0; 32];
    hash_into(&hasher(), &given[..given.len().min(MAX_PASSWORD)], b"nobody is nobody", &mut out);
    std::hint::black_box(out);
}

/// A password has 1 to 512 bytes.
pub fn check_length(given: &[u8]) -> Result<(), String> {
    match given.len() {
        1..=MAX_PASSWORD => Ok(()),
        length => Err(format!("a password has 1 to {MAX_PASSWORD} bytes, not {length}")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    std::thread_local! {
        /// How many hashes of Argon2 were verified by this thread.
        pub(crate) static HASHED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    fn verify(password: &Arc<Password>, given: &[u8], seal: Hash) -> bool {
        Password::verify_any(std::slice::from_ref(password), given, seal).0
    }

    #[test]
    fn one_hash_tells_whether_it_is_any_password_of_a_user() {
        let key = Key::generate();
        let mut passwords = vec![Arc::new(Password::hash(b"first", &[]).unwrap())];
        for more in [&b"second"[..], b"third"] {
            passwords.push(Arc::new(Password::hash(more, &passwords).unwrap()));
        }
        assert_eq!(Password::ways(&passwords), 1);
        assert_ne!(passwords[1], passwords[2]);
        let tried = |passwords: &[Arc<Password>], given: &[u8]| {
            let before = HASHED.get();
            let (right, told) = Password::verify_any(passwords, given, key.seal(given));
            assert_eq!(HASHED.get() - before, told);
            (right, told)
        };
        assert_eq!(tried(&passwords, b"wrong"), (false, 1));
        assert_eq!(tried(&passwords, b"third"), (true, 1));
        assert_eq!(passwords[2].is_known(b"third", key.seal(b"third")), Some(true));
        assert!(passwords[..2].iter().all(|other| other.is_known(b"third", key.seal(b"third")).is_none()));
        assert_eq!(tried(&passwords, b"first"), (true, 1));
        // One that was brought from elsewhere has its own salt, and takes one more.
        passwords
            .push(Arc::new(Password::from_text(&Password::hash(b"fourth", &[]).unwrap().text().unwrap()).unwrap()));
        passwords.push(Arc::new(Password::from_sha256("0".repeat(64).as_bytes()).unwrap()));
        assert_eq!((Password::ways(&passwords), tried(&passwords, b"wrong")), (2, (false, 2)));
        assert!(tried(&passwords, b"fourth").0);
    }

    #[test]
    fn hashes_verify_and_are_remembered() {
        let key = Key::generate();
        let password = Arc::new(Password::hash(b"open sesame", &[]).unwrap());
        let (right, wrong) = (key.seal(b"open sesame"), key.seal(b"open barley"));
        assert_eq!(password.is_known(b"open sesame", right), None, "nothing is known before it is proven");
        assert!(!verify(&password, b"open barley", wrong));
        assert_eq!(password.is_known(b"open barley", wrong), None, "a wrong one proves nothing");
        assert!(verify(&password, b"open sesame", right));
        assert_eq!(password.is_known(b"open sesame", right), Some(true));
        assert_eq!(password.is_known(b"open barley", wrong), Some(false));
        // As the file keeps it, and never twice alike.
        let text = password.text().unwrap();
        assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{text}");
        let again = Arc::new(Password::from_text(&text).unwrap());
        assert!(again == password && again.is_known(b"open sesame", right).is_none());
        assert!(verify(&again, b"open sesame", right));
        assert_ne!(Password::hash(b"open sesame", &[]).unwrap().text(), Some(text.clone()));
        assert_eq!(format!("{password:?} {key:?}"), "Password(argon2id) Key(hidden)");
    }

    #[test]
    fn the_setting_and_redis_hashes_are_known_at_once() {
        let Sealed { key, password: setting } = Sealed::new("open sesame").unwrap();
        let seal = |text: &[u8]| key.seal(text);
        assert_eq!(setting.is_known(b"open sesame", seal(b"open sesame")), Some(true));
        assert_eq!(setting.is_known(b"sesame", seal(b"sesame")), Some(false));
        assert_eq!((setting.text(), setting.is_of_setting()), (None, true));
        // `printf %s secret | sha256sum`.
        let digits = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        let redis = Password::from_sha256(digits.as_bytes()).unwrap();
        assert_eq!(redis.is_known(b"secret", seal(b"secret")), Some(true));
        assert_eq!(redis.is_known(b"Secret", seal(b"Secret")), Some(false));
        assert_eq!(redis.text().unwrap(), format!("sha256:{digits}"));
        assert!(Password::from_text(&redis.text().unwrap()).unwrap() == redis);
    }

    #[test]
    fn what_is_no_hash_is_refused_without_being_shown() {
        let good = Password::hash(b"p", &[]).unwrap().text().unwrap();
        for wrong in [
            "",
            "secret",
            "$2b$12$abcdefghijklmnopqrstuv",
            "$argon2id$v=19$m=19456,t=2,p=1",
            "sha256:abc",
            &good.replace("argon2id", "argon2i"),
            &good.replace("m=19456", "m=99999999"),
            &good.replace("t=2", "t=999"),
            &good.replace("t=2", "t=0"),
        ] {
            let error = Password::from_text(wrong).unwrap_err();
            assert!(error.contains("hash") || error.contains("SHA-256"), "{wrong}: {error}");
            assert!(wrong.len() < 8 || !error.contains(&wrong[wrong.len() - 8..]), "{error}");
        }
        assert!(Password::hash(b"", &[]).is_err() && Password::hash(&[b'x'; 513], &[]).is_err());
        assert!(check_length(&[b'x'; 512]).is_ok());
    }
}
