// Checks that every operation has kernels, a gradient, a test case and a place in random graphs, in
// addition to its row in the operation table. Exceptions need a reason.
#include <set>
#include <string>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/backends/cpu/tables.h"
#include "exec/backends/cuda/tables.h"
#include "models/compiler/passes/pass.h"
#include "tests/agree/random_graph.h"
#include "tests/catch.h"
#include "tests/exec/op_cases.h"

using namespace meshwright::tests;

namespace {

using Ops = std::set<Op>;

enum class Part { cpu_kernel, cuda_kernel, gradient, op_case, place_in_random_graphs };
using enum Part;

struct Reason {
  std::set<Part> parts;  // that these have not
  std::string_view why;
  Ops ops;
};

const Reason reasons[] = {
    {{cpu_kernel, cuda_kernel, op_case}, "nothing is computed", {Op::tensor_copy}},
    {{cpu_kernel, cuda_kernel},
     "the optimizer's kernels do it (exec/optimizer)",
     {Op::update_loss_scale, Op::lamb_norms, Op::muon_momentum, Op::adafactor_sums,
      Op::adafactor_norms, Op::update_choice_biases}},
    {{cpu_kernel, op_case}, "what it is made of has one", {Op::fused}},
    {{gradient}, "pixels have none", {Op::image_patches}},
    {{gradient},
     "they belong to the backward pass, as all whose name says so",
     {Op::context_scatter, Op::context_unpack, Op::norm_parts_sums, Op::row_dots,
      Op::weigh_transposed, Op::fused}},
    {{gradient}, "norm_parts' is of both", {Op::norm_stats}},
    {{gradient},
     "ring_attention makes them after backward, from attention and attention_grad",
     {Op::context_attention, Op::context_gather, Op::context_pack, Op::context_shift}},
    {{gradient, place_in_random_graphs},
     "the pass `quantize` adds them after backward, in fp8 alone: models/quantize_test",
     {Op::amax, Op::quantize, Op::tensor_maximum, Op::transpose}},
    {{cuda_kernel, gradient, op_case, place_in_random_graphs},
     "weights in 4 bits are frozen, and on CPUs so far: weight_blocks_test, lora_test",
     {Op::widen_weights}},
    {{op_case},
     "finite differences say nothing of what is rounded: eight_bits_test",
     {Op::amax, Op::quantize, Op::transpose}},
    {{gradient, op_case, place_in_random_graphs},
     "lowering adds them to a Program",
     {Op::zero, Op::sum_loss, Op::sum_of_squares, Op::update_loss_scale, Op::update_largest,
      Op::lamb_norms, Op::muon_momentum, Op::adafactor_sums, Op::adafactor_norms, Op::count_choices,
      Op::update_choice_biases}},
    {{cpu_kernel, cuda_kernel, op_case, place_in_random_graphs},
     "PyTorch computes segments: models/captured_test",
     {Op::segment, Op::segment_grad, Op::segment_loss, Op::segment_loss_grad}},
    {{op_case},
     "several ranks do it together: gradients_test, context_attention_test",
     {Op::context_attention, Op::context_attention_grad, Op::context_pack, Op::context_unpack,
      Op::cross_entropy_combine, Op::cross_entropy_stats, Op::norm_parts, Op::norm_parts_grad,
      Op::norm_parts_sums, Op::norm_stats, Op::sequence_slice}},
    {{op_case},
     "its slots are no random numbers: experts_test",
     {Op::combine, Op::combine_grad, Op::dispatch, Op::dispatch_grad, Op::route, Op::route_grad}},
    {{op_case},
     "finite differences say nothing of them: kernels_test",
     {Op::image_patches, Op::mask_scores}},
};

bool has_reason(const OpInfo& row, Part part) {
  if (part == gradient && row.name.find("_grad") != std::string_view::npos) return true;
  // Communicators implement these operations, and are tested on several ranks.
  if (row.communication && (part == cpu_kernel || part == cuda_kernel || part == op_case))
    return true;
  for (const Reason& reason : reasons)
    if (reason.parts.contains(part) && reason.ops.contains(row.op)) return true;
  return false;
}

void check_every(Part part, const Ops& have) {
  for (const OpInfo& row : op_table()) {
    INFO(row.name);
    CHECK(have.contains(row.op) != has_reason(row, part));
  }
}

Ops with_cpu_kernel() {
  Ops ops;
  for (cpu::Table* table : cpu::tables)
    for (const cpu::Row& row : table()) ops.insert(row.op);
  return ops;
}

Ops with_cuda_kernel() {
  Ops ops;
  for (cuda::Table* table : cuda::tables)
    for (const cuda::Row& row : table()) ops.insert(row.op);
  return ops;
}

Ops with_gradient() {
  Ops ops;
  for (const OpInfo& row : op_table())
    if (row.differentiate != nullptr) ops.insert(row.op);
  return ops;
}

// Returns the operations that have a test case, and the gradients that the cases ask for.
Ops with_case() {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  for (const Case& c : small_cases()) play(runner, c);
  return runner.called;
}

// Returns whether the pass splits the model over ranks. Random graphs are already those of one
// rank.
bool cuts_the_model(const Pass& pass) {
  return pass.name == "pad_vocabulary" || pass.name.starts_with("split_");
}

Ops in_random_graphs() {
  Ops ops;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed)
    for (const CompilerLevel level : {CompilerLevel::none, CompilerLevel::full}) {
      RandomGraph drawn = random_graph(seed);
      drawn.plan.training.compiler = drawn.forward.compiler = level;
      Graph graph = std::move(drawn.forward);
      for (const Pass& pass : passes_of(drawn.plan.training)) {
        if (cuts_the_model(pass)) continue;
        graph = pass.run(std::move(graph), drawn.plan);
        for (const Node& node : graph.nodes) ops.insert(node.op);
      }
    }
  return ops;
}

}  // namespace

TEST_CASE("every operation has kernels, a gradient, a case and random graphs, or a reason",
          "[agree][passes]") {
  SECTION("a kernel of the CPU backend") { check_every(cpu_kernel, with_cpu_kernel()); }
  SECTION("a kernel of the CUDA backend") { check_every(cuda_kernel, with_cuda_kernel()); }
  SECTION("a gradient") { check_every(gradient, with_gradient()); }
  SECTION("a case of tests/exec/op_cases.cpp") { check_every(op_case, with_case()); }
  SECTION("a place in random graphs") { check_every(place_in_random_graphs, in_random_graphs()); }
}
