// Defines the Python module meshwright._runtime for meshwright.torch: the Runtime in the process of
// the user's own training script (tools/session/script_run.h). It is built with the user's MPI and,
// if nvcc is found, with the CUDA backend, and with NCCL if that is found. A process has one world
// and one run at a time. Python gets addresses as integers. `memory` makes a buffer of an address.
//
// It uses only the limited C API, so that one module serves Python 3.8 and all later versions.
#include "tools/python/calls.h"

#include <malloc.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/runtime/non_finite.h"
#include "models/architectures/captured/captured_model.h"
#include "models/core/error.h"
#include "models/program/graph/segment.h"
#include "tools/session/machines.h"
#include "tools/session/script_run.h"
#include "tools/session/train.h"

// Replaces the function of mimalloc by which the program gives free memory back. A module uses the
// allocator of its process instead.
extern "C" void mi_collect(bool /*force*/) {}

namespace {

using namespace meshwright::session;
using meshwright::core::InputError;
using nlohmann::json;

// Is thrown if a Python function has failed. The interpreter holds the exception.
struct RaisedInPython : std::exception {};

std::unique_ptr<World> world;
std::unique_ptr<Communicator> everybody;
std::unique_ptr<ScriptRun> run;
PyObject* run_segment = nullptr;        // the function that computes segments
PyObject* run_optimizer = nullptr;      // the function that calls the script's own optimizer
PyThreadState* without_lock = nullptr;  // set during a call without the interpreter's lock

// Calls `work` without the interpreter's lock. Returns false, with a Python exception set, if it
// throws.
template <typename Work>
bool unlocked(const Work& work) {
  PyObject* kind = nullptr;
  std::string message;
  without_lock = PyEval_SaveThread();
  try {
    work();
  } catch (const RaisedInPython&) {
    kind = Py_None;
  } catch (const InputError& error) {
    kind = PyExc_ValueError;
    message = error.what();
  } catch (const NoPlanFits& error) {
    kind = PyExc_ValueError;
    message = error.what();
  } catch (const NonFinite& error) {
    kind = PyExc_ArithmeticError;
    message = error.what();
  } catch (const std::exception& error) {
    kind = PyExc_RuntimeError;
    message = error.what();
  }
  PyEval_RestoreThread(without_lock);
  without_lock = nullptr;
  if (kind != nullptr && kind != Py_None) PyErr_SetString(kind, message.c_str());
  return kind == nullptr;
}

PyObject* none_if(bool good) {
  if (!good) return nullptr;
  Py_RETURN_NONE;
}

bool has(const void* what, const char* name) {
  if (what == nullptr) PyErr_Format(PyExc_RuntimeError, "%s was not called", name);
  return what != nullptr;
}

// Replaces the object that `place` holds, and counts both references.
void keep(PyObject*& place, PyObject* object) {
  Py_INCREF(object);
  Py_XDECREF(place);
  place = object;
}

PyObject* addresses_of(std::size_t count, const auto& at) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (std::size_t i = 0; tuple != nullptr && i < count; ++i)
    PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(i),
                    PyLong_FromVoidPtr(const_cast<void*>(static_cast<const void*>(at[i]))));
  return tuple;
}

const char* word_of(Op op) {
  return op == Op::segment        ? "segment"
         : op == Op::segment_grad ? "segment_grad"
         : op == Op::segment_loss ? "loss"
         : op == Op::add          ? "add"
         : op == Op::scale        ? "pass_on"
                                  : "loss_grad";
}

unsigned long long stream_number() {
  return reinterpret_cast<std::uintptr_t>(run ? run->current_stream() : nullptr);
}

// Calls run_segment(operation, number, first_sequence, inputs, outputs, overwrites, factor,
// stream). `number` is that of the segment. For an addition or a copy, it is the bytes of an
// operand, and `factor` the index of its type. For a loss, it is the micro-batch.
void call_python(const OpCall& call, const OpOperands& operands, const OpContext& context) {
  long long number = 0;
  double factor = call.attributes.scale;
  if (call.attributes.segment != nullptr) number = call.attributes.segment->number;
  if (call.op == Op::add || call.op == Op::scale) {
    number = call.outputs[0].bytes();
    factor = static_cast<double>(call.outputs[0].dtype);
  }
  if (call.op == Op::segment_loss || call.op == Op::segment_loss_grad)
    number = call.attributes.micro_batch;
  PyEval_RestoreThread(without_lock);
  PyObject* inputs = addresses_of(operands.inputs.size(), operands.inputs);
  PyObject* outputs = addresses_of(operands.outputs.size(), operands.outputs);
  PyObject* result =
      PyObject_CallFunction(run_segment, "sLLNNkdK", word_of(call.op), number,
                            static_cast<long long>(context.first_sequence), inputs, outputs,
                            static_cast<unsigned long>(call.overwrites), factor, stream_number());
  const bool good = result != nullptr;
  Py_XDECREF(result);
  without_lock = PyEval_SaveThread();
  if (!good) throw RaisedInPython();
}

