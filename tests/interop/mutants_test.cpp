// Tests published settings in which one number or byte is changed. An import must either make a job
// or say in one line which setting of which file is wrong.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "models/core/error.h"
#include "models/core/utf8.h"
#include "tests/catch.h"
#include "tests/interop/settings_files.h"
#include "tests/one_in.h"

using namespace meshwright::tests;

namespace {

const std::string corpus = MESHWRIGHT_SOURCE_DIR "/tests/interop/corpus";

// Imports a case in which `text` replaces the file of number `which`.
void check_import(const SettingsCase& each, std::size_t which, const std::string& text,
                  Framework framework) {
  const TestFolder folder;
  SettingsCase changed = each;
  for (std::size_t i = 0; i < each.files.size(); ++i) {
    const std::string name = std::filesystem::path(each.files[i]).filename().string();
    changed.files[i] = folder.file(name, i == which ? text : content_of(each.files[i]));
  }
  try {
    const Imported imported = import_case(changed, framework, true);
    CHECK(imported.job.dump().size() > 2);  // which throws where a string is not UTF-8
    for (const ReadSetting& setting : imported.settings)
      CHECK(valid_utf8(setting.name) == setting.name.size());
  } catch (const InputError& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(message.starts_with(folder.path() + "/"));
    CHECK(message.find('\n') == std::string::npos);
  }
}

template <class Change>
void for_each_file(const Change& change) {
  for (const std::string& name : framework_names()) {
    const std::string folder = corpus + "/" + name;
    if (!std::filesystem::exists(folder)) continue;
    for (const SettingsCase& each : settings_cases(folder, ".expected.json"))
      for (std::size_t i = 0; i < each.files.size(); ++i)
        change(each, i, content_of(each.files[i]), framework_of(name));
  }
}

}  // namespace

TEST_CASE("a number that no setting can have is refused in words", "[interop]") {
  static const std::regex number(R"([0-9][0-9_]*(\.[0-9]+)?([eE][-+]?[0-9]+)?)");
  const auto is_of_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  };
  int turn = 0, tried = 0;
  for_each_file([&](const SettingsCase& each, std::size_t which, const std::string& text,
                    Framework framework) {
    for (std::sregex_iterator found(text.begin(), text.end(), number), end; found != end; ++found) {
      const auto begin = static_cast<std::size_t>(found->position());
      const auto length = static_cast<std::size_t>(found->length());
      if (begin > 0 && is_of_word(text[begin - 1])) continue;
      if (begin + length < text.size() && is_of_word(text[begin + length])) continue;
      for (const char* value :
           {"0", "-1", "2147483648", "9223372036854775808", "1e400", "NaN", "1.5", "\"\"", ""}) {
        if (!is_tried(++turn, 7)) continue;
        INFO(each.files[which] << ": " << value << " in place of byte " << begin);
        check_import(each, which, text.substr(0, begin) + value + text.substr(begin + length),
                     framework);
        ++tried;
      }
    }
  });
  CHECK(tried > 1000);
}

TEST_CASE("bytes that are no text are read over or refused in words", "[interop]") {
  int turn = 0, tried = 0;
  for_each_file([&](const SettingsCase& each, std::size_t which, const std::string& text,
                    Framework framework) {
    for (const std::string& bytes :
         {std::string("\xff"), std::string("\xed\xa0\x80"), std::string("\xef\xbb\xbf"),
          std::string(1, '\0'), std::string("\xe2\x80\xa8"), std::string("\xc2\x85"),
          std::string("\x1b")})
      for (std::size_t at = 0; at <= text.size(); at += std::max<std::size_t>(1, text.size() / 9)) {
        if (at > 0 && !is_tried(++turn, 3)) continue;
        INFO(each.files[which] << ": bytes at " << at);
        check_import(each, which, text.substr(0, at) + bytes + text.substr(at), framework);
        ++tried;
      }
    std::string wide = "\xff\xfe";
    for (const char c : text) wide += {c, '\0'};
    check_import(each, which, wide, framework);
  });
  CHECK(tried > 500);
}

TEST_CASE("a byte order mark before settings says nothing", "[interop]") {
  const TestFolder folder;
  for (const auto& [name, text] :
       {std::pair{"a.sh", "python train.py --micro-batch-size 1 --num-layers 2\n"},
        {"a.yaml", "distributed_type: FSDP\n"},
        {"a.toml", "[parallelism]\ntensor_parallel_degree = 2\n"},
        {"a.json", "{\"train_batch_size\": 16}\n"}}) {
    const auto read = [&](const std::string& content) {
      return read_settings({folder.file(name, content)}, {}).settings.all();
    };
    const auto plain = read(text), marked = read(std::string("\xef\xbb\xbf") + text);
    INFO(name);
    REQUIRE(plain.size() == marked.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      CHECK(plain[i].name == marked[i].name);
      CHECK(plain[i].value == marked[i].value);
    }
  }
}

TEST_CASE("a comment of a script may be in another encoding but no setting", "[interop]") {
  const TestFolder folder;
  const auto read = [&](const std::string& text) {
    return read_settings({folder.file("a.sh", text)}, {});
  };
  CHECK(read("# caf\xe9\npython train.py --num-layers 2\n").settings.has("num-layers"));
  for (const std::string& text :
       {std::string("python train.py --num-layers 2 \\\n --save caf\xe9\n"),
        std::string("python train.py --num-layers 2 \\\n --caf\xe9 1\n"),
        std::string("python train.py --num-layers 2 \\\n --save a caf\xe9\n")}) {
    try {
      read(text);
      FAIL_CHECK("is read");
    } catch (const InputError& error) {
      CHECK(error.what() ==
            folder.file("a.sh") + ":2: holds a byte that is not UTF-8; write the file as UTF-8");
    }
  }
}

TEST_CASE("what --set says in another kind is refused by the reader of jobs", "[interop]") {
  int turn = 0;
  for_each_file(
      [&](const SettingsCase& each, std::size_t which, const std::string&, Framework framework) {
        if (which > 0 || !is_tried(++turn, 4)) return;
        for (const char* key : {"cluster",
                                "cluster.count",
                                "cluster.machine",
                                "cluster.processes_per_host",
                                "training",
                                "training.global_batch",
                                "training.micro_batch",
                                "training.sequence_length",
                                "training.steps",
                                "training.precision",
                                "parallelism",
                                "parallelism.tensor",
                                "parallelism.pipeline",
                                "parallelism.context",
                                "parallelism.data",
                                "parallelism.zero_stage",
                                "model",
                                "model.num_hidden_layers",
                                "distribution",
                                "name"})
          for (const char* value :
               {"0", "-1", "1e300", "1.5", "x", "[]", "[1]", "{}", "null", "true"}) {
            SettingsCase changed = each;
            changed.set.push_back(std::string(key) + "=" + value);
            INFO(each.files[0] << " --set " << changed.set.back());
            try {
              import_case(changed, framework, true);
            } catch (const InputError& error) {
              CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
            }
          }
      });
}
