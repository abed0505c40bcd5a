// Tests which expert takes which token: routes, slots and the way there and back, with their
// gradients.
#include "models/program/graph/experts.h"

#include <cmath>
#include <functional>

#include "exec/backends/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/exec/op_runner.h"

using namespace meshwright::tests;

namespace {

Attributes attributes(int batch, int length, int experts, int chosen, int capacity) {
  Attributes a;
  a.micro_batch = batch;
  a.sequence_length = length;
  a.experts = experts;
  a.experts_per_token = chosen;
  a.expert_capacity = capacity;
  return a;
}

std::int64_t rows_of(const Attributes& a) {
  return std::int64_t{a.micro_batch} * a.sequence_length;
}
std::int64_t slots_of(const Attributes& a) {
  return std::int64_t{a.experts} * a.micro_batch * a.expert_capacity;
}

// Returns the weights, the slots and the balancing losses.
std::vector<OpTensor> route(Runner& runner, const Attributes& a, const OpTensor& logits) {
  const Shape chosen{rows_of(a), a.experts_per_token};
  return runner.run(Op::route, a, {&logits}, {chosen, chosen, {a.micro_batch}});
}

OpTensor tensor_of(const Shape& shape, const std::vector<double>& values) {
  OpTensor tensor({shape, Dtype::f64});
  for (std::size_t i = 0; i < values.size(); ++i)
    tensor.set(static_cast<std::int64_t>(i), values[i]);
  return tensor;
}

std::vector<double> values(const OpTensor& tensor) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) all.push_back(tensor.get(i));
  return all;
}

double dot(const OpTensor& a, const OpTensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

double worst_difference(OpTensor& input, const OpTensor& gradient,
                        const std::function<double()>& functional) {
  constexpr double step = 1e-5;
  double worst = 0;
  for (std::int64_t i = 0; i < input.elements(); ++i) {
    const double value = input.get(i);
    input.set(i, value + step);
    const double above = functional();
    input.set(i, value - step);
    const double below = functional();
    input.set(i, value);
    worst = std::max(worst, std::fabs(gradient.get(i) - (above - below) / (2 * step)));
  }
  return worst;
}

// Sends x to the slots and back with weights. On the way, the values in the slots are doubled.
struct Journey {
  Runner& runner;
  Attributes a = attributes(2, 7, 4, 2, 3);  // 28 choices for 24 slots: some are dropped
  std::int64_t h = 5;
  OpTensor x = runner.random({{14, 5}}, 1), logits = runner.random({{14, 4}}, 2),
           dy = runner.random({{14, 5}}, 3);
  std::vector<OpTensor> routed = route(runner, a, logits);

  OpTensor dispatched() const {
    return runner.run(Op::dispatch, a, {&x, &routed[1]}, {{slots_of(a), h}})[0];
  }
  OpTensor combined(const OpTensor& rows, const OpTensor& weights) const {
    return runner.run(Op::combine, a, {&rows, &weights, &routed[1]}, {{14, h}})[0];
  }
};

}  // namespace

TEST_CASE("an expert's places of a sequence: as many as the factor says, at most all of its tokens",
          "[exec][experts]") {
  CHECK(expert_capacity(1, 8, 2, 4) == 4);
  CHECK(expert_capacity(1.25, 8, 2, 4) == 5);
  CHECK(expert_capacity(1.2, 10, 1, 1) == 10);
  CHECK(expert_capacity(1.2, 20, 2, 4) == 12);  // 1.2 * 10 is 12, not a rounding error above
  CHECK(expert_capacity(1.1, 8, 2, 4) == 5);
  CHECK(expert_capacity(2, 8, 2, 4) == 8);  // experts / experts_per_token
  CHECK(expert_capacity(100, 8, 2, 4) == 8);
  CHECK(expert_capacity(0.001, 8, 2, 4) == 1);
}

