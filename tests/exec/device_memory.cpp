#include "tests/exec/device_memory.h"

#include <cstring>

#include "exec/backends/cuda/device/check.h"
#include "exec/core/half.h"

using namespace meshwright::tests;

namespace {

std::vector<char> stored(const std::vector<double>& numbers, Dtype dtype) {
  std::vector<char> bytes(numbers.size() * static_cast<std::size_t>(bytes_of(dtype)));
  if (bytes.empty()) return bytes;
  if (dtype == Dtype::f64) {
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  }
  const std::vector<float> narrower(numbers.begin(), numbers.end());
  if (dtype == Dtype::f32)
    std::memcpy(bytes.data(), narrower.data(), bytes.size());
  else
    narrow(narrower.data(), dtype, static_cast<std::int64_t>(numbers.size()), bytes.data());
  return bytes;
}

std::vector<double> loaded(const std::vector<char>& bytes, Dtype dtype) {
  const std::size_t count = bytes.size() / static_cast<std::size_t>(bytes_of(dtype));
  std::vector<double> numbers(count);
  if (count == 0) return numbers;
  if (dtype == Dtype::f64) {
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }
  std::vector<float> wide(count);
  if (dtype == Dtype::f32)
    std::memcpy(wide.data(), bytes.data(), bytes.size());
  else
    widen(bytes.data(), dtype, static_cast<std::int64_t>(count), wide.data());
  return {wide.begin(), wide.end()};
}

}  // namespace

void upload(void* to, const std::vector<double>& numbers, Dtype dtype, cudaStream_t stream) {
  const std::vector<char> bytes = stored(numbers, dtype);
  cuda::check(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
  cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

std::vector<double> download(const void* from, std::int64_t elements, Dtype dtype,
                             cudaStream_t stream) {
  std::vector<char> bytes(static_cast<std::size_t>(elements * bytes_of(dtype)));
  cuda::check(cudaMemcpyAsync(bytes.data(), from, bytes.size(), cudaMemcpyDeviceToHost, stream),
              "cudaMemcpyAsync");
  cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return loaded(bytes, dtype);
}

std::vector<double> as_stored(const std::vector<double>& numbers, Dtype dtype) {
  return loaded(stored(numbers, dtype), dtype);
}
