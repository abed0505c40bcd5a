// Tests that any text which an export writes is read back unchanged, and that scripts start only
// the run itself. The scripts really run, with stand-ins for all programs that they call.
#include <toml++/toml.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "models/core/quote.h"
#include "models/core/utf8.h"
#include "tests/catch.h"
#include "tests/hostile_strings.h"
#include "tests/interop/read_text.h"
#include "tests/message_of.h"
#include "tests/one_in.h"
#include "tools/interop/formats/formats.h"
#include "tools/interop/formats/text.h"
#include "tools/interop/launch/launch.h"

using namespace meshwright::tests;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Stand-ins for the programs on PATH. Each one records its call, and then runs the command that it
// was given, as the real one does.
class StandIns {
 public:
  StandIns() {
    fs::create_directories(folder_.file("bin"));
    for (const char* name : {"torchrun", "accelerate", "deepspeed", "python3"}) add(name, "");
    add("srun", "shift 2; exec \"$@\"");
    add("mpirun", "while [ \"$1\" != bash ]; do shift; done; exec \"$@\"");
    add("scontrol", "printf 'host1\\nhost2\\n'", false);
    folder_.file("hosts", "host1\nhost2\n");
  }

  std::string planted() const { return folder_.file("planted"); }

  // The calls that `script` made, each with its arguments.
  std::vector<std::vector<std::string>> run(const std::string& script) const {
    fs::remove(folder_.file("calls"));
    folder_.file("run.sh", script);
    const std::string command = "cd '" + folder_.path() + "' && PATH='" + folder_.file("bin") +
                                "':/usr/bin:/bin HOSTFILE=hosts RDZV_ENDPOINT=host1:1 NODE_RANK=1 "
                                "MASTER_ADDR=host1 SLURM_NODEID=1 SLURM_JOB_ID=7 "
                                "SLURM_JOB_NODELIST=x PET_NODE_RANK=1 PET_MASTER_ADDR=host1 "
                                "PET_MASTER_PORT=1 OMPI_COMM_WORLD_RANK=1 bash run.sh 2>errors";
    const int status = std::system(command.c_str());
    INFO(script.substr(0, 2000) << "\n" << content_of(folder_.file("errors")));
    CHECK(status == 0);
    CHECK_FALSE(fs::exists(planted()));
    std::vector<std::vector<std::string>> calls;
    const std::string all = content_of(folder_.file("calls"));
    for (std::size_t at = 0; at < all.size();) {
      const std::string word = all.c_str() + at;
      at += word.size() + 1;
      if (word == "CALL")
        calls.emplace_back();
      else
        calls.back().push_back(word);
    }
    return calls;
  }

 private:
  void add(const std::string& name, const std::string& then, bool is_noted = true) const {
    const std::string file =
        folder_.file("bin/" + name, "#!/bin/bash\n" +
                                        (is_noted ? "printf '%s\\0' CALL " + name + " \"$@\" >>'" +
                                                        folder_.file("calls") + "'\n"
                                                  : std::string()) +
                                        then + "\n");
    fs::permissions(file, fs::perms(0755));
  }
  TestFolder folder_;
};

// Returns the text as a YAML file gives it back. yaml-cpp replaces the noncharacter U+FFFE.
std::string in_yaml(std::string text) {
  const std::size_t at = text.find("\xef\xbf\xbe");
  return at == std::string::npos ? text : text.replace(at, 3, "\xef\xbf\xbd");
}

// Returns the word that the kubelet makes of a word of a container's command.
std::string expanded(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t end = text.find(')', at);
    if (text.compare(at, 2, "$$") == 0)
      ++at, result += '$';
    else if (text.compare(at, 2, "$(") == 0 && end != std::string::npos)
      result += "EXPANDED", at = end;
    else
      result += text[at];
  }
  return result;
}

std::vector<std::string> words_of(const YAML::Node& container) {
  std::vector<std::string> words;
  for (const char* key : {"command", "args"})
    for (const YAML::Node& word : container[key]) words.push_back(expanded(word.Scalar()));
  return words;
}

std::string script_of(const std::vector<std::string>& words) {
  std::string script;
  for (const std::string& word : words) script += shell_word(word) + " ";
  return script + "\n";
}

Launch hostile_launch(const std::vector<std::string>& texts, const std::string& name) {
  Launch launch;
  launch.name = name;
  launch.machine = "p4d.24xlarge";
  launch.hosts = 2;
  launch.gpus_per_host = 8;
  launch.words = {"train.py"};
  for (const std::string& text : texts) launch.words.emplace_back(text);
  for (std::size_t i = 0; i < texts.size(); ++i)
    launch.environment["VARIABLE_" + std::to_string(i)] = texts[i];
  return launch;
}

