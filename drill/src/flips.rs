//! Flipped bits and cut-off files. A small folder with two snapshots and a log after them is damaged in one place, a
//! server started on the copy, and every answer compared with those of the undamaged folder. Every form that a filter has on a disk
//! is in it ([`Form`]). Allowed is:
//!
//! - it refuses to start, and its message names the damaged file;
//! - it starts, and a filter answers with an error, the others as before;
//! - it starts, and all answer as before, if nothing was damaged but bytes that mean nothing: [`crate::meaning`] says which.
//!   A flipped bit that no probe happens to touch is damage that went unnoticed, and a finding;
//! - a bit was flipped in the file that the last write went to, and only items of that last write are missing: its
//!   record cannot be told from one that was being written when the power went;
//! - the end of that file was cut off, and what is missing is the last writes, all after the last snapshot, with no gap:
//!   a log that ends early cannot be told from a shorter one.
//!
//! Anything else is a wrong answer. Absent items are compared too: a bit that was set by a flip is found as well.
//!
//! A control run breaks both judgements: one folder has lost a write that is expected all the same, the other is not damaged at
//! all though it is said to be, as if no checksum saw it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::meaning;
use crate::options::Options;
use crate::random::Random;
use crate::report::Row;
use crate::server::{self, Server, Start};
use crate::subject::{ADDS, Answer, COUNTING, Copies, Kind, Policy, Subject, WINDOW, answer};
use crate::system::{copy_folder, empty_folder, files};
use crate::wire::{Reply, Wire};

/// Writes in the folder: each tenth counts one item, the others add fourteen, which the log of a small filter has as bits; 12,700
/// keys in all.
const STEPS: u64 = 1000;
const ADDED: u64 = 14;
const ABSENT: u64 = 1000;
/// Filters of seventy items each that the server keeps as words.
const SMALL: u64 = 22;
/// A window that keeps what it has for longer than the longest run.
const DAYS: &str = "drill:days";
/// After the snapshots: a write to a filter of more than 1 MiB, a copy of that, which is a file that the log names, and one of
/// the first small one, which is in the log itself.
const LARGE: u64 = 800;
const COPIED: u64 = 850;
const COPIED_SMALL: u64 = 860;
/// The write that a control run leaves out and expects all the same: a loss that no checksum shows.
const SKIPPED: u64 = 500;
/// Findings after which no more are looked for.
const ENOUGH: u64 = 20;
/// How a finding begins that is no wrong answer, but damage that nothing showed.
const UNNOTICED: &str = "unnoticed: ";

/// A folder to damage.
struct Base {
    folder: PathBuf,
    /// Its files that hold something: path in the folder, length, and the length without zeros at the end.
    files: Vec<(PathBuf, u64, u64)>,
    /// The files that the last write changed, by their path in the folder.
    tail: Vec<PathBuf>,
    /// Those that no start reads.
    superseded: Vec<PathBuf>,
    /// Answers of the undamaged folder.
    answers: Answers,
    /// Of a control run: its copies are not damaged at all.
    spared: bool,
}

#[derive(Clone, PartialEq)]
struct Answers {
    /// For each step, for each of its items.
    steps: Vec<Vec<Answer>>,
    absent: Vec<Answer>,
}

#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Refused,
    Error,
    Torn,
    Same,
}

