//! The `bloomgate` command: reads the arguments, runs one verb, gives back its exit code.
#![forbid(unsafe_code)]

mod asking;
mod build;
mod check;
mod confirm;
mod dedup;
mod digest;
mod failure;
mod file;
mod info;
mod json;
mod keys;
mod number;
mod picture;
mod plan;
mod plot;
mod progress;
mod screen;
mod secret;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{DONE, ERROR, Failure};

/// Is this key definitely absent, or maybe present? Filters that keep their promise.
///
/// A filter answers for a set of keys in about 10 bits a key: "no" is never wrong, "maybe" is wrong as often as was
/// asked for (1 % unless said otherwise).
#[derive(Parser)]
#[command(
    name = "bloomgate",
    version,
    max_term_width = 100,
    after_help = "\
Exit codes: 0 done (check: some key may be there), 1 check: no key is there (verify: it fails), 2 error.",
    after_long_help = "\
Examples:
  bloomgate plan --items 10M --rate 1%      which filter, how large
  bloomgate build -o urls.bloom urls.txt    a filter of the lines of a file
  bloomgate check urls.bloom < keys.txt     prints the keys that may be there
  bloomgate dedup access.log                prints each line once, unsorted
  bloomgate info urls.bloom                 what is in it, and a picture
  bloomgate verify urls.bloom urls.txt      is every key there, the rate kept?

Exit codes:
  0  done; for check: at least one key may be there
  1  check: every key is certainly absent
     verify: a key is missing, or the rate is above the promise
  2  error, with a message on standard error

NO_COLOR=1 turns colours off; they are off by themselves when the output is not a terminal."
)]
struct Command {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Plan(plan::Args),
    Build(build::Args),
    Check(check::Args),
    Dedup(dedup::Args),
    Info(info::Args),
    Verify(verify::Args),
    #[command(subcommand)]
    Secret(secret::Verb),
}

/// The arguments, with `-0` of check written out: its keys may be negative numbers, and `-0` would be taken for one.
fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given: Vec<OsString> = given.collect();
    if given.get(1).is_some_and(|verb| verb == "check") {
        given.iter_mut().take_while(|given| *given != "--").filter(|given| *given == "-0").for_each(|given| {
            *given = "--null".into();
        });
    }
    given
}

fn main() -> ExitCode {
    // Filters are asked where they lie: one that is made shorter meanwhile is an error with a message, not a core dump.
    bloomgate::bits::report_lost_mapping();
    let outcome = match Command::parse_from(arguments(std::env::args_os())).verb {
        Verb::Plan(args) => plan::run(&args),
        Verb::Build(args) => build::run(&args),
        Verb::Check(args) => check::run(&args),
        Verb::Dedup(args) => dedup::run(&args),
        Verb::Info(args) => info::run(&args),
        Verb::Verify(args) => verify::run(&args),
        Verb::Secret(verb) => secret::run(&verb),
    };
    ExitCode::from(match outcome {
        Ok(code) => code,
        // Whoever read our output has seen enough: that is no error.
        Err(Failure::Gone) => DONE,
        Err(Failure::Message(message)) => {
            screen::complain(message);
            ERROR
        }
    })
}
