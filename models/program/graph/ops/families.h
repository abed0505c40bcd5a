// Declares the functions that return the rows of the table of operations, one for each family. Each
// family has a file in this folder.
#pragma once

#include <span>

#include "models/program/graph/op_table.h"

namespace meshwright::program {

using OpFamily = std::span<const OpInfo>();
OpFamily activation_ops, attention_ops, bookkeeping_ops, communication_ops, eager_ops,
    elementwise_ops, embedding_ops, experts_ops, loss_ops, norm_ops, product_ops, quantized_ops,
    segment_ops;

}  // namespace meshwright::program