pub fn drill(options: &Options, policy: Policy) -> Result<Row, String> {
    let subject = &options.subject;
    let flips = options.runs.unwrap_or(10_000);
    let cuts = flips.div_ceil(10);
    let bases = [base(options, policy, false)?, base(options, policy, true)?];
    let next = AtomicU64::new(0);
    let findings: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let tally: [AtomicU64; 4] = Default::default();
    let count = |outcome: Outcome| tally[outcome as usize].fetch_add(1, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    let found = findings.lock().map_or(0, |found| found.len() as u64);
                    if case >= flips + cuts || found >= ENOUGH {
                        return;
                    }
                    let folder = options.work.join(format!("case-{case}"));
                    let mut random = Random::new(options.seed, 0xf11b_0000 + case);
                    let base = &bases[random.below(2) as usize];
                    match one(subject, policy, base, &folder, &mut random, case >= flips) {
                        Ok(outcome) => {
                            count(outcome);
                            let _ = fs::remove_dir_all(&folder);
                            let _ = fs::remove_file(folder.with_extension("log"));
                        }
                        Err(what) => {
                            let Ok(mut found) = findings.lock() else { return };
                            found.push(format!("case {case} ({}): {what}", folder.display()));
                        }
                    }
                }
            });
        }
    });
    let findings = findings.into_inner().unwrap_or_default();
    if !options.control && !findings.is_empty() {
        let many = if findings.len() as u64 >= ENOUGH { " (and stopped there)" } else { "" };
        let of = next.load(Ordering::Relaxed).min(flips + cuts);
        return Err(format!("{} of {of} cases{many}:\n{}", findings.len(), findings.join("\n")));
    }
    if let (true, Some(first)) = (options.control, findings.first()) {
        println!("{first}");
    }
    let told = |outcome: Outcome| tally[outcome as usize].load(Ordering::Relaxed);
    let unnoticed = findings.iter().filter(|finding| finding.contains(UNNOTICED)).count() as u64;
    let wrong = findings.len() as u64 - unnoticed;
    Ok(Row::new("flips", policy)
        .number("bits flipped", flips)
        .number("ends cut off", cuts)
        .number("refused to start", told(Outcome::Refused))
        .number("answered an error", told(Outcome::Error))
        .number("torn tail", told(Outcome::Torn))
        .number("in bytes without meaning", told(Outcome::Same))
        .number("unnoticed", unnoticed)
        .number("wrong answers", wrong)
        // Of a control run both have to be found.
        .found(if options.control { wrong.min(unnoticed) } else { findings.len() as u64 }))
}

/// Where the items of a write go, and so in what form they are on the disk after the snapshots.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// A chain: an image, in a file of its own or among others.
    Adds,
    /// A small filter: words among those of others.
    Small(u64),
    /// Generations of a window.
    Days,
    /// Counters.
    Counting,
    /// A cuckoo filter, which counts too.
    Cuckoo,
    /// The filter of more than 1 MiB: in the log alone.
    Large,
    /// A copy of it: an image that the log names. Nothing is added to it.
    Copied,
    /// A copy of the first small filter: an image in the log.
    CopiedSmall,
}

impl Form {
    fn of(step: u64) -> Form {
        match (step, step % 10) {
            (LARGE, _) => Form::Large,
            (COPIED, _) => Form::Copied,
            (COPIED_SMALL, _) => Form::CopiedSmall,
            (_, 6) => Form::Counting,
            (_, 7) => Form::Days,
            (_, 8) => Form::Small(step / 10 % SMALL),
            (_, 9) => Form::Cuckoo,
            _ => Form::Adds,
        }
    }

    fn filter(self) -> String {
        match self {
            Form::Adds => ADDS.into(),
            Form::Small(number) => format!("drill:small:{number}"),
            Form::Days => DAYS.into(),
            Form::Counting | Form::Cuckoo => COUNTING.into(),
            Form::Large => "drill:large".into(),
            Form::Copied => "drill:copied".into(),
            Form::CopiedSmall => "drill:copied-small".into(),
        }
    }
}

/// The items of a write; those of a copy are what its source was given.
fn items(step: u64) -> Vec<Vec<u8>> {
    let (from, count) = match Form::of(step) {
        Form::Copied => (LARGE, ADDED),
        Form::CopiedSmall => (8, ADDED),
        Form::Cuckoo => (step, 1),
        _ => (step, ADDED),
    };
    (0..count).map(|i| format!("item {from} {i}").into_bytes()).collect()
}

