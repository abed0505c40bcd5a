#include "tests/exec/eager_op_cases.h"

namespace meshwright::tests {

namespace {

using Inputs = std::vector<OpTensor>;

void add_elementary_cases(std::vector<Case>& cases, const Sizes& z) {
  const std::int64_t rows = z.batch * z.length, h = z.width;
  Attributes a = sequences(z.batch, z.length);
  a.factor = -1.5;
  const InputSpec x{{rows, h}}, column{{rows, 1}};
  const std::vector<Shape> like_x = {{rows, h}};
  cases.push_back({"scale", Op::scale, a, {x}, like_x});
  cases.push_back({"add_constant", Op::add_constant, a, {x}, like_x});
  cases.push_back({"cube", Op::cube, a, {x}, like_x});
  cases.push_back({"multiply", Op::multiply, a, {x, x}, like_x});
  cases.push_back({"silu", Op::silu, a, {x}, like_x});
  cases.push_back({"mean_of_squares", Op::mean_of_squares, a, {x}, {{rows, 1}}});
  a.epsilon = 1.5;  // operands are in (-1, 1)
  cases.push_back({"inverse_root", Op::inverse_root, a, {column}, {{rows, 1}}});
  cases.push_back({"scale_rows", Op::scale_rows, a, {x, column}, like_x});
  cases.push_back({"scale_columns", Op::scale_columns, a, {x, {{h}}}, like_x});
  a.scale = 0.125;
  for (const int words : {z.other, z.other - 3}) {
    a.vocabulary = words;
    const Shape logits{rows, z.other};
    const std::string which = words < z.other ? ", masked columns" : "";
    cases.push_back({"log_softmax" + which, Op::log_softmax, a, {{logits}}, {logits}});
    cases.push_back({"nll_loss" + which, Op::nll_loss, a, {{logits}, {{rows}, words}}, {{rows}}});
  }
}

// Adds the steps of attention over heads in separate tensors.
void add_score_cases(std::vector<Case>& cases, const Sizes& z, int head_dim) {
  const int s = z.length, d = head_dim;
  Attributes a = sequences(z.batch, z.length);
  a.heads = a.alibi_heads = 4;
  a.head_dim = d;
  a.factor = -100;  // masked scores; others are in (-1, 1)
  a.dropout = 0.25;
  a.dropout_key = 7;
  const Shape queries{z.batch * 4, s, d}, all{z.batch * 4, s, s};
  for (const int kv_heads : {4, 2}) {
    a.kv_heads = kv_heads;
    const Shape shared{z.batch * kv_heads, s, d};
    const std::string which = kv_heads < 4 ? ", grouped queries" : "";
    cases.push_back({"scores" + which, Op::scores, a, {{queries}, {shared}}, {all}});
    cases.push_back({"weigh_values" + which, Op::weigh_values, a, {{all}, {shared}}, {queries}});
  }
  cases.push_back({"add_alibi", Op::add_alibi, a, {{all}}, {all}});
  cases.push_back({"softmax", Op::softmax, a, {{all}}, {all}});
  cases.push_back({"drop_probabilities", Op::drop_probabilities, a, {{all}}, {all}});
}

void add_head_cases(std::vector<Case>& cases, const Sizes& z, int head_dim) {
  Attributes a = sequences(z.batch, z.length);
  a.heads = 4;
  a.head_dim = head_dim;
  for (const Packing packing : {Packing::separate, Packing::concatenated, Packing::per_head}) {
    a.packing = packing;
    a.kv_heads = packing == Packing::concatenated ? 2 : 4;
    const auto apart = [&](int heads) { return Shape{z.batch * heads, z.length, head_dim}; };
    std::vector<Shape> parts = {apart(4)};
    if (packing != Packing::separate)
      for (int i = 0; i < 2; ++i) parts.push_back(apart(a.kv_heads));
    std::int64_t width = 0;
    for (const Shape& part : parts) width += part[0] / z.batch * head_dim;
    const Shape together{z.batch * z.length, width};
    const std::string which = std::string(", ") + name_of(packing);
    cases.push_back({"split_heads" + which, Op::split_heads, a, {{together}}, parts});
    cases.push_back({"join_heads" + which,
                     Op::join_heads,
                     a,
                     std::vector<InputSpec>(parts.begin(), parts.end()),
                     {together}});
  }
}

// Gradient rules. For split_heads, the rule is the gradient of the first part, because the tests
// need only that.
const OpRule rules[] = {
    {Op::scale,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::scale, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::cube,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::cube_grad, c.attributes, {&in[0], &dy}, {in[0].type.shape});
     }},
    {Op::silu,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::silu_grad, c.attributes, {&in[0], &dy}, {in[0].type.shape});
     }},
    {Op::mean_of_squares,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::mean_of_squares_grad, c.attributes, {&in[0], &dy}, {in[0].type.shape});
     }},
    {Op::inverse_root,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       return r.run(Op::inverse_root_grad, c.attributes, {&out[0], &dy}, {in[0].type.shape});
     }},
    {Op::rotate_half,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::rotate_half_grad, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::times_cosine,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::times_cosine, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::times_sine,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::times_sine, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::softmax,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       return r.run(Op::softmax_grad, c.attributes, {&out[0], &dy}, {in[0].type.shape});
     }},
    {Op::drop_probabilities,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::drop_probabilities_grad, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::log_softmax,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       return r.run(Op::log_softmax_grad, c.attributes, {&out[0], &dy}, {in[0].type.shape});
     }},
    {Op::add_constant, [](Runner&, const Case&, const Inputs&, const Inputs&,
                          const OpTensor& dy) { return Inputs{dy}; }},
    {Op::add_alibi, [](Runner&, const Case&, const Inputs&, const Inputs&,
                       const OpTensor& dy) { return Inputs{dy}; }},
    {Op::add_relative_bias,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{dy,
                     r.run(Op::relative_bias_grad, c.attributes, {&dy}, {in[1].type.shape}, 1)[0]};
     }},
    {Op::multiply,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       const Shape shape = dy.type.shape;
       return Inputs{r.run(Op::multiply, c.attributes, {&dy, &in[1]}, {shape})[0],
                     r.run(Op::multiply, c.attributes, {&dy, &in[0]}, {shape})[0]};
     }},
    {Op::scale_rows,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{r.run(Op::scale_rows, c.attributes, {&dy, &in[1]}, {dy.type.shape})[0],
                     r.run(Op::row_dots, c.attributes, {&in[0], &dy}, {in[1].type.shape})[0]};
     }},
    {Op::scale_columns,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{
           r.run(Op::scale_columns, c.attributes, {&dy, &in[1]}, {dy.type.shape})[0],
           r.run(Op::scale_columns_grad, c.attributes, {&in[0], &dy}, {in[1].type.shape}, 1)[0]};
     }},
    {Op::scores,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{
           r.run(Op::weigh_values, c.attributes, {&dy, &in[1]}, {in[0].type.shape})[0],
           r.run(Op::weigh_transposed, c.attributes, {&dy, &in[0]}, {in[1].type.shape})[0]};
     }},
    {Op::weigh_values,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{
           r.run(Op::scores, c.attributes, {&dy, &in[1]}, {in[0].type.shape})[0],
           r.run(Op::weigh_transposed, c.attributes, {&in[0], &dy}, {in[1].type.shape})[0]};
     }},
    {Op::split_heads,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       Inputs parts(out.begin() + 1, out.end());
       std::vector<const OpTensor*> operands = {&dy};
       for (OpTensor& part : parts) {
         for (std::int64_t i = 0; i < part.elements(); ++i) part.set(i, 0);
         operands.push_back(&part);
       }
       return r.run(Op::join_heads, c.attributes, operands, {in[0].type.shape});
     }},
    {Op::join_heads,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       std::vector<Shape> shapes;
       for (const OpTensor& part : in) shapes.push_back(part.type.shape);
       return r.run(Op::split_heads, c.attributes, {&dy}, shapes);
     }},
    {Op::nll_loss,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor&) {
       return r.run(Op::nll_loss_grad, c.attributes, {&in[0], &in[1]}, {in[0].type.shape});
     },
     true},
};

}  // namespace

void add_eager_cases(std::vector<Case>& cases, const Sizes& sizes, int head_dim) {
  add_elementary_cases(cases, sizes);
  add_score_cases(cases, sizes, head_dim);
  add_head_cases(cases, sizes, head_dim);
}

std::span<const OpRule> eager_rules() { return rules; }

}  // namespace meshwright::tests
