// Tests experts on the emulated device: the same choices as the CPU's, and the way into the slots
// and back.
#include <cmath>

#include "exec/backends/cpu/cpu_backend.h"
#include "models/program/graph/experts.h"
#include "tests/catch.h"
#include "tests/exec/beside_double.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

struct Layer {
  int batch, length, experts, chosen, capacity, width;
};

// Returns one of several layers: sequences with many tokens per thread and with fewer than one,
// lanes with several experts and without any, slots that overflow and slots that stay empty, and
// rows for a warp and for a block.
Layer any_layer() {
  return GENERATE(Layer{2, 7, 4, 2, 3, 5}, Layer{3, 70, 8, 2, 20, 16}, Layer{1, 300, 70, 3, 16, 8},
                  Layer{2, 40, 256, 8, 2, 24}, Layer{1, 33, 512, 10, 2, 24},
                  Layer{1, 9, 1, 1, 9, 1040}, Layer{2, 5, 3, 3, 1, 1031});
}

Attributes attributes_of(const Layer& layer) {
  Attributes a;
  a.micro_batch = layer.batch;
  a.sequence_length = layer.length;
  a.experts = layer.experts;
  a.experts_per_token = layer.chosen;
  a.expert_capacity = layer.capacity;
  a.balance = 0.5;
  a.scale = 0.125;
  return a;
}

}  // namespace

TEST_CASE("the device routes tokens as the CPU does, equal logits too", "[exec][cuda]") {
  Beside both(GENERATE(Dtype::f32, Dtype::f16, Dtype::bf16));
  const Layer layer = any_layer();
  Attributes a = attributes_of(layer);
  a.weights_of_all = GENERATE(false, true);
  const std::int64_t rows = std::int64_t{layer.batch} * layer.length, h = layer.width;
  const std::int64_t slots = std::int64_t{layer.experts} * layer.batch * layer.capacity;
  OpTensor logits = both.random({{rows, layer.experts}}, 1);
  for (std::int64_t i = 0; i < logits.elements(); ++i)
    logits.set(i, std::round(4 * logits.get(i)) / 2);  // nine different numbers
  const Shape chosen{rows, layer.chosen};
  const auto routed = both.run(Op::route, a, {&logits}, {chosen, chosen, {layer.batch}});
  const OpTensor &weights = routed[0], &places = routed[1];

  OpTensor dweights({chosen, Dtype::f32});
  for (std::int64_t i = 0; i < dweights.elements(); ++i) dweights.set(i, std::sin(double(i)));
  both.run(Op::route_grad, a, {&logits, &places, &dweights}, {logits.type.shape});
  OpTensor scale({{1}, Dtype::f32});
  scale.set(0, 64);
  both.run(Op::route_grad, a, {&logits, &places, &dweights, &scale}, {logits.type.shape});

  const OpTensor x = both.random({{rows, h}}, 2), y = both.random({{slots, h}}, 3);
  both.run(Op::dispatch, a, {&x, &places}, {{slots, h}});
  both.run(Op::dispatch_grad, a, {&places, &y}, {{rows, h}});
  both.run(Op::combine, a, {&y, &weights, &places}, {{rows, h}});
  both.run(Op::combine, a, {&y, &places}, {{rows, h}});
  both.run(Op::combine_grad, a, {&y, &weights, &places, &x}, {{slots, h}, chosen});
}

