//! The power cut. The data folder is on an ext4 image inside an XFS image; the cut is a clone of the inner image, taken
//! below the ext4 while the server writes. What the server had not yet made the file system write is not in it. The
//! clone is mounted, the server started on it, and everything asked for; the load goes on from there, ten cuts in a row.
//! Filters are made, renamed, swapped, copied and loaded meanwhile: [`crate::structure`] says what must be left of that.
//!
//! The time of a cut is taken just before the clone begins. The clone shows an instant between its begin and its end
//! (`clone` in the table is the longest), so an age told here is too small by at most that. It is a simulation: a drive
//! that loses or reorders what it said it had flushed is not part of it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::load::Load;
use crate::options::Options;
use crate::random::Random;
use crate::report::Row;
use crate::server;
use crate::structure;
use crate::subject::{Kind, Policy};
use crate::system::{clone_image, copy_folder, now, run};
use crate::wire::Wire;

/// Cuts in a row on one file system, each going on from what the one before left.
const CHAIN: u64 = 10;
const SECOND: u64 = 1_000_000_000;

/// A mounted image.
struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn new(image: &Path, folder: &'a Path) -> Result<Mount<'a>, String> {
        fs::create_dir_all(folder).map_err(|error| format!("make {}: {error}", folder.display()))?;
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(folder))
            .map_err(|error| format!("the power drill needs loop mounts (root, /dev/loop*): {error}"))?;
        Ok(Mount(folder))
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        // The killed server's last descriptors may take a moment to close.
        for _ in 0..50 {
            if run(Command::new("umount").arg(self.0)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("drill: {} stays mounted", self.0.display());
    }
}

fn image(path: &Path, size: u64, make: &str) -> Result<(), String> {
    let file = fs::File::create(path).and_then(|file| file.set_len(size));
    file.map_err(|error| format!("make {}: {error}", path.display()))?;
    run(Command::new(make).arg("-q").arg(path)).map(drop)
}

/// Mounts of a drill must not outlive it: it runs in a mount namespace of its own (not its parent's), which the kernel
/// clears away with the last process in it.
pub fn own_namespace() -> Result<(), String> {
    let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt"));
    match (of("self"), of(&std::os::unix::process::parent_id().to_string())) {
        (Ok(own), Ok(parent)) if own != parent => Ok(()),
        _ => Err("this drill mounts file systems: run it by scripts/drill, which gives it mounts of its own".into()),
    }
}

pub fn drill(options: &Options, policy: Policy) -> Result<Row, String> {
    own_namespace()?;
    let subject = &options.subject;
    let cuts = options.runs.unwrap_or(200);
    let outer = options.work.join("outer.img");
    image(&outer, 16 << 30, "mkfs.xfs")?;
    let images = options.work.join("images");
    let _outer = Mount::new(&outer, &images)?;
    let (live, next, cut) = (images.join("live.img"), images.join("next.img"), images.join("cut.img"));
    let folder = options.work.join("disk");
    let log = options.work.join("server.log");
    let mut random = Random::new(options.seed, 0xc07);
    let data = folder.join("data");
    let fresh_load = |turn| Load::with_structure(options.seed, turn, options.connections, &data);
    let start = || structure::lay_out(&data).and_then(|()| server::must_start(subject, &data, policy, &log));
    let mut load = fresh_load(0);
    let mut disk = None;
    let (mut acknowledged, mut asked, mut lost, mut lossy, mut loaded) = (0, 0, 0, 0, 0_u64);
    let (mut changes, mut changes_lost, mut oldest_change, mut told_apart) = (0, 0, 0_u64, 0);
    let mut cut_so_far = 0;
    let (mut oldest, mut slowest_start, mut longest_clone) = (0_u64, Duration::ZERO, 0);
    for turn in 0..cuts {
        // A control has found enough when it has found both. How much there is to find depends on when the machine wrote what.
        if options.control && lost > 0 && told_apart > 0 {
            break;
        }
        cut_so_far += 1;
        let fresh = turn % CHAIN == 0 || options.control;
        if fresh {
            drop(disk.take());
            image(&live, 2 << 30, "mkfs.ext4")?;
            disk = Some(Mount::new(&live, &folder)?);
            load = fresh_load(turn);
        }
        let server = start()?;
        let address = server.address;
        let mut wire = Wire::connect(address, Duration::from_secs(60)).map_err(|error| error.to_string())?;
        subject.reserve(&mut wire).map_err(|error| error.to_string())?;

        // The cut falls anywhere in the second; every other time snapshots are being written meanwhile.
        let mut length = options.seconds * (0.75 + random.below(500) as f64 / 1000.0);
        let saving = turn % 2 == 1;
        let mut pause = Duration::from_millis(20 + random.below(400));
        if saving && turn % 4 == 3 {
            // Two snapshots with nothing written between their beginnings, and the cut amid the second.
            subject.save(&mut wire).map_err(|error| error.to_string())??;
            (pause, length) = (Duration::ZERO, random.below(80) as f64 / 1000.0);
        }
        let stop = AtomicBool::new(false);
        let begin = now();
        let (at, end) = std::thread::scope(|scope| {
            let writing = scope.spawn(|| load.run(subject, address, &stop, options.pace));
            let snapshots = saving.then(|| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::sleep(pause);
                        if subject.save(&mut wire).is_err() {
                            break;
                        }
                    }
                })
            });
            std::thread::sleep(Duration::from_secs_f64(length));
            let at = now();
            let cloned = clone_image(&live, &cut);
            let end = now();
            stop.store(true, Ordering::Relaxed);
            let killed = server.kill();
            let written = writing.join().unwrap_or_else(|_| Err("the load panicked".into()));
            if let Some(snapshots) = snapshots {
                let _ = snapshots.join();
            }
            cloned.and(killed).and(written).map(|()| (at, end))
        })?;
        load.refused()?;
        longest_clone = longest_clone.max(end - at);
        loaded += at - begin;
        acknowledged += load.acknowledged(at);

        // The clone stays as it was cut, for inspection; its copy is started on.
        drop(disk.take());
        clone_image(&cut, &next)?;
        fs::rename(&next, &live).map_err(|error| format!("{}: {error}", next.display()))?;
        disk = Some(Mount::new(&live, &folder)?);
        let server = start()
            .map_err(|what| format!("cut {turn}: {what}\nthe cut image is cut.img inside {}", outer.display()))?;
        slowest_start = slowest_start.max(server.started);
        let counts_until = match policy {
            Policy::Always => at,
            Policy::EverySecond => at.saturating_sub(SECOND),
            Policy::Never => 0,
        };
        let verdict = load.check(subject, server.address, at, counts_until, true)?;
        server.kill()?;
        asked += verdict.adds.asked;
        lost += verdict.adds.lost;
        lossy += u64::from(verdict.adds.lost > 0);
        changes += verdict.structure.made;
        changes_lost += verdict.structure.lost;
        oldest_change = oldest_change.max(verdict.structure.oldest.map_or(0, |first| at - first));
        told_apart += verdict.structure.told_apart;
        let age = verdict.adds.oldest.map_or(0, |first| at - first);
        oldest = oldest.max(age);
        // Whoever loses what it may lose answers all the same.
        let answered = match verdict.adds.errors {
            0 => Ok(()),
            errors => Err(format!("{errors} items have no answer: {}", verdict.adds.error.as_deref().unwrap_or(""))),
        };
        let fine = match policy {
            Policy::Always => verdict.nothing_lost(subject),
            Policy::EverySecond if age > SECOND => {
                let (lost, age) = (verdict.adds.lost, age as f64 / 1e9);
                Err(format!("{lost} adds lost, the oldest acknowledged {age:.3} s before the cut; 1.0 s is allowed"))
            }
            Policy::EverySecond => verdict.counts.verdict(subject.kind).and(verdict.structure.verdict()),
            // Nothing is promised of when, but it is one moment.
            Policy::Never => verdict.structure.verdict(),
        };
        answered.and(fine).map_err(|what| {
            let kept = options.work.join("found");
            let _ = copy_folder(&data, &kept);
            let (outer, kept) = (outer.display(), kept.display());
            format!("cut {turn}: {what}\nthe cut image is cut.img inside {outer}, the folder after the start is {kept}")
        })?;
    }
    Ok(Row::new("power cut", policy)
        .number("cuts", cut_so_far)
        .text("acknowledged/s", format!("{:.0}", acknowledged as f64 / (loaded as f64 / 1e9)))
        .number("acknowledged", acknowledged)
        .number("asked", asked)
        .number("lost", lost)
        .number("cuts with loss", lossy)
        .text("oldest lost", format!("{:.3} s", oldest as f64 / 1e9))
        .number("structural writes", changes)
        .number("of them lost", changes_lost)
        .text("oldest of these", format!("{:.3} s", oldest_change as f64 / 1e9))
        .text("slowest start", format!("{:.0} ms", slowest_start.as_secs_f64() * 1e3))
        .text("clone", format!("{:.1} ms", longest_clone as f64 / 1e6))
        // A control run has to find the lost adds, and two names that are swapped.
        .found(if options.control && subject.kind == Kind::Bloomgate { lost.min(told_apart) } else { lost }))
}
