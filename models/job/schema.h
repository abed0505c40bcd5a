// Returns the JSON Schema (2020-12) of the job file, made of the rows that the reader reads by
// (keys.h). Editors use it to offer keys and to mark mistakes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/core/rooms.h"

namespace meshwright::job {

// Returns the schema. Every job that read_job() accepts is valid. The schema does not have rules
// between several keys and values that need code of their own, for which the reader rejects more.
nlohmann::json job_schema();

}  // namespace meshwright::job
