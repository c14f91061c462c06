//! Frozen values of Python classes, filled in one call. Knows slots; no class by name.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

/// An instance of a class that has neither `__new__` nor `__init__` of its own to be run, with slots filled past its
/// `__setattr__`: a name and its item, and so on.
#[pyfunction]
#[pyo3(signature = (class, /, *fields))]
pub fn new_value<'py>(
    class: &Bound<'py, PyType>,
    fields: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    if fields.len() % 2 != 0 {
        return Err(PyTypeError::new_err("a name has no item"));
    }
    let no_arguments = PyTuple::empty(py);
    // SAFETY: the slot of a type that makes instances is a `newfunc`; null means that the type makes none.
    let value = unsafe {
        let make = ffi::PyType_GetSlot(class.as_type_ptr(), ffi::Py_tp_new);
        if make.is_null() {
            return Err(PyTypeError::new_err("the class makes no instances"));
        }
        let make: ffi::newfunc = std::mem::transmute(make);
        let value = make(
            class.as_type_ptr(),
            no_arguments.as_ptr(),
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, value)?
    };
    let mut items = fields.iter_borrowed();
    while let (Some(name), Some(item)) = (items.next(), items.next()) {
        // SAFETY: three objects that are alive; -1 means that an exception is set.
        if unsafe { ffi::PyObject_GenericSetAttr(value.as_ptr(), name.as_ptr(), item.as_ptr()) }
            != 0
        {
            return Err(PyErr::fetch(py));
        }
    }
    Ok(value)
}
