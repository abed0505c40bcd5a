// Finds the part of a fused operation that cuBLASLt computes, if the operation begins with a matmul
// (Fusion::Loop::product_first): the matmul, and perhaps the steps that follow it, as its epilogue.
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

// Returns all leads, the one with most steps first and the matmul alone last. Products knows which
// ones cuBLASLt supports.
std::vector<Lead> leads_of(const Fusion& fusion);

// Returns what is left of the fusion if a lead does its steps: the matmul, then the remaining
// steps.
Fusion without_led(const Fusion& fusion, const Lead& lead);

}  // namespace meshwright::cuda
