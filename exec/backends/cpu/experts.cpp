// Experts: which expert takes which token, and the matmuls over the experts' slots
// (models/program/graph/experts.h).
#include "models/program/graph/experts.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "exec/backends/cpu/tables.h"
#include "exec/backends/cpu/widened.h"

namespace meshwright::exec::cpu {

namespace {

using OfExperts = std::array<double, most_experts>;

// Writes the softmax of one row of logits to p, computed in fp64.
template <typename T>
void probabilities_of(const T* logits, int experts, OfExperts& p) {
  double largest = static_cast<double>(logits[0]), sum = 0;
  for (int e = 1; e < experts; ++e) largest = std::max(largest, static_cast<double>(logits[e]));
  for (int e = 0; e < experts; ++e) {
    p[e] = std::exp(static_cast<double>(logits[e]) - largest);
    sum += p[e];
  }
  for (int e = 0; e < experts; ++e) p[e] /= sum;
}

template <typename T>
void scores_of(const T* logits, const Attributes& a, OfExperts& p) {
  if (!a.sigmoid_scores) return probabilities_of(logits, a.experts, p);
  for (int e = 0; e < a.experts; ++e) p[e] = 1 / (1 + std::exp(-static_cast<double>(logits[e])));
}

using Taken = std::array<bool, most_experts>;

// Returns the expert in [begin, end) with the highest rank that is not taken, or -1 if all are
// taken. If several have the same rank, returns the first.
template <typename T>
int best_of(const T* ranks, int begin, int end, const Taken& taken) {
  int best = -1;
  for (int e = begin; e < end; ++e)
    if (!taken[e] && (best < 0 || ranks[e] > ranks[best])) best = e;
  return best;
}

// Marks the experts of all groups as taken, except those of the best groups_per_token groups. A
// group counts by its best expert, or by the sum of its two best (groups_by_two).
void take_other_groups(const OfExperts& ranks, const Attributes& a, Taken& taken) {
  const int size = a.experts / a.expert_groups;
  OfExperts of_group{};
  for (int g = 0; g < a.expert_groups; ++g) {
    Taken seen{};
    double& sum = of_group[g];
    for (int i = 0; i < (a.groups_by_two ? std::min(2, size) : 1); ++i) {
      const auto best =
          static_cast<std::size_t>(best_of(ranks.data(), g * size, (g + 1) * size, seen));
      seen[best] = true;
      sum += ranks[best];
    }
  }
  Taken kept{};
  for (int i = 0; i < a.groups_per_token; ++i)
    kept[best_of(of_group.data(), 0, a.expert_groups, kept)] = true;
  for (int e = 0; e < a.experts; ++e) taken[e] = !kept[e / size];
}

// For dropless routing: replaces each choice, given as -1 - expert, by a row of that expert in the
// order of tokens, and counts the rows of each expert. A choice that finds no row stays negative.
// If overflow is an error, the balancing loss of its sequence becomes NaN.
template <typename T>
void place_in_rows(const Attributes& a, std::int32_t* slots, std::int32_t* counts, T* balance) {
  const std::int64_t of_sequence = std::int64_t{a.sequence_length} * a.experts_per_token;
  const std::int64_t choices = of_sequence * a.micro_batch;
  std::fill_n(counts, a.experts, 0);
  for (std::int64_t i = 0; i < choices; ++i) ++counts[-1 - slots[i]];
  const int of_part = a.experts / a.expert_parts;
  for (int e = 0; e < a.experts; e += of_part) {
    std::int64_t room = a.expert_rows;
    for (int own = e; own < e + of_part; ++own) {
      counts[own] = static_cast<std::int32_t>(std::min<std::int64_t>(counts[own], room));
      room -= counts[own];
    }
  }
  const ExpertRows rows(a, counts);
  std::array<std::int64_t, most_experts> taken{};
  for (std::int64_t i = 0; i < choices; ++i) {
    const auto e = static_cast<std::size_t>(-1 - slots[i]);
    const std::int64_t place = taken[e]++;
    if (place < rows.count[e])
      slots[i] = static_cast<std::int32_t>(rows.begin[e] + place);
    else if (a.overflow_is_error)
      balance[i / of_sequence] = std::numeric_limits<T>::quiet_NaN();
  }
}

std::int64_t rows_of_sequence(const KernelCall& k) { return k.attributes().sequence_length; }

}  // namespace

// Routes tokens to experts. A sequence is one piece of work, because an expert's slots are taken in
// the order of positions.
template <typename T>
void route(const KernelCall& k) {
  const Attributes a = k.attributes();
  const std::int64_t s = rows_of_sequence(k), experts = a.experts, chosen = a.experts_per_token;
  const T* logits = k.in<T>(0);
  const T* bias = k.call.inputs.size() > 1 ? k.in<T>(1) : nullptr;
  T* weights = k.out<T>(0);
  auto* slots = k.out<std::int32_t>(1);
  T* balance = k.out<T>(2);
  const bool by_logits = ranks_by_logits(k.call);
  parallel_for(k.pool, a.micro_batch, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::array<std::int32_t, most_experts> takers{};
      OfExperts p{}, sum{}, ranks{};
      for (std::int64_t r = b * s; r < (b + 1) * s; ++r) {
        const T* row = logits + r * experts;
        scores_of(row, a, p);
        for (std::size_t e = 0; e < static_cast<std::size_t>(experts); ++e) {
          sum[e] += p[e];
          ranks[e] = by_logits ? static_cast<double>(row[e])
                               : p[e] + (bias == nullptr ? 0.0 : static_cast<double>(bias[e]));
        }
        Taken taken{};
        if (a.expert_groups > 1) take_other_groups(ranks, a, taken);
        double whole = 0;
        for (std::int64_t j = 0; j < chosen; ++j) {
          const int expert = best_of(ranks.data(), 0, a.experts, taken);
          const auto e = static_cast<std::size_t>(expert);
          taken[e] = true;
          whole += p[e];
          const std::int32_t place = takers[e]++;
          weights[r * chosen + j] = static_cast<T>(p[e]);
          slots[r * chosen + j] =
              !is_dropless(a) && place < a.expert_capacity
                  ? static_cast<std::int32_t>((expert * a.micro_batch + b) * a.expert_capacity +
                                              place)
                  : -1 - expert;
        }
        const double scale = a.expert_weight_scale / (a.weights_of_all ? 1.0 : whole);
        for (std::int64_t j = 0; j < chosen && scale != 1; ++j)
          weights[r * chosen + j] =
              static_cast<T>(static_cast<double>(weights[r * chosen + j]) * scale);
      }
      double product = 0;
      const double tokens = static_cast<double>(s);
      for (std::size_t e = 0; e < static_cast<std::size_t>(experts); ++e)
        product += takers[e] / tokens * (sum[e] / tokens);
      balance[b] = static_cast<T>(a.balance * static_cast<double>(experts) * product);
    }
  });
  if (is_dropless(a)) place_in_rows(a, slots, k.out<std::int32_t>(3), balance);
}