// Calls run_optimizer(number, segments, arrays, factor, step, stream). A segment is (parameter,
// first, begin, count), and an array (address, type). The arrays are the weights, the gradients,
// both moments, the working copy and the average of the weights.
void call_optimizer(int number, std::span<const OptimizerSegment> segments,
                    const OptimizerState& state, const OptimizerScalars& scalars) {
  PyEval_RestoreThread(without_lock);
  PyObject* list = PyList_New(0);
  for (const OptimizerSegment& each : segments) {
    PyObject* one =
        Py_BuildValue("(iLLL)", each.parameter, static_cast<long long>(each.first),
                      static_cast<long long>(each.begin), static_cast<long long>(each.count));
    PyList_Append(list, one);
    Py_XDECREF(one);
  }
  const auto address = [](const void* data) {
    return static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(data));
  };
  const auto moments = static_cast<int>(state.moment_type);
  PyObject* result = PyObject_CallFunction(
      run_optimizer, "iN((Ki)(Ki)(Ki)(Ki)(Ki)(Ki))dLK", number, list, address(state.weights),
      static_cast<int>(state.weights_type), address(state.gradients),
      static_cast<int>(state.gradient_type), address(state.first_moment), moments,
      address(state.second_moment), moments, address(state.working),
      static_cast<int>(state.working_type), address(state.average), moments,
      scalars.gradient_factor, static_cast<long long>(scalars.step), stream_number());
  const bool good = result != nullptr;
  Py_XDECREF(result);
  without_lock = PyEval_SaveThread();
  if (!good) throw RaisedInPython();
}

Watch python_watch() {
  Watch watch;
  if (world->rank() != 0) return watch;
  watch.warn = [](const std::string& text) { std::fprintf(stderr, "warning: %s\n", text.c_str()); };
  watch.note = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  return watch;
}

// Returns the deadline of waits that `meshwright launch` has set in the environment, if it has.
TrainRequest how_of_launch() {
  TrainRequest how;
  const char* seconds = std::getenv("MESHWRIGHT_DEADLINE");
  if (seconds != nullptr && std::atoi(seconds) > 0) how.deadline = std::atoi(seconds);
  return how;
}

// Keeps freed memory in this process. PyTorch asks malloc for every tensor of a step and frees it
// again. glibc would give large blocks back to the system each time, and the next step would wait
// for as many pages to be cleared. If the user has set options of malloc, nothing is changed.
void keep_freed_memory() {
#ifdef __GLIBC__
  for (const char* own :
       {"MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"})
    if (std::getenv(own) != nullptr) return;
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);  // the heap is never trimmed
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

// init() -> (rank, ranks). Begins MPI if mpirun, or srun with PMIx, has started this process.
PyObject* init(PyObject* /*self*/, PyObject* /*none*/) {
  const bool good = world != nullptr || unlocked([] {
                      keep_freed_memory();
                      const bool has_others = std::getenv("PMIX_RANK") != nullptr;
                      WorldOptions options;
                      options.deadline_s = deadlines_of(how_of_launch()).long_s;
                      world = make_world(has_others ? "mpi" : "self", options);
                      everybody = group_of_all(*world);
                    });
  return good ? Py_BuildValue("(ii)", world->rank(), world->size()) : nullptr;
}

// settle(job, name, profile) -> the settled run. Every rank calls it, and rank 0 decides.
PyObject* settle(PyObject* /*self*/, PyObject* arguments) {
  const char *job = nullptr, *name = nullptr, *profile = nullptr;
  if (PyArg_ParseTuple(arguments, "sss", &job, &name, &profile) == 0 || !has(world.get(), "init"))
    return nullptr;
  JobRequest request;
  request.text = job;
  request.file = name;
  request.local_profile = profile;
  request.measure_here = unmeasured_computer;
  std::string text;
  const bool good = unlocked([&] {
    Watch watch = python_watch();
    watch.note = [](const std::string&) {};
    text = made_by_rank_0(*everybody,
                          [&] { return settle_script(request, {}, world->size(), watch); });
  });
  return good ? PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))
              : nullptr;
}

