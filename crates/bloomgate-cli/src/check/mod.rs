//! `bloomgate check`: which of these keys may be in the filter? Like grep, with its exit codes.
//!
//! Keys are read, asked and answered by the block: memory is bounded, and in a pipe each answer leaves as soon as its
//! question has come.

mod password;
mod print;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use bloomgate::foreign::Form;
use bloomgate::kind::Guarantee;

use crate::asking::{Answers, Panel};
use crate::confirm::{Spelling, Truth};
use crate::failure::{DONE, ERROR, Failure, NONE, Outcome};
use crate::file;
use crate::keys::{Block, Keys, Reading, Source, Strange, hibp};
use crate::number;
use crate::screen::{self};

/// Keys that are refused one by one before the rest is only counted: a wrong encoding refuses every line.
const MOST_COMPLAINTS: u64 = 10;

/// Print the keys that may be in a filter
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "bloomgate check [OPTIONS] <FILTER> [KEY]...\n       \
                      bloomgate check [OPTIONS] -F <FILTER> [-F <FILTER>]... [KEY]...",
    after_long_help = "\
Examples:
  bloomgate check urls.bloom https://example.org/ && echo maybe
  bloomgate check urls.bloom < keys.txt > maybes.txt
  bloomgate check -v urls.bloom -f keys.txt          what is certainly not there
  bloomgate check --label urls.bloom -f keys.txt     both, after a label
  tail -f access.log | bloomgate check urls.bloom    streams
  bloomgate check --label -F may.bloom -F june.bloom -f keys.txt   in which
  bloomgate check --hibp --password pwned.bloom < passwords.txt
  bloomgate check urls.bloom -f keys.txt --confirm urls.sorted     for certain
  bloomgate check users.bloom -f keys.txt --confirm 'sqlite:app.db?users.email'

Keys come from the arguments, from files (-f), or else from standard input (-). A key may be a negative number; any other \
key that begins with a dash is written after --. Files may be compressed, tables or databases as for build: see \
Sources in `bloomgate build --help`.

A key that is printed as absent is certainly absent. A key that cannot be read in the filter's encoding (a word asked \
of a filter of numbers) is reported with its line, is printed nowhere, and makes the exit code 2.

Several filters (-F) are asked together, and each key is hashed once for all that hash alike. A key is printed once if \
any of them may have it, with --all only if each of them may. --label puts the names of those that may have it between \
label and key, with commas between and tabs around; --json gives them as a list.

--confirm looks every maybe up where the keys really are, so that what is printed is certain: the labels are then \
present and absent, and the share of maybes that were false is told. A sorted file (LC_ALL=C sort) is searched where \
it lies, some twenty reads a key; 'sqlite:FILE?table.column' asks a database, read only (in quotes, or the shell takes \
the ? for itself).

Breached passwords: build a filter of the Have I Been Pwned list with build --hibp (lines HASH:COUNT). --hibp asks it \
for hashes, --hibp --password for passwords, which are hashed here (SHA-1). Any other filter would answer \"absent\" to \
every password, so --hibp has to be said, and a note warns of a filter that has not even the commonest ones. Passwords \
are not taken from the arguments, where others could see them, and are not printed: lines are.

Files of other systems are recognised where they can be (BFv1; RedisBloom dumps, chunks after one another, each behind \
its iterator and its length as 8 bytes). Guava's and Parquet's forms say neither what they are nor what their keys are: \
name them with --as, since a guess would be a wrong \"no\".

A \"no\" of a rotating filter speaks of its window, and that of a stable filter means \"not seen lately\": a note says so.

The file is queried in place and must not be changed while it is; `bloomgate build` replaces it and may run meanwhile.

