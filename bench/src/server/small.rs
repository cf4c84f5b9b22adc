//! A filter for every user: a million of a hundred items, made and filled over one connection; what each costs beside
//! its bits, and how soon all of them are named and are back after a restart.

use super::Choice;
use super::process::{self, Process};
use super::stage::{self, Program, Side};
use super::table::{Line, Promise, Table};
use super::traffic::Dialect;
use crate::args::Fault;
use crate::shared_machine;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Instant;

const MADE: &str = "small, BF.RESERVE of new filters, one connection";
const ADDED: &str = "small, BF.ADD to new names, one connection";
const FILLED: &str = "small, BF.MADD of 100 items to each, one connection";
const COST: &str = "small, memory beside the bits of a filter of 100 items";
const NAMED: &str = "small, SCAN of all names, COUNT 1000";
const BACK: &str = "small, restart from a snapshot, a million filters";

/// Items of a command that fills.
const ITEMS: usize = 100;
/// Commands that fill, sent at once: 50 KB.
const FILL_PIPELINE: usize = 32;

/// Measures all of them and judges those that something is promised of.
pub fn run(choice: &Choice, table: &mut Table) -> Result<(), Fault> {
    let all = [MADE, ADDED, FILLED, COST, NAMED, BACK];
    let why = |what: &str| match choice.dialect {
        Dialect::Redis => Some("redis-server has no filters".to_string()),
        Dialect::Filters => choice.skips(what, 0),
    };
    if all.iter().all(|what| why(what).is_some()) {
        all.iter().for_each(|what| table.leave_out(what, &why(what).unwrap_or_default()));
        return Ok(());
    }
    // Whoever wants one has them all: each begins where the one before ended.
    let count = if choice.quick { 20_000 } else { 1_000_000 };
    let set = set_in_redis(choice, count)?;
    made_and_filled(choice, table, count, set)?;
    added(choice, table, count, set)
}

fn side(choice: &Choice, program: Program) -> Side {
    let threads = if program == Program::Ours { 1 } else { choice.both().len() };
    // One reactor, for there is one connection. What writes the log and snapshots beside it has the processors that are there.
    Side { program, threads, fsync: "every-second", pinned: false, stock: vec![] }
}

/// A command for user 0000000 in which the number is put in: where it begins, and what is answered.
struct Form {
    bytes: Vec<u8>,
    places: Vec<usize>,
    reply: usize,
    pipeline: usize,
}

impl Form {
    /// Of these words, in which `0000000` stands for the user; the length of the reply.
    fn of(words: &[String], reply: usize, pipeline: usize) -> Self {
        let mut bytes = Vec::new();
        super::wire::command(&mut bytes, words.iter().map(|word| word.as_bytes()));
        let places = (0..bytes.len() - 7).filter(|&at| &bytes[at..at + 7] == b"0000000").collect();
        Self { bytes, places, reply, pipeline }
    }

    fn put(&mut self, user: usize, out: &mut Vec<u8>) {
        let mut digits = [b'0'; 7];
        let mut rest = user;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        for &at in &self.places {
            self.bytes[at..at + 7].copy_from_slice(&digits);
        }
        out.extend_from_slice(&self.bytes);
    }

