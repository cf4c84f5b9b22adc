//! Where keys come from: files and standard input, and whether they can be read twice.

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
}

impl Source {
    /// `-` is standard input.
    pub fn of(path: &Path) -> Self {
        if path.as_os_str() == "-" { Self::Stdin } else { Self::File(path.to_path_buf()) }
    }

    /// All of them; none is standard input.
    pub fn all(paths: &[PathBuf]) -> Vec<Self> {
        if paths.is_empty() { vec![Self::Stdin] } else { paths.iter().map(|path| Self::of(path)).collect() }
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "standard input".into(),
        }
    }

    /// The open file. Standard input is opened without the buffer of the standard library, so that a redirected file
    /// can be read twice.
    pub fn open(&self) -> Result<File, Failure> {
        let refuse = |error| self.refuse(error);
        let file = match self {
            Self::File(path) => File::open(path).map_err(refuse)?,
            Self::Stdin => stdin().map_err(refuse)?,
        };
        if file.metadata().map_err(refuse)?.is_dir() {
            return Err(Failure::Message(format!("{} is a directory: give files of keys", self.name())));
        }
        Ok(file)
    }

    /// The bytes left to read if this can be read twice; nothing for pipes and terminals.
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
        }
    }

    /// Where reading begins. Every handle of standard input shares one place, so a redirected file has to be brought
    /// back to it before it is read again; a file that is opened anew starts at 0 by itself.
    pub fn position(&self) -> Result<u64, Failure> {
        match self {
            Self::File(_) => Ok(0),
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