TEST_CASE("the device chooses by sigmoids, biases and groups as the CPU does", "[exec][cuda]") {
  Beside both(GENERATE(Dtype::f32, Dtype::f16, Dtype::bf16));
  const Layer layer = GENERATE(Layer{2, 7, 8, 2, 3, 5}, Layer{1, 70, 64, 6, 9, 16},
                               Layer{2, 40, 256, 8, 2, 24}, Layer{1, 33, 512, 10, 2, 24});
  Attributes a = attributes_of(layer);
  a.sigmoid_scores = GENERATE(false, true);
  a.weights_of_all = GENERATE(false, true);
  a.expert_groups = GENERATE(1, 4, 8);
  a.groups_per_token = (a.expert_groups + 1) / 2 + (a.expert_groups == 8 ? 1 : 0);
  a.groups_by_two = GENERATE(false, true);
  a.expert_weight_scale = 2.5;
  if (a.sigmoid_scores) a.balance = 0;
  const std::int64_t rows = std::int64_t{layer.batch} * layer.length;
  const bool biased = GENERATE(false, true);
  static int turn = 0;
  if (!is_tried(++turn, 7)) return;
  CAPTURE(layer.experts, a.sigmoid_scores, a.expert_groups, a.groups_by_two, biased);
  OpTensor logits = both.random({{rows, layer.experts}}, 1);
  const OpTensor bias = both.random({{layer.experts}}, 2);
  std::vector<const OpTensor*> scored = {&logits};
  if (biased) scored.push_back(&bias);
  // Equal logits get equal scores. Sums of unequal logits that are equal may be rounded
  // differently.
  for (std::int64_t i = 0; i < logits.elements() && !biased; ++i)
    logits.set(i, std::round(4 * logits.get(i)) / 2);
  const Shape chosen{rows, layer.chosen};
  const auto routed = both.run(Op::route, a, scored, {chosen, chosen, {layer.batch}});
  OpTensor dweights({chosen, Dtype::f32});
  for (std::int64_t i = 0; i < dweights.elements(); ++i) dweights.set(i, std::sin(double(i)));
  both.run(Op::route_grad, a, {&logits, &routed[1], &dweights}, {logits.type.shape});
}

TEST_CASE("the device counts choices as the CPU does, dropped ones too", "[exec][cuda]") {
  const Layer layer = any_layer();
  const bool dropless = GENERATE(false, true);
  Attributes a = attributes_of(layer);
  if (dropless) {
    a.expert_parts = layer.experts % 4 == 0 ? 4 : 1;
    const std::int64_t choices = std::int64_t{layer.batch} * layer.length * layer.chosen;
    a.expert_rows = std::max<std::int64_t>(1, choices / a.expert_parts - 1);  // too few
  }
  Beside both(Dtype::f32);
  const std::int64_t rows = std::int64_t{layer.batch} * layer.length;
  const OpTensor logits = both.random({{rows, layer.experts}}, 1);
  const Shape chosen{rows, layer.chosen};
  std::vector<Shape> made = {chosen, chosen, {layer.batch}};
  if (dropless) made.push_back({layer.experts, 1});
  const auto routed = both.run(Op::route, a, {&logits}, made);
  std::vector<TensorType> in = {routed[1].type};
  std::vector<const void*> from = {routed[1].as<std::int32_t>()};
  if (dropless) {
    in.push_back(routed[3].type);
    from.push_back(routed[3].as<std::int32_t>());
  }
  const std::vector<TensorType> out = {{Shape{layer.experts}, Dtype::f64}};
  const auto count = [&](Backend& backend) {
    std::vector<double> counts(static_cast<std::size_t>(layer.experts), 3);
    const std::vector<void*> to = {counts.data()};
    backend.run({Op::count_choices, a, in, out}, {from, to}, {});
    return counts;
  };
  const auto cpu = make_cpu_backend(1);
  const std::vector<double> expected = count(*cpu);
  CHECK(count(both.tables) == expected);
  double all = 0;
  for (const double each : expected) all += each;
  CHECK(all == static_cast<double>(3 * layer.experts + rows * layer.chosen));
}

