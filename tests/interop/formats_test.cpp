// Tests that files of settings are read as flat lists with the place of each setting, and which
// files are rejected.
#include "tools/interop/formats/formats.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tools/interop/formats/text.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

// Returns a line "name=value@place" for each setting.
std::string listed(const Settings& settings) {
  std::string text;
  for (const Setting& each : settings.all())
    text += each.name + "=" + each.value.dump() + "@" + each.place + "\n";
  return text;
}

}  // namespace

TEST_CASE("YAML is read with its types, nested names dotted", "[interop]") {
  const Settings settings = read_yaml(
      "# a comment\n"
      "num_processes: 8\n"
      "mixed_precision: 'no'\n"
      "use_cpu: no\n"
      "fsdp_config:\n"
      "  fsdp_version: 2\n"
      "  wrap: [LlamaDecoderLayer, 3, 1.5]\n"
      "empty: {}\n"
      "nothing: ~\n"
      "rate: 3e-4\n"
      "word: 1.2.3\n",
      "a.yaml");
  CHECK(listed(settings) ==
        "num_processes=8@a.yaml:2\n"
        "mixed_precision=\"no\"@a.yaml:3\n"
        "use_cpu=false@a.yaml:4\n"
        "fsdp_config.fsdp_version=2@a.yaml:6\n"
        "fsdp_config.wrap=[\"LlamaDecoderLayer\",3,1.5]@a.yaml:7\n"
        "nothing=null@a.yaml:9\n"
        "rate=0.0003@a.yaml:10\n"
        "word=\"1.2.3\"@a.yaml:11\n");
}

TEST_CASE("TOML is read with its types and lines", "[interop]") {
  const Settings settings = read_toml(
      "[training]\n"
      "seq_len = 8_192\n"
      "max_norm = inf\n"
      "[quantize.linear]\n"
      "float8.filter_fqns = [\"output\"]\n"
      "[compile]\nenable = true\n",
      "a.toml");
  CHECK(listed(settings) ==
        "compile.enable=true@a.toml:7\n"
        "quantize.linear.float8.filter_fqns=[\"output\"]@a.toml:5\n"
        "training.max_norm=\"inf\"@a.toml:3\n"
        "training.seq_len=8192@a.toml:2\n");
}

TEST_CASE("JSON is read with the lines of its names", "[interop]") {
  const Settings settings = read_json(
      "{\n  \"train_batch_size\": 16,\n  \"optimizer\": {\"params\": {\n    \"betas\": [0.9,\n"
      " 0.95], \"lr\": \"auto\"}}\n}\n",
      "a.json");
  CHECK(listed(settings) ==
        "optimizer.params.betas=[0.9,0.95]@a.json:4\n"
        "optimizer.params.lr=\"auto\"@a.json:5\n"
        "train_batch_size=16@a.json:2\n");
}

TEST_CASE("what files of settings must not hold is refused with its line", "[interop]") {
  const auto yaml = [](const std::string& text) {
    return message_of([&] { read_yaml(text, "a.yaml"); });
  };
  CHECK(yaml(" \n") == "a.yaml: is empty; a file of settings is needed");
  CHECK(yaml("a: 1\nb: 2\na: 3\n") == "a.yaml:3: 'a' is given twice; keep one");
  CHECK(yaml("a: 1\n---\nb: 2\n") ==
        "a.yaml:3: a second document; one file holds one job's settings");
  CHECK(yaml("a: 1\nb: !!python/none x\n") ==
        "a.yaml:2: the tag 'tag:yaml.org,2002:python/none' is not read; give a plain value");
  CHECK(yaml("a: &x\n  b: *x\n").find("an alias inside of its own anchor") != std::string::npos);
  CHECK(yaml("a: &x [*x]\n").find("an alias inside of its own anchor") != std::string::npos);
  CHECK(yaml("a: [1, 2\n").starts_with("a.yaml:2: is no YAML: "));
  CHECK(yaml("- a\n") == "a.yaml:1: names with values are needed (`name: value`)");
  CHECK(yaml("a: 1\nb: \xff\n") == "a.yaml:2: is no text in UTF-8; a file of settings is needed");
  CHECK(message_of([] {
          read_toml("[a]\nb = 1\nb = 2\n", "a.toml");
        }).starts_with("a.toml:3: is no TOML: "));
  CHECK(message_of([] { read_toml("[a]\nb = 2026-11-25\n", "a.toml"); }) ==
        "a.toml:2: dates and times are no settings; give a number or a word");
  CHECK(message_of([] { read_json("[1]", "a.json"); }) ==
        "a.json:1: an object is needed ({\"name\": value, ...})");
}

TEST_CASE("aliases that multiply are refused before they fill the memory", "[interop]") {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string name = "a" + std::to_string(i), before = "*a" + std::to_string(i - 1);
    text += name + ": &" + name + " [" + before;
    for (int k = 0; k < 9; ++k) text += ", " + before;
    text += "]\n";
  }
  CHECK(message_of([&] { read_yaml(text, "a.yaml"); }).find("aliases counted") !=
        std::string::npos);
}

TEST_CASE("what is written is read again", "[interop]") {
  Settings settings;
  settings.add("training.seq_len", 8192);
  settings.add("optimizer.eps", 1e-8);
  settings.add("optimizer.name", "AdamW");
  settings.add("mixed_precision", "no");
  settings.add("parts", json::array({json::array({"a", "b"}), json::array({"c"})}));
  settings.add("flag", true);
  const auto values = [](const Settings& from) {
    json all = json::object();
    for (const Setting& each : from.all()) all[each.name] = each.value;
    return all;
  };
  CHECK(values(read_yaml(yaml_text(settings), "a")) == values(settings));
  CHECK(values(read_toml(toml_text(settings), "a")) == values(settings));
  CHECK(values(read_json(json_text(settings), "a")) == values(settings));
}

TEST_CASE("YAML is in blocks, and quoted where PyYAML would read another value", "[interop]") {
  const nlohmann::ordered_json value = {
      {"eps", 1e-8},  // PyYAML takes 1e-08 for a word
      {"mixed_precision", "no"},
      {"words", {"On", "y", "1e5", "0x1F", "12:30", "2026-11-25", "~", "", "bf16", "a b"}},
      {"betas", {0.9, 0.95}},
      {"containers", {{{"name", "node"}, {"ports", nlohmann::ordered_json::array()}}}},
      {"flags", {true, nullptr}}};
  CHECK(yaml_text(value) ==
        "eps: 1.0e-08\n"
        "mixed_precision: \"no\"\n"
        "words:\n"
        "  - \"On\"\n"
        "  - \"y\"\n"
        "  - \"1e5\"\n"
        "  - \"0x1F\"\n"
        "  - \"12:30\"\n"
        "  - \"2026-11-25\"\n"
        "  - \"~\"\n"
        "  - \"\"\n"
        "  - bf16\n"
        "  - \"a b\"\n"
        "betas: [0.9, 0.95]\n"
        "containers:\n"
        "  - name: node\n"
        "    ports: []\n"
        "flags:\n"
        "  - true\n"
        "  - ~\n");
}