TEST_CASE("tokens take the places of their experts in order of position", "[exec][experts]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f64);
  // There are two sequences of three tokens, which choose two of three experts, and each expert has
  // two slots for a sequence.
  Attributes a = attributes(2, 3, 3, 2, 2);
  a.balance = 10;
  const OpTensor logits = tensor_of({6, 3}, {2, 1, 0,  // experts 0 and 1
                                             1, 2, 0,  // 1 and 0
                                             3, 0, 1,  // 0, which is full, and 2
                                             0, 0, 0,  // equal: the first ones
                                             0, 1, 2,  //
                                             0, 1, 2});
  const std::vector<OpTensor> out = route(runner, a, logits);
  // The slots of expert e begin at 4 e, those of the second sequence 2 later. Expert 0 was full for
  // one choice, which gets -1.
  CHECK(values(out[1]) == std::vector<double>{0, 4, 5, 1, -1, 8, 2, 6, 10, 7, 11, -2});
  const double w = std::exp(1.0) / (1 + std::exp(1.0));
  CHECK(out[0].get(0) == Approx(w));
  CHECK(out[0].get(1) == Approx(1 - w));
  CHECK(out[0].get(6) == Approx(0.5));
  Attributes of_all = a;
  of_all.weights_of_all = true;
  const std::vector<OpTensor> shares = route(runner, of_all, logits);
  CHECK(shares[0].get(6) == Approx(1.0 / 3));  // of three equal ones
  CHECK(shares[0].get(0) == Approx(std::exp(2.0) / (std::exp(2.0) + std::exp(1.0) + 1)));
  CHECK(values(shares[1]) == values(out[1]));
  CHECK(values(shares[2]) == values(out[2]));
  // The three tokens of the first sequence chose expert 0 three times, expert 1 twice and expert 2
  // once, dropped or not.
  double mean[3] = {};
  for (int r = 0; r < 3; ++r) {
    double sum = 0;
    for (int e = 0; e < 3; ++e) sum += std::exp(logits.get(3 * r + e));
    for (int e = 0; e < 3; ++e) mean[e] += std::exp(logits.get(3 * r + e)) / sum / 3;
  }
  CHECK(out[2].get(0) == Approx(10 * 3 * (mean[0] + mean[1] * 2 / 3 + mean[2] / 3)));
}

TEST_CASE("equal use of all experts has the least balancing loss", "[exec][experts]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a = attributes(1, 4, 4, 1, 4);
  a.balance = 1;
  const auto loss = [&](const std::vector<double>& logits) {
    return route(runner, a, tensor_of({4, 4}, logits))[2].get(0);
  };
  // The loss is 1 when balanced (4 experts x 4 x 1/4 x 1/4), and 4 if one expert has all tokens
  // with certainty.
  CHECK(loss({9, 0, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0, 0, 0, 0, 9}) == Approx(1));
  CHECK(loss({99, 0, 0, 0, 99, 0, 0, 0, 99, 0, 0, 0, 99, 0, 0, 0}) == Approx(4));
}

TEST_CASE("a route's gradient agrees with central differences", "[exec][experts]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f64);
  Attributes a = attributes(2, 6, 5, 3, 2);
  a.balance = GENERATE(0.0, 2.5);
  a.weights_of_all = GENERATE(false, true);
  a.scale = 0.125;
  OpTensor logits = runner.random({{12, 5}}, 4);
  const OpTensor dweights = runner.random({{12, 3}}, 5);
  const std::vector<OpTensor> out = route(runner, a, logits);
  const OpTensor gradient =
      runner.run(Op::route_grad, a, {&logits, &out[1], &dweights}, {{12, 5}})[0];
  CHECK(worst_difference(logits, gradient, [&] {
          const std::vector<OpTensor> again = route(runner, a, logits);
          return dot(again[0], dweights) + a.scale * (again[2].get(0) + again[2].get(1));
        }) < 1e-8);
  // In fp16, gradients from above are scaled already, but the balancing loss is not.
  OpTensor scale({{1}, Dtype::f32});
  scale.set(0, 8);
  const OpTensor scaled =
      runner.run(Op::route_grad, a, {&logits, &out[1], &dweights, &scale}, {{12, 5}})[0];
  a.scale *= 8;
  CHECK(values(scaled) ==
        values(runner.run(Op::route_grad, a, {&logits, &out[1], &dweights}, {{12, 5}})[0]));
}

