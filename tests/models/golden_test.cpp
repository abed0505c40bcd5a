// Tests the graphs of the importers against values of independent implementations: the parameters
// have the same names and shapes, and a plain interpreter in double computes the same logits and
// loss. (The kernels of exec/ have their own tests against the same values.)
#include <cmath>
#include <filesystem>
#include <set>

#include "models/architectures/model.h"
#include "models/program/graph/graph.h"
#include "tests/catch.h"
#include "tests/golden/published_golden.h"

using namespace meshwright::tests;

namespace {

using Values = std::vector<double>;

// A tensor as a matrix [rows, width].
struct Matrix {
  std::size_t rows = 0, width = 0;
  Values values;
  double& at(std::size_t r, std::size_t c) { return values[r * width + c]; }
  double at(std::size_t r, std::size_t c) const { return values[r * width + c]; }
};

Matrix matrix(std::size_t rows, std::size_t width) { return {rows, width, Values(rows * width)}; }

class Interpreter {
 public:
  Interpreter(const Graph& graph, const Golden& golden) : graph_(graph) {
    values_.resize(graph.tensors.size());
    load(graph.tokens, golden.tensor("tokens"));
    load(graph.targets, golden.tensor("targets"));
    if (graph.positions >= 0) load(graph.positions, golden.tensor("positions"));
    if (graph.documents >= 0) load(graph.documents, golden.tensor("documents"));
    if (graph.decoder_tokens >= 0) load(graph.decoder_tokens, golden.tensor("decoder_tokens"));
    for (const Parameter& p : graph.parameters) load(p.tensor, golden_of(golden, "weight/", p));
  }

  void run() {
    for (const Node& node : graph_.nodes) step(node);
  }
  const Matrix& value(int tensor) const { return values_[tensor]; }

 private:
  void load(int tensor, const GoldenTensor& golden) {
    const Shape& shape = graph_.tensor(tensor).type.shape;
    const std::size_t width = shape.rank > 1 ? static_cast<std::size_t>(shape[-1]) : 1;
    values_[tensor] = {golden.values.size() / width, width,
                       Values(golden.values.begin(), golden.values.end())};
  }
  const Matrix& in(const Node& node, int i) const { return values_[node.inputs[i]]; }

