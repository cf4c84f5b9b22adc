//! Mail to test with, made from a seed: people who write to each other, and senders who write the same to many.

use crate::measure::{Dice, word};

/// Words of a body.
pub const WORDS: usize = 60;

/// A message that nobody else gets.
pub fn personal(dice: &mut Dice) -> String {
    let mut text = format!("Hi {},", word(dice.below(5_000)));
    for _ in 0..WORDS {
        text.push(' ');
        text.push_str(&word(dice.rank(15)));
    }
    text
}

/// What a sender writes to many.
#[derive(Debug)]
pub struct Campaign {
    words: Vec<String>,
}

impl Campaign {
    /// A campaign of its own words.
    pub fn new(dice: &mut Dice) -> Self {
        Self { words: (0..WORDS).map(|_| word(dice.rank(15))).collect() }
    }

    /// A copy with another amount, another address, other capitals and spaces.
    pub fn copy(&self, dice: &mut Dice) -> String {
        let greeting = format!("DEAR customer {}, you have won ${}", dice.roll(), dice.below(1_000_000));
        let address = format!("https://{}.example/{:x}?id={}", word(dice.below(1_000)), dice.roll(), dice.roll());
        let body: Vec<String> = self.words.iter().map(|word| disguised(dice, word)).collect();
        format!("{greeting}{}{} {address}", spaces(dice), body.join(&spaces(dice)))
    }

    /// The same with the name of the recipient and one word of the body changed.
    pub fn edited(&self, dice: &mut Dice) -> String {
        let mut words = self.words.clone();
        words[dice.below(WORDS as u64) as usize] = word(40_000 + dice.below(40_000));
        let body: Vec<String> = words.iter().map(|word| disguised(dice, word)).collect();
        format!(
            "Dear {}, {} https://{}.example",
            word(80_000 + dice.below(5_000)),
            body.join(&spaces(dice)),
            dice.roll()
        )
    }
}

/// A word in capitals, or with a character in it that nobody sees, or as it is.
fn disguised(dice: &mut Dice, word: &str) -> String {
    match dice.below(8) {
        0 => word.to_uppercase(),
        1 => format!("{}\u{200b}{}", &word[..1], &word[1..]),
        _ => word.to_string(),
    }
}

fn spaces(dice: &mut Dice) -> String {
    [" ", "  ", "\n", "\r\n\t"][dice.below(4) as usize].to_string()
}
