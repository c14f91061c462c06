//! Which Python values have an exact JSON form. Knows types and ranges; serialises nothing.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::fmt::Write as _;

/// The deepest nesting of arguments: the serialiser's own limit (254) less what a message puts around.
const MAX_DEPTH: usize = 250;

/// The longest part of a key that is repeated in a path.
const LONGEST_KEY: usize = 64;

/// Why a value has no exact JSON form, and the path to it, innermost part first.
struct Problem {
    path: Vec<String>,
    reason: String,
}

impl Problem {
    fn new(reason: impl Into<String>) -> Self {
        Problem {
            path: Vec::new(),
            reason: reason.into(),
        }
    }

    fn under(mut self, part: String) -> Self {
        self.path.push(part);
        self
    }
}

/// None when `value` has an exact JSON form, else the path to what has none, and the reason.
#[pyfunction]
#[pyo3(signature = (value, /))]
pub fn check_json(value: &Bound<'_, PyAny>) -> PyResult<Option<(String, String)>> {
    match check(value, 0)? {
        None => Ok(None),
        Some(problem) => {
            let path = problem.path.into_iter().rev().collect();
            Ok(Some((path, problem.reason)))
        }
    }
}

fn check(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Option<Problem>> {
    if let Ok(string) = value.cast::<PyString>() {
        return Ok(check_string(string, "string"));
    }
    if value.is_none() || value.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    if let Ok(integer) = value.cast::<PyInt>() {
        let fits = integer.extract::<i64>().is_ok() || integer.extract::<u64>().is_ok();
        return Ok((!fits).then(|| Problem::new("int exceeds 64 bits")));
    }
    if let Ok(float) = value.cast::<PyFloat>() {
        let is_finite = float.value().is_finite();
        return Ok((!is_finite).then(|| Problem::new("float is not finite")));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return check_dict(dict, depth);
    }
    if let Ok(list) = value.cast::<PyList>() {
        return check_items(list.iter(), depth);
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return check_items(tuple.iter(), depth);
    }
    let name = type_name(value);
    Ok(Some(Problem::new(format!("{name} has no JSON form"))))
}

fn check_string(string: &Bound<'_, PyString>, what: &str) -> Option<Problem> {
    let has_lone_surrogate = string.to_str().is_err();
    has_lone_surrogate.then(|| Problem::new(format!("{what} holds a lone surrogate")))
}

fn check_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    depth: usize,
) -> PyResult<Option<Problem>> {
    if depth == MAX_DEPTH {
        return Ok(Some(too_deep()));
    }
    for (index, item) in items.enumerate() {
        if let Some(problem) = check(&item, depth + 1)? {
            return Ok(Some(problem.under(format!("[{index}]"))));
        }
    }
    Ok(None)
}

fn check_dict(dict: &Bound<'_, PyDict>, depth: usize) -> PyResult<Option<Problem>> {
    if depth == MAX_DEPTH {
        return Ok(Some(too_deep()));
    }
    for (key, value) in dict.iter() {
        let Ok(key) = key.cast::<PyString>() else {
            let name = type_name(&key);
            return Ok(Some(Problem::new(format!("key is {name}, not str"))));
        };
        if let Some(problem) = check_string(key, "key") {
            return Ok(Some(problem));
        }
        if let Some(problem) = check(&value, depth + 1)? {
            return Ok(Some(problem.under(key_part(&key.to_string_lossy()))));
        }
    }
    Ok(None)
}

fn too_deep() -> Problem {
    Problem::new(format!("nested deeper than {MAX_DEPTH} levels"))
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    let name = value.get_type().name();
    name.map_or_else(
        |_| "value".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// `.key`, or `["any text"]` where a dot would mislead.
fn key_part(key: &str) -> String {
    let short: String = key.chars().take(LONGEST_KEY).collect();
    let is_name = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '$' | '/');
    if !short.is_empty() && short.chars().all(is_name) {
        return format!(".{short}");
    }
    let mut part = String::new();
    let _ = write!(part, "[{short:?}]");
    part
}
