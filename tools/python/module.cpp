// Defines the Python module meshwright._core: the calls of commands (calls.h), for the wheel.
#include "tools/python/calls.h"

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_core",
                          nullptr,
                          -1,
                          meshwright::python::calls,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() { return PyModule_Create(&definition); }
