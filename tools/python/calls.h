// Runs commands for Python, in Python's process and without the interpreter's lock. The modules
// meshwright._core (module.cpp) and meshwright._runtime (runtime_module.cpp) have these functions.
// Only the limited C API is used, so that one module serves Python 3.8 and all later versions.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace meshwright::python {

// Has the functions call(), begin_call(), stop_call(), call_events() and version(), and a null row
// at the end. One thread runs call(). Other threads may call the other functions during that time.
extern PyMethodDef calls[];

}  // namespace meshwright::python
