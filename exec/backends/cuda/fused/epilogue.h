// What cuBLASLt does of a fused operation that begins with a product (Fusion::Loop::product_first):
// the product, and perhaps the steps that follow it, as its epilogue.
#pragma once

#include <vector>

#include "exec/backends/cuda/products/products.h"
#include "models/program/graph/fusion.h"

namespace meshwright::cuda {

struct Lead {
  ProductForm form;
  // Operands of the fusion; -1: none.
  int a = -1, b = -1, c = -1, start = -1, bias = -1, saved = -1;
  std::size_t steps = 1;  // that this does
};

// The one with most steps first; the last is the product alone. Which ones cuBLASLt has is for
// Products to say.
std::vector<Lead> leads_of(const Fusion& fusion);

// The fusion as it is where a lead does its steps: the product, then what is left.
Fusion without_led(const Fusion& fusion, const Lead& lead);

}  // namespace meshwright::cuda
