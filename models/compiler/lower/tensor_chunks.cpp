#include "models/compiler/lower/tensor_chunks.h"

#include <algorithm>
#include <memory>

#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/instruction_of.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/quantized.h"

namespace meshwright::compiler {

namespace {

bool is_product(const Node& node) {
  return node.op == Op::linear || node.op == Op::linear_grad_input;
}

bool is_in_shares(const Node& node) {
  return node.op == Op::sequence_gather || node.op == Op::sequence_scatter;
}

// Returns part `part` of `parts` of the operand's rows.
Operand rows_of(Operand operand, int part, int parts) {
  operand.type.shape[0] /= parts;
  operand.offset += part * operand.type.bytes();
  return operand;
}

// Returns whether the tensor is used in this body only, in memory that it shares with no other
// tensor.
bool passes_inside(const StageDraft& draft, int tensor) {
  const TensorFlow& flow = draft.boundaries.tensors[tensor];
  const Tensor& made = draft.graph.tensor(tensor);
  return made.role == Role::activation && made.alias_of < 0 && !flow.kept &&
         !flow.crosses_forward && !flow.crosses_backward;
}

// Returns whether an input of a matmul is split with its rows: the rows themselves (input 0), and
// their scales if each row has its own.
bool has_rows(const Instruction& product, std::size_t input) {
  const TensorType& first = product.inputs[0].type;
  return input == 0 || (is_quantized(first.dtype) && input == scale_input(0) &&
                        product.inputs[input].type.shape[0] == first.shape[0]);
}

// Returns a body of one matmul for each of `parts` shares of the rows, all with the same weight.
// Each matmul has the rows of one chunk.
std::shared_ptr<const Fusion> product_of_parts(const Instruction& whole, int parts, int chunks) {
  Fusion fusion;
  fusion.steps.assign(parts, {whole.op, whole.attributes, {}, {}});
  // Adds an operand to every step. If it has rows, each step gets an operand of its own, otherwise
  // all share one.
  const auto add = [&](TensorType type, bool rows, TensorIds FusedStep::*of_step) {
    const int first = static_cast<int>(fusion.operands.size());
    if (rows) type.shape[0] /= parts * chunks;
    fusion.operands.insert(fusion.operands.end(), rows ? parts : 1, type);
    fusion.cut.resize(fusion.operands.size(), rows ? 1 : 0);
    for (int part = 0; part < parts; ++part)
      (fusion.steps[part].*of_step).push_back(rows ? first + part : first);
  };
  for (std::size_t i = 0; i < whole.inputs.size(); ++i)
    add(whole.inputs[i].type, has_rows(whole, i), &FusedStep::inputs);
  fusion.inputs = static_cast<int>(fusion.operands.size());
  add(whole.outputs[0].type, true, &FusedStep::outputs);
  fusion.outputs = parts;
  fusion.rows = fusion.block_rows = fusion.operands[0].shape[0];
  fusion.loop = Fusion::Loop::products;
  return std::make_shared<const Fusion>(std::move(fusion));
}

}  // namespace

TensorChunks::TensorChunks(StageDraft& draft, BodyBuilder& body)
    : draft_(draft),
      body_(body),
      ranks_(draft.plan.parallelism.tensor),
      chunks_(draft.plan.parallelism.tensor_chunks) {
  if (ranks_ == 1 || !draft.plan.parallelism.overlap_tensor || chunks_ == 1) return;
  std::vector<int> nodes;
  for (int index : draft.boundaries.nodes[draft.virtual_stage(body.chunk())])
    if (draft.boundaries.body[index] == body.body().kind) nodes.push_back(index);
  for (int index : nodes)
    for (int id : node(index).inputs) readers_[id].push_back(index);
  for (int index : nodes)
    if (is_product(node(index))) find_sum(index);
  for (int index : nodes)
    if (node(index).op == Op::sequence_gather) find_gather(index);
  for (const auto& [product, sum] : sum_of_)
    if (!group_of_.contains(product)) group_of_[product] = {product};
}

const Node& TensorChunks::node(int index) const { return draft_.graph.nodes[index]; }

bool TensorChunks::divides(int tensor, bool in_shares) const {
  return draft_.graph.tensor(tensor).type.shape[0] % (in_shares ? ranks_ * chunks_ : chunks_) == 0;
}

// Notes the collective that sums the output of a matmul, if both can be split. Only the collective
// may read that output.
void TensorChunks::find_sum(int product) {
  const int made = node(product).outputs[0];
  const std::vector<int>& readers = readers_[made];
  if (readers.size() != 1) return;
  const Node& sum = node(readers[0]);
  const bool sums = sum.op == Op::tensor_reduce || sum.op == Op::sequence_scatter;
  if (!sums || !divides(made, is_in_shares(sum)) || !passes_inside(draft_, made)) return;
  sum_of_[product] = readers[0];
}

// Notes a gather that can be split, with the matmuls that read its output. They are split in the
// same way, but only if the first reader of the output is one of them.
void TensorChunks::find_gather(int gather) {
  const int gathered = node(gather).outputs[0];
  const std::vector<int>& readers = readers_[gathered];
  if (readers.empty() || !divides(gathered, true)) return;
  const auto is_there = [&](int tensor) {
    return draft_.graph.tensor(tensor).producer < readers[0];
  };
  const auto is_cut = [&](int reader) {
    const auto sum = sum_of_.find(reader);
    return std::ranges::all_of(node(reader).inputs, is_there) && is_product(node(reader)) &&
           node(reader).inputs[0] == gathered &&
           draft_.graph.unit_of(node(reader)) == draft_.graph.unit_of(node(gather)) &&
           (sum == sum_of_.end() || is_in_shares(node(sum->second)));
  };
  if (!is_cut(readers[0])) return;
  std::vector<int>& group = group_of_[readers[0]];
  std::ranges::copy_if(readers, std::back_inserter(group), is_cut);
  for (int product : group) group_of_[product] = group;
  is_gathered_.insert(gather);
  reads_shares_.insert(group.begin(), group.end());
}

std::optional<int> TensorChunks::write(int index) {
  if (const auto known = written_.find(index); known != written_.end()) return known->second;
  if (is_gathered_.contains(index)) return write_gather(index);
  if (const auto group = group_of_.find(index); group != group_of_.end()) {
    write_products(group->second);
    return written_[index];
  }
  return {};
}

// Writes a gather chunk by chunk. Each chunk has an equal number of rows of every rank.
int TensorChunks::write_gather(int gather) {
  const Instruction whole =
      instruction_of(draft_, node(gather), draft_.virtual_stage(body_.chunk()));
  int last = -1;
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    Instruction part = whole;
    part.inputs = {rows_of(whole.inputs[0], chunk, chunks_)};
    part.outputs = shares_of(whole.outputs[0], chunk);
    last = body_.emit(std::move(part));
  }
  return last;
}

