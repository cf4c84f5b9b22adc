//! `bloomgate secret new`: 32 random bytes for filters whose keys strangers choose.

use std::io::Write;
use std::path::PathBuf;

use bloomgate::Secret;

use crate::failure::{DONE, Failure, Outcome};
use crate::screen;

/// Make a secret for keyed filters
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Write 32 random bytes, in hexadecimal, to a new file that only you can read
    #[command(after_long_help = "\
Examples:
  bloomgate secret new -o urls.secret
  bloomgate build -o urls.bloom --secret-file urls.secret urls.txt
  bloomgate check urls.bloom --secret-file urls.secret < keys.txt

Who knows the hash of a filter can choose keys that always answer \"maybe\" or that fill it up. A secret keys the hash. \
It is never written into a filter: only its id is, which names it and tells nothing about it. Lose the secret and the \
filter can answer nothing: keep it like a password.")]
    New {
        /// The new file (mode 0600); a file that is there already is left alone. Without it: standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Runs the verb.
pub fn run(verb: &Verb) -> Outcome {
    let Verb::New { output } = verb;
    let secret = Secret::generate()?;
    match output {
        Some(path) => {
            if path.exists() {
                return Err(Failure::at(
                    path,
                    "exists already and is left alone: a filter may need it; name another file, or remove this one",
                ));
            }
            secret.write_file(path)?;
            screen::tell(format_args!(
                "{}: a new secret with the id {}; keep it like a password",
                path.display(),
                secret.id()
            ));
        }
        None => {
            let mut out = std::io::stdout().lock();
            secret.write_hex(&mut out)?;
            out.flush()?;
            screen::tell(format_args!("a new secret with the id {}", secret.id()));
            screen::tell(format_args!(
                "warning: it was written to standard output; -o FILE makes a file that only you can read"
            ));
        }
    }
    Ok(DONE)
}
