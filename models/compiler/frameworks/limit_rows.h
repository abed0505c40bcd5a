// Rows of limits by which a key of the plan has one value only, in the table of each framework.
#pragma once

#include "models/compiler/frameworks/framework.h"

namespace meshwright::compiler {

// Returns the field of the plan that `member` points to, in its parallelism or in its training.
template <auto member>
constexpr auto& field_of(auto& plan) {
  if constexpr (requires { plan.parallelism.*member; })
    return plan.parallelism.*member;
  else
    return plan.training.*member;
}

// Returns the limit that `member` is `value`. `key` and `why` are those of Limit.
template <auto member, auto value>
constexpr Limit only(std::string_view key, std::string_view why) {
  return {key, why, [](const Plan& plan, const Model&) { return field_of<member>(plan) == value; },
          [](Plan& plan, const Model&) { field_of<member>(plan) = value; }};
}

}  // namespace meshwright::compiler
