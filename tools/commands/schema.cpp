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
    "schema", "", "", "the job file as a JSON Schema (2020-12), for editors", "", run_schema};

}  // namespace meshwright
