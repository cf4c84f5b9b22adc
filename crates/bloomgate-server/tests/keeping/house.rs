//! A server without its sockets on a real folder: it is talked to, it ends, and it is opened again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bloomgate_server::Settings;
use bloomgate_server::engine::Engine;
use bloomgate_server::keeping::opening::{Found, open};
use bloomgate_server::keeping::{Keeping, SharedKeeping};
use bloomgate_server::session::Dues;
use bloomgate_server::session::desk::Desk;
use bloomgate_server::store::Fsync;

use super::talk::Talk;

pub struct House {
    pub engine: Arc<Engine>,
    pub keeping: Arc<Keeping>,
    pub desk: Arc<Desk>,
    pub found: Found,
}

pub fn settings(folder: &Path) -> Settings {
    Settings { data: Some(folder.to_path_buf()), fsync: Fsync::Never, threads: 2, ..Settings::default() }
}

impl House {
    pub fn open(folder: &Path) -> Self {
        Self::try_open(folder).unwrap_or_else(|why| panic!("{why}"))
    }

    pub fn try_open(folder: &Path) -> Result<Self, String> {
        let opened = open(&settings(folder), 4)?;
        let keeping = opened.keeping.ok_or("nothing is kept")?;
        let desk = Desk::new(4, None, "run".to_owned(), Vec::new());
        desk.keeper.set(Arc::new(SharedKeeping(keeping.clone()))).unwrap();
        Ok(Self { engine: opened.engine, keeping, desk: Arc::new(desk), found: opened.found })
    }

    pub fn talk(&self, thread: usize) -> Talk {
        Talk::new(&self.engine, &self.desk, thread)
    }

    /// Ends it as kill -9 would: what was handed to the system stays, nothing is closed in order.
    pub fn end(self) {
        self.engine.journal.flush();
    }
}

impl Talk {
    /// What the reply to these words depends on.
    pub fn dues(&mut self, line: &str) -> Dues {
        self.turn(line).1
    }

    /// Adds items in one command; how many were new.
    pub fn add_all(&mut self, name: &str, items: impl Iterator<Item = String>) -> usize {
        let items: Vec<String> = items.collect();
        let reply = self.say(&format!("BF.MADD {name} {}", items.join(" ")));
        assert!(!reply.contains('-'), "{reply}");
        reply.split(' ').skip(1).filter(|one| *one == ":1").count()
    }

    /// How many of the items may be there.
    pub fn count_found(&mut self, name: &str, items: impl Iterator<Item = String>) -> usize {
        let items: Vec<String> = items.collect();
        let reply = self.say(&format!("BF.MEXISTS {name} {}", items.join(" ")));
        reply.split(' ').skip(1).filter(|one| *one == ":1").count()
    }
}

/// The files of a folder whose names begin so.
pub fn files(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(begin))
        .collect();
    files.sort();
    files
}
