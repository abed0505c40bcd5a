// Tests losses on the emulated device in situations that the cases of all operations do not have:
// sharded vocabularies, large ones, loss scales, and gradients in the memory of the logits.
#include <cmath>
#include <cstring>

#include "exec/backends/cuda/loss/loss_with_grad.h"
#include "models/program/graph/op_call.h"
#include "tests/catch.h"
#include "tests/exec/beside_double.h"
#include "tests/exec/device_array.h"
#include "tests/exec/tested_device.h"

using namespace meshwright::tests;

namespace {

OpTensor tensor_of(const Shape& shape, Dtype dtype, const std::vector<double>& numbers) {
  OpTensor tensor({shape, dtype});
  for (std::size_t i = 0; i < numbers.size(); ++i)
    tensor.set(static_cast<std::int64_t>(i), numbers[i]);
  return tensor;
}

Dtype any_type() { return GENERATE(Dtype::f32, Dtype::f16, Dtype::bf16); }

OpTensor columns_of(const OpTensor& matrix, std::int64_t first, std::int64_t count) {
  const std::int64_t rows = matrix.type.shape[0], width = matrix.type.shape[1];
  OpTensor part({{rows, count}, matrix.type.dtype});
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < count; ++c)
      part.set(r * count + c, matrix.get(r * width + first + c));
  return part;
}

// Returns the targets with every third one ignored.
OpTensor some_ignored(OpTensor targets) {
  for (std::int64_t r = 1; r < targets.elements(); r += 3) targets.set(r, ignored_target);
  return targets;
}

// Runs the kernel that computes losses and their gradient at once, on operands in device memory.
struct WithGrad {
  OpTensor logits, targets, loss, saved, gradient;
  bool done = false;

  WithGrad(const OpTensor& of, const OpTensor& their_targets, const Attributes& a,
           const OpTensor* loss_scale, bool in_place)
      : logits(of), targets(their_targets), gradient(of) {
    const std::int64_t rows = of.type.shape[0];
    loss = saved = OpTensor({{rows}, Dtype::f32});
    const DeviceArray<double> on_device(logits.storage), target_numbers(targets.storage);
    const DeviceArray<double> losses(loss.storage), log_sums(saved.storage), d(of.storage);
    const DeviceArray<double> scale(loss_scale != nullptr ? loss_scale->storage
                                                          : std::vector<double>(1));
    void* made = in_place ? on_device.data() : d.data();
    const std::vector<TensorType> forward_in = {logits.type, targets.type},
                                  forward_out = {loss.type, saved.type},
                                  backward_out = {gradient.type};
    std::vector<TensorType> backward_in = {logits.type, saved.type, targets.type};
    if (loss_scale != nullptr) backward_in.push_back(loss_scale->type);
    const std::vector<const void*> forward_from = {on_device.data(), target_numbers.data()};
    const std::vector<const void*> backward_from = {on_device.data(), log_sums.data(),
                                                    target_numbers.data(), scale.data()};
    const std::vector<void*> forward_to = {losses.data(), log_sums.data()}, backward_to = {made};
    const OpCall forward{Op::cross_entropy, a, forward_in, forward_out};
    const OpCall backward{Op::cross_entropy_grad, a, backward_in, backward_out};
    const OpOperands forward_operands{forward_from, forward_to};
    const OpOperands backward_operands{backward_from, backward_to};
    const cuda::Device device{132, 9, 0, 227 << 10};
    done = cuda::cross_entropy_with_grad({forward, forward_operands, {}, device, {}, nullptr},
                                         {backward, backward_operands, {}, device, {}, nullptr});
    if (!done) return;
    loss.storage = losses.get();
    saved.storage = log_sums.get();
    gradient.storage = in_place ? on_device.get() : d.get();
  }
};

}  // namespace

