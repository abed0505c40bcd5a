// Compares the kernels of the CPU backend with each other: types, threads, kinds of attention.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "exec/backends/cpu/cpu_backend.h"
#include "exec/backends/cpu/math.h"
#include "tests/catch.h"
#include "tests/exec/op_cases.h"

using namespace meshwright::tests;

namespace {

bool same_bits(const std::vector<OpTensor>& a, const std::vector<OpTensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(a[i].storage.data(), b[i].storage.data(),
                    static_cast<std::size_t>(a[i].type.bytes())) != 0)
      return false;
  return a.size() == b.size();
}

std::vector<double> values(const OpTensor& tensor) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) all.push_back(tensor.get(i));
  return all;
}

OpTensor tensor_of(const Shape& shape, Dtype dtype, const std::vector<double>& numbers) {
  OpTensor tensor({shape, dtype});
  for (std::size_t i = 0; i < numbers.size(); ++i)
    tensor.set(static_cast<std::int64_t>(i), numbers[i]);
  return tensor;
}

}  // namespace

TEST_CASE("single and double precision agree on large operands", "[exec][backends]") {
  const auto backend = make_cpu_backend(2);
  Runner single(*backend, Dtype::f32), twice(*backend, Dtype::f64);
  for (const Case& c : large_cases()) {
    INFO(c.name);
    const Played a = play(single, c), b = play(twice, c);
    for (std::size_t i = 0; i < a.outputs.size(); ++i)
      CHECK(distance(a.outputs[i], b.outputs[i]) < 2e-6);
    for (std::size_t i = 0; i < a.gradients.size(); ++i)
      CHECK(distance(a.gradients[i], b.gradients[i]) < 5e-6);
  }
}

TEST_CASE("results do not depend on the number of threads, and repeat", "[exec][backends]") {
  const auto one = make_cpu_backend(1), two = make_cpu_backend(2), five = make_cpu_backend(5);
  Runner with_one(*one, Dtype::f32), with_two(*two, Dtype::f32), with_five(*five, Dtype::f32);
  for (const Case& c : large_cases()) {
    INFO(c.name);
    const Played first = play(with_one, c);
    for (Runner* runner : {&with_one, &with_two, &with_five}) {
      const Played again = play(*runner, c);
      CHECK(same_bits(first.outputs, again.outputs));
      CHECK(same_bits(first.gradients, again.gradients));
    }
  }
}

TEST_CASE("flash and unfused attention agree", "[exec][backends]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f64);
  for (Case c : large_cases()) {
    if (c.op != Op::attention || c.attributes.attention == AttentionKernel::unfused) continue;
    if (c.attributes.sinks) continue;  // only fused kernels have sinks
    INFO(c.name);
    const Played flash = play(runner, c);
    const std::int64_t s = c.attributes.sequence_length;
    c.attributes.attention = AttentionKernel::unfused;
    c.outputs[1] = {c.outputs[1][0], s, s};
    const Played unfused = play(runner, c);
    CHECK(distance(flash.outputs[0], unfused.outputs[0]) < 1e-12);
    for (std::size_t i = 0; i < flash.gradients.size(); ++i)
      CHECK(distance(flash.gradients[i], unfused.gradients[i]) < 1e-12);
  }
}

