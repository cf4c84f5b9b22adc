//! How soon a server is back: from a snapshot in the page cache, from one that is only on disk, and from the log.

use super::Choice;
use super::load;
use super::process::{self, Launch, Process};
use super::stage::{self, Program, Side, Stock};
use super::table::{Line, Promise, Table, spread};
use super::traffic::{Dialect, Items};
use super::wire::{Answer, Talk};
use crate::args::Fault;
use crate::clock;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

const CACHED: &str = "restart, snapshot in the page cache, two threads";
const COLD: &str = "restart, snapshot on disk only, over a direct read";
const REPLAY: &str = "restart, replay of the log";

/// Measures all three and judges them.
pub fn run(choice: &Choice, table: &mut Table) -> Result<(), Fault> {
    let why = |what: &str| match choice.dialect {
        Dialect::Redis => Some("redis-server has no filters".to_string()),
        Dialect::Filters => choice.skips(what, 0),
    };
    let mut wanted = [CACHED, COLD, REPLAY].map(|what| (what, why(what)));
    for (what, why) in &mut wanted {
        if let Some(why) = why {
            table.leave_out(what, why);
        }
    }
    let [cached, cold, replay] = wanted.map(|(_, why)| why.is_none());
    if cached || cold {
        from_snapshot(choice, table, cached, cold)?;
    }
    if replay {
        from_log(choice, table)?;
    }
    Ok(())
}

fn side(choice: &Choice) -> Side {
    Side { program: Program::Ours, threads: choice.both().len(), fsync: "every-second", pinned: false, stock: vec![] }
}

/// Starts the server and waits until the last item of `filter` is found; a "no" in between would be a lie and ends it.
fn start_with(launch: &Launch, filter: &str, last: u64) -> Result<Process, Fault> {
    let item = format!("{last:012}");
    let server = Process::start_until(launch, |talk| Ok(talk.ask(&["BF.EXISTS", filter, &item])?.integer().is_some()))?;
    match server.talk()?.must(&["BF.EXISTS", filter, &item])?.integer() {
        Some(1) => Ok(server),
        other => {
            Err(Fault(format!("after the restart BF.EXISTS {filter} {item} answers {other:?}, it was added before")))
        }
    }
}

fn from_snapshot(choice: &Choice, table: &mut Table, cached: bool, cold: bool) -> Result<(), Fault> {
    // 960 million items at 1 % take 1.4 GB, since each stage to come has a share of the rate; 20 million of them touch every page.
    let (capacity, filled) = if choice.quick { (8_000_000, 100_000) } else { (960_000_000, 20_000_000) };
    let launch = stage::launch(&side(choice), "restart", choice);
    let server = Process::start(&launch)?;
    stage::put(&server, &Stock::Filter { name: "huge", capacity, filled, hash: None }, choice)?;
    let mut talk = server.talk()?;
    let bytes = talk.must(&["BF.INFO", "huge", "SIZE"])?.integer().unwrap_or(0) as f64;
    talk.must(&["SAVE"])?;
    server.shut_down()?;
    let (mut warm, mut from_disk, mut direct) = (Vec::new(), Vec::new(), Vec::new());
    // What the page cache is full of is not free, and would have to be thrown out while the server starts. Where this is not
    // allowed the rows are slower.
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "1");
    for _ in 0..choice.rounds.unwrap_or(5) {
        for path in process::files(&launch.folder)? {
            read_all(&path, 0)?;
        }
        touch_free_memory(choice)?;
        let server = start_with(&launch, "huge", filled - 1)?;
        warm.push(bytes / server.start_time.as_secs_f64());
        server.shut_down()?;
        if !cold {
            continue;
        }
        for path in process::files(&launch.folder)? {
            evict(&path)?;
        }
        touch_free_memory(choice)?;
        let server = start_with(&launch, "huge", filled - 1)?;
        from_disk.push(bytes / server.start_time.as_secs_f64());
        server.shut_down()?;
        let (mut read, begun) = (0, Instant::now());
        for path in process::files(&launch.folder)? {
            evict(&path)?;
            read += read_all(&path, libc::O_DIRECT)?;
        }
        direct.push(read as f64 / begun.elapsed().as_secs_f64());
    }
    let gigabytes = |rates: &[f64]| {
        let (low, high) = spread(rates);
        format!("{:.2} GB/s ({:.2}-{:.2})", clock::median(rates) / 1e9, low / 1e9, high / 1e9)
    };
    let size = format!("{:.2} GB", bytes / 1e9);
    if cached {
        table.add(Line {
            what: CACHED.to_string(),
            promise: Promise::AtLeast(2.0),
            figure: clock::median(&warm) / 1e9,
            unit: "GB/s",
            peer: String::new(),
            ours: gigabytes(&warm),
            note: size.clone(),
            void: None,
        });
    }
    if cold {
        let ratios: Vec<f64> = from_disk.iter().zip(&direct).map(|(ours, direct)| ours / direct).collect();
        table.add(Line {
            what: COLD.to_string(),
            promise: Promise::AtLeast(0.6),
            figure: clock::median(&ratios),
            unit: "x",
            peer: format!("{:.2} GB/s", clock::median(&direct) / 1e9),
            ours: gigabytes(&from_disk),
            note: size,
            void: None,
        });
    }
    Ok(())
}