TEST_CASE("the loss over a vocabulary of fifty thousand words", "[exec][cuda]") {
  Beside both(any_type());
  const std::int64_t rows = 3, columns = GENERATE(50257, 50304);
  Attributes a;
  a.vocabulary = 50257;
  a.scale = 100;
  OpTensor logits = both.random({{rows, columns}}, 1);
  for (std::int64_t i = 0; i < logits.elements(); ++i) logits.set(i, 8 * logits.get(i));
  logits.set(4, 40);  // larger than all logits before it
  logits.set(2 * columns + 5, -INFINITY);
  const OpTensor targets = tensor_of({rows}, Dtype::i32, {4, 50256, 0});
  const auto out = both.run(Op::cross_entropy, a, {&logits, &targets}, {{rows}, {rows}});
  CHECK(out[0].get(0) < 1e-3);
  const auto d =
      both.run(Op::cross_entropy_grad, a, {&logits, &out[1], &targets}, {{rows, columns}});
  for (std::int64_t c = 50257; c < columns; ++c) REQUIRE(d[0].get(c) == 0);
  logits.set(2 * columns + 5, 0);
  const auto logs = both.run(Op::log_softmax, a, {&logits}, {{rows, columns}});
  both.run(Op::nll_loss, a, {&logs[0], &targets}, {{rows}});
}

TEST_CASE("ranks that share a vocabulary find the loss of the whole", "[exec][cuda]") {
  Beside both(any_type());
  // Only 400 of the 4 * 136 columns are words, so the third rank has some masked columns and the
  // last one has nothing else.
  const std::int64_t rows = 37, width = 136, ranks = 4;
  Attributes a;
  a.vocabulary = 400;
  a.scale = 0.25;
  const OpTensor logits = both.random({{rows, ranks * width}}, 1);
  const OpTensor targets = some_ignored(both.random({{rows}, 400}, 2));
  const auto whole = both.run(Op::cross_entropy, a, {&logits, &targets}, {{rows}, {rows}});
  const auto whole_grad =
      both.run(Op::cross_entropy_grad, a, {&logits, &whole[1], &targets}, {{rows, ranks * width}});
  a.vocabulary_parallel = true;
  a.tensor_degree = static_cast<int>(ranks);
  OpTensor stats({{ranks * 3, rows}, Dtype::f32});
  for (both.tensor_rank = 0; both.tensor_rank < ranks; ++both.tensor_rank) {
    const OpTensor own = columns_of(logits, both.tensor_rank * width, width);
    std::vector<OpTensor> of_rank;
    if (both.tensor_rank < 3) {
      of_rank = both.run(Op::cross_entropy_stats, a, {&own, &targets}, {{3, rows}});
    } else {  // its maximum, -infinity, cannot be compared
      both.runner.tensor_rank = 3;
      of_rank = both.runner.run(Op::cross_entropy_stats, a, {&own, &targets}, {{3, rows}});
      CHECK(of_rank[0].get(0) == -INFINITY);
    }
    for (std::int64_t i = 0; i < 3 * rows; ++i)
      stats.set(both.tensor_rank * 3 * rows + i, of_rank[0].get(i));
  }
  const auto out = both.run(Op::cross_entropy_combine, a, {&stats}, {{rows}, {rows}});
  CHECK(distance(out[0], whole[0]) < 1e-6);
  for (std::int64_t r = 0; r < rows; ++r)  // unspecified for ignored rows
    if (targets.get(r) >= 0) CHECK(out[1].get(r) == Approx(whole[1].get(r)).epsilon(1e-6));
  for (std::int64_t r = 1; r < rows; r += 3) CHECK(out[0].get(r) == 0);
  for (both.tensor_rank = 0; both.tensor_rank < ranks; ++both.tensor_rank) {
    const OpTensor own = columns_of(logits, both.tensor_rank * width, width);
    const auto d = both.run(Op::cross_entropy_grad, a, {&own, &out[1], &targets}, {{rows, width}});
    CHECK(distance(d[0], columns_of(whole_grad[0], both.tensor_rank * width, width)) < 1e-5);
  }
}

