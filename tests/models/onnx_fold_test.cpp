// Tests the operators that are computed while an ONNX file is read, one by one, against the values
// that the standard's definitions give.
#include <cmath>
#include <string>
#include <vector>

#include "models/architectures/onnx/known.h"
#include "tests/catch.h"
#include "tests/message_of.h"

using namespace meshwright::tests;

namespace {

using Values = std::vector<double>;

constexpr KnownKind real = KnownKind::real, integer = KnownKind::integer,
                    boolean = KnownKind::boolean;

Known vector_of(Values values, KnownKind kind = integer) {
  return {{static_cast<std::int64_t>(values.size())}, kind, std::move(values)};
}
Known matrix_of(std::int64_t rows, std::int64_t columns, Values values, KnownKind kind = integer) {
  return {{rows, columns}, kind, std::move(values)};
}
const Known one_to_six = matrix_of(2, 3, {1, 2, 3, 4, 5, 6});

OnnxNode node_of(const std::string& op) {
  OnnxNode node;
  node.op = op;
  node.outputs = {"y"};
  return node;
}
OnnxNode with(OnnxNode node, const std::string& attribute, std::int64_t value) {
  node.attributes[attribute].i = value;
  return node;
}
OnnxNode with_list(OnnxNode node, const std::string& attribute, OnnxDims values) {
  node.attributes[attribute].ints = std::move(values);
  return node;
}

std::vector<Known> all_of(const OnnxNode& node, const std::vector<Known>& inputs) {
  std::vector<const Known*> places;
  for (const Known& each : inputs) places.push_back(each.dims == OnnxDims{-1} ? nullptr : &each);
  const auto results = fold(node, 17, places);
  REQUIRE(results.has_value());
  return *results;
}
const Known missing{{-1}, integer, {}};

Known result_of(const OnnxNode& node, const std::vector<Known>& inputs) {
  const std::vector<Known> all = all_of(node, inputs);
  REQUIRE(all.size() == 1);
  return all[0];
}

void check(const Known& found, const OnnxDims& dims, const Values& values) {
  CHECK(found.dims == dims);
  CHECK(found.values == values);
}

std::string refusal(const OnnxNode& node, const std::vector<Known>& inputs) {
  return message_of([&] { all_of(node, inputs); });
}

}  // namespace

TEST_CASE("operators of two operands are computed element by element", "[models][onnx]") {
  struct Row {
    const char* op;
    Values expected;  // results for -7 and 2, 7 and 2, 3 and 3, 0 and 2
    KnownKind kind = integer;
  };
  const Known a = vector_of({-7, 7, 3, 0}), b = vector_of({2, 2, 3, 2});
  const Row rows[] = {{"Add", {-5, 9, 6, 2}},
                      {"Sub", {-9, 5, 0, -2}},
                      {"Mul", {-14, 14, 9, 0}},
                      {"Div", {-3, 3, 1, 0}},  // of integers: towards zero
                      {"Pow", {49, 49, 27, 0}},
                      {"Mod", {1, 1, 0, 0}},  // with the sign of the divisor
                      {"Max", {2, 7, 3, 2}},
                      {"Min", {-7, 2, 3, 0}},
                      {"Equal", {0, 0, 1, 0}, boolean},
                      {"Less", {1, 0, 0, 1}, boolean},
                      {"LessOrEqual", {1, 0, 1, 1}, boolean},
                      {"Greater", {0, 1, 0, 0}, boolean},
                      {"GreaterOrEqual", {0, 1, 1, 0}, boolean},
                      {"And", {1, 1, 1, 0}, boolean},
                      {"Or", {1, 1, 1, 1}, boolean}};
  for (const Row& row : rows) {
    INFO(row.op);
    const Known found = result_of(node_of(row.op), {a, b});
    check(found, {4}, row.expected);
    CHECK(found.kind == row.kind);
  }
  const Known zeros = vector_of({0, 0}), ones = vector_of({0, 1});
  check(result_of(node_of("Or"), {zeros, ones}), {2}, {0, 1});
  check(result_of(node_of("And"), {ones, ones}), {2}, {0, 1});
  check(result_of(node_of("Div"), {ones, zeros}), {2}, {0, 0});
  check(result_of(node_of("Mod"), {ones, zeros}), {2}, {0, 0});
  check(result_of(node_of("Div"), {vector_of({7, -7}, real), vector_of({2, 2}, real)}), {2},
        {3.5, -3.5});
  // Results of floating-point operands are rounded to fp32.
  check(result_of(node_of("Div"), {vector_of({1}, real), vector_of({3}, real)}), {1},
        {static_cast<double>(1.0F / 3.0F)});
}

