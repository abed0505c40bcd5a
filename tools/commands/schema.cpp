// Runs the command `schema WHAT`, which prints the JSON Schema of the job file, of a machine's
// profile, or of what a command prints with --json.

#include "hwprofiles/schema.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "models/core/names_in.h"
#include "models/job/schema.h"
#include "tools/commands/commands.h"
#include "tools/print.h"
#include "tools/report/answers.h"

namespace meshwright::tools {

namespace {

std::vector<std::string> schemas_known() {
  std::vector<std::string> names = names_in(answer_tables());
  names.insert(names.begin(), {"job", "profile"});
  return names;
}

nlohmann::json schema_called(const std::string& name) {
  if (name == "job") return job_schema();
  if (name == "profile") return profile_schema();
  for (const AnswerTable& table : answer_tables())
    if (table.name == name) return answer_schema(table);
  throw InputError("schema: nothing is called '" + name +
                   "'; known: " + list_of(schemas_known(), "and"));
}

std::string schema_text(const Options& options) {
  if (options.operands.size() > 1)
    throw InputError("schema: name one: " + list_of(schemas_known(), "or"));
  const std::string name = options.operands.empty() ? "job" : options.operands[0];
  return schema_called(name).dump(2) + "\n";
}

int run_schema(const Options& options) {
  print_text(schema_text(options));
  return done;
}

std::string answer_schema(const Options& options, const Watch&) { return schema_text(options); }

}  // namespace

const Command schema_command = {"schema",
                                "WHAT",
                                "job (also without this operand), profile, or the command whose "
                                "--json is meant: simulate, plan, advise, ...",
                                "a JSON Schema (2020-12) of the job file, of profiles, of answers",
                                "",
                                run_schema,
                                "Prints the schema of the job file or of a machine's profile, made "
                                "of the rows that the readers read by, or of what a command "
                                "prints with --json. Editors that know the first offer keys and "
                                "mark mistakes: `meshwright schema > job.schema.json`, and "
                                "`\"$schema\": \"job.schema.json\"` in the job.",
                                answer_schema,
                                schemas_known};

}  // namespace meshwright::tools