// The values are those of loss = F.cross_entropy(logits, targets, ignore_index=-100) and
// logits.grad in PyTorch 2.11 in fp64, where the targets are [2, -100, 5, -100].
TEST_CASE("rows that are ignored have PyTorch's loss and gradient", "[exec][cuda]") {
  Beside both(Dtype::f32);
  const std::int64_t rows = 4, columns = 6;
  OpTensor logits({{rows, columns}, Dtype::f32});
  for (std::int64_t i = 0; i < logits.elements(); ++i)
    logits.set(i, static_cast<double>(i * 7 % 11) / 4 - 1);
  const OpTensor targets = tensor_of({rows}, Dtype::i32, {2, ignored_target, 5, ignored_target});
  const std::vector<double> losses = {2.552647215225055, 0, 1.3243728746219936, 0};
  const std::vector<double> gradient = {
      0.0183928, 0.1058434, -0.4610624, 0.2240705, 0.0824309, 0.0303246,  0, 0, 0, 0, 0, 0,
      0.0806594, 0.0296729, 0.1707559,  0.0628176, 0.0231093, -0.3670151, 0, 0, 0, 0, 0, 0};
  Attributes a;
  a.scale = 0.5;  // the mean over two targets
  const auto check = [&](const OpTensor& loss, const OpTensor& d_logits) {
    for (std::size_t i = 0; i < losses.size(); ++i)
      CHECK(loss.get(static_cast<std::int64_t>(i)) == Approx(losses[i]).margin(1e-6));
    for (std::size_t i = 0; i < gradient.size(); ++i)
      CHECK(d_logits.get(static_cast<std::int64_t>(i)) == Approx(gradient[i]).margin(2e-7));
  };
  const auto out = both.run(Op::cross_entropy, a, {&logits, &targets}, {{rows}, {rows}});
  check(out[0],
        both.run(Op::cross_entropy_grad, a, {&logits, &out[1], &targets}, {{rows, columns}})[0]);
  OpTensor wild = logits;  // an ignored row has no gradient, whatever it holds
  wild.set(columns, INFINITY);
  const auto of_wild = both.run(Op::cross_entropy, a, {&wild, &targets}, {{rows}, {rows}});
  check(of_wild[0],
        both.run(Op::cross_entropy_grad, a, {&wild, &of_wild[1], &targets}, {{rows, columns}})[0]);
  const auto logs = both.run(Op::log_softmax, a, {&logits}, {{rows, columns}});
  const auto loss = both.run(Op::nll_loss, a, {&logs[0], &targets}, {{rows}});
  const auto d_logs = both.run(Op::nll_loss_grad, a, {&logs[0], &targets}, {{rows, columns}});
  check(loss[0], both.run(Op::log_softmax_grad, a, {&logs[0], &d_logs[0]}, {{rows, columns}})[0]);
}

TEST_CASE("a device's loss scale multiplies the gradients of losses", "[exec][cuda]") {
  Beside both(any_type());
  Attributes a;
  a.micro_batch = 2;
  a.sequence_length = 33;
  a.vocabulary = 70;
  a.scale = 0x1p-10;
  const OpTensor scale = tensor_of({1}, Dtype::f32, {1024});
  const OpTensor logits = both.random({{66, 77}}, 1), targets = both.random({{66}, 70}, 2);
  const auto out = both.run(Op::cross_entropy, a, {&logits, &targets}, {{66}, {66}});
  both.run(Op::cross_entropy_grad, a, {&logits, &out[1], &targets, &scale}, {{66, 77}});
  const OpTensor pairs = both.random({{66, 2}}, 3), answers = both.random({{2, 2}, 33}, 4);
  const auto span = both.run(Op::span_loss, a, {&pairs, &answers}, {{4}, {4}});
  both.run(Op::span_loss_grad, a, {&pairs, &span[1], &answers, &scale}, {{66, 2}});
  const auto logs = both.run(Op::log_softmax, a, {&logits}, {{66, 77}});
  both.run(Op::nll_loss_grad, a, {&logs[0], &targets, &scale}, {{66, 77}});
}

TEST_CASE("on the device the gradient of a loss may take the place of the logits", "[exec][cuda]") {
  const Dtype dtype = any_type();
  TableBackend tables;
  Runner runner(tables, dtype);
  for (const Case& c : large_cases()) {
    if (c.op != Op::cross_entropy && c.op != Op::span_loss) continue;
    INFO(c.name);
    Played p = play(runner, c);
    OpTensor& logits = p.inputs[0];
    const Op op = c.op == Op::span_loss ? Op::span_loss_grad : Op::cross_entropy_grad;
    const std::vector<TensorType> in = {logits.type, p.outputs[1].type, p.inputs[1].type};
    const std::vector<TensorType> out = {logits.type};
    const std::vector<const void*> from = {logits.storage.data(), p.outputs[1].storage.data(),
                                           p.inputs[1].storage.data()};
    const std::vector<void*> to = {logits.storage.data()};
    tables.run({op, c.attributes, in, out}, {from, to}, {});
    CHECK(std::memcmp(logits.storage.data(), p.gradients[0].storage.data(),
                      static_cast<std::size_t>(logits.type.bytes())) == 0);
  }
}