TEST_CASE("a route's gradient by sigmoids agrees with central differences", "[exec][experts]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f64);
  Attributes a = attributes(2, 6, 6, 3, 2);
  a.sigmoid_scores = GENERATE(false, true);
  a.weights_of_all = GENERATE(false, true);
  a.expert_weight_scale = 2.5;
  a.expert_groups = 3, a.groups_per_token = 2, a.groups_by_two = true;
  OpTensor logits = runner.random({{12, 6}}, 4);
  const OpTensor dweights = runner.random({{12, 3}}, 5), bias = runner.random({{6}}, 6);
  const auto route = [&] {
    return runner.run(Op::route, a, {&logits, &bias}, {{12, 3}, {12, 3}, {a.micro_batch}});
  };
  const std::vector<OpTensor> out = route();
  const OpTensor gradient =
      runner.run(Op::route_grad, a, {&logits, &out[1], &dweights}, {{12, 6}})[0];
  CHECK(worst_difference(logits, gradient, [&] { return dot(route()[0], dweights); }) < 1e-8);
}

TEST_CASE("rows that are counted give what slots give", "[exec][experts]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f64);
  const int h = 3, out = 5;
  Attributes slots = attributes(2, 6, 4, 2, 6), counted = slots;
  slots.balance = counted.balance = 0.5;
  counted.expert_rows = 24;
  const OpTensor logits = runner.random({{12, 4}}, 1), x = runner.random({{12, h}}, 2);
  const OpTensor w = runner.random({{4, out, h}}, 3), dy = runner.random({{12, out}}, 4);
  const OpTensor bias = runner.random({{4, out}}, 5);
  const auto run = [&](const Attributes& a) {
    const bool dropless = is_dropless(a);
    const std::int64_t rows = dropless ? 24 : slots_of(a);
    std::vector<Shape> shapes = {{12, 2}, {12, 2}, {2}};
    if (dropless) shapes.push_back({4, 1});
    const auto routed = runner.run(Op::route, a, {&logits}, shapes);
    const auto with_counts = [&](std::vector<const OpTensor*> operands) {
      if (dropless) operands.push_back(&routed[3]);
      return operands;
    };
    const OpTensor taken = runner.run(Op::dispatch, a, {&x, &routed[1]}, {{rows, h}})[0];
    const OpTensor product =
        runner.run(Op::expert_linear, a, with_counts({&taken, &w}), {{rows, out}})[0];
    const OpTensor y =
        runner.run(Op::add_expert_bias, a, with_counts({&product, &bias}), {{rows, out}})[0];
    const OpTensor z = runner.run(Op::combine, a, {&y, &routed[0], &routed[1]}, {{12, out}})[0];
    const auto grads =
        runner.run(Op::combine_grad, a, {&y, &routed[0], &routed[1], &dy}, {{rows, out}, {12, 2}});
    const OpTensor of_rows =
        runner.run(Op::expert_linear_grad_input, a, with_counts({&grads[0], &w}), {{rows, h}})[0];
    return std::vector<OpTensor>{
        z,
        runner.run(Op::dispatch_grad, a, {&routed[1], &of_rows}, {{12, h}})[0],
        runner.run(Op::expert_linear_grad_weight, a, with_counts({&taken, &grads[0]}),
                   {{4, out, h}}, 1)[0],
        runner.run(Op::expert_bias_grad, a, with_counts({&grads[0]}), {{4, out}}, 1)[0],
        runner.run(Op::route_grad, a, with_counts({&logits, &routed[1], &grads[1]}), {{12, 4}})[0],
        routed[2]};
  };
  const auto expected = run(slots), got = run(counted);
  for (std::size_t i = 0; i < expected.size(); ++i)
    for (std::int64_t j = 0; j < expected[i].elements(); ++j)
      CHECK(got[i].get(j) == Approx(expected[i].get(j)).epsilon(1e-12).margin(1e-12));
}

