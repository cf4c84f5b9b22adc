//! Where keys come from: files, standard input and databases, and whether they can be read twice.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Where keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file by its path.
    File(PathBuf),
    /// Standard input.
    Stdin,
    /// A SQLite file, written `sqlite:PATH`.
    Sqlite(PathBuf),
    /// A PostgreSQL server by its address, which may hold a password.
    Postgres(String),
}

impl Source {
    /// `-` is standard input, `sqlite:PATH`, `postgres://...` and `postgresql://...` are databases, all else are files; a
    /// file whose name begins so is written `./sqlite:PATH`.
    pub fn of(path: &Path) -> Self {
        if path.as_os_str() == "-" {
            return Self::Stdin;
        }
        if let Some(file) = sqlite_file(path.as_os_str()) {
            return Self::Sqlite(file);
        }
        // However the scheme is spelled: taken for a file, the address would be shown with its password.
        if let Some((scheme, rest)) = path.to_str().and_then(|text| text.split_once("://")) {
            let scheme = scheme.to_ascii_lowercase();
            if matches!(scheme.as_str(), "postgres" | "postgresql") {
                return Self::Postgres(format!("{scheme}://{rest}"));
            }
        }
        Self::File(path.to_path_buf())
    }

    /// All of them; none is standard input.
    pub fn all(paths: &[PathBuf]) -> Vec<Self> {
        if paths.is_empty() { vec![Self::Stdin] } else { paths.iter().map(|path| Self::of(path)).collect() }
    }

    /// Its name in messages. A password is left out.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "standard input".into(),
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(address) => without_password(address),
        }
    }

    /// The file that is read, if it is one by its path.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Sqlite(path) => Some(path),
            Self::Stdin | Self::Postgres(_) => None,
        }
    }

    /// The open file. Standard input is opened without the buffer of the standard library, so that a redirected file
    /// can be read twice.
    pub fn open(&self) -> Result<File, Failure> {
        let refuse = |error| self.refuse(error);
        let file = match self {
            Self::File(path) => File::open(path).map_err(refuse)?,
            Self::Stdin => stdin().map_err(refuse)?,
            Self::Sqlite(_) | Self::Postgres(_) => {
                return Err(Failure::Message(format!(
                    "{} is a database: say which keys with --query 'SELECT ...'",
                    self.name()
                )));
            }
        };
        if file.metadata().map_err(refuse)?.is_dir() {
            return Err(Failure::Message(format!("{} is a directory: give files of keys", self.name())));
        }
        Ok(file)
    }

    /// The bytes left to read if this can be read twice; nothing for pipes, terminals and databases.
    pub fn rereadable(&self) -> Result<Option<u64>, Failure> {
        match self {
            // Asked of the path: a named pipe that is opened and closed again has lost its writer.
            Self::File(path) => {
                let metadata = std::fs::metadata(path).map_err(|error| self.refuse(error))?;
                Ok(metadata.is_file().then_some(metadata.len()))
            }
            Self::Stdin => {
                let mut file = self.open()?;
                let (Ok(metadata), Ok(at)) = (file.metadata(), file.stream_position()) else { return Ok(None) };
                Ok(metadata.is_file().then(|| metadata.len().saturating_sub(at)))
            }
            // A query is dear, and may give other rows the second time.
            Self::Sqlite(_) | Self::Postgres(_) => Ok(None),
        }
    }

    /// Where reading begins. Every handle of standard input shares one place, so a redirected file has to be brought
    /// back to it before it is read again; a file that is opened anew starts at 0 by itself.
    pub fn position(&self) -> Result<u64, Failure> {
        match self {
            Self::File(_) | Self::Sqlite(_) | Self::Postgres(_) => Ok(0),
            Self::Stdin => self.open()?.stream_position().map_err(|error| self.refuse(error)),
        }
    }

    /// Brings standard input back to where it was.
    pub fn rewind(&self, position: u64) -> Result<(), Failure> {
        if *self == Self::Stdin {
            self.open()?.seek(io::SeekFrom::Start(position)).map_err(|error| self.refuse(error))?;
        }
        Ok(())
    }

    fn refuse(&self, error: io::Error) -> Failure {
        Failure::Message(format!("{}: {error}", self.name()))
    }
}