// Returns the units that are recomputed as a whole, as ranges of segments.
json units_of(const ScriptRun& started) {
  json all = json::array();
  const Parallelism& p = started.settled().chosen.compiled.plan.parallelism;
  const CapturedModel& rank =
      of_rank(*started.settled().job.model.captured, p.tensor, p.sequence_parallel);
  for (const CapturedUnit& unit : rank.units) all.push_back({unit.begin, unit.end});
  return all;
}

json parameters_here(const Runtime& runtime) {
  json all = json::array();
  for (const StageParameter& each : runtime.program().parameters) {
    const HeldCopy copy = runtime.memory().working_copy(each);
    const bool whole =
        copy.data != nullptr && copy.count == each.parameter.shape.elements() && copy.begin == 0;
    all.push_back(
        {{"name", each.parameter.name},
         {"chunk", each.chunk},
         {"trainable", each.parameter.trainable},
         {"gradient_type", static_cast<int>(runtime.program()
                                                .buckets[static_cast<std::size_t>(each.bucket)]
                                                .gradients.type.dtype)},
         {"address", whole ? reinterpret_cast<std::uintptr_t>(copy.data) : 0}});
  }
  return all;
}

// Returns each run of a segment in the forward pass or for recomputation: its number, stage and
// chunk.
json segments_of(const std::vector<Program>& stages) {
  json all = json::array();
  for (const Program& stage : stages)
    for (const Body& body : stage.bodies)
      for (const Instruction& each : body.instructions)
        if (each.op == Op::segment && each.kind == InstructionKind::compute)
          all.push_back({{"number", each.attributes.segment->number},
                         {"stage", stage.stage},
                         {"chunk", body.chunk},
                         {"recomputed", body.kind != Body::Kind::forward}});
  return all;
}

// Returns the predicted bytes of this rank's stage by class, including those of PyTorch's
// allocator.
json memory_of(const ScriptRun& started, int stage) {
  json classes = json::object();
  const StageMemory& memory = started.prediction().memory[static_cast<std::size_t>(stage)];
  for (int i = 0; i < memory_class_count; ++i)
    classes[std::string(name_of(static_cast<MemoryClass>(i)))] =
        memory.class_bytes[static_cast<std::size_t>(i)];
  return classes;
}

std::string described(ScriptRun& started) {
  const Runtime& runtime = started.runtime();
  const Plan& plan = started.settled().chosen.compiled.plan;
  const Parallelism& p = plan.parallelism;
  const Training& t = plan.training;
  const json text = {{"pipeline", p.pipeline},
                     {"tensor", p.tensor},
                     {"sequence_parallel", p.tensor > 1 && p.sequence_parallel},
                     {"data", p.data},
                     {"zero_stage", p.zero_stage},
                     {"virtual_stages", p.virtual_stages},
                     {"stage", runtime.coordinates().pipeline},
                     {"replica", runtime.coordinates().rdp},
                     {"tensor_rank", runtime.coordinates().tensor},
                     {"micro_batch", t.micro_batch},
                     {"micro_batches", runtime.program().micro_batches},
                     {"global_batch", t.global_batch},
                     {"seed", t.seed},
                     {"compiles", t.compiler != CompilerLevel::none},
                     {"on_gpu", !runtime.memory().backend().shares_memory_with_host()},
                     {"units", units_of(started)},
                     {"parameters", parameters_here(runtime)},
                     {"segments", segments_of(started.settled().chosen.compiled.stages)},
                     {"arena_bytes", runtime.arena_bytes()},
                     {"predicted_memory", memory_of(started, runtime.coordinates().pipeline)},
                     {"predicted_seconds", started.prediction().step_time_s},
                     {"predicted_peak_bytes", started.prediction().peak_memory_bytes}};
  return text.dump();
}

// start(settled, threads, segments, optimizer) -> what this rank runs, as JSON. Every rank calls
// it.
PyObject* start(PyObject* /*self*/, PyObject* arguments) {
  const char* settled = nullptr;
  Py_ssize_t length = 0;
  int threads = 0;
  PyObject *segments = nullptr, *optimizer = nullptr;
  if (PyArg_ParseTuple(arguments, "s#iOO", &settled, &length, &threads, &segments, &optimizer) ==
          0 ||
      !has(world.get(), "init"))
    return nullptr;
  keep(run_segment, segments);
  keep(run_optimizer, optimizer);
  std::string text;
  const bool good = unlocked([&] {
    run.reset();
    run = std::make_unique<ScriptRun>(
        std::string(settled, static_cast<std::size_t>(length)), *world, threads, call_python,
        ScriptOptimizer{false, call_optimizer}, how_of_launch(), python_watch());
    text = described(*run);
  });
  return good ? PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))
              : nullptr;
}