TEST_CASE("operators of one operand are computed element by element", "[models][onnx]") {
  struct Row {
    const char* op;
    double of, expected;
  };
  const Row rows[] = {{"Neg", 2, -2}, {"Sqrt", 9, 3}, {"Reciprocal", 4, 0.25}, {"Exp", 0, 1},
                      {"Log", 1, 0},  {"Abs", -2, 2}, {"Floor", -1.5, -2},     {"Ceil", -1.5, -1},
                      {"Cos", 0, 1},  {"Sin", 0, 0}};
  for (const Row& row : rows) {
    INFO(row.op);
    const Known found = result_of(node_of(row.op), {vector_of({row.of}, real)});
    check(found, {1}, {row.expected});
    CHECK(found.kind == real);
  }
  CHECK(result_of(node_of("Exp"), {vector_of({1}, real)}).values[0] == Approx(2.7182818));
  CHECK(result_of(node_of("Log"), {vector_of({2}, real)}).values[0] == Approx(0.6931472));
  CHECK(result_of(node_of("Cos"), {vector_of({1}, real)}).values[0] == Approx(0.5403023));
  CHECK(result_of(node_of("Sin"), {vector_of({1}, real)}).values[0] == Approx(0.8414710));
  const Known inverted = result_of(node_of("Not"), {vector_of({0, 1}, boolean)});
  check(inverted, {2}, {1, 0});
  const Known undefined = result_of(node_of("IsNaN"), {vector_of({1, std::nan("")}, real)});
  check(undefined, {2}, {0, 1});
  CHECK(undefined.kind == boolean);
}

TEST_CASE("shapes are broadcast as NumPy does", "[models][onnx]") {
  check(result_of(node_of("Add"), {one_to_six, vector_of({10, 20, 30})}), {2, 3},
        {11, 22, 33, 14, 25, 36});
  check(result_of(node_of("Add"), {matrix_of(2, 1, {10, 20}), vector_of({1, 2, 3})}), {2, 3},
        {11, 12, 13, 21, 22, 23});
  check(result_of(node_of("Where"),
                  {vector_of({1, 0, 1}, boolean), one_to_six, matrix_of(2, 1, {-1, -2})}),
        {2, 3}, {1, -1, 3, 4, -2, 6});
  check(result_of(node_of("Expand"), {matrix_of(2, 1, {1, 2}), vector_of({2, 3})}), {2, 3},
        {1, 1, 1, 2, 2, 2});
  check(result_of(node_of("Expand"), {vector_of({1, 2}), vector_of({2, 1})}), {2, 2}, {1, 2, 1, 2});
  CHECK(refusal(node_of("Add"), {one_to_six, vector_of({1, 2})}) ==
        "shapes [2,3] and [2] do not fit");
}

TEST_CASE("casts round towards zero and tell truth", "[models][onnx]") {
  const Known from = vector_of({-1.7, 0, 0.3, std::nan("")}, real);
  const auto cast = [&](OnnxType type) {
    return result_of(with(node_of("Cast"), "to", static_cast<int>(type)), {from});
  };
  for (const OnnxType type : {OnnxType::i64, OnnxType::i32, OnnxType::i8, OnnxType::u8}) {
    check(cast(type), {4}, {-1, 0, 0, 0});
    CHECK(cast(type).kind == integer);
  }
  check(cast(OnnxType::boolean), {4}, {1, 0, 1, 1});
  CHECK(cast(OnnxType::boolean).kind == boolean);
  for (const OnnxType type : {OnnxType::f32, OnnxType::f16, OnnxType::bf16, OnnxType::f64})
    CHECK(cast(type).kind == real);
  CHECK(refusal(with(node_of("Cast"), "to", 8), {from}) ==
        "casts to an element type that is not known");
}

