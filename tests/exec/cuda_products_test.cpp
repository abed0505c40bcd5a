// Compares matmuls through cuBLASLt, the emulated one (tests/cuda_emulation/cublasLt.h) or a GPU's,
// with sums in double.
#include "exec/backends/cuda/products/products.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "exec/backends/cuda/device/resources.h"
#include "exec/core/half.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/exec/half_unit.h"
#include "tests/exec/tested_device.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using cuda::check;
using cuda::Epilogue;
using cuda::ProductForm;

namespace {

// Numbers in device memory, 16 bytes past a better aligned address, and their values as they are
// stored.
class Numbers {
 public:
  Numbers(Dtype dtype, const std::vector<double>& values)
      : dtype_(dtype), bytes_(values.size() * static_cast<std::size_t>(bytes_of(dtype))) {
    check(cudaMalloc(&memory_, bytes_ + beyond), "cudaMalloc");
    const std::vector<float> single(values.begin(), values.end());
    std::vector<char> stored(bytes_);
    narrow(single.data(), dtype, static_cast<std::int64_t>(values.size()), stored.data());
    cuda::copy_to_device(data(), stored.data(), static_cast<std::int64_t>(bytes_));
  }
  ~Numbers() { cudaFree(memory_); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  void* data() const { return static_cast<char*>(memory_) + beyond; }
  std::vector<double> values() const {
    std::vector<char> stored(bytes_);
    check(cudaMemcpy(stored.data(), data(), bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    std::vector<float> single(bytes_ / static_cast<std::size_t>(bytes_of(dtype_)));
    widen(stored.data(), dtype_, static_cast<std::int64_t>(single.size()), single.data());
    return {single.begin(), single.end()};
  }

 private:
  static constexpr std::size_t beyond = 16;
  Dtype dtype_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

// Runs matmuls with a workspace. The chosen algorithms are kept in a folder.
class Device {
 public:
  explicit Device(cuda::ProductOptions options = {}, const std::string& folder = {})
      : cache_(folder.empty() ? own_folder_.path() : folder, workspace_bytes) {
    check(cudaMalloc(&workspace_, workspace_bytes), "cudaMalloc");
    products =
        std::make_unique<cuda::Products>(std::move(options), workspace_, workspace_bytes, cache_);
  }
  ~Device() { cudaFree(workspace_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  void run(const ProductForm& form, const cuda::ProductOperands& operands) const {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    products->run(form, operands, stream);
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }

  std::unique_ptr<cuda::Products> products;

 private:
  static constexpr std::int64_t workspace_bytes = 1 << 20;
  TestFolder own_folder_;
  cuda::KernelCache cache_;
  void* workspace_ = nullptr;
};

std::vector<double> random_numbers(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>(random() >> 11U) * 0x1p-52 - 1);
  return values;
}

double gelu(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  constexpr double h = 1e-5;
  return (gelu(x + h) - gelu(x - h)) / (2 * h);
}

struct Expected {
  std::vector<double> c, saved, product;  // product: before anything is added to it
};

// Computes in double what products.h specifies.
Expected expected_of(const ProductForm& f, const std::vector<double>& a,
                     const std::vector<double>& b, const std::vector<double>& start,
                     const std::vector<double>& bias, const std::vector<double>& saved) {
  Expected expected;
  const auto index = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t i = 0; i < f.batch * f.m; ++i)
    for (std::int64_t j = 0; j < f.n; ++j) {
      const std::int64_t batch = i / f.m, row = i % f.m;
      double x = 0;
      for (std::int64_t l = 0; l < f.k; ++l)
        x += a[index(batch * f.m * f.k + (f.transpose_a ? l * f.m + row : row * f.k + l))] *
             b[index(batch * f.k * f.n + (f.transpose_b ? j * f.k + l : l * f.n + j))];
      const std::size_t at = index(i * f.n + j);
      expected.product.push_back(x);
      if (f.adds) x += start[at];
      const bool biased = f.epilogue == Epilogue::bias || f.epilogue == Epilogue::gelu_bias ||
                          f.epilogue == Epilogue::gelu_bias_saved;
      if (biased) x += bias[index(j)];
      expected.saved.push_back(x);
      if (f.epilogue == Epilogue::gelu_grad)
        x *= gelu_slope(saved[at]);
      else if (f.epilogue != Epilogue::none && f.epilogue != Epilogue::bias)
        x = gelu(x);
      expected.c.push_back(x);
    }
  return expected;
}

// Returns the largest error that a result may have. A 16-bit result is a sum in fp32, rounded once.
// If it is added to a start, cuBLASLt may first round the product (as on an H200) and then the sum.
// Each rounding adds an error of at most half a unit. An epilogue multiplies the error of the
// product by its slope. Its own error, of a tanh that may be approximate, is a share of the largest
// number.
double allowed(const ProductForm& form, double result, double product, double largest) {
  const double sums = 1e-5 * largest;
  if (form.result == Dtype::f32) return sums;
  const double first = form.adds ? half_unit(form.result, std::fabs(product) + sums) : 0;
  if (form.epilogue == Epilogue::none)
    return first + half_unit(form.result, std::fabs(result) + sums + first) + sums;
  constexpr double steepest = 1.13;  // the largest slope of GELU
  return steepest * first + (form.result == Dtype::f16 ? 1e-3 : 5e-3) * largest;
}

void compare(const ProductForm& form, const std::vector<double>& found,
             const std::vector<double>& expected, const std::vector<double>& product) {
  REQUIRE(found.size() == expected.size());
  double largest = 0;
  for (const double each : expected) largest = std::max(largest, std::fabs(each));
  std::size_t worst = 0;
  double excess = -INFINITY;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error = std::isnan(found[i]) ? INFINITY : std::fabs(found[i] - expected[i]);
    const double beyond = error - allowed(form, expected[i], product[i], largest);
    if (beyond > excess) excess = beyond, worst = i;
  }
  INFO("element " << worst << ": " << found[worst] << " for " << expected[worst] << ", product "
                  << product[worst]);
  CHECK(excess <= 0);
}

// Runs one matmul and compares it, with the result in the memory of the start or elsewhere.
void play(const Device& device, const ProductForm& form, bool in_place = false) {
  INFO(text_of(form));
  const std::int64_t results = form.batch * form.m * form.n;
  const Numbers a(form.factors, random_numbers(form.batch * form.m * form.k, 1));
  const Numbers b(form.factors, random_numbers(form.batch * form.k * form.n, 2));
  const Numbers start(form.result, random_numbers(results, 3));
  const Numbers bias(form.result, random_numbers(form.n, 4));
  const bool is_gradient = form.epilogue == Epilogue::gelu_grad;
  const Numbers saved(form.result,
                      is_gradient ? random_numbers(results, 5)
                                  : std::vector<double>(static_cast<std::size_t>(results), NAN));
  const Numbers c(form.result, std::vector<double>(static_cast<std::size_t>(results), NAN));
  const Expected expected =
      expected_of(form, a.values(), b.values(), start.values(), bias.values(), saved.values());
  const Numbers& result = in_place ? start : c;
  device.run(form, {a.data(), b.data(), result.data(),
                    form.adds && !in_place ? start.data() : nullptr, bias.data(), saved.data()});
  compare(form, result.values(), expected.c, expected.product);
  if (form.epilogue == Epilogue::gelu_saved || form.epilogue == Epilogue::gelu_bias_saved)
    compare(form, saved.values(), expected.saved, expected.product);
}

struct Sizes {
  std::int64_t m, n, k;
};
// Sizes that are multiples of 16 bytes, odd sizes, and vectors.
constexpr Sizes all_sizes[] = {{16, 24, 32}, {33, 17, 9}, {5, 1, 7}, {1, 6, 3}, {8, 40, 1}};

}  // namespace

TEST_CASE("row-major products of all forms, types and sizes", "[exec][cuda]") {
  const Device device;
  struct Types {
    Dtype factors, result;
  };
  const Types types = GENERATE(Types{Dtype::f32, Dtype::f32}, Types{Dtype::f16, Dtype::f16},
                               Types{Dtype::f16, Dtype::f32}, Types{Dtype::bf16, Dtype::bf16},
                               Types{Dtype::bf16, Dtype::f32});
  for (const Sizes& sizes : all_sizes)
    for (int forms = 0; forms < 8; ++forms)
      for (const std::int64_t batch : {1, 3}) {
        const ProductForm form{.m = sizes.m,
                               .n = sizes.n,
                               .k = sizes.k,
                               .batch = batch,
                               .transpose_a = (forms & 1) != 0,
                               .transpose_b = (forms & 2) != 0,
                               .adds = (forms & 4) != 0,
                               .factors = types.factors,
                               .result = types.result};
        play(device, form);
        if (form.adds) play(device, form, true);
      }
}

TEST_CASE("what a product's epilogue does", "[exec][cuda]") {
  const Device device;
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::f16, Dtype::bf16);
  for (const Epilogue epilogue :
       {Epilogue::bias, Epilogue::gelu, Epilogue::gelu_bias, Epilogue::gelu_saved,
        Epilogue::gelu_bias_saved, Epilogue::gelu_grad})
    for (const bool adds : {false, true})
      for (const std::int64_t n : {24, 17}) {
        const ProductForm form{.m = 9,
                               .n = n,
                               .k = 16,
                               .transpose_b = true,
                               .adds = adds,
                               .factors = dtype,
                               .result = dtype,
                               .epilogue = epilogue};
        const bool saves = epilogue == Epilogue::gelu_saved ||
                           epilogue == Epilogue::gelu_bias_saved || epilogue == Epilogue::gelu_grad;
        // cuBLASLt saves only rows of a multiple of 8 elements, and its GELU is not exact to 32
        // bits.
        const bool has =
            (!saves || n % 8 == 0) && (dtype != Dtype::f32 || epilogue == Epilogue::bias);
        const bool found = device.products->prepare(form);
        // A GPU's library may have no algorithm for odd sizes where the emulated one has one.
        if (device_is_emulated() || !has) REQUIRE(found == has);
        if (found) play(device, form);
      }
}

TEST_CASE("addresses that are less aligned are said to be", "[exec][cuda]") {
  const Device device;
  // A matrix has 6 numbers of 2 bytes, so every second matrix of a batch begins at a multiple of
  // only 4 bytes.
  const ProductForm form{
      .m = 2, .n = 24, .k = 3, .batch = 2, .factors = Dtype::bf16, .result = Dtype::bf16};
  play(device, form);
  ProductForm odd{.m = 8, .n = 8, .k = 8, .factors = Dtype::f32, .result = Dtype::f32};
  const Numbers numbers(Dtype::f32, random_numbers(200, 1));
  const auto from = [&](std::int64_t i) { return static_cast<float*>(numbers.data()) + i; };
  if (device_is_emulated())
    CHECK_THROWS_AS(device.run(odd, {from(1), from(64), from(128)}), std::logic_error);
  odd.alignment = 4;
  CHECK_NOTHROW(device.run(odd, {from(1), from(64), from(128)}));
}

TEST_CASE("parts of k are never added as they come", "[exec][cuda]") {
  const Device device;
  play(device, {.m = 8, .n = 8, .k = 256, .adds = true});
  CHECK(products_split_in_place() == 0);
}

TEST_CASE("a gradient in fp32 keeps what 16 bits would lose", "[exec][cuda]") {
  const Device device;
  const Numbers a(Dtype::bf16, {0x1p-12}), b(Dtype::bf16, {1.0}), sum(Dtype::f32, {1.0});
  device.run({.m = 1, .n = 1, .k = 1, .adds = true, .factors = Dtype::bf16},
             {a.data(), b.data(), sum.data()});
  CHECK(sum.values() == std::vector<double>{1 + 0x1p-12});
}

TEST_CASE("fp32 factors are rounded to tf32 where that is asked for", "[exec][cuda]") {
  const bool tf32 = GENERATE(false, true);
  const Device device({.tf32 = tf32});
  // tf32 has 10 bits of fraction.
  const Numbers a(Dtype::f32, {1 + 0x1p-12}), b(Dtype::f32, {1.0}), c(Dtype::f32, {0.0});
  device.run({.m = 1, .n = 1, .k = 1}, {a.data(), b.data(), c.data()});
  // cuBLASLt may compute in tf32, but need not for such a small product.
  const bool exact = c.values() == std::vector<double>{1 + 0x1p-12};
  CHECK((exact || c.values() == std::vector<double>{1}));
  if (device_is_emulated() || !tf32) CHECK(exact != tf32);
}

TEST_CASE("a product is captured and runs again", "[exec][cuda]") {
  const Device device;
  const ProductForm form{.m = 1, .n = 1, .k = 2, .epilogue = Epilogue::bias};
  const Numbers a(Dtype::f32, {1, 2}), b(Dtype::f32, {3, 4}), c(Dtype::f32, {0});
  const Numbers bias(Dtype::f32, {5}), other(Dtype::f32, {7});
  const auto run = [&](const Numbers& added, cudaStream_t stream) {
    device.products->run(form, {.a = a.data(), .b = b.data(), .c = c.data(), .bias = added.data()},
                         stream);
  };
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  run(bias, stream);
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
  run(other, stream);  // uses the same plan; the captured work stays as it was
  for (const double factor : {1.0, 10.0}) {
    const std::vector<float> numbers = {static_cast<float>(factor), 2};
    cuda::copy_to_device(a.data(), numbers.data(), 8);
    check(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    CHECK(c.values() == std::vector<double>{factor * 3 + 2 * 4 + 5});
  }
  check(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

TEST_CASE("a form is planned once, and its choice is found again", "[exec][cuda]") {
  const ProductForm form{.m = 8, .n = 16, .k = 24}, other{.m = 8, .n = 16, .k = 32};
  const TestFolder folder;
  {
    const Device first({.device = "some GPU"}, folder.path());
    play(first, form);
    CHECK(first.products->timed() == 0);  // it was not prepared
    CHECK(first.products->prepare(form));
    CHECK(first.products->prepare(form));
    CHECK(first.products->timed() == 1);
    play(first, form);
    CHECK(first.products->plans() == 1);
    CHECK(first.products->prepare(other));
    CHECK(first.products->timed() == 2);
    CHECK(first.products->plans() == 2);
  }
  const Device second({.device = "some GPU"}, folder.path());
  CHECK(second.products->prepare(form));
  CHECK(second.products->timed() == 0);
  play(second, form);
  const Device elsewhere({.device = "another GPU"}, folder.path());
  CHECK(elsewhere.products->prepare(form));
  CHECK(elsewhere.products->timed() == 1);
  const Device beside_collectives({.device = "some GPU", .multiprocessors = 4}, folder.path());
  CHECK(beside_collectives.products->prepare(form));
  CHECK(beside_collectives.products->timed() == 1);
  play(beside_collectives, form);
  const Device fixed({.timed = false, .device = "a third GPU"}, folder.path());
  CHECK(fixed.products->prepare(form));
  CHECK(fixed.products->timed() == 0);
  play(fixed, form);
}

TEST_CASE("a product that cuBLASLt has not is named", "[exec][cuda]") {
  if (!device_is_emulated()) return;
  const Device device;
  const ProductForm form{.m = 8, .n = 16, .k = 4, .epilogue = Epilogue::bias};
  refuse_epilogues(true);
  CHECK_FALSE(device.products->prepare(form));
  CHECK(message_of([&] { device.run(form, {}); }) ==
        "cuBLASLt has no product nn 1x8x16x4 f32 -> f32 + bias, aligned to 16");
  refuse_epilogues(false);
}
