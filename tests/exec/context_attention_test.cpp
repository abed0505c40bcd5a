// Compares attention over sequences that several ranks share with the attention of one rank that
// has them whole. The ranks run one after another here, and the test hands over what the ring would
// bring.
#include <array>

#include "exec/backends/cpu/cpu_backend.h"
#include "models/program/graph/context.h"
#include "tests/catch.h"
#include "tests/exec/op_cases.h"

using namespace meshwright::tests;

namespace {

using Tensors = std::vector<OpTensor>;

Attributes part_of(Attributes a, int degree) {
  a.context_degree = degree;
  a.sequence_length /= degree;
  return a;
}

// Returns the rows that `rank` holds of a tensor whose rows are the tokens of whole sequences. `a`
// describes the rank's part.
OpTensor rows_of(const OpTensor& whole, const Attributes& a, int rank) {
  const std::int64_t rank_of = whole.type.shape.rank,
                     width = rank_of == 1 ? 1 : whole.type.shape[1];
  const std::int64_t held = a.sequence_length, rows = a.micro_batch * held;
  OpTensor part({rank_of == 1 ? Shape{rows} : Shape{rows, width}, whole.type.dtype});
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t place = row / held * held * a.context_degree +
                               context_position(a.context_degree, rank, held, row % held);
    for (std::int64_t c = 0; c < width; ++c)
      part.set(row * width + c, whole.get(place * width + c));
  }
  return part;
}

double apart(const OpTensor& a, const OpTensor& b) {
  REQUIRE(a.type == b.type);
  double worst = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const double difference = std::fabs(a.get(i) - b.get(i));
    if (!(difference <= worst)) worst = std::isnan(difference) ? INFINITY : difference;
  }
  return worst;
}

void add_to(OpTensor& sum, const OpTensor& part) {
  for (std::int64_t i = 0; i < sum.elements(); ++i) sum.set(i, sum.get(i) + part.get(i));
}

// Does everything that one rank does, with the keys and values of all ranks at hand.
class ContextRank {
 public:
  // If `a.documents` is set, the last operand is the documents of the rank's tokens. If `a.sinks`
  // is set, the one before is the sinks of all ranks.
  ContextRank(Runner& runner, const Attributes& a, int rank, Tensors operands)
      : runner_(runner), a_(a), rank_(rank), operands_(std::move(operands)) {
    if (a.documents) {
      documents_ = operands_.back();
      operands_.pop_back();
    }
    if (a.sinks) {
      sinks_ = operands_.back();
      operands_.pop_back();
      dsinks = sinks_;
    }
    std::vector<const OpTensor*> packs;
    for (const OpTensor& each : operands_) packs.push_back(&each);
    if (packs.size() == 3) packs.erase(packs.begin());
    kv = run(Op::context_pack, packs, {kv_shape(1)})[0];
    dkv = kv;
    for (std::int64_t i = 0; i < dkv.elements(); ++i) dkv.set(i, 0);
  }

  void forward(std::vector<ContextRank>& ranks) {
    const Shape log_sums{a_.micro_batch * a_.heads, a_.sequence_length};
    for (int step = 0; step < a_.context_degree; ++step) {
      const OpTensor& keys = ranks[at(step)].kv;
      a_.ring_step = step;
      std::vector<const OpTensor*> inputs{&operands_[0], &keys};
      if (step > 0)
        inputs.push_back(&results[0]), inputs.push_back(&results[1]);
      else if (a_.sinks)
        inputs.push_back(&sinks_);
      if (a_.documents) inputs.push_back(&documents_);
      results = run(Op::context_attention, inputs, {q_shape(), log_sums});
    }
  }

  void backward(std::vector<ContextRank>& ranks, const OpTensor& dy) {
    Tensors made;
    for (int step = 0; step < a_.context_degree; ++step) {
      a_.ring_step = step;
      std::vector<const OpTensor*> inputs{&operands_[0], &ranks[at(step)].kv, &results[0],
                                          &results[1], &dy};
      if (step > 0) inputs.push_back(&made[0]);
      made = gradient(inputs, kv_shape(1));
      if (step == 0 && a_.sinks) dsinks = made[2];
      add_to(ranks[at(step)].dkv, made[1]);
    }
    dq = made[0];
  }