/// Touches nearly all the memory that is free, by two threads, and gives it back. Before each start: a virtual machine whose
/// host lends it memory on demand, and takes back what is free, finds new memory at 0.3 to 3 GB/s; 90 % of a start was
/// the kernel clearing pages that the host had to find first (by perf), and the row measured the host. What was just
/// touched is there, as all memory is on a machine of its own.
fn touch_free_memory(choice: &Choice) -> Result<(), Fault> {
    if choice.quick {
        return Ok(());
    }
    // For the page cache that the rows are about, and for what else runs.
    const LEFT: u64 = 3 << 30;
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let free =
        text.lines().find_map(|line| line.strip_prefix("MemFree:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let free = free.ok_or_else(|| Fault("/proc/meminfo does not tell MemFree".to_string()))? * 1024;
    let bytes = free.saturating_sub(LEFT) as usize;
    let mut memory: Vec<u8> = Vec::new();
    memory.try_reserve_exact(bytes).map_err(|_| Fault(format!("no memory for {bytes} bytes")))?;
    std::thread::scope(|scope| {
        for half in memory.spare_capacity_mut()[..bytes].chunks_mut(bytes.div_ceil(2).max(1)) {
            scope.spawn(|| half.iter_mut().step_by(4096).for_each(|byte| _ = byte.write(1)));
        }
    });
    Ok(())
}

/// Reads a whole file in pieces of a MiB; how many bytes it had.
fn read_all(path: &Path, flags: libc::c_int) -> Result<usize, Fault> {
    const PIECE: usize = 1 << 20;
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let mut file = opened.map_err(|error| Fault(format!("{}: {error}", path.display())))?;
    // A direct read wants its memory aligned: to 4096 at most, on any disk met so far.
    let mut memory = vec![0u8; PIECE + 4096];
    let from = memory.as_ptr().align_offset(4096);
    let piece = &mut memory[from..from + PIECE];
    let mut read = 0;
    loop {
        match file.read(piece)? {
            0 => return Ok(read),
            got => read += got,
        }
    }
}

/// Drops a file from the page cache; what is not yet on disk cannot be dropped, hence the sync.
fn evict(path: &Path) -> Result<(), Fault> {
    let file = File::open(path)?;
    file.sync_all()?;
    // SAFETY: the descriptor is open; the call takes no pointer.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        code => Err(std::io::Error::from_raw_os_error(code).into()),
    }
}

fn from_log(choice: &Choice, table: &mut Table) -> Result<(), Fault> {
    let count: u64 = if choice.quick { 200_000 } else { 20_000_000 };
    let mut rates = Vec::new();
    for round in 0..choice.rounds.unwrap_or(3) {
        let mut launch = stage::launch(&side(choice), &format!("replay-{round}"), choice);
        // A snapshot that it makes by itself, from 64 MiB of log on, would leave less to replay than is counted below.
        launch.words.splice(0..0, ["env".to_string(), "BLOOMGATE_SNAPSHOT_LOG=1TiB".to_string()]);
        let server = Process::start(&launch)?;
        stage::put(&server, &Stock::Filter { name: "logged", capacity: 5 * count, filled: count, hash: None }, choice)?;
        let logged = log_bytes(&mut server.talk()?)?;
        // 16 bytes a key; of a hundred keys less than one is taken for a repeat, which needs no record.
        if logged < 16 * count / 100 * 99 {
            return Err(Fault(format!(
                "the log has {logged} bytes: less than {count} keys, so a replay of them cannot be measured"
            )));
        }
        server.kill()?;
        let server = start_with(&launch, "logged", count - 1)?;
        rates.push(count as f64 / server.start_time.as_secs_f64());
        // Rule one, after a kill: every item that was acknowledged is there.
        let traffic = Dialect::Filters.add_many("logged", Items::span(0, count), 50);
        let (asked, new) = load::run_out(&server, &traffic, choice.client())?;
        if asked != count || new != 0 {
            return Err(Fault(format!("{new} of {count} acknowledged items were lost by kill -9")));
        }
        server.kill()?;
        std::fs::remove_dir_all(&launch.folder)?;
    }
    let (low, high) = spread(&rates);
    table.add(Line {
        what: REPLAY.to_string(),
        promise: Promise::AtLeast(10.0),
        figure: clock::median(&rates) / 1e6,
        unit: "M/s",
        peer: String::new(),
        ours: format!("({:.1}-{:.1})", low / 1e6, high / 1e6),
        note: format!("{:.1} M records, none lost by kill -9", count as f64 / 1e6),
        void: None,
    });
    Ok(())
}

/// How long the log is that a start would read.
fn log_bytes(talk: &mut Talk) -> Result<u64, Fault> {
    let Answer::Bulk(text) = talk.must(&["INFO", "persistence"])? else {
        return Err(Fault("INFO persistence is no text".to_string()));
    };
    let text = String::from_utf8_lossy(&text);
    let told = text.lines().find_map(|line| line.strip_prefix("log_bytes:")?.trim().parse().ok());
    told.ok_or_else(|| Fault("INFO persistence does not tell log_bytes".to_string()))
}