/// Makes the filters that the folder has beside the usual ones.
fn reserve(subject: &Subject, wire: &mut Wire) -> Result<(), String> {
    subject.reserve(wire).map_err(|error| format!("making the folder: {error}"))?;
    if subject.kind == Kind::Redis {
        return Ok(());
    }
    let large = Form::Large.filter();
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["BG.CREATE", DAYS, "KIND", "rotating", "CAPACITY", "5000", "RATE", "0.001", "WINDOW", "864000"],
        vec!["BG.CREATE", &large, "KIND", "blocked", "CAPACITY", "600000", "RATE", "0.001"],
    ];
    let names: Vec<String> = (0..SMALL).map(|number| Form::Small(number).filter()).collect();
    commands.extend(names.iter().map(|name| vec!["BF.RESERVE", name, "0.01", "100"]));
    for words in commands {
        match wire.ask(words[0], &words[1..]) {
            Ok(Reply::Status(_)) => {}
            other => return Err(format!("making the folder: {words:?} was answered {other:?}")),
        }
    }
    Ok(())
}

/// Makes a write; why it was refused.
fn write(subject: &Subject, wire: &mut Wire, step: u64) -> std::io::Result<Option<String>> {
    let (form, items) = (Form::of(step), items(step));
    let source = match form {
        Form::Copied => Form::Large,
        Form::CopiedSmall => Form::Small(0),
        Form::Cuckoo => {
            subject.change(wire, &items[0], false);
            return Ok(subject.changed(&wire.reply()?, false).err());
        }
        _ => {
            match form {
                Form::Counting => subject.add_any(&form.filter(), wire, &items),
                _ => subject.add_to(&form.filter(), wire, &items),
            }
            return Ok(subject.added(&wire.reply()?, items.len()).1);
        }
    };
    subject.copy(&source.filter(), &form.filter(), wire, &items);
    Ok(match wire.reply()? {
        Reply::Integer(1) | Reply::Status(_) => None,
        other => Some(format!("{other:?}")),
    })
}

/// Writes the folder. `stopped`: ended by SIGTERM, otherwise by kill -9.
fn base(options: &Options, policy: Policy, stopped: bool) -> Result<Base, String> {
    let subject = &options.subject;
    let folder = options.work.join(if stopped { "stopped" } else { "killed" });
    let log = folder.with_extension("log");
    let say = |error: std::io::Error| format!("making the folder: {error}");
    // Of a control run one folder loses a write, the other is not damaged.
    let (skips, spared) = (options.control && !stopped, options.control && stopped);
    let server = server::must_start(subject, &folder, policy, &log)?;
    let mut wire = Wire::connect(server.address, Duration::from_secs(30)).map_err(say)?;
    reserve(subject, &mut wire)?;
    let before = options.work.join("before");
    for step in 0..STEPS {
        if step == STEPS / 3 || step == saved() {
            subject.save(&mut wire).map_err(say)??;
        }
        if step == STEPS - 1 {
            empty_folder(&before)?;
            copy_folder(&folder, &before)?;
        }
        if skips && step == SKIPPED {
            continue;
        }
        if let Some(text) = write(subject, &mut wire, step).map_err(say)? {
            return Err(format!("making the folder: write {step} was refused: {text}"));
        }
    }
    let mut tail = Vec::new();
    for (path, _) in files(&folder)? {
        let name = path.strip_prefix(&folder).map_err(|error| error.to_string())?.to_path_buf();
        if fs::read(before.join(&name)).ok() != fs::read(&path).ok() {
            tail.push(name);
        }
    }
    match stopped {
        true => drop(server.stop(Duration::from_secs(30))?),
        false => server.kill()?,
    }
    // The answers come from a copy: a start may change the folder.
    let copy = options.work.join("whole");
    empty_folder(&copy)?;
    copy_folder(&folder, &copy)?;
    let server = server::must_start(subject, &copy, policy, &log)?;
    let mut answers = ask(subject, &server).map_err(|error| format!("the undamaged folder: {error}"))?;
    server.kill()?;
    if skips {
        answers.steps[SKIPPED as usize].fill(Answer::Count(1));
    }
    if answers.steps.iter().flatten().any(|answer| !matches!(answer, Answer::Count(1..))) {
        return Err("the undamaged folder has lost acknowledged items".into());
    }
    let mut contents = Vec::new();
    for (path, size) in files(&folder)? {
        let bytes = fs::read(&path).map_err(|error| format!("read {}: {error}", path.display()))?;
        let name = path.strip_prefix(&folder).map_err(|error| error.to_string())?.to_path_buf();
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        if used > 0 {
            println!("{}: {size} bytes, {used} without zeros at the end", path.display());
            contents.push((name, size, used));
        }
    }
    if contents.is_empty() || tail.is_empty() {
        return Err(format!("{} holds nothing, or the last write went to no file of it", folder.display()));
    }
    println!("the last write went to {tail:?}");
    let mut superseded = Vec::new();
    if subject.kind == Kind::Bloomgate {
        let manifest = fs::read(folder.join("MANIFEST")).map_err(|error| format!("read the manifest: {error}"))?;
        let names: Vec<PathBuf> = contents.iter().map(|(name, ..)| name.clone()).collect();
        superseded = meaning::superseded(&manifest, &names);
    }
    Ok(Base { folder, files: contents, tail, superseded, answers, spared })
}

