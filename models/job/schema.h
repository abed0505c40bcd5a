// The job file as a JSON Schema (2020-12), made of the rows that the reader reads by (keys.h): for
// editors, which offer keys and mark mistakes.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace meshwright {

// Whatever read_job takes is valid. Rules that join several keys, and values that need code of
// their own, are the reader's alone: it refuses more.
nlohmann::json job_schema();

}  // namespace meshwright
