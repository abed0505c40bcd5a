// Finds the part of a fused operation that cuBLASLt computes, here called the lead. If the
// operation begins with a matmul (Fusion::Loop::product_first), the lead is that matmul, and
// perhaps steps after it that cuBLASLt can compute as the matmul's epilogue.
#pragma once

#include <vector>

#include "exec/backends/cuda/products/products.h"
#include "models/program/graph/fusion.h"

namespace meshwright::exec::cuda {

struct Lead {
  ProductForm form;
  // The lead's operands, as indices in Fusion::operands, or -1 for none.
  int a = -1, b = -1, c = -1, start = -1, bias = -1, saved = -1;
  std::size_t steps = 1;  // number of the fusion's first steps that this computes
};

// Returns the possible leads of a fusion that begins with a matmul: the matmul with as many of the
// next steps as its epilogue can have, then with fewer, and last the matmul alone. Leads whose
// result is internal to the fusion are left out. cuBLASLt may not support all of them, so the
// caller asks Products::prepare().
std::vector<Lead> leads_of(const Fusion& fusion);

// Returns the fusion without the steps that a lead computes after its matmul. The matmul stays as
// the first step, with the lead's result as its output.
Fusion without_led(const Fusion& fusion, const Lead& lead);

}  // namespace meshwright::exec::cuda
