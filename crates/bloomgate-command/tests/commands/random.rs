//! Whatever comes in, parsing answers: random words, and right commands with parts of them changed.

use bloomgate_command::{CommandQuery, Protocol, Reply, Request, command_reply, glob, parse};

use crate::table::every;
use crate::words;

/// Knuth's MMIX generator: fixed, so that a failure repeats.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

fn random_word(random: &mut Lcg, options: &[&'static str]) -> Vec<u8> {
    const NUMBERS: [&str; 16] = [
        "0",
        "1",
        "-1",
        "2",
        "100",
        "0.01",
        "1e-320",
        "-0",
        "nan",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "1e308",
        "+5",
        "007",
        ".",
    ];
    match random.below(6) {
        0 => Vec::new(),
        1 => NUMBERS[random.below(NUMBERS.len())].as_bytes().to_vec(),
        2 if !options.is_empty() => options[random.below(options.len())].as_bytes().to_vec(),
        3 => vec![random.below(256) as u8; random.below(5000)],
        _ => (0..random.below(12)).map(|_| random.below(256) as u8).collect(),
    }
}

#[test]
fn no_words_make_it_panic() {
    let mut random = Lcg(20_260_101);
    let specs: Vec<_> = every().collect();
    let (mut right, mut wrong) = (0u32, 0u32);
    for round in 0..200_000 {
        let spec = specs[round % specs.len()];
        let options: Vec<&'static str> = spec.options.iter().map(|option| option.name).collect();
        let mut line = if random.below(2) == 0 { words(spec.example.0) } else { words(&spec.name.replace('|', " ")) };
        for _ in 0..random.below(5) {
            let word = random_word(&mut random, &options);
            match random.below(3) {
                0 => line.push(word),
                1 => {
                    let at = random.below(line.len());
                    line.insert(at.max(1).min(line.len()), word);
                }
                _ => {
                    let at = random.below(line.len());
                    if at > 0 {
                        line[at] = word;
                    }
                }
            }
        }
        if random.below(8) == 0 {
            line.truncate(random.below(line.len() + 1));
        }
        let borrowed: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
        match parse(&borrowed) {
            Ok((spec, request)) => {
                right += 1;
                assert!(spec.arity.allows(borrowed.len()));
                assert!(spec.names_in(&borrowed).count() <= borrowed.len());
                if let Request::Command(query @ (CommandQuery::GetKeys(_) | CommandQuery::Info([_, ..]))) = request {
                    assert!(command_reply(&query).to_bytes(Protocol::Resp3).ends_with(b"\r\n"));
                }
            }
            Err(refusal) => {
                wrong += 1;
                let wire = Reply::Error(refusal).to_bytes(Protocol::Resp2);
                assert!(wire.len() > 3 && wire.len() <= 515);
                assert!(wire[..wire.len() - 2].iter().all(|&byte| byte >= b' ' && byte != 0x7f));
            }
        }
    }
    // Both happen often, or the words would test nothing.
    assert!(right > 20_000 && wrong > 20_000, "{right} right, {wrong} wrong");
}

#[test]
fn patterns_agree_with_a_plain_recursion() {
    fn recursive(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => recursive(rest, text) || (!text.is_empty() && recursive(pattern, &text[1..])),
            ([b'?', rest @ ..], [_, others @ ..]) => recursive(rest, others),
            ([literal, rest @ ..], [byte, others @ ..]) if literal == byte => recursive(rest, others),
            _ => false,
        }
    }
    let mut random = Lcg(7);
    let mut matched = 0;
    for _ in 0..50_000 {
        let mut draw = |alphabet: &[u8], most: usize| -> Vec<u8> {
            (0..random.below(most)).map(|_| alphabet[random.below(alphabet.len())]).collect()
        };
        let (pattern, text) = (draw(b"ab*?", 7), draw(b"ab", 8));
        let expected = recursive(&pattern, &text);
        matched += u32::from(expected);
        assert_eq!(glob::matches(&pattern, &text), expected, "{pattern:?} {text:?}");
    }
    assert!(matched > 5_000, "{matched}");
}

#[test]
fn random_patterns_with_classes_end() {
    let (mut random, mut matched) = (Lcg(9), 0);
    for _ in 0..100_000 {
        let pattern: Vec<u8> = (0..random.below(10)).map(|_| b"[]^-\\*?abc"[random.below(10)]).collect();
        let text: Vec<u8> = (0..random.below(6)).map(|_| b"abc]-"[random.below(5)]).collect();
        matched += u32::from(glob::matches(&pattern, &text));
    }
    // Enough of them match that classes were gone through to their ends.
    assert!((1_000..99_000).contains(&matched), "{matched}");
}
