#include "exec/backends/cpu/fused.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "models/core/error.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"

namespace meshwright::exec::cpu {

namespace {

constexpr std::size_t most_operands = 12;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + fused_alignment - 1) / fused_alignment * fused_alignment;
}

// Runs steps of a fused operation on one block of rows, and finds the operands of the block in
// memory.
class Block {
 public:
  Block(const KernelCall& k, std::int64_t first, std::int64_t rows, std::byte* internal)
      : k_(k), fusion_(*k.attributes().fusion), first_(first), rows_(rows), internal_(internal) {}

  // Runs steps [first_step, end_step). `sums` receives the gradients of parameters, one after the
  // other. If it is null, they are added to the operation's own outputs. `scratch` is memory for
  // widened operands.
  void run(std::size_t first_step, std::size_t end_step, std::byte* sums, void* scratch,
           ThreadPool& pool) const {
    for (std::size_t i = first_step; i < end_step; ++i) run(i, sums, scratch, pool);
  }

 private:
  // Runs step `index`. If there are no `sums`, the first block overwrites the gradients that the
  // operation is to overwrite. All other blocks add to them.
  void run(std::size_t index, std::byte* sums, void* scratch, ThreadPool& pool) const {
    const FusedStep& step = fusion_.steps[index];
    const bool begins = sums == nullptr && first_ == 0;
    const std::uint32_t overwrites =
        begins ? overwrites_of_step(fusion_, index, k_.call.overwrites) : 0;
    std::array<TensorType, most_operands> in_types, out_types;
    std::array<const void*, most_operands> in;
    std::array<void*, most_operands> out;
    std::size_t inputs = 0, outputs = 0;
    for (int id : step.inputs) {
      in_types[inputs] = fusion_.of_block(id, rows_);
      in[inputs++] = address(id, sums);
    }
    // Lowering appends the loss scale to the operation's inputs. It belongs to the step that takes
    // it.
    if (info(step.op).takes_loss_scale &&
        k_.call.inputs.size() > static_cast<std::size_t>(fusion_.inputs)) {
      in_types[inputs] = k_.call.inputs.back();
      in[inputs++] = k_.operands.inputs.back();
    }
    for (int id : step.outputs) {
      out_types[outputs] = fusion_.of_block(id, rows_);
      out[outputs++] = address(id, sums);
    }
    OpContext context = k_.context;
    context.first_row = first_;
    context.whole_rows = fusion_.rows;
    context.workspace = scratch;
    run_operation({{step.op,
                    step.attributes,
                    {in_types.data(), inputs},
                    {out_types.data(), outputs},
                    overwrites},
                   {{in.data(), inputs}, {out.data(), outputs}},
                   context,
                   pool});
  }

  std::byte* address(int id, std::byte* sums) const {
    const auto i = static_cast<std::size_t>(id);
    if (fusion_.is_internal(id)) {
      std::int64_t offset = 0;
      for (int before = fusion_.first_internal(); before < id; ++before)
        offset += aligned(fusion_.of_block(before, rows_).bytes());
      return internal_ + offset;
    }
    if (fusion_.is_sum(id) && sums != nullptr) {
      std::int64_t offset = 0;
      for (int before = fusion_.inputs + fusion_.outputs; before < id; ++before)
        offset += aligned(fusion_.operands[before].bytes());
      return sums + offset;
    }
    const auto inputs = static_cast<std::size_t>(fusion_.inputs);
    const void* data = i < inputs ? k_.operands.inputs[i] : k_.operands.outputs[i - inputs];
    const std::int64_t skipped =
        fusion_.cut[i] ? fusion_.operands[i].bytes() / fusion_.rows * first_ : 0;
    return const_cast<std::byte*>(static_cast<const std::byte*>(data)) + skipped;
  }

  const KernelCall& k_;
  const Fusion& fusion_;
  std::int64_t first_, rows_;
  std::byte* internal_;
};

void run_long_blocks(const KernelCall& k) {
  const Fusion& fusion = *k.attributes().fusion;
  auto* internal =
      static_cast<std::byte*>(k.operands.outputs[static_cast<std::size_t>(fusion.outputs) - 1]);
  for (std::int64_t first = 0; first < fusion.rows; first += fusion.block_rows)
    Block(k, first, std::min(fusion.block_rows, fusion.rows - first), internal)
        .run(0, fusion.steps.size(), nullptr, k.context.workspace, k.pool);
}

template <typename T>
void add_strips(const std::byte* strips, std::int64_t stride, int count, std::int64_t elements,
                T* sums, bool overwrites) {
  if (overwrites) std::fill_n(sums, elements, T(0));
  for (int strip = 0; strip < count; ++strip) {
    const T* part = reinterpret_cast<const T*>(strips + strip * stride);
#pragma omp simd
    for (std::int64_t i = 0; i < elements; ++i) sums[i] += part[i];
  }
}

