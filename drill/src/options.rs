//! What can be asked of a drill.

use std::path::PathBuf;

use crate::load::Pace;
use crate::subject::{Kind, Policy, Subject};

pub const USAGE: &str = "\
usage: bloomgate-drill DRILL [OPTIONS]        (scripts/drill builds both programs and gives each drill its mounts)

  power       cut the power under load (an image cloned below the file system), restart on what was on the disk
  kill        kill -9 under load (and a SIGTERM after every fourth), restart on the same folder
  faults      let the N-th call of each kind fail once (strace), for N = 1, 2, 3 ...
  disk-full   fill the disk under load, make room again
  flips       flip one bit or cut off the end of one file, start, compare every answer
  abuse       attack it in eighteen ways while an honest client asks on: memory, answers, delays
  tenants     one tenant floods beyond its quota, another one's lookups are timed

  --server PROGRAM    what is started (bloomgate)
  --subject NAME      bloomgate, or redis: the stand-in that proves the drills
  --fsync POLICY      always, every-second or never; may be repeated
  --runs N            cuts, kills, fillings, or flips (a tenth as many truncations)
  --most N            faults: the highest N
  --sparse            faults: not every N, but more of the small ones
  --seconds S         load before each cut or kill; how long attackers hold on: twice
                      as long as slow clients may, unless --defaults
  --rate N            writes per second over all connections, 0 for as many as it can
  --connections N     connections of plain adds, beside five: transactions, small filters, a window, and two that count
  --seed N            the same load, the same flips
  --work FOLDER       where everything is put; made, and removed again unless something was found
  --timed             abuse, tenants: honest answers that come more than twice as late as without are a failure
  --defaults          abuse: with the client-memory that the server has by itself; it may grow by that and 64 MB
  --only TEXT         abuse: the attacks whose name has this in it
  --crowd N           abuse, tenants: N honest clients who ask again as soon as they have their answer, not one that asks
                      a thousand times a second
  --control           something is broken on purpose: the drill must find it, and fails if it does not
";

#[derive(Clone)]
pub struct Options {
    pub subject: Subject,
    pub policies: Vec<Policy>,
    pub runs: Option<u64>,
    pub most: u64,
    pub sparse: bool,
    pub timed: bool,
    pub defaults: bool,
    pub only: String,
    /// Honest clients who wait for nothing but their answers; 0 for one at a steady pace.
    pub crowd: usize,
    pub seconds: f64,
    pub pace: Pace,
    pub connections: usize,
    pub seed: u64,
    pub work: PathBuf,
    pub control: bool,
}

impl Options {
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            subject: Subject { kind: Kind::Bloomgate, program: PathBuf::new(), http: None },
            policies: Vec::new(),
            runs: None,
            most: 200,
            sparse: false,
            timed: false,
            defaults: false,
            only: String::new(),
            crowd: 0,
            seconds: 2.0,
            pace: Pace { rate: 60_000, window: 32 },
            connections: 3,
            seed: 1,
            work: std::env::temp_dir().join(format!("bloomgate-drill.{}", std::process::id())),
            control: false,
        };
        let mut words = words;
        while let Some(word) = words.next() {
            match word.as_str() {
                "--control" => options.control = true,
                "--sparse" => options.sparse = true,
                "--timed" => options.timed = true,
                "--defaults" => options.defaults = true,
                _ => {}
            }
            if matches!(word.as_str(), "--control" | "--sparse" | "--timed" | "--defaults") {
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"))?;
            let whole = || value.parse::<u64>().map_err(|_| format!("{word} takes a whole number, got '{value}'"));
            let counted = || whole().and_then(|n| if n > 0 { Ok(n) } else { Err(format!("{word} takes 1 or more")) });
            match word.as_str() {
                "--server" => options.subject.program = value.into(),
                "--subject" => {
                    options.subject.kind = match value.as_str() {
                        "bloomgate" => Kind::Bloomgate,
                        "redis" => Kind::Redis,
                        _ => return Err(format!("--subject takes bloomgate or redis, got '{value}'")),
                    }
                }
                "--fsync" => options.policies.push(Policy::parse(&value)?),
                "--runs" => options.runs = Some(counted()?),
                "--most" => options.most = counted()?,
                "--seconds" => {
                    let seconds = value.parse().ok().filter(|s| (0.1..=3600.0).contains(s));
                    options.seconds = seconds.ok_or_else(|| format!("--seconds takes 0.1 to 3600, got '{value}'"))?;
                }
                "--rate" => options.pace.rate = whole()?,
                "--connections" => options.connections = counted()? as usize,
                "--only" => options.only = value,
                "--crowd" => options.crowd = counted()? as usize,
                "--seed" => options.seed = whole()?,
                "--work" => options.work = value.into(),
                _ => return Err(format!("unknown option {word}\n\n{USAGE}")),
            }
        }
        if options.subject.program.as_os_str().is_empty() {
            let name = if options.subject.kind == Kind::Redis { "redis-server" } else { "bloomgate" };
            options.subject.program = name.into();
        }
        // Paths in a trace and after a change of folder are absolute.
        options.work = std::path::absolute(&options.work).map_err(|error| format!("--work: {error}"))?;
        Ok(options)
    }
}