TEST_CASE("a causal token attends to itself and the tokens before it", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a;
  a.sequence_length = 2;
  a.heads = a.kv_heads = a.alibi_heads = 1;
  a.head_dim = 1;
  a.alibi = true;
  a.attention = GENERATE(AttentionKernel::unfused, AttentionKernel::flash2);
  const OpTensor q = tensor_of({2, 1}, Dtype::f64, {1, 1}),
                 k = tensor_of({2, 1}, Dtype::f64, {3, 1});
  const OpTensor v = tensor_of({2, 1}, Dtype::f64, {10, 20});
  // There is one head of dimension 1, with slope 2^-8. Token 1 scores 1*3 - 2^-8 on token 0 and 1*1
  // on itself.
  const double w0 = std::exp(3 - 0x1p-8), w1 = std::exp(1.0);
  const Shape saved = a.attention == AttentionKernel::unfused ? Shape{1, 2, 2} : Shape{1, 2};
  const auto out = runner.run(Op::attention, a, {&q, &k, &v}, {{2, 1}, saved});
  CHECK(out[0].get(0) == Approx(10));
  CHECK(out[0].get(1) == Approx((10 * w0 + 20 * w1) / (w0 + w1)));
  if (a.attention == AttentionKernel::unfused) {
    CHECK(values(out[1])[0] == 1);
    CHECK(values(out[1])[1] == 0);
    CHECK(out[1].get(2) == Approx(w0 / (w0 + w1)));
  } else {
    CHECK(out[1].get(1) == Approx(std::log(w0 + w1)));
  }
}

TEST_CASE("a window hides the tokens before it", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a;
  a.sequence_length = 4;
  a.heads = a.kv_heads = a.head_dim = 1;
  a.scaled_scores = false;
  a.attention = GENERATE(AttentionKernel::unfused, AttentionKernel::flash2);
  a.window = GENERATE(1, 2, 4);
  const OpTensor q = tensor_of({4, 1}, Dtype::f64, {1, 1, 1, 1}),
                 k = tensor_of({4, 1}, Dtype::f64, {3, 1, 2, 0});
  const std::vector<double> keys = {3, 1, 2, 0}, values_of = {10, 20, 40, 80};
  const OpTensor v = tensor_of({4, 1}, Dtype::f64, {10, 20, 40, 80});
  const Shape saved = a.attention == AttentionKernel::unfused ? Shape{1, 4, 4} : Shape{1, 4};
  const auto out = runner.run(Op::attention, a, {&q, &k, &v}, {{4, 1}, saved});
  for (int token = 0; token < 4; ++token) {
    double sum = 0, weighed = 0;
    for (int key = std::max(0, token - a.window + 1); key <= token; ++key) {
      sum += std::exp(keys[static_cast<std::size_t>(key)]);
      weighed +=
          std::exp(keys[static_cast<std::size_t>(key)]) * values_of[static_cast<std::size_t>(key)];
    }
    CHECK(out[0].get(token) == Approx(weighed / sum));
  }
}

TEST_CASE("a chunk hides the tokens of those before it", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a;
  a.micro_batch = 2;
  a.sequence_length = 5;
  a.heads = a.kv_heads = a.head_dim = 1;
  a.scaled_scores = false;
  a.attention = GENERATE(AttentionKernel::unfused, AttentionKernel::flash2);
  a.chunk = GENERATE(1, 2, 3, 5, 7);
  const std::vector<double> keys = {3, 1, 2, 0, 1, 2, 2, 0, 1, 3},
                            values_of = {10, 20, 40, 80, 160, 1, 2, 4, 8, 16};
  const OpTensor q = tensor_of({10, 1}, Dtype::f64, std::vector<double>(10, 1.0)),
                 k = tensor_of({10, 1}, Dtype::f64, keys),
                 v = tensor_of({10, 1}, Dtype::f64, values_of);
  const Shape saved = a.attention == AttentionKernel::unfused ? Shape{2, 5, 5} : Shape{2, 5};
  const auto out = runner.run(Op::attention, a, {&q, &k, &v}, {{10, 1}, saved});
  for (int row = 0; row < 10; ++row) {
    const int place = row % 5;
    double sum = 0, weighed = 0;
    for (int key = place - place % a.chunk; key <= place; ++key) {
      const auto i = static_cast<std::size_t>(row - place + key);
      sum += std::exp(keys[i]);
      weighed += std::exp(keys[i]) * values_of[i];
    }
    CHECK(out[0].get(row) == Approx(weighed / sum));
  }
}

