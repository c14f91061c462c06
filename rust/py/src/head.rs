//! The head of a response as Python sees it. Knows text: header values are Latin-1.

use ferrule_wire::http;
use pyo3::prelude::*;

/// The head of a response.
#[pyclass(frozen)]
pub struct ResponseHead {
    head: http::Head,
}

/// Whether a head has fields that somebody has to take note of.
pub fn is_notable(head: &http::Head) -> bool {
    head.encoding().is_some() || head.keep_alive().is_some() || head.get(b"set-cookie").is_some()
}

impl From<http::Head> for ResponseHead {
    fn from(head: http::Head) -> Self {
        ResponseHead { head }
    }
}

fn latin_1(value: &[u8]) -> String {
    value.iter().copied().map(char::from).collect()
}

#[pymethods]
impl ResponseHead {
    /// The status code.
    #[getter]
    fn status(&self) -> u16 {
        self.head.status()
    }

    /// What the body is: one of the KIND constants.
    #[getter]
    fn kind(&self) -> u8 {
        self.head.kind() as u8
    }

    /// The lower-cased Content-Encoding when it is not identity.
    #[getter]
    fn encoding(&self) -> Option<&str> {
        self.head.encoding()
    }

    /// Seconds of `Keep-Alive: timeout=n`.
    #[getter]
    fn keep_alive(&self) -> Option<u32> {
        self.head.keep_alive()
    }

    /// Whether there is something to take note of: a content encoding, a Keep-Alive time or a cookie.
    #[getter]
    fn notable(&self) -> bool {
        is_notable(&self.head)
    }

    /// The first value of a header (latin-1), the name compared without case.
    #[pyo3(signature = (name, /))]
    fn get(&self, name: &str) -> Option<String> {
        self.head.get(name.as_bytes()).map(latin_1)
    }

    /// Every value of a header, in order.
    #[pyo3(signature = (name, /))]
    fn get_all(&self, name: &str) -> Vec<String> {
        self.head.get_all(name.as_bytes()).map(latin_1).collect()
    }

    /// Status and number of headers, no content.
    fn __repr__(&self) -> String {
        let fields = self.head.iter().count();
        format!(
            "<ResponseHead {} with {fields} headers>",
            self.head.status()
        )
    }
}