namespace {

// Maps slots to experts, also for dropless routing, where experts have no fixed number of rows.
struct Slots {
  const Attributes& a;
  ExpertRows rows;
  explicit Slots(const KernelCall& k) : a(k.attributes()), rows(k.attributes(), counts_of(k)) {}
  std::size_t expert_of(std::int32_t slot) const {
    return static_cast<std::size_t>(is_dropless(a) ? rows.expert_of(a, slot)
                                                   : expert_of_slot(a, slot));
  }

 private:
  static const std::int32_t* counts_of(const KernelCall& k) {
    static constexpr std::array<std::int32_t, most_experts> none{};
    return is_dropless(k.attributes()) ? k.in<std::int32_t>(3) : none.data();
  }
};

}  // namespace

// Computes the gradients of the router's logits. For each token, p are the probabilities, w the
// weights before expert_weight_scale and dw their gradients. With E experts, s tokens in a
// sequence, and c = scale * balance * E * (tokens that chose each expert / s) / s for each expert:
//   dlogits = w (dw - w.dw) on the chosen experts + p (c - p.c).
// If weights are shares of all experts, w = p, dw = 0 on the others, and the first part is on all
// of them. For sigmoid scores there is no second part, and the first one is multiplied by 1 - p. If
// the weights of sigmoid scores are the scores themselves, it is w dw (1 - p) on the chosen
// experts.
template <typename T>
void route_grad(const KernelCall& k) {
  const Attributes a = k.attributes();
  const std::int64_t s = rows_of_sequence(k), experts = a.experts, chosen = a.experts_per_token;
  const T* logits = k.in<T>(0);
  const auto* slots = k.in<std::int32_t>(1);
  const T* dweights = k.in<T>(2);
  T* dlogits = k.out<T>(0);
  const std::size_t scale_at = is_dropless(a) ? 4 : 3;
  const double loss_scale =
      k.call.inputs.size() > scale_at ? static_cast<double>(k.in<float>(scale_at)[0]) : 1.0;
  const Slots meaning(k);
  const double tokens = static_cast<double>(s);
  const double factor =
      a.scale * loss_scale * a.balance * static_cast<double>(experts) / (tokens * tokens);
  parallel_for(k.pool, a.micro_batch, 1, [=, &meaning](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      OfExperts p{}, c{};
      for (std::int64_t i = b * s * chosen; i < (b + 1) * s * chosen; ++i)
        c[meaning.expert_of(slots[i])] += factor;
      for (std::int64_t r = b * s; r < (b + 1) * s; ++r) {
        scores_of(logits + r * experts, a, p);
        double balanced = 0, whole = 0, along = 0;
        for (std::size_t e = 0; e < static_cast<std::size_t>(experts); ++e) balanced += p[e] * c[e];
        const auto expert = [&](std::int64_t j) {
          return meaning.expert_of(slots[r * chosen + j]);
        };
        const auto dw = [&](std::int64_t j) {
          return a.expert_weight_scale * static_cast<double>(dweights[r * chosen + j]);
        };
        for (std::int64_t j = 0; j < chosen; ++j) whole += p[expert(j)];
        if (a.weights_of_all) whole = 1;
        for (std::int64_t j = 0; j < chosen; ++j) along += p[expert(j)] / whole * dw(j);
        OfExperts d{};
        for (std::size_t e = 0; e < static_cast<std::size_t>(experts) && !a.sigmoid_scores; ++e)
          d[e] = p[e] * (c[e] - balanced - (a.weights_of_all ? along : 0));
        for (std::int64_t j = 0; j < chosen; ++j)
          d[expert(j)] += p[expert(j)] / whole * (dw(j) - (a.weights_of_all ? 0 : along)) *
                          (a.sigmoid_scores ? 1 - p[expert(j)] : 1);
        for (std::int64_t e = 0; e < experts; ++e) dlogits[r * experts + e] = static_cast<T>(d[e]);
      }
    }
  });
}