// Adds the gradients that strips of rows have summed to the operation's gradients, in the order of
// the strips. Stores them instead where the operation is to overwrite.
void add_sums(const KernelCall& k, const std::byte* sums, std::int64_t stride, int strips) {
  const Fusion& fusion = *k.attributes().fusion;
  for (int id = fusion.inputs + fusion.outputs; id < fusion.first_internal(); ++id) {
    const TensorType& type = fusion.operands[id];
    const auto output = static_cast<std::size_t>(id - fusion.inputs);
    void* to = k.operands.outputs[output];
    const bool overwrites = k.call.overwrites_output(output);
    const std::int64_t elements = type.shape.elements();
    if (type.dtype == Dtype::f64)
      add_strips(sums, stride, strips, elements, static_cast<double*>(to), overwrites);
    else
      add_strips(sums, stride, strips, elements, static_cast<float*>(to), overwrites);
    sums += aligned(type.bytes());
  }
}

std::int64_t bytes_of_sums(const Fusion& fusion) {
  std::int64_t bytes = 0;
  for (int id = fusion.inputs + fusion.outputs; id < fusion.first_internal(); ++id)
    bytes += aligned(fusion.operands[id].bytes());
  return bytes;
}

void run_short_blocks(const KernelCall& k, std::size_t first_step) {
  const Fusion& fusion = *k.attributes().fusion;
  const int strips = fused_strips(fusion);
  const std::int64_t blocks = (fusion.rows + fusion.block_rows - 1) / fusion.block_rows;
  const std::int64_t strip_bytes = bytes_of_sums(fusion);
  auto* sums = static_cast<std::byte*>(k.context.workspace);
  MESHWRIGHT_CHECK(strip_bytes == 0 || sums != nullptr, "strips are summed in scratch memory");
  const std::int64_t per_piece = fusion.accumulated > 0 ? (blocks + strips - 1) / strips : 1;
  parallel_for(k.pool, blocks, per_piece, [&](std::int64_t begin, std::int64_t end) {
    alignas(fused_alignment) std::byte memory[fused_block_bytes];
    ThreadPool own(1);
    std::byte* strip = strip_bytes > 0 ? sums + begin / per_piece * strip_bytes : nullptr;
    if (strip != nullptr) std::memset(strip, 0, strip_bytes);
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * fusion.block_rows;
      const std::int64_t rows = std::min(fusion.block_rows, fusion.rows - first);
      Block(k, first, rows, memory)
          .run(first_step, fusion.steps.size(), strip, memory + fusion.internal_bytes(rows), own);
    }
  });
  const auto used = static_cast<int>((blocks + per_piece - 1) / per_piece);
  if (strip_bytes > 0) add_sums(k, sums, strip_bytes, used);
}

// Runs the first `steps` steps on all rows at once.
void run_whole(const KernelCall& k, std::size_t steps) {
  const Fusion& fusion = *k.attributes().fusion;
  Block(k, 0, fusion.rows, nullptr).run(0, steps, nullptr, k.context.workspace, k.pool);
}

// Copies the operand Fusion::start to the output of the first step, which then adds to it.
void copy_start(const KernelCall& k) {
  const Fusion& fusion = *k.attributes().fusion;
  const auto from = static_cast<std::size_t>(fusion.start);
  const auto to = static_cast<std::size_t>(fusion.steps.front().outputs[0] - fusion.inputs);
  const auto* source = static_cast<const std::byte*>(k.operands.inputs[from]);
  auto* target = static_cast<std::byte*>(k.operands.outputs[to]);
  constexpr std::int64_t piece = 64 << 10;
  parallel_for(k.pool, fusion.operands[from].bytes(), piece,
               [=](std::int64_t begin, std::int64_t end) {
                 std::memcpy(target + begin, source + begin, end - begin);
               });
}

}  // namespace

void run_fused(const KernelCall& call) {
  const Fusion& fusion = *call.attributes().fusion;
  switch (fusion.loop) {
    case Fusion::Loop::blocks:
      return run_short_blocks(call, 0);
    case Fusion::Loop::long_blocks:
      return run_long_blocks(call);
    case Fusion::Loop::product_first:
      if (fusion.start >= 0) copy_start(call);
      run_whole(call, 1);
      if (fusion.steps.size() > 1) run_short_blocks(call, 1);
      return;
    case Fusion::Loop::products:
      return run_whole(call, fusion.steps.size());
  }
}

}  // namespace meshwright::exec::cpu