TEST_CASE("a document hides the tokens of others", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a;
  a.micro_batch = 2;
  a.sequence_length = 5;
  a.heads = a.kv_heads = a.head_dim = 1;
  a.scaled_scores = false;
  a.documents = true;
  a.attention = GENERATE(AttentionKernel::unfused, AttentionKernel::flash2);
  a.causal = GENERATE(true, false);
  a.chunk = a.causal ? GENERATE(0, 2) : 0;
  a.window = a.causal ? GENERATE(0, 3) : 0;
  const std::vector<double> keys = {3, 1, 2, 0, 1, 2, 2, 0, 1, 3},
                            values_of = {10, 20, 40, 80, 160, 1, 2, 4, 8, 16},
                            begins = {0, 0, 2, 2, 2, 0, 1, 1, 1, 4};
  const OpTensor q = tensor_of({10, 1}, Dtype::f64, std::vector<double>(10, 1.0)),
                 k = tensor_of({10, 1}, Dtype::f64, keys),
                 v = tensor_of({10, 1}, Dtype::f64, values_of),
                 documents = tensor_of({10}, Dtype::i32, begins);
  const Shape saved = a.attention == AttentionKernel::unfused ? Shape{2, 5, 5} : Shape{2, 5};
  const auto out = runner.run(Op::attention, a, {&q, &k, &v, &documents}, {{10, 1}, saved});
  for (int row = 0; row < 10; ++row) {
    const int place = row % 5, begin = static_cast<int>(begins[static_cast<std::size_t>(row)]);
    double sum = 0, weighed = 0;
    for (int key = begin; key <= (a.causal ? place : 4); ++key) {
      const auto i = static_cast<std::size_t>(row - place + key);
      if (begins[i] != begin) continue;
      if (a.window > 0 && key <= place - a.window) continue;
      if (a.chunk > 0 && (key - begin) / a.chunk != (place - begin) / a.chunk) continue;
      sum += std::exp(keys[i]);
      weighed += std::exp(keys[i]) * values_of[i];
    }
    CHECK(out[0].get(row) == Approx(weighed / sum));
  }
}

TEST_CASE("a norm without weights leaves heads of mean square 1", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a;
  a.head_dim = 2;
  a.epsilon = 0;
  const OpTensor x = tensor_of({1, 4}, Dtype::f64, {3, 4, -1, 1});
  const auto out = runner.run(Op::head_norm, a, {&x}, {{1, 4}, {1, 2}});
  const double scale = 1 / std::sqrt(12.5);
  for (const auto& [place, expected] :
       {std::pair{0, 3 * scale}, std::pair{1, 4 * scale}, std::pair{2, -1.0}, std::pair{3, 1.0}})
    CHECK(out[0].get(place) == Approx(expected));
}

TEST_CASE("queries grow with their place where they have a temperature", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a;
  a.micro_batch = 2;
  a.sequence_length = 5;
  a.heads = a.kv_heads = 2;
  a.head_dim = a.rotary_dim = 2;
  a.temperature = 0.5;
  a.temperature_floor = 2;
  const OpTensor x = runner.random({{10, 4}}, 3);
  const auto y = runner.run(Op::rope, a, {&x}, {{10, 4}});
  const double factors[] = {1, 1 + 0.5 * std::log(2.0), 1 + 0.5 * std::log(2.0),
                            1 + 0.5 * std::log(3.0), 1 + 0.5 * std::log(3.0)};
  for (int i = 0; i < 40; ++i)
    CHECK(y[0].get(i) == Approx(factors[i / 4 % 5] * x.get(i)).epsilon(1e-14));
  a.position_offset = 1;  // places count from 0, so each factor comes one place later
  const auto later = runner.run(Op::rope, a, {&x}, {{10, 4}});
  for (int i = 0; i < 40; ++i) {
    const double factor = i / 4 % 5 == 0 ? 1 : factors[i / 4 % 5 - 1];
    CHECK(later[0].get(i) == Approx(factor * x.get(i)).epsilon(1e-14));
  }
}