TEST_CASE("what moves elements moves them as the standard says", "[models][onnx]") {
  check(result_of(node_of("Identity"), {one_to_six}), {2, 3}, one_to_six.values);
  check(result_of(node_of("Transpose"), {one_to_six}), {3, 2}, {1, 4, 2, 5, 3, 6});
  const Known box{{1, 2, 3}, integer, one_to_six.values};
  check(result_of(with_list(node_of("Transpose"), "perm", {2, 0, 1}), {box}), {3, 1, 2},
        {1, 4, 2, 5, 3, 6});
  check(result_of(node_of("Concat"), {one_to_six, matrix_of(1, 3, {7, 8, 9})}), {3, 3},
        {1, 2, 3, 4, 5, 6, 7, 8, 9});
  check(result_of(with(node_of("Concat"), "axis", -1), {one_to_six, matrix_of(2, 1, {7, 8})}),
        {2, 4}, {1, 2, 3, 7, 4, 5, 6, 8});
  check(result_of(node_of("Gather"), {one_to_six, vector_of({1, -2, 1})}), {3, 3},
        {4, 5, 6, 1, 2, 3, 4, 5, 6});
  check(result_of(with(node_of("Gather"), "axis", 1), {one_to_six, matrix_of(1, 2, {2, 0})}),
        {2, 1, 2}, {3, 1, 6, 4});
  CHECK(refusal(node_of("Gather"), {one_to_six, vector_of({2})}) == "gathers number 2 of 2");
  CHECK(refusal(node_of("Gather"), {one_to_six, vector_of({-3})}) == "gathers number -1 of 2");
  check(result_of(node_of("Range"), {vector_of({1}), vector_of({8}), vector_of({3})}), {3},
        {1, 4, 7});
  check(result_of(node_of("Range"), {vector_of({7}), vector_of({1}), vector_of({-3})}), {2},
        {7, 4});
  check(result_of(node_of("Range"), {vector_of({1}), vector_of({1}), vector_of({1})}), {0}, {});
  check(result_of(node_of("ConstantOfShape"), {vector_of({2, 2})}), {2, 2}, {0, 0, 0, 0});
  check(result_of(node_of("CumSum"), {one_to_six, vector_of({0})}), {2, 3}, {1, 2, 3, 5, 7, 9});
  check(result_of(node_of("CumSum"), {one_to_six, vector_of({1})}), {2, 3}, {1, 3, 6, 4, 9, 15});
  for (const char* order : {"exclusive", "reverse"})
    CHECK(refusal(with(node_of("CumSum"), order, 1), {one_to_six, vector_of({0})}) ==
          "adds up in an order that is not known");
  check(result_of(node_of("MatMul"), {one_to_six, matrix_of(3, 2, {1, 0, 0, 1, 2, 3})}), {2, 2},
        {1 + 6, 2 + 9, 4 + 12, 5 + 18});
}