TEST_CASE("a target outside the vocabulary gives no number for a loss", "[exec][cuda]") {
  TableBackend tables;
  Runner runner(tables, Dtype::f32);
  Attributes a;
  a.sequence_length = 3;
  a.vocabulary = 5;
  const OpTensor logits = runner.random({{3, 8}}, 1), pairs = runner.random({{3, 2}}, 2);
  const OpTensor targets = tensor_of({3}, Dtype::i32, {-2, 5, 4});
  const OpTensor answers = tensor_of({1, 2}, Dtype::i32, {3, 2});
  for (const Op op : {Op::cross_entropy, Op::nll_loss}) {
    std::vector<Shape> outputs = {{3}, {3}};
    if (op == Op::nll_loss) outputs.pop_back();
    const auto loss = runner.run(op, a, {&logits, &targets}, outputs)[0];
    CHECK(std::isnan(loss.get(0)));
    CHECK(std::isnan(loss.get(1)));
    CHECK(std::isfinite(loss.get(2)));
  }
  const auto loss = runner.run(Op::span_loss, a, {&pairs, &answers}, {{2}, {2}})[0];
  CHECK(std::isnan(loss.get(0)));
  CHECK(std::isfinite(loss.get(1)));
}

TEST_CASE("a loss and its gradient in one kernel are those of two", "[exec][cuda]") {
  Beside both(any_type());
  // The columns take a part of one pass of the block's threads, several passes, or all shared
  // memory.
  const std::int64_t rows = 3, columns = GENERATE(1032, 20000, 50304);
  const bool in_place = GENERATE(false, true);
  Attributes a;
  a.vocabulary = columns - 5;
  a.scale = 0.5;
  OpTensor logits = both.random({{rows, columns}}, 1);
  for (std::int64_t i = 0; i < logits.elements(); ++i) logits.set(i, 8 * logits.get(i));
  const OpTensor targets = some_ignored(both.random({{rows}, static_cast<int>(a.vocabulary)}, 2));
  const OpTensor scale = tensor_of({1}, Dtype::f32, {16});
  const auto out = both.run(Op::cross_entropy, a, {&logits, &targets}, {{rows}, {rows}});
  const auto d =
      both.run(Op::cross_entropy_grad, a, {&logits, &out[1], &targets, &scale}, {{rows, columns}});
  const WithGrad one(logits, targets, a, &scale, in_place);
  if (!device_is_emulated() && !one.done) {
    CHECK(columns > 20000);  // a row for which this GPU has too little shared memory
    return;
  }
  REQUIRE(one.done);
  CHECK(distance(one.loss, out[0]) < 1e-6);
  for (std::int64_t r = 0; r < rows; r += 2)
    CHECK(one.saved.get(r) == Approx(out[1].get(r)).epsilon(1e-6));
  CHECK(one.loss.get(1) == 0);
  CHECK(distance(one.gradient, d[0]) < both.tolerance());
  CHECK(one.gradient.get(2 * columns - 1) == 0);
  reverse_threads(true);
  const WithGrad again(logits, targets, a, &scale, in_place);
  reverse_threads(false);
  CHECK(std::memcmp(again.gradient.storage.data(), one.gradient.storage.data(),
                    static_cast<std::size_t>(logits.type.bytes())) == 0);
}

TEST_CASE("rows that no block can keep have two kernels for a loss and its gradient",
          "[exec][cuda]") {
  const auto done = [](Dtype dtype, std::int64_t columns, const Attributes& a) {
    const OpTensor logits({{1, columns}, dtype}), targets({{1}, Dtype::i32});
    return WithGrad(logits, targets, a, nullptr, true).done;
  };
  CHECK(done(Dtype::bf16, 50304, {}));
  CHECK_FALSE(done(Dtype::bf16, 50257, {}));   // not in 16 bytes
  CHECK_FALSE(done(Dtype::bf16, 128256, {}));  // 250 KiB
  CHECK_FALSE(done(Dtype::bf16, 1024, {}));    // a warp's
  Attributes cut;
  cut.vocabulary_parallel = true;
  CHECK_FALSE(done(Dtype::bf16, 50304, cut));
}
