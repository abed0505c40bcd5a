
#include <array>
#include <cmath>

#include "models/core/error.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"

namespace meshwright::program {

namespace {

constexpr auto operations = static_cast<std::size_t>(Op::count_);

// Returns one row per operation, in the order of the enumerators. Aborts if an operation has no
// row, or two.
std::array<OpInfo, operations> collect() {
  std::array<OpInfo, operations> table{};
  for (OpFamily* family : {activation_ops, attention_ops, bookkeeping_ops, communication_ops,
                           eager_ops, elementwise_ops, embedding_ops, experts_ops, loss_ops,
                           norm_ops, product_ops, quantized_ops, segment_ops})
    for (const OpInfo& row : family()) {
      OpInfo& place = table[static_cast<std::size_t>(row.op)];
      MESHWRIGHT_CHECK(place.name.empty(), "an operation has one row");
      place = row;
    }
  for (const OpInfo& row : table) MESHWRIGHT_CHECK(!row.name.empty(), "every operation has a row");
  return table;
}

const std::array<OpInfo, operations>& table() {
  static const std::array<OpInfo, operations> rows = collect();
  return rows;
}

}  // namespace

double score_scale(const Attributes& a) {
  if (!a.scaled_scores) return 1;
  const double width = a.score_width > 0 ? a.score_width : a.head_dim;
  return a.score_factor / std::sqrt(width);
}

int patches_across(const Attributes& attributes) {
  return static_cast<int>(std::lround(std::sqrt(attributes.sequence_length - 1)));
}

const OpInfo& info(Op op) { return table()[static_cast<std::size_t>(op)]; }
std::span<const OpInfo> op_table() { return table(); }

void append_kernels(const OpCall& call, CompilerLevel level, std::vector<Kernel>& kernels) {
  info(call.op).work(call, level, kernels);
}

double model_flops(const OpCall& call) {
  const auto flops = info(call.op).model_flops;
  return flops == nullptr ? 0 : flops(call);
}

}  // namespace meshwright::program