  // Runs both passes once more with all keys and values at once. The results have the same bits,
  // and the gradients of all keys and values are gathered.
  void check_gathered(std::vector<ContextRank>& ranks, const OpTensor& dy) {
    a_.ring_step = -1;
    OpTensor all({kv_shape(a_.context_degree), kv.type.dtype});
    for (std::int64_t r = 0, i = 0; r < a_.context_degree; ++r)
      for (std::int64_t k = 0; k < kv.elements(); ++k)
        all.set(i++, ranks[static_cast<std::size_t>(r)].kv.get(k));
    std::vector<const OpTensor*> inputs{&operands_[0], &all};
    if (a_.sinks) inputs.push_back(&sinks_);
    if (a_.documents) inputs.push_back(&documents_);
    const Tensors again =
        run(Op::context_attention, inputs, {results[0].type.shape, results[1].type.shape});
    CHECK(apart(again[0], results[0]) < 1e-13);
    CHECK(apart(again[1], results[1]) < 1e-13);
    const Tensors made =
        gradient({&operands_[0], &all, &results[0], &results[1], &dy}, all.type.shape);
    CHECK(apart(made[0], dq) < 1e-13);
    if (a_.sinks) CHECK(apart(made[2], dsinks) < 1e-13);
    for (std::size_t r = 0; r < ranks.size(); ++r)
      for (std::int64_t i = 0; i < kv.elements(); ++i)
        ranks[r].gathered_dkv.push_back(
            made[1].get(static_cast<std::int64_t>(r) * kv.elements() + i));
  }

  Tensors gradients() {
    if (operands_.size() == 1)
      return run(Op::context_unpack, {&dq, &dkv}, {operands_[0].type.shape});
    Tensors all =
        run(Op::context_unpack, {&dkv}, {operands_[1].type.shape, operands_[2].type.shape});
    all.insert(all.begin(), dq);
    return all;
  }

  OpTensor kv, dq, dkv, dsinks;
  Tensors results;
  std::vector<double> gathered_dkv;  // the part for each rank, one after another

 private:
  Tensors run(Op op, const std::vector<const OpTensor*>& inputs, const std::vector<Shape>& outputs,
              std::size_t added = 0) {
    runner_.context_rank = rank_;
    return runner_.run(op, a_, inputs, outputs, added);
  }
  Tensors gradient(std::vector<const OpTensor*> inputs, const Shape& kv_type) {
    std::vector<Shape> outputs{q_shape(), kv_type};
    const bool first = a_.sinks && a_.ring_step <= 0;
    if (first) inputs.push_back(&sinks_), outputs.push_back(sinks_.type.shape);
    if (a_.documents) inputs.push_back(&documents_);
    return run(Op::context_attention_grad, inputs, outputs, first ? 1 : 0);
  }
  std::size_t at(int step) const {
    return static_cast<std::size_t>((rank_ + a_.context_degree - step) % a_.context_degree);
  }
  std::int64_t rows() const { return a_.micro_batch * a_.sequence_length; }
  Shape q_shape() const { return {rows(), std::int64_t{a_.heads} * a_.head_dim}; }
  Shape kv_shape(int ranks) const {
    return {ranks * rows(), std::int64_t{2} * a_.kv_heads * a_.head_dim};
  }

  Runner& runner_;
  Attributes a_;
  int rank_;
  Tensors operands_;
  OpTensor sinks_, documents_;
};

