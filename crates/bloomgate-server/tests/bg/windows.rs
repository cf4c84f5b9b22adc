//! Windows: items stay for the window and go after it, by the time that passes while the server runs.

use bloomgate_server::engine::clock::Clock;

use super::harness::{NOW_MS, Server};

#[test]
fn items_stay_for_the_window_and_go_after_it() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE w KIND rotating CAPACITY 4000 RATE 0.01 WINDOW 60 GENERATIONS 6");
    client.items("BG.ADD w", 0..1_000);
    let mut gone_at = None;
    for tenth in 0..800 {
        let now = f64::from(tenth) / 10.0;
        server.at(now);
        server.engine.turn_windows(1).unwrap();
        if tenth % 5 == 0 {
            let found = client.found("w", 0..1_000);
            // Kept for the window at least, and for a generation more at most.
            if now < 60.0 {
                assert_eq!(found, 1_000, "at {now} s");
            } else if now > 70.2 {
                assert!(found < 40, "{found} at {now} s");
                gone_at.get_or_insert(now);
            }
        }
    }
    assert!(gone_at.is_some());
}

#[test]
fn an_add_tells_the_time_itself_and_a_repeat_keeps_an_item() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE w KIND rotating CAPACITY 4000 WINDOW 10 GENERATIONS 2");
    client.items("BG.ADD w", 0..100);
    server.at(8.0);
    client.items("BG.ADD w", 0..50);
    server.at(16.0);
    // Nobody turned the windows: this add does.
    client.items("BF.MADD w", 1_000..1_001);
    assert_eq!(client.found("w", 0..50), 50);
    assert!(client.found("w", 50..100) < 10);
}

#[test]
fn a_clock_that_jumps_between_two_runs_ends_no_window_early() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE w KIND rotating CAPACITY 4000 WINDOW 60 GENERATIONS 6");
    server.engine.turn_windows(1).unwrap();
    client.items("BG.ADD w", 0..100);
    // The server stops, somebody sets the clock to next year, and it starts again from an image of the filter.
    let dump = client.ask("BG.DUMP w").array()[1].bytes().to_vec();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("w.bloom"), dump).unwrap();
    let server = Server::importing(folder.path());
    let mut client = server.client(0);
    let year = 365.0 * 86_400.0;
    server.at(year);
    client.ok("BG.BUILD w FROM w.bloom");
    for second in 0..60 {
        server.at(year + f64::from(second));
        server.engine.turn_windows(1).unwrap();
        assert_eq!(client.found("w", 0..100), 100, "{second} s after the start");
    }
    for second in 60..75 {
        server.at(year + f64::from(second));
        server.engine.turn_windows(1).unwrap();
    }
    assert!(client.found("w", 0..100) < 10);
}

#[test]
fn a_clock_that_jumps_between_two_runs_on_a_folder_ends_no_window_early() {
    const YEAR_MS: i64 = 365 * 86_400_000;
    for (jump_ms, snapshot) in [(YEAR_MS, false), (YEAR_MS, true), (-YEAR_MS, false), (-YEAR_MS, true)] {
        let folder = tempfile::tempdir().unwrap();
        let (server, keeping) = Server::kept_by(folder.path(), Clock::fixed(NOW_MS));
        let mut client = server.client(0);
        client.ok("BG.CREATE w KIND rotating CAPACITY 4000 WINDOW 60 GENERATIONS 6");
        let run = |server: &Server, from_ms: u64, seconds: std::ops::Range<u64>| {
            for second in seconds {
                server.engine.clock.set(from_ms + second * 1_000);
                server.engine.turn_windows(1).unwrap();
            }
        };
        run(&server, NOW_MS, 0..1);
        client.items("BG.ADD w", 0..100);
        run(&server, NOW_MS, 1..26);
        client.items("BG.ADD w", 100..200);
        if snapshot {
            keeping.snapshot().unwrap();
        }
        server.engine.journal.flush();
        drop((client, keeping));
        drop(server);
        // Somebody has set the clock meanwhile.
        let now_ms = NOW_MS.saturating_add_signed(jump_ms);
        let (server, _keeping) = Server::kept_by(folder.path(), Clock::fixed(now_ms));
        let mut client = server.client(0);
        let mut at = |second: u64| {
            run(&server, now_ms, second..second + 1);
            (client.found("w", 0..100), client.found("w", 100..200))
        };
        for second in 0..90 {
            let (first, second_hundred) = at(second);
            // 25 seconds of the first hundred's minute had passed.
            assert!(first == 100 || second > 34, "{first} after {second} s, jump {jump_ms}, snapshot {snapshot}");
            assert!(second_hundred == 100 || second > 59, "{second_hundred} after {second} s, {jump_ms}, {snapshot}");
            assert!(first < 10 || second <= 60, "{first} after {second} s, jump {jump_ms}, snapshot {snapshot}");
        }
        assert!(at(90).1 < 10, "jump {jump_ms}, snapshot {snapshot}");
    }
}

#[test]
fn only_turns_are_logged_and_gone_filters_are_left_alone() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE w KIND rotating CAPACITY 4000 WINDOW 60 GENERATIONS 6");
    client.ok("BG.CREATE b KIND blocked CAPACITY 4000");
    let log = || server.engine.journal.appended();
    let before = log();
    assert_eq!(server.engine.turn_windows(1).unwrap(), 1, "the first reading starts the clock");
    for tenth in 1..=100 {
        server.at(f64::from(tenth) / 10.0);
        let turned = server.engine.turn_windows(1).unwrap();
        assert_eq!(turned, usize::from(tenth == 100), "at {tenth}");
    }
    assert_eq!(log(), before + 2);
    // A clock that stands or goes back moves nothing.
    server.at(3.0);
    assert_eq!(server.engine.turn_windows(1).unwrap(), 0);
    assert_eq!(server.engine.names.windows().len(), 1);
    let entry = server.engine.find(b"w").unwrap();
    client.ask("DEL w");
    assert!(server.engine.names.windows().is_empty());
    server.at(500.0);
    assert_eq!(server.engine.turn_windows(1).unwrap(), 0);
    assert_eq!(entry.charged(), 0);
}