TEST_CASE("a soft cap bounds scores before biases and the mask", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a;
  a.sequence_length = 3;
  a.heads = a.kv_heads = a.alibi_heads = a.head_dim = 1;
  a.alibi = true;     // one head: a slope of 2^-8
  a.score_width = 4;  // scores are halved
  a.score_cap = 3;
  a.window = 2;
  a.attention = GENERATE(AttentionKernel::unfused, AttentionKernel::flash2);
  const std::vector<double> keys = {30, -2, 8}, values_of = {10, 20, 40};
  const OpTensor q = tensor_of({3, 1}, Dtype::f64, {1, 1, 1}),
                 k = tensor_of({3, 1}, Dtype::f64, {30, -2, 8}),
                 v = tensor_of({3, 1}, Dtype::f64, {10, 20, 40});
  const Shape saved = a.attention == AttentionKernel::unfused ? Shape{1, 3, 3} : Shape{1, 3};
  const auto out = runner.run(Op::attention, a, {&q, &k, &v}, {{3, 1}, saved});
  for (int token = 0; token < 3; ++token) {
    double sum = 0, weighed = 0;
    for (int key = std::max(0, token - 1); key <= token; ++key) {
      const auto i = static_cast<std::size_t>(key);
      const double weight = std::exp(3 * std::tanh(keys[i] / 2 / 3) + (key - token) / 256.0);
      sum += weight;
      weighed += weight * values_of[i];
    }
    CHECK(out[0].get(token) == Approx(weighed / sum));
  }
}

TEST_CASE("attention on ranks with their share of the heads is the whole's", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  Attributes a;
  a.sequence_length = 5;
  a.heads = a.kv_heads = a.alibi_heads = 2;
  a.head_dim = 1;
  a.alibi = true;
  const OpTensor x = runner.random({{5, 2}}, 1);
  const OpTensor whole = runner.run(Op::attention, a, {&x, &x, &x}, {{5, 2}, {2, 5}})[0];
  a.heads = a.kv_heads = 1;
  for (runner.tensor_rank = 0; runner.tensor_rank < 2; ++runner.tensor_rank) {
    OpTensor own({{5, 1}, Dtype::f64});
    for (int i = 0; i < 5; ++i) own.set(i, x.get(2 * i + runner.tensor_rank));
    const OpTensor y = runner.run(Op::attention, a, {&own, &own, &own}, {{5, 1}, {1, 5}})[0];
    for (int i = 0; i < 5; ++i) CHECK(y.get(i) == Approx(whole.get(2 * i + runner.tensor_rank)));
  }
}