// Adds to each expert's counter the number of tokens that chose it, dropped or not. A choice that
// found no room has the slot -1 - expert. If routing is dropless, the second input counts the
// choices that found room.
void count_choices(const KernelCall& k) {
  const Attributes a = k.attributes();
  const auto* slots = k.in<std::int32_t>(0);
  std::array<std::int64_t, most_experts> found{};
  for (std::int64_t i = 0; i < k.in_shape(0).elements(); ++i)
    if (!is_dropless(a) || slots[i] < 0)
      ++found[slots[i] < 0 ? -1 - slots[i] : expert_of_slot(a, slots[i])];
  auto* counts = k.out<double>(0);
  for (int e = 0; e < a.experts; ++e) {
    const std::int32_t placed = is_dropless(a) ? k.in<std::int32_t>(1)[e] : 0;
    counts[e] += static_cast<double>(found[e] + placed);
  }
}

template <typename T>
void dispatch(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(0)[0], h = k.in_shape(0)[1], slots = k.out_shape(0)[0];
  const std::int64_t chosen = k.in_shape(1)[1];
  const T* x = k.in<T>(0);
  const auto* slot = k.in<std::int32_t>(1);
  T* y = k.out<T>(0);
  parallel_for(k.pool, slots, rows_per_piece(h), [=](std::int64_t begin, std::int64_t end) {
    std::fill(y + begin * h, y + end * h, T(0));
  });
  parallel_for(k.pool, rows, rows_per_piece(h * chosen), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * chosen; i < end * chosen; ++i)
      if (slot[i] >= 0) std::copy_n(x + i / chosen * h, h, y + slot[i] * h);
  });
}