/// The step before which the last snapshot was made.
fn saved() -> u64 {
    STEPS * 2 / 3
}

/// Every answer there is.
fn ask(subject: &Subject, server: &Server) -> std::io::Result<Answers> {
    let mut wire = Wire::connect(server.address, Duration::from_secs(10))?;
    // Those of one filter together.
    let mut steps: Vec<u64> = (0..STEPS).collect();
    steps.sort_by_key(|step| (Form::of(*step).filter(), items(*step).len(), *step));
    let alike = |one: &u64, other: &u64| {
        let (one, other) = (Form::of(*one), Form::of(*other));
        one.filter() == other.filter() && (one == Form::Cuckoo) == (other == Form::Cuckoo)
    };
    let batches: Vec<&[u64]> = steps.chunk_by(alike).flat_map(|steps| steps.chunks(20)).collect();
    for steps in &batches {
        let asked: Vec<Vec<u8>> = steps.iter().flat_map(|step| items(*step)).collect();
        let form = Form::of(steps[0]);
        match form {
            Form::Cuckoo => asked.iter().for_each(|item| subject.ask_count(&mut wire, item, Copies::Cuckoo)),
            Form::Counting => subject.ask_counts(&form.filter(), &mut wire, &asked),
            _ => subject.ask_in(&form.filter(), &mut wire, &asked),
        }
    }
    let absent: Vec<Vec<u8>> = (0..ABSENT).map(|i| format!("absent {i}").into_bytes()).collect();
    let few = &absent[..100];
    few.iter().for_each(|item| subject.ask_count(&mut wire, item, Copies::Cuckoo));
    subject.ask_counts(COUNTING, &mut wire, few);
    // One that nothing was added to is asked as well.
    let mut filters = vec![(ADDS.to_owned(), &absent[..]), (DAYS.to_owned(), &absent[..]), (WINDOW.to_owned(), few)];
    filters.extend([Form::Large, Form::Copied, Form::CopiedSmall].map(|form| (form.filter(), few)));
    filters.extend((0..SMALL).map(|number| (Form::Small(number).filter(), few)));
    for (filter, items) in &filters {
        subject.ask_in(filter, &mut wire, items);
    }

    let mut answers = Answers { steps: vec![Vec::new(); STEPS as usize], absent: Vec::new() };
    for steps in batches {
        if Form::of(steps[0]) == Form::Cuckoo {
            for step in steps {
                answers.steps[*step as usize] = vec![answer(wire.reply()?)];
            }
            continue;
        }
        let got = subject.answers(wire.reply()?, steps.len() * ADDED as usize);
        for (step, part) in steps.iter().zip(got.chunks(ADDED as usize)) {
            answers.steps[*step as usize] = part.to_vec();
        }
    }
    for _ in few {
        answers.absent.push(answer(wire.reply()?));
    }
    answers.absent.extend(subject.answers(wire.reply()?, few.len()));
    for (_, items) in &filters {
        answers.absent.extend(subject.answers(wire.reply()?, items.len()));
    }
    Ok(answers)
}

