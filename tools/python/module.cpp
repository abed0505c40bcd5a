// Defines the Python module meshwright._core. call(command, operands, jobs, options) runs a
// call (tools/call.h) in this process, without the interpreter's lock, and returns (exit code, its
// answer, message).
// It uses only the limited C API, so that one module serves Python 3.8 and all later versions.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "tools/command_line.h"
#include "tools/commands/asking.h"
#include "tools/commands/commands.h"
#include "tools/session/choose.h"
#include "tools/version.h"

namespace {

using namespace meshwright::tools;

struct Ended {
  int code = our_fault;
  std::string out, message;
};

Ended run_call(const Call& call) {
  static std::mutex one_at_a_time;  // each uses all cores
  const std::lock_guard lock(one_at_a_time);
  Ended ended;
  const auto failed = [&](int code, const std::exception& error) {
    ended.code = code;
    ended.message = error.what();
  };
  try {
    ended.out = answer_of(call, printed_watch());
    ended.code = done;
  } catch (const InputError& error) {
    failed(bad_input, error);
  } catch (const NoPlanFits& error) {
    failed(no_plan_fits, error);
    ended.out = error.answer();
  } catch (const RunError& error) {
    failed(run_failed, error);
  } catch (const StopRequested& request) {
    failed(stopped, request);
  } catch (const std::exception& error) {
    failed(our_fault, error);
  }
  return ended;
}

// Stores a Python string as UTF-8 in `text`. Returns false, with an exception set, if `value` is
// not a string.
bool take_text(PyObject* value, std::string& text) {
  PyObject* bytes = PyUnicode_AsEncodedString(value, "utf-8", "surrogateescape");
  if (bytes == nullptr) return false;
  char* data = nullptr;
  Py_ssize_t size = 0;
  const bool taken = PyBytes_AsStringAndSize(bytes, &data, &size) == 0;
  if (taken) text.assign(data, size);
  Py_DECREF(bytes);
  return taken;
}

bool take_words(PyObject* list, std::vector<std::string>& words) {
  const Py_ssize_t count = PyList_Size(list);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!take_text(PyList_GetItem(list, i), words.emplace_back())) return false;
  return count >= 0;
}

// Stores a dictionary, whose values `take` stores.
template <typename Value, typename Take>
bool take_map(PyObject* dict, std::map<std::string, Value>& values, const Take& take) {
  if (PyDict_Check(dict) == 0) {
    PyErr_SetString(PyExc_TypeError, "expected a dictionary");
    return false;
  }
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t place = 0; PyDict_Next(dict, &place, &key, &value) != 0;) {
    std::string name;
    if (!take_text(key, name) || !take(value, values[name])) return false;
  }
  return true;
}

PyObject* call(PyObject* /*self*/, PyObject* arguments) {
  PyObject *command = nullptr, *operands = nullptr, *jobs = nullptr, *options = nullptr;
  if (PyArg_ParseTuple(arguments, "OOOO", &command, &operands, &jobs, &options) == 0)
    return nullptr;
  Call asked;
  if (!take_text(command, asked.command) || !take_words(operands, asked.operands) ||
      !take_map(jobs, asked.jobs, take_text) || !take_map(options, asked.options, take_words))
    return nullptr;
  Ended ended;
  PyThreadState* state = PyEval_SaveThread();
  ended = run_call(asked);
  PyEval_RestoreThread(state);
  return Py_BuildValue(
      "(is#N)", ended.code, ended.out.data(), static_cast<Py_ssize_t>(ended.out.size()),
      PyUnicode_DecodeUTF8(ended.message.data(), static_cast<Py_ssize_t>(ended.message.size()),
                           "surrogateescape"));
}

PyObject* version(PyObject* /*self*/, PyObject* /*none*/) {
  return PyUnicode_FromString(std::string(version_text()).c_str());
}

PyMethodDef methods[] = {{"call", call, METH_VARARGS, "Runs a call of a command."},
                         {"version", version, METH_NOARGS, "What `meshwright --version` prints."},
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() { return PyModule_Create(&definition); }