TEST_CASE("triangles keep a side of their diagonal", "[models][onnx]") {
  const Known square = matrix_of(3, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  check(result_of(node_of("Trilu"), {square}), {3, 3}, {1, 2, 3, 0, 5, 6, 0, 0, 9});
  check(result_of(node_of("Trilu"), {square, vector_of({1})}), {3, 3}, {0, 2, 3, 0, 0, 6, 0, 0, 0});
  const OnnxNode lower = with(node_of("Trilu"), "upper", 0);
  check(result_of(lower, {square}), {3, 3}, {1, 0, 0, 4, 5, 0, 7, 8, 9});
  check(result_of(lower, {square, vector_of({-1})}), {3, 3}, {0, 0, 0, 4, 0, 0, 7, 8, 0});
  check(result_of(lower, {one_to_six}), {2, 3}, {1, 0, 0, 4, 5, 0});
}

TEST_CASE("slices are those of NumPy", "[models][onnx]") {
  const Known numbers = matrix_of(3, 4, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23});
  const auto slice = [&](Values begins, Values ends, std::vector<Known> more = {}) {
    std::vector<Known> inputs{numbers, vector_of(std::move(begins)), vector_of(std::move(ends))};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return result_of(node_of("Slice"), inputs);
  };
  check(slice({1}, {3}), {2, 4}, {10, 11, 12, 13, 20, 21, 22, 23});
  check(slice({1, 2}, {2, 4}), {1, 2}, {12, 13});
  check(slice({2}, {3}, {vector_of({1})}), {3, 1}, {2, 12, 22});
  check(slice({-2}, {100}, {vector_of({-1})}), {3, 2}, {2, 3, 12, 13, 22, 23});
  check(slice({2}, {2}), {0, 4}, {});
  check(slice({2}, {-100}, {vector_of({0}), vector_of({-1})}), {3, 4},
        {20, 21, 22, 23, 10, 11, 12, 13, 0, 1, 2, 3});
  check(slice({-1}, {1}, {vector_of({1}), vector_of({-1})}), {3, 2}, {3, 2, 13, 12, 23, 22});
  check(slice({1}, {3}, {missing, vector_of({1})}), {2, 4}, {10, 11, 12, 13, 20, 21, 22, 23});
  CHECK(refusal(node_of("Slice"), {numbers, vector_of({0}), vector_of({3}), vector_of({0}),
                                   vector_of({2})}) == "a step of 2 is not known; known: 1 and -1");
}

TEST_CASE("splits have the sizes that are given, or equal ones", "[models][onnx]") {
  OnnxNode node = node_of("Split");
  node.outputs = {"a", "b"};
  std::vector<Known> parts = all_of(node, {vector_of({1, 2, 3, 4, 5}), vector_of({2, 3})});
  REQUIRE(parts.size() == 2);
  check(parts[0], {2}, {1, 2});
  check(parts[1], {3}, {3, 4, 5});
  parts = all_of(node, {vector_of({1, 2, 3, 4, 5})});  // the last may be smaller
  check(parts[0], {3}, {1, 2, 3});
  check(parts[1], {2}, {4, 5});
  parts = all_of(with(node, "axis", 1), {matrix_of(2, 2, {1, 2, 3, 4})});
  check(parts[0], {2, 1}, {1, 3});
  check(parts[1], {2, 1}, {2, 4});
  CHECK(refusal(node, {vector_of({1, 2, 3}), vector_of({1, 1})}) ==
        "has parts that do not make up the whole");
  CHECK(refusal(node, {vector_of({1, 2, 3}), vector_of({4, -1})}) == "has parts of a wrong size");
}

TEST_CASE("shapes are changed by the rules of Reshape, Squeeze and Unsqueeze", "[models][onnx]") {
  CHECK(reshape_dims({2, 3, 4}, {0, -1}, false) == OnnxDims{2, 12});
  CHECK(reshape_dims({2, 3, 4}, {4, 0, 2}, false) == OnnxDims{4, 3, 2});
  CHECK(reshape_dims({0, 3}, {3, 0}, true) == OnnxDims{3, 0});
  const auto reshaped = [](const OnnxDims& from, const OnnxDims& to) {
    return message_of([&] { reshape_dims(from, to, false); });
  };
  CHECK(reshaped({2, 3}, {-1, -1}) == "two dimensions of a shape are -1");
  CHECK(reshaped({2, 3}, {4, -1}) != "");
  CHECK(reshaped({2, 3}, {2, 3, 0}) == "keeps a dimension that is not there");
  CHECK(squeezed_dims({1, 2, 1, 3}, nullptr) == OnnxDims{2, 3});
  const OnnxDims last{-2}, third{3};
  CHECK(squeezed_dims({1, 2, 1, 3}, &last) == OnnxDims{1, 2, 3});
  CHECK(message_of([&] { squeezed_dims({1, 2, 1, 3}, &third); }) == "a dimension of 3 is squeezed");
  CHECK(unsqueezed_dims({2, 3}, {0, -1}) == OnnxDims{1, 2, 3, 1});
  CHECK(unsqueezed_dims({}, {0}) == OnnxDims{1});
  CHECK(unsqueezed_dims({1, 1, 1, 1, 1, 1, 1}, {0}).size() == 8);
  CHECK(message_of([] {
          unsqueezed_dims({1, 1, 1, 1, 1, 1, 1, 1}, {0});
        }) == "makes more than 8 dimensions");
  CHECK(message_of([] { unsqueezed_dims({2}, {2, -1}); }) == "names an axis twice");
  CHECK(axis_of(-3, 3) == 0);
  CHECK(axis_of(2, 3) == 2);
  for (const int axis : {-4, 3})
    CHECK(message_of([&] { axis_of(axis, 3); }) ==
          "axis " + std::to_string(axis) + " is not one of 3 dimensions");
}