namespace {

// Writes for each token the sum of the values in its slots. A choice without a slot (negative) adds
// nothing.
template <typename T>
void sum_slots(const KernelCall& k, std::size_t values, std::size_t slots) {
  const std::int64_t rows = k.in_shape(slots)[0], chosen = k.in_shape(slots)[1];
  const std::int64_t h = k.in_shape(values)[1];
  const auto* slot = k.in<std::int32_t>(slots);
  const T* from_slots = k.in<T>(values);
  T* y = k.out<T>(0);
  parallel_for(k.pool, rows, rows_per_piece(h * chosen), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::fill_n(y + r * h, h, T(0));
      for (std::int64_t i = r * chosen; i < (r + 1) * chosen; ++i) {
        if (slot[i] < 0) continue;
        const T* from = from_slots + slot[i] * h;
#pragma omp simd
        for (std::int64_t c = 0; c < h; ++c) y[r * h + c] += from[c];
      }
    }
  });
}

}  // namespace

template <typename T>
void dispatch_grad(const KernelCall& k) {
  sum_slots<T>(k, 1, 0);
}

template <typename T>
void combine(const KernelCall& k) {
  if (k.call.inputs.size() == 2) return sum_slots<T>(k, 0, 1);
  const std::int64_t rows = k.in_shape(1)[0], chosen = k.in_shape(1)[1], h = k.in_shape(0)[1];
  const T* y = k.in<T>(0);
  const T* weights = k.in<T>(1);
  const auto* slot = k.in<std::int32_t>(2);
  T* z = k.out<T>(0);
  parallel_for(k.pool, rows, rows_per_piece(h * chosen), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::fill_n(z + r * h, h, T(0));
      for (std::int64_t i = r * chosen; i < (r + 1) * chosen; ++i) {
        if (slot[i] < 0) continue;
        const T* from = y + slot[i] * h;
        const T weight = weights[i];
#pragma omp simd
        for (std::int64_t c = 0; c < h; ++c) z[r * h + c] += weight * from[c];
      }
    }
  });
}

template <typename T>
void combine_grad(const KernelCall& k) {
  const std::int64_t rows = k.in_shape(1)[0], chosen = k.in_shape(1)[1], h = k.in_shape(0)[1];
  const T* y = k.in<T>(0);
  const T* weights = k.in<T>(1);
  const auto* slot = k.in<std::int32_t>(2);
  const T* dz = k.in<T>(3);
  T* dy = k.out<T>(0);
  T* dweights = k.out<T>(1);
  parallel_for(
      k.pool, k.out_shape(0)[0], rows_per_piece(h),
      [=](std::int64_t begin, std::int64_t end) { std::fill(dy + begin * h, dy + end * h, T(0)); });
  parallel_for(k.pool, rows, rows_per_piece(h * chosen), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * chosen; i < end * chosen; ++i) {
      dweights[i] = 0;
      if (slot[i] < 0) continue;
      const T* of_token = dz + i / chosen * h;
      const T* from = y + slot[i] * h;
      T* to = dy + slot[i] * h;
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < h; ++c) {
        to[c] = weights[i] * of_token[c];
        sum += from[c] * of_token[c];
      }
      dweights[i] = sum;
    }
  });
}