  void step(const Node& node) {
    const Attributes& a = node.attributes;
    const Matrix& x = in(node, 0);
    Matrix& y = values_[node.outputs[0]];
    switch (node.op) {
      case Op::embedding:
        y = rows_of(in(node, 1), x.values);
        break;
      case Op::add_position:
      case Op::add_row:
        y = x;
        for (std::size_t r = 0; r < y.rows; ++r)
          for (std::size_t c = 0; c < y.width; ++c)
            y.at(r, c) += in(node, 1).at(row_of_table(node, r), c);
        break;
      case Op::layer_norm:
      case Op::rms_norm:
      case Op::head_norm:
        y = norm(node);
        break;
      case Op::linear:
        y = linear(node);
        break;
      case Op::rope:
        y = a.temperature > 0 ? tempered(x, a) : rope(x, a);
        break;
      case Op::concat_heads:
        y = concat_heads(x, in(node, 1), a);
        break;
      case Op::attention:
        y = attention(node);
        break;
      case Op::gelu:
        y = x;
        for (double& v : y.values) v = gelu(v, a.gelu_tanh);
        break;
      case Op::relu:
        y = x;
        for (double& v : y.values) v = std::max(v, 0.0);
        break;
      case Op::squared_relu:
        y = x;
        for (double& v : y.values) v = v > 0 ? std::pow(v, 2) : 0;
        break;
      case Op::tanh:
        y = x;
        for (double& v : y.values) v = std::tanh(v);
        break;
      case Op::scale:
        y = x;
        for (double& v : y.values) v *= a.factor;
        break;
      case Op::multiply:
        y = x;
        for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] *= in(node, 1).values[i];
        break;
      case Op::swiglu:
        y = x;
        for (std::size_t i = 0; i < y.values.size(); ++i)
          y.values[i] *= in(node, 1).values[i] / (1 + std::exp(-x.values[i]));
        break;
      case Op::clamped_swiglu:
        y = x;
        for (std::size_t i = 0; i < y.values.size(); ++i) {
          const double g = std::min(x.values[i], a.swiglu_limit);
          const double u = std::clamp(in(node, 1).values[i], -a.swiglu_limit, a.swiglu_limit);
          y.values[i] = g / (1 + std::exp(-1.702 * g)) * (u + 1);
        }
        break;
      case Op::add_expert_bias: {
        y = x;
        const Matrix& bias = in(node, 1);
        for (std::size_t r = 0; r < y.rows; ++r)
          for (std::size_t c = 0; c < y.width; ++c)
            y.at(r, c) += bias.at(r / (y.rows / a.experts) % bias.rows, c);
        break;
      }
      case Op::gate_rows:
        y = x;
        for (std::size_t i = 0; i < y.values.size(); ++i)
          y.values[i] /= 1 + std::exp(-in(node, 1).values[i / y.width]);
        break;
      case Op::add:
        y = x;
        for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] += in(node, 1).values[i];
        break;
      case Op::route:
        route(node);
        break;
      case Op::dispatch:
        y = dispatch(x, in(node, 1), a);
        break;
      case Op::expert_linear:
        y = expert_linear(node);
        break;
      case Op::combine:
        y = node.inputs.size() == 2 ? combine(x,
                                              {in(node, 1).rows, in(node, 1).width,
                                               Values(in(node, 1).values.size(), 1.0)},
                                              in(node, 1))
                                    : combine(x, in(node, 1), in(node, 2));
        break;
      case Op::scale_rows:
        y = x;
        for (std::size_t i = 0; i < y.values.size(); ++i)
          y.values[i] *= in(node, 1).values[i / y.width];
        break;
      case Op::image_patches:
        y = patches(x, a);
        break;
      case Op::prepend_row:
        y = matrix(x.rows + a.micro_batch, x.width);
        for (std::size_t r = 0; r < y.rows; ++r)
          for (std::size_t c = 0; c < y.width; ++c)
            y.at(r, c) = r % a.sequence_length == 0 ? in(node, 1).values[c]
                                                    : x.at(r - 1 - r / a.sequence_length, c);
        break;
      case Op::select_positions: {
        Values rows = in(node, 1).values;
        const std::size_t per_sequence = rows.size() / a.micro_batch;
        for (std::size_t i = 0; i < rows.size(); ++i)
          rows[i] += static_cast<double>(i / per_sequence * a.sequence_length);
        y = rows_of(x, rows);
        break;
      }
      case Op::cross_entropy:
        y = cross_entropy(x, in(node, 1));
        break;
      case Op::span_loss:
        y = span_loss(x, in(node, 1), a);
        break;
      default:
        FAIL("an operation that no forward graph has");
    }
  }

  static std::size_t row_of_table(const Node& node, std::size_t row) {
    const Attributes& a = node.attributes;
    return node.op == Op::add_row ? 0 : row % a.sequence_length + a.position_offset;
  }

  static Matrix patches(const Matrix& pixels, const Attributes& a) {
    const std::size_t size = a.patch_size, count = a.sequence_length - 1;
    const auto across = static_cast<std::size_t>(std::lround(std::sqrt(count)));
    const std::size_t side = across * size;
    Matrix y = matrix(pixels.rows * count, a.channels * size * size);
    for (std::size_t r = 0; r < y.rows; ++r)
      for (std::size_t c = 0; c < y.width; ++c) {
        const std::size_t channel = c / (size * size), patch = r % count;
        const std::size_t row = patch / across * size + c / size % size;
        const std::size_t column = patch % across * size + c % size;
        y.at(r, c) = pixels.at(r / count, (channel * side + row) * side + column) / 127.5 - 1;
      }
    return y;
  }

  static Matrix rows_of(const Matrix& table, const Values& rows) {
    Matrix y = matrix(rows.size(), table.width);
    for (std::size_t r = 0; r < y.rows; ++r)
      for (std::size_t c = 0; c < y.width; ++c)
        y.at(r, c) = table.at(static_cast<std::size_t>(rows[r]), c);
    return y;
  }

  Matrix norm(const Node& node) const {
    Matrix y = in(node, 0);
    const Matrix whole = y;
    const bool has_weight = node.inputs.size() > 1;
    if (node.op == Op::head_norm) {
      y.width = has_weight ? in(node, 1).values.size()
                           : static_cast<std::size_t>(node.attributes.head_dim);
      y.rows = y.values.size() / y.width;
    }
    const double more = node.attributes.one_plus_weight ? 1 : 0;
    for (std::size_t r = 0; r < y.rows; ++r) {
      double mean = 0, square = 0;
      for (std::size_t c = 0; c < y.width; ++c) mean += y.at(r, c);
      mean = node.op != Op::layer_norm ? 0 : mean / static_cast<double>(y.width);
      for (std::size_t c = 0; c < y.width; ++c) square += std::pow(y.at(r, c) - mean, 2);
      const double scale =
          1 / std::sqrt(square / static_cast<double>(y.width) + node.attributes.epsilon);
      for (std::size_t c = 0; c < y.width; ++c) {
        y.at(r, c) = (y.at(r, c) - mean) * scale * (has_weight ? more + in(node, 1).values[c] : 1);
        if (node.inputs.size() > 2) y.at(r, c) += in(node, 2).values[c];
      }
    }
    y.rows = whole.rows, y.width = whole.width;
    return y;
  }

  Matrix linear(const Node& node) const {
    const Matrix &x = in(node, 0), &w = in(node, 1);
    const bool in_out = node.attributes.weight_in_out;
    Matrix y = matrix(x.rows, in_out ? w.width : w.rows);
    for (std::size_t r = 0; r < y.rows; ++r)
      for (std::size_t o = 0; o < y.width; ++o) {
        double sum = node.inputs.size() > 2 ? in(node, 2).values[o] : 0;
        for (std::size_t i = 0; i < x.width; ++i)
          sum += x.at(r, i) * (in_out ? w.at(i, o) : w.at(o, i));
        y.at(r, o) = sum;
      }
    return y;
  }

  // Excludes the experts of all but the best groups. The score of a group is the sum of its two
  // best experts, or that of its best one.
  static void leave_other_groups(Values& ranks, const Attributes& a) {
    const std::size_t size = ranks.size() / a.expert_groups;
    std::vector<std::pair<double, std::size_t>> groups;
    for (std::size_t g = 0; std::cmp_less(g, a.expert_groups); ++g) {
      const auto first = ranks.begin() + std::ptrdiff_t(g * size);
      Values of_group(first, first + std::ptrdiff_t(size));
      std::sort(of_group.rbegin(), of_group.rend());
      groups.emplace_back(of_group[0] + (a.groups_by_two && size > 1 ? of_group[1] : 0), g);
    }
    std::sort(groups.rbegin(), groups.rend());
    for (std::size_t i = a.groups_per_token; i < groups.size(); ++i)
      for (std::size_t e = 0; e < size; ++e) ranks[groups[i].second * size + e] = -1e9;
  }

  // Chooses the experts with the k largest scores of a row one by one, in the groups that
  // leave_other_groups() leaves. Counts how many times a sequence has chosen each expert, also
  // those for which the expert has no slot.
  void route(const Node& node) {
    const Attributes& a = node.attributes;
    const Matrix& logits = in(node, 0);
    const std::size_t s = a.sequence_length, batch = a.micro_batch;
    Matrix& weights = values_[node.outputs[0]] = matrix(logits.rows, a.experts_per_token);
    Matrix& slots = values_[node.outputs[1]] = matrix(logits.rows, a.experts_per_token);
    Matrix& balance = values_[node.outputs[2]] = matrix(batch, 1);
    for (std::size_t b = 0; b < batch; ++b) {
      Values tokens(logits.width), mean(logits.width);
      for (std::size_t r = b * s; r < (b + 1) * s; ++r) {
        Values p;
        double sum = 0, chosen = 0;
        for (std::size_t e = 0; e < logits.width; ++e) p.push_back(std::exp(logits.at(r, e)));
        for (double each : p) sum += each;
        for (double& each : p) each = a.sigmoid_scores ? each / (1 + each) : each / sum;
        for (std::size_t e = 0; e < p.size(); ++e) mean[e] += p[e] / double(s);
        Values ranks = p;
        for (std::size_t e = 0; e < p.size() && node.inputs.size() > 1; ++e)
          ranks[e] += in(node, 1).values[e];
        leave_other_groups(ranks, a);
        for (std::size_t j = 0; j < slots.width; ++j) {
          const std::size_t e =
              std::size_t(std::max_element(ranks.begin(), ranks.end()) - ranks.begin());
          const double first = double((e * batch + b) * a.expert_capacity);
          slots.at(r, j) = tokens[e] < a.expert_capacity ? first + tokens[e] : -1 - double(e);
          tokens[e] += 1;
          weights.at(r, j) = p[e];
          chosen += p[e];
          ranks[e] = -1e9;
        }
        for (std::size_t j = 0; j < slots.width; ++j)
          weights.at(r, j) *= a.expert_weight_scale / (a.weights_of_all ? 1 : chosen);
      }
      for (std::size_t e = 0; e < mean.size(); ++e)
        balance.values[b] += a.balance * double(mean.size()) * tokens[e] / double(s) * mean[e];
    }
  }

  static Matrix dispatch(const Matrix& x, const Matrix& slots, const Attributes& a) {
    Matrix y = matrix(a.experts * a.micro_batch * a.expert_capacity, x.width);
    for (std::size_t r = 0; r < x.rows; ++r)
      for (std::size_t j = 0; j < slots.width; ++j)
        for (std::size_t c = 0; c < x.width && slots.at(r, j) >= 0; ++c)
          y.at(std::size_t(slots.at(r, j)), c) = x.at(r, c);
    return y;
  }

  // Multiplies each row of x by its expert's matrix. w has the matrices of all experts, one below
  // the other.
  Matrix expert_linear(const Node& node) const {
    const Matrix &x = in(node, 0), &w = in(node, 1);
    const std::size_t experts = node.attributes.experts, width = w.rows / experts;
    Matrix y = matrix(x.rows, width);
    for (std::size_t r = 0; r < y.rows; ++r)
      for (std::size_t o = 0; o < width; ++o)
        for (std::size_t i = 0; i < x.width; ++i)
          y.at(r, o) += x.at(r, i) * w.at(r / (x.rows / experts) * width + o, i);
    return y;
  }

  static Matrix combine(const Matrix& x, const Matrix& weights, const Matrix& slots) {
    Matrix y = matrix(weights.rows, x.width);
    for (std::size_t r = 0; r < y.rows; ++r)
      for (std::size_t j = 0; j < slots.width; ++j)
        for (std::size_t c = 0; c < x.width && slots.at(r, j) >= 0; ++c)
          y.at(r, c) += weights.at(r, j) * x.at(std::size_t(slots.at(r, j)), c);
    return y;
  }

  // Scales a frequency by Llama 3's rule: wave lengths above original / low become longer by
  // `factor`, those below original / high stay. If `original` is 0, all become longer.
  static double scaled(double frequency, const Attributes& a) {
    const double slow = frequency / a.rotary_factor;
    if (a.rotary_original == 0) return slow;
    const double length = 2 * std::acos(-1.0) / frequency, original = a.rotary_original;
    if (length > original / a.rotary_low) return slow;
    if (length < original / a.rotary_high) return frequency;
    const double part = (original / length - a.rotary_low) / (a.rotary_high - a.rotary_low);
    return slow + part * (frequency - slow);
  }

  // Scales a frequency by YaRN (Peng et al.): pairs are blended by their index, between the pair
  // that turns rotary_high times over the original length and the pair that turns rotary_low times.
  static double scaled_by_yarn(std::size_t pair, const Attributes& a) {
    const double dim = a.rotary_dim, pi = std::acos(-1.0);
    const double frequency = std::pow(a.rotary_base, -2.0 * double(pair) / dim);
    const auto place = [&](double turns) {
      return dim * std::log(a.rotary_original / (turns * 2 * pi)) / (2 * std::log(a.rotary_base));
    };
    double low = place(a.rotary_high), high = place(a.rotary_low);
    if (a.rotary_truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, dim - 1);
    if (low == high) high += 0.001;
    const double slower = std::min(std::max((double(pair) - low) / (high - low), 0.0), 1.0);
    return frequency / a.rotary_factor * slower + frequency * (1 - slower);
  }

  // Turns pairs of one head, which starts at column `first`, by position * base^(-2i/rotary_dim).
  static void turn(Matrix& x, std::size_t row, std::size_t first, const Attributes& a) {
    const std::size_t half = a.rotary_dim / 2;
    const auto position = static_cast<double>(row % a.sequence_length);
    for (std::size_t i = 0; i < half; ++i) {
      const double frequency = std::pow(
          a.rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(a.rotary_dim));
      const double angle = position * (a.rotary_yarn ? scaled_by_yarn(i, a) : scaled(frequency, a));
      double& p = x.at(row, first + (a.rotary_interleaved ? 2 * i : i));
      double& q = x.at(row, first + (a.rotary_interleaved ? 2 * i + 1 : i + half));
      const double turned = p * std::cos(angle) - q * std::sin(angle);
      q = q * std::cos(angle) + p * std::sin(angle);
      p = turned;
    }
  }

  // Multiplies queries by their temperature, which is 1 for the first positions.
  static Matrix tempered(Matrix x, const Attributes& a) {
    for (std::size_t r = 0; r < x.rows; ++r) {
      const std::size_t steps = (r % a.sequence_length + 1) / a.temperature_floor;
      for (std::size_t c = 0; c < x.width; ++c)
        x.at(r, c) *= 1 + a.temperature * std::log(1 + static_cast<double>(steps));
    }
    return x;
  }

  static Matrix rope(Matrix x, const Attributes& a) {
    const std::size_t width = a.head_dim;
    for (std::size_t r = 0; r < x.rows; ++r)
      for (std::size_t slot = 0; slot < x.width / width; ++slot) {
        const bool is_value = a.packing == Packing::per_head ? slot % 3 == 2
                              : a.packing == Packing::concatenated
                                  ? std::cmp_greater_equal(slot, a.heads + a.kv_heads)
                                  : false;
        if (!is_value) turn(x, r, slot * width, a);
      }
    return x;
  }

  static Matrix concat_heads(const Matrix& x, const Matrix& turned, const Attributes& a) {
    const std::size_t width = a.head_dim, of_turned = a.rotary_dim;
    const std::size_t other = width - of_turned;
    Matrix y = matrix(x.rows, a.heads * width);
    for (std::size_t r = 0; r < y.rows; ++r)
      for (std::size_t h = 0; std::cmp_less(h, a.heads); ++h)
        for (std::size_t c = 0; c < width; ++c)
          y.at(r, h * width + c) = c < other ? x.at(r, h * other + c)
                                             : turned.at(r, h % a.kv_heads * of_turned + c - other);
    return y;
  }

  // Returns the query (kind 0), key (1) or value (2) of a row and a head.
  const double* vector_of(const Node& node, int kind, std::size_t row, std::size_t head) const {
    const Attributes& a = node.attributes;
    const std::size_t width = a.head_dim;
    if (a.packing == Packing::separate)
      return &in(node, kind).values[0] + row * in(node, kind).width +
             head * (kind == 2 ? static_cast<std::size_t>(value_dim_of(a)) : width);
    const std::size_t before[] = {0, std::size_t(a.heads), std::size_t(a.heads + a.kv_heads)};
    const std::size_t slot = a.packing == Packing::per_head ? 3 * head + kind : before[kind] + head;
    return in(node, 0).values.data() + row * in(node, 0).width + slot * width;
  }

  // Returns ALiBi's slope (Press et al.): 2^(-8i/n) for n heads if n is a power of two. For other
  // n, the remaining heads take every other slope of the next power of two.
  static double alibi_slope(std::size_t head, std::size_t heads) {
    std::size_t power = 1;
    while (power * 2 <= heads) power *= 2;
    const double step = 8.0 / static_cast<double>(power);
    if (head < power) return std::exp2(-step * static_cast<double>(head + 1));
    return std::exp2(-step / 2 * static_cast<double>(2 * (head - power) + 1));
  }

  // Returns T5's bucket (Raffel et al.): half of the buckets for one direction hold one distance
  // each, the others reach up to relative_distance in equal ratios.
  static std::size_t relative_bucket(const Attributes& a, std::size_t query, std::size_t key) {
    const std::size_t both = a.relative_buckets, n = a.causal ? both : both / 2;
    const bool later = key > query;
    if (later && a.causal) return 0;
    const std::size_t away = later ? key - query : query - key, exact = n / 2;
    std::size_t bucket = away;
    if (away >= exact) {
      const double ratio = std::log(double(a.relative_distance) / double(exact));
      bucket =
          exact + std::size_t(std::log(double(away) / double(exact)) / ratio * double(n - exact));
    }
    return std::min(bucket, n - 1) + (later ? n : 0);
  }

  Matrix attention(const Node& node) const {
    const Attributes& a = node.attributes;
    const std::size_t width = a.head_dim, heads = a.heads, s = a.sequence_length;
    const std::size_t out = value_dim_of(a);
    Matrix y = matrix(in(node, 0).rows, heads * out);
    for (std::size_t r = 0; r < y.rows; ++r)
      for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t kv = h / (heads / a.kv_heads), begin = r - r % s;
        const std::size_t last = a.causal ? r : begin + s - 1;
        std::size_t first =
            a.window > 0
                ? std::max(begin, r + 1 - std::min(r + 1, static_cast<std::size_t>(a.window)))
                : begin;
        if (a.chunk > 0) first = r - (r - begin) % a.chunk;
        double sum = a.sinks ? std::exp(in(node, 3).values[h]) : 0;
        for (std::size_t k = first; k <= last; ++k) {
          if (a.documents && value(graph_.documents).values[k] != value(graph_.documents).values[r])
            continue;
          double score = 0;
          for (std::size_t i = 0; i < width; ++i)
            score += vector_of(node, 0, r, h)[i] * vector_of(node, 1, k, kv)[i];
          const int divisor = a.score_width > 0 ? a.score_width : a.head_dim;
          if (a.scaled_scores) score *= a.score_factor / std::sqrt(static_cast<double>(divisor));
          if (a.score_cap > 0) score = a.score_cap * std::tanh(score / a.score_cap);
          if (a.relative_buckets > 0) score += in(node, 3).at(relative_bucket(a, r, k), h);
          if (a.alibi) score -= alibi_slope(h, a.alibi_heads) * static_cast<double>(r - k);
          const double weight = std::exp(score);
          sum += weight;
          for (std::size_t i = 0; i < out; ++i)
            y.at(r, h * out + i) += weight * vector_of(node, 2, k, kv)[i];
        }
        for (std::size_t i = 0; i < out; ++i) y.at(r, h * out + i) /= sum;
      }
    return y;
  }

  static double gelu(double x, bool by_tanh) {
    if (!by_tanh) return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    const double pi = std::acos(-1.0);
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
  }

  static Matrix cross_entropy(const Matrix& logits, const Matrix& targets) {
    Matrix loss = matrix(logits.rows, 1);
    for (std::size_t r = 0; r < logits.rows; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < logits.width; ++c) sum += std::exp(logits.at(r, c));
      loss.values[r] = std::log(sum) - logits.at(r, static_cast<std::size_t>(targets.values[r]));
    }
    return loss;
  }

  // Returns the losses of the start and the end of an answer. Each is a softmax over the positions
  // of a sequence.
  static Matrix span_loss(const Matrix& logits, const Matrix& targets, const Attributes& a) {
    const std::size_t s = a.sequence_length;
    Matrix scores = matrix(targets.rows * 2, s);
    for (std::size_t r = 0; r < scores.rows; ++r)
      for (std::size_t c = 0; c < s; ++c) scores.at(r, c) = logits.at(r / 2 * s + c, r % 2);
    return cross_entropy(scores, {scores.rows, 1, targets.values});
  }

  const Graph& graph_;
  std::vector<Matrix> values_;
};