TEST_CASE("the device multiplies rows that are counted as the CPU does", "[exec][cuda]") {
  Beside both(GENERATE(Dtype::f32, Dtype::f16, Dtype::bf16));
  const Layer layer =
      GENERATE(Layer{2, 7, 4, 2, 0, 5}, Layer{3, 70, 8, 3, 0, 40}, Layer{1, 40, 256, 8, 0, 24},
               Layer{1, 200, 4, 3, 0, 72}, Layer{1, 200, 4, 1, 0, 72});
  Attributes a = attributes_of(layer);
  a.balance = 0;
  // If one expert is chosen, its share of the chosen ones is 1, whose gradient is only rounding
  // errors.
  if (layer.chosen == 1) a.weights_of_all = true;
  a.expert_parts = GENERATE(1, 2, 4);
  const std::int64_t rows = std::int64_t{layer.batch} * layer.length, h = layer.width, out = 33;
  const std::int64_t choices = rows * layer.chosen;
  a.expert_rows = GENERATE(true, false) ? choices : dropless_rows(1.25, choices, a.expert_parts);
  static int turn = 0;
  if (!is_tried(++turn, 7)) return;
  const std::int64_t all = a.expert_rows * a.expert_parts;
  OpTensor logits = both.random({{rows, layer.experts}}, 1);
  for (std::int64_t i = 0; i < logits.elements(); ++i)
    logits.set(i, std::round(4 * logits.get(i)) / 2);
  const Shape chosen{rows, layer.chosen};
  const auto routed =
      both.run(Op::route, a, {&logits}, {chosen, chosen, {layer.batch}, {layer.experts, 1}});
  const OpTensor &weights = routed[0], &places = routed[1], &counts = routed[3];
  OpTensor dweights({chosen, Dtype::f32});
  for (std::int64_t i = 0; i < dweights.elements(); ++i) dweights.set(i, std::sin(double(i)));
  both.run(Op::route_grad, a, {&logits, &places, &dweights, &counts}, {logits.type.shape});
  OpTensor scale({{1}, Dtype::f32});
  scale.set(0, 64);
  both.run(Op::route_grad, a, {&logits, &places, &dweights, &counts, &scale}, {logits.type.shape});

  const OpTensor x = both.random({{rows, h}}, 2), y = both.random({{all, out}}, 3);
  const OpTensor taken = both.run(Op::dispatch, a, {&x, &places}, {{all, h}})[0];
  const std::int64_t own = layer.experts / a.expert_parts;
  const OpTensor w = both.random({{own, out, h}}, 4);
  const OpTensor z = both.run(Op::expert_linear, a, {&taken, &w, &counts}, {{all, out}})[0];
  both.run(Op::expert_linear_grad_input, a, {&y, &w, &counts}, {{all, h}});
  both.run(Op::expert_linear_grad_weight, a, {&taken, &y, &counts}, {{own, out, h}}, 1);
  const OpTensor bias = both.random({{own, out}}, 5);
  both.run(Op::add_expert_bias, a, {&y, &bias, &counts}, {{all, out}});
  Attributes shared = a;
  shared.tensor_degree = 4;
  both.run(Op::add_expert_bias, shared, {&y, &bias, &counts}, {{all, out}});
  both.run(Op::expert_bias_grad, a, {&y, &counts}, {{own, out}}, 1);
  both.run(Op::combine, a, {&z, &weights, &places}, {{rows, out}});
}

TEST_CASE("on the device too tokens without a number for a logit go to an expert", "[exec][cuda]") {
  TableBackend tables;
  Runner runner(tables, Dtype::f32);
  const Attributes a = attributes_of({1, 2, 3, 2, 2, 1});
  OpTensor logits = runner.random({{2, 3}}, 1);
  logits.set(0, NAN), logits.set(1, NAN), logits.set(2, NAN), logits.set(3, NAN);
  const auto out = runner.run(Op::route, a, {&logits}, {{2, 2}, {2, 2}, {1}});
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto slot = static_cast<std::int32_t>(out[1].get(i));
    CHECK(expert_of_slot(a, slot) >= 0);
    CHECK(expert_of_slot(a, slot) < 3);
  }
  CHECK(std::isnan(out[2].get(0)));
}
