// Lists sums and dropout, which work element by element.
#include "models/program/graph/op_table.h"
#include "models/program/graph/ops/families.h"
#include "models/program/graph/ops/rules.h"

namespace meshwright::program {

namespace {

void differentiate_add(Gradients& g, const Node& node, int dy) {
  for (int id : node.inputs) g.pass_on(node, id, dy);
}

constexpr OpInfo rows[] = {
    {.op = Op::add,
     .name = "add",
     .takes = 2,
     .split = SplitRule::elements,
     .infer = same_as_both,
     .work = work_elementwise,
     .differentiate = differentiate_add,
     .rows = {.inputs = 0b11, .epilogue = true},
     .widening = by_rows(0b11, 0b1),
     .elements = {"$0 + $1"},
     .in_place = true,
     .makes_input_gradient = true},
    {.op = Op::dropout,
     .name = "dropout",
     .split = SplitRule::elements,
     .infer = same_as_first,
     .work = work_dropout,
     .differentiate = dx_of_dy<Op::dropout_grad>,
     .rows = {.inputs = 0b1, .counts_positions = true},
     .in_place = true},
    {.op = Op::dropout_grad,
     .name = "dropout_grad",
     .infer = same_as_first,
     .work = work_dropout_grad,
     .rows = {.inputs = 0b1, .counts_positions = true},
     .in_place = true},
};

}  // namespace

std::span<const OpInfo> elementwise_ops() { return rows; }

}  // namespace meshwright::program
