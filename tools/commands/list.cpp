// Runs the command `list WHAT`, which prints the names that the program knows, each from the table
// where they are used. `list machines NAME` prints a machine's whole profile, `list frameworks
// NAME` the settings of a framework, and --json without an operand all names.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "hwprofiles/load.h"
#include "hwprofiles/parts.h"
#include "hwprofiles/stacks.h"
#include "models/architectures/model.h"
#include "models/compiler/passes/pass.h"
#include "models/compiler/plan/plan.h"
#include "models/compiler/schedule/schedule.h"
#include "models/core/error.h"
#include "models/core/names_in.h"
#include "models/program/graph/op_table.h"
#include "models/program/mesh.h"
#include "tools/commands/commands.h"
#include "tools/commands/listed_tables.h"
#include "tools/interop/target.h"
#include "tools/print.h"
#include "tools/session/json_text.h"
#include "tools/session/screen.h"

namespace meshwright::tools {

namespace {

using Names = std::vector<std::string>;

Names stacks() { return names_in(software_stacks()); }

json stacks_json() {
  json all = json::array();
  for (const SoftwareStack& stack : software_stacks())
    all.push_back({{"name", stack.name},
                   {"title", stack.title},
                   {"since", stack.since},
                   {"until", stack.until},
                   {"software", stack.software},
                   {"kernels", stack.kernels},
                   {"source", stack.source}});
  return all;
}

// Returns a text on every known generation of software, and on how fast the kernels of GPUs are
// with it.
std::string stacks_text() {
  std::string text;
  for (const SoftwareStack& stack : software_stacks()) {
    text += fmt::format("{}  {} to {}: {}\n      {}\n", stack.name, stack.since,
                        stack.until.empty() ? "today" : stack.until, stack.title, stack.software);
    if (stack.kernels.empty()) text += "      kernels: as the profiles of GPUs say\n";
    for (const auto& [gpu, share] : stack.kernels)
      text += fmt::format("      kernels on {}: {:.2f} of what its profile says\n", gpu, share);
  }
  return text;
}

struct Listing {
  const char* what;
  Names (*names)();
  Table (*table)(const Names&) = nullptr;  // for people; null: one name in each line
};

constexpr Listing listings[] = {{"models", [] { return zoo_names(); }, models_table},
                                {"machines", [] { return list_machines(); }, machines_table},
                                {"parts", [] { return part_names(parts_folder()); }},
                                {"stacks", stacks},
                                {"schedules", [] { return schedule_names(); }},
                                {"recompute", [] { return recompute_names(); }},
                                {"placements", [] { return placements(); }},
                                {"optimizers", [] { return optimizer_names(); }},
                                {"attention", [] { return attention_names(); }},
                                {"compiler", [] { return compiler_names(); }},
                                {"passes", [] { return names_in(training_passes()); }},
                                {"operations", [] { return names_in(op_table()); }},
                                {"communicators", [] { return names_in(communicator_kinds()); }},
                                {"frameworks", [] { return framework_names(); }}};

}  // namespace

std::vector<std::string> names_listed(const std::string& what) {
  std::vector<std::string> names;
  for (const Listing& listing : listings) {
    if (what.empty()) names.emplace_back(listing.what);
    if (what == listing.what) return listing.names();
  }
  return names;
}

namespace {

json json_of(const Listing& listing) {
  return listing.names == stacks ? stacks_json() : json(listing.names());
}

// Returns a text with every key that the framework has a setting for, what it cannot express, and
// its settings that have no meaning here.
std::string framework_text(const std::string& name) {
  const Framework framework = framework_of(name);
  const InteropTarget& target = interop_target(framework);
  std::string text =
      fmt::format("{}\n\nkeys of the job file, and the settings that say them:\n", target.title);
  for (const Rule& rule : target.rules()) {
    std::vector<std::string> settings = rule.settings;
    if (target.spelled != nullptr)
      for (std::string& each : settings) each = target.spelled(each);
    text += fmt::format("  {}: {}\n", list_of(rule.keys, "and"), list_of(settings, "and"));
    if (!rule.note.empty()) text += fmt::format("      {}\n", rule.note);
  }
  text += "\nwhat it cannot express, or in one way only:\n";
  for (const Limit& limit : limits_of(framework))
    text += fmt::format("  {}: {} {}\n", limit.key, name, limit.why);
  text += "\nsettings without meaning here (`*` stands for any end):\n";
  std::string_view reason;
  std::string names;
  const auto flush = [&] {
    if (!names.empty()) text += fmt::format("  {}: {}\n", names, reason);
    names.clear();
  };
  for (const WithoutMeaning& row : target.without_meaning) {
    if (row.reason != reason) flush();
    reason = row.reason;
    names += (names.empty() ? "" : ", ") + std::string(row.pattern);
  }
  flush();
  return text;
}

std::string machine_text(const std::string& name) {
  if (name == "local")
    throw InputError(
        "list: 'local' is this computer, which no profile describes until it is measured: "
        "`meshwright calibrate --profile local.json` writes one");
  return text_of(load_machine(name));
}

std::string all_listings_json() {
  json all;
  for (const Listing& listing : listings) all[listing.what] = json_of(listing);
  all["machine_facts"] = machine_facts_json(list_machines());
  return json_text(all, true);
}

std::string listing_text(const Listing& listing, bool as_json) {
  if (as_json) return json_text({{listing.what, json_of(listing)}}, true);
  if (listing.names == stacks) return stacks_text();
  if (listing.table != nullptr) return listing.table(listing.names()).text();
  std::string text;
  for (const std::string& name : listing.names()) text += name + "\n";
  return text;
}

std::string list_text(const Options& options) {
  const std::vector<std::string>& words = options.operands;
  if (words.size() == 2 && words[0] == "machines") return machine_text(words[1]);
  if (words.size() == 2 && words[0] == "frameworks") return framework_text(words[1]);
  if (words.empty() && options.json) return all_listings_json();
  const Names known = names_listed("");
  if (words.size() != 1) throw InputError("list: say what to list: " + list_of(known));
  for (const Listing& listing : listings)
    if (words[0] == listing.what) return listing_text(listing, options.json);
  const std::string near = nearest(words[0], known);
  throw InputError(
      "list: nothing is called '" + words[0] + "'; " +
      (near.empty() ? "known: " + list_of(known, "and") : "did you mean '" + near + "'?"));
}

int run_list(const Options& options) {
  const bool is_json =
      options.json || (options.operands.size() == 2 && options.operands[0] == "machines");
  const std::string text = list_text(options);
  print_text(is_json ? text : on_screen(text));
  return done;
}

std::string answer_list(const Options& options, const Watch&) { return list_text(options); }

}  // namespace

const Command list_command = {
    "list",
    "WHAT",
    "what to list",
    "what is known: models, machines, schedules, ...",
    "json wide",
    run_list,
    "Prints models, machines, schedules, frameworks and all other names that a job may use: of "
    "machines with GPUs, memory and price, of models with parameters and family. "
    "Without an operand it says what can be listed; `list machines NAME` prints the whole profile "
    "of a machine; `list --json` prints all of it.",
    answer_list,
    [] { return names_listed(""); }};

}  // namespace meshwright::tools