// Returns the operands of one chunk: its part of every rank's rows.
std::vector<Operand> TensorChunks::shares_of(const Operand& all, int chunk) const {
  std::vector<Operand> shares;
  for (int rank = 0; rank < ranks_; ++rank)
    shares.push_back(rows_of(all, rank * chunks_ + chunk, ranks_ * chunks_));
  return shares;
}

void TensorChunks::write_products(const std::vector<int>& products) {
  std::vector<Whole> wholes;
  for (int product : products) wholes.push_back(whole_of(product));
  for (int chunk = 0; chunk < chunks_; ++chunk)
    for (std::size_t i = 0; i < products.size(); ++i) {
      const Whole& whole = wholes[i];
      written_[products[i]] = body_.emit(chunk_of(whole, chunk));
      if (whole.sum) written_[sum_of_[products[i]]] = body_.emit(sum_of(whole, chunk));
    }
}

TensorChunks::Whole TensorChunks::whole_of(int product) const {
  const int virtual_stage = draft_.virtual_stage(body_.chunk());
  Whole whole{instruction_of(draft_, node(product), virtual_stage), {}, nullptr};
  bool in_shares = reads_shares_.contains(product);
  if (const auto sum = sum_of_.find(product); sum != sum_of_.end()) {
    whole.sum = instruction_of(draft_, node(sum->second), virtual_stage);
    in_shares = in_shares || is_in_shares(node(sum->second));
  }
  if (in_shares) whole.parts = product_of_parts(whole.product, ranks_, chunks_);
  return whole;
}

Instruction TensorChunks::chunk_of(const Whole& whole, int chunk) const {
  Instruction part = whole.product;
  if (!whole.parts) {
    for (std::size_t i = 0; i < part.inputs.size(); ++i)
      if (has_rows(whole.product, i)) part.inputs[i] = rows_of(part.inputs[i], chunk, chunks_);
    part.outputs[0] = rows_of(part.outputs[0], chunk, chunks_);
    return part;
  }
  part.op = Op::fused;
  part.attributes.fusion = whole.parts;
  part.inputs.clear();
  for (std::size_t i = 0; i < whole.product.inputs.size(); ++i) {
    const Operand& input = whole.product.inputs[i];
    const std::vector<Operand> shares =
        has_rows(whole.product, i) ? shares_of(input, chunk) : std::vector<Operand>{input};
    part.inputs.insert(part.inputs.end(), shares.begin(), shares.end());
  }
  part.outputs = shares_of(whole.product.outputs[0], chunk);
  return part;
}

Instruction TensorChunks::sum_of(const Whole& whole, int chunk) const {
  Instruction part = *whole.sum;
  if (part.kind == InstructionKind::reduce_scatter) {
    part.inputs = shares_of(whole.sum->inputs[0], chunk);
    part.outputs = {rows_of(whole.sum->outputs[0], chunk, chunks_)};
  } else {
    part.inputs = part.outputs = {rows_of(whole.sum->inputs[0], chunk, chunks_)};
  }
  return part;
}

}  // namespace meshwright::compiler
