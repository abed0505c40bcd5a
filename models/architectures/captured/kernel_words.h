// Reads the words of kernels that PyTorch's side writes (tools/python/meshwright/torch/kernels.py):
// captured models and recordings of whole scripts have the same ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "models/core/dtype.h"
#include "models/core/fields.h"
#include "models/program/graph/op_table.h"

namespace meshwright::architectures {

// Returns the bytes of an element of the type of PyTorch called `word` ("bfloat16"), which `key`
// has. Throws InputError if it is not known.
std::int64_t size_of_type(const Fields& fields, std::string_view key, const std::string& word);

// Reads `kind`, which a kernel that moves memory may leave out, and `dtype`. The arithmetic is that
// of products and attention whose operands have this type. It is unset without `dtype`.
Kernel::Kind read_kernel_kind(Fields& kernel);
std::optional<Precision> read_kernel_precision(Fields& kernel);

}  // namespace meshwright::architectures