// Checks that the last call ends with these words, whole and in order.
void check_calls(const std::vector<std::vector<std::string>>& calls,
                 const std::vector<std::string>& texts) {
  REQUIRE_FALSE(calls.empty());
  const std::vector<std::string>& last = calls.back();
  REQUIRE(last.size() > texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    CHECK(last[last.size() - texts.size() + i] == texts[i]);
}

}  // namespace

TEST_CASE("a shell reads each hostile word as it is", "[interop]") {
  const StandIns stand_ins;
  const std::vector<std::string> texts = hostile_strings(stand_ins.planted());
  std::string script = "torchrun";
  for (const std::string& text : texts) script += " " + shell_word(text);
  check_calls(stand_ins.run(script + "\n"), texts);
  CHECK(message_of([] { static_cast<void>(shell_word(std::string("a\0b", 3))); }) ==
        "'a\\x00b' contains a null byte, which no word of a shell can hold; leave it out");
}

TEST_CASE("scripts that start a run run nothing that a job's text plants", "[interop]") {
  const StandIns stand_ins;
  const std::vector<std::string> texts = hostile_strings(stand_ins.planted());
  const std::vector<std::string> starter =
      GENERATE(std::vector<std::string>{},
               std::vector<std::string>{"accelerate", "launch", "--config_file", "it's $(a).yaml"},
               std::vector<std::string>{"deepspeed"});
  const std::string launcher = GENERATE("slurm", "torchrun", "mpirun");
  CAPTURE(launcher);
  Launch launch = hostile_launch(texts, "name");
  launch.starter = starter;
  check_calls(stand_ins.run(launch_files(launcher, launch).front().text), texts);
  for (const std::string& name : texts) {
    launch = hostile_launch({}, name);
    launch.starter = starter;
    const std::string text = launch_files(launcher, launch).front().text;
    const auto calls = stand_ins.run(text);
    REQUIRE_FALSE(calls.empty());
    CHECK(std::count(text.begin(), text.end(), '\n') >= 3);
    if (launcher == "torchrun" && starter.empty())
      CHECK(std::find(calls.back().begin(), calls.back().end(), "--rdzv-id=" + name) !=
            calls.back().end());
    if (launcher == "slurm")
      CHECK(text.find("\n#SBATCH --job-name=" + plain_name(name) + "\n#SBATCH --nodes=2\n") !=
            std::string::npos);
  }
}

TEST_CASE("Kubernetes' objects hold a job's text as text", "[interop]") {
  const StandIns stand_ins;
  const std::vector<std::string> texts = hostile_strings(stand_ins.planted());
  std::vector<std::string> held = texts;
  std::ranges::transform(held, held.begin(), in_yaml);
  const std::vector<std::string> starter =
      GENERATE(std::vector<std::string>{}, std::vector<std::string>{"accelerate", "launch"});
  for (const std::string& name : texts) {
    Launch launch = hostile_launch(texts, name);
    launch.machine = "p4d." + name + "xlarge";
    launch.starter = starter;
    const std::vector<LaunchFile> files = launch_files("kubernetes", launch);
    const YAML::Node job = YAML::Load(files[0].text), old = YAML::Load(files[1].text);
    CHECK(job["metadata"]["name"].Scalar() == plain_name(name));
    const YAML::Node worker = old["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"];
    CHECK(worker["nodeSelector"]["node.kubernetes.io/instance-type"].Scalar() ==
          in_yaml(launch.machine));
    const YAML::Node containers[] = {job["spec"]["trainer"], worker["containers"][0]};
    for (const YAML::Node& container : containers) {
      for (const YAML::Node& each : container["env"]) {
        const std::string variable = each["name"].Scalar();
        if (variable.starts_with("VARIABLE_"))
          CHECK(expanded(each["value"].Scalar()) == held.at(std::stoul(variable.substr(9))));
      }
      if (&name == &texts.front()) check_calls(stand_ins.run(script_of(words_of(container))), held);
    }
  }
}