Exit codes, whatever is printed: 0 some key may be there (with --all: in all filters; with --confirm: is there), \
1 every key is certainly absent, 2 error."
)]
pub struct Args {
    /// The filter; with -F all of these are keys
    #[arg(value_name = "FILTER", required_unless_present = "filters", allow_negative_numbers = true)]
    filter: Option<OsString>,
    /// Keys to ask for; - or none is standard input
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    keys: Vec<OsString>,
    /// Ask this filter; may be given several times
    #[arg(short = 'F', long = "filter", value_name = "FILTER")]
    filters: Vec<PathBuf>,
    /// Print only keys that may be in all filters
    #[arg(long, requires = "filters")]
    all: bool,
    /// Ask for the keys in a file; - is standard input; may be given several times
    #[arg(short, long = "file", value_name = "FILE", conflicts_with = "keys")]
    file: Vec<PathBuf>,
    /// Print the keys that are certainly absent instead
    #[arg(short = 'v', long, conflicts_with = "label")]
    absent: bool,
    /// Print every key after its label: maybe or absent, and a tab
    #[arg(long)]
    label: bool,
    /// Print only how many keys would be printed
    #[arg(short, long)]
    count: bool,
    /// Print nothing and stop at the first maybe: only the exit code tells
    #[arg(short, long, conflicts_with_all = ["count", "json"])]
    quiet: bool,
    /// Print JSON objects, one a line
    #[arg(long)]
    json: bool,
    /// Look every maybe up where the keys really are: a file sorted by LC_ALL=C sort, or
    /// 'sqlite:FILE?table.column'
    #[arg(long, value_name = "WHERE")]
    confirm: Option<OsString>,
    /// With --hibp: lines are passwords; ask for their SHA-1 of a filter that was built with --hibp, print their line
    /// numbers
    #[arg(long)]
    password: bool,
    /// Print the passwords too
    #[arg(long, requires = "password")]
    show: bool,
    /// Read the filter as the form of another system: bfv1, redisbloom, rediscuckoo, guava:utf8, guava:long,
    /// guava:bytes, parquet, parquet:u64 ... (the first three are recognised)
    #[arg(long = "as", value_name = "FORM", value_parser = file::form)]
    form: Option<Form>,
    /// The secret of a keyed filter
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

/// What was answered so far.
#[derive(Default)]
struct Tally {
    /// Keys that may be there; with --confirm those that are.
    maybe: u64,
    absent: u64,
    refused: u64,
    /// Absent keys for which a filter said "maybe", as --confirm found.
    false_maybes: u64,
}

impl Tally {
    fn code(&self) -> u8 {
        match self {
            Self { refused: 1.., .. } => ERROR,
            Self { maybe: 1.., .. } => DONE,
            _ => NONE,
        }
    }
}

/// Some keys as they are asked and as they are shown, and where each of them stands.
struct Batch<'b> {
    keys: &'b [&'b [u8]],
    shown: &'b [&'b [u8]],
    place: &'b dyn Fn(usize) -> String,
    line: &'b dyn Fn(usize) -> u64,
}

/// The filters, the truth, and what was answered.
struct Check<'a> {
    args: &'a Args,
    panel: Panel,
    truth: Option<(Truth, Spelling)>,
    answers: Answers,
    tally: Tally,
    scratch: Vec<u8>,
    /// Marks on the keys that another spelling in the filter has not.
    strange: Strange,
    /// Several sources: a line number alone does not say which.
    several_sources: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let (filters, keys) = named(args)?;
    let panel = Panel::open(&filters, args.form, args.secret_file.as_deref())?;
    for asked in panel.filters() {
        let name = if filters.len() > 1 { format!("{}: ", asked.path.display()) } else { String::new() };
        match asked.filter.guarantee() {
            Guarantee::Superset => {}
            Guarantee::Window => screen::note(format_args!(
                "{name}a rotating filter: \"absent\" means that the key was not inserted within its window"
            )),
            _ => screen::note(format_args!(
                "{name}a stable filter forgets: \"absent\" means not seen lately, and proves nothing"
            )),
        }
    }
    if args.password {
        for name in password::strangers(&panel)? {
            screen::note(format_args!(
                "{name}: not even the commonest passwords are in it (password, qwerty): if it was not built with \
                 --hibp, or not from SHA-1 hashes, \"absent\" means nothing here"
            ));
        }
    }
    let truth = match &args.confirm {
        Some(place) => {
            let spelling = Spelling::of(panel.encodings())?;
            Some((Truth::open(place, args.reading.cut, args.reading.hibp)?, spelling))
        }
        None => None,
    };
    let (answers, tally, scratch, strange) = Default::default();
    let several_sources = args.file.len() > 1;
    let mut check = Check { args, panel, truth, answers, tally, scratch, strange, several_sources };
    match check.all(&keys) {
        // Nobody reads on: what was found until then is the answer.
        Ok(()) | Err(Failure::Gone) => {}
        Err(error) => return Err(error),
    }
    check.panel.refuse_damage()?;
    check.close();
    Ok(check.tally.code())
}

/// The filters and the keys among the arguments.
fn named(args: &Args) -> Result<(Vec<PathBuf>, Vec<OsString>), Failure> {
    let (filters, mut keys) = match &args.filter {
        Some(filter) if args.filters.is_empty() => (vec![filter.into()], args.keys.clone()),
        first => (args.filters.clone(), first.iter().chain(&args.keys).cloned().collect()),
    };
    if !keys.is_empty() && !args.file.is_empty() {
        return Err(Failure::Message(
            "with -F the arguments are keys, and keys come from the arguments or from files (-f), not from both".into(),
        ));
    }
    // As everywhere; asked for as a key it would be "absent", and nobody would notice.
    if keys == ["-"] {
        keys.clear();
    } else if keys.iter().any(|key| key == "-") {
        return Err(Failure::Message(
            "- is standard input and stands alone: keys come from there or from the arguments; a key that is a dash is \
             asked for in a file (-f) or on standard input"
                .into(),
        ));
    }
    if args.password && !args.reading.hibp {
        return Err(Failure::Message(password::NOT_SAID.into()));
    }
    if !keys.is_empty() && args.password {
        return Err(Failure::Message(
            "a password among the arguments can be seen by everyone on this machine: give it on standard input, or in a \
             file with -f"
                .into(),
        ));
    }
    Ok((filters, keys))
}

