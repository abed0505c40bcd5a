// `schema`: the job file as a JSON Schema.
#include "models/job/schema.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/commands/commands.h"

namespace meshwright {

namespace {

int run_schema(const Options&) {
  std::printf("%s\n", job_schema().dump(2).c_str());
  return done;
}

}  // namespace

const Command schema_command = {
    "schema",
    "",
    "",
    "the job file as a JSON Schema (2020-12), for editors",
    "",
    run_schema,
    "Prints the JSON Schema (2020-12) of the job file, made of the rows that the reader reads by. "
    "Editors that know it offer keys and mark mistakes: `meshwright schema > job.schema.json`, and "
    "`\"$schema\": \"job.schema.json\"` in the job."};

}  // namespace meshwright
