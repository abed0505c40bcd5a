// Reads the kernels that PyTorch's side describes (tools/python/meshwright/torch/kernels.py).
// Captured models and recordings of whole scripts describe them in the same words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/core/dtype.h"
#include "models/core/fields.h"
#include "models/program/graph/op_table.h"

namespace meshwright::architectures {

// Returns the bytes of an element of PyTorch's type `word` ("bfloat16"). Throws InputError at `key`
// if the type is not known.
std::int64_t size_of_type(const Fields& fields, std::string_view key, const std::string& word);

// Read `kind`, which is "memory" if it is missing, and `dtype`. The precision is that of matmuls
// and attention whose operands have this type. It is unset without `dtype`.
Kernel::Kind read_kernel_kind(Fields& kernel);
std::optional<Precision> read_kernel_precision(Fields& kernel);

}  // namespace meshwright::architectures
