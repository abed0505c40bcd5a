// Calls of commands from Python, in this process and without the interpreter's lock. The modules
// meshwright._core (module.cpp) and meshwright._runtime (runtime_module.cpp) have them.
// Only the limited C API is used, so that one module serves Python 3.8 and all later versions.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace meshwright::python {

// The functions call(), begin_call(), stop_call(), call_events() and version(), ended by a null
// row. One thread runs call(), and others may call the rest meanwhile.
extern PyMethodDef calls[];

}  // namespace meshwright::python