TEST_CASE("rows beyond the bound of a part are dropped or an error", "[exec][experts]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a = attributes(2, 2, 4, 1, 1);
  a.expert_parts = 2;
  a.expert_rows = 2;
  // Three tokens choose expert 1, which is in part 0 with expert 0, and one chooses expert 2.
  const OpTensor logits = tensor_of({4, 4}, {0, 9, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0, 0, 9, 0, 0});
  const auto routed = [&] {
    return runner.run(Op::route, a, {&logits}, {{4, 1}, {4, 1}, {2}, {4, 1}});
  };
  CHECK(values(routed()[1]) == std::vector<double>{0, 1, 2, -2});
  CHECK(values(routed()[3]) == std::vector<double>{0, 2, 1, 0});
  CHECK(values(routed()[2]) == std::vector<double>{0, 0});
  a.overflow_is_error = true;
  CHECK(routed()[2].get(0) == 0);
  CHECK(std::isnan(routed()[2].get(1)));  // the sequence whose token found no row
  a.expert_rows = 3;
  CHECK(values(routed()[2]) == std::vector<double>{0, 0});
}

namespace {

// Returns `before` plus the number of choices of each expert. `slots` are as a route makes them.
std::vector<double> counted(Backend& backend, const Attributes& a, const std::vector<int>& slots,
                            const std::vector<int>& placed, std::vector<double> before) {
  const TensorType choices{Shape{rows_of(a), a.experts_per_token}, Dtype::i32};
  const std::vector<TensorType> in = {choices, {Shape{a.experts, 1}, Dtype::i32}};
  const std::vector<TensorType> out = {{Shape{a.experts}, Dtype::f64}};
  const std::size_t inputs = placed.empty() ? 1 : 2;
  const std::vector<const void*> from = {slots.data(), placed.data()};
  const std::vector<void*> to = {before.data()};
  backend.run({Op::count_choices, a, {in.data(), inputs}, out}, {{from.data(), inputs}, to}, {});
  return before;
}

}  // namespace

TEST_CASE("choices are counted whether they found room or not", "[exec][experts]") {
  const auto backend = make_cpu_backend(1);
  // Two sequences of three tokens chose the experts 0 1, 1 0, 0 2, 0 1, 2 1, 2 1. Each expert has
  // two slots for a sequence.
  const Attributes a = attributes(2, 3, 3, 2, 2);
  CHECK(counted(*backend, a, {0, 4, 5, 1, -1, 8, 2, 6, 10, 7, 11, -2}, {}, {10, 0, 0.0}) ==
        std::vector<double>{14, 5, 3});
  // The parts have experts 0 and 1, and 2 and 3, with two rows each. The last token found none.
  Attributes counts = attributes(2, 2, 4, 1, 1);
  counts.expert_parts = 2;
  counts.expert_rows = 2;
  CHECK(counted(*backend, counts, {0, 1, 2, -2}, {0, 2, 1, 0}, {0, 0, 0, 7}) ==
        std::vector<double>{0, 3, 1, 7});
}

