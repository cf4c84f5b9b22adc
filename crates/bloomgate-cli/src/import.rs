//! `bloomgate import`: the filters of a live Redis with RedisBloom, into files that are checked and asked in place.

mod copy;
mod server;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bloomgate::format::SaveOptions;
use redis::Value;

use crate::failure::{DONE, ERROR, Failure, Outcome};
use crate::file;
use crate::json::{self, Object};
use crate::keys::Source;
use crate::number;
use crate::progress::Progress;
use crate::screen::{self, DIM, WARN, paint};
use copy::{Copied, Family, Found, shown};
use server::{Address, Server};

/// Copy filters out of a live Redis with RedisBloom
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate import redis://localhost                      lists the filters
  bloomgate import redis://localhost seen -o seen.bloom   copies one
  bloomgate import redis://db:6380/2 --match 'urls:*' -d filters
  bloomgate import redis://reader@db --password-file pass -d filters
  bloomgate import redis+unix:///run/redis/redis.sock -d filters
  bloomgate check seen.bloom mocha                        answers as Redis does

Filters of BF.* and CF.* are read by SCANDUMP, which changes nothing in Redis, and written in Bloomgate's own form, with \
checksums, around the same bits; the file asks and answers as RedisBloom does, false positives included.

A filter that is written to while it is copied would be copied torn, and a key added meanwhile might be missing. That is \
noticed, and the copy is made again, --tries times at most; then it fails. A filter that is never quiet is copied from a \
replica whose replication is stopped for the while.

With -d, a file is named after its key: seen.bloom; of other characters than letters, digits and ._- the code stands \
after a %. A password in the address is seen by whoever may list processes: --password-file keeps it to you.

TLS (rediss://) is not built in: use a tunnel such as stunnel or ssh -L.

Exit codes: 0 done, 2 error (with -d, the filters that could be copied are there).")]
pub struct Args {
    /// redis://[USER:PASSWORD@]HOST[:PORT][/DB], or redis+unix:///PATH[?db=N]
    #[arg(value_name = "URL")]
    source: String,
    /// Keys of filters; without any, and without --match, all filters of the database
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,
    /// Filters whose key fits a pattern of Redis: * ? [abc]; may be given several times
    #[arg(long = "match", value_name = "PATTERN")]
    patterns: Vec<OsString>,
    /// Write the one filter to this file
    #[arg(short, long, value_name = "FILE", conflicts_with = "directory")]
    output: Option<PathBuf>,
    /// Write each filter to a file in this directory, made if it is not there
    #[arg(short, long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Read the password from the only line of this file
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// How often a filter is copied that is written to meanwhile
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    tries: u32,
    /// The most that one filter may have; twice this is needed in memory
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = number::size)]
    max_size: u64,
    /// How long one answer may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = timeout)]
    timeout: Duration,
    /// Print JSON: a list with an object for each filter
    #[arg(long)]
    json: bool,
    /// No word about what was copied
    #[arg(short, long)]
    quiet: bool,
}

/// The most filters that are listed: more would not be read by anybody.
const MOST_FILTERS: usize = 1_000_000;
/// The most bytes of a file name that file systems take, without the ending.
const MOST_NAME: usize = 240;

