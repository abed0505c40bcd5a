// Each option of each command reaches its own field of Options, and no other; limits are those that
// the messages say; what is not given is as the pages say.
#include <map>
#include <set>

#include "models/core/error.h"
#include "tests/catch.h"
#include "tools/commands/commands.h"

using namespace meshwright::tests;

namespace {

std::string text_of(const std::optional<int>& count) {
  return count ? std::to_string(*count) : "none";
}

// Returns all fields that the command line sets, under the options' names.
std::map<std::string, std::string> fields_of(const Options& o) {
  std::map<std::string, std::string> fields = {{"trace", o.trace},
                                               {"write", o.write},
                                               {"write-partition", o.write_partition},
                                               {"profile", o.profile},
                                               {"by", o.by},
                                               {"budget", o.budget},
                                               {"prices", o.prices},
                                               {"report", o.report},
                                               {"timeline", o.timeline},
                                               {"host", o.host},
                                               {"port", std::to_string(o.port)},
                                               {"log-json", o.log_json},
                                               {"hostfile", o.hostfile},
                                               {"output", o.output},
                                               {"measured", o.measured},
                                               {"runs", o.runs},
                                               {"tokenizer", o.tokenizer},
                                               {"text-key", o.text_key},
                                               {"separator", o.separator},
                                               {"to", o.to},
                                               {"for", o.framework},
                                               {"format", o.format},
                                               {"dump", o.dump},
                                               {"checkpoint", o.checkpoint},
                                               {"trace-steps", o.trace_steps},
                                               {"trace-format", o.trace_format},
                                               {"steps", text_of(o.steps)},
                                               {"ranks", text_of(o.ranks)},
                                               {"top", text_of(o.top)},
                                               {"deadline", text_of(o.deadline)},
                                               {"time-limit", text_of(o.time_limit)},
                                               {"restarts", text_of(o.restarts)}};
  const auto list = [&](const char* name, const std::vector<std::string>& all) {
    for (const std::string& each : all) fields[name] += each + ";";
  };
  list("set", o.set);
  list("from", o.from);
  list("launcher", o.launchers);
  fields["memory-margin"] = o.memory_margin ? std::to_string(*o.memory_margin) : "none";
  const std::pair<const char*, bool> flags[] = {{"json", o.json},
                                                {"cpu", o.cpu},
                                                {"quick", o.quick},
                                                {"measure", o.measure},
                                                {"allow-unknown", o.allow_unknown},
                                                {"allow-mpi-options", o.allow_mpi_options},
                                                {"adapter", o.adapter},
                                                {"ema", o.ema},
                                                {"resume", o.resume},
                                                {"check-collectives", o.check_collectives},
                                                {"no-hash", o.no_hash},
                                                {"prove", o.prove}};
  for (const auto& [name, value] : flags) fields[name] = value ? "yes" : "no";
  return fields;
}

Options parsed(const Command& command, std::vector<std::string> words) {
  Options options;
  REQUIRE(parse_options(command, words, options));
  return options;
}

std::string refusal(const Command& command, const std::vector<std::string>& words) {
  Options options;
  try {
    parse_options(command, words, options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("each option of each command sets its own field alone", "[tools][options]") {
  const auto before = fields_of(Options());
  std::set<std::string> met;
  for (const Command* command : all_commands)
    for (const OptionName& option : options_of(*command)) {
      const std::string name = option.name.substr(2);
      if (name == "help" || !before.contains(name)) continue;
      CAPTURE(command->name, name);
      met.insert(name);
      const std::string value = name == "memory-margin" ? "0.250000" : "7";
      std::vector<std::string> words{option.name};
      if (!option.value.empty()) words.push_back(value);
      auto expected = before;
      const bool is_list = name == "set" || name == "from" || name == "launcher";
      expected[name] = option.value.empty() ? "yes" : is_list ? value + ";" : value;
      CHECK(fields_of(parsed(*command, words)) == expected);
      if (name == "port") continue;  // of `serve`, which no program calls
      Options called;
      words.erase(words.begin());
      set_option(*command, name, words, called);
      CHECK(fields_of(called) == expected);
    }
  for (const auto& [name, value] : before) {
    CAPTURE(name);
    CHECK(met.contains(name));
  }
}

TEST_CASE("options that are not given are empty, except host and port of serve",
          "[tools][options]") {
  for (const auto& [name, value] : fields_of(Options())) {
    CAPTURE(name);
    if (name == "host")
      CHECK(value == "127.0.0.1");
    else if (name == "port")
      CHECK(value == "8080");
    else
      CHECK((value.empty() || value == "none" || value == "no"));
  }
  const Options options;
  CHECK_FALSE(options.as_rank);
  CHECK_FALSE(options.progress);
}

TEST_CASE("a call is refused with the words of the command line", "[tools][options]") {
  const auto refused = [](const std::string& name, const std::vector<std::string>& values) {
    Options options;
    try {
      set_option(plan_command, name, values, options);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused("top", {"0"}) == refusal(plan_command, {"--top", "0"}));
  CHECK(refused("top", {"1", "2"}) == refusal(plan_command, {"--top", "1", "--top", "2"}));
  CHECK(refused("top", {}) == refusal(plan_command, {"--top"}));
  CHECK(refused("memory-margin", {"1"}) == refusal(plan_command, {"--memory-margin", "1"}));
  CHECK(refused("report", {}) == refusal(plan_command, {"--report"}));
  CHECK(refused("json", {"x"}) == refusal(plan_command, {"--json=x"}));
  CHECK(refused("tops", {"1"}) == refusal(plan_command, {"--tops", "1"}));
  CHECK(refused("resume", {}) == refusal(plan_command, {"--resume"}));
  CHECK_FALSE(refused("top", {"0"}).empty());
  CHECK_FALSE(refused("resume", {}).empty());
}

TEST_CASE("counts, ports and shares are taken up to their limits", "[tools][options]") {
  struct Limit {
    const Command& command;
    std::string option, least, most, below, above;
  };
  const Limit limits[] = {
      {train_command, "--steps", "1", "2000000000", "0", "2000000001"},
      {plan_command, "--top", "1", "1000000", "0", "1000001"},
      {calibrate_command, "--ranks", "1", "64", "0", "65"},
      {train_command, "--deadline", "1", "1000000", "0", "1000001"},
      {mcp_command, "--time-limit", "1", "1000000", "0", "1000001"},
      {serve_command, "--port", "0", "65535", "-1", "65536"},
      {plan_command, "--memory-margin", "0", "0.999", "-0.1", "1"},
  };
  for (const Limit& limit : limits) {
    CAPTURE(limit.option);
    CHECK(refusal(limit.command, {limit.option, limit.least}).empty());
    CHECK(refusal(limit.command, {limit.option, limit.most}).empty());
    for (const std::string& wrong :
         {limit.below, limit.above, std::string("x"), limit.most + "x"}) {
      CAPTURE(wrong);
      CHECK(refusal(limit.command, {limit.option + "=" + wrong})
                .starts_with(std::string(limit.command.name) + ": " + limit.option + ": "));
    }
  }
}