#[cfg(unix)]
fn stdin() -> io::Result<File> {
    use std::os::fd::AsFd;
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(windows)]
fn stdin() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    io::stdin().as_handle().try_clone_to_owned().map(File::from)
}

/// How long the sources are; nothing if one of them is a pipe.
pub fn bytes_of(sources: &[Source]) -> Result<Option<u64>, Failure> {
    let mut bytes = Some(0u64);
    for source in sources {
        bytes = bytes.zip(source.rereadable()?).map(|(sum, more)| sum.saturating_add(more));
    }
    Ok(bytes)
}

/// The path behind `sqlite:`, whatever bytes it has.
#[cfg(unix)]
fn sqlite_file(name: &OsStr) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    name.as_bytes().strip_prefix(b"sqlite:").map(|path| OsStr::from_bytes(path).into())
}

#[cfg(not(unix))]
fn sqlite_file(name: &OsStr) -> Option<PathBuf> {
    name.to_str()?.strip_prefix("sqlite:").map(PathBuf::from)
}

/// An address without its password. Where a sign of it was not escaped, too much is left out rather than too little.
fn without_password(address: &str) -> String {
    let mut address = address.to_string();
    while let Some(at) = address.find("password=") {
        let end = address[at..].find('&').map_or(address.len(), |len| at + len + 1);
        address.replace_range(at..end, "");
    }
    // Other spellings of it (PASSWORD=, pass%77ord=): only options with plain names are shown.
    if let Some(at) = address.rfind('?').filter(|&at| !address[at..].contains('@')) {
        let plain = |option: &&str| {
            let name = option.split_once('=').map_or("", |(name, _)| name);
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        let options: Vec<&str> = address[at + 1..].split('&').filter(plain).collect();
        address = format!("{}?{}", &address[..at], options.join("&"));
    }
    let (scheme, rest) = address.split_once("://").unwrap_or(("postgres", &address));
    // A password may hold @, / and ? unescaped by mistake: all up to the last @ belongs to it.
    let (login, place) = rest.rsplit_once('@').map_or(("", rest), |(login, place)| (login, place));
    let user = login.split_once(':').map_or(login, |(user, _)| user);
    let at = if user.is_empty() { "" } else { "@" };
    format!("{scheme}://{user}{at}{}", place.trim_end_matches(['?', '&']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_known_by_their_names() {
        let of = |text: &str| Source::of(Path::new(text));
        assert_eq!(of("-"), Source::Stdin);
        assert_eq!(of("sqlite:a/b.db"), Source::Sqlite("a/b.db".into()));
        assert_eq!(of("./sqlite:a"), Source::File("./sqlite:a".into()));
        assert!(matches!(of("postgres://u@h/d"), Source::Postgres(_)));
        assert!(matches!(of("postgresql:///d"), Source::Postgres(_)));
        assert_eq!(of("PostgreS://u:hidden@h/d").name(), "postgres://u@h/d");
        assert_eq!(of("postgres"), Source::File("postgres".into()));
        assert_eq!(of("sqlite:a").path(), Some(Path::new("a")));
    }

    #[test]
    fn no_password_is_shown() {
        for (address, shown) in [
            ("postgres://me:hidden@host:5432/db", "postgres://me@host:5432/db"),
            ("postgres://me@host/db", "postgres://me@host/db"),
            ("postgres:///db?host=/tmp&user=me", "postgres:///db?host=/tmp&user=me"),
            (
                "postgres://host/db?user=me&password=hidden&sslmode=require",
                "postgres://host/db?user=me&sslmode=require",
            ),
            ("postgres://me:hid@den@host/db", "postgres://me@host/db"),
            ("postgres://me:hid/d?e&n@host/db", "postgres://me@host/db"),
            ("postgres://host/db?password=hid@den", "postgres://host/db"),
            ("postgres://host/db?user=me&password=hid", "postgres://host/db?user=me"),
            ("postgres://host/db?PASSWORD=hid&user=me", "postgres://host/db?user=me"),
            ("postgres://host/db?pass%77ord=hid", "postgres://host/db"),
        ] {
            assert_eq!(without_password(address), shown);
            assert!(!shown.contains("hid"));
        }
    }
}
