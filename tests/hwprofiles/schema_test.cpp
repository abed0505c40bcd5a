// Compares the schema of profiles with their reader: every profile that the reader accepts is
// valid. Tries all profiles that come with the program, and thousands with random changes.
#include "hwprofiles/schema.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/one_in.h"
#include "tests/sanitized.h"
#include "tests/schema_check.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

bool reads(const json& profile) {
  try {
    machine_of_text(profile.dump(), "profile");
    return true;
  } catch (const InputError&) {
    return false;
  }
}

class ProfileMutator {
 public:
  // Changes one value or one key at a random place.
  void change(json& profile) {
    std::vector<json*> objects;
    collect(profile, objects);
    json& object = *objects[below(objects.size())];
    auto place = object.begin();
    std::advance(place, below(object.size()));
    const std::string key = place.key();
    if (key == "parts") return;
    const std::size_t kind = below(8);
    if (kind == 0) {
      object.erase(key);
    } else if (kind == 1) {
      object[key + "s"] = 1;
    } else if (kind < 4 && object[key].is_number()) {
      const double factors[] = {0, -1, 0.5, 2, 1e3, 1e-9, 1e12};
      object[key] = object[key].get<double>() * factors[below(std::size(factors))];
    } else {
      static const json values = json::parse(
          R"([-1, 0, 1, 2, 3, 0.5, 1.5, 1e5, 1e12, 1e30, true, false, "x", "gpu", "none", "nvswitch",
              "spec sheet", null, [], {}, [1], [[1, 0.5]], [[1, 2]], [[1, 0.5], [2, 0.6]], [0.5, 0.5],
              [1, 1, 1], ["a"], [[1]]])");
      object[key] = values[below(values.size())];
    }
  }
  std::size_t below(std::size_t end) { return random_() % end; }

 private:
  void collect(json& value, std::vector<json*>& objects) {
    if (value.is_object() && !value.empty()) objects.push_back(&value);
    if (value.is_structured())
      for (json& each : value) collect(each, objects);
  }
  std::mt19937_64 random_{11};
};

}  // namespace

TEST_CASE("every profile that comes with the program is valid", "[hwprofiles]") {
  const json schema = profile_schema();
  for (const std::string& name : list_machines()) {
    INFO(name);
    CHECK(is_valid(json::parse(read_file(profiles_folder() + "/" + name + ".json")), schema));
    CHECK(is_valid(json::parse(text_of(load_machine(name))), schema));
  }
}

TEST_CASE("what the reader of profiles takes is valid", "[hwprofiles]") {
  const json schema = profile_schema();
  std::vector<json> profiles;
  for (const char* name : {"p4d.24xlarge", "p3.16xlarge", "p5.48xlarge", "g4dn.xlarge"})
    profiles.push_back(json::parse(text_of(load_machine(name))));
  std::ifstream local(std::string(MESHWRIGHT_SOURCE_DIR) + "/tests/tools/local.json");
  profiles.push_back(json::parse(local));
  ProfileMutator mutate;
  int taken = 0, refused_by_both = 0, refused_by_reader = 0;
  const int mutants = sanitized ? 500 : 5'000 / one_in(5);
  for (int i = 0; i < mutants; ++i) {
    json profile = profiles[mutate.below(profiles.size())];
    REQUIRE(is_valid(profile, schema));
    mutate.change(profile);
    const bool valid = is_valid(profile, schema);
    if (reads(profile)) {
      ++taken;
      if (!valid) FAIL("not valid, and yet it is read: " << profile.dump());
    } else {
      ++(valid ? refused_by_reader : refused_by_both);
    }
  }
  CAPTURE(taken, refused_by_both, refused_by_reader);
  CHECK(taken > mutants / 10);
  CHECK(refused_by_both > 2 * refused_by_reader);
}