TEST_CASE("biases and groups decide who is chosen, not how much each counts", "[exec][experts]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a = attributes(1, 1, 6, 2, 1);
  a.sigmoid_scores = a.weights_of_all = true;
  const OpTensor logits = tensor_of({1, 6}, {0, 1, 2, 3, 4, 5});
  const auto chosen = [&](const std::vector<double>& biases) {
    const OpTensor bias = tensor_of({6}, biases);
    const auto out = runner.run(Op::route, a, {&logits, &bias}, {{1, 2}, {1, 2}, {1}});
    for (std::int64_t j = 0; j < 2; ++j)
      CHECK(out[0].get(j) == Approx(a.expert_weight_scale /
                                    (1 + std::exp(-logits.get(std::int64_t(out[1].get(j)))))));
    return values(out[1]);
  };
  CHECK(chosen({0, 0, 0, 0, 0, 0}) == std::vector<double>{5, 4});
  CHECK(chosen({9, 0, 0, 0, 0, 0}) == std::vector<double>{0, 5});
  a.expert_weight_scale = 3;
  a.expert_groups = 3;                                             // 0 and 1, 2 and 3, 4 and 5
  CHECK(chosen({9, 0, 0, 0, 0, 0}) == std::vector<double>{0, 1});  // of the group with the best one
  a.groups_by_two = true;
  CHECK(chosen({9, 0, 0, 0, 5, 6}) == std::vector<double>{5, 4});  // of the best two
  a.groups_per_token = 2;
  CHECK(chosen({9, 0, 0, 0, 5, 6}) == std::vector<double>{0, 5});
}

TEST_CASE("tokens go to their slots and come back weighted; dropped ones do not",
          "[exec][experts]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f64);
  const Journey journey{runner};
  const std::vector<double> slots = values(journey.routed[1]);
  CHECK(std::count_if(slots.begin(), slots.end(), [](double slot) { return slot < 0; }) >= 4);
  const OpTensor rows = journey.dispatched(), y = journey.combined(rows, journey.routed[0]);
  std::vector<char> used(static_cast<std::size_t>(slots_of(journey.a)), 0);
  for (std::size_t r = 0; r < 14; ++r) {
    double kept = 0;
    for (std::size_t i = 2 * r; i < 2 * r + 2; ++i) {
      if (slots[i] < 0) continue;
      kept += journey.routed[0].get(static_cast<std::int64_t>(i));
      used[static_cast<std::size_t>(slots[i])] = 1;
      for (int c = 0; c < 5; ++c)
        CHECK(rows.get(static_cast<std::int64_t>(slots[i]) * 5 + c) ==
              journey.x.get(static_cast<std::int64_t>(r) * 5 + c));
    }
    for (int c = 0; c < 5; ++c)
      CHECK(y.get(static_cast<std::int64_t>(r) * 5 + c) ==
            Approx(kept * journey.x.get(static_cast<std::int64_t>(r) * 5 + c)).margin(1e-15));
  }
  for (std::size_t slot = 0; slot < used.size(); ++slot)
    for (int c = 0; c < 5 && !used[slot]; ++c)
      CHECK(rows.get(static_cast<std::int64_t>(slot) * 5 + c) == 0);
}

TEST_CASE("the gradients of the way to the experts and back agree with central differences",
          "[exec][experts]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f64);
  Journey journey{runner};
  const OpTensor rows = journey.dispatched();
  OpTensor moved = rows;  // the experts' results
  for (std::int64_t i = 0; i < moved.elements(); ++i) moved.set(i, 2 * rows.get(i) + 1);
  const std::vector<OpTensor> back = runner.run(
      Op::combine_grad, journey.a, {&moved, &journey.routed[0], &journey.routed[1], &journey.dy},
      {rows.type.shape, {14, 2}});
  const auto loss = [&] { return dot(journey.combined(moved, journey.routed[0]), journey.dy); };
  CHECK(worst_difference(moved, back[0], loss) < 1e-8);
  CHECK(worst_difference(journey.routed[0], back[1], loss) < 1e-8);
  const OpTensor dx =
      runner.run(Op::dispatch_grad, journey.a, {&journey.routed[1], &back[0]}, {{14, 5}})[0];
  CHECK(worst_difference(journey.x, dx, [&] { return dot(journey.dispatched(), back[0]); }) < 1e-8);
}

