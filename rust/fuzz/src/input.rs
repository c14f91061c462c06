//! Where inputs come from: corpus, vectors, dictionary, mutation. Knows no format.

use crate::targets::{Target, hash};
use std::collections::HashSet;
use std::path::Path;

/// No new input is longer: most faults need little, and many small inputs find more than few large ones.
const LONGEST: usize = 256;

/// No seed is longer.
const LONGEST_SEED: usize = 1024;

/// The most inputs that are kept for their shape.
const MOST_KEPT: usize = 8192;

/// splitmix64: small, fast, the same everywhere.
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or(0)
    }

    fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Makes the inputs of one job.
pub struct Source {
    random: Random,
    dictionary: &'static [&'static [u8]],
    kept: Vec<Vec<u8>>,
    shapes: HashSet<u64>,
    seeds_left: usize,
}

impl Source {
    pub fn new(target: &Target, random: Random) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut kept = Vec::new();
        read_folder(&root.join("corpus").join(target.name), &mut kept);
        if let Some(folder) = target.vectors {
            read_folder(&root.join("../../tests/vectors").join(folder), &mut kept);
        }
        kept.push(Vec::new());
        Source {
            random,
            dictionary: target.dictionary,
            seeds_left: kept.len(),
            kept,
            shapes: HashSet::new(),
        }
    }

    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }

    /// Every seed as it is; then ever new inputs.
    pub fn next(&mut self) -> Vec<u8> {
        if let Some(left) = self.seeds_left.checked_sub(1) {
            self.seeds_left = left;
            return self.kept[left].clone();
        }
        let mut input = match self.random.below(4) {
            0 => self.generate(),
            _ => self.random.one_of(&self.kept).clone(),
        };
        for _ in 0..=self.random.below(4) {
            self.mutate(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    /// Keeps an input whose frames have a shape not seen before.
    pub fn is_new(&mut self, shape: u64, input: &[u8]) -> bool {
        let is_new = self.kept.len() < MOST_KEPT && self.shapes.insert(shape);
        if is_new {
            self.kept.push(input.to_vec());
        }
        is_new
    }

    fn generate(&mut self) -> Vec<u8> {
        let mut input = Vec::new();
        for _ in 0..self.random.below(16) {
            let word = *self.random.one_of(self.dictionary);
            input.extend_from_slice(word);
        }
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.random.below(input.len() + 1);
        let size = self.random.below(16).min(input.len() - at);
        match self.random.below(8) {
            0 | 1 => {
                let word = *self.random.one_of(self.dictionary);
                input.splice(at..at, word.iter().copied());
            }
            2 => {
                let word = *self.random.one_of(self.dictionary);
                input.splice(at..at + size, word.iter().copied());
            }
            3 => {
                input.drain(at..at + size);
            }
            4 => {
                let again = input[at..at + size].to_vec();
                input.splice(at..at, again);
            }
            5 => {
                let other = self.random.one_of(&self.kept);
                let from = usize::try_from(hash(&at)).unwrap_or(0) % (other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            6 => {
                let byte = self.random.next().to_le_bytes()[0];
                input.insert(at, byte);
            }
            _ => {
                let bit = self.random.below(8);
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
        }
    }
}

/// In the order of names, so that a run is the same everywhere. The expectations beside vectors are no
/// inputs.
fn read_folder(folder: &Path, kept: &mut Vec<Vec<u8>>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.extension().is_none_or(|extension| extension != "json") {
            let bytes = std::fs::read(&path).unwrap_or_default();
            kept.extend((bytes.len() <= LONGEST_SEED).then_some(bytes));
        }
    }
}