// step(learning_rate) -> (loss, norm of the gradient, seconds, whether the update was skipped).
// With None as learning rate, the script's own optimizer updates.
PyObject* step(PyObject* /*self*/, PyObject* arguments) {
  PyObject* given = nullptr;
  if (PyArg_ParseTuple(arguments, "O", &given) == 0 || !has(run.get(), "start")) return nullptr;
  std::optional<double> rate;
  if (given != Py_None) rate = PyFloat_AsDouble(given);
  if (PyErr_Occurred() != nullptr) return nullptr;
  StepResult result;
  if (!unlocked([&] { result = run->step(rate); })) return nullptr;
  return Py_BuildValue("(dddO)", result.loss, result.grad_norm, result.seconds,
                       result.was_skipped ? Py_True : Py_False);
}

// Returns whether parameters pass between Python and the run as fp64 instead of fp32.
bool is_in_fp64() { return run->runtime().program().settings->training.exact_type() == Dtype::f64; }

// set_parameter(name, address, elements): sets a parameter on this rank from the values of the
// whole one, in fp32, or in fp64 in a run in fp64.
PyObject* set_parameter(PyObject* /*self*/, PyObject* arguments) {
  const char* name = nullptr;
  unsigned long long address = 0, count = 0;
  if (PyArg_ParseTuple(arguments, "sKK", &name, &address, &count) == 0 || !has(run.get(), "start"))
    return nullptr;
  return none_if(unlocked([&] {
    Parameters& parameters = run->runtime().parameters();
    if (is_in_fp64())
      parameters.set<double>(name, {reinterpret_cast<const double*>(address), count});
    else
      parameters.set(name, {reinterpret_cast<const float*>(address), count});
  }));
}

PyObject* refresh(PyObject* /*self*/, PyObject* /*none*/) {
  return has(run.get(), "start")
             ? none_if(unlocked([] { run->runtime().refresh_working_copies(); }))
             : nullptr;
}

// gather(function): calls function(name, address, elements) on rank 0 for each whole parameter, in
// fp32, or in fp64 in a run in fp64. Every rank calls it.
PyObject* gather(PyObject* /*self*/, PyObject* function) {
  if (!has(run.get(), "start")) return nullptr;
  const auto take = [&](const Parameter& parameter, auto values) {
    PyEval_RestoreThread(without_lock);
    PyObject* result = PyObject_CallFunction(
        function, "sKK", parameter.name.c_str(),
        static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(values.data())),
        static_cast<unsigned long long>(values.size()));
    const bool good = result != nullptr;
    Py_XDECREF(result);
    without_lock = PyEval_SaveThread();
    if (!good) throw RaisedInPython();
  };
  return none_if(unlocked([&] {
    const Parameters& parameters = run->runtime().parameters();
    is_in_fp64() ? parameters.gather_fp64(take) : parameters.gather(take);
  }));
}

// trace(path): writes the timeline of the next step.
PyObject* trace(PyObject* /*self*/, PyObject* arguments) {
  const char* path = nullptr;
  if (PyArg_ParseTuple(arguments, "s", &path) == 0 || !has(run.get(), "start")) return nullptr;
  run->trace(path);
  Py_RETURN_NONE;
}

PyObject* save(PyObject* /*self*/, PyObject* arguments) {
  const char* folder = nullptr;
  int keep = 0;
  if (PyArg_ParseTuple(arguments, "si", &folder, &keep) == 0 || !has(run.get(), "start"))
    return nullptr;
  return none_if(unlocked([&] { run->save(folder, keep); }));
}

PyObject* finish_saving(PyObject* /*self*/, PyObject* /*none*/) {
  bool complete = true;
  if (run != nullptr && !unlocked([&] { complete = run->finish_saving(); })) return nullptr;
  return PyBool_FromLong(complete ? 1 : 0);
}

PyObject* resume(PyObject* /*self*/, PyObject* arguments) {
  const char* folder = nullptr;
  if (PyArg_ParseTuple(arguments, "s", &folder) == 0 || !has(run.get(), "start")) return nullptr;
  std::int64_t steps = 0;
  if (!unlocked([&] { steps = run->resume(folder); })) return nullptr;
  return PyLong_FromLongLong(steps);
}