TEST_CASE("rows that were weighted before are summed, and the gradient of the sum is dispatched",
          "[exec][experts]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  const Journey journey{runner};
  OpTensor ones = journey.routed[0];
  for (std::int64_t i = 0; i < ones.elements(); ++i) ones.set(i, 1);
  OpTensor rows = runner.random({{slots_of(journey.a), 5}}, 7);
  const auto summed = [&] {
    return runner.run(Op::combine, journey.a, {&rows, &journey.routed[1]}, {{14, 5}})[0];
  };
  CHECK(values(summed()) == values(journey.combined(rows, ones)));
  const OpTensor gradient =
      runner.run(Op::dispatch, journey.a, {&journey.dy, &journey.routed[1]}, {rows.type.shape})[0];
  CHECK(worst_difference(rows, gradient, [&] { return dot(summed(), journey.dy); }) < 1e-8);
}

TEST_CASE("experts do not depend on the number of threads or on the type", "[exec][experts]") {
  const auto one = make_cpu_backend(1), three = make_cpu_backend(3);
  const Attributes a = attributes(3, 67, 8, 2, 20);
  const auto play = [&](Backend& backend, Dtype dtype) {
    Runner runner(backend, dtype);
    const OpTensor logits = runner.random({{rows_of(a), 8}}, 1),
                   x = runner.random({{rows_of(a), 130}}, 2),
                   dy = runner.random({{rows_of(a), 130}}, 3);
    std::vector<OpTensor> all = route(runner, a, logits);
    const Shape slots{slots_of(a), 130};
    all.push_back(runner.run(Op::dispatch, a, {&x, &all[1]}, {slots})[0]);
    all.push_back(runner.run(Op::combine, a, {&all[3], &all[0], &all[1]}, {{rows_of(a), 130}})[0]);
    for (const OpTensor& each : runner.run(Op::combine_grad, a, {&all[3], &all[0], &all[1], &dy},
                                           {slots, {rows_of(a), 2}}))
      all.push_back(each);
    all.push_back(runner.run(Op::dispatch_grad, a, {&all[1], &all[5]}, {{rows_of(a), 130}})[0]);
    all.push_back(runner.run(Op::route_grad, a, {&logits, &all[1], &all[6]}, {{rows_of(a), 8}})[0]);
    return all;
  };
  const std::vector<OpTensor> single = play(*one, Dtype::f32), exact = play(*one, Dtype::f64);
  const std::vector<OpTensor> threads = play(*three, Dtype::f32);
  for (std::size_t i = 0; i < single.size(); ++i) {
    INFO("result " << i);
    CHECK(values(single[i]) == values(threads[i]));
    CHECK(distance(single[i], exact[i]) < 5e-6);
  }
  // In 16 bits each operation rounds its result once, and the next ones use the rounded values.
  const std::vector<OpTensor> narrow = play(*three, Dtype::bf16);
  CHECK(narrow[0].type.dtype == Dtype::f32);
  CHECK(narrow[3].type.dtype == Dtype::bf16);
  CHECK(narrow[7].type.dtype == Dtype::bf16);
  CHECK(distance(narrow[2], exact[2]) < 0x1p-6);
}

TEST_CASE("ranks of a tensor group add a share of an expert's bias each", "[exec]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f64);
  const OpTensor y = runner.random({{12, 3}}, 1), bias = runner.random({{2, 3}}, 2);
  Attributes whole = attributes(1, 6, 2, 1, 6), shared = whole;
  shared.tensor_degree = 3;
  const OpTensor all = runner.run(Op::add_expert_bias, whole, {&y, &bias}, {{12, 3}})[0];
  const OpTensor third = runner.run(Op::add_expert_bias, shared, {&y, &bias}, {{12, 3}})[0];
  for (std::int64_t i = 0; i < y.elements(); ++i) {
    const double own = bias.get(i / 18 * 3 + i % 3);
    CHECK(all.get(i) == y.get(i) + own);
    CHECK(third.get(i) == Approx(y.get(i) + own / 3));
  }
}