/// Damages a copy and judges what the server makes of it.
fn one(
    subject: &Subject,
    policy: Policy,
    base: &Base,
    folder: &Path,
    random: &mut Random,
    cut: bool,
) -> Result<Outcome, String> {
    copy_folder(&base.folder, folder)?;
    let (name, how) = damage(&base.files, folder, random, cut)?;
    let read =
        |folder: &Path| fs::read(folder.join(&name)).map_err(|error| format!("read {}: {error}", name.display()));
    let (whole, damaged) = (read(&base.folder)?, read(folder)?);
    // What others keep in their files is theirs to know.
    let is_same =
        subject.kind != Kind::Bloomgate || base.superseded.contains(&name) || meaning::is_same(&name, &whole, &damaged);
    if base.spared {
        fs::write(folder.join(&name), whole).map_err(|error| format!("mend {}: {error}", name.display()))?;
    }
    let log = folder.with_extension("log");
    let file = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let server = match server::start(subject, folder, policy, &log, &[], Duration::from_secs(20))
        .map_err(|what| format!("{how}: {what}"))?
    {
        Start::Ready(server) => server,
        Start::Gone(status, text) => {
            server::no_panic(&text).map_err(|what| format!("{how}: {what}"))?;
            if status.success() {
                return Err(format!("{how}: it ended before it served, with status 0:\n{text}"));
            }
            if subject.kind == Kind::Bloomgate && !text.contains(&file) {
                return Err(format!("{how}: it refused to start without naming {file}:\n{text}"));
            }
            return Ok(Outcome::Refused);
        }
    };
    let got = ask(subject, &server).map_err(|error| format!("{how}: asking: {error}"))?;
    server.kill().map_err(|what| format!("{how}: {what}"))?;
    match judge(&base.answers, &got, base.tail.contains(&name), cut).map_err(|what| format!("{how}: {what}"))? {
        Outcome::Same if !is_same => {
            Err(format!("{UNNOTICED}{how}: every answer is as before, and nothing was said of it"))
        }
        outcome => Ok(outcome),
    }
}

/// Flips a bit, or cuts off an end. Half of the time every file is as likely, half of the time every byte; one time in
/// eight the zeros that a file ends with count as well.
fn damage(
    files: &[(PathBuf, u64, u64)],
    folder: &Path,
    random: &mut Random,
    cut: bool,
) -> Result<(PathBuf, String), String> {
    let zeros = random.below(8) == 0;
    let room = |(_, size, used): &(PathBuf, u64, u64)| if zeros { *size } else { *used };
    let which = if random.below(2) == 0 {
        random.below(files.len() as u64) as usize
    } else {
        let mut at = random.below(files.iter().map(room).sum());
        let holds = |file: &(PathBuf, u64, u64)| match at.checked_sub(room(file)) {
            None => true,
            Some(rest) => {
                at = rest;
                false
            }
        };
        files.iter().position(holds).unwrap_or(0)
    };
    let (name, size, _) = &files[which];
    let (at, path) = (random.below(room(&files[which])), folder.join(name));
    let say = |error: std::io::Error| format!("damage {}: {error}", path.display());
    if cut {
        fs::OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(at)).map_err(say)?;
        return Ok((name.clone(), format!("{} cut from {size} to {at} bytes", name.display())));
    }
    let mut bytes = fs::read(&path).map_err(say)?;
    let bit = random.below(8);
    bytes[at as usize] ^= 1 << bit;
    fs::write(&path, bytes).map_err(say)?;
    Ok((name.clone(), format!("{} bit {bit} of byte {at} of {size}", name.display())))
}

