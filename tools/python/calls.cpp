#include "tools/python/calls.h"

#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "exec/launch/stop.h"
#include "models/core/error.h"
#include "models/core/printable.h"
#include "tools/command_line.h"
#include "tools/commands/commands.h"
#include "tools/report/search_watch.h"
#include "tools/session/choose.h"
#include "tools/version.h"

namespace {

using namespace meshwright::tools;

struct Event {
  const char* kind;  // "warning", "note" or "progress"
  std::string text;
};

// Holds what threads of Python exchange with the call in flight. Other threads read its events and
// stop it. There is one call at a time, because each uses all cores. The Python sources ensure
// that.
struct Running {
  std::atomic<bool> stop = false;
  std::mutex mutex;
  std::vector<Event> events;  // that call_events() has not returned yet

  void say(const char* kind, std::string text) {
    const std::lock_guard lock(mutex);
    events.push_back({kind, std::move(text)});
  }
  std::vector<Event> taken() {
    const std::lock_guard lock(mutex);
    return std::exchange(events, {});
  }
};
Running running;

Watch heard_watch() {
  Watch watch;
  watch.warn = [](const std::string& text) { running.say("warning", printable(text)); };
  watch.note = [](const std::string& text) { running.say("note", printable(text)); };
  watch.search = watch_in_lines([](const std::string& line) { running.say("progress", line); });
  watch.stop = [] { return running.stop.load(std::memory_order_relaxed); };
  return watch;
}

struct Ended {
  int code = our_fault;
  std::string out, message;
};

Ended run_call(const Call& call) {
  Ended ended;
  const auto failed = [&](int code, const std::exception& error) {
    ended.code = code;
    ended.message = error.what();
  };
  try {
    ended.out = answer_of(call, heard_watch());
    ended.code = done;
  } catch (const InputError& error) {
    failed(bad_input, error);
  } catch (const NoPlanFits& error) {
    failed(no_plan_fits, error);
    ended.out = error.answer();
  } catch (const RunError& error) {
    failed(run_failed, error);
  } catch (const StoppedSearch& error) {
    failed(stopped, error);
    ended.out = error.answer();
  } catch (const StopRequested& request) {
    failed(stopped, request);
  } catch (const std::exception& error) {
    failed(our_fault, error);
  }
  return ended;
}

PyObject* python_text(const std::string& text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
}

// Stores a Python string as UTF-8 in `text`. Returns false, with a Python exception set, if `value`
// is not a string.
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

// Stores a Python dictionary in `values`. Returns false, with a Python exception set, if it is none
// or `take` returns false for one of its values.
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
  return Py_BuildValue("(iNN)", ended.code, python_text(ended.out), python_text(ended.message));
}

PyObject* begin_call(PyObject* /*self*/, PyObject* /*none*/) {
  running.stop = false;
  running.taken();
  Py_RETURN_NONE;
}

PyObject* stop_call(PyObject* /*self*/, PyObject* /*none*/) {
  running.stop = true;
  Py_RETURN_NONE;
}

PyObject* call_events(PyObject* /*self*/, PyObject* /*none*/) {
  PyObject* list = PyList_New(0);
  for (const Event& event : running.taken()) {
    PyObject* pair = Py_BuildValue("(sN)", event.kind, python_text(event.text));
    if (list != nullptr && pair != nullptr) PyList_Append(list, pair);
    Py_XDECREF(pair);
  }
  return list;
}

PyObject* version(PyObject* /*self*/, PyObject* /*none*/) {
  return python_text(std::string(version_text()));
}

}  // namespace

namespace meshwright::python {

PyMethodDef calls[] = {
    {"call", call, METH_VARARGS, "Runs a call of a command; returns (exit code, answer, message)."},
    {"begin_call", begin_call, METH_NOARGS, "Forgets what was said to and by the last call."},
    {"stop_call", stop_call, METH_NOARGS, "Asks the call under way to end with what it has found."},
    {"call_events", call_events, METH_NOARGS, "What the call has said: [(kind, text)]."},
    {"version", version, METH_NOARGS, "What `meshwright --version` prints."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace meshwright::python