// broadcast(address, bytes, root): copies host memory from rank `root` to all ranks. Every rank
// calls it.
PyObject* broadcast(PyObject* /*self*/, PyObject* arguments) {
  unsigned long long address = 0, bytes = 0;
  int root = 0;
  if (PyArg_ParseTuple(arguments, "KKi", &address, &bytes, &root) == 0 || !has(world.get(), "init"))
    return nullptr;
  return none_if(unlocked([&] {
    everybody->broadcast(reinterpret_cast<void*>(address), static_cast<std::int64_t>(bytes), root);
  }));
}

// gathered(number) -> the numbers of all ranks. Every rank calls it.
PyObject* gathered(PyObject* /*self*/, PyObject* arguments) {
  long long own = 0;
  if (PyArg_ParseTuple(arguments, "L", &own) == 0 || !has(world.get(), "init")) return nullptr;
  std::vector<std::int64_t> all(static_cast<std::size_t>(world->size()));
  const std::int64_t number = own;
  if (!unlocked([&] { everybody->all_gather(&number, all.data(), sizeof number); })) return nullptr;
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(all.size()));
  for (std::size_t i = 0; list != nullptr && i < all.size(); ++i)
    PyList_SetItem(list, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(all[i]));
  return list;
}

// stop(): waits for saves and ends the run. Another may start after it. close() ends MPI too. Every
// rank calls them.
PyObject* stop(PyObject* /*self*/, PyObject* /*none*/) {
  const bool good = unlocked([] {
    if (run) run->finish_saving();
    run.reset();
  });
  return none_if(good);
}

PyObject* close_world(PyObject* /*self*/, PyObject* /*none*/) {
  return none_if(unlocked([] {
    run.reset();
    everybody.reset();
    world.reset();
  }));
}

// abandon(code): ends this process at once, after an error. The launcher ends the other ranks.
PyObject* abandon(PyObject* /*self*/, PyObject* arguments) {
  int code = 0;
  if (PyArg_ParseTuple(arguments, "i", &code) == 0) return nullptr;
  if (world != nullptr) world->abandon(code);
  std::_Exit(code);
}

// memory(address, bytes) -> a writable buffer of host memory at this address.
PyObject* memory(PyObject* /*self*/, PyObject* arguments) {
  unsigned long long address = 0;
  Py_ssize_t bytes = 0;
  if (PyArg_ParseTuple(arguments, "Kn", &address, &bytes) == 0) return nullptr;
  constexpr int writable = 0x200;  // PyBUF_WRITE, which the limited API has from 3.11 on
  return PyMemoryView_FromMemory(reinterpret_cast<char*>(address), bytes, writable);
}

PyMethodDef methods[] = {
    {"init", init, METH_NOARGS, "Meets the other ranks; returns (rank, ranks)."},
    {"settle", settle, METH_VARARGS, "Chooses the plan of a job; returns the settled run."},
    {"start", start, METH_VARARGS, "Starts the settled run on this rank."},
    {"step", step, METH_VARARGS, "Trains a step."},
    {"set_parameter", set_parameter, METH_VARARGS, "Sets a parameter."},
    {"refresh", refresh, METH_NOARGS, "Recomputes working copies after parameters were set."},
    {"gather", gather, METH_O, "Gives whole parameters to a function, on rank 0."},
    {"trace", trace, METH_VARARGS, "Writes the timeline of the next step."},
    {"save", save, METH_VARARGS, "Begins to save a checkpoint."},
    {"finish_saving", finish_saving, METH_NOARGS,
     "Waits for saves; returns whether all succeeded."},
    {"resume", resume, METH_VARARGS, "Loads the newest checkpoint; returns its step."},
    {"broadcast", broadcast, METH_VARARGS, "Broadcasts host memory."},
    {"gathered", gathered, METH_VARARGS, "Gathers a number of each rank."},
    {"stop", stop, METH_NOARGS, "Ends the run."},
    {"close", close_world, METH_NOARGS, "Leaves the other ranks."},
    {"abandon", abandon, METH_VARARGS, "Ends this process after an error."},
    {"memory", memory, METH_VARARGS, "A buffer of memory at an address."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_runtime", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__runtime() {
  PyObject* module = PyModule_Create(&definition);
  if (module != nullptr) PyModule_AddFunctions(module, meshwright::python::calls);
  return module;
}
