// Finds out which framework ran the training steps that a public repository publishes.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/program/framework.h"

namespace meshwright::sim {

// Returns the framework of a known repository that `where` names, or Framework::meshwright if it
// names none. `where` is the text that says where a source is public. Code bases with kernels of
// their own are not known.
Framework framework_of_source(std::string_view where);

// How a repository's code keeps weights and moments when it trains in bf16.
enum class StatesOfSource : std::uint8_t {
  full,                  // in fp32, unless a row says something else
  in_16_bits,            // in bf16, unless a row says something else, as torchtune with dtype bf16
  in_16_bits_if_assumed  // in bf16 in rows whose `assumed` has training.master_weights
};

// Returns how the known repository in `where` keeps states, or `full` if `where` names none.
StatesOfSource states_of_source(std::string_view where);

}  // namespace meshwright::sim
