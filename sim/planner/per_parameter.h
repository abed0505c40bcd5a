// Holds the costs, in bytes and seconds, of the parameters of a rank. With expert groups, experts
// are reduced, sharded and updated among the ranks that hold the same experts. These are fewer than
// the ranks that share all other parameters.
#pragma once

#include <algorithm>

namespace meshwright::sim {

// Numbers of parameters that a rank holds. Without expert groups, experts count among the others.
struct HeldParameters {
  double others = 0, experts = 0;
  double all() const { return others + experts; }
  bool operator==(const HeldParameters&) const = default;
};
inline HeldParameters operator+(const HeldParameters& a, const HeldParameters& b) {
  return {a.others + b.others, a.experts + b.experts};
}
inline HeldParameters operator-(const HeldParameters& a, const HeldParameters& b) {
  return {a.others - b.others, a.experts - b.experts};
}
inline HeldParameters operator*(double times, const HeldParameters& held) {
  return {times * held.others, times * held.experts};
}

// Bytes per parameter.
struct ParameterBytes {
  double others = 0, experts = 0;
  double of(const HeldParameters& held) const {
    return others * held.others + experts * held.experts;
  }
};

// Seconds that parameters take in a step, either for one parameter or for all that a rank holds.
struct ParameterTimes {
  double optimizer = 0;    // of the optimizer step, after the norm of all gradients
  double gather = 0;       // gathers of updated weights, which overlap with the optimizer step
  double finish = 0;       // reductions after the last backward, before the norm
  double hidden_last = 0;  // reductions that the last backward task can hide
  double each_batch = 0;   // collectives in every micro-batch, which overlap with compute
  double reduce_each = 0;  // the reductions among `each_batch`
  double first_batch = 0;  // gathers that only the first micro-batch makes

  double after_norm() const { return std::max(optimizer, gather); }
  double after() const { return finish + after_norm(); }  // seconds after the last backward
  // Returns the seconds that the first forward and the last backward cannot hide.
  double at_the_ends(double forward, double backward) const {
    return std::max(0.0, first_batch - forward) + std::max(0.0, hidden_last - backward);
  }
  // Returns the seconds of communication for all micro-batches that overlaps with compute.
  double in_stream(double batches) const {
    return batches * each_batch + first_batch + hidden_last;
  }
};

// Times per parameter. The times of experts and of the other parameters add up, because one stream
// reduces and gathers all of them.
struct PerParameter {
  ParameterTimes others, experts;
  bool reduces_last() const { return others.hidden_last + experts.hidden_last > 0; }
  ParameterTimes of(const HeldParameters& held) const {
    const auto both = [&](double ParameterTimes::*part) {
      return others.*part * held.others + experts.*part * held.experts;
    };
    return {both(&ParameterTimes::optimizer),  both(&ParameterTimes::gather),
            both(&ParameterTimes::finish),     both(&ParameterTimes::hidden_last),
            both(&ParameterTimes::each_batch), both(&ParameterTimes::reduce_each),
            both(&ParameterTimes::first_batch)};
  }
};

}  // namespace meshwright::sim
