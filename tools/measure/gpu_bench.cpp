#include "tools/measure/gpu_bench.h"
#include "models/program/graph/op_table.h"

#include <algorithm>

namespace meshwright::tools {

namespace {

constexpr std::int64_t most_runs = 500;  // runs in one graph
constexpr int measured = 3;              // how often a graph is timed

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Has the offsets, in bytes, of the tensors in a set of operands, and the set's size.
struct Layout {
  std::vector<std::int64_t> begins;
  std::int64_t bytes = 0;
  explicit Layout(const std::vector<TensorType>& types) {
    for (const TensorType& type : types) {
      begins.push_back(bytes);
      bytes += aligned(type.bytes());
    }
  }
  // Returns the offset of the set that a run uses. The sets of a pool are used round-robin, so that
  // a set is used again only after all others.
  std::int64_t place(std::int64_t run, std::int64_t pool_bytes) const {
    return bytes == 0 ? 0 : run % (pool_bytes / bytes) * bytes;
  }
};

}  // namespace

Probe::Probe(Op operation, const Attributes& of, std::vector<TensorType> in,
             std::vector<TensorType> added)
    : op(operation), attributes(of), inputs(std::move(in)) {
  info(op).infer(attributes, inputs, outputs);
  outputs.insert(outputs.end(), added.begin(), added.end());
}

std::vector<Kernel> Probe::kernels() const {
  std::vector<Kernel> kernels;
  append_kernels(call(), CompilerLevel::fused, kernels);
  return kernels;
}

GpuBench::GpuBench(Backend& backend, std::int64_t spread_bytes, const TimeBudget& budget)
    : backend_(backend),
      streams_(*backend.streams()),
      capture_(*backend.capture()),
      spread_bytes_(aligned(spread_bytes)),
      budget_(budget) {
  backend_.begin_step(0);
}

GpuBench::~GpuBench() {
  for (const Pool& pool : {inputs_, outputs_, zeros_, scratch_})
    if (pool.memory != nullptr) backend_.deallocate(pool.memory);
}

bool GpuBench::affords(double run_s) const {
  return run_s <= budget_.probe_s && std::chrono::steady_clock::now() < budget_.end;
}

void GpuBench::grow(Pool& pool, std::int64_t bytes) {
  if (bytes <= pool.bytes) return;
  backend_.wait();
  if (pool.memory != nullptr) backend_.deallocate(pool.memory);
  pool = {};
  pool.memory = static_cast<char*>(backend_.allocate(bytes));
  pool.bytes = bytes;
  clear(backend_, pool.memory, bytes);
  backend_.wait();
}

// Fills inputs with random values of both signs. Their magnitudes are 0.3 to 0.5 in bf16, and so
// are those of two neighbours read as one fp32. In fp16 they are 1.65 to 1.75. They are not 0,
// because a device that multiplies zeros needs less power than one that trains.
void GpuBench::fill(const Pool& pool) {
  std::vector<std::uint16_t> some(std::min<std::int64_t>(pool.bytes / 2, 1 << 20));
  for (std::size_t i = 0; i < some.size(); ++i) {
    const auto random = static_cast<std::uint32_t>(i) * 2654435761U;
    some[i] =
        static_cast<std::uint16_t>((random >> 16U & 0x8000U) | 0x3EA0U | (random >> 8U & 0x5FU));
  }
  auto filled = static_cast<std::int64_t>(some.size() * 2);
  backend_.write(pool.memory, some.data(), filled);
  for (; filled < pool.bytes; filled *= 2)
    backend_.copy(pool.memory + filled, pool.memory, std::min(filled, pool.bytes - filled));
  backend_.wait();
}

char* GpuBench::inputs(std::int64_t bytes) {
  const std::int64_t before = inputs_.bytes;
  grow(inputs_, std::max(bytes, spread_bytes_));
  if (inputs_.bytes > before) fill(inputs_);
  return inputs_.memory;
}

char* GpuBench::outputs(std::int64_t bytes) {
  grow(outputs_, std::max(bytes, spread_bytes_));
  return outputs_.memory;
}

void GpuBench::warm_up() {
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::duration<double> wanted(budget_.probe_s);
  char* memory = outputs(spread_bytes_);
  while (std::chrono::steady_clock::now() - begin < wanted) {
    clear(backend_, memory, spread_bytes_);
    backend_.wait();
  }
}

double GpuBench::seconds(const Probe& probe) {
  const Layout in(probe.inputs), out(probe.outputs);
  char* from = inputs(in.bytes);
  char* to = outputs(out.bytes);
  std::int64_t numbers = 0;
  for (const TensorType& type : probe.inputs)
    if (type.dtype == Dtype::i32) numbers = std::max(numbers, type.bytes());
  grow(zeros_, numbers);
  grow(scratch_, backend_.workspace_bytes(probe.call()));
  OpContext context;
  context.workspace = scratch_.memory;
  std::vector<const void*> input_addresses(probe.inputs.size());
  std::vector<void*> output_addresses(probe.outputs.size());
  return seconds([&](std::int64_t run) {
    for (std::size_t i = 0; i < probe.inputs.size(); ++i)
      input_addresses[i] = probe.inputs[i].dtype == Dtype::i32
                               ? zeros_.memory
                               : from + in.place(run, inputs_.bytes) + in.begins[i];
    for (std::size_t o = 0; o < probe.outputs.size(); ++o)
      output_addresses[o] = to + out.place(run, outputs_.bytes) + out.begins[o];
    backend_.run(probe.call(), {input_addresses, output_addresses}, context);
  });
}

double GpuBench::once(const std::function<void()>& work) {
  streams_.begin_stamps();
  work();
  const int end = streams_.stamp();
  backend_.wait();
  return streams_.stamped(end);
}

double GpuBench::seconds(const std::function<void(std::int64_t)>& issue) {
  streams_.use(0);
  issue(0);  // an operation may allocate or compile when it first runs
  backend_.wait();
  const double single = once([&] { issue(1); });
  if (!affords(single)) return single;
  const auto wanted =
      static_cast<std::int64_t>(budget_.probe_s / measured / std::max(single, 1e-7));
  const std::int64_t runs = std::clamp<std::int64_t>(wanted, 1, most_runs);
  capture_.begin();
  for (std::int64_t run = 0; run < runs; ++run) issue(run);
  capture_.end();
  capture_.replay();
  backend_.wait();
  std::vector<double> times;
  for (int time = 0; time < measured; ++time) times.push_back(once([&] { capture_.replay(); }));
  std::nth_element(times.begin(), times.begin() + measured / 2, times.end());
  return times[measured / 2] / static_cast<double>(runs);
}

}  // namespace meshwright::tools