namespace {

// Runs the kernel `one` for each group, which has as many rows as its count says. In an output with
// a row for each slot, rows of no group become 0.
void for_each_counted_group(const KernelCall& k, Kernel one) {
  const ExpertProduct product = expert_product_of(k.call);
  const ExpertRows rows(k.attributes(), k.in<std::int32_t>(2));
  const bool of_experts = k.call.outputs[0].shape.rank == 3;
  if (!of_experts) std::memset(k.operands.outputs[0], 0, k.call.outputs[0].bytes());
  for (std::int64_t group = 0; group < product.groups; ++group) {
    const std::int64_t begin = rows.begin[group];
    const std::int64_t count = rows.count[group];
    const std::int64_t matrix = group % product.experts;
    const std::uint32_t overwrites = group < product.experts ? k.call.overwrites : 0;
    std::array<TensorType, 2> types;
    std::array<const void*, 2> in;
    const auto row_of = [&](const TensorType& type, const void* data) {
      const TensorType before{{begin, type.shape[1]}, type.dtype};
      return static_cast<const std::byte*>(data) + before.bytes();
    };
    for (std::size_t i = 0; i < 2; ++i) {
      types[i] = product.inputs()[i];
      const bool is_matrix = k.call.inputs[i].shape.rank == 3;
      if (!is_matrix) types[i].shape[0] = count;
      in[i] = is_matrix
                  ? static_cast<const std::byte*>(k.operands.inputs[i]) + matrix * types[i].bytes()
                  : row_of(types[i], k.operands.inputs[i]);
    }
    TensorType output = product.output;
    auto* data = static_cast<std::byte*>(k.operands.outputs[0]);
    std::array<void*, 1> out{data + matrix * output.bytes()};
    if (!of_experts) {
      out[0] = data + TensorType{{begin, output.shape[1]}, output.dtype}.bytes();
      output.shape[0] = count;
    }
    if (count == 0 && of_experts && overwrites != 0) std::memset(out[0], 0, output.bytes());
    if (count == 0) continue;
    one({{product.op, k.attributes(), types, {&output, 1}, overwrites},
         {in, out},
         k.context,
         k.pool});
  }
}

// Runs the kernel `one` for each group of rows with the matrix of its expert.
void for_each_group(const KernelCall& k, Kernel one) {
  if (is_dropless(k.attributes())) return for_each_counted_group(k, one);
  const ExpertProduct product = expert_product_of(k.call);
  const bool of_experts = k.call.outputs[0].shape.rank == 3;  // a gradient of their weights
  std::array<const void*, ExpertProduct::most_inputs> in;
  const std::size_t inputs = product.inputs().size();
  for (std::int64_t group = 0; group < product.groups; ++group) {
    for (std::size_t i = 0; i < inputs; ++i)
      in[i] = static_cast<const std::byte*>(k.operands.inputs[i]) + product.begin_of(i, group);
    std::array<void*, 1> out{static_cast<std::byte*>(k.operands.outputs[0]) +
                             (of_experts ? group % product.experts : group) *
                                 product.output.bytes()};
    const std::uint32_t overwrites = group < product.experts ? k.call.overwrites : 0;
    one({{product.op, k.attributes(), product.inputs(), {&product.output, 1}, overwrites},
         {{in.data(), inputs}, out},
         k.context,
         k.pool});
  }
}

template <typename T>
Kernel kernel_of(Op op) {
  return std::is_same_v<T, double> ? row_of(op)->f64 : row_of(op)->f32;
}

}  // namespace

template <typename T>
void expert_linear(const KernelCall& k) {
  for_each_group(k, kernel_of<T>(Op::linear));
}

template <typename T>
void expert_linear_grad_input(const KernelCall& k) {
  for_each_group(k, kernel_of<T>(Op::linear_grad_input));
}

template <typename T>
void expert_linear_grad_weight(const KernelCall& k) {
  for_each_group(k, kernel_of<T>(Op::linear_grad_weight));
}

void multiply_experts_widened(const KernelCall& call) { for_each_group(call, multiply_widened); }

constexpr Row rows[] = {
    MESHWRIGHT_CPU_ROW(route),
    MESHWRIGHT_CPU_ROW(route_grad),
    {Op::count_choices, count_choices, count_choices, count_choices},
    MESHWRIGHT_MOVING_ROW(dispatch),
    MESHWRIGHT_CPU_ROW(dispatch_grad),
    MESHWRIGHT_CPU_ROW(combine),
    MESHWRIGHT_CPU_ROW(combine_grad),
    MESHWRIGHT_CPU_ROW(expert_linear),
    MESHWRIGHT_CPU_ROW(expert_linear_grad_input),
    MESHWRIGHT_CPU_ROW(expert_linear_grad_weight),
};

std::span<const Row> experts_rows() { return rows; }

}  // namespace meshwright::exec::cpu