impl Check<'_> {
    fn all(&mut self, arguments: &[OsString]) -> Result<(), Failure> {
        let args = self.args;
        if arguments.is_empty() {
            let mut block = Block::default();
            // The filter is of hashes, the lines are passwords.
            let mut reading = args.reading.clone();
            reading.hibp &= !args.password;
            for source in Source::all(&args.file) {
                let mut stream = reading.open(&source)?;
                let mut begins = true;
                while stream.next(&mut block)? {
                    let keys = block.keys();
                    if std::mem::take(&mut begins) {
                        self.strange.look(&args.reading.cut, &keys);
                    }
                    self.block(&keys)?;
                    if args.quiet && self.tally.maybe > 0 {
                        return Ok(());
                    }
                }
                if let Some(skipped) = stream.skipped() {
                    screen::note(&skipped);
                }
            }
        } else {
            let mut keys: Vec<Vec<u8>> = Vec::with_capacity(arguments.len());
            for (at, argument) in arguments.iter().enumerate() {
                let argument = argument.as_encoded_bytes();
                keys.push(match args.reading.hibp {
                    false => argument.to_vec(),
                    true => hibp::hash_of(argument)
                        .ok_or_else(|| Failure::Message(format!("argument {}: {}", at + 1, hibp::NO_HASH)))?
                        .collect(),
                });
            }
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            self.batch(&Batch {
                keys: &keys,
                shown: &keys,
                place: &|at| format!("argument {}", at + 1),
                line: &|at| at as u64 + 1,
            })?;
        }
        if args.count { print::counts(self) } else { Ok(()) }
    }

    fn block(&mut self, keys: &Keys<'_>) -> Result<(), Failure> {
        let (place, line) = (&|at: usize| keys.place(at), &|at: usize| keys.line(at));
        if !self.args.password {
            return self.batch(&Batch { keys: &keys.keys, shown: &keys.keys, place, line });
        }
        let hashes: Vec<Vec<u8>> = keys.keys.iter().map(|password| password::hash(password)).collect();
        let hashes: Vec<&[u8]> = hashes.iter().map(Vec::as_slice).collect();
        self.batch(&Batch { keys: &hashes, shown: &keys.keys, place, line })
    }

    fn batch(&mut self, batch: &Batch<'_>) -> Result<(), Failure> {
        self.panel.ask(batch.keys, &mut self.answers)?;
        let refused = std::mem::take(&mut self.answers.refused);
        let mut refusals = refused.iter().peekable();
        let mut out = Vec::new();
        for at in 0..batch.keys.len() {
            let mut is_refused = false;
            while let Some((_, why)) = refusals.next_if(|(refused, _)| *refused == at) {
                is_refused = true;
                if self.tally.refused < MOST_COMPLAINTS {
                    screen::complain(format_args!("{}: {why}", (batch.place)(at)));
                }
            }
            self.tally.refused += u64::from(is_refused);
            let Some(mut found) = self.answers.of(at, self.args.all) else { continue };
            if let (true, Some((truth, spelling))) = (found, &mut self.truth) {
                found = truth.has(spelling.spell(batch.keys[at], &mut self.scratch))?;
                self.tally.false_maybes += u64::from(!found);
            }
            *(if found { &mut self.tally.maybe } else { &mut self.tally.absent }) += 1;
            if (self.args.label || found != self.args.absent) && !self.args.count && !self.args.quiet {
                print::key(self, batch, at, found, &mut out);
            }
        }
        self.answers.refused = refused;
        if !out.is_empty() {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(&out)?;
            stdout.flush()?;
        }
        Ok(())
    }

    /// What is told at the end.
    fn close(&self) {
        let Tally { maybe, absent, refused, false_maybes } = self.tally;
        if refused > MOST_COMPLAINTS {
            let more = refused - MOST_COMPLAINTS;
            let more =
                if more == 1 { "1 more key is".into() } else { format!("{} more keys are", number::grouped(more)) };
            let whose = if self.panel.filters().len() > 1 { "a filter's" } else { "the filter's" };
            screen::complain(format_args!("{more} not in {whose} encoding"));
        }
        if !self.args.quiet {
            self.strange.tell();
        }
        // Without a maybe there was nothing to look up.
        if self.truth.is_some() && !self.args.quiet && maybe + false_maybes > 0 {
            let share = match absent {
                0 => String::new(),
                _ => format!(
                    " ({} of {})",
                    number::percent(false_maybes as f64 / absent as f64),
                    number::counted(absent, "absent key")
                ),
            };
            screen::tell(format_args!(
                "{} confirmed: {} present, {} false{share}",
                number::counted(maybe + false_maybes, "maybe"),
                number::grouped(maybe),
                number::grouped(false_maybes),
            ));
        }
    }
}
