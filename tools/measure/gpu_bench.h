// Times single operations on a device as a training step runs them: from a captured graph, by the
// device's own clock, with operands that are in no cache.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "exec/backends/backend.h"
#include "models/program/graph/op_table.h"

namespace meshwright::tools {

// Limits how long measurements take.
struct TimeBudget {
  double probe_s = 0.25;                      // seconds for one operation, and the longest run
  std::chrono::steady_clock::time_point end;  // no measurement begins after this time
};

// Describes one operation and the types of its operands. `added` are the outputs that infer()
// leaves out: the gradients of parameters.
struct Probe {
  Op op;
  Attributes attributes;
  std::vector<TensorType> inputs, outputs;
  Probe(Op operation, const Attributes& of, std::vector<TensorType> in,
        std::vector<TensorType> added = {});
  OpCall call() const { return {op, attributes, inputs, outputs}; }
  std::vector<Kernel> kernels() const;  // as the simulator sees it
};

class GpuBench {
 public:
  // Needs a device with streams that can capture steps. Operands are spread over at least
  // `spread_bytes` of memory.
  GpuBench(Backend& backend, std::int64_t spread_bytes, const TimeBudget& budget);
  ~GpuBench();
  GpuBench(const GpuBench&) = delete;
  GpuBench& operator=(const GpuBench&) = delete;

  // Keeps the device busy for a while, because its clocks rise under load.
  void warm_up();
  // Returns the seconds of one run: the median of several measurements, or a single one of a run
  // that is too long.
  double seconds(const Probe& probe);
  // Returns the seconds of one run of the operations that issue(run) gives to the backend.
  double seconds(const std::function<void(std::int64_t)>& issue);
  // Returns whether a run of `run_s` seconds is short enough, and time is left to measure it.
  bool affords(double run_s) const;

  Backend& backend() { return backend_; }
  // Return memory for operands of at least `bytes` bytes, which the caller lays out. Inputs hold
  // random values other than 0, outputs the values that were written last. A later call may replace
  // the memory.
  char* inputs(std::int64_t bytes);
  char* outputs(std::int64_t bytes);

 private:
  struct Pool {
    char* memory = nullptr;
    std::int64_t bytes = 0;
  };
  void grow(Pool& pool, std::int64_t bytes);
  void fill(const Pool& pool);
  double once(const std::function<void()>& work);

  Backend& backend_;
  Streams& streams_;
  StepCapture& capture_;
  const std::int64_t spread_bytes_;
  const TimeBudget budget_;
  Pool inputs_, outputs_, zeros_, scratch_;
};

}  // namespace meshwright::tools