TEST_CASE("a scatter puts what it is given at its places", "[models][onnx]") {
  const Known zeros = matrix_of(3, 2, {0, 0, 0, 0, 0, 0});
  check(result_of(node_of("ScatterND"),
                  {zeros, matrix_of(2, 1, {2, -3}), matrix_of(2, 2, {1, 2, 3, 4})}),
        {3, 2}, {3, 4, 0, 0, 1, 2});
  check(result_of(node_of("ScatterND"), {zeros, matrix_of(1, 2, {1, 1}), vector_of({5})}), {3, 2},
        {0, 0, 0, 5, 0, 0});
  CHECK(refusal(node_of("ScatterND"), {zeros, matrix_of(1, 1, {3}), matrix_of(1, 2, {1, 2})}) ==
        "scatters to what is not there");
  CHECK(refusal(node_of("ScatterND"), {zeros, matrix_of(1, 1, {0}), vector_of({1})}) ==
        "scatters another number of elements");
}

TEST_CASE("elements and slices are gathered by indices", "[models][onnx]") {
  const OnnxNode elements = with(node_of("GatherElements"), "axis", 1);
  check(result_of(elements, {one_to_six, matrix_of(2, 2, {2, 0, -1, 1})}), {2, 2}, {3, 1, 6, 5});
  check(result_of(node_of("GatherElements"), {one_to_six, matrix_of(1, 3, {1, 0, 1})}), {1, 3},
        {4, 2, 6});
  CHECK(refusal(elements, {one_to_six, matrix_of(2, 1, {3, 0})}) == "gathers what is not there");

  const OnnxNode slices = node_of("GatherND");
  check(result_of(slices, {one_to_six, matrix_of(2, 2, {0, 0, 1, -1})}), {2}, {1, 6});
  check(result_of(slices, {one_to_six, matrix_of(2, 1, {1, 0})}), {2, 3}, {4, 5, 6, 1, 2, 3});
  check(result_of(with(slices, "batch_dims", 1), {one_to_six, matrix_of(2, 1, {2, 0})}), {2},
        {3, 4});
  CHECK(refusal(slices, {one_to_six, matrix_of(1, 3, {0, 0, 0})}) ==
        "gathers along no dimension, or too many");
  CHECK(refusal(slices, {one_to_six, matrix_of(1, 1, {2})}) == "gathers what is not there");
}

TEST_CASE("a tensor is flattened to a matrix", "[models][onnx]") {
  const Known cube{{1, 2, 3}, integer, {1, 2, 3, 4, 5, 6}};
  check(result_of(node_of("Flatten"), {cube}), {1, 6}, cube.values);
  check(result_of(with(node_of("Flatten"), "axis", 2), {cube}), {2, 3}, cube.values);
  check(result_of(with(node_of("Flatten"), "axis", 3), {cube}), {6, 1}, cube.values);
  check(result_of(with(node_of("Flatten"), "axis", -1), {cube}), {2, 3}, cube.values);
  CHECK(refusal(with(node_of("Flatten"), "axis", 4), {cube}) ==
        "flattens at an axis that is not there");
}