Training training_of(const Golden& golden) {
  Training training;
  const auto& shape = golden.tensor("tokens").shape;
  training.micro_batch = static_cast<int>(shape[0]);
  training.sequence_length = static_cast<int>(shape[1]);
  if (golden.has("positions"))
    training.predicted_positions = static_cast<int>(golden.tensor("positions").shape[1]);
  return training;
}

}  // namespace

TEST_CASE("the graphs mean what transformers computes", "[models][importers][golden]") {
  const auto folders = golden_folders();
  CHECK(folders.size() >= 10);
  for (const std::string& folder : folders) {
    CAPTURE(folder);
    const Golden golden = load_golden(folder);
    const Graph graph = build_graph(load_model(folder, "/"), training_of(golden));
    verify(graph, "build_graph");
    std::set<std::string> published;
    for (const Parameter& p : graph.parameters) {
      published.insert(published_name(p));
      CHECK(sizes_of(p.global_shape) == golden_of(golden, "weight/", p).shape);
    }
    CHECK(published.size() == golden.parameters().size());

    Interpreter interpreter(graph, golden);
    interpreter.run();
    const Matrix& logits = interpreter.value(graph.nodes.back().inputs[0]);
    const auto& expected = golden.tensor("logits").values;
    REQUIRE(logits.values.size() == expected.size());
    double difference = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      difference = std::max(difference, std::abs(logits.values[i] - double{expected[i]}));
    CHECK(difference < 2e-5);  // logits are a few units large and stored in fp32
    double loss = 0;
    for (double value : interpreter.value(graph.loss).values) loss += value;
    for (const Node& node : graph.nodes)  // experts are balanced
      if (node.op == Op::route)
        for (double value : interpreter.value(node.outputs[2]).values) loss += value;
    loss /= static_cast<double>(interpreter.value(graph.loss).values.size());
    CHECK(std::abs(loss - double{golden.tensor("loss").values[0]}) < 2e-6);
  }
}
