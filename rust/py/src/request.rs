//! Requests and messages as Python asks for them. Knows how arguments cross; the encoding is
//! `ferrule-wire`'s.

use crate::refused;
use ferrule_wire::jsonrpc::Call;
use ferrule_wire::{Code, Fault, Splice, header_value, http};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::borrow::Cow;

/// Header fields as they come: a sequence of pairs, or None.
type Pairs<'py> = Option<Vec<(Bound<'py, PyString>, Bound<'py, PyString>)>>;

/// The fields as text. A lone surrogate is refused like any other character that no header can carry.
fn texts<'a>(pairs: &'a Pairs<'_>) -> PyResult<Vec<(&'a str, &'a str)>> {
    let pairs = pairs.as_deref().unwrap_or_default();
    let mut fields = Vec::with_capacity(pairs.len());
    for (index, (name, value)) in pairs.iter().enumerate() {
        let name = text(name, Code::HeaderName, index)?;
        fields.push((name, text(value, Code::HeaderValue, index)?));
    }
    Ok(fields)
}

fn text<'a>(string: &'a Bound<'_, PyString>, code: Code, index: usize) -> PyResult<&'a str> {
    let unsendable = |_| refused(Fault::new(code, index as u64, 0));
    string.to_str().map_err(unsendable)
}

/// One `bytes` from a request or a message.
fn to_bytes(
    py: Python<'_>,
    size: usize,
    copy: impl FnOnce(&mut [u8]),
) -> PyResult<Bound<'_, PyBytes>> {
    PyBytes::new_with(py, size, |out| {
        copy(out);
        Ok(())
    })
}

/// The unchanging part of a session's requests.
#[pyclass(frozen)]
pub struct RequestTemplate {
    template: http::RequestTemplate,
}

#[pymethods]
impl RequestTemplate {
    #[new]
    #[pyo3(signature = (method, target, headers, *, mirror = false))]
    fn new(
        method: &Bound<'_, PyString>,
        target: &Bound<'_, PyString>,
        headers: Vec<(Bound<'_, PyString>, Bound<'_, PyString>)>,
        mirror: bool,
    ) -> PyResult<Self> {
        let method = text(method, Code::RequestLine, 0)?;
        let target = text(target, Code::RequestLine, 1)?;
        let headers = Some(headers);
        let fields = texts(&headers)?;
        let template = http::RequestTemplate::new(method, target, &fields, mirror);
        Ok(RequestTemplate {
            template: template.map_err(refused)?,
        })
    }

    /// The whole HTTP request around a JSON-RPC request or notification.
    #[pyo3(signature = (id, method, name, params, meta, extra_meta, headers, /))]
    #[expect(clippy::too_many_arguments, reason = "one crossing a request")]
    fn request<'py>(
        &self,
        py: Python<'py>,
        id: Option<i64>,
        method: &Bound<'py, PyString>,
        name: Option<&Bound<'py, PyString>>,
        params: Option<&[u8]>,
        meta: Option<&[u8]>,
        extra_meta: Option<&[u8]>,
        headers: Pairs<'py>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let call = Call {
            id,
            method: text(method, Code::RequestLine, 0)?,
            params,
            meta,
            extra_meta,
        };
        let name = name.map(|name| text(name, Code::HeaderValue, 0));
        let fields = texts(&headers)?;
        let request = self.template.call(&call, name.transpose()?, &fields);
        let request = request.map_err(refused)?;
        to_bytes(py, request.len(), |out| request.copy_into(out))
    }

    /// The whole HTTP request around an already serialised message.
    #[pyo3(signature = (data, headers = None, /))]
    fn body<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        headers: Pairs<'py>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let fields = texts(&headers)?;
        let request = self.template.message(data, &fields).map_err(refused)?;
        to_bytes(py, request.len(), |out| request.copy_into(out))
    }

    /// The head alone, without Content-Length.
    #[pyo3(signature = (headers = None, /))]
    fn bare<'py>(&self, py: Python<'py>, headers: Pairs<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let fields = texts(&headers)?;
        let request = self.template.bare(&fields).map_err(refused)?;
        to_bytes(py, request.len(), |out| request.copy_into(out))
    }
}

/// A JSON-RPC request or notification; with `newline`, LF at the end.
#[pyfunction]
#[pyo3(signature = (id, method, params, meta, extra_meta, newline, /))]
pub fn encode_message<'py>(
    py: Python<'py>,
    id: Option<i64>,
    method: &Bound<'py, PyString>,
    params: Option<&[u8]>,
    meta: Option<&[u8]>,
    extra_meta: Option<&[u8]>,
    newline: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let call = Call {
        id,
        method: text(method, Code::RequestLine, 0)?,
        params,
        meta,
        extra_meta,
    };
    let ending: &[u8] = if newline { b"\n" } else { b"" };
    let message: Splice<'_> = call.encode(ending).map_err(refused)?;
    to_bytes(py, message.len(), |out| message.copy_into(out))
}

/// As it is, or as `=?base64?...?=`.
#[pyfunction]
#[pyo3(signature = (value, /))]
pub fn encode_header_value<'py>(value: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    let plain = text(value, Code::HeaderValue, 0)?;
    match header_value::encode(plain) {
        Cow::Borrowed(_) => Ok(value.clone()),
        Cow::Owned(encoded) => Ok(PyString::new(value.py(), &encoded)),
    }
}

/// None when the sentinel's base64 or UTF-8 is bad.
#[pyfunction]
#[pyo3(signature = (value, /))]
pub fn decode_header_value<'py>(value: &Bound<'py, PyString>) -> Option<Bound<'py, PyString>> {
    // A lone surrogate is no text that a header could carry.
    match header_value::decode(value.to_str().ok()?)? {
        Cow::Borrowed(_) => Some(value.clone()),
        Cow::Owned(decoded) => Some(PyString::new(value.py(), &decoded)),
    }
}