fn timeout(text: &str) -> Result<Duration, String> {
    let seconds = number::seconds(text)?;
    if (0.001..=86_400.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(format!("{text:?} is no time to wait for: write 1ms to 86400s, such as 30s"))
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    if let Some(path) = &args.output {
        file::check_target(path, &args.password_file.iter().cloned().map(Source::File).collect::<Vec<_>>())?;
    }
    let address = Address::read(&args.source, args.password_file.as_deref())?;
    let mut server = Server::connect(&address, args.timeout)?;
    let found = find(&mut server, args)?;
    match (&args.output, &args.directory) {
        (None, None) => {
            let text = if args.json { listed_json(&found) } else { listed(&found) };
            print(&text)?;
            Ok(DONE)
        }
        (Some(path), _) => {
            let [only] = &found[..] else {
                return Err(Failure::Message(format!(
                    "-o writes one filter and {} are there: name its key, or write all with -d DIR",
                    found.len()
                )));
            };
            copy_all(&mut server, args, vec![(only, path.clone())])
        }
        (None, Some(directory)) => {
            std::fs::create_dir_all(directory).map_err(|error| Failure::at(directory, error))?;
            let places = found.iter().map(|found| Ok((found, place(directory, &found.key)?)));
            copy_all(&mut server, args, places.collect::<Result<_, Failure>>()?)
        }
    }
}

/// The filters that were asked for, in the order of their keys.
fn find(server: &mut Server, args: &Args) -> Result<Vec<Found>, Failure> {
    let named: Vec<&[u8]> = args.keys.iter().map(|key| key.as_encoded_bytes()).collect();
    let mut filters = BTreeSet::new();
    let types = types(server, &named)?;
    for (key, kind) in named.iter().zip(types) {
        match Family::of_type(&kind) {
            Some(family) => _ = filters.insert((key.to_vec(), family == Family::Cuckoo)),
            None => return Err(no_filter(server, key, &kind)),
        }
    }
    let mut looked_at = 0u64;
    let patterns: Vec<&[u8]> = match (&args.patterns[..], &args.keys[..]) {
        ([], []) => vec![b"*"],
        (patterns, _) => patterns.iter().map(|pattern| pattern.as_encoded_bytes()).collect(),
    };
    for pattern in patterns {
        let mut cursor = b"0".to_vec();
        loop {
            let (next, keys) = page(server, &cursor, pattern)?;
            looked_at += keys.len() as u64;
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            for (key, kind) in keys.iter().zip(self::types(server, &keys)?) {
                if let Some(family) = Family::of_type(&kind) {
                    filters.insert((key.to_vec(), family == Family::Cuckoo));
                }
            }
            if filters.len() > MOST_FILTERS {
                let most = number::grouped(MOST_FILTERS as u64);
                return Err(Failure::Message(format!("there are more than {most} filters: name some with --match")));
            }
            if next == b"0" {
                break;
            }
            cursor = next;
        }
    }
    if filters.is_empty() {
        return Err(nothing_found(server, looked_at));
    }
    let mut found = Vec::with_capacity(filters.len());
    for (key, cuckoo) in filters {
        let family = if cuckoo { Family::Cuckoo } else { Family::Bloom };
        let info = copy::info(server, &key, family)?;
        found.push(Found { key, family, info });
    }
    Ok(found)
}

/// A page of keys that fit a pattern, and the cursor of the next.
fn page(server: &mut Server, cursor: &[u8], pattern: &[u8]) -> Result<(Vec<u8>, Vec<Vec<u8>>), Failure> {
    let answer = server.ask(&[b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000"]);
    let answer = answer.map_err(|refusal| server.failure("SCAN", refusal))?;
    let strange = || Failure::Message(format!("{}: SCAN answers what is no page of keys", server.name()));
    let Value::Array(pair) = answer else { return Err(strange()) };
    let Ok([Value::BulkString(next), Value::Array(keys)]) = <[Value; 2]>::try_from(pair) else { return Err(strange()) };
    let keys = keys.into_iter().map(|key| match key {
        Value::BulkString(key) => Ok(key),
        _ => Err(strange()),
    });
    Ok((next, keys.collect::<Result<_, _>>()?))
}

/// What each key holds.
fn types(server: &mut Server, keys: &[&[u8]]) -> Result<Vec<Vec<u8>>, Failure> {
    let commands: Vec<Vec<u8>> = keys.iter().map(|key| server::command(&[b"TYPE", key])).collect();
    let answers = server.ask_all(&commands).map_err(|refusal| server.failure("TYPE", refusal))?;
    let names = answers.into_iter().map(|answer| match answer {
        Value::SimpleString(name) => Ok(name.into_bytes()),
        Value::BulkString(name) => Ok(name),
        _ => Err(Failure::Message(format!("{}: TYPE answers what is no type", server.name()))),
    });
    names.collect()
}

fn no_filter(server: &Server, key: &[u8], kind: &[u8]) -> Failure {
    let what = match kind {
        b"none" => "there is no such key".into(),
        b"bloomfltr" => "is a filter of valkey-bloom, which cannot be dumped: build one from the keys".into(),
        b"MBbloomTK" | b"CMSk-TYPE" | b"TopK-TYPE" | b"TDIS-TYPE" => {
            "is another structure of RedisBloom, no filter".into()
        }
        kind => format!("holds a {}, no filter of BF.* or CF.*", shown(kind)),
    };
    Failure::Message(format!("{}: {}: {what}", server.name(), shown(key)))
}

/// Why there is nothing to copy: perhaps the module is not even there.
fn nothing_found(server: &mut Server, looked_at: u64) -> Failure {
    let known = server.ask(&[b"COMMAND", b"INFO", b"BF.SCANDUMP"]);
    let absent = matches!(&known, Ok(Value::Array(commands)) if matches!(commands[..], [Value::Nil] | []));
    let why = if absent {
        ", and the server does not know BF.SCANDUMP: it is Redis without the RedisBloom module, or one whose filters cannot \
         be dumped, as those of valkey-bloom"
    } else {
        "; is it another database (redis://HOST/1), or another pattern?"
    };
    Failure::Message(format!(
        "{}: no filter of BF.* or CF.* among {}{why}",
        server.name(),
        number::counted(looked_at, "key")
    ))
}

/// The file of a key: other characters than the plainest are written as their code.
fn place(directory: &Path, key: &[u8]) -> Result<PathBuf, Failure> {
    let mut name = String::new();
    for (at, &byte) in key.iter().enumerate() {
        // A leading dot would hide the file, and `..` would leave the directory.
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || byte == b'.' && at > 0 {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    if name.is_empty() {
        name.push('%');
    }
    if name.len() > MOST_NAME {
        return Err(Failure::Message(format!("{}: too long for the name of a file: copy it with -o FILE", shown(key))));
    }
    Ok(directory.join(name + ".bloom"))
}

/// A filter that was written.
struct Written {
    found: usize,
    path: PathBuf,
    bytes: u64,
    address: String,
    tries: u32,
}

fn copy_all(server: &mut Server, args: &Args, places: Vec<(&Found, PathBuf)>) -> Outcome {
    let mut written = Vec::new();
    let mut failed = 0;
    for (at, (found, path)) in places.iter().enumerate() {
        match copy_one(server, args, found, path) {
            Ok(Some((bytes, address, tries))) => {
                written.push(Written { found: at, path: path.clone(), bytes, address, tries })
            }
            Ok(None) => {}
            // One that fails does not keep the others from being copied; a lost connection fails them all soon enough.
            Err(Failure::Message(message)) if places.len() > 1 => {
                screen::complain(message);
                failed += 1;
            }
            Err(failure) => return Err(failure),
        }
    }
    if args.json {
        let objects = written.iter().map(|written| {
            let object = described(places[written.found].0)
                .text("file", written.path.to_string_lossy())
                .whole("file_bytes", written.bytes)
                .text("address", &written.address)
                .whole("tries", written.tries.into());
            object.close()
        });
        print(&(json::list(objects) + "\n"))?;
    }
    if failed > 0 {
        screen::complain(format_args!("{failed} of {} filters were not copied", places.len()));
        return Ok(ERROR);
    }
    Ok(DONE)
}

/// Copies one filter and writes its file: the size of it, its address, and how often it was tried.
fn copy_one(
    server: &mut Server,
    args: &Args,
    found: &Found,
    path: &Path,
) -> Result<Option<(u64, String, u32)>, Failure> {
    for tries in 1..=args.tries {
        let progress = Progress::new("copying", found.info.bytes(), args.quiet);
        let copied = copy::copy(server, found, args.max_size, &progress);
        drop(progress);
        match copied? {
            Copied::Whole(filter) => {
                // In our own form, with checksums: `file::save` would write the dump again.
                let address = filter.save_with(path, &SaveOptions::new())?.to_string();
                let bytes = std::fs::metadata(path).map_err(|error| Failure::at(path, error))?.len();
                if !args.quiet && !args.json {
                    screen::tell(format_args!(
                        "{found}: {} in a {} filter, {}, written to {}",
                        number::counted(filter.len(), "key"),
                        filter.kind(),
                        number::bytes(filter.size_in_bytes()),
                        path.display()
                    ));
                }
                return Ok(Some((bytes, address, tries)));
            }
            Copied::Empty if args.output.is_some() => {
                return Err(Failure::Message(format!(
                    "{}: {found} has no keys, and RedisBloom does not dump an empty cuckoo filter: nothing was written",
                    server.name()
                )));
            }
            Copied::Empty => {
                let note =
                    format!("{found} has no keys, and RedisBloom does not dump an empty cuckoo filter: left out");
                screen::tell(paint(WARN, note));
                return Ok(None);
            }
            Copied::Torn if tries < args.tries => {
                if !args.quiet {
                    let note =
                        format!("{found} changed while it was copied: once more ({} of {})", tries + 1, args.tries);
                    screen::tell(paint(WARN, note));
                }
            }
            Copied::Torn => {}
        }
    }
    Err(Failure::Message(format!(
        "{}: {found} changed while it was copied, {}: a key added meanwhile may be missing, so nothing was written. Stop \
         the writers, copy it from a replica whose replication is stopped, or give more --tries",
        server.name(),
        if args.tries == 1 { "once".into() } else { format!("{} times", args.tries) }
    )))
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn listed(found: &[Found]) -> String {
    let number = |value: Option<u64>| value.map_or_else(|| "-".into(), number::grouped);
    let mut out =
        paint(DIM, format!("{:<11} {:>15} {:>15} {:>7} {:>10}  key", "kind", "keys", "capacity", "filters", "size"));
    out.push('\n');
    for filter in found {
        out.push_str(&format!(
            "{:<11} {:>15} {:>15} {:>7} {:>10}  {filter}\n",
            filter.family.form().to_string(),
            number(filter.info.items()),
            number(filter.info.capacity()),
            number(filter.info.filters()),
            filter.info.bytes().map_or_else(|| "-".into(), number::bytes),
        ));
    }
    out
}

fn listed_json(found: &[Found]) -> String {
    json::list(found.iter().map(|found| described(found).close())) + "\n"
}

fn described(found: &Found) -> Object {
    let whole = |value: Option<u64>| value.map_or_else(|| "null".into(), |value| value.to_string());
    let mut object = Object::default().text("key", String::from_utf8_lossy(&found.key));
    if std::str::from_utf8(&found.key).is_err() {
        let code: String = found.key.iter().map(|byte| format!("{byte:02x}")).collect();
        object = object.text("key_hex", code);
    }
    object
        .text("kind", found.family.form().to_string())
        .raw("items", &whole(found.info.items()))
        .raw("capacity", &whole(found.info.capacity()))
        .raw("filters", &whole(found.info.filters()))
        .raw("redis_bytes", &whole(found.info.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_keys_and_stay_in_their_directory() {
        for (key, name) in [
            (&b"seen"[..], "seen.bloom"),
            (b"urls:2024", "urls%3A2024.bloom"),
            (b"../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd.bloom"),
            (b".hidden", "%2Ehidden.bloom"),
            (b"caf\xc3\xa9\xff", "caf%C3%A9%FF.bloom"),
            (b"100%", "100%25.bloom"),
            (b"", "%.bloom"),
        ] {
            assert_eq!(place(Path::new("d"), key).unwrap(), Path::new("d").join(name));
        }
        assert!(place(Path::new("d"), &[b'a'; 300]).is_err());
    }
}
