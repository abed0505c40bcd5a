// Tells libFuzzer how to change inputs that are JSON. About half of the time one value is changed,
// so that the result is JSON again and gets past the parser. Otherwise, and for inputs that are not
// JSON, bytes are changed anywhere.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/fuzz/fuzz.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);

namespace {

using nlohmann::json;
using Random = std::minstd_rand;

std::size_t below(Random& random, std::size_t end) {
  return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
}

void list_values(json& value, std::vector<json*>& all) {
  all.push_back(&value);
  if (!value.is_structured()) return;
  for (json& part : value) list_values(part, all);
}

std::string mutated(std::string text) {
  const std::size_t size = text.size();
  text.resize(size + 16);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, text.size()));
  return text;
}

json other_number(Random& random) {
  constexpr double numbers[] = {0, 1, 2, 3, 4, 5, 8, 16, 64, 1000, -1, 0.5, 1e9, 3e9, 1e18, 1e300};
  const double number = numbers[below(random, std::size(numbers))];
  if (number < 1e18 && number == std::trunc(number)) return static_cast<std::int64_t>(number);
  return number;
}

void remove_or_add(json& object, Random& random) {
  if (object.empty()) return;
  auto key = object.begin();
  std::advance(key, below(random, object.size()));
  const json value = *key;
  const std::string name = key.key();
  if (below(random, 2) == 0)
    object.erase(key);
  else
    object[mutated(name)] = value;
}

void change(json& value, const json& another, Random& random) {
  const std::size_t how = below(random, 4);
  if (how == 0)
    value = another;
  else if (value.is_object())
    remove_or_add(value, random);
  else if (value.is_number() || how == 1)
    value = other_number(random);
  else if (value.is_boolean())
    value = !value.get<bool>();
  else if (value.is_string())
    value = mutated(value.get<std::string>());
  else
    value = nullptr;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t room, unsigned seed) {
  Random random(seed + 1);
  json value = json::parse(data, data + size, nullptr, false);
  if (value.is_discarded() || below(random, 2) == 0) return LLVMFuzzerMutate(data, size, room);
  std::vector<json*> values;
  list_values(value, values);
  const json another = *values[below(random, values.size())];
  change(*values[below(random, values.size())], another, random);
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > room) return LLVMFuzzerMutate(data, size, room);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
