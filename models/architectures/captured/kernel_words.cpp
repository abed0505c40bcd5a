#include "models/architectures/captured/kernel_words.h"

namespace meshwright::architectures {

std::int64_t size_of_type(const Fields& fields, std::string_view key, const std::string& word) {
  struct Size {
    std::string_view word;
    std::int64_t bytes;
  };
  constexpr Size sizes[] = {
      {"float64", 8},     {"float32", 4}, {"bfloat16", 2},  {"float16", 2},    {"float8_e4m3fn", 1},
      {"float8_e5m2", 1}, {"int64", 8},   {"int32", 4},     {"int16", 2},      {"int8", 1},
      {"uint8", 1},       {"bool", 1},    {"complex64", 8}, {"complex128", 16}};
  for (const Size& each : sizes)
    if (each.word == word) return each.bytes;
  fields.fail(key, "'" + word + "' is no type of PyTorch that is known here");
}

Kernel::Kind read_kernel_kind(Fields& kernel) {
  const std::vector<std::string> kinds = {"gemm", "batched_gemm", "attention", "memory"};
  return static_cast<Kernel::Kind>(choose(kernel, "kind", "kind of kernel",
                                          kernel.optional<std::string>("kind", "memory"), kinds));
}

std::optional<Precision> read_kernel_precision(Fields& kernel) {
  if (!kernel.has("dtype")) return std::nullopt;
  const auto type = kernel.required<std::string>("dtype");
  size_of_type(kernel, "dtype", type);
  if (type.starts_with("float8")) return Precision::fp8;
  return type == "bfloat16"  ? Precision::bf16
         : type == "float16" ? Precision::fp16
         : type == "float64" ? Precision::fp64
                             : Precision::fp32;
}

}  // namespace meshwright::architectures