TEST_CASE("masked scores are those of later keys", "[exec][backends]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f32);
  Attributes a;
  a.factor = -9;
  const OpTensor scores = tensor_of({2, 2, 2}, Dtype::f32, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(values(runner.run(Op::mask_scores, a, {&scores}, {scores.type.shape})[0]) ==
        std::vector<double>{1, -9, 3, 4, 5, -9, 7, 8});
}

TEST_CASE("masked scores are those of other documents", "[exec][backends]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f32);
  Attributes a;
  a.heads = 1;
  a.factor = -9;
  a.documents = true;
  const OpTensor scores = tensor_of({2, 3, 3}, Dtype::f32, std::vector<double>(18, 1.0)),
                 documents = tensor_of({6}, Dtype::i32, {0, 0, 2, 0, 1, 1});
  const auto masked = [&] {
    return values(runner.run(Op::mask_scores, a, {&scores, &documents}, {scores.type.shape})[0]);
  };
  CHECK(masked() == std::vector<double>{1, -9, -9, 1, 1, -9, -9, -9, 1,  //
                                        1, -9, -9, -9, 1, -9, -9, 1, 1});
  a.causal = false;
  CHECK(masked() == std::vector<double>{1, 1, -9, 1, 1, -9, -9, -9, 1,  //
                                        1, -9, -9, -9, 1, 1, -9, 1, 1});
}

TEST_CASE("the gradient of a loss may take the place of the logits", "[exec][backends]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f32);
  for (const Case& c : large_cases()) {
    if (!rule_of(c.op).is_loss || c.op == Op::nll_loss) continue;
    INFO(c.name);
    Played p = play(runner, c);
    OpTensor& logits = p.inputs[0];
    const Op op = c.op == Op::span_loss ? Op::span_loss_grad : Op::cross_entropy_grad;
    const std::vector<TensorType> in = {logits.type, p.outputs[1].type, p.inputs[1].type};
    const std::vector<TensorType> out = {logits.type};
    const std::vector<const void*> from = {logits.storage.data(), p.outputs[1].storage.data(),
                                           p.inputs[1].storage.data()};
    const std::vector<void*> to = {logits.storage.data()};
    backend->run({op, c.attributes, in, out}, {from, to}, {});
    CHECK(same_bits({logits}, p.gradients));
  }
}

TEST_CASE("the step's bookkeeping adds up", "[exec][backends]") {
  const auto backend = make_cpu_backend(2);
  const Attributes a;
  OpTensor sum = tensor_of({1}, Dtype::f64, {1});
  OpTensor numbers = tensor_of({4}, Dtype::f32, {0.5, 2, -3, 0.25});
  const std::vector<TensorType> in = {numbers.type}, out = {sum.type};
  const std::vector<const void*> from = {numbers.storage.data()};
  const std::vector<void*> to = {sum.storage.data()};
  backend->run({Op::sum_loss, a, in, out}, {from, to}, {});
  CHECK(sum.get(0) == 1 + 0.5 + 2 - 3 + 0.25);
  backend->run({Op::sum_of_squares, a, in, out}, {from, to}, {});
  CHECK(sum.get(0) == 0.75 + 0.25 + 4 + 9 + 0.0625);
  backend->run({Op::zero, a, {}, out}, {{}, to}, {});
  CHECK(sum.get(0) == 0);
}

TEST_CASE("the square sum of a long bucket is in double precision", "[exec][backends]") {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f32);
  const std::int64_t n = 100003;
  const OpTensor numbers = runner.random({{n}}, 3);
  double expected = 0;
  for (const double x : values(numbers)) expected += x * x;
  OpTensor sum = tensor_of({1}, Dtype::f64, {0});
  const std::vector<TensorType> in = {numbers.type}, out = {sum.type};
  const std::vector<const void*> from = {numbers.storage.data()};
  const std::vector<void*> to = {sum.storage.data()};
  backend->run({Op::sum_of_squares, {}, in, out}, {from, to}, {});
  CHECK(sum.get(0) == Approx(expected).epsilon(1e-13));
}

