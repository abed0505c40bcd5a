// Makes the JSON Schema (2020-12) of the job file from the rows of its keys (keys.h). Editors use
// it to offer keys and to mark mistakes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/core/rooms.h"

namespace meshwright::job {

// Returns the schema. Every job that read_job() accepts is valid. The reader rejects more jobs,
// because the schema does not have rules between keys, or rules that need code.
nlohmann::json job_schema();

}  // namespace meshwright::job