void check_context(const Case& c, int degree) {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, Dtype::f64);
  const Played whole = play(runner, c);
  const Attributes a = part_of(c.attributes, degree);
  std::vector<ContextRank> ranks;
  for (int rank = 0; rank < degree; ++rank) {
    Tensors operands;
    for (const OpTensor& each : whole.inputs)
      operands.push_back(each.type.shape == Shape{a.heads} ? each : rows_of(each, a, rank));
    ranks.emplace_back(runner, a, rank, std::move(operands));
  }
  for (ContextRank& rank : ranks) rank.forward(ranks);
  for (int rank = 0; rank < degree; ++rank) {
    ContextRank& own = ranks[static_cast<std::size_t>(rank)];
    CHECK(apart(own.results[0], rows_of(whole.outputs[0], a, rank)) < 1e-12);
    own.backward(ranks, rows_of(whole.dy, a, rank));
  }
  for (int rank = 0; rank < degree; ++rank) {
    ContextRank& own = ranks[static_cast<std::size_t>(rank)];
    own.check_gathered(ranks, rows_of(whole.dy, a, rank));
    const Tensors gradients = own.gradients();
    for (std::size_t i = 0; i < gradients.size(); ++i)
      CHECK(apart(gradients[i], rows_of(whole.gradients[i], a, rank)) < 1e-12);
  }
  if (a.sinks) {
    OpTensor sum = ranks[0].dsinks;
    for (std::size_t r = 1; r < ranks.size(); ++r) add_to(sum, ranks[r].dsinks);
    CHECK(apart(sum, whole.gradients[3]) < 1e-12);
  }
  for (ContextRank& rank : ranks) {
    const auto elements = static_cast<std::size_t>(rank.dkv.elements());
    for (std::size_t i = 0; i < elements; ++i) {
      double sum = 0;
      for (std::size_t r = 0; r < ranks.size(); ++r) sum += rank.gathered_dkv[r * elements + i];
      if (std::fabs(sum - rank.dkv.get(static_cast<std::int64_t>(i))) > 1e-12) FAIL("dkv " << i);
    }
  }
}

Attributes sequences(int batch, int length) {
  Attributes a;
  a.micro_batch = batch;
  a.sequence_length = length;
  a.heads = a.alibi_heads = 4;
  a.head_dim = 3;
  return a;
}

}  // namespace

TEST_CASE("the tokens of a context group are each rank's once, and equal work", "[exec][context]") {
  for (int degree : {1, 2, 3, 4, 8}) {
    const std::int64_t held = 6;
    std::vector<int> owners(static_cast<std::size_t>(held * degree), 0);
    std::int64_t first_pairs = 0;
    for (int rank = 0; rank < degree; ++rank) {
      std::int64_t pairs = 0;  // pairs of query and key that the mask shows
      for (std::int64_t token = 0; token < held; ++token) {
        const std::int64_t place = context_position(degree, rank, held, token);
        ++owners[static_cast<std::size_t>(place)];
        pairs += place + 1;
      }
      if (rank == 0) first_pairs = pairs;
      CHECK(pairs == first_pairs);
    }
    for (int count : owners) CHECK(count == 1);
  }
}

TEST_CASE("ring attention is the attention of one rank", "[exec][context]") {
  for (const Packing packing : {Packing::separate, Packing::concatenated, Packing::per_head})
    for (const auto [causal, alibi, chunks, documents] :
         {std::array{false, false, false, false}, std::array{false, true, false, false},
          std::array{true, false, false, false}, std::array{true, true, false, false},
          std::array{true, false, true, false}, std::array{true, false, false, true},
          std::array{true, true, true, true}})
      for (const int degree : {1, 2, 3})
        for (const int half : {2, 131}) {  // tokens of a half: within one tile of 128, and in two
          if (half > 2 && packing != Packing::concatenated) continue;
          Attributes a = sequences(2, 2 * half * degree);
          a.packing = packing;
          a.causal = causal;
          a.alibi = alibi;
          a.window = causal && alibi ? half + 1 : 0;  // longer than a half
          a.chunk = chunks ? half + 1 : 0;
          a.documents = documents;
          a.score_cap = alibi ? 0.75 : 0;
          a.kv_heads = packing == Packing::per_head ? 4 : 2;
          INFO("packing " << static_cast<int>(packing) << " causal " << causal << " alibi " << alibi
                          << " chunks " << chunks << " documents " << documents << " degree "
                          << degree << " half " << half);
          const std::int64_t rows = 2 * a.sequence_length, dim = a.head_dim;
          Case c{"attention", Op::attention, a, {{{rows, (4 + 2 * a.kv_heads) * dim}}}, {}};
          if (packing == Packing::separate)
            c.inputs = {{{rows, 4 * dim}}, {{rows, 2 * dim}}, {{rows, 2 * dim}}};
          if (documents) c.inputs.push_back({{rows}, a.sequence_length, true});
          c.outputs = {{rows, 4 * dim}, {2 * 4, a.sequence_length}};
          check_context(c, degree);
        }
}

