// Holds values of the steps of a run of any length in bounded memory. Whenever 8192 values are
// held, every second one is dropped, and from then on half as many are added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace meshwright::session {

class StepValues {
 public:
  static constexpr std::size_t most = 8192;

  void add(std::int64_t step, double value) {
    if (values_.empty()) {
      first_ = step;
      values_.reserve(most);
    }
    last_ = step;
    if ((step - first_) % stride_ != 0) return;
    if (values_.size() == most) {
      for (std::size_t i = 0; i < most / 2; ++i) values_[i] = values_[2 * i];
      values_.resize(most / 2);
      stride_ *= 2;
    }
    values_.push_back(value);
  }

  void scale(double factor) {
    for (double& value : values_) value *= factor;
  }

  bool empty() const { return values_.empty(); }
  const std::vector<double>& values() const { return values_; }  // equally many steps apart
  std::int64_t first() const { return first_; }                  // step of the first value
  std::int64_t last() const { return last_; }

 private:
  std::vector<double> values_;
  std::int64_t first_ = 0, last_ = 0, stride_ = 1;
};

}  // namespace meshwright::session