TEST_CASE("YAML, TOML, JSON and Python read each hostile string as it is", "[interop]") {
  std::vector<std::string> texts = hostile_strings("planted");
  texts.emplace_back("a\0b", 3);
  Settings settings;
  json expected = json::object(), expected_in_yaml = json::object();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string name = "text" + std::to_string(i);
    settings.add(name, texts[i]);
    settings.add("list." + name, json::array({texts[i], 1}));
    expected[name] = texts[i];
    expected_in_yaml[name] = in_yaml(texts[i]);
    CHECK(toml::parse("a = " + double_quoted(texts[i]))["a"].value<std::string>() == texts[i]);
  }
  const auto check = [](const Settings& read, const json& values) {
    for (const Setting& each : read.all())
      if (each.name.starts_with("list."))
        CHECK(each.value[0] == values[each.name.substr(5)]);
      else
        CHECK(each.value == values[each.name]);
  };
  check(read_yaml(yaml_text(settings), "a"), expected_in_yaml);
  check(read_toml(toml_text(settings), "a"), expected);
  check(read_json(json_text(settings), "a"), expected);
  if (std::system("command -v python3 >/dev/null") != 0) return;
  const TestFolder folder;
  std::string program = "import json\ntexts = json.load(open('texts.json', encoding='utf-8'))\n";
  for (std::size_t i = 0; i < texts.size(); ++i)
    program += "assert texts[" + std::to_string(i) + "] == " + double_quoted(texts[i]) + ", " +
               std::to_string(i) + "\n";
  folder.file("texts.json", json(texts).dump());
  folder.file("check.py", program);
  CHECK(std::system(("cd '" + folder.path() + "' && python3 check.py").c_str()) == 0);
}

TEST_CASE("bytes that are no text become characters", "[interop]") {
  CHECK(as_utf8("a\xff\xc3") == "a\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(as_utf8("caf\xc3\xa9") == "caf\xc3\xa9");
  CHECK(double_quoted("\xed\xa0\x80") == "\"\\ufffd\\ufffd\\ufffd\"");
  CHECK(double_quoted("\xf0\x9f\x99\x82") == "\"\\U0001f642\"");
  CHECK(html_text("\xff<\x01") == "\xef\xbf\xbd&lt;\\x01");
}

TEST_CASE("a page holds a job's text as text", "[interop]") {
  for (const std::string& text : hostile_strings("planted")) {
    CAPTURE(text);
    const std::string html = html_text(text);
    CHECK(html.find_first_of("<>\"") == std::string::npos);
    const std::string data = json_in_html(json{{"name", text}}.dump());
    CHECK(data.find('<') == std::string::npos);
    CHECK(json::parse(data)["name"] == text);
  }
  CHECK(html_text("a & \"b\"") == "a &amp; &quot;b&quot;");
}

TEST_CASE("a plain name needs no quotes anywhere", "[interop]") {
  for (const std::string& text : hostile_strings("planted")) {
    const std::string name = plain_name(text);
    CAPTURE(text, name);
    CHECK((name.size() >= 1 && name.size() <= 56));
    CHECK((name[0] >= 'a' && name[0] <= 'z'));
    CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos);
  }
  CHECK(plain_name("Llama 3, 8B") == "llama-3-8b");
  CHECK(plain_name("7b") == "train-7b");
  CHECK(plain_name("...") == "train");
}

TEST_CASE("every framework's files hold a hostile name of a job", "[interop]") {
  const StandIns stand_ins;
  const json job = {{"model", "llama-2-7b"},
                    {"cluster", {{"machine", "p4d.24xlarge"}, {"count", 2}}},
                    {"parallelism", {{"zero_stage", 3}, {"overlap", {"gradients", "parameters"}}}},
                    {"training",
                     {{"global_batch", 64},
                      {"micro_batch", 1},
                      {"sequence_length", 4096},
                      {"precision", "bf16"},
                      {"steps", 10}}}};
  int tried = 0, refused = 0, turn = 0;
  for (const std::string& framework : framework_names())
    for (const std::string& name : hostile_strings(stand_ins.planted())) {
      json changed = job;
      changed["name"] = name;
      INFO(framework << " with the name " << name.substr(0, 100));
      const auto read = [&] { return read_job(changed, "job.json", ".", lookup_for_tests); };
      if (!is_one_line(name)) {
        CHECK(message_of(read) ==
              "job.json: /name: holds a control character; use one line of text");
        ++refused;
        continue;
      }
      const Job whole = read();
      Plan plan = settle(whole, 16, lookup_for_tests("p4d.24xlarge"));
      const std::optional<Plan> near = nearest_plan(framework_of(framework), plan, whole.model);
      if (!near) continue;
      ++tried;
      const Exported exported =
          export_plan(whole, *near, "p4d.24xlarge", 2, 8, framework_of(framework), {});
      for (const ExportedFile& file : exported.files) {
        const bool starts = file.name.ends_with(".sh") || file.name.ends_with(".sbatch");
        if (starts && is_tried(++turn, 5)) CHECK_FALSE(stand_ins.run(file.text).empty());
        if (file.name.ends_with(".yaml")) CHECK(YAML::Load(file.text).IsMap());
        if (file.name.ends_with(".toml")) CHECK_FALSE(toml::parse(file.text).empty());
        if (file.name.ends_with(".json")) CHECK(json::parse(file.text).is_object());
      }
    }
  CHECK(tried > 100);
  CHECK(refused > 30);
}