TEST_CASE("each softmax has its sink once, around a ring too", "[exec][context]") {
  for (const bool causal : {false, true})
    for (const int degree : {1, 2, 3})
      for (const int half : {2, 131}) {
        Attributes a = sequences(2, 2 * half * degree);
        a.packing = Packing::separate;
        a.causal = causal;
        a.sinks = true;
        a.window = causal ? half + 1 : 0;
        a.kv_heads = 2;
        INFO("causal " << causal << " degree " << degree << " half " << half);
        const std::int64_t rows = 2 * a.sequence_length, dim = a.head_dim;
        check_context({"attention, sinks",
                       Op::attention,
                       a,
                       {{{rows, 4 * dim}}, {{rows, 2 * dim}}, {{rows, 2 * dim}}, {{4}}},
                       {{rows, 4 * dim}, {2 * 4, a.sequence_length}}},
                      degree);
      }
}

TEST_CASE("positions of a context group's tokens are those in the sequence", "[exec][context]") {
  const auto backend = make_cpu_backend(1);
  Runner runner(*backend, Dtype::f64);
  const int degree = 3;
  Attributes a = sequences(2, 4 * degree);
  a.packing = Packing::separate;
  a.kv_heads = 4;
  a.rotary_dim = 2;
  const Attributes part = part_of(a, degree);
  const OpTensor x = runner.random({{2 * a.sequence_length, 12}}, 1);
  const OpTensor table = runner.random({{a.sequence_length + 1, 12}}, 2);
  Attributes grown = a;
  grown.temperature = 0.5;
  grown.temperature_floor = 3;
  const Attributes grown_part = part_of(grown, degree);
  const OpTensor rope = runner.run(Op::rope, a, {&x}, {x.type.shape})[0];
  const OpTensor larger = runner.run(Op::rope, grown, {&x}, {x.type.shape})[0];
  const OpTensor placed = runner.run(Op::add_position, a, {&x, &table}, {x.type.shape})[0];
  Attributes packed = a;
  packed.documents = true;
  const Attributes packed_part = part_of(packed, degree);
  const OpTensor documents = runner.random({{2 * a.sequence_length}, a.sequence_length, true}, 3);
  const OpTensor packed_rope = runner.run(Op::rope, packed, {&x, &documents}, {x.type.shape})[0];
  const OpTensor packed_places =
      runner.run(Op::add_position, packed, {&x, &table, &documents}, {x.type.shape})[0];
  OpTensor sum({table.type.shape, Dtype::f64});
  for (int rank = 0; rank < degree; ++rank) {
    runner.context_rank = rank;
    const OpTensor own = rows_of(x, part, rank);
    const Shape& shape = own.type.shape;
    CHECK(apart(runner.run(Op::rope, part, {&own}, {shape})[0], rows_of(rope, part, rank)) == 0);
    CHECK(apart(runner.run(Op::rope, grown_part, {&own}, {shape})[0],
                rows_of(larger, grown_part, rank)) == 0);
    CHECK(apart(runner.run(Op::add_position, part, {&own, &table}, {shape})[0],
                rows_of(placed, part, rank)) == 0);
    const OpTensor begins = rows_of(documents, part, rank);
    CHECK(apart(runner.run(Op::rope, packed_part, {&own, &begins}, {shape})[0],
                rows_of(packed_rope, part, rank)) == 0);
    CHECK(apart(runner.run(Op::add_position, packed_part, {&own, &table, &begins}, {shape})[0],
                rows_of(packed_places, part, rank)) == 0);
    add_to(sum, runner.run(Op::add_position_grad, part, {&own}, {table.type.shape}, 1)[0]);
  }
  runner.context_rank = 0;
  CHECK(apart(sum, runner.run(Op::add_position_grad, a, {&x}, {table.type.shape}, 1)[0]) < 1e-14);
}
