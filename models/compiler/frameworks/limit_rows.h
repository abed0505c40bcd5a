// Makes rows for the tables of limits: those by which a key of the plan has one value only.
#pragma once

#include <type_traits>

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

constexpr bool is_no_exception(const Plan&) { return false; }

// Returns the limit that `member` is `value`, except in plans that are exceptions. `key` and `why`
// are those of Limit.
template <auto member, auto value, auto is_exception = is_no_exception>
constexpr Limit only(std::string_view key, std::string_view why) {
  return {key, why,
          [](const Plan& plan, const Model&) {
            return is_exception(plan) || field_of<member>(plan) == value;
          },
          [](Plan& plan, const Model&) { field_of<member>(plan) = value; }};
}

// Returns the limit that `member` is unset: no value, or an empty list.
template <auto member>
constexpr Limit unset(std::string_view key, std::string_view why) {
  return {key, why,
          [](const Plan& plan, const Model&) {
            return field_of<member>(plan) ==
                   std::remove_cvref_t<decltype(field_of<member>(plan))>();
          },
          [](Plan& plan, const Model&) { field_of<member>(plan) = {}; }};
}

}  // namespace meshwright::compiler
