// Tests that each option of each command sets its own field of Options and no other, that limits
// are those of the messages, and that options which are not given have the values that the pages
// say.
#include "models/core/error.h"
#include "tests/catch.h"
#include "tools/commands/commands.h"

using namespace meshwright::tests;

namespace {

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

TEST_CASE("each option of each command sets one field, from which it comes back",
          "[tools][options]") {
  for (const Command* command : all_commands)
    for (const OptionName& option : options_of(*command)) {
      const std::string name = option.name.substr(2);
      if (name == "help") continue;
      CAPTURE(command->name, name);
      std::vector<std::string> words{option.name};
      if (!option.value.empty()) words.push_back(name == "memory-margin" ? "0.25" : "7");
      CHECK(command_words(*command, parsed(*command, words)) == words);
      if (name == "port") continue;  // of `serve`, which no program calls
      Options called;
      words.erase(words.begin());
      set_option(*command, name, words, called);
      words.insert(words.begin(), option.name);
      CHECK(command_words(*command, called) == words);
    }
}

TEST_CASE("options that are not given are empty, except host and port of serve",
          "[tools][options]") {
  for (const Command* command : all_commands) CHECK(command_words(*command, Options()).empty());
  const Options options;
  CHECK(options.host == "127.0.0.1");
  CHECK(options.port == 8080);
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