/// What the answers are, or what is wrong about them. `tail`: the last write went to the damaged file.
fn judge(wanted: &Answers, got: &Answers, tail: bool, cut: bool) -> Result<Outcome, String> {
    let mut outcome = Outcome::Same;
    let mut first_missing = None;
    for (step, (wanted, got)) in wanted.steps.iter().zip(&got.steps).enumerate() {
        let mut missing = 0;
        for (wanted, got) in wanted.iter().zip(got) {
            match (wanted, got) {
                (_, Answer::Refused(_)) => outcome = Outcome::Error,
                (Answer::Count(least), Answer::Count(count)) if count < least => missing += 1,
                (wanted, got) if wanted == got => {}
                (wanted, got) => return Err(format!("write {step}: answered {got:?}, wanted {wanted:?}")),
            }
        }
        if missing > 0 {
            let first = *first_missing.get_or_insert(step as u64);
            let last = step as u64 == STEPS - 1;
            if !tail {
                return Err(format!("{missing} items of write {step} are missing"));
            }
            if !cut && !last {
                return Err(format!("a flip took {missing} items of write {step}, which is not the last"));
            }
            if first < saved() {
                return Err(format!("{missing} items of write {step} are missing; the snapshot holds them"));
            }
        } else if let Some(first) = first_missing
            && got.len() > 1
            && outcome != Outcome::Error
        {
            return Err(format!("write {first} is missing, write {step} after it is not"));
        }
    }
    for (i, (wanted, got)) in wanted.absent.iter().zip(&got.absent).enumerate() {
        match (wanted, got) {
            (_, Answer::Refused(_)) => outcome = Outcome::Error,
            (wanted, got) if wanted == got => {}
            // A false positive may owe a bit to a write that is gone.
            (Answer::Count(1..), Answer::Count(0)) if first_missing.is_some() => {}
            (wanted, got) => return Err(format!("absent item {i}: answered {got:?}, wanted {wanted:?}")),
        }
    }
    Ok(if first_missing.is_some() && outcome == Outcome::Same { Outcome::Torn } else { outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Answers {
        let answers = |step| items(step).iter().map(|_| Answer::Count(1)).collect();
        Answers { steps: (0..STEPS).map(answers).collect(), absent: vec![Answer::Count(0); 10] }
    }

    fn without(steps: std::ops::Range<u64>) -> Answers {
        let mut answers = whole();
        for step in steps {
            answers.steps[step as usize].fill(Answer::Count(0));
        }
        answers
    }

    #[test]
    fn every_form_is_written_and_a_copy_holds_what_its_source_was_given() {
        let count = |wanted: fn(Form) -> bool| (0..STEPS).filter(|step| wanted(Form::of(*step))).count();
        assert_eq!(count(|form| form == Form::Small(0)), 5, "seventy items, for a hundred");
        assert_eq!(count(|form| matches!(form, Form::Small(_))), 100);
        assert_eq!(
            [Form::Days, Form::Counting, Form::Cuckoo].map(|one| (0..STEPS).filter(|s| Form::of(*s) == one).count()),
            [100; 3]
        );
        assert!(count(|form| form == Form::Adds) > 590);
        assert!(LARGE > saved() && COPIED > LARGE && Form::of(LARGE) == Form::Large);
        assert_eq!(items(COPIED), items(LARGE));
        assert_eq!((Form::of(8), items(COPIED_SMALL)), (Form::Small(0), items(8)));
        assert_ne!(items(LARGE), items(8));
    }

    #[test]
    fn only_a_torn_tail_may_lose() {
        let whole = whole();
        let judge = |got: &Answers, tail, cut| judge(&whole, got, tail, cut);
        assert!(judge(&whole, false, false) == Ok(Outcome::Same));
        let last = without(STEPS - 1..STEPS);
        assert!(judge(&last, true, false) == Ok(Outcome::Torn));
        assert!(judge(&last, true, true) == Ok(Outcome::Torn));
        assert!(judge(&last, false, true).is_err(), "not the file of the last write");
        let two = without(STEPS - 2..STEPS);
        assert!(judge(&two, true, true) == Ok(Outcome::Torn));
        assert!(judge(&two, true, false).is_err(), "a flip takes one record");
        assert!(judge(&without(STEPS - 5..STEPS - 2), true, true).is_err(), "a gap");
        assert!(judge(&without(saved() - 1..STEPS), true, true).is_err(), "more than the log");
    }

    #[test]
    fn a_bit_too_many_is_found_and_an_error_is_fine() {
        let whole = whole();
        let mut more = whole.clone();
        more.absent[3] = Answer::Count(1);
        assert!(judge(&whole, &more, true, true).is_err());
        let mut refused = whole.clone();
        for answers in &mut refused.steps {
            answers.fill(Answer::Refused("ERR quarantined".into()));
        }
        assert!(judge(&whole, &refused, false, false) == Ok(Outcome::Error));
    }
}