    /// Sends it for each of so many users over one connection, two pipelines in flight; users a second on the wall, and a
    /// second of the server's CPU.
    fn run(&mut self, server: &Process, users: Range<usize>) -> Result<(f64, f64), Fault> {
        let mut stream = TcpStream::connect(server.address)?;
        stream.set_nodelay(true)?;
        // Made before: what it takes to write them would be a third of the time of those that fill.
        let mut pipelines = Vec::new();
        for first in users.clone().step_by(self.pipeline) {
            let (last, mut out) = (users.end.min(first + self.pipeline), Vec::new());
            (first..last).for_each(|user| self.put(user, &mut out));
            pipelines.push((out, (last - first) * self.reply));
        }
        let (mut replies, mut owed) = (Vec::new(), 0);
        let (begun, cpu) = (Instant::now(), process::cpu_of(server.id())?);
        let mut take = |stream: &mut TcpStream, bytes: usize| -> Result<(), Fault> {
            replies.resize(bytes, 0);
            stream.read_exact(&mut replies)?;
            match replies.contains(&b'-') {
                true => {
                    Err(Fault(format!("a refusal: {}", String::from_utf8_lossy(&replies[..replies.len().min(200)]))))
                }
                false => Ok(()),
            }
        };
        let count = users.len() as f64;
        for (out, reply) in pipelines {
            stream.write_all(&out)?;
            if owed > 0 {
                take(&mut stream, owed)?;
            }
            owed = reply;
        }
        take(&mut stream, owed)?;
        let seconds = begun.elapsed().as_secs_f64();
        let spent: u64 = process::spent(&cpu, &process::cpu_of(server.id())?).iter().sum();
        Ok((count / seconds, count / (spent as f64 / 1e9)))
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Memory of a process, in bytes.
fn resident(server: &Process) -> Result<f64, Fault> {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", server.id()))?;
    let pages: f64 = text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0.0);
    Ok(pages * 4096.0)
}

/// Commands a second of redis-server, which sets a key for each user.
fn set_in_redis(choice: &Choice, count: usize) -> Result<(f64, f64), Fault> {
    shared_machine::pin(choice.client())?;
    let server = Process::start(&stage::launch(&side(choice, Program::Redis), "small-redis", choice))?;
    let rate = Form::of(&words("SET user:0000000 x"), 5, 512).run(&server, 0..count)?;
    server.kill()?;
    Ok(rate)
}

fn rate_line(what: &str, promise: Promise, (rate, by_cpu): (f64, f64), peer: (f64, f64), note: String) -> Line {
    let text = |(wall, cpu): (f64, f64)| format!("{:.0} k, {:.0} k by CPU", wall / 1e3, cpu / 1e3);
    let (peer, ours) = (text(peer), text((rate, by_cpu)));
    Line { what: what.to_string(), promise, figure: rate / 1e3, unit: "k/s", peer, ours, note, void: None }
}

fn made_and_filled(choice: &Choice, table: &mut Table, count: usize, set: (f64, f64)) -> Result<(), Fault> {
    let launch = stage::launch(&side(choice, Program::Ours), "small", choice);
    let server = Process::start(&launch)?;
    let mut make = Form::of(&words("BF.RESERVE user:0000000 0.01 100"), 5, 512);
    // The first fifth is filled too, which brings what there is once, whatever comes after it: the buffers of the log, of the
    // connection and of snapshots, 20 MB. More of them filled would be two gigabytes of log.
    let filled = count / 5;
    make.run(&server, 0..filled)?;
    let items = (0..ITEMS).map(|item| format!("0000000-{item:02}"));
    let fill: Vec<String> = ["BF.MADD", "user:0000000"].map(str::to_owned).into_iter().chain(items).collect();
    let fill_rate = Form::of(&fill, 6 + 4 * ITEMS, FILL_PIPELINE).run(&server, 0..filled)?;
    let mut talk = server.talk()?;
    // Whatever a snapshot needs while it is made is no cost of a filter.
    talk.must(&["SAVE"])?;
    let before = resident(&server)?;
    let rate = make.run(&server, filled..count)?;
    talk.must(&["SAVE"])?;
    let bits = talk.must(&["BG.INFO", "user:0000001", "bytes"])?.integer().unwrap_or(0) as f64;
    let beside = (resident(&server)? - before) / (count - filled) as f64 - bits;
    table.add(rate_line(MADE, Promise::AtLeast(200.0), rate, set, format!("{count} filters")));
    let note = format!("{:.1} M items/s", fill_rate.0 * ITEMS as f64 / 1e6);
    table.add(rate_line(FILLED, Promise::AtLeast(200.0), fill_rate, set, note));
    table.add(Line {
        what: COST.to_string(),
        promise: Promise::AtMost(128.0),
        figure: beside,
        unit: " B",
        peer: String::new(),
        ours: format!("{beside:.0} B"),
        note: format!("{bits} B of bits, name of 12 B included"),
        void: None,
    });
    scan(table, &mut talk, count)?;
    let begun = Instant::now();
    talk.must(&["SAVE"])?;
    let saved = begun.elapsed().as_secs_f64();
    let on_disk: u64 =
        process::files(&launch.folder)?.iter().filter_map(|path| Some(path.metadata().ok()?.len())).sum();
    drop(talk);
    server.shut_down()?;
    let last = format!("user:{:07}", filled - 1);
    let item = format!("{:07}-99", filled - 1);
    let back = Process::start_until(&launch, |talk| Ok(talk.ask(&["BF.EXISTS", &last, &item])?.integer().is_some()))?;
    let mut talk = back.talk()?;
    let (names, found) = (talk.must(&["DBSIZE"])?.integer(), talk.must(&["BF.EXISTS", &last, &item])?.integer());
    if names != Some(count as i64) || found != Some(1) {
        return Err(Fault(format!("after the restart there are {names:?} filters, and {item} in {last} is {found:?}")));
    }
    let seconds = back.start_time.as_secs_f64();
    let after = resident(&back)? / count as f64 - bits;
    table.add(Line {
        what: BACK.to_string(),
        promise: Promise::None,
        figure: seconds * 1e6 / count as f64,
        unit: " s",
        peer: String::new(),
        ours: format!("{seconds:.2} s"),
        note: format!(
            "SAVE took {saved:.2} s; {:.2} GB on disk; {after:.0} B beside the bits after it, code and all",
            on_disk as f64 / 1e9
        ),
        void: None,
    });
    back.kill()?;
    std::fs::remove_dir_all(&launch.folder)?;
    Ok(())
}

/// Goes through all names once, and counts them.
fn scan(table: &mut Table, talk: &mut super::wire::Talk, count: usize) -> Result<(), Fault> {
    use super::wire::Answer;
    let begun = Instant::now();
    let (mut cursor, mut names) = ("0".to_string(), 0);
    loop {
        let Answer::Array(parts) = talk.must(&["SCAN", &cursor, "COUNT", "1000"])? else {
            return Err(Fault("SCAN answers no array".to_string()));
        };
        let [Answer::Bulk(next), Answer::Array(some)] = &parts[..] else {
            return Err(Fault("SCAN answers no cursor with names".to_string()));
        };
        names += some.len();
        cursor = String::from_utf8_lossy(next).into_owned();
        if cursor == "0" {
            break;
        }
    }
    if names != count {
        return Err(Fault(format!("SCAN gave {names} names of {count}")));
    }
    let seconds = begun.elapsed().as_secs_f64();
    table.add(Line {
        what: NAMED.to_string(),
        promise: Promise::None,
        figure: seconds,
        unit: " s",
        peer: String::new(),
        ours: format!("{:.1} M names/s", names as f64 / seconds / 1e6),
        note: format!("{names} names"),
        void: None,
    });
    Ok(())
}

fn added(choice: &Choice, table: &mut Table, count: usize, set: (f64, f64)) -> Result<(), Fault> {
    let launch = stage::launch(&side(choice, Program::Ours), "small-added", choice);
    let server = Process::start(&launch)?;
    let rate = Form::of(&words("BF.ADD user:0000000 item-0000000"), 4, 512).run(&server, 0..count)?;
    let note = format!("{count} filters, each made by its first item");
    table.add(rate_line(ADDED, Promise::AtLeast(200.0), rate, set, note));
    server.kill()?;
    std::fs::remove_dir_all(&launch.folder)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_user_is_put_in_wherever_it_stands() {
        let mut form = Form::of(&words("BF.ADD user:0000000 item-0000000"), 4, 512);
        let mut out = Vec::new();
        form.put(42, &mut out);
        form.put(1_234_567, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("*3\r\n$6\r\nBF.ADD\r\n$12\r\nuser:0000042\r\n$12\r\nitem-0000042\r\n"));
        assert!(text.ends_with("$12\r\nuser:1234567\r\n$12\r\nitem-1234567\r\n"));
    }
}
