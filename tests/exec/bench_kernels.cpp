// Prints how long each operation of GPT-2 124M takes on the CPU backend with 4 sequences of 64
// tokens in fp32, and their sum over one training step. It is not a test: nothing here is checked.
//   bench_kernels [threads] [cpu]   `cpu`: processor time of all threads instead of time passed
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "exec/backends/cpu/cpu_backend.h"

using namespace meshwright::tests;

namespace {

constexpr std::int64_t rows = 256, h = 768, ffn = 3072, vocabulary = 50257;

struct Operation {
  const char* name;
  Op op;
  int per_step;
  std::vector<Shape> inputs, outputs;
  bool product = false;  // a matrix product
  bool tokens_first = false, tokens_last = false;
};

// Returns the operations of a model with 12 layers, whose head is tied to the embedding.
std::vector<Operation> operations() {
  const Shape x{rows, h}, w{h}, wide{rows, ffn}, qkv{rows, 3 * h}, logits{rows, vocabulary};
  const Shape each{rows}, lse{48, 64}, table{vocabulary, h};
  return {
      {"embedding", Op::embedding, 1, {each, table}, {x}, false, true},
      {"embedding_grad", Op::embedding_grad, 1, {each, x}, {table}, false, true},
      {"add_position", Op::add_position, 1, {x, {1024, h}}, {x}},
      {"add_position_grad", Op::add_position_grad, 1, {x}, {{1024, h}}},
      {"layer_norm", Op::layer_norm, 25, {x, w, w}, {x, {rows, 2}}},
      {"layer_norm_grad", Op::layer_norm_grad, 25, {x, w, {rows, 2}, x}, {x, w, w}},
      {"attention", Op::attention, 12, {qkv}, {x, lse}},
      {"attention_grad", Op::attention_grad, 12, {qkv, x, lse, x}, {qkv}},
      {"gelu", Op::gelu, 12, {wide}, {wide}},
      {"gelu_grad", Op::gelu_grad, 12, {wide, wide}, {wide}},
      {"add", Op::add, 48, {x, x}, {x}},
      {"bias_grad 768", Op::bias_grad, 24, {x}, {w}},
      {"bias_grad 2304", Op::bias_grad, 12, {qkv}, {{3 * h}}},
      {"bias_grad 3072", Op::bias_grad, 12, {wide}, {{ffn}}},
      {"cross_entropy", Op::cross_entropy, 1, {logits, each}, {each, each}, false, false, true},
      {"cross_entropy_grad",
       Op::cross_entropy_grad,
       1,
       {logits, each, each},
       {logits},
       false,
       false,
       true},
      {"sum_of_squares", Op::sum_of_squares, 1, {{124439808}}, {{1}}},
      {"zero gradients", Op::zero, 1, {}, {{124439808}}},
  };
}

std::vector<Operation> products() {
  std::vector<Operation> all;
  const auto add = [&](const char* name, int per_step, std::int64_t in, std::int64_t out) {
    const Shape x{rows, in}, y{rows, out}, w{out, in};
    all.push_back({name, Op::linear, per_step, {x, w, {out}}, {y}, true});
    all.push_back({"  grad_input", Op::linear_grad_input, per_step, {y, w}, {x}, true});
    all.push_back({"  grad_weight", Op::linear_grad_weight, per_step, {x, y}, {w}, true});
  };
  add("linear 768 -> 2304", 12, h, 3 * h);
  add("linear 768 -> 768", 12, h, h);
  add("linear 768 -> 3072", 12, h, ffn);
  add("linear 3072 -> 768", 12, ffn, h);
  add("linear 768 -> 50257", 1, h, vocabulary);
  return all;
}

Attributes attributes() {
  Attributes a;
  a.micro_batch = 4;
  a.sequence_length = 64;
  a.heads = a.kv_heads = 12;
  a.head_dim = 64;
  a.packing = Packing::concatenated;
  a.gelu_tanh = true;
  a.vocabulary = vocabulary;
  return a;
}

double time_passed() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}
double processor_time() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Returns the median time of several runs, in milliseconds.
double milliseconds(Backend& backend, const Operation& operation, double (*now)()) {
  const Attributes a = attributes();
  std::vector<TensorType> inputs, outputs;
  std::vector<void*> memory;
  const auto make = [&](const Shape& shape, bool tokens, Dtype dtype) {
    const TensorType type{shape, tokens ? Dtype::i32 : dtype};
    void* data = memory.emplace_back(backend.allocate(type.bytes()));
    for (std::int64_t i = 0; i < shape.elements(); ++i)
      if (tokens)
        static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(i * 191 % vocabulary);
      else if (dtype == Dtype::f32)
        static_cast<float*>(data)[i] = static_cast<float>(i * 7 % 101) * 0.01F - 0.5F;
    return type;
  };
  for (std::size_t i = 0; i < operation.inputs.size(); ++i)
    inputs.push_back(make(operation.inputs[i],
                          (i == 0 && operation.tokens_first) ||
                              (i + 1 == operation.inputs.size() && operation.tokens_last),
                          Dtype::f32));
  const Dtype out = operation.op == Op::sum_of_squares ? Dtype::f64 : Dtype::f32;
  for (const Shape& shape : operation.outputs) outputs.push_back(make(shape, false, out));
  const std::vector<const void*> in(memory.begin(),
                                    memory.begin() + static_cast<long>(inputs.size()));
  const std::vector<void*> to(memory.begin() + static_cast<long>(inputs.size()), memory.end());
  std::vector<double> times;
  for (int run = 0; run < 7; ++run) {
    const double start = now();
    backend.run({operation.op, a, inputs, outputs}, {in, to}, {});
    times.push_back(now() - start);
  }
  for (void* data : memory) backend.deallocate(data);
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

}  // namespace

int main(int argc, char* argv[]) {
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  const auto backend = make_cpu_backend(threads);
  double sums[2] = {};
  std::vector<Operation> all = operations();
  for (const Operation& operation : products()) all.push_back(operation);
  for (const Operation& operation : all) {
    const double ms = milliseconds(*backend, operation, argc > 2 ? processor_time : time_passed);
    sums[operation.product] += ms * operation.per_step;
    std::printf("%-20s %4d x %9.3f ms = %8.1f ms", operation.name, operation.per_step, ms,
                ms * operation.per_step);
    if (operation.product) {
      const Shape& x = operation.inputs[0];
      const std::int64_t other =
          operation.op == Op::linear_grad_weight ? operation.inputs[1][1] : operation.outputs[0][1];
      std::printf("  %6.1f GFLOP/s", 2e-6 * static_cast<double>(x.elements() * other) / ms);
    }
    std::printf("\n");
  }
  std::printf("%d threads: matrix products %.0f ms, all else %.0f ms, together %.0f ms a step\n",
              threads, sums[1], sums[0], sums[0] + sums[1]);
}