TEST_CASE("a slice of the sequence is the rank's own rows", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f32);
  Attributes a;
  a.tensor_degree = 2;
  runner.tensor_rank = 1;
  const OpTensor x = tensor_of({4, 2}, Dtype::f32, {0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(values(runner.run(Op::sequence_slice, a, {&x}, {{2, 2}})[0]) ==
        std::vector<double>{4, 5, 6, 7});
}

TEST_CASE("an image becomes rows of patches", "[exec][backends]") {
  const auto backend = make_cpu_backend(2);
  Attributes a;
  a.micro_batch = 2;
  a.sequence_length = 5;  // a class token and 2 x 2 patches
  a.patch_size = a.channels = 2;
  // There are two images of 2 channels of 4 x 4 pixels, all different, where 51 is -0.6 and 204 is
  // 0.6.
  std::vector<double> pixels(64);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<double>(3 * i);
  const OpTensor images = tensor_of({2, 32}, Dtype::i32, pixels);
  for (const Dtype real : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    Runner runner(*backend, real);
    const OpTensor rows = runner.run(Op::image_patches, a, {&images}, {{8, 8}})[0];
    // Patch 3 of image 1 is the lower right corner of both channels.
    const int corner[] = {10, 11, 14, 15, 26, 27, 30, 31};
    const double digits = real == Dtype::bf16 ? 0x1p-8 : 1e-6;
    for (int i = 0; i < 8; ++i)
      CHECK(rows.get(7 * 8 + i) == Approx(3 * (32 + corner[i]) / 127.5 - 1).margin(digits));
    CHECK(rows.get(0) == -1);
    CHECK(rows.get(2) == Approx(3 * 4 / 127.5 - 1).margin(digits));  // the patch's second row
  }
}

TEST_CASE("the float exponential is within two units in the last place", "[exec][backends]") {
  double worst = 0;
  for (double x = -86.8; x < 88.7; x += 0.0007) {
    const float argument = static_cast<float>(x);
    const double exact = std::exp(static_cast<double>(argument));
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::fabs(static_cast<double>(cpu::exp_of(argument)) - exact) / unit);
  }
  CHECK(worst < 2);
  CHECK(cpu::exp_of(0.0F) == 1.0F);
  CHECK(cpu::exp_of(-INFINITY) == 0.0F);
  CHECK(cpu::exp_of(-1000.0F) == 0.0F);
  CHECK(cpu::exp_of(INFINITY) == INFINITY);
  CHECK(std::isnan(cpu::exp_of(std::nanf(""))));
}

TEST_CASE("the float hyperbolic tangent is accurate", "[exec][backends]") {
  double worst = 0;
  bool odd = true;
  for (double x = 1e-4; x < 12; x += 0.0003) {
    const float argument = static_cast<float>(x);
    const double exact = std::tanh(static_cast<double>(argument));
    worst = std::max(worst, std::fabs(static_cast<double>(cpu::tanh_of(argument)) - exact) / exact);
    odd = odd && cpu::tanh_of(-argument) == -cpu::tanh_of(argument);
  }
  CHECK(odd);
  CHECK(worst < 1e-6);
  CHECK(cpu::tanh_of(0.0F) == 0.0F);
  CHECK(cpu::tanh_of(INFINITY) == 1.0F);
  CHECK(std::isnan(cpu::tanh_of(std::nanf(""))));
}

TEST_CASE("the float normal distribution function is accurate", "[exec][backends]") {
  double relative = 0, absolute = 0;
  for (double x = -12; x < 12; x += 0.001) {
    const float argument = static_cast<float>(x);
    const double exact = cpu::normal_cdf(static_cast<double>(argument));
    const double error = std::fabs(static_cast<double>(cpu::normal_cdf(argument)) - exact);
    absolute = std::max(absolute, error);
    if (argument > -5) relative = std::max(relative, error / exact);
  }
  CHECK(absolute < 2e-7);  // a float near 1 has steps of 0.6e-7
  CHECK(relative < 1e-6);
}

TEST_CASE("what the CPU backend supports", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  CHECK(backend->supports(Op::linear, Dtype::f32));
  CHECK(backend->supports(Op::linear, Dtype::bf16));
  CHECK(backend->supports(Op::linear, Dtype::f16));
  CHECK(backend->supports(Op::linear, Dtype::e4m3));
  CHECK_FALSE(backend->supports(Op::gelu, Dtype::e4m3));
  CHECK_FALSE(backend->supports(Op::tensor_reduce, Dtype::f32));
  void* memory = backend->allocate(100);
  CHECK(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0);
  backend->deallocate(memory);
}

TEST_CASE("clearing memory ends at its last byte", "[exec][backends]") {
  const auto backend = make_cpu_backend(1);
  for (const std::int64_t bytes : {0, 1, 6, 7, 8}) {
    std::vector<unsigned char> memory(9, 1);
    clear(*backend, memory.data(), bytes);
    CHECK(std::count(memory.begin(), memory.end(), 0) == bytes);
    CHECK(memory[bytes] == 1);
  }
}
