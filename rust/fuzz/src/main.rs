//! Fuzzes one decoder of `ferrule-wire` on the stable toolchain.
//!
//! ```text
//! ferrule-fuzz [TARGET] [--inputs N] [--seed N] [--seconds N] [--jobs N] [--save]
//! ferrule-fuzz TARGET FILE...          runs the files alone
//! ```
//!
//! Without a target all are fuzzed, one after another. `--inputs` (ten million) and `--seconds` hold for
//! each target, `--jobs` is one a core, `--save` adds inputs of new shapes to the corpus.
//!
//! The run is deterministic: the same target, number of inputs, seed and jobs try the same inputs (the
//! time limit can only end it early). Inputs are made from the corpus, the test vectors and a
//! dictionary; an input whose frames have a new shape is kept and built upon, which stands in for
//! coverage. An input that breaks an invariant is printed, written to `artifacts/`, and ends the run.
//!
//! Does not know what is right: that is in `targets` (invariants) and `reference` (plain decoders).

mod dictionary;
mod input;
mod memory;
mod reference;
mod requests;
#[path = "../../wire/tests/support/mod.rs"]
mod support;
mod targets;

use input::{Random, Source};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use targets::{TARGETS, Target};

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;

struct Settings {
    inputs: u64,
    seed: u64,
    seconds: u64,
    jobs: u64,
    save: bool,
    files: Vec<PathBuf>,
}

struct Finding {
    input: Vec<u8>,
    sentence: String,
}

const USAGE: &str =
    "usage: ferrule-fuzz [TARGET] [--inputs N] [--seed N] [--seconds N] [--jobs N] [--save]
       ferrule-fuzz TARGET FILE...";

fn main() -> ExitCode {
    let Some((targets, settings)) = parse(std::env::args().skip(1)) else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("{USAGE}\ntargets: {}", names.join(" "));
        return ExitCode::from(2);
    };
    std::panic::set_hook(Box::new(|_| {}));
    let run = |target| {
        if settings.files.is_empty() {
            fuzz(target, &settings)
        } else {
            replay(target, &settings.files)
        }
    };
    // Not `all`: that would stop at the first target that fails.
    let failed = targets.iter().filter(|target| !run(target)).count();
    ExitCode::from(u8::from(failed > 0))
}

fn parse(arguments: impl Iterator<Item = String>) -> Option<(&'static [Target], Settings)> {
    let mut arguments = arguments.peekable();
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut settings = Settings {
        inputs: 10_000_000,
        seed: 1,
        seconds: u64::MAX,
        jobs: u64::try_from(jobs).ok()?,
        save: false,
        files: Vec::new(),
    };
    let targets = match arguments.next_if(|argument| !argument.starts_with('-')) {
        None => &TARGETS[..],
        Some(name) => {
            let index = TARGETS.iter().position(|target| target.name == name)?;
            &TARGETS[index..=index]
        }
    };
    while let Some(argument) = arguments.next() {
        let place = match argument.as_str() {
            "--inputs" => &mut settings.inputs,
            "--seed" => &mut settings.seed,
            "--seconds" => &mut settings.seconds,
            "--jobs" => &mut settings.jobs,
            "--save" => {
                settings.save = true;
                continue;
            }
            option if option.starts_with('-') => return None,
            file => {
                settings.files.push(PathBuf::from(file));
                continue;
            }
        };
        *place = arguments.next()?.replace('_', "").parse().ok()?;
    }
    (settings.jobs > 0).then_some((targets, settings))
}

/// Checks one input; a panic is a broken invariant like any other.
fn check(target: &Target, input: &[u8]) -> Result<u64, String> {
    catch_unwind(AssertUnwindSafe(|| (target.check)(input))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("never panics: {}", text.unwrap_or("unknown panic")))
    })
}

/// True when nothing was found.
fn fuzz(target: &Target, settings: &Settings) -> bool {
    let started = Instant::now();
    let stop = AtomicBool::new(false);
    let outcomes: Vec<(u64, usize, Option<Finding>)> = std::thread::scope(|scope| {
        let jobs = (0..settings.jobs).map(|job| {
            let stop = &stop;
            scope.spawn(move || run_job(target, settings, job, started, stop))
        });
        let jobs: Vec<_> = jobs.collect();
        jobs.into_iter()
            .map(|job| job.join().expect("a job catches every panic"))
            .collect()
    });
    let inputs: u64 = outcomes.iter().map(|outcome| outcome.0).sum();
    let shapes = outcomes.iter().map(|outcome| outcome.1).max().unwrap_or(0);
    let seconds = started.elapsed().as_secs_f64();
    let name = target.name;
    println!("{name}: {inputs} inputs, {shapes} shapes, {seconds:.1} s");
    let findings: Vec<_> = outcomes
        .into_iter()
        .filter_map(|outcome| outcome.2)
        .collect();
    for finding in &findings {
        report(target, finding);
    }
    findings.is_empty()
}

fn run_job(
    target: &Target,
    settings: &Settings,
    job: u64,
    started: Instant,
    stop: &AtomicBool,
) -> (u64, usize, Option<Finding>) {
    let limit = Duration::from_secs(settings.seconds);
    let quota = settings.inputs / settings.jobs + u64::from(job < settings.inputs % settings.jobs);
    let mut inputs = Source::new(target, Random::new(settings.seed.wrapping_add(job << 32)));
    for done in 0..quota {
        if done % 256 == 0 && (stop.load(Ordering::Relaxed) || started.elapsed() >= limit) {
            return (done, inputs.shapes(), None);
        }
        let input = inputs.next();
        match check(target, &input) {
            Ok(shape) => {
                if inputs.is_new(shape, &input) && settings.save {
                    save(&folder("corpus").join(target.name), &input);
                }
            }
            Err(sentence) => {
                stop.store(true, Ordering::Relaxed);
                return (done + 1, inputs.shapes(), Some(Finding { input, sentence }));
            }
        }
    }
    (quota, inputs.shapes(), None)
}

/// True when no file breaks an invariant.
fn replay(target: &Target, files: &[PathBuf]) -> bool {
    let mut is_clean = true;
    for file in files {
        let input = std::fs::read(file).expect("a readable file");
        if let Err(sentence) = check(target, &input) {
            report(target, &Finding { input, sentence });
            is_clean = false;
        }
    }
    is_clean
}

fn report(target: &Target, finding: &Finding) {
    let file = save(&folder("artifacts"), &finding.input);
    println!("{}: broken: {}", target.name, finding.sentence);
    println!("  input: \"{}\"", finding.input.escape_ascii());
    println!("  again: ferrule-fuzz {} {}", target.name, file.display());
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn save(folder: &Path, input: &[u8]) -> PathBuf {
    let file = folder.join(format!("{:016x}", targets::hash(&input)));
    std::fs::create_dir_all(folder).expect("a folder that can be made");
    std::fs::write(&file, input).expect("a file that can be written");
    file
}
