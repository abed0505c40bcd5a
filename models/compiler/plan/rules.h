// The rules about plans. A rule is a function that returns how a plan breaks it, or nothing. It may
// rely on the rules that broken_rule() (verify.cpp) checks before it.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "models/compiler/plan/plan.h"
#include "models/core/violation.h"

namespace meshwright::compiler {

// Each of these functions checks the rules of one file, and returns the first one that the plan
// breaks, or nothing.
Ruling broken_degree_rule(const Plan& plan, const ModelSizes& model);
Ruling broken_captured_rule(const Plan& plan, const ModelSizes& model);
Ruling broken_training_rule(const Plan& plan, const ModelSizes& model);
Ruling broken_context_rule(const Plan& plan, const ModelSizes& model);
Ruling broken_parallelism_rule(const Plan& plan, const ModelSizes& model);

using PlanRule = Ruling (*)(const Plan& plan, const ModelSizes& model);
Ruling first_broken(std::initializer_list<PlanRule> rules, const Plan& plan,
                    const ModelSizes& model);

// Collects rulings and keeps the first violation. All conditions are evaluated.
class Judge {
 public:
  template <class... Values>
  Judge& refuse_if(bool is_broken, std::string_view key, std::string_view statement,
                   const Values&... values) {
    if (is_broken && !ruling_) ruling_ = broken(key, statement, values...);
    return *this;
  }
  // Reports a request that is legal, but not supported yet.
  template <class... Values>
  Judge& not_yet_if(bool is_asked, std::string_view key, std::string_view what,
                    const Values&... values) {
    if (is_asked && !ruling_)
      ruling_ = unsupported(key, std::string(what) + " is not supported yet", values...);
    return *this;
  }
  // Does the same as refuse_if(), and adds the divisors of `number` as the legal values.
  template <class... Values>
  Judge& choose_divisor_if(bool is_broken, std::int64_t number, std::string_view key,
                           std::string_view statement, const Values&... values) {
    if (is_broken && !ruling_)
      ruling_ = wrong_choice(divisors_of(number), key, statement, values...);
    return *this;
  }
  Judge& at_least(std::string_view key, std::int64_t value, std::int64_t least) {
    return refuse_if(value < least, key, "{} is too small; use {} or more", value, least);
  }
  Judge& above_zero(std::string_view key, double value) {
    return refuse_if(!(value > 0), key, "{} must be above 0", value);
  }
  // Checks that the value is in the range, both ends included.
  Judge& within(std::string_view key, double value, double low, double high) {
    return refuse_if(!(value >= low && value <= high), key, "{} is out of range; use {} to {}",
                     value, low, high);
  }
  // Checks that the value is in the range, which includes `low` but not `high`.
  Judge& below(std::string_view key, double value, double low, double high) {
    return refuse_if(!(value >= low && value < high), key,
                     "{} is out of range; use {} or more and less than {}", value, low, high);
  }
  operator Ruling() { return std::move(ruling_); }

 private:
  Ruling ruling_;
};

}  // namespace meshwright::compiler
