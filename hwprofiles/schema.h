// The profile of a machine as a JSON Schema (2020-12), made of the rows that the reader reads by
// (blocks.h).
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace meshwright {

// Whatever machine_of_text takes is valid, and so are profiles that leave fields to their parts.
// What joins several fields is the reader's alone: it refuses more.
nlohmann::json profile_schema();

}  // namespace meshwright
